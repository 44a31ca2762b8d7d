/**
 * Owns the run directory `<runs>/<xx>/<run_id>/` as files: where it is, reading what is in it, fencing it, removing
 * it. What the files mean together is recover.ts's to say.
 */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describeError, errnoOf, isExhausted } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { MakeDir } from '../base/spare-dirs.js';
import {
  parseExitRecord,
  parseStatus,
  type ExecutorStatus,
  type ExitRecord,
  type Read,
} from './exit-record.js';
import { decodeSpec, withJoinProcs, type ExecutorSpec } from './protocol.js';

/** What the agent writes into a lock that it made itself, so that a later agent knows the claim for a fence. */
const FENCE_TEXT = 'fence\n';

/** Who holds the claim on a run. */
export type Claim =
  /** The agent: no executor can start this run any more. */
  | { readonly kind: 'fenced' }
  /** An executor made the lock, alive or not. */
  | { readonly kind: 'taken' }
  /** There is no lock. */
  | { readonly kind: 'free' }
  /** The disk does not tell, or does not take a fence. */
  | { readonly kind: 'unclear'; readonly why: string };

export function runDirOf(runsDir: string, runId: string): string {
  return join(runsDir, runId.slice(0, 2), runId);
}

/**
 * Makes the run directory, empty. Synchronous, as the commit of the intent on the same disk has just been: six hops to
 * other threads and back would take longer than the work. @throws a system error; EEXIST: the run was started, or
 * fenced, before
 */
export function makeRunDir(makeDir: MakeDir, runDir: string): void {
  const shard = dirname(runDir);
  if (!existsSync(shard)) mkdirSync(shard, { recursive: true, mode: 0o700 });
  makeDir(runDir);
}

/**
 * Writes the spec into a fresh run directory. Nothing but the directory is there before it is whole, and it is not synced: a
 * spec is of use in its own boot only. @throws a system error
 */
export function writeSpec(runDir: string, spec: Buffer): void {
  writeFileSync(join(runDir, 'spec'), spec, { mode: 0o600, flag: 'wx' });
}

/**
 * Writes into the spec of a run by which files its cgroups are joined now: sessions, the next executor and whoever cleans
 * up go by it.
 * @throws a system error, AgentError protocol_error
 */
export function rewriteJoinProcs(runDir: string, joinProcs: readonly string[]): void {
  const path = join(runDir, 'spec');
  const temporary = `${path}.tmp`;
  writeFileSync(temporary, withJoinProcs(readFileSync(path), joinProcs), { mode: 0o600 });
  renameSync(temporary, path);
}

/**
 * Removes the directory with all in it; not being there is fine. The spec goes first: an executor that was asked to start
 * by an agent that died, and comes only now, must find no lock to take while there is a spec to run.
 * In other threads: it waits for the disk where records are being synced at the same time, and nobody waits for it.
 */
export async function removeRunDir(runDir: string): Promise<void> {
  await unlink(join(runDir, 'spec')).catch(ignoreAbsence);
  failpoint('run.half_released');
  if (await isListable(runDir)) {
    // The files at once; `rm` asks of each what it is. A directory in here is not ours, and may be more than it seems.
    const entries = await readdir(runDir, { withFileTypes: true });
    await Promise.allSettled(
      entries.filter((entry) => !entry.isDirectory()).map(({ name }) => unlink(join(runDir, name))),
    );
  }
  // Its executor may be on its way out, and still write or remove something.
  await rm(runDir, { recursive: true, force: true, maxRetries: 3 });
}

/** A directory with something in it, and neither a link to one nor one that something is mounted on. */
async function isListable(dir: string): Promise<boolean> {
  try {
    await rmdir(dir);
    return false;
  } catch (error) {
    return errnoOf(error) === 'ENOTEMPTY';
  }
}

function ignoreAbsence(error: unknown): void {
  if (errnoOf(error) !== 'ENOENT') throw error;
}

export function readStatusFile(runDir: string): Read<ExecutorStatus> {
  const read = readBytes(join(runDir, 'status'));
  return read.kind === 'ok' ? parseStatus(read.value.toString('utf8')) : read;
}

/** A record of another run counts as unreadable. */
export function readExitFile(runDir: string, runId: string): Read<ExitRecord> {
  const read = readBytes(join(runDir, 'exit'));
  if (read.kind !== 'ok') return read;
  const record = parseExitRecord(read.value);
  if (record.kind !== 'ok' || record.value.runId === runId) return record;
  return { kind: 'unreadable', why: `the exit record is of another run, ${record.value.runId}` };
}

export function readSpecFile(runDir: string): Read<ExecutorSpec> {
  const read = readBytes(join(runDir, 'spec'));
  if (read.kind !== 'ok') return read;
  try {
    return { kind: 'ok', value: decodeSpec(read.value) };
  } catch (error) {
    return { kind: 'unreadable', why: describeError(error) };
  }
}

/** Looks who holds the claim. */
export function readClaim(runDir: string): Claim {
  const read = readBytes(join(runDir, 'lock'));
  if (read.kind === 'absent') return { kind: 'free' };
  if (read.kind === 'unreadable') return { kind: 'unclear', why: read.why };
  return { kind: read.value.toString('latin1') === FENCE_TEXT ? 'fenced' : 'taken' };
}

/** Takes the claim for the agent unless somebody holds it: a run that is fenced can never start afterwards. */
export function fence(runDir: string): Claim {
  try {
    mkdirSync(runDir, { recursive: true, mode: 0o700 });
    const fd = openSync(join(runDir, 'lock'), 'wx', 0o600);
    try {
      writeSync(fd, FENCE_TEXT);
    } finally {
      closeSync(fd);
    }
    return { kind: 'fenced' };
  } catch (error) {
    return errnoOf(error) === 'EEXIST' ? readClaim(runDir) : { kind: 'unclear', why: describeError(error) };
  }
}

function readBytes(path: string): Read<Buffer> {
  try {
    return { kind: 'ok', value: readFileSync(path) };
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return { kind: 'absent' };
    // Not the file's fault: a record must not be called damaged because the agent has too many files open.
    if (isExhausted(error)) throw error;
    return { kind: 'unreadable', why: describeError(error) };
  }
}
