/**
 * Owns one look at a job: judges its deployment, carries out what place.ts decides, plans new allocs for failed ones,
 * and finishes a purge. The scheduler calls it, one at a time. What is decided is in place.ts, deployment.ts and
 * reschedule.ts.
 */
import { describeError } from '../base/errors.js';
import { newUuid } from '../base/ids.js';
import type { AllocRecord, Change, DeploymentRecord, EvaluationRecord, JobRecord } from '../state/store.js';
import {
  chooseRevert,
  deploymentWaitMs,
  isActive,
  judgeDeployment,
  newDeployment,
  withStatus,
} from './deployment.js';
import { whileIneligible } from './drain.js';
import { evaluationOf } from './evaluation.js';
import { Hands, momentOf, type Beginning, type HandsDeps } from './hands.js';
import { place, wantedGroups, type PlaceInput, type Placement } from './place.js';
import { decideReschedule, leftMs, momentAfter } from './reschedule.js';

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
  readonly hands: Hands;

  constructor(deps: EvaluatorDeps) {
    this.#deps = deps;
    this.hands = new Hands(deps);
  }

  /** @throws AgentError store_unavailable: what was wished is stored, and has to be carried out later */
  async evaluate(jobId: string, options: EvaluateOptions): Promise<Looked> {
    const { store } = this.#deps;
    const found = options.job ?? store.getJob(jobId)?.record;
    if (found === undefined) return { againInMs: undefined };
    const job = await this.#followDeployment(found);
    const deployment = this.newestDeployment(job);
    const wanted = place({
      ...this.seen(jobId),
      job,
      deployment,
      stable: this.#stableBefore(job),
      retryFailed: options.retryFailed ?? false,
    });
    const placements = (this.#deps.mayPlace?.() ?? true) ? wanted : whileIneligible(wanted, job);
    await this.hands.stop(
      placements.filter((placement) => placement.kind === 'stop'),
      options.noShutdownDelay ?? false,
    );
    await this.hands.run(job, deployment, placements);
    await this.#planReschedules(job, placements);
    await this.#settleReschedules(job);
    // What was just placed counts too.
    await this.#followDeployment(job);
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
      allocs: store.listAllocs({ jobId }).map(({ record }) => record),
      isLive: (id) => allocs.isLive(id),
      specOf: (version) => store.getJobVersion(jobId, version)?.record.spec,
      isDue: (alloc) => this.#dueInMs(alloc) === 0,
    };
  }

  /** The newest version before this one that was deployed well. */
  #stableBefore({ id, version }: JobRecord): JobRecord | undefined {
    const deployed = this.#deployments(id).filter(
      ({ status, jobVersion }) => status === 'successful' && jobVersion < version,
    );
    const newest = deployed.reduce((most, { jobVersion }) => Math.max(most, jobVersion), -1);
    const found = this.#deps.store.getJobVersion(id, newest)?.record;
    return found?.stopped === false ? found : undefined;
  }

  /** The newest deployment of the job's version. */
  newestDeployment({ id, version }: JobRecord): DeploymentRecord | undefined {
    return this.#deployments(id).findLast(({ jobVersion }) => jobVersion === version);
  }

  /** Changes that go with a new version of a job: its deployment, and the end of the one before. */
  deploymentChanges(before: JobRecord | undefined, job: JobRecord, why: string): readonly Change[] {
    const now = momentOf(this.#deps);
    const cancelled = before === undefined ? [] : this.#deployments(job.id).filter(isActive);
    const made = newDeployment(job, newUuid(), now);
    return [
      ...cancelled.map((deployment): Change => ({
        kind: 'put_deployment',
        deployment: withStatus(deployment, 'cancelled', why, now.wallMs),
      })),
      ...(made === undefined ? [] : [{ kind: 'put_deployment', deployment: made } as const]),
    ];
  }

  /**
   * Ends a deployment that has failed, and goes back to the last good version when it is asked to.
   * @returns the job as it is now
   */
  async failDeployment(
    job: JobRecord,
    deployment: DeploymentRecord,
    { why, revert }: { readonly why: string; readonly revert: boolean },
  ): Promise<JobRecord> {
    const { store } = this.#deps;
    const now = momentOf(this.#deps);
    const versions = store.listJobVersions(job.id).map(({ record }) => record);
    const choice = revert ? chooseRevert(deployment, versions, this.#deployments(job.id)) : undefined;
    const outcome =
      choice === undefined
        ? why
        : choice.kind === 'none'
          ? `${why} - ${choice.why}`
          : `${why} - rolling back to job version ${choice.version}`;
    const failed = withStatus(deployment, 'failed', outcome, now.wallMs);
    const changes: Change[] = [{ kind: 'put_deployment', deployment: failed }];
    let next = job;
    if (choice?.kind === 'to') {
      next = { ...job, version: job.version + 1, spec: choice.spec, submittedAtMs: now.wallMs };
      const made = newDeployment(next, newUuid(), now);
      changes.push({ kind: 'put_job', job: next });
      if (made !== undefined) changes.push({ kind: 'put_deployment', deployment: made });
    }
    changes.push(this.#noteDeployment(job, failed));
    await store.commit(changes, { whenRefused: 'reject' });
    return next;
  }

  /** Looks how far the deployment has come. @returns the job as it is afterwards */
  async #followDeployment(job: JobRecord): Promise<JobRecord> {
    const { store } = this.#deps;
    const active = this.newestDeployment(job);
    if (active === undefined || !isActive(active) || job.stopped) return job;
    const now = momentOf(this.#deps);
    const verdict = judgeDeployment(active, this.seen(job.id).allocs, now);
    if (verdict.kind === 'failed') return this.failDeployment(job, verdict.deployment, verdict);
    if (verdict.kind === 'successful') {
      const what = 'Deployment completed successfully';
      const deployment = withStatus(verdict.deployment, 'successful', what, now.wallMs);
      await store.commit([{ kind: 'put_deployment', deployment }, this.#noteDeployment(job, deployment)]);
    } else if (verdict.deployment !== active) {
      await store.commit([{ kind: 'put_deployment', deployment: verdict.deployment }]);
    }
    return job;
  }

  #noteDeployment(job: JobRecord, { id }: DeploymentRecord): Change {
    const { store, clock } = this.#deps;
    return {
      kind: 'put_evaluation',
      evaluation: evaluationOf(job, {
        id: newUuid(),
        triggeredBy: 'deployment-watcher',
        deploymentId: id,
        jobModifyIndex: store.getJob(job.id)?.modifyIndex ?? 0,
        beganAfter: store.index(),
        nowMs: clock.wallMs(),
      }),
    };
  }

  /** Decides about allocs that have just failed. */
  async #planReschedules(job: JobRecord, placements: readonly Placement[]): Promise<void> {
    const { store, logger } = this.#deps;
    const now = momentOf(this.#deps);
    const changes = placements.flatMap((placement): Change[] => {
      if (placement.kind !== 'consider_reschedule') return [];
      const { alloc, group } = placement;
      const events = alloc.reschedule?.events ?? [];
      const decision = decideReschedule(group.reschedule, events, now);
      const plan = (reschedule: AllocRecord['reschedule'] & object): Change => ({
        kind: 'put_alloc',
        alloc: { ...alloc, reschedule, modifiedAtMs: now.wallMs },
      });
      if (decision.kind === 'never') {
        // A group that asks for nothing has nothing to be said of.
        return group.reschedule === undefined ? [] : [plan({ events, gaveUp: decision.why })];
      }
      const { delayMs } = decision;
      const at = momentAfter(now, delayMs);
      const evalId = newUuid();
      logger.info({ alloc_id: alloc.id, job_id: job.id, in_ms: delayMs }, 'a failed alloc is rescheduled');
      const evaluation: EvaluationRecord = {
        ...evaluationOf(job, {
          id: evalId,
          triggeredBy: 'alloc-failure',
          jobModifyIndex: store.getJob(job.id)?.modifyIndex ?? 0,
          beganAfter: store.index(),
          nowMs: now.wallMs,
        }),
        status: 'pending',
        description: 'created for delayed rescheduling',
        waitUntilMs: at.wallMs,
      };
      return [plan({ events, next: { at, delayMs, evalId } }), { kind: 'put_evaluation', evaluation }];
    });
    if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
  }

  /** Closes the evaluations of failed allocs that have a successor by now, or shall have none any more. */
  async #settleReschedules(job: JobRecord): Promise<void> {
    const { store, clock } = this.#deps;
    const pending = store
      .listEvaluations({ jobId: job.id })
      .filter(({ record }) => record.status === 'pending');
    if (pending.length === 0) return;
    const waiting = new Map(
      this.#waiting(job).map((alloc) => [alloc.reschedule?.next?.evalId ?? '', alloc] as const),
    );
    const allocs = this.seen(job.id).allocs;
    const nowMs = clock.wallMs();
    const changes = pending.flatMap(({ record }): Change[] => {
      if (waiting.has(record.id)) return [];
      const alloc = allocs.find(({ reschedule }) => reschedule?.next?.evalId === record.id);
      const status = alloc?.nextAllocId === undefined ? 'canceled' : 'complete';
      const evaluation: EvaluationRecord = { ...record, status, modifiedAtMs: nowMs };
      const settled: Change = { kind: 'put_evaluation', evaluation };
      if (alloc === undefined || status === 'complete') return [settled];
      const reschedule = { events: alloc.reschedule?.events ?? [] };
      return [settled, { kind: 'put_alloc', alloc: { ...alloc, reschedule, modifiedAtMs: nowMs } }];
    });
    if (changes.length > 0) await store.commit(changes, { whenRefused: 'keep' });
  }

  /** Failed allocs in whose places new ones shall be made when it is time. */
  #waiting(job: JobRecord): readonly AllocRecord[] {
    const newest = new Map<string, AllocRecord>();
    for (const alloc of this.seen(job.id).allocs) newest.set(`${alloc.group}/${alloc.index}`, alloc);
    const groups = wantedGroups(job);
    const isFailed = this.newestDeployment(job)?.status === 'failed';
    const kept = isFailed ? this.#stableBefore(job)?.version : undefined;
    return [...newest.values()].filter(
      (alloc) =>
        alloc.reschedule?.next !== undefined &&
        alloc.desiredStatus === 'run' &&
        (alloc.jobVersion === job.version || alloc.jobVersion === kept) &&
        groups.some(({ name, count }) => name === alloc.group && alloc.index < count),
    );
  }

  #dueInMs(alloc: AllocRecord): number | undefined {
    const next = alloc.reschedule?.next;
    return next === undefined ? undefined : leftMs(next.at, next.delayMs, momentOf(this.#deps));
  }

  #waitMs(job: JobRecord): number | undefined {
    const deployment = this.newestDeployment(job);
    const waits = [
      ...this.#waiting(job).map((alloc) => this.#dueInMs(alloc)),
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

  #deployments(jobId: string): readonly DeploymentRecord[] {
    return this.#deps.store.listDeployments({ jobId }).map(({ record }) => record);
  }
}
