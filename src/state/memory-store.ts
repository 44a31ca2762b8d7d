/** Owns the store without a disk: same contract, forgotten with the process. For tests, and where nothing may stay. */
import { newUuid } from '../base/ids.js';
import { systemClock, type Clock } from '../base/clock.js';
import { silentLogger, type Logger } from '../base/log.js';
import { DEFAULT_STORE_LIMITS, type StoreLimits } from './limits.js';
import { MemoryHistory } from './memory-history.js';
import { MemoryRecords } from './memory-records.js';
import { MemoryScheduling } from './memory-scheduling.js';
import type { StateStore } from './store.js';
import { TableStore } from './table-store.js';
import type { Tables } from './tables.js';
import { UndoLog } from './undo-log.js';

export interface MemoryStoreOptions {
  readonly clock?: Clock;
  readonly logger?: Logger;
  readonly limits?: Partial<StoreLimits>;
}

/** A new, empty store. */
export function openMemoryStore(options: MemoryStoreOptions = {}): StateStore {
  return new TableStore({
    tables: memoryTables(),
    clock: options.clock ?? systemClock,
    logger: options.logger ?? silentLogger,
    limits: { ...DEFAULT_STORE_LIMITS, ...options.limits },
  });
}

function memoryTables(): Tables {
  const undo = new UndoLog();
  const hostId = newUuid();
  const records = new MemoryRecords(undo);
  return {
    records,
    history: new MemoryHistory(undo, (allocId) => records.jobIdOf(allocId)),
    scheduling: new MemoryScheduling(undo),
    transact: (work) => undo.transact(work),
    isRefusal: () => false,
    hostId: () => hostId,
    listQuarantined: () => [],
    close: () => undefined,
  };
}
