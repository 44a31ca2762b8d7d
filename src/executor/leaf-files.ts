/** Owns where the files of a cgroup leaf are: in which of its directories, if in any. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CgroupLeaf } from './cgroup-leaf.js';

/** By the directory that all leaves of a v1 hierarchy are in, and the file: what one leaf there has, all have. */
const inHierarchy = new Map<string, boolean>();

/** Path of a file in the v1 directories of a leaf; undefined when no hierarchy has it. Asked again, it is known. */
export function v1File(leaf: CgroupLeaf, file: string): string | undefined {
  const dir = leaf.v1.find((dir) => {
    const key = `${dirname(dir)}\n${file}`;
    const known = inHierarchy.get(key);
    if (known !== undefined) return known;
    const isThere = existsSync(join(dir, file));
    // A leaf that is gone says nothing of the others.
    if (isThere || existsSync(dir)) inHierarchy.set(key, isThere);
    return isThere;
  });
  return dir === undefined ? undefined : join(dir, file);
}

/** Path of a file in the v2 directory of a leaf; looked for each time, as controllers there come and go. */
export function v2File(leaf: CgroupLeaf, file: string): string | undefined {
  if (leaf.unified === undefined) return undefined;
  const path = join(leaf.unified, file);
  return existsSync(path) ? path : undefined;
}
