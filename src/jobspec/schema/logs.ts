/** Owns the keys of `logs`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, DEFAULTS } from '../defaults.js';
import { bool, mib, whole } from '../values.js';
import { one } from './key.js';

export const LOGS = {
  name: 'logs',
  keys: {
    max_files: one(whole(BOUNDS.maxFiles), {
      json: 'MaxFiles',
      type: 'number',
      default: String(DEFAULTS.maxFiles.value),
      doc: 'Files kept for each of stdout and stderr; the oldest is dropped.',
    }),
    max_file_size: one(mib(BOUNDS.maxFileSizeMib), {
      json: 'MaxFileSizeMB',
      type: 'number (MiB) or size',
      default: String(DEFAULTS.maxFileSizeMib.value),
      doc: 'Size at which a new file is begun.',
    }),
    disabled: one(bool, {
      json: 'Disabled',
      type: 'bool',
      default: String(DEFAULTS.logsDisabled.value),
      doc: 'Keep no output at all.',
    }),
    compress: one(bool, {
      json: 'Compress',
      ours: true,
      type: 'bool',
      default: 'false',
      doc: 'Compress files that are full (`.gz`). The one that is written to stays as it is; `logs` reads all of them.',
    }),
  },
  notYet: { enabled: 'Enabled' },
} as const satisfies BlockSpec<Keys>;
