/** Owns the question whether a path of a job file stays inside of a directory, as far as its text tells. */
import { posix } from 'node:path';

/** What leads out of the directory that it is relative to; a leading `/` means that directory, as in Nomad. */
export function leadsOut(path: string): boolean {
  const normal = posix.normalize(path.replace(/^\/+/, ''));
  return normal === '..' || normal.startsWith('../');
}

/** True when a value is only known once `${…}` in it is. */
export function isInterpolated(value: string): boolean {
  return value.includes('${');
}
