/** Owns the keys of `restart`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, RESTART_DEFAULTS } from '../defaults.js';
import { formatDuration } from '../units.js';
import { durationMs, oneOf, real, whole } from '../values.js';
import { bounds, one } from './key.js';

const { service, batch } = RESTART_DEFAULTS;

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
