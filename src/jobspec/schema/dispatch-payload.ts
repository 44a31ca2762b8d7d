/** Owns the keys of `dispatch_payload`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { filledText } from '../values.js';
import { one } from './key.js';

export const DISPATCH_PAYLOAD = {
  name: 'dispatch_payload',
  keys: {
    file: one(filledText, {
      json: 'File',
      type: 'string',
      required: true,
      doc: "File below the task's `local/` that the payload of a dispatched job is written to, before the task starts.",
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;
