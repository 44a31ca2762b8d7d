/** Owns the keys of `lifecycle`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { DEFAULTS } from '../defaults.js';
import { LIFECYCLE_HOOKS } from '../types.js';
import { bool, oneOf } from '../values.js';
import { one } from './key.js';

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
