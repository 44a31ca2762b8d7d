/** Owns the keys of `group`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, DEFAULTS } from '../defaults.js';
import { durationMs, whole } from '../values.js';
import { block, bounds, many, meta, one, repeated } from './key.js';
import { network } from './network.js';
import { RESCHEDULE } from './reschedule.js';
import { RESTART } from './restart.js';
import { SERVICE } from './service.js';
import { TASK } from './task.js';
import { UPDATE } from './update.js';
import { VOLUME } from './volume.js';

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
    reschedule: block(RESCHEDULE, {
      json: 'ReschedulePolicy',
      doc: 'What follows when an alloc has failed: a new one in its place. Keys that are not set come from the block of the job, then the defaults.',
    }),
    shutdown_delay: one(durationMs, {
      json: 'ShutdownDelay',
      type: 'duration',
      default: '0s',
      doc: "Wait before the tasks of an allocation that shall end are ended, for requests to stop coming; before each task's own.",
    }),
    max_run_duration: one(durationMs, {
      json: 'MaxRunDuration',
      type: 'duration',
      doc: 'How long an allocation of a `batch` or `sysbatch` job may take, from its placement; then its tasks are stopped and it is complete.',
    }),
    update: block(UPDATE, {
      json: 'Update',
      doc: 'How a newer version takes over. Keys that are not set come from the block of the job.',
    }),
    network,
    service: repeated(SERVICE, { json: 'Services', doc: 'What checks are about; see `check`.' }),
    volume: many(VOLUME, {
      json: 'Volumes',
      doc: 'A directory of the host that tasks of the group may mount.',
    }),
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
    prevent_reschedule_on_lost: 'PreventRescheduleOnLost',
    scaling: 'Scaling',
    spread: 'Spreads',
    stop_after_client_disconnect: 'StopAfterClientDisconnect',
    vault: 'Vault',
  },
} as const satisfies BlockSpec<Keys>;
