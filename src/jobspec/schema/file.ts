/**
 * Owns what a job file as a whole is made of. The tables of the single blocks stand beside this file: names in both
 * spellings, type, default, meaning, and what Nomad has there that holdfast has not yet. The validator reads them, and
 * docs/jobspec.md is made from them.
 */
import type { BlockSpec, Keys } from '../blocks.js';
import type { Dialect } from '../session.js';
import { CHECK, CHECK_RESTART } from './check.js';
import { ARTIFACT } from './artifact.js';
import { DISPATCH_PAYLOAD } from './dispatch-payload.js';
import { GROUP } from './group.js';
import { JOB } from './job.js';
import { many } from './key.js';
import { LIFECYCLE } from './lifecycle.js';
import { LOGS } from './logs.js';
import { PARAMETERIZED } from './parameterized.js';
import { NETWORK, PORT } from './network.js';
import { PERIODIC } from './periodic.js';
import { RESCHEDULE } from './reschedule.js';
import { RESOURCES } from './resources.js';
import { RESTART } from './restart.js';
import { SERVICE } from './service.js';
import { TASK } from './task.js';
import { CHANGE_SCRIPT, TEMPLATE } from './template.js';
import { UPDATE } from './update.js';
import { VOLUME, VOLUME_MOUNT } from './volume.js';

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
export const BLOCKS: readonly BlockSpec<Keys>[] = [
  JOB,
  GROUP,
  UPDATE,
  TASK,
  RESOURCES,
  RESTART,
  LOGS,
  LIFECYCLE,
  NETWORK,
  PORT,
  SERVICE,
  CHECK,
  CHECK_RESTART,
  VOLUME,
  VOLUME_MOUNT,
  ARTIFACT,
  TEMPLATE,
  CHANGE_SCRIPT,
  DISPATCH_PAYLOAD,
  RESCHEDULE,
  PERIODIC,
  PARAMETERIZED,
];

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
