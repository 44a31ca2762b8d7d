/**
 * Owns when changes are written: those handed in together become one transaction, in order, and those that the disk
 * refuses wait or are given back. It knows nothing of rows: `write` does the work, synchronously.
 */
import type { Clock, Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import type { Logger } from '../base/log.js';
import { Backlog } from './backlog.js';
import type { Change, CommitTimes, FeedRow, StoreTrouble, WhenRefused } from './store.js';

/** How long a commit that is not urgent may wait for company (DESIGN §6). */
const COMPANY_MS = 10;
/** Waits between tries to write what was refused: doubling from the first to the second. */
const RETRY_FIRST_MS = 1_000;
const RETRY_LONGEST_MS = 30_000;

/**
 * What became of one commit of a transaction that was stored. A bad one left nothing behind. Rows of several commits together
 * stand with the first.
 */
export type Written =
  | { readonly kind: 'stored'; readonly rows: readonly FeedRow[] }
  | { readonly kind: 'bad'; readonly error: unknown };

export interface GroupCommitDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Writes commits in one transaction, each all or nothing. Throws when the disk refuses: then none is stored. */
  readonly write: (commits: readonly (readonly Change[])[]) => readonly Written[];
  /** Is told the rows of each transaction that made any. Must not throw. */
  readonly onRows: (rows: readonly FeedRow[]) => void;
  /** Most changes that may wait for the disk. */
  readonly keptLimit: number;
}

interface Request {
  readonly changes: readonly Change[];
  readonly whenRefused: WhenRefused;
  readonly resolve: (how: 'stored' | 'kept') => void;
  readonly reject: (error: AgentError) => void;
}

export class GroupCommit {
  readonly #deps: GroupCommitDeps;
  readonly #backlog: Backlog;
  #queue: Request[] = [];
  #immediate: NodeJS.Immediate | undefined;
  #company: Timer | undefined;
  #retry: Timer | undefined;
  #retryMs = RETRY_FIRST_MS;
  #refused: { readonly sinceMs: number; readonly error: string } | undefined;
  #closed = false;
  #times: CommitTimes = { count: 0, totalMs: 0, longestMs: 0 };

  constructor(deps: GroupCommitDeps) {
    this.#deps = deps;
    this.#backlog = new Backlog(deps.keptLimit);
  }

  /** See StateStore.commit. */
  commit(
    changes: readonly Change[],
    options: { readonly whenRefused?: WhenRefused; readonly urgent?: boolean } = {},
  ): Promise<'stored' | 'kept'> {
    if (this.#closed) return Promise.reject(new AgentError('store_unavailable', 'the store is closed'));
    return new Promise((resolve, reject) => {
      this.#queue.push({ changes, whenRefused: options.whenRefused ?? 'reject', resolve, reject });
      const flush = (): void => {
        this.#flush();
      };
      if (options.urgent ?? true) this.#immediate ??= setImmediate(flush);
      else this.#company ??= this.#deps.clock.setTimer(COMPANY_MS, flush);
    });
  }

  keptChanges(): number {
    return this.#backlog.size;
  }

  commitTimes(): CommitTimes {
    return this.#times;
  }

  trouble(): StoreTrouble | undefined {
    if (this.#refused === undefined) return undefined;
    const { size, eventsDropped } = this.#backlog;
    return { ...this.#refused, keptChanges: size, eventsDropped };
  }

  /** Writes what is queued, as far as the disk takes it, and takes no more. Twice is allowed. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#flush();
    this.#retry?.[Symbol.dispose]();
    if (this.#backlog.size === 0) return;
    this.#deps.logger.error(
      { changes: this.#backlog.size },
      'the disk still refuses writes: changes that were kept for it are lost',
    );
  }

  #flush(): void {
    if (this.#immediate !== undefined) clearImmediate(this.#immediate);
    this.#immediate = undefined;
    this.#company?.[Symbol.dispose]();
    this.#company = undefined;
    const requests = this.#queue;
    this.#queue = [];
    // What waits comes first: a fact must never be overtaken by a later one.
    if (!this.#writeBacklog()) this.#refuse(requests);
    else if (requests.length > 0) this.#writeRequests(requests);
  }

  #writeRequests(requests: readonly Request[]): void {
    const written = this.#tryWrite(requests.map((request) => request.changes));
    if (written === undefined) {
      this.#refuse(requests);
      return;
    }
    requests.forEach((request, place) => {
      const outcome = written[place];
      if (outcome?.kind === 'stored') request.resolve('stored');
      else request.reject(asInternal(outcome?.error));
    });
  }

  /** @returns true when nothing waits any more */
  #writeBacklog(): boolean {
    for (let commits = this.#backlog.next(); commits.length > 0; commits = this.#backlog.next()) {
      const written = this.#tryWrite(commits);
      if (written === undefined) return false;
      for (const outcome of written) {
        if (outcome.kind === 'stored') continue;
        const error = describeError(outcome.error);
        this.#deps.logger.error({ error }, 'a kept commit can never be stored and is dropped');
      }
      this.#backlog.written(commits.length);
    }
    return true;
  }

  /** @returns undefined when the disk refused */
  #tryWrite(commits: readonly (readonly Change[])[]): readonly Written[] | undefined {
    let written: readonly Written[];
    const beganMonoMs = this.#deps.clock.monoMs();
    try {
      failpoint('store.before_commit');
      written = this.#deps.write(commits);
      failpoint('store.after_commit');
    } catch (error) {
      this.#noteRefusal(describeError(error));
      return undefined;
    } finally {
      this.#noteTime(this.#deps.clock.monoMs() - beganMonoMs);
    }
    this.#noteSuccess();
    const rows = written.flatMap((outcome) => (outcome.kind === 'stored' ? outcome.rows : []));
    if (rows.length > 0) this.#deps.onRows(rows);
    failpoint('store.after_tell');
    return written;
  }

  #refuse(requests: readonly Request[]): void {
    for (const request of requests) {
      const keep = request.whenRefused === 'keep' && this.#backlog.add(request.changes);
      if (keep) request.resolve('kept');
      else request.reject(this.#unavailable());
    }
    if (this.#backlog.size === 0 || this.#retry !== undefined || this.#closed) return;
    this.#retry = this.#deps.clock.setTimer(this.#retryMs, () => {
      this.#retry = undefined;
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_LONGEST_MS);
      this.#flush();
    });
    this.#retry.unref();
  }

  #unavailable(): AgentError {
    const why = this.#refused?.error ?? 'unknown reason';
    return new AgentError('store_unavailable', `the disk refuses writes: ${why}`, { recoverable: true });
  }

  #noteTime(ms: number): void {
    const { count, totalMs, longestMs } = this.#times;
    this.#times = { count: count + 1, totalMs: totalMs + ms, longestMs: Math.max(longestMs, ms) };
  }

  #noteRefusal(error: string): void {
    const { clock, logger } = this.#deps;
    if (this.#refused === undefined)
      logger.error({ error }, 'the disk refuses writes: facts are kept in memory');
    this.#refused = { sinceMs: this.#refused?.sinceMs ?? clock.wallMs(), error };
  }

  #noteSuccess(): void {
    if (this.#refused !== undefined) this.#deps.logger.info({}, 'the disk takes writes again');
    this.#refused = undefined;
    this.#retryMs = RETRY_FIRST_MS;
  }
}

function asInternal(cause: unknown): AgentError {
  if (cause instanceof AgentError) return cause;
  return new AgentError('internal', `a change can never be stored: ${describeError(cause)}`, { cause });
}
