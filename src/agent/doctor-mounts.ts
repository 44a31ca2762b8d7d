/**
 * Owns the doctor's look for mounts below the directories of our tasks. This agent makes none on the host: what tasks of
 * `exec` see is mounted in namespaces of their own. One that is there comes from a person, or from a task that mounted it
 * and did not clean up. As long as it is there its directory is not removed: what is mounted would be emptied with it.
 */
import { execFile } from 'node:child_process';
import { join, relative } from 'node:path';
import { realpathSync } from 'node:fs';
import { promisify } from 'node:util';
import { describeError } from '../base/errors.js';
import { mountsWithin } from '../base/mounts.js';
import type { Diagnosis } from './doctor-checks.js';
import { doubtAbout, isOpen, type DoctorDeps } from './doctor-questions.js';

/** A lazy unmount waits for nothing. */
const UMOUNT_WITHIN_MS = 5_000;

/** Whose directory a mount is in. */
interface Owner {
  readonly what: string;
  /** What the store may know of it. */
  readonly id: string;
  readonly isInUse: () => boolean;
}

/** Those of tasks that run are the tasks' own business. */
export function checkMounts(deps: DoctorDeps): readonly Diagnosis[] {
  const points = [...new Set([deps.dataDir.allocDir, deps.dataDir.runDir].flatMap(mountsWithin))];
  return points.flatMap((point): readonly Diagnosis[] => {
    const owner = ownerOf(deps, point);
    if (owner === undefined || owner.isInUse()) return [];
    const problem = `something is mounted below the directory of ${owner.what}, which is therefore not removed`;
    const finding = { kind: 'mount', subject: point, problem } as const;
    const doubt = doubtAbout(deps, owner.id);
    if (doubt !== undefined) return [{ finding: { ...finding, advice: doubt } }];
    if (process.getuid?.() !== 0) return [{ finding: { ...finding, advice: `as root: umount ${point}` } }];
    const advice = 'holdfast doctor --fix unmounts it (umount -l); what is in it stays as it is';
    return [{ finding: { ...finding, advice }, cure: () => unmount(point, owner) }];
  });
}

/** Undefined for a mount that is not below the directory of one alloc or run, as when `alloc` is a disk of its own. */
function ownerOf(deps: DoctorDeps, point: string): Owner | undefined {
  const { dataDir, store, allocs } = deps;
  const below = (dir: string): readonly string[] => {
    const path = relative(realpathSync(dir), point);
    return path === '' || path.startsWith('..') ? [] : path.split('/');
  };
  const [allocId] = below(dataDir.allocDir);
  if (allocId !== undefined) {
    const isKnown = store.getAlloc(allocId) !== undefined;
    return {
      what: isKnown ? `alloc ${allocId}, which is over` : `${allocId}, which is no alloc of this agent`,
      id: allocId,
      isInUse: () => allocs.isLive(allocId),
    };
  }
  const [shard, runId] = below(dataDir.runDir);
  if (shard === undefined || runId === undefined) return undefined;
  return {
    what: `run ${runId}, which is over`,
    id: runId,
    isInUse: () => isOpen(deps, store.getRun(runId)),
  };
}

/** Takes away what is mounted there, one on the other if need be. @returns what went wrong */
async function unmount(point: string, owner: Owner): Promise<string | undefined> {
  for (;;) {
    if (owner.isInUse()) return 'it is in use';
    const before = mountsOn(point);
    if (before === 0) return undefined;
    try {
      await promisify(execFile)('umount', ['-l', point], { timeout: UMOUNT_WITHIN_MS });
    } catch (error) {
      return describeError(error);
    }
    if (mountsOn(point) >= before) return 'it is still mounted';
  }
}

function mountsOn(point: string): number {
  return mountsWithin(join(point, '..')).filter((each) => each === point).length;
}
