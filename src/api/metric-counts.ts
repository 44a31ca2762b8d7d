/** Owns the counts that only grow: what happened to tasks since this agent began to serve, from the events it stored. */
import type { TaskEvent } from '../events/task-event.js';
import type { AllocRecord, StateStore } from '../state/store.js';

/** How an alloc is when it is over for good. */
const ENDS = ['complete', 'failed'] as const;
type End = (typeof ENDS)[number];

/** How runs ended. */
export const EXIT_KINDS = ['succeeded', 'failed', 'signaled', 'unknown'] as const;
export type ExitKind = (typeof EXIT_KINDS)[number];

/** Counts while it is open. Costs one look at each committed event. */
export class MetricCounts implements Disposable {
  readonly #subscription: Disposable;
  readonly #exits: Record<ExitKind, number> = { succeeded: 0, failed: 0, signaled: 0, unknown: 0 };
  readonly #ends: Record<End, number> = { complete: 0, failed: 0 };
  /** Allocs whose end is counted, or was before this agent. */
  readonly #ended: Set<string>;
  #starts = 0;
  #restarts = 0;
  #oomKills = 0;

  constructor(store: Pick<StateStore, 'onCommitted' | 'listAllocs'>) {
    this.#ended = new Set(
      store.listAllocs().flatMap(({ record }) => (endOf(record) === undefined ? [] : [record.id])),
    );
    this.#subscription = store.onCommitted((rows) => {
      for (const { payload } of rows) {
        if (payload.topic === 'TaskEvent') this.#count(payload.event.event);
        if (payload.topic !== 'Allocation') continue;
        if (payload.type === 'AllocationPurged') this.#ended.delete(payload.allocId);
        else this.#countEnd(payload.alloc);
      }
    });
  }

  get exits(): Readonly<Record<ExitKind, number>> {
    return this.#exits;
  }

  /** Allocs that ended, each once. */
  get ends(): Readonly<Record<End, number>> {
    return this.#ends;
  }

  get starts(): number {
    return this.#starts;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** Runs that ended because the kernel killed a process of theirs for want of memory. */
  get oomKills(): number {
    return this.#oomKills;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #countEnd(alloc: AllocRecord): void {
    const end = endOf(alloc);
    if (end === undefined || this.#ended.has(alloc.id)) return;
    this.#ended.add(alloc.id);
    this.#ends[end] += 1;
  }

  #count(event: TaskEvent): void {
    if (event.type === 'Started') this.#starts += 1;
    if (event.type === 'Restarting') this.#restarts += 1;
    if (event.type !== 'Terminated') return;
    const { result } = event;
    if (result.kind !== 'unknown' && result.oomKilled) this.#oomKills += 1;
    if (result.kind !== 'exited') this.#exits[result.kind] += 1;
    else this.#exits[result.code === 0 ? 'succeeded' : 'failed'] += 1;
  }
}

function endOf({ clientStatus }: AllocRecord): End | undefined {
  return ENDS.find((end) => end === clientStatus);
}
