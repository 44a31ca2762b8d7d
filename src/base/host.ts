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

/**
 * Reads one line of /proc/pid/stat.
 * @returns undefined when there is no such process
 */
export function readProcessStat(
  pid: number,
): { state: string; ppid: number; startTicks: number } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ESRCH') return undefined;
    throw error;
  }
  // The command, in parentheses, may hold spaces and parentheses: fields count from the last ')'.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, ppid] = fields;
  const startTicks = fields[19];
  if (state === undefined || ppid === undefined || startTicks === undefined) return undefined;
  return { state, ppid: Number(ppid), startTicks: Number(startTicks) };
}

/** True when exactly this process is there and not yet a zombie. Valid within one boot only. */
export function isAlive(ref: ProcessRef): boolean {
  const stat = readProcessStat(ref.pid);
  return stat !== undefined && stat.startTicks === ref.startTicks && stat.state !== 'Z' && stat.state !== 'X';
}
