/**
 * Owns the step from a tree to a Job: defaults, inheritance, and the rules between keys. Tells every fault it can see
 * in one go; a rule is judged only where the keys it needs were read without a fault.
 */
import { buildArtifact, buildDispatchPayload } from './artifact-rules.js';
import { readBlock, type Found, type LabelledBody } from './blocks.js';
import { DEFAULTS, USUAL_MOST_KILL_TIMEOUT_MS } from './defaults.js';
import { checkConfig, checkDriver } from './driver-rules.js';
import { checkName } from './names.js';
import { readLaunching } from './launch-rules.js';
import { resolveReschedule } from './reschedule-rules.js';
import { buildResources } from './resource-rules.js';
import { resolveRestart } from './restart-rules.js';
import { BESIDE_JOB, FILE } from './schema/file.js';
import type { GROUP } from './schema/group.js';
import { JOB } from './schema/job.js';
import type { Labelled } from './schema/key.js';
import type { TASK } from './schema/task.js';
import { checkStopSignals } from './stop-signals.js';
import { describeTree, down, nameOf, type Session, type Spot } from './session.js';
import { buildTemplate } from './template-rules.js';
import { toPlain, type MapNode } from './tree.js';
import { formatDuration } from './units.js';
import { buildVolumeMounts, buildVolumes } from './volume-rules.js';
import { quote } from './words.js';
import { resolvePorts, resolveServices, type ServicePlace } from './service-rules.js';
import { resolveTimes } from './time-rules.js';
import { resolveUpdate } from './update-rules.js';
import type { Job, JobType, Task, TaskGroup, TaskLifecycle } from './types.js';

type JobRead = Labelled<typeof JOB.keys>;
type GroupRead = Labelled<typeof GROUP.keys>;
type TaskRead = Labelled<typeof TASK.keys>;
type RestartRead = GroupRead['read']['keys']['restart'];

/** Reads the one job of a file. Undefined, or meaningless, when the session holds a fault afterwards. */
export function validateFile(tree: MapNode, session: Session): Job | undefined {
  const job = session.dialect === 'json' ? readApiJob(tree, session) : readFileJob(tree, session);
  return job === undefined ? undefined : buildJob(job, session);
}

function readFileJob(tree: MapNode, session: Session): JobRead | undefined {
  const [job, second] = readBlock(FILE, tree, '', session).keys.job;
  const spot = { at: tree.at, path: '' };
  if (job === undefined && !tree.entries.some((entry) => entry.key === 'job')) {
    session.fault(spot, 'the file holds no `job`');
  }
  if (second !== undefined)
    session.fault(second.labelSpot, 'a file holds one job: move this one to a file of its own');
  return job;
}

/** Nomad's JSON: the job itself, or an object with `Job`. */
function readApiJob(tree: MapNode, session: Session): JobRead | undefined {
  const outer = tree.entries.find((entry) => entry.key === 'Job');
  if (outer === undefined) return readJsonJob(tree, '', session);
  for (const { key, keyAt } of tree.entries) {
    if (key === 'Job' || BESIDE_JOB.some((known) => known === key)) continue;
    session.fault({ at: keyAt, path: key }, `there is no key \`${key}\` beside \`Job\``);
  }
  if (outer.value.kind === 'map') return readJsonJob(outer.value, 'Job', session);
  session.fault(
    { at: outer.value.at, path: 'Job' },
    `\`Job\`: expected a map, found ${describeTree(outer.value)}`,
  );
  return undefined;
}

function readJsonJob(body: MapNode, path: string, session: Session): JobRead {
  const id = body.entries.find((entry) => entry.key === 'ID')?.value;
  const label = id?.kind === 'scalar' && typeof id.value === 'string' ? id.value : undefined;
  if (label === undefined) {
    session.fault({ at: id?.at ?? body.at, path: down(path, 'ID') }, 'the job needs a string `ID`');
  }
  const labelSpot = { at: id?.at ?? body.at, path: down(path, 'ID') };
  return { label: label ?? 'x', labelSpot, body, path, read: readBlock(JOB, body, path, session) };
}

function buildJob(job: JobRead, session: Session): Job {
  const { keys } = job.read;
  checkName('job', job, session);
  const type = valueOf(keys.type) ?? DEFAULTS.type.value;
  const groups = [...keys.group, ...keys.task.map(groupOfTask)];
  if (groups.length === 0) tellNone('group', job, session);
  tellTwice('group', groups, session);
  return {
    id: job.label,
    name: valueOf(keys.name) ?? job.label,
    namespace: valueOf(keys.namespace) ?? DEFAULTS.namespace.value,
    region: valueOf(keys.region) ?? DEFAULTS.region.value,
    datacenters: valueOf(keys.datacenters) ?? DEFAULTS.datacenters.value,
    type,
    priority: valueOf(keys.priority) ?? DEFAULTS.priority.value,
    meta: valueOf(keys.meta) ?? {},
    groups: groups.map((group) => buildGroup(group, { type, job }, session)),
    ...readLaunching(type, keys, session),
  };
}

