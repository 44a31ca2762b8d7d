/** Owns the version of this holdfast: that of its package.json. */
import { readFileSync } from 'node:fs';
import { packageRoot } from './package-root.js';

function read(): string {
  const parsed: unknown = JSON.parse(readFileSync(`${packageRoot()}/package.json`, 'utf8'));
  const version =
    typeof parsed === 'object' && parsed !== null && 'version' in parsed ? parsed.version : undefined;
  return typeof version === 'string' ? version : '0.0.0';
}

export const VERSION: string = read();
