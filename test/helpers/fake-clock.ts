/** A clock that stands still until told: visits each due time in turn, ties by creation, promises settle between. */
// Drivers and hooks load it late: it has to be there by then, for a `settle` to be enough.
import '../../src/jobspec/driver-config.js';
import type { Clock, Timer } from '../../src/base/clock.js';

interface Pending {
  readonly id: number;
  readonly dueMs: number;
  readonly fire: () => void;
}

/** Turns of the event loop that are given to promises and grouped commits between two due times. */
const SETTLE_TURNS = 4;

export class FakeClock implements Clock {
  #monoMs: number;
  #wallOffsetMs: number;
  #nextId = 1;
  #pending: Pending[] = [];
  /** What `roll` gives; default 0. */
  nextRoll = 0;

  constructor(start: { monoMs?: number; wallMs?: number } = {}) {
    this.#monoMs = start.monoMs ?? 1_000;
    this.#wallOffsetMs = (start.wallMs ?? 1_700_000_000_000) - this.#monoMs;
  }

  wallMs(): number {
    return this.#monoMs + this.#wallOffsetMs;
  }

  monoMs(): number {
    return this.#monoMs;
  }

  roll(): number {
    return this.nextRoll;
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const id = this.#nextId++;
    this.#pending.push({ id, dueMs: this.#monoMs + Math.max(0, delayMs), fire });
    return {
      unref: () => undefined,
      [Symbol.dispose]: () => {
        this.#pending = this.#pending.filter((timer) => timer.id !== id);
      },
    };
  }

  /** Somebody sets the wall clock; monotonic time and timers do not notice. */
  stepWall(byMs: number): void {
    this.#wallOffsetMs += byMs;
  }

  /** Time goes on at once: nothing that is due is fired. */
  leap(byMs: number): void {
    this.#monoMs += byMs;
  }

  /** Delays, from now, of the timers that are set. */
  pendingMs(): readonly number[] {
    return this.#pending.map((timer) => timer.dueMs - this.#monoMs).sort((a, b) => a - b);
  }

  /** Lets promises settle without moving time. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < SETTLE_TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Moves time forward, firing what becomes due in order. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.#monoMs + byMs;
    await this.settle();
    for (;;) {
      const [next] = this.#pending
        .filter((timer) => timer.dueMs <= untilMs)
        .sort((a, b) => a.dueMs - b.dueMs || a.id - b.id);
      if (next === undefined) break;
      this.#pending = this.#pending.filter((timer) => timer.id !== next.id);
      this.#monoMs = Math.max(this.#monoMs, next.dueMs);
      next.fire();
      await this.settle();
    }
    this.#monoMs = untilMs;
    await this.settle();
  }
}
