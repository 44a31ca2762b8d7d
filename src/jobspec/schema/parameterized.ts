/** Owns the keys of `parameterized`: a job that is a pattern, and runs each time it is dispatched. */
import type { BlockSpec, Keys } from '../blocks.js';
import { PAYLOADS } from '../types.js';
import { listOfTexts, oneOf } from '../values.js';
import { one } from './key.js';

export const PARAMETERIZED = {
  name: 'parameterized',
  keys: {
    payload: one(oneOf(PAYLOADS), {
      json: 'Payload',
      type: PAYLOADS.map((word) => `\`${word}\``).join(', '),
      default: 'optional',
      doc: 'Whether a dispatch carries a payload (at most 16 KiB).',
    }),
    meta_required: one(listOfTexts, {
      json: 'MetaRequired',
      type: 'list of strings',
      default: '[]',
      doc: 'Keys of `meta` that each dispatch must give.',
    }),
    meta_optional: one(listOfTexts, {
      json: 'MetaOptional',
      type: 'list of strings',
      default: '[]',
      doc: 'Keys of `meta` that a dispatch may give.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;
