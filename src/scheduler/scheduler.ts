/**
 * Owns jobs in stand-alone mode: registers, stops, launches and purges them. One evaluation at a time, so that no place
 * is ever filled twice. What an evaluation does is in evaluator.ts. Over 300 lines because everything that changes a job
 * shares that one turn and its retries.
 */
import type { AllocSubject } from '../allocrunner/deps.js';
import type { Timer } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import { newUuid, shortId } from '../base/ids.js';
import type { Job } from '../jobspec/types.js';
import type { AllocRecord, Change, EvaluationTrigger, FeedRow, JobRecord } from '../state/store.js';
import { graceAfterAbsence, isActive, resumed, withStatus } from './deployment.js';
import { evaluationOf } from './evaluation.js';
import {
  Evaluator,
  EVALUATE_RETRY_MS,
  purgeKey,
  type EvaluateOptions,
  type EvaluatorDeps,
} from './evaluator.js';
import { momentOf } from './hands.js';
import { dispatchChild, periodicChild, type Dispatch } from './launch.js';
import { PeriodicLauncher } from './periodic.js';
import { nextJob, planJob, type JobPlan } from './plan.js';
import { rebased } from './reschedule.js';

export type SchedulerDeps = EvaluatorDeps;

/** What a registration, stop or evaluation came to. */
export interface Evaluated {
  readonly evalId: string;
  readonly index: number;
  /** The store's index before it began. */
  readonly beganAfter: number;
  readonly version: number;
  readonly jobModifyIndex: number;
  readonly unchanged: boolean;
}

/** A job that was made by launching another one. */
export interface Launched extends Evaluated {
  readonly jobId: string;
}

