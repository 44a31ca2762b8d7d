/** The stores that every contract test runs over, each with a clock that stands still. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger, type Logger } from '../../src/base/log.js';
import { openMemoryStore } from '../../src/state/memory-store.js';
import type { StoreLimits } from '../../src/state/limits.js';
import { openSqliteStore } from '../../src/state/sqlite-store.js';
import type { StateStore } from '../../src/state/store.js';
import { FakeClock } from './fake-clock.js';
import { BOOT } from './records.js';

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
  sqlite: (limits = {}) => {
    const disk = new StoreOnDisk();
    const store = disk.open({ limits });
    return { store, clock: disk.clock, remove: () => disk.remove() };
  },
};

/** A temporary data directory whose store may be opened again and again. */
export class StoreOnDisk {
  readonly dir = mkdtempSync(join(tmpdir(), 'holdfast-store-'));
  readonly path = join(this.dir, 'state.db');
  readonly clock = new FakeClock();
  readonly #opened: StateStore[] = [];

  open(options: { limits?: Partial<StoreLimits>; logger?: Logger } = {}): StateStore {
    const { limits = {}, logger = silentLogger } = options;
    const store = openSqliteStore({ path: this.path, clock: this.clock, logger, bootId: BOOT, limits });
    this.#opened.push(store);
    return store;
  }

  async remove(): Promise<void> {
    for (const store of this.#opened) await store.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

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
