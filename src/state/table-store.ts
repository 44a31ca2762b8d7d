/**
 * Owns the StateStore over tables of any kind: rules from apply.ts, timing from group-commit.ts, rows from `tables`.
 * It holds no state of its own but its listeners.
 */
import type { Clock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import { applyChanges } from './apply.js';
import { GroupCommit, type Written } from './group-commit.js';
import type { StoreLimits } from './limits.js';
import type { Change, CommitTimes, FeedRow, StateStore, StoreTrouble, WhenRefused } from './store.js';
import type { Tables } from './tables.js';

export interface TableStoreDeps {
  readonly tables: Tables;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly limits: StoreLimits;
}

export class TableStore implements StateStore {
  readonly #deps: TableStoreDeps;
  readonly #group: GroupCommit;
  readonly #listeners = new Set<(rows: readonly FeedRow[]) => void>();
  #closed = false;

  constructor(deps: TableStoreDeps) {
    this.#deps = deps;
    this.#group = new GroupCommit({
      clock: deps.clock,
      logger: deps.logger,
      write: (commits) => this.#write(commits),
      onRows: (rows) => {
        this.#tell(rows);
      },
      keptLimit: deps.limits.keptChanges,
    });
  }

  commit(
    changes: readonly Change[],
    options?: { readonly whenRefused?: WhenRefused; readonly urgent?: boolean },
  ): Promise<'stored' | 'kept'> {
    return this.#group.commit(changes, options);
  }

  onCommitted(listener: (rows: readonly FeedRow[]) => void): Disposable {
    // A wrapper, so that the same function given twice is two listeners.
    const own = (rows: readonly FeedRow[]): void => {
      listener(rows);
    };
    this.#listeners.add(own);
    return {
      [Symbol.dispose]: () => {
        this.#listeners.delete(own);
      },
    };
  }

  keptChanges(): number {
    return this.#group.keptChanges();
  }

  commitTimes(): CommitTimes {
    return this.#group.commitTimes();
  }

  trouble(): StoreTrouble | undefined {
    return this.#group.trouble();
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      this.#group.close();
      this.#deps.tables.close();
    }
    return Promise.resolve();
  }

  /**
   * One transaction; a commit that breaks a rule is no part of it. That one does is rare, and looked for only when it is
   * known: all are written as one, and each by itself, with a savepoint, when that fails. Throws when the disk refuses.
   */
  #write(commits: readonly (readonly Change[])[]): readonly Written[] {
    const { tables, limits, clock } = this.#deps;
    const nowMs = clock.wallMs();
    const write = (apply: () => readonly Written[]): readonly Written[] =>
      tables.transact(() => {
        const written = apply();
        tables.history.trimFeed(limits, nowMs);
        return written;
      });
    const applyAlone = (changes: readonly Change[]): Written => {
      try {
        return tables.transact(() => ({
          kind: 'stored',
          rows: applyChanges(tables, [changes], limits, nowMs),
        }));
      } catch (error) {
        if (tables.isRefusal(error)) throw error;
        return { kind: 'bad', error };
      }
    };
    try {
      return write(() => {
        const apart = commits.some((changes) => changes.some(isEnd));
        const groups = apart ? commits.map((changes) => [changes]) : [commits];
        const rows = groups.flatMap((group) => applyChanges(tables, group, limits, nowMs));
        return commits.map((_, place) => ({ kind: 'stored', rows: place === 0 ? rows : [] }));
      });
    } catch (error) {
      if (tables.isRefusal(error)) throw error;
      return write(() => commits.map(applyAlone));
    }
  }

  #tell(rows: readonly FeedRow[]): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(rows);
      } catch (fault) {
        this.#deps.logger.error({ error: describeError(fault) }, 'a listener of the store threw, ignoring');
      }
    }
  }

  #open(): TableStoreDeps['tables'] {
    if (this.#closed) throw new AgentError('store_unavailable', 'the store is closed');
    return this.#deps.tables;
  }

  hostId: StateStore['hostId'] = () => this.#open().hostId();
  index: StateStore['index'] = () => this.#open().history.index();
  listJobs: StateStore['listJobs'] = () => this.#open().records.listJobs();
  getJob: StateStore['getJob'] = (id) => this.#open().records.getJob(id);
  listJobVersions: StateStore['listJobVersions'] = (id) => this.#open().records.listJobVersions(id);
  getJobVersion: StateStore['getJobVersion'] = (id, version) =>
    this.#open().records.getJobVersion(id, version);
  listAllocs: StateStore['listAllocs'] = (filter) => this.#open().records.listAllocs(filter);
  getAlloc: StateStore['getAlloc'] = (id) => this.#open().records.getAlloc(id);
  listTasks: StateStore['listTasks'] = (allocId) => this.#open().records.listTasks(allocId);
  getTask: StateStore['getTask'] = (allocId, task) => this.#open().records.getTask(allocId, task);
  listRuns: StateStore['listRuns'] = (allocId, task) => this.#open().records.listRuns(allocId, task);
  getRun: StateStore['getRun'] = (runId) => this.#open().records.getRun(runId);
  listTaskEvents: StateStore['listTaskEvents'] = (filter) => this.#open().history.listTaskEvents(filter);
  countDroppedEvents: StateStore['countDroppedEvents'] = (allocId, task) =>
    this.#open().history.countDroppedEvents(allocId, task);
  listHooks: StateStore['listHooks'] = (allocId, task) => this.#open().records.listHooks(allocId, task);
  listDeployments: StateStore['listDeployments'] = (filter) =>
    this.#open().scheduling.listDeployments(filter);
  getDeployment: StateStore['getDeployment'] = (id) => this.#open().scheduling.getDeployment(id);
  listEvaluations: StateStore['listEvaluations'] = (filter) =>
    this.#open().scheduling.listEvaluations(filter);
  getEvaluation: StateStore['getEvaluation'] = (id) => this.#open().scheduling.getEvaluation(id);
  getHost: StateStore['getHost'] = (key) => this.#open().records.getHost(key);
  feedBounds: StateStore['feedBounds'] = () => this.#open().history.feedBounds();
  readFeed: StateStore['readFeed'] = (afterIndex, limit) => this.#open().history.readFeed(afterIndex, limit);
  listQuarantined: StateStore['listQuarantined'] = () => this.#open().listQuarantined();
}

/** What was before the end of something is told before it. */
function isEnd({ kind }: Change): boolean {
  return kind === 'delete_alloc' || kind === 'delete_job';
}
