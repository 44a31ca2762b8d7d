/**
 * Owns one shared picture of all processes of this host, taken at most twice a second, for runs that have no cgroup:
 * which processes are those of a run.
 */
import { readFileSync } from 'node:fs';
import type { Clock } from '../base/clock.js';
import type { ProcessRef } from '../base/host.js';
import { listProcesses, RUN_ID_VARIABLE, type ProcessEntry } from '../executor/processes.js';

const FRESH_FOR_MS = 500;

/** One per agent. */
export class ProcessTable {
  readonly #clock: Clock;
  #takenMonoMs = -Infinity;
  #entries: readonly ProcessEntry[] = [];
  /** Run id by process; '' = none. Kept from picture to picture: an environment is read once per process. */
  #runIds = new Map<string, string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The leader, its descendants, and whatever carries the run id with theirs. */
  processesOf(runId: string, leader: ProcessRef | undefined): readonly ProcessRef[] {
    this.#refresh();
    const belongs = new Set<number>();
    for (const entry of this.#entries) {
      const isLeader = leader?.pid === entry.pid && leader.startTicks === entry.startTicks;
      if (isLeader || this.#runIds.get(keyOf(entry)) === runId) belongs.add(entry.pid);
    }
    // Children may stand before their parents in the list: go on until nothing is added.
    for (let before = -1; before !== belongs.size;) {
      before = belongs.size;
      for (const entry of this.#entries) if (belongs.has(entry.ppid)) belongs.add(entry.pid);
    }
    return this.#entries.filter((entry) => belongs.has(entry.pid));
  }

  #refresh(): void {
    if (this.#clock.monoMs() - this.#takenMonoMs < FRESH_FOR_MS) return;
    this.#takenMonoMs = this.#clock.monoMs();
    this.#entries = listProcesses();
    const known = this.#runIds;
    this.#runIds = new Map(
      this.#entries.map((entry) => [keyOf(entry), known.get(keyOf(entry)) ?? readRunId(entry.pid)]),
    );
  }
}

function keyOf(ref: ProcessRef): string {
  return `${ref.pid}.${ref.startTicks}`;
}

function readRunId(pid: number): string {
  try {
    const environ = `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`;
    const at = environ.indexOf(`\0${RUN_ID_VARIABLE}=`);
    if (at < 0) return '';
    const start = at + RUN_ID_VARIABLE.length + 2;
    return environ.slice(start, environ.indexOf('\0', start));
  } catch {
    return '';
  }
}
