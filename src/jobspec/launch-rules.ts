/** Owns the rules for jobs that run nothing themselves: those started by the clock, and those that are dispatched. */
import type { BlockRead, Found } from './blocks.js';
import { whyBadCron, whyBadTimeZone } from './cron.js';
import type { PARAMETERIZED } from './schema/parameterized.js';
import type { PERIODIC } from './schema/periodic.js';
import type { Session } from './session.js';
import type { Job, JobType, ParameterizedSpec, PeriodicSpec } from './types.js';

type PeriodicBlock = Found<BlockRead<typeof PERIODIC.keys>> | undefined;
type ParameterizedBlock = Found<BlockRead<typeof PARAMETERIZED.keys>> | undefined;

/** The parts of a job that say how it is launched; nothing for a job that simply runs. */
export function readLaunching(
  type: JobType,
  keys: { readonly periodic: PeriodicBlock; readonly parameterized: ParameterizedBlock },
  session: Session,
): Pick<Job, 'periodic' | 'parameterized'> {
  for (const [name, block] of [
    ['periodic', keys.periodic],
    ['parameterized', keys.parameterized],
  ] as const) {
    if (block === undefined || type === 'batch' || type === 'sysbatch') continue;
    session.fault(
      block.spot,
      `\`${name}\` is for batch and sysbatch jobs, this one is \`${type}\``,
      'set `type = "batch"`',
    );
  }
  if (keys.periodic !== undefined && keys.parameterized !== undefined) {
    session.fault(keys.parameterized.spot, 'a job cannot be both `periodic` and `parameterized`');
  }
  const periodic = keys.periodic && readPeriodic(keys.periodic, session);
  const parameterized = keys.parameterized && readParameterized(keys.parameterized, session);
  return {
    ...(periodic === undefined ? {} : { periodic }),
    ...(parameterized === undefined ? {} : { parameterized }),
  };
}

function readPeriodic({ value, spot }: NonNullable<PeriodicBlock>, session: Session): PeriodicSpec {
  const { keys, clean } = value;
  const listed = keys.crons?.value ?? [];
  // Nomad's JSON writes one expression into both.
  if (keys.cron !== undefined && listed.length > 0 && session.dialect !== 'json') {
    session.fault(keys.cron.spot, 'write `cron` or `crons`, not both');
  }
  const crons = listed.length > 0 ? listed : keys.cron === undefined ? [] : [keys.cron.value];
  const timeZone = keys.time_zone?.value ?? 'UTC';
  if (crons.length === 0 && clean) session.fault(spot, '`periodic` needs `cron` or `crons`');
  const badZone = keys.time_zone === undefined ? undefined : whyBadTimeZone(timeZone);
  if (keys.time_zone !== undefined && badZone !== undefined) session.fault(keys.time_zone.spot, badZone);
  const place = keys.crons ?? keys.cron;
  for (const cron of place === undefined ? [] : crons) {
    const why = whyBadCron(cron);
    if (why !== undefined && place !== undefined)
      session.fault(place.spot, `bad cron expression ${JSON.stringify(cron)}: ${why}`);
  }
  return {
    crons,
    timeZone,
    prohibitOverlap: keys.prohibit_overlap?.value ?? false,
    enabled: keys.enabled?.value ?? true,
  };
}

function readParameterized(
  { value }: NonNullable<ParameterizedBlock>,
  session: Session,
): ParameterizedSpec | undefined {
  const { keys } = value;
  const metaRequired = keys.meta_required?.value ?? [];
  const metaOptional = keys.meta_optional?.value ?? [];
  const both = metaRequired.find((key) => metaOptional.includes(key));
  if (both !== undefined && keys.meta_optional !== undefined) {
    session.fault(keys.meta_optional.spot, `${JSON.stringify(both)} cannot be both required and optional`);
  }
  return { payload: keys.payload?.value ?? 'optional', metaRequired, metaOptional };
}