export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #evaluator: Evaluator;
  readonly #launcher: PeriodicLauncher;
  #last: Promise<unknown> = Promise.resolve();
  /** When each job is looked at again without anything happening to it. */
  readonly #alarms = new Map<string, Timer>();
  /** What was last heard of the health of allocs in deployments. */
  readonly #health = new Map<string, string>();

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#evaluator = new Evaluator(deps);
    this.#launcher = new PeriodicLauncher(deps, async (parent, slotMs, changes) => {
      await this.#inTurn(() => this.#launch(periodicChild(parent, slotMs, deps.clock.wallMs()), changes));
    });
    deps.allocs.onEnded((jobId) => {
      void this.#reconsider(jobId);
    });
    deps.store.onCommitted((rows) => {
      for (const row of rows) this.#hear(row);
    });
  }

  /** Takes up every alloc that was not over when the agent ended, then whatever its jobs still want. */
  async restore(): Promise<void> {
    const { store, allocs } = this.#deps;
    for (const { record: alloc } of store.listAllocs()) {
      const tasks = store.listTasks(alloc.id);
      const over = tasks.length > 0 && tasks.every((task) => task.phase === 'complete');
      const subject = over ? undefined : this.#subject(alloc);
      if (subject !== undefined) allocs.run(subject);
    }
    await this.#grace();
    for (const { record: job } of store.listJobs()) {
      await this.#reconsider(job.id);
    }
    this.#launcher.start();
  }

  /** @throws AgentError conflict, store_unavailable */
  register(spec: Job, checkIndex?: number): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store, clock } = this.#deps;
      const beganAfter = store.index();
      const before = store.getJob(spec.id);
      const indexNow = before?.modifyIndex ?? 0;
      if (checkIndex !== undefined && checkIndex !== indexNow) {
        throw new AgentError(
          'conflict',
          `job ${spec.id} has changed: its index is ${indexNow}, not ${checkIndex}; look at it with "holdfast inspect ${spec.id}", then run it with --check-index ${indexNow}`,
        );
      }
      const job = nextJob(before?.record, spec, clock.wallMs());
      const same = job === before?.record;
      // Somebody asks again for what has failed: it gets another chance.
      const isRetry = same && this.#evaluator.newestDeployment(job)?.status === 'failed';
      const why = 'Cancelled due to newer version of job';
      const changes: Change[] = same
        ? []
        : [
            { kind: 'put_job', job },
            { kind: 'put_host', key: purgeKey(spec.id), value: '' },
          ];
      if (!same || isRetry) changes.push(...this.#evaluator.deploymentChanges(before?.record, job, why));
      changes.push(...this.#launcher.markChanges(before?.record, job));
      const begun = before === undefined ? this.#evaluator.begin(job, changes) : undefined;
      changes.push(...(begun?.changes ?? []));
      if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
      failpoint('scheduler.after_job');
      begun?.act();
      await this.#evaluateOrRetry(spec.id, { retryFailed: before !== undefined });
      this.#launcher.start();
      return this.#evaluated(job, { unchanged: same, triggeredBy: 'job-register', beganAfter });
    });
  }

  /** Says what `register` would do now, and does nothing. */
  plan(spec: Job): JobPlan {
    const { store, clock } = this.#deps;
    const seen = this.#evaluator.seen(spec.id);
    return planJob(store.getJob(spec.id), spec, { ...seen, nowMs: clock.wallMs() });
  }

  /**
   * Acts also when the disk refuses writes (a task may be what fills it); the store keeps the change until it can.
   * @throws AgentError not_found
   */
  stop(
    jobId: string,
    options: { readonly purge: boolean; readonly noShutdownDelay: boolean },
  ): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store } = this.#deps;
      const beganAfter = store.index();
      const { record } = this.#job(jobId);
      const job = record.stopped ? record : { ...record, version: record.version + 1, stopped: true };
      const why = 'Cancelled because job is stopped';
      const changes: Change[] = record.stopped
        ? []
        : [{ kind: 'put_job', job }, ...this.#evaluator.deploymentChanges(record, job, why)];
      if (options.purge) changes.push({ kind: 'put_host', key: purgeKey(jobId), value: 'yes' });
      const unchanged = changes.length === 0;
      const ending = this.#evaluator.beginStop(job, options.noShutdownDelay);
      changes.push(...ending.changes);
      try {
        if (changes.length > 0) await store.commit(changes, { whenRefused: 'keep' });
      } catch (error) {
        ending.takeBack();
        throw error;
      }
      ending.act();
      if (options.noShutdownDelay) await this.#hurry(jobId);
      await this.#evaluateOrRetry(jobId, { job, noShutdownDelay: options.noShutdownDelay });
      return this.#evaluated(job, { unchanged, triggeredBy: 'job-deregister', beganAfter });
    });
  }

  /** Stops one alloc; the evaluation when it is over fills its place again. @throws AgentError not_found */
  stopAlloc(
    allocId: string,
    noShutdownDelay: boolean,
    why = 'alloc was stopped by request',
  ): Promise<{ evalId: string; index: number }> {
    return this.#inTurn(async () => {
      const { store } = this.#deps;
      const beganAfter = store.index();
      const found = store.getAlloc(allocId);
      if (found === undefined) throw new AgentError('not_found', `no alloc ${allocId}`);
      await this.#evaluator.hands.stop([{ alloc: found.record, why }], noShutdownDelay);
      const job = store.getJob(found.record.jobId)?.record;
      if (job === undefined) return { evalId: newUuid(), index: store.index() };
      return this.#evaluated(job, { unchanged: false, triggeredBy: 'alloc-stop', beganAfter });
    });
  }

  /** Runs a parameterized job. The same token again gives the job that was made then. @throws AgentError not_found, bad_request */
  dispatch(jobId: string, dispatch: Dispatch): Promise<Launched> {
    return this.#inTurn(async () => {
      const { store, clock } = this.#deps;
      const { record: parent } = this.#job(jobId);
      const token = dispatch.idempotencyToken;
      const known = store
        .listJobs()
        .find(({ record }) => record.parentId === jobId && record.idempotencyToken === token);
      if (token !== undefined && known !== undefined) return this.#launch(known.record, []);
      const made = { nowMs: clock.wallMs(), shortId: shortId(newUuid()) };
      return this.#launch(dispatchChild(parent, dispatch, made), []);
    });
  }

  /** Launches a periodic job now, whatever the clock says. @throws AgentError not_found, bad_request */
  forcePeriodic(jobId: string): Promise<Launched> {
    return this.#inTurn(async () => {
      const { clock } = this.#deps;
      const { record: parent } = this.#job(jobId);
      if (parent.spec.periodic === undefined || parent.stopped) {
        const why = parent.stopped ? 'it is stopped; register it again' : 'it has no `periodic` block';
        throw new AgentError('bad_request', `job ${jobId} cannot be launched: ${why}`);
      }
      const nowMs = clock.wallMs();
      return this.#launch(periodicChild(parent, nowMs, nowMs), []);
    });
  }

  /** When a periodic job is launched next; undefined = not by the clock. */
  nextLaunchMs(jobId: string): number | undefined {
    return this.#launcher.nextLaunchMs(jobId);
  }

  /** Marks a deployment failed, and reverts when its groups ask for it. @throws AgentError not_found, bad_request */
  failDeployment(deploymentId: string): Promise<Evaluated & { readonly revertedTo: number | undefined }> {
    return this.#inTurn(async () => {
      const beganAfter = this.#deps.store.index();
      const { job, deployment } = this.#activeDeployment(deploymentId);
      const revert = Object.values(deployment.groups).some(({ autoRevert }) => autoRevert);
      const why = 'Deployment marked as failed';
      const next = await this.#evaluator.failDeployment(job, deployment, { why, revert });
      await this.#evaluateOrRetry(job.id, {});
      const done = await this.#evaluated(next, {
        unchanged: false,
        triggeredBy: 'deployment-watcher',
        beganAfter,
      });
      return { ...done, revertedTo: next.version === job.version ? undefined : next.version };
    });
  }

  /** Lets a deployment wait, or go on. @throws AgentError not_found, bad_request */
  pauseDeployment(deploymentId: string, pause: boolean): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store, clock } = this.#deps;
      const beganAfter = store.index();
      const { job, deployment } = this.#activeDeployment(deploymentId);
      const status = pause ? 'paused' : 'running';
      const description = pause ? 'Deployment is paused' : 'Deployment is running';
      const goesOn = pause ? deployment : resumed(deployment, momentOf(this.#deps));
      const changed = withStatus(goesOn, status, description, clock.wallMs());
      await store.commit([{ kind: 'put_deployment', deployment: changed }], { whenRefused: 'reject' });
      await this.#evaluateOrRetry(job.id, {});
      return this.#evaluated(job, {
        unchanged: deployment.status === status,
        triggeredBy: 'deployment-watcher',
        beganAfter,
      });
    });
  }

  /** Says how allocs are, instead of whoever watches them. @throws AgentError not_found, bad_request */
  setHealth(
    deploymentId: string,
    said: { readonly healthy: readonly string[]; readonly unhealthy: readonly string[] },
  ): Promise<Evaluated> {
    return this.#inTurn(async () => {
      const { store, allocs, clock } = this.#deps;
      const beganAfter = store.index();
      const { job, deployment } = this.#activeDeployment(deploymentId);
      const puts = [
        ...said.healthy.map((id) => ({ id, healthy: true })),
        ...said.unhealthy.map((id) => ({ id, healthy: false })),
      ].map(({ id, healthy }): Change => {
        const runner = allocs.get(id);
        if (runner?.alloc.deploymentId !== deployment.id) {
          throw new AgentError('bad_request', `alloc ${id} does not run in deployment ${deployment.id}`);
        }
        const health = { healthy, atMs: clock.wallMs(), detail: 'set by request' };
        return { kind: 'put_alloc', alloc: runner.want({ health }) };
      });
      if (puts.length > 0) await store.commit(puts, { whenRefused: 'reject' });
      await this.#evaluateOrRetry(job.id, {});
      return this.#evaluated(job, { unchanged: false, triggeredBy: 'deployment-watcher', beganAfter });
    });
  }

  /** Does `work` when nobody else changes jobs: what is collected must not be placed meanwhile. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#inTurn(work);
  }

  /** Looks at every job again, in its turn: this host takes new allocs again. */
  reconsiderAll(): void {
    for (const { record: job } of this.#deps.store.listJobs()) void this.#reconsider(job.id);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Stores a launch, unless it is there already, and starts it. */
  async #launch(child: JobRecord, more: readonly Change[]): Promise<Launched> {
    const { store } = this.#deps;
    const beganAfter = store.index();
    const isNew = store.getJob(child.id) === undefined;
    const begun = isNew ? this.#evaluator.begin(child, []) : undefined;
    const changes: readonly Change[] = [
      ...(isNew ? [{ kind: 'put_job', job: child } as const] : []),
      ...more,
      ...(begun?.changes ?? []),
    ];
    if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
    begun?.act();
    if (isNew) await this.#evaluateOrRetry(child.id, {});
    const triggeredBy = child.dispatched === true ? 'job-register' : 'periodic-job';
    const done = await this.#evaluated(child, { unchanged: !isNew, triggeredBy, beganAfter });
    return { ...done, jobId: child.id };
  }

  /** Looks at a job again because something happened to it. Never rejects: what cannot be done now is tried later. */
  async #reconsider(jobId: string): Promise<void> {
    const { allocs, store, logger } = this.#deps;
    if (allocs.leaving) return;
    // What is kept for the disk is not seen by reads yet, and a place must be judged by how its alloc really ended.
    if (store.keptChanges() > 0) {
      this.#setAlarm(jobId, EVALUATE_RETRY_MS);
      return;
    }
    await this.#inTurn(() => this.#evaluateOrRetry(jobId, {})).catch((error: unknown) => {
      logger.error({ job_id: jobId, error: describeError(error) }, 'cannot evaluate a job, trying again');
    });
  }

  /** One alarm a job: the earliest that is known of. */
  #setAlarm(jobId: string, inMs: number): void {
    this.#alarms.get(jobId)?.[Symbol.dispose]();
    const timer = this.#deps.clock.setTimer(inMs, () => {
      this.#alarms.delete(jobId);
      void this.#reconsider(jobId);
    });
    timer.unref();
    this.#alarms.set(jobId, timer);
  }

  /** The wish is stored by now: when it cannot be carried out at once, that is for us to repeat. */
  async #evaluateOrRetry(jobId: string, options: EvaluateOptions): Promise<void> {
    try {
      const { againInMs } = await this.#evaluator.evaluate(jobId, options);
      const wait = this.#deps.store.keptChanges() > 0 ? EVALUATE_RETRY_MS : againInMs;
      if (wait !== undefined) this.#setAlarm(jobId, wait);
    } catch (error) {
      this.#setAlarm(jobId, EVALUATE_RETRY_MS);
      throw error;
    }
  }

  /** The health of an alloc in a deployment has changed: the deployment may go on, or has failed. */
  #hear({ payload }: FeedRow): void {
    if (payload.topic !== 'Allocation') return;
    if (payload.type === 'AllocationPurged') {
      this.#health.delete(payload.allocId);
      return;
    }
    const { id, jobId, deploymentId, health, clientStatus } = payload.alloc;
    if (deploymentId === undefined) return;
    const heard = `${deploymentId} ${String(health?.healthy)} ${clientStatus}`;
    if (this.#health.get(id) === heard) return;
    this.#health.set(id, heard);
    const deployment = this.#deps.store.getDeployment(deploymentId)?.record;
    if (deployment !== undefined && isActive(deployment)) void this.#reconsider(jobId);
  }

  /** Deadlines that passed while no agent was there to see what is well, and those that an earlier boot has set. */
  async #grace(): Promise<void> {
    const { store, logger } = this.#deps;
    const now = momentOf(this.#deps);
    const changes = store.listDeployments().flatMap(({ record }): Change[] => {
      const job = store.getJob(record.jobId)?.record.spec;
      if (!isActive(record) || job === undefined) return [];
      return [{ kind: 'put_deployment', deployment: graceAfterAbsence(record, job, now) }];
    });
    for (const { record: alloc } of store.listAllocs()) {
      const { reschedule: tracker } = alloc;
      const next = tracker?.next;
      if (tracker === undefined || next === undefined || next.at.bootId === now.bootId) continue;
      const reschedule = { ...tracker, next: { ...next, at: rebased(next.at, next.delayMs, now) } };
      changes.push({ kind: 'put_alloc', alloc: { ...alloc, reschedule } });
    }
    if (changes.length === 0) return;
    await store.commit(changes, { whenRefused: 'keep' }).catch((error: unknown) => {
      logger.warn({ error: describeError(error) }, 'cannot move the deadlines of deployments, ignoring');
    });
  }

  /** Allocs that stop already, and wait for `shutdown_delay`, shall not wait any longer. */
  async #hurry(jobId: string): Promise<void> {
    const { store, allocs } = this.#deps;
    const waiting = store
      .listAllocs({ jobId })
      .flatMap(({ record }) => allocs.get(record.id)?.alloc ?? [])
      .filter((alloc) => alloc.desiredStatus === 'stop' && !alloc.noShutdownDelay);
    await this.#evaluator.hands.stop(
      waiting.map((alloc) => ({ alloc, why: alloc.desiredDescription })),
      true,
    );
  }

  /** An alloc with the spec of its own version; undefined (and logged) when that is not known any more. */
  #subject(alloc: AllocRecord): AllocSubject | undefined {
    const job = this.#deps.store.getJobVersion(alloc.jobId, alloc.jobVersion)?.record.spec;
    const group = job?.groups.find((candidate) => candidate.name === alloc.group);
    if (job === undefined || group === undefined) {
      this.#deps.logger.error(
        { alloc_id: alloc.id, job_id: alloc.jobId, version: alloc.jobVersion },
        'the job version of an alloc is missing: its processes, if any, are not supervised',
      );
      return undefined;
    }
    return { alloc, job, group };
  }

  #job(jobId: string): { readonly record: JobRecord } {
    const found = this.#deps.store.getJob(jobId);
    if (found === undefined) throw new AgentError('not_found', `no job ${jobId}: see holdfast ps -a`);
    return found;
  }

  #activeDeployment(id: string): {
    readonly job: JobRecord;
    readonly deployment: Parameters<typeof isActive>[0];
  } {
    const deployment = this.#deps.store.getDeployment(id)?.record;
    if (deployment === undefined) throw new AgentError('not_found', `no deployment ${id}`);
    if (!isActive(deployment)) {
      throw new AgentError('bad_request', `deployment ${id} is over: it is ${deployment.status}`);
    }
    return { job: this.#job(deployment.jobId).record, deployment };
  }

  /** Writes down what was done, for those who follow it. */
  async #evaluated(
    { id, spec }: JobRecord,
    made: {
      readonly unchanged: boolean;
      readonly triggeredBy: EvaluationTrigger;
      readonly beganAfter: number;
    },
  ): Promise<Evaluated> {
    const { store, clock, logger } = this.#deps;
    const job = store.getJob(id);
    const jobModifyIndex = job?.modifyIndex ?? store.index();
    const newest = job === undefined ? undefined : this.#evaluator.newestDeployment(job.record);
    const evaluation = evaluationOf(
      { id, spec },
      {
        ...made,
        id: newUuid(),
        deploymentId: newest === undefined || !isActive(newest) ? undefined : newest.id,
        jobModifyIndex,
        nowMs: clock.wallMs(),
      },
    );
    await store
      .commit([{ kind: 'put_evaluation', evaluation }], { whenRefused: 'keep' })
      .catch((error: unknown) => {
        logger.warn({ job_id: id, error: describeError(error) }, 'cannot note an evaluation, ignoring');
      });
    return {
      evalId: evaluation.id,
      index: store.index(),
      beganAfter: made.beganAfter,
      version: job?.record.version ?? 0,
      jobModifyIndex,
      unchanged: made.unchanged,
    };
  }
}