/** A task right under the job is a group of its own name. */
function groupOfTask(task: TaskRead): GroupRead {
  const none = { count: undefined, meta: undefined, restart: undefined };
  const times = { shutdown_delay: undefined, max_run_duration: undefined };
  const around = { network: [], service: [], volume: [] };
  const keys = { ...none, ...times, ...around, reschedule: undefined, update: undefined, task: [task] };
  return { ...task, read: { keys, clean: true, path: task.path, at: task.read.at } };
}

function buildGroup(
  group: GroupRead,
  { type, job }: { readonly type: JobType; readonly job: JobRead },
  session: Session,
): TaskGroup {
  const { keys } = group.read;
  checkName('group', group, session);
  if (keys.task.length === 0) tellNone('task', group, session);
  tellTwice('task', keys.task, session);
  checkLeaders(keys.task, session);
  if (type === 'system' && keys.count !== undefined && keys.count.value > 1) {
    session.fault(keys.count.spot, 'a `system` job runs once on this host: `count` can be 0 or 1');
  }
  const ofJob = job.read.keys;
  const ports = resolvePorts(keys.network, group.labelSpot, session);
  const place: Omit<ServicePlace, 'task' | 'spot'> = {
    defaultName: `${job.label}-${group.label}`,
    ports: (ports ?? []).map(({ label }) => label),
    tasks: keys.task.map(({ label }) => label),
  };
  const services = resolveServices(
    keys.service,
    { ...place, task: undefined, spot: group.labelSpot },
    session,
  );
  const volumes = buildVolumes(keys.volume);
  tellTwice('volume', keys.volume, session);
  const strategy = resolveUpdate({ type, job: ofJob.update, group: keys.update }, session);
  return {
    name: group.label,
    count: valueOf(keys.count) ?? DEFAULTS.count.value,
    meta: valueOf(keys.meta) ?? {},
    tasks: keys.task.map((task) =>
      buildTask(
        task,
        { type, group: keys.restart, place, volumes: keys.volume.map(({ label }) => label) },
        session,
      ),
    ),
    ...(ports === undefined ? {} : { ports }),
    ...(volumes === undefined ? {} : { volumes }),
    ...(services === undefined ? {} : { services }),
    ...resolveTimes(
      {
        type,
        shutdownDelay: keys.shutdown_delay,
        maxRun: keys.max_run_duration ?? ofJob.max_run_duration,
      },
      session,
    ),
    ...(strategy === undefined ? {} : { update: strategy }),
    ...resolveReschedule({ type, job: ofJob.reschedule, group: keys.reschedule }, session),
  };
}

function buildTask(
  task: TaskRead,
  around: {
    readonly type: JobType;
    readonly group: RestartRead;
    readonly place: Omit<ServicePlace, 'task' | 'spot'>;
    /** Labels of the group's volumes. */
    readonly volumes: readonly string[];
  },
  session: Session,
): Task {
  const { keys } = task.read;
  checkName('task', task, session);
  const driver = keys.driver === undefined ? undefined : checkDriver(keys.driver, session);
  const config = keys.config?.value;
  const place = keys.config?.spot ?? task.labelSpot;
  if (driver !== undefined) checkConfig(driver, config, place, session);
  warnOfLongKill(keys.kill_timeout, session);
  const name = `${around.place.defaultName}-${task.label}`;
  const here: ServicePlace = { ...around.place, defaultName: name, task: task.label, spot: task.labelSpot };
  const services = resolveServices(keys.service, here, session);
  const volumeMounts = buildVolumeMounts(
    keys.volume_mount,
    { volumes: around.volumes, driver: keys.driver },
    session,
  );
  return {
    name: task.label,
    driver: valueOf(keys.driver) ?? '',
    config: config === undefined ? {} : plainObject(config),
    env: valueOf(keys.env) ?? {},
    user: valueOf(keys.user),
    meta: valueOf(keys.meta) ?? {},
    resources: buildResources(valueOf(keys.resources), session),
    restart: resolveRestart({ ...around, task: keys.restart, place: task.labelSpot }, session),
    ...checkStopSignals(keys, DEFAULTS.killTimeoutMs.value, session),
    killSignal: valueOf(keys.kill_signal),
    shutdownDelayMs: valueOf(keys.shutdown_delay) ?? DEFAULTS.shutdownDelayMs.value,
    logs: {
      maxFiles: valueOf(keys.logs?.value.keys.max_files) ?? DEFAULTS.maxFiles.value,
      maxFileSizeMib: valueOf(keys.logs?.value.keys.max_file_size) ?? DEFAULTS.maxFileSizeMib.value,
      disabled: valueOf(keys.logs?.value.keys.disabled) ?? DEFAULTS.logsDisabled.value,
      ...(valueOf(keys.logs?.value.keys.compress) === true ? { compress: true } : {}),
    },
    ...checkLeftovers(keys.leftovers, keys.leftovers_timeout, session),
    leader: valueOf(keys.leader) ?? DEFAULTS.leader.value,
    lifecycle: buildLifecycle(keys.lifecycle, session),
    ...(services === undefined ? {} : { services }),
    ...(volumeMounts === undefined ? {} : { volumeMounts }),
    ...buildSetUp(task, session),
  };
}

