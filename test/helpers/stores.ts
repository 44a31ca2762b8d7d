/** The stores that every contract test runs over, each with a clock that stands still. */
import { openMemoryStore } from '../../src/state/memory-store.js';
import type { StoreLimits } from '../../src/state/limits.js';
import type { StateStore } from '../../src/state/store.js';
import { FakeClock } from './fake-clock.js';

export interface StoreUnderTest {
  readonly store: StateStore;
  readonly clock: FakeClock;
  /** Closes the store and removes what it left on disk. */
  readonly remove: () => Promise<void>;
}

/** A new, empty store of each kind. */
export const STORES: Readonly<Record<string, (limits?: Partial<StoreLimits>) => StoreUnderTest>> = {
  memory: (limits = {}) => {
    const clock = new FakeClock();
    const store = openMemoryStore({ clock, limits });
    return { store, clock, remove: () => store.close() };
  },
};

/** Hands out new stores to the tests of a suite and removes them all when asked. */
export class StoreStock {
  readonly #make: (limits?: Partial<StoreLimits>) => StoreUnderTest;
  readonly #made: StoreUnderTest[] = [];

  constructor(make: (limits?: Partial<StoreLimits>) => StoreUnderTest) {
    this.#make = make;
  }

  take(limits?: Partial<StoreLimits>): StoreUnderTest {
    const made = this.#make(limits);
    this.#made.push(made);
    return made;
  }

  async removeAll(): Promise<void> {
    await Promise.all(this.#made.splice(0).map((made) => made.remove()));
  }
}
