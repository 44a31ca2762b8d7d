/** Owns the keys of `artifact`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { DEFAULTS } from '../defaults.js';
import { ARTIFACT_MODES } from '../types.js';
import { bool, filledText, oneOf, textMap } from '../values.js';
import { one } from './key.js';

export const ARTIFACT = {
  name: 'artifact',
  keys: {
    source: one(filledText, {
      json: 'GetterSource',
      type: 'string',
      required: true,
      doc: 'What to fetch: `https://…`, `http://…`, or a file of this host as `file:///…` or absolute path.',
    }),
    destination: one(filledText, {
      json: 'RelativeDest',
      type: 'string',
      default: DEFAULTS.artifactDestination.value,
      doc: 'Where to, within the task\'s directory (or the alloc\'s, as `alloc/…`). The directory, or with `mode = "file"` the file.',
    }),
    mode: one(oneOf(ARTIFACT_MODES), {
      json: 'GetterMode',
      type: '`any`, `file` or `dir`',
      default: DEFAULTS.artifactMode.value,
      doc: '`any`: an archive is unpacked into the destination, anything else keeps its name there. `file`: one file, also from an archive that holds one. `dir`: an archive, nothing else.',
    }),
    options: one(textMap(checkOption), {
      json: 'GetterOptions',
      type: 'map of strings',
      doc: '`checksum` = `"sha256:…"` (md5, sha1, sha256, sha512), of what is fetched. `archive` = `"false"` unpacks nothing; a kind (`"tar"`, `"tar.gz"`, `"zip"`) when the name does not tell it.',
    }),
    headers: one(textMap(checkHeader), {
      json: 'GetterHeaders',
      type: 'map of strings',
      doc: 'Sent with the request; not to another host that it is redirected to.',
    }),
    chown: one(bool, {
      json: 'Chown',
      type: 'bool',
      default: String(DEFAULTS.artifactChown.value),
      doc: "Give what was fetched to the task's `user`.",
    }),
  },
  notYet: { insecure: 'GetterInsecure' },
} as const satisfies BlockSpec<Keys>;

const OPTIONS = ['checksum', 'archive'];

function checkOption(key: string): string | undefined {
  return OPTIONS.includes(key) ? undefined : `there is no such option; there is ${OPTIONS.join(' and ')}`;
}

function checkHeader(key: string): string | undefined {
  return /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(key) ? undefined : 'it cannot be the name of a header';
}
