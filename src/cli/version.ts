/** Owns the version of this program: that of its package. */
import { readFileSync } from 'node:fs';

export function readVersion(): string {
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
  // Our own file, which npm keeps well-formed.
  return (JSON.parse(text) as { version: string }).version;
}
