/** Owns the keys of `periodic`: a job that is started by the clock. */
import type { BlockSpec, Keys } from '../blocks.js';
import { bool, filledText, listOfTexts } from '../values.js';
import { one } from './key.js';

export const PERIODIC = {
  name: 'periodic',
  keys: {
    cron: one(filledText, {
      json: 'Spec',
      type: 'string',
      doc: 'When: five fields (minute, hour, day of month, month, day of week), or six with seconds first, or `@daily` and the like.',
    }),
    crons: one(listOfTexts, {
      json: 'Specs',
      type: 'list of strings',
      doc: 'Several of them; the next is the earliest of all.',
    }),
    time_zone: one(filledText, {
      json: 'TimeZone',
      type: 'string',
      default: 'UTC',
      doc: 'Name of the zone in which the fields are read, such as `Europe/Berlin`.',
    }),
    prohibit_overlap: one(bool, {
      json: 'ProhibitOverlap',
      type: 'bool',
      default: 'false',
      doc: 'Skip a launch while one before it is not over.',
    }),
    enabled: one(bool, {
      json: 'Enabled',
      type: 'bool',
      default: 'true',
      doc: 'false: nothing is launched by the clock; `holdfast periodic force` still can.',
    }),
  },
  notYet: {},
  records: ['SpecType'],
} as const satisfies BlockSpec<Keys>;
