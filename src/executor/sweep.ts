/**
 * Owns the run directories that no open run of the store needs: their run is over and stored, or was never known. They
 * stay when the agent died, or the disk refused writes, between an end and its cleaning up.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../base/clock.js';
import { isAlive, type ProcessRef } from '../base/host.js';
import { isPopulated, leafOfSpec, removeLeaf } from './cgroup-leaf.js';
import { readSpecFile, readStatusFile, removeRunDir } from './run-dir.js';

export interface SweepResult {
  readonly removed: number;
  /** Run directories that stay because something of theirs is alive: for people to look at. */
  readonly alive: readonly string[];
}

/**
 * Removes what is over. Touches no process.
 * @param isOpen true for a run that the store still has in hand
 */
export async function sweepRunDirs(
  deps: { readonly clock: Clock; readonly bootId: string; readonly runsDir: string },
  isOpen: (runId: string) => boolean,
): Promise<SweepResult> {
  const alive: string[] = [];
  let removed = 0;
  for (const shard of await readdir(deps.runsDir)) {
    for (const runId of await readdir(join(deps.runsDir, shard)).catch((): string[] => [])) {
      if (isOpen(runId)) continue;
      const runDir = join(deps.runsDir, shard, runId);
      if (await sweepOne(deps, runDir)) removed++;
      else alive.push(runDir);
    }
  }
  return { removed, alive };
}

/** True when nothing of the run was alive and all of it is gone now. */
async function sweepOne(
  deps: { readonly clock: Clock; readonly bootId: string },
  runDir: string,
): Promise<boolean> {
  const status = readStatusFile(runDir);
  const sameBoot = status.kind !== 'ok' || status.value.bootId === deps.bootId;
  const spec = readSpecFile(runDir);
  const leaf = spec.kind === 'ok' ? leafOfSpec(spec.value) : undefined;
  if (sameBoot) {
    if (status.kind === 'unreadable') return false;
    const known: readonly (ProcessRef | undefined)[] =
      status.kind === 'ok' ? [status.value.executor, status.value.workload] : [];
    if (known.some((ref) => ref !== undefined && isAlive(ref))) return false;
    if (leaf !== undefined) {
      if (isPopulated(leaf)) return false;
      await removeLeaf(deps.clock, leaf);
    }
  }
  await removeRunDir(runDir);
  return true;
}
