/** Owns the keys of `task`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { DEFAULTS } from '../defaults.js';
import { formatDuration } from '../units.js';
import { stopSignals } from '../stop-signals.js';
import { bool, checkEnvKey, durationMs, filledText, oneOf, signal, textMap } from '../values.js';
import { ARTIFACT } from './artifact.js';
import { DISPATCH_PAYLOAD } from './dispatch-payload.js';
import { block, meta, one, repeated, untouched } from './key.js';
import { LIFECYCLE } from './lifecycle.js';
import { LOGS } from './logs.js';
import { RESOURCES } from './resources.js';
import { RESTART } from './restart.js';
import { VOLUME_MOUNT } from './volume.js';
import { SERVICE } from './service.js';
import { TEMPLATE } from './template.js';

export const TASK = {
  name: 'task',
  keys: {
    driver: one(filledText, {
      json: 'Driver',
      type: 'string',
      required: true,
      doc: 'How the task is run: `raw_exec`, `exec` (shut in), or `mock_driver` to try a job file without running anything.',
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
    stop_signals: one(stopSignals, {
      json: 'StopSignals',
      type: 'list of strings',
      ours: true,
      doc: 'Signals that ask the task to end one after the other, before SIGKILL, instead of `kill_signal`: `["SIGTERM:10s", "SIGINT"]`. One without a time has a share of what the others leave of `kill_timeout`; when all have one, `kill_timeout` is their sum.',
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
    service: repeated(SERVICE, {
      json: 'Services',
      doc: 'What checks of this task are about; see `check`.',
    }),
    artifact: repeated(ARTIFACT, { json: 'Artifacts', doc: 'Something to fetch before the task starts.' }),
    template: repeated(TEMPLATE, {
      json: 'Templates',
      doc: 'A file that is made before the task starts, and made again when what it is made of changes.',
    }),
    dispatch_payload: block(DISPATCH_PAYLOAD, {
      json: 'DispatchPayload',
      doc: 'Where the payload of a dispatched job goes.',
    }),
    leftovers: one(oneOf(['kill', 'keep']), {
      json: 'Leftovers',
      type: '`kill` or `keep`',
      default: DEFAULTS.leftovers.value,
      ours: true,
      doc: 'What happens to processes that outlive the task.',
    }),
    leftovers_timeout: one(durationMs, {
      json: 'LeftoversTimeout',
      type: 'duration',
      default: formatDuration(DEFAULTS.leftoversTimeoutMs.value),
      ours: true,
      doc: 'How long processes that outlive the task may take to end by themselves before they are killed. The task has not ended until then. A stop does not wait for them.',
    }),
    volume_mount: repeated(VOLUME_MOUNT, {
      json: 'VolumeMounts',
      doc: "Where the task sees one of the group's volumes.",
    }),
  },
  notYet: {
    action: 'Actions',
    affinity: 'Affinities',
    constraint: 'Constraints',
    consul: 'Consul',
    csi_plugin: 'CSIPluginConfig',
    identity: 'Identities',
    kind: 'Kind',
    scaling: 'ScalingPolicies',
    schedule: 'Schedule',
    secret: 'Secrets',
    vault: 'Vault',
  },
  records: ['Identity'],
} as const satisfies BlockSpec<Keys>;
