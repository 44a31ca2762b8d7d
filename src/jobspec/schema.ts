/**
 * Owns the tables of all blocks and keys of a job file: names in both spellings, type, default, meaning, and what
 * Nomad has here that holdfast has not yet. The validator reads them, and docs/jobspec.md is made from them: it is
 * long because all of it is one table.
 */
import {
  readBlock,
  type BlockRead,
  type BlockSpec,
  type Key,
  type KeyDoc,
  type Keys,
  type LabelledBody,
  type Many,
} from './blocks.js';
import { BOUNDS, DEFAULTS, RESTART_DEFAULTS } from './defaults.js';
import type { Dialect } from './session.js';
import { JOB_TYPES, LIFECYCLE_HOOKS } from './types.js';
import type { MapNode } from './tree.js';
import { formatDuration } from './units.js';
import {
  bool,
  checkEnvKey,
  checkMetaKey,
  durationMs,
  filledText,
  mib,
  oneOf,
  real,
  signal,
  textMap,
  texts,
  whole,
  type Reader,
} from './values.js';

function one<T>(read: Reader<T>, doc: KeyDoc): Key<T> {
  return { kind: 'one', read, ...doc };
}

function block<K extends Keys>(spec: BlockSpec<K>, doc: Omit<KeyDoc, 'type'>): Key<BlockRead<K>> {
  const read: Reader<BlockRead<K>> = (node, spot, session) =>
    node.kind === 'map' ? readBlock(spec, node, spot.path, session) : session.wanted('a block', node, spot);
  return { kind: 'one', type: 'block', read, ...doc };
}

/** A labelled block that was read. */
export interface Labelled<K extends Keys> extends LabelledBody {
  readonly read: BlockRead<K>;
}

function many<K extends Keys>(spec: BlockSpec<K>, doc: Omit<KeyDoc, 'type'>): Many<Labelled<K>> {
  return {
    kind: 'many',
    type: 'labelled block',
    read: (one, session) => ({ ...one, read: readBlock(spec, one.body, one.path, session) }),
    ...doc,
  };
}

/** Kept as it is: the schema of the driver judges it. */
const untouched: Reader<MapNode> = (node, spot, session) =>
  node.kind === 'map' ? node : session.wanted('a block', node, spot);

function bounds({ least, most }: { readonly least: number; readonly most: number }): string {
  return `${least}…${most}`;
}

const { service, batch } = RESTART_DEFAULTS;

const meta = one(textMap(checkMetaKey), {
  json: 'Meta',
  type: 'map of strings',
  doc: 'Facts of your own. They reach each task as `NOMAD_META_<key>` and `${meta.<key>}`; the nearest level wins.',
});

export const RESTART = {
  name: 'restart',
  keys: {
    attempts: one(whole(BOUNDS.attempts), {
      json: 'Attempts',
      type: 'number',
      default: `${service.attempts} (service, system), ${batch.attempts} (batch, sysbatch)`,
      doc: 'Restarts allowed within `interval`. 0 needs `mode = "fail"`.',
    }),
    interval: one(durationMs, {
      json: 'Interval',
      type: 'duration',
      default: `${formatDuration(service.intervalMs)} (service, system), ${formatDuration(batch.intervalMs)} (batch, sysbatch)`,
      doc: 'Window in which restarts are counted; at least 5s, and `attempts` × `delay` must fit into it.',
    }),
    delay: one(durationMs, {
      json: 'Delay',
      type: 'duration',
      default: formatDuration(service.delayMs),
      doc: 'Wait before a restart.',
    }),
    mode: one(oneOf(['fail', 'delay']), {
      json: 'Mode',
      type: '`fail` or `delay`',
      default: service.mode,
      doc: 'When the attempts are used up: fail the task, or wait until the interval ends and go on.',
    }),
    factor: one(real(BOUNDS.factor), {
      json: 'Factor',
      type: 'number',
      default: String(service.factor),
      ours: true,
      doc: 'The delay grows by this with each restart in the window; 1 = it stays the same.',
    }),
    max_delay: one(durationMs, {
      json: 'MaxDelay',
      type: 'duration',
      ours: true,
      doc: 'Upper bound of a grown delay.',
    }),
    jitter: one(real(BOUNDS.jitter), {
      json: 'Jitter',
      type: `number (${bounds(BOUNDS.jitter)})`,
      default: String(service.jitter),
      ours: true,
      doc: 'Up to this fraction of the delay is added at random, so that tasks do not restart in step.',
    }),
    reset_after: one(durationMs, {
      json: 'ResetAfter',
      type: 'duration',
      ours: true,
      doc: 'A run that lasted this long clears the count of restarts.',
    }),
  },
  notYet: { render_templates: 'RenderTemplates' },
} as const satisfies BlockSpec<Keys>;

