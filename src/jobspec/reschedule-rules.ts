/** Owns how the reschedule policy of a group comes about (group over job over defaults) and the rules for it. */
import type { BlockRead, Found, Values } from './blocks.js';
import { BOUNDS, RESCHEDULE_DEFAULTS } from './defaults.js';
import type { RESCHEDULE } from './schema/reschedule.js';
import type { Session } from './session.js';
import type { JobType, ReschedulePolicy, TaskGroup } from './types.js';
import { formatDuration } from './units.js';

type Keys = Values<typeof RESCHEDULE.keys>;
type Block = Found<BlockRead<typeof RESCHEDULE.keys>> | undefined;

export interface RescheduleSources {
  readonly type: JobType;
  readonly job: Block;
  readonly group: Block;
}

/** The part of a group that says what follows when an alloc has failed. */
export function resolveReschedule(
  { type, job, group }: RescheduleSources,
  session: Session,
): Pick<TaskGroup, 'reschedule'> {
  if (type === 'system' || type === 'sysbatch') {
    const asked = group ?? job;
    const isSet = asked !== undefined && Object.values(asked.value.keys).some((key) => Boolean(key?.value));
    if (asked !== undefined && (isSet || session.dialect !== 'json'))
      tellOnce(session, asked, `\`reschedule\` is for service and batch jobs, this one is \`${type}\``);
    return {};
  }
  const base = RESCHEDULE_DEFAULTS[type];
  const ofGroup: Partial<Keys> = group?.value.keys ?? {};
  const ofJob: Partial<Keys> = job?.value.keys ?? {};
  const attempts = ofGroup.attempts ?? ofJob.attempts;
  const unlimited = ofGroup.unlimited ?? ofJob.unlimited;
  const policy: ReschedulePolicy = {
    attempts: attempts?.value ?? base.attempts,
    intervalMs: (ofGroup.interval ?? ofJob.interval)?.value ?? base.intervalMs,
    delayMs: (ofGroup.delay ?? ofJob.delay)?.value ?? base.delayMs,
    delayFunction: (ofGroup.delay_function ?? ofJob.delay_function)?.value ?? base.delayFunction,
    maxDelayMs: (ofGroup.max_delay ?? ofJob.max_delay)?.value ?? base.maxDelayMs,
    unlimited: unlimited?.value ?? (base.unlimited && (attempts?.value ?? 0) === 0),
  };
  const isOff = !policy.unlimited && policy.attempts === 0;
  if ((group?.value.clean ?? true) && (job?.value.clean ?? true) && !isOff) {
    checkPolicy(policy, { attempts, unlimited, ofGroup, ofJob, block: group ?? job }, session);
  }
  return { reschedule: policy };
}

interface Written {
  readonly attempts: Keys['attempts'];
  readonly unlimited: Keys['unlimited'];
  readonly ofGroup: Partial<Keys>;
  readonly ofJob: Partial<Keys>;
  readonly block: Block;
}

function checkPolicy(policy: ReschedulePolicy, written: Written, session: Session): void {
  const { ofGroup, ofJob, block } = written;
  const tell = (key: keyof Keys, message: string, hint?: string): void => {
    const at = ofGroup[key] ?? ofJob[key] ?? block;
    if (at !== undefined) tellOnce(session, at, message, hint);
  };
  const { attempts, intervalMs, delayMs, delayFunction, maxDelayMs, unlimited } = policy;
  if (unlimited && attempts > 0) {
    tell('attempts', `reschedule: \`attempts\` of ${attempts} and \`unlimited\` contradict each other`);
  } else if (!unlimited && intervalMs === 0) {
    tell('attempts', 'reschedule: `attempts` needs an `interval` in which they are counted');
  }
  if (delayMs < BOUNDS.rescheduleDelayMs.least) {
    const least = formatDuration(BOUNDS.rescheduleDelayMs.least);
    tell('delay', `reschedule: \`delay\` must be at least ${least}, found ${formatDuration(delayMs)}`);
  } else if (delayFunction !== 'constant' && maxDelayMs < delayMs) {
    const [most, first] = [maxDelayMs, delayMs].map(formatDuration);
    tell(
      'max_delay',
      `reschedule: \`max_delay\` (${most}) is less than \`delay\` (${first})`,
      'a delay that grows needs an upper bound',
    );
  }
}

/** Groups that inherit the same block have the same fault: once is enough. */
function tellOnce(session: Session, { spot }: Found<unknown>, message: string, hint?: string): void {
  const isTold = session.faults.some((fault) => fault.path === spot.path && fault.message === message);
  if (!isTold) session.fault(spot, message, hint);
}
