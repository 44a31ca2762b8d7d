/** Owns the identity of this host's boot and of processes in it. A pid alone identifies nothing. */
import { readFileSync } from 'node:fs';
import { errnoOf } from './errors.js';

/** A process, told apart from any later one with the same pid. */
export interface ProcessRef {
  readonly pid: number;
  /** Field 22 of /proc/pid/stat: clock ticks after boot at which the process started. */
  readonly startTicks: number;
}

/** The id the kernel made at boot. */
export function readBootId(path = '/proc/sys/kernel/random/boot_id'): string {
  return readFileSync(path, 'utf8').trim();
}

/** What /proc/pid/stat says of a process. */
export interface ProcessStat {
  readonly state: string;
  readonly ppid: number;
  readonly nice: number;
  readonly startTicks: number;
}

/**
 * Reads the one line of /proc/pid/stat.
 * @returns undefined when there is no such process
 */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    // Also of a name in another encoding: only what comes after it is looked at. Node reads no other as fast.
    return parseProcessStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ESRCH') return undefined;
    throw error;
  }
}

/** Reads /proc/pid/stat. Pure. */
export function parseProcessStat(text: string): ProcessStat | undefined {
  // The command, in parentheses, may hold spaces and parentheses: fields count from the last ')'.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, ppid] = fields;
  const nice = fields[16];
  const startTicks = fields[19];
  if (state === undefined || ppid === undefined || nice === undefined || startTicks === undefined)
    return undefined;
  return { state, ppid: Number(ppid), nice: Number(nice), startTicks: Number(startTicks) };
}

/** True when exactly this process is there and not yet a zombie. Valid within one boot only. */
export function isAlive(ref: ProcessRef): boolean {
  const stat = readProcessStat(ref.pid);
  return stat !== undefined && isOf(stat, ref);
}

/** True when it is of exactly this process, which is not yet a zombie. */
export function isOf({ startTicks, state }: ProcessStat, ref: ProcessRef): boolean {
  return startTicks === ref.startTicks && state !== 'Z' && state !== 'X';
}
