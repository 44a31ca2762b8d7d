/** Owns how files of allocs look on the wire. Pure. */
import { constants, type Stats } from 'node:fs';
import type { AllocFileInfo } from './wire.js';

const KINDS = new Map([
  [constants.S_IFDIR, 'd'],
  [constants.S_IFLNK, 'L'],
  [constants.S_IFBLK, 'D'],
  [constants.S_IFCHR, 'Dc'],
  [constants.S_IFIFO, 'p'],
  [constants.S_IFSOCK, 'S'],
]);
const SETUID = 0o4000;
const SETGID = 0o2000;
const STICKY = 0o1000;

export function fileToWire(name: string, stats: Stats, contentType = ''): AllocFileInfo {
  return {
    Name: name,
    IsDir: stats.isDirectory(),
    Size: stats.size,
    FileMode: goFileMode(stats.mode),
    ModTime: stats.mtime.toISOString(),
    ContentType: contentType,
  };
}

/** A mode as Go's os.FileMode says it. */
function goFileMode(mode: number): string {
  const special =
    (KINDS.get(mode & constants.S_IFMT) ?? '') +
    ((mode & SETUID) === 0 ? '' : 'u') +
    ((mode & SETGID) === 0 ? '' : 'g') +
    ((mode & STICKY) === 0 ? '' : 't');
  const bits = Array.from('rwxrwxrwx', (letter, at) => ((mode & (0o400 >> at)) === 0 ? '-' : letter));
  return (special === '' ? '-' : special) + bits.join('');
}
