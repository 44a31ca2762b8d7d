/** Owns the keys of `update`: how a changed job takes the place of what runs. */
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
      doc: 'How many allocs of the group are replaced at a time. 0 = all at once, and no deployment.',
    }),
    health_check: one(oneOf(HEALTH_CHECKS), {
      json: 'HealthCheck',
      type: HEALTH_CHECKS.map((word) => `\`${word}\``).join(', '),
      default: UPDATE_DEFAULTS.healthCheck,
      doc: 'What makes an alloc healthy: its tasks run and its checks pass, its tasks run, or somebody says so over the API.',
    }),
    min_healthy_time: one(durationMs, {
      json: 'MinHealthyTime',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.minHealthyTimeMs),
      doc: 'How long it must be so without a break.',
    }),
    healthy_deadline: one(durationMs, {
      json: 'HealthyDeadline',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.healthyDeadlineMs),
      doc: 'An alloc that is not healthy by then is unhealthy.',
    }),
    progress_deadline: one(durationMs, {
      json: 'ProgressDeadline',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.progressDeadlineMs),
      doc: 'The deployment fails when no alloc became healthy for so long. 0 = no such deadline.',
    }),
    auto_revert: one(bool, {
      json: 'AutoRevert',
      type: 'bool',
      default: String(UPDATE_DEFAULTS.autoRevert),
      doc: 'When the deployment fails, go back to the newest version whose deployment succeeded.',
    }),
    auto_promote: one(bool, {
      json: 'AutoPromote',
      type: 'bool',
      default: String(UPDATE_DEFAULTS.autoPromote),
      doc: 'Without a meaning here: there are no canaries on one host.',
    }),
    canary: one(whole(BOUNDS.canary), {
      json: 'Canary',
      type: 'number',
      default: '0',
      doc: 'Must be 0: a place of a group holds one alloc, and never an old and a new one side by side.',
    }),
    stagger: one(durationMs, {
      json: 'Stagger',
      type: 'duration',
      default: formatDuration(UPDATE_DEFAULTS.staggerMs),
      doc: 'Kept. Nomad waits so long between the nodes of a `system` job; here is one.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;
