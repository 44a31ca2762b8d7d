/** Owns the keys of `reschedule`: what follows when an alloc has failed for good. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, RESCHEDULE_DEFAULTS } from '../defaults.js';
import { DELAY_FUNCTIONS } from '../types.js';
import { formatDuration } from '../units.js';
import { bool, durationMs, oneOf, whole } from '../values.js';
import { one } from './key.js';

const { service, batch } = RESCHEDULE_DEFAULTS;

export const RESCHEDULE = {
  name: 'reschedule',
  keys: {
    attempts: one(whole(BOUNDS.attempts), {
      json: 'Attempts',
      type: 'number',
      default: `unlimited (service), ${batch.attempts} (batch)`,
      doc: 'New allocs within `interval` in the place of a failed one. 0 with `unlimited = false`: none.',
    }),
    interval: one(durationMs, {
      json: 'Interval',
      type: 'duration',
      default: `${formatDuration(batch.intervalMs)} (batch)`,
      doc: 'Window in which `attempts` are counted.',
    }),
    delay: one(durationMs, {
      json: 'Delay',
      type: 'duration',
      default: `${formatDuration(service.delayMs)} (service), ${formatDuration(batch.delayMs)} (batch)`,
      doc: 'Wait after the failure before the first new alloc; at least 1s.',
    }),
    delay_function: one(oneOf(DELAY_FUNCTIONS), {
      json: 'DelayFunction',
      type: DELAY_FUNCTIONS.map((word) => `\`${word}\``).join(', '),
      default: `${service.delayFunction} (service), ${batch.delayFunction} (batch)`,
      doc: 'How the delay grows: stays, doubles, or is the sum of the two before it.',
    }),
    max_delay: one(durationMs, {
      json: 'MaxDelay',
      type: 'duration',
      default: `${formatDuration(service.maxDelayMs)} (service)`,
      doc: 'Upper bound of a delay that grows. At the bound, an alloc that ran for longer than it begins again with `delay`.',
    }),
    unlimited: one(bool, {
      json: 'Unlimited',
      type: 'bool',
      default: `${String(service.unlimited)} (service), ${String(batch.unlimited)} (batch)`,
      doc: 'No bound on the attempts. Setting `attempts` above 0 turns it off.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;
