/**
 * Owns one look at a job: judges its deployment, carries out what place.ts decides, plans new allocs for failed ones,
 * and finishes a purge. The scheduler calls it, one at a time.
 */
import { describeError } from '../base/errors.js';
import type { Change, JobRecord } from '../state/store.js';
import { deploymentWaitMs } from './deployment.js';
import type { Deployments } from './deployments.js';
import { whileIneligible } from './drain.js';
import { allocsOf, Hands, momentOf, type Beginning, type HandsDeps } from './hands.js';
import { place, type PlaceInput } from './place.js';
import { Rescheduler } from './rescheduler.js';

export interface EvaluatorDeps extends HandsDeps {
  /** Removes what an alloc left on disk. */
  readonly removeAllocDir: (allocId: string) => Promise<void>;
  /** False while this host takes nothing new; absent = it always does. */
  readonly mayPlace?: () => boolean;
}

export interface EvaluateOptions {
  /** The job as it was just changed, for when the store keeps the change but cannot show it yet. */
  readonly job?: JobRecord;
  readonly retryFailed?: boolean;
  readonly noShutdownDelay?: boolean;
}

/** What came of a look at a job. */
export interface Looked {
  /** The time after which it has to be looked at again; undefined = only when something happens. */
  readonly againInMs: number | undefined;
}

/** How soon a job is looked at again when something of it could not be done. */
export const EVALUATE_RETRY_MS = 5_000;

/** Key in the host table: this job is to be forgotten once its allocs are over. */
export const purgeKey = (jobId: string): string => `purge/${jobId}`;

export class Evaluator {
  readonly #deps: EvaluatorDeps;
  readonly #deployments: Deployments;
  readonly #rescheduler: Rescheduler;
  readonly hands: Hands;

  constructor(deps: EvaluatorDeps, deployments: Deployments) {
    this.#deps = deps;
    this.#deployments = deployments;
    this.#rescheduler = new Rescheduler(deps, deployments);
    this.hands = new Hands(deps);
  }

  /** @throws AgentError store_unavailable: what was wished is stored, and has to be carried out later */
  async evaluate(jobId: string, options: EvaluateOptions): Promise<Looked> {
    const { store } = this.#deps;
    const found = options.job ?? store.getJob(jobId)?.record;
    if (found === undefined) return { againInMs: undefined };
    const job = await this.#deployments.follow(found);
    const deployment = this.#deployments.newest(job);
    const wanted = place({
      ...this.seen(jobId),
      job,
      deployment,
      stable: this.#deployments.stableBefore(job),
      retryFailed: options.retryFailed ?? false,
    });
    const placements = (this.#deps.mayPlace?.() ?? true) ? wanted : whileIneligible(wanted, job);
    await this.hands.stop(
      placements.filter((placement) => placement.kind === 'stop'),
      options.noShutdownDelay ?? false,
    );
    await this.hands.run(job, deployment, placements);
    await this.#rescheduler.plan(job, placements);
    await this.#rescheduler.settle(job);
    // What was just placed counts too.
    await this.#deployments.follow(job);
    if (!(await this.#purgeIfOver(job))) return { againInMs: EVALUATE_RETRY_MS };
    return { againInMs: this.#waitMs(job) };
  }

  /**
   * What a job that is stored for the first time begins with: one commit holds both, which saves a start the wait for a
   * second one. Nothing, when that has to be decided by more than the job.
   * @param changes that go with it
   */
  begin(job: JobRecord, changes: readonly Change[]): Beginning {
    const { store, mayPlace } = this.#deps;
    const isClear =
      (mayPlace?.() ?? true) && store.keptChanges() === 0 && store.listAllocs({ jobId: job.id }).length === 0;
    const made = changes.find((change) => change.kind === 'put_deployment');
    const deployment = made?.deployment;
    const nothing = { allocs: [], isLive: () => false, specOf: () => undefined, retryFailed: false };
    return this.hands.begin(job, deployment, isClear ? place({ ...nothing, job, deployment }) : []);
  }

  /** What a job that is stopped asks of its allocs: one commit holds both, which saves a stop the wait for a second one. */
  beginStop(job: JobRecord, noShutdownDelay: boolean): ReturnType<Hands['beginStop']> {
    const placements = place({ ...this.seen(job.id), job, deployment: undefined, retryFailed: false });
    const stops = placements.filter((placement) => placement.kind === 'stop');
    return this.hands.beginStop(stops, noShutdownDelay);
  }

  /** What of this host decides about the places of a job. */
  seen(jobId: string): Pick<PlaceInput, 'allocs' | 'isLive' | 'specOf' | 'isDue'> {
    const { store, allocs } = this.#deps;
    return {
      allocs: allocsOf(store, jobId),
      isLive: (id) => allocs.isLive(id),
      specOf: (version) => store.getJobVersion(jobId, version)?.record.spec,
      isDue: (alloc) => this.#rescheduler.dueInMs(alloc) === 0,
    };
  }

  #waitMs(job: JobRecord): number | undefined {
    const deployment = this.#deployments.newest(job);
    const waits = [
      ...this.#rescheduler.waitsMs(job),
      deployment === undefined ? undefined : deploymentWaitMs(deployment, momentOf(this.#deps)),
    ].filter((ms) => ms !== undefined);
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  /** @returns false when something of the job could not be removed yet */
  async #purgeIfOver(job: JobRecord): Promise<boolean> {
    const { store, allocs, logger, removeAllocDir } = this.#deps;
    if (!job.stopped || store.getHost(purgeKey(job.id)) !== 'yes') return true;
    const remembered = store.listAllocs({ jobId: job.id }).map(({ record }) => record.id);
    if (remembered.some((id) => allocs.isLive(id))) return true;
    for (const id of remembered) {
      try {
        await removeAllocDir(id);
      } catch (error) {
        // Forgetting the alloc now would leave a directory that nobody knows of: a purge is over when nothing is left.
        logger.warn(
          { alloc_id: id, error: describeError(error) },
          'cannot remove an alloc directory, trying again',
        );
        return false;
      }
    }
    await store.commit([
      ...remembered.map((allocId): Change => ({ kind: 'delete_alloc', allocId })),
      { kind: 'delete_job', jobId: job.id },
      { kind: 'put_host', key: purgeKey(job.id), value: '' },
    ]);
    return true;
  }
}
