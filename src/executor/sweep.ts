/**
 * Owns the run directories that no open run of the store needs: their run is over and stored, or was never known. They
 * stay when the agent died, or the disk refused writes, between an end and its cleaning up.
 */
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Clock } from '../base/clock.js';
import { isAlive, type ProcessRef } from '../base/host.js';
import { isPopulated, leafOfSpec, removeLeaf } from './cgroup-leaf.js';
import { readSpecFile, readStatusFile, removeRunDir } from './run-dir.js';

export interface SweepResult {
  readonly removed: number;
  /** Run directories that stay because something of theirs is alive: for people to look at. */
  readonly alive: readonly string[];
}

interface SweepDeps {
  readonly clock: Clock;
  readonly bootId: string;
  /** The boot in which a run began, as the store knows it: a power cut leaves files without their bytes. */
  readonly bootOf: (runId: string) => string | undefined;
}

/**
 * Removes what is over. Touches no process.
 * @param isOpen true for a run that the store still has in hand
 */
export async function sweepRunDirs(
  deps: SweepDeps & { readonly runsDir: string },
  isOpen: (runId: string) => boolean,
): Promise<SweepResult> {
  const alive: string[] = [];
  let removed = 0;
  for (const { runId, runDir } of await listRunDirs(deps.runsDir)) {
    if (isOpen(runId)) continue;
    if (await sweepRunDir(deps, runDir)) removed++;
    else alive.push(runDir);
  }
  return { removed, alive };
}

/** Every run directory there is. */
export async function listRunDirs(
  runsDir: string,
): Promise<readonly { readonly runId: string; readonly runDir: string }[]> {
  const found: { runId: string; runDir: string }[] = [];
  for (const shard of await readdir(runsDir)) {
    for (const runId of await readdir(join(runsDir, shard)).catch((): string[] => [])) {
      found.push({ runId, runDir: join(runsDir, shard, runId) });
    }
  }
  return found;
}

/** True unless it is certain that nothing of the run is alive. */
export function mayBeAlive(deps: Omit<SweepDeps, 'clock'>, runDir: string): boolean {
  if (isOfAnotherBoot(deps, runDir)) return false;
  const status = readStatusFile(runDir);
  if (status.kind === 'unreadable') return true;
  const known: readonly (ProcessRef | undefined)[] =
    status.kind === 'ok' ? [status.value.executor, status.value.workload] : [];
  if (known.some((ref) => ref !== undefined && isAlive(ref))) return true;
  const spec = readSpecFile(runDir);
  const leaf = spec.kind === 'ok' ? leafOfSpec(spec.value) : undefined;
  return leaf !== undefined && isPopulated(leaf);
}

/** Removes one that is over, with its cgroup. True when nothing of the run was alive and all of it is gone now. */
export async function sweepRunDir(deps: SweepDeps, runDir: string): Promise<boolean> {
  if (mayBeAlive(deps, runDir)) return false;
  const spec = readSpecFile(runDir);
  const leaf = spec.kind === 'ok' ? leafOfSpec(spec.value) : undefined;
  if (!isOfAnotherBoot(deps, runDir) && leaf !== undefined) await removeLeaf(deps.clock, leaf);
  await removeRunDir(runDir);
  return true;
}

/** True when it is certain: then nothing of it is alive, and its cgroup went with that boot. */
function isOfAnotherBoot({ bootId, bootOf }: Omit<SweepDeps, 'clock'>, runDir: string): boolean {
  const status = readStatusFile(runDir);
  const spec = readSpecFile(runDir);
  const told =
    (status.kind === 'ok' ? status.value.bootId : undefined) ??
    (spec.kind === 'ok' ? spec.value.bootId : undefined) ??
    bootOf(basename(runDir));
  return told !== undefined && told !== bootId;
}
