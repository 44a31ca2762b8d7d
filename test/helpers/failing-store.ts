/**
 * A store whose disk fails when the test says so. What it fails is a whole commit, before it had any effect: a real
 * transaction is atomic, so there is no half.
 */
import { AgentError } from '../../src/base/errors.js';
import type { Change, FeedRow, StateStore, StoreTrouble, WhenRefused } from '../../src/state/store.js';

type CommitOptions = { readonly whenRefused?: WhenRefused; readonly urgent?: boolean };

export interface FailingStoreOptions {
  /** Whether the disk refuses commit number `n`; commits are counted from 1, in the order they were handed in. */
  readonly failCommits: (n: number) => boolean;
}

export class FailingStore implements StateStore {
  readonly #inner: StateStore;
  readonly #fails: (n: number) => boolean;
  #kept: (readonly Change[])[] = [];
  #commits = 0;

  constructor(inner: StateStore, options: FailingStoreOptions) {
    this.#inner = inner;
    this.#fails = options.failCommits;
  }

  /** Commits handed in so far. */
  get commits(): number {
    return this.#commits;
  }

  commit(changes: readonly Change[], options: CommitOptions = {}): Promise<'stored' | 'kept'> {
    this.#commits += 1;
    if (!this.#fails(this.#commits)) {
      void this.recover();
      return this.#inner.commit(changes, options);
    }
    if (options.whenRefused === 'keep') {
      this.#kept.push(changes);
      return Promise.resolve('kept');
    }
    return Promise.reject(
      new AgentError('store_unavailable', `commit ${this.#commits} fails on purpose`, { recoverable: true }),
    );
  }

  /** The disk takes writes again: what was kept is written, in order, before anything that is handed in later. */
  async recover(): Promise<void> {
    const kept = this.#kept;
    this.#kept = [];
    await Promise.allSettled(kept.map((changes) => this.#inner.commit(changes, { whenRefused: 'keep' })));
  }

  onCommitted(listener: (rows: readonly FeedRow[]) => void): Disposable {
    return this.#inner.onCommitted(listener);
  }

  keptChanges(): number {
    return this.#kept.reduce((sum, changes) => sum + changes.length, this.#inner.keptChanges());
  }

  commitTimes: StateStore['commitTimes'] = () => this.#inner.commitTimes();

  trouble(): StoreTrouble | undefined {
    if (this.#kept.length === 0) return this.#inner.trouble();
    return { sinceMs: 0, error: 'fails on purpose', keptChanges: this.keptChanges(), eventsDropped: 0 };
  }

  /** As a real store: a disk that has recovered by then takes what was kept, one that has not loses it. */
  async close(): Promise<void> {
    if (this.#kept.length > 0 && !this.#fails(this.#commits + 1)) await this.recover();
    await this.#inner.close();
  }

  hostId: StateStore['hostId'] = () => this.#inner.hostId();
  index: StateStore['index'] = () => this.#inner.index();
  listJobs: StateStore['listJobs'] = () => this.#inner.listJobs();
  getJob: StateStore['getJob'] = (id) => this.#inner.getJob(id);
  listJobVersions: StateStore['listJobVersions'] = (id) => this.#inner.listJobVersions(id);
  getJobVersion: StateStore['getJobVersion'] = (id, version) => this.#inner.getJobVersion(id, version);
  listAllocs: StateStore['listAllocs'] = (filter) => this.#inner.listAllocs(filter);
  getAlloc: StateStore['getAlloc'] = (id) => this.#inner.getAlloc(id);
  listTasks: StateStore['listTasks'] = (allocId) => this.#inner.listTasks(allocId);
  getTask: StateStore['getTask'] = (allocId, task) => this.#inner.getTask(allocId, task);
  listRuns: StateStore['listRuns'] = (allocId, task) => this.#inner.listRuns(allocId, task);
  getRun: StateStore['getRun'] = (runId) => this.#inner.getRun(runId);
  listTaskEvents: StateStore['listTaskEvents'] = (filter) => this.#inner.listTaskEvents(filter);
  countDroppedEvents: StateStore['countDroppedEvents'] = (allocId, task) =>
    this.#inner.countDroppedEvents(allocId, task);
  listHooks: StateStore['listHooks'] = (allocId, task) => this.#inner.listHooks(allocId, task);
  listDeployments: StateStore['listDeployments'] = (filter) => this.#inner.listDeployments(filter);
  getDeployment: StateStore['getDeployment'] = (id) => this.#inner.getDeployment(id);
  listEvaluations: StateStore['listEvaluations'] = (filter) => this.#inner.listEvaluations(filter);
  getEvaluation: StateStore['getEvaluation'] = (id) => this.#inner.getEvaluation(id);
  getHost: StateStore['getHost'] = (key) => this.#inner.getHost(key);
  feedBounds: StateStore['feedBounds'] = () => this.#inner.feedBounds();
  readFeed: StateStore['readFeed'] = (afterIndex, limit) => this.#inner.readFeed(afterIndex, limit);
  listQuarantined: StateStore['listQuarantined'] = () => this.#inner.listQuarantined();
}
