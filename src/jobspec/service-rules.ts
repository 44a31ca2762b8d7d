/** Owns how the services, checks and ports of a group come about, and the rules between their keys. */
import type { BlockRead, Found, Values } from './blocks.js';
import { BOUNDS, CHECK_DEFAULTS } from './defaults.js';
import type { CHECK, CHECK_RESTART } from './schema/check.js';
import type { NETWORK } from './schema/network.js';
import type { SERVICE } from './schema/service.js';
import { nameOf, type Session, type Spot } from './session.js';
import type { CheckProbe, CheckRestart, Port, Service, ServiceCheck } from './types.js';
import { formatDuration } from './units.js';
import { didYouMean, quote } from './words.js';

type NetworkRead = BlockRead<typeof NETWORK.keys>;
type ServiceRead = BlockRead<typeof SERVICE.keys>;
type CheckKeys = Values<typeof CHECK.keys>;
type RestartRead = Found<BlockRead<typeof CHECK_RESTART.keys>> | undefined;

/** What services refer to. */
export interface ServicePlace {
  /** `<job>-<group>`, or `<job>-<group>-<task>`. */
  readonly defaultName: string;
  /** The labels of the group's ports. */
  readonly ports: readonly string[];
  /** The tasks of the group. */
  readonly tasks: readonly string[];
  /** The task that the services stand in; undefined = in the group. */
  readonly task: string | undefined;
  /** Of the block around them, for faults without a key. */
  readonly spot: Spot;
}

/** The ports of a group; undefined = none. */
export function resolvePorts(
  networks: readonly NetworkRead[],
  spot: Spot,
  session: Session,
): readonly Port[] | undefined {
  const [first, second] = networks;
  if (second !== undefined)
    session.fault({ ...spot, path: second.path }, 'a group has one `network`', 'put all its ports into one');
  const seen = new Set<string>();
  const owners = new Map<number, string>();
  const ports = (first?.keys.port ?? []).map(({ label, labelSpot, read }): Port => {
    if (!/^[A-Za-z0-9_-]+$/.test(label)) {
      session.fault(
        labelSpot,
        `bad port label ${quote(label)}: it may hold letters, digits, \`_\` and \`-\``,
      );
    } else if (/^\d+$/.test(label)) {
      session.fault(labelSpot, `bad port label ${quote(label)}: it reads as a number of a port`);
    } else if (seen.has(label)) session.fault(labelSpot, `there is a port ${quote(label)} already`);
    seen.add(label);
    const number = read.keys.static;
    const other = number === undefined ? undefined : owners.get(number.value);
    if (number !== undefined && other !== undefined)
      session.fault(number.spot, `port ${quote(other)} of this group is ${number.value} already`);
    if (number !== undefined) owners.set(number.value, label);
    return { label, static: number?.value };
  });
  return ports.length === 0 ? undefined : ports;
}

/** Why a text is no name of a service, for people; undefined = it is one. The rule is that of labels of host names, as in Nomad. */
export function whyBadServiceName(name: string): string | undefined {
  if (/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(name)) return undefined;
  return 'it may hold letters, digits and `-` (not at its ends), and no more than 63 of them';
}

/** The services of a group or task; undefined = none. */
export function resolveServices(
  services: readonly ServiceRead[],
  place: ServicePlace,
  session: Session,
): readonly Service[] | undefined {
  if (services.length === 0) return undefined;
  return services.map(({ keys }): Service => {
    const task = place.task ?? keys.task?.value;
    if (keys.task !== undefined) checkTask(keys.task, place, session);
    if (keys.port !== undefined) checkPort(keys.port, place, session);
    const name = keys.name?.value ?? place.defaultName;
    // With a `${…}` it is known when the task is set up.
    const bad = keys.name?.value.includes('${') === false ? whyBadServiceName(name) : undefined;
    if (keys.name !== undefined && bad !== undefined)
      session.fault(keys.name.spot, `bad service name ${quote(name)}: ${bad}`);
    return {
      name,
      tags: keys.tags?.value ?? [],
      checks: keys.check.flatMap((check) => {
        const resolved = resolveCheck(check.keys, { service: keys, name, task }, place, session);
        return check.clean && resolved !== undefined ? [resolved] : [];
      }),
    };
  });
}