export const RESOURCES = {
  name: 'resources',
  keys: {
    cpu: one(whole(BOUNDS.cpuMhz), {
      json: 'CPU',
      type: 'number (MHz)',
      default: String(DEFAULTS.cpuMhz.value),
      doc: 'Share of the CPU when it is short; no limit while it is not.',
    }),
    memory: one(mib(BOUNDS.memoryMib), {
      json: 'MemoryMB',
      type: 'number (MiB) or size',
      default: String(DEFAULTS.memoryMib.value),
      doc: 'Memory of the task; its hard limit unless `memory_max` is set. At least 10. As text: `"256MiB"`, `"2GiB"`.',
    }),
    memory_max: one(mib({ ...BOUNDS.memoryMib, least: -1 }), {
      json: 'MemoryMaxMB',
      type: 'number (MiB) or size',
      doc: 'Hard limit above `memory`; -1 = no hard limit.',
    }),
    cpu_percent: one(whole(BOUNDS.cpuPercent), {
      json: 'CPUPercent',
      type: 'number',
      ours: true,
      doc: 'Hard quota in percent of one core; 150 = one and a half cores.',
    }),
    pids: one(whole(BOUNDS.pids), {
      json: 'Pids',
      type: 'number',
      ours: true,
      doc: 'Most processes and threads the task may have.',
    }),
  },
  notYet: {
    cores: 'Cores',
    device: 'Devices',
    disk: 'DiskMB',
    iops: 'IOPS',
    network: 'Networks',
    numa: 'NUMA',
    secrets: 'SecretsMB',
  },
} as const satisfies BlockSpec<Keys>;

export const LOGS = {
  name: 'logs',
  keys: {
    max_files: one(whole(BOUNDS.maxFiles), {
      json: 'MaxFiles',
      type: 'number',
      default: String(DEFAULTS.maxFiles.value),
      doc: 'Files kept for each of stdout and stderr; the oldest is dropped.',
    }),
    max_file_size: one(mib(BOUNDS.maxFileSizeMib), {
      json: 'MaxFileSizeMB',
      type: 'number (MiB) or size',
      default: String(DEFAULTS.maxFileSizeMib.value),
      doc: 'Size at which a new file is begun.',
    }),
    disabled: one(bool, {
      json: 'Disabled',
      type: 'bool',
      default: String(DEFAULTS.logsDisabled.value),
      doc: 'Keep no output at all.',
    }),
  },
  notYet: { enabled: 'Enabled' },
} as const satisfies BlockSpec<Keys>;