/** What is made and fetched before the task starts; what nobody asked for is not there. */
function buildSetUp(
  { read: { keys } }: TaskRead,
  session: Session,
): Pick<Task, 'artifacts' | 'templates' | 'dispatchPayload'> {
  const artifacts = keys.artifact.map((artifact) => buildArtifact(artifact, session));
  const templates = keys.template.map((template) => buildTemplate(template, session));
  const dispatchPayload =
    keys.dispatch_payload === undefined ? undefined : buildDispatchPayload(keys.dispatch_payload, session);
  return {
    ...(artifacts.length === 0 ? {} : { artifacts }),
    ...(templates.length === 0 ? {} : { templates }),
    ...(dispatchPayload === undefined ? {} : { dispatchPayload }),
  };
}

/** What is to stay is not waited for. */
function checkLeftovers(
  leftovers: Found<Task['leftovers']> | undefined,
  timeout: Found<number> | undefined,
  session: Session,
): Pick<Task, 'leftovers' | 'leftoversTimeoutMs'> {
  if (leftovers?.value === 'keep' && timeout !== undefined) {
    const message =
      '`leftovers_timeout` says when they are killed, and `leftovers = "keep"` that they are not';
    session.fault(timeout.spot, message, 'remove one of them');
  }
  return {
    leftovers: leftovers?.value ?? DEFAULTS.leftovers.value,
    ...(timeout === undefined || timeout.value === DEFAULTS.leftoversTimeoutMs.value
      ? {}
      : { leftoversTimeoutMs: timeout.value }),
  };
}

/** What the agent will do about it is no fault of the file, but nobody should be surprised by it. */
function warnOfLongKill(timeout: Found<number> | undefined, session: Session): void {
  if (timeout === undefined || timeout.value <= USUAL_MOST_KILL_TIMEOUT_MS) return;
  const [asked, most] = [timeout.value, USUAL_MOST_KILL_TIMEOUT_MS].map(formatDuration);
  const message = `${nameOf(timeout.spot)}: the agent shortens ${asked ?? ''} to its max_kill_timeout, usually ${most ?? ''}`;
  session.warn(timeout.spot, message, 'raise max_kill_timeout in the configuration of the agent');
}

/** Tells of a missing group or task, unless something was there that could not be read. */
function buildLifecycle(
  block: TaskRead['read']['keys']['lifecycle'],
  session: Session,
): TaskLifecycle | undefined {
  const hook = valueOf(block?.value.keys.hook);
  if (block === undefined || hook === undefined) return undefined;
  const { sidecar } = block.value.keys;
  if (hook === 'poststop' && sidecar?.value === true) {
    session.fault(sidecar.spot, 'a `poststop` task cannot be a sidecar: there is nothing left to run beside');
  }
  return { hook, sidecar: valueOf(sidecar) ?? DEFAULTS.sidecar.value };
}

function checkLeaders(tasks: readonly TaskRead[], session: Session): void {
  const leaders = tasks.flatMap(({ read }) => (read.keys.leader?.value === true ? [read.keys.leader] : []));
  for (const leader of leaders.slice(1)) {
    session.fault(leader.spot, 'only one task of a group can be its leader');
  }
}

function tellNone(what: 'group' | 'task', { label, labelSpot, path }: LabelledBody, session: Session): void {
  const keys = what === 'group' ? ['group', 'task', 'TaskGroups'] : ['task', 'Tasks'];
  const tried = session.faults.some((fault) => keys.some((key) => fault.path.startsWith(down(path, key))));
  if (tried) return;
  const around = what === 'group' ? 'job' : 'group';
  const hint = session.dialect === 'hcl' ? `add \`${what} "name" { … }\`` : undefined;
  session.fault(
    labelSpot,
    `${around === 'job' ? 'the job' : `${around} ${JSON.stringify(label)}`} has no ${what}`,
    hint,
  );
}

function tellTwice(what: string, bodies: readonly LabelledBody[], session: Session): void {
  const seen = new Map<string, Spot>();
  for (const { label, labelSpot } of bodies) {
    const first = seen.get(label);
    if (first === undefined) {
      seen.set(label, labelSpot);
    } else {
      const message = `there is a ${what} ${quote(label)} already, at ${session.placeOf(first)}`;
      session.fault(labelSpot, message);
    }
  }
}

function valueOf<T>(found: Found<T> | undefined): T | undefined {
  return found?.value;
}

function plainObject(node: MapNode): Record<string, unknown> {
  return toPlain(node) as Record<string, unknown>;
}
