/**
 * Owns the compression of log files of tasks that want it (`logs { compress = true }`): looks at their directories from time
 * to time. One file at a time, for the whole agent: it is never urgent, and supervision must not wait for it.
 */
import { sleep, type Clock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import { compressRotated } from '../logs/compress-rotated.js';
import type { AllocRecord, StateStore } from '../state/store.js';

/** A file more that is plain for so long costs nothing but its place. */
const EVERY_MS = 10_000;
const OVER = new Set<AllocRecord['clientStatus']>(['complete', 'failed', 'lost']);

interface CompressorDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: StateStore;
  /** The directories of one alloc's task; `root` is above what tasks can reach. */
  readonly logDirOf: (allocId: string, task: string) => { readonly logDir: string; readonly root: string };
}

export class LogCompressor implements AsyncDisposable {
  readonly #deps: CompressorDeps;
  readonly #stop = new AbortController();
  /** Allocs that are over, and whose files have been seen to since. */
  readonly #done = new Set<string>();
  /** Tasks whose trouble has been told. */
  readonly #told = new Set<string>();
  #work: Promise<void> = Promise.resolve();

  constructor(deps: CompressorDeps) {
    this.#deps = deps;
  }

  /** Looks now, and again and again until it is disposed of. */
  start(): void {
    this.#work = this.#run();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#round(signal);
      } catch (error) {
        // A disk that gives nothing back, most likely: there is always a next round.
        this.#deps.logger.warn(
          { error: describeError(error) },
          'cannot look for logs to compress, trying again',
        );
      }
      await sleep(this.#deps.clock, EVERY_MS, signal).catch(() => undefined);
    }
  }

  async #round(signal: AbortSignal): Promise<void> {
    const { store } = this.#deps;
    const allocs = store.listAllocs().map(({ record }) => record);
    const ids = new Set(allocs.map(({ id }) => id));
    for (const id of this.#done) if (!ids.has(id)) this.#done.delete(id);
    for (const alloc of allocs) {
      if (signal.aborted) return;
      if (this.#done.has(alloc.id)) continue;
      const job = store.getJobVersion(alloc.jobId, alloc.jobVersion)?.record.spec;
      const group = job?.groups.find(({ name }) => name === alloc.group);
      for (const task of group?.tasks ?? []) {
        if (task.logs.compress === true) await this.#compress(alloc.id, task.name, signal);
      }
      if (OVER.has(alloc.clientStatus)) this.#done.add(alloc.id);
    }
  }

  async #compress(allocId: string, task: string, signal: AbortSignal): Promise<void> {
    const { logDirOf, logger } = this.#deps;
    try {
      await compressRotated({ ...logDirOf(allocId, task), task }, signal);
      this.#told.delete(allocId + task);
    } catch (error) {
      // Not set up yet, or removed.
      if (signal.aborted || (error instanceof AgentError && error.code === 'not_found')) return;
      if (this.#told.has(allocId + task)) return;
      this.#told.add(allocId + task);
      logger.warn(
        { alloc_id: allocId, task, error: describeError(error) },
        'cannot compress log files: they stay as they are, and it is tried again',
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#work;
  }
}