export const LIFECYCLE = {
  name: 'lifecycle',
  keys: {
    hook: one(oneOf(LIFECYCLE_HOOKS), {
      json: 'Hook',
      type: '`prestart`, `poststart` or `poststop`',
      required: true,
      doc: 'Before the main tasks start, after they have started, or after all others have ended.',
    }),
    sidecar: one(bool, {
      json: 'Sidecar',
      type: 'bool',
      default: String(DEFAULTS.sidecar.value),
      doc: 'Run beside the main tasks until they end, instead of once to its end. Not with `poststop`.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;

export const TASK = {
  name: 'task',
  keys: {
    driver: one(filledText, {
      json: 'Driver',
      type: 'string',
      required: true,
      doc: 'How the task is run: `raw_exec`, or `mock_driver` to try a job file without running anything.',
    }),
    config: one(untouched, {
      json: 'Config',
      type: 'block',
      doc: "The driver's own keys; see below.",
    }),
    env: one(textMap(checkEnvKey), {
      json: 'Env',
      type: 'map of strings',
      doc: 'Environment of the task, beside the `NOMAD_…` variables. Values may hold `${…}`.',
    }),
    user: one(filledText, {
      json: 'User',
      type: 'string',
      doc: "User name or id to run as; without it, the driver's default.",
    }),
    meta,
    resources: block(RESOURCES, { json: 'Resources', doc: 'What the task may use.' }),
    restart: block(RESTART, {
      json: 'RestartPolicy',
      doc: 'What follows when the task ends. Keys not set here are those of the group, then the defaults.',
    }),
    kill_timeout: one(durationMs, {
      json: 'KillTimeout',
      type: 'duration',
      default: formatDuration(DEFAULTS.killTimeoutMs.value),
      doc: 'Time between the kill signal and SIGKILL. The agent caps it (30s unless it is configured otherwise).',
    }),
    kill_signal: one(signal, {
      json: 'KillSignal',
      type: 'signal name or number',
      doc: "Signal that asks the task to end; without it, the driver's default (SIGINT).",
    }),
    shutdown_delay: one(durationMs, {
      json: 'ShutdownDelay',
      type: 'duration',
      default: formatDuration(DEFAULTS.shutdownDelayMs.value),
      doc: 'Wait between the decision to stop and the kill signal.',
    }),
    logs: block(LOGS, { json: 'LogConfig', doc: "Rotation of the task's output." }),
    leader: one(bool, {
      json: 'Leader',
      type: 'bool',
      default: String(DEFAULTS.leader.value),
      doc: 'When this task ends, the others of its group end too. At most one task of a group.',
    }),
    lifecycle: block(LIFECYCLE, {
      json: 'Lifecycle',
      doc: 'When the task runs; without it, it is a main task.',
    }),
    leftovers: one(oneOf(['kill', 'keep']), {
      json: 'Leftovers',
      type: '`kill` or `keep`',
      default: DEFAULTS.leftovers.value,
      ours: true,
      doc: 'What happens to processes that outlive the task.',
    }),
  },
  notYet: {
    action: 'Actions',
    affinity: 'Affinities',
    artifact: 'Artifacts',
    constraint: 'Constraints',
    consul: 'Consul',
    csi_plugin: 'CSIPluginConfig',
    dispatch_payload: 'DispatchPayload',
    identity: 'Identities',
    kind: 'Kind',
    scaling: 'ScalingPolicies',
    schedule: 'Schedule',
    secret: 'Secrets',
    service: 'Services',
    stop_signals: 'StopSignals',
    template: 'Templates',
    vault: 'Vault',
    volume_mount: 'VolumeMounts',
  },
  records: ['Identity'],
} as const satisfies BlockSpec<Keys>;

const restartOfGroup = block(RESTART, {
  json: 'RestartPolicy',
  doc: 'Restart policy of all its tasks; a task may set single keys otherwise.',
});

export const GROUP = {
  name: 'group',
  keys: {
    count: one(whole(BOUNDS.count), {
      json: 'Count',
      type: `number (${bounds(BOUNDS.count)})`,
      default: String(DEFAULTS.count.value),
      doc: 'How many allocations of the group there shall be.',
    }),
    meta,
    restart: restartOfGroup,
    task: many(TASK, { json: 'Tasks', doc: 'A workload; the tasks of a group run together.' }),
  },
  notYet: {
    affinity: 'Affinities',
    constraint: 'Constraints',
    consul: 'Consul',
    disconnect: 'Disconnect',
    ephemeral_disk: 'EphemeralDisk',
    max_client_disconnect: 'MaxClientDisconnect',
    migrate: 'Migrate',
    network: 'Networks',
    prevent_reschedule_on_lost: 'PreventRescheduleOnLost',
    reschedule: 'ReschedulePolicy',
    scaling: 'Scaling',
    service: 'Services',
    shutdown_delay: 'ShutdownDelay',
    spread: 'Spreads',
    stop_after_client_disconnect: 'StopAfterClientDisconnect',
    update: 'Update',
    vault: 'Vault',
    volume: 'Volumes',
  },
} as const satisfies BlockSpec<Keys>;

export const JOB = {
  name: 'job',
  keys: {
    name: one(filledText, {
      json: 'Name',
      type: 'string',
      default: "the job's label",
      doc: 'Name for people.',
    }),
    namespace: one(filledText, {
      json: 'Namespace',
      type: 'string',
      default: DEFAULTS.namespace.value,
      doc: 'Kept, and shown to tasks; one host has no use for it.',
    }),
    region: one(filledText, {
      json: 'Region',
      type: 'string',
      default: DEFAULTS.region.value,
      doc: 'As `namespace`.',
    }),
    datacenters: one(texts, {
      json: 'Datacenters',
      type: 'list of strings',
      default: JSON.stringify(DEFAULTS.datacenters.value),
      doc: 'As `namespace`.',
    }),
    type: one(oneOf(JOB_TYPES), {
      json: 'Type',
      type: JOB_TYPES.map((type) => `\`${type}\``).join(', '),
      default: DEFAULTS.type.value,
      doc: 'A `service` or `system` task that exits is started again, also after exit 0; a `batch` or `sysbatch` task that exits 0 is done.',
    }),
    priority: one(whole(BOUNDS.priority), {
      json: 'Priority',
      type: `number (${bounds(BOUNDS.priority)})`,
      default: String(DEFAULTS.priority.value),
      doc: 'Kept; nothing competes on one host yet.',
    }),
    meta,
    group: many(GROUP, { json: 'TaskGroups', doc: 'Tasks that are placed together.' }),
    task: many(TASK, { json: '', doc: 'Short for a group of the same name with this one task.' }),
  },
  notYet: {
    affinity: 'Affinities',
    all_at_once: 'AllAtOnce',
    constraint: 'Constraints',
    consul_token: 'ConsulToken',
    migrate: 'Migrate',
    multiregion: 'Multiregion',
    node_pool: 'NodePool',
    parameterized: 'ParameterizedJob',
    periodic: 'Periodic',
    reschedule: 'Reschedule',
    spread: 'Spreads',
    ui: 'UI',
    update: 'Update',
    vault_token: 'VaultToken',
    version_tag: 'VersionTag',
  },
  records: [
    'ID',
    'ConsulNamespace',
    'CreateIndex',
    'Dispatched',
    'DispatchIdempotencyToken',
    'JobModifyIndex',
    'ModifyIndex',
    'NomadTokenID',
    'ParentID',
    'Payload',
    'Stable',
    'Status',
    'StatusDescription',
    'Stop',
    'SubmitTime',
    'VaultNamespace',
    'Version',
  ],
} as const satisfies BlockSpec<Keys>;

export const FILE = {
  name: 'file',
  keys: { job: many(JOB, { json: 'Job', doc: 'The job; a file holds one.' }) },
  notYet: { locals: '', variable: '', variables: '' },
} as const satisfies BlockSpec<Keys>;

/** Keys beside `Job` in the bodies of Nomad's HTTP API; the API acts on them, not the job. */
export const BESIDE_JOB = [
  'Diff',
  'EnforceIndex',
  'EvalPriority',
  'JobModifyIndex',
  'Namespace',
  'PolicyOverride',
  'PreserveCounts',
  'Region',
  'SecretID',
  'Submission',
] as const;

/** All blocks, in the order in which they nest. */
export const BLOCKS: readonly BlockSpec<Keys>[] = [JOB, GROUP, TASK, RESOURCES, RESTART, LOGS];

/** Keys of every driver's config that people put beside `driver` by mistake. */
const CONFIG_KEYS = ['command', 'args'] as const;

/** The block in which each key of a dialect is at home. The outermost one wins. */
export function homesOf(dialect: Dialect): ReadonlyMap<string, string> {
  const homes = new Map<string, string>(CONFIG_KEYS.map((key) => [key, 'config']));
  for (const spec of BLOCKS) {
    for (const [name, { json }] of Object.entries(spec.keys)) {
      const key = dialect === 'json' ? json : name;
      if (!homes.has(key)) homes.set(key, spec.name);
    }
  }
  return homes;
}
