/** Owns the store without a disk: same contract, forgotten with the process. For tests, and where nothing may stay. */
import { systemClock, type Clock } from '../base/clock.js';
import { silentLogger, type Logger } from '../base/log.js';
import { DEFAULT_STORE_LIMITS, type StoreLimits } from './limits.js';
import { MemoryTables } from './memory-tables.js';
import type { StateStore } from './store.js';
import { TableStore } from './table-store.js';

export interface MemoryStoreOptions {
  readonly clock?: Clock;
  readonly logger?: Logger;
  readonly limits?: Partial<StoreLimits>;
}

/** A new, empty store. */
export function openMemoryStore(options: MemoryStoreOptions = {}): StateStore {
  return new TableStore({
    tables: new MemoryTables(),
    clock: options.clock ?? systemClock,
    logger: options.logger ?? silentLogger,
    limits: { ...DEFAULT_STORE_LIMITS, ...options.limits },
  });
}
