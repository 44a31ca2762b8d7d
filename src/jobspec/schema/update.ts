/** Owns the keys of `update`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, UPDATE_DEFAULTS } from '../defaults.js';
import { HEALTH_CHECKS } from '../types.js';
import { formatDuration } from '../units.js';
import { bool, durationMs, oneOf, whole } from '../values.js';
import { one } from './key.js';

export const UPDATE = {
  name: 'update',
  keys: {
    max_parallel: one(whole(BOUNDS.maxParallel), {
      json: 'MaxParallel',
      type: 'number',
      default: String(UPDATE_DEFAULTS.maxParallel),
      doc: 'How many allocations of the group are replaced at a time; 0 = all at once.',
    }),
    health_check: one(oneOf(HEALTH_CHECKS), {
      json: 'HealthCheck',
      type: HEALTH_CHECKS.map((one) => `\`${one}\``).join(', '),
      default: UPDATE_DEFAULTS.healthCheck,
      doc: 'What makes an allocation healthy: its tasks run and its checks pass, its tasks run, or somebody says so.',
    }),
    min_healthy_time: one(durationMs, {
      json: 'MinHealthyTime',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.minHealthyMs),
      doc: 'How long an allocation must have been well without a break to count as healthy.',
    }),
    healthy_deadline: one(durationMs, {
      json: 'HealthyDeadline',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.healthyDeadlineMs),
      doc: 'An allocation that is not healthy by then is unhealthy.',
    }),
    progress_deadline: one(durationMs, {
      json: 'ProgressDeadline',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.progressDeadlineMs),
      doc: 'An update in which no allocation has become healthy for this long has failed; 0 = the first unhealthy one fails it.',
    }),
    stagger: one(durationMs, {
      json: 'Stagger',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.staggerMs),
      doc: 'Kept. Nomad waits so long between the nodes of a `system` job; here is one.',
    }),
    auto_revert: one(bool, {
      json: 'AutoRevert',
      type: 'bool',
      default: String(UPDATE_DEFAULTS.autoRevert),
      doc: 'An update that fails is followed by the last version that was good.',
    }),
    auto_promote: one(bool, {
      json: 'AutoPromote',
      type: 'bool',
      default: String(UPDATE_DEFAULTS.autoPromote),
      doc: 'Must be false, as there are no canaries on one host.',
    }),
    canary: one(whole(BOUNDS.canary), {
      json: 'Canary',
      type: 'number',
      default: String(UPDATE_DEFAULTS.canary),
      doc: 'Must be 0: a place of a group holds one alloc, never an old and a new one side by side.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;