interface Around {
  readonly service: ServiceRead['keys'];
  readonly name: string;
  readonly task: string | undefined;
}

function resolveCheck(
  keys: CheckKeys,
  around: Around,
  place: ServicePlace,
  session: Session,
): ServiceCheck | undefined {
  for (const time of [keys.interval, keys.timeout]) {
    const least = BOUNDS.checkIntervalMs.least;
    if (time !== undefined && time.value < least) {
      session.fault(time.spot, `${nameOf(time.spot)}: it must be at least ${formatDuration(least)}`);
    }
  }
  if (keys.task !== undefined) checkTask(keys.task, place, session);
  const task = keys.task?.value ?? around.task;
  const probe = resolveProbe(keys, around.service, task, place, session);
  if (probe === undefined || keys.interval === undefined || keys.timeout === undefined) return undefined;
  return {
    name: keys.name?.value ?? `service: "${around.name}" check`,
    probe,
    intervalMs: keys.interval.value,
    timeoutMs: keys.timeout.value,
    task,
    initialStatus: keys.initial_status?.value,
    successBeforePassing: keys.success_before_passing?.value ?? 0,
    failuresBeforeCritical: keys.failures_before_critical?.value ?? 0,
    onUpdate: (keys.on_update ?? around.service.on_update)?.value ?? CHECK_DEFAULTS.onUpdate,
    restart: resolveRestartOf(keys.check_restart ?? around.service.check_restart),
  };
}

function resolveProbe(
  keys: CheckKeys,
  service: ServiceRead['keys'],
  task: string | undefined,
  place: ServicePlace,
  session: Session,
): CheckProbe | undefined {
  const { type } = keys;
  if (type === undefined) return undefined;
  if (type.value === 'script') {
    if (keys.command === undefined) session.fault(type.spot, 'a `script` check needs `command`');
    if (task === undefined) {
      session.fault(type.spot, 'a `script` check of a group needs `task`: it runs in one');
    }
    return { kind: 'script', command: keys.command?.value ?? '', args: keys.args?.value ?? [] };
  }
  if (keys.command !== undefined) {
    session.fault(keys.command.spot, `a \`${type.value}\` check has no \`command\`: only \`script\` has`);
  }
  const port = keys.port ?? service.port;
  if (port === undefined) {
    session.fault(type.spot, `a \`${type.value}\` check needs \`port\`, of its own or of its service`);
    return undefined;
  }
  if (keys.port !== undefined) checkPort(keys.port, place, session);
  const address = service.address?.value ?? '127.0.0.1';
  if (type.value === 'tcp') return { kind: 'tcp', address, port: port.value };
  return {
    kind: 'http',
    address,
    port: port.value,
    protocol: keys.protocol?.value ?? CHECK_DEFAULTS.protocol,
    path: keys.path?.value ?? CHECK_DEFAULTS.path,
    method: (keys.method?.value ?? CHECK_DEFAULTS.method).toUpperCase(),
    headers: keys.header?.value ?? {},
    body: keys.body?.value ?? '',
    skipVerify: keys.tls_skip_verify?.value ?? false,
    serverName: keys.tls_server_name?.value,
  };
}

function resolveRestartOf(block: RestartRead): CheckRestart | undefined {
  const keys = block?.value.keys;
  const limit = keys?.limit?.value ?? 0;
  if (limit === 0) return undefined;
  return {
    limit,
    graceMs: keys?.grace?.value ?? CHECK_DEFAULTS.graceMs,
    ignoreWarnings: keys?.ignore_warnings?.value ?? false,
  };
}

function checkTask({ value, spot }: Found<string>, { tasks }: ServicePlace, session: Session): void {
  if (tasks.includes(value)) return;
  session.fault(spot, `there is no task ${quote(value)} in the group`, didYouMean(value, tasks));
}

function checkPort({ value, spot }: Found<string>, { ports }: ServicePlace, session: Session): void {
  if (/^\d+$/.test(value)) {
    const { least, most } = BOUNDS.port;
    if (Number(value) >= least && Number(value) <= most) return;
    session.fault(spot, `${nameOf(spot)}: a port is a number from ${least} to ${most}`);
  } else if (!ports.includes(value)) {
    const hint = didYouMean(value, ports) ?? 'name a port of the group’s `network`, or write a number';
    session.fault(spot, `the group has no port ${quote(value)}`, hint);
  }
}
