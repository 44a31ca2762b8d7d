/** Owns the keys of `job`, and what Nomad records in the JSON of a job. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, DEFAULTS } from '../defaults.js';
import { JOB_TYPES } from '../types.js';
import { durationMs, filledText, oneOf, texts, whole } from '../values.js';
import { GROUP } from './group.js';
import { block, bounds, many, meta, one } from './key.js';
import { PARAMETERIZED } from './parameterized.js';
import { PERIODIC } from './periodic.js';
import { RESCHEDULE } from './reschedule.js';
import { TASK } from './task.js';
import { UPDATE } from './update.js';

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
    max_run_duration: one(durationMs, {
      json: 'MaxRunDuration',
      type: 'duration',
      doc: 'For all groups that do not say otherwise; see `group`.',
    }),
    update: block(UPDATE, {
      json: 'Update',
      doc: 'How a newer version takes over, for all groups; without the block, all places at once. A group may set single keys otherwise.',
    }),
    reschedule: block(RESCHEDULE, {
      json: 'Reschedule',
      doc: 'What follows when an alloc has failed, for all groups. Only `service` and `batch`.',
    }),
    periodic: block(PERIODIC, {
      json: 'Periodic',
      doc: 'The job is launched by the clock. Only `batch` and `sysbatch`.',
    }),
    parameterized: block(PARAMETERIZED, {
      json: 'ParameterizedJob',
      doc: 'The job is a pattern that is run by `holdfast dispatch`. Only `batch` and `sysbatch`.',
    }),
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
    spread: 'Spreads',
    ui: 'UI',
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
