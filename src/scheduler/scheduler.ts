/**
 * Owns jobs in stand-alone mode: registers, stops, launches and purges them, each in its turn (turns.ts). What follows
 * from that is found out by a look at the job (evaluator.ts).
 */
import { AgentError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import { newUuid, shortId } from '../base/ids.js';
import type { Job } from '../jobspec/types.js';
import type { Change, JobRecord } from '../state/store.js';
import { DeploymentRequests } from './deployment-requests.js';
import { watchDeployments } from './deployment-watch.js';
import { Deployments } from './deployments.js';
import { noteEvaluation, type Done, type Evaluated, type Launched } from './evaluated.js';
import { Evaluator, purgeKey, type EvaluatorDeps } from './evaluator.js';
import { jobOf } from './hands.js';
import { dispatchChild, periodicChild, type Dispatch } from './launch.js';
import { PeriodicLauncher } from './periodic.js';
import { nextJob, planJob, type JobPlan } from './plan.js';
import { moveDeadlines, resumeAllocs } from './restore.js';
import { Turns } from './turns.js';

export type SchedulerDeps = EvaluatorDeps;

export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #evaluator: Evaluator;
  readonly #deployments: Deployments;
  readonly #turns: Turns;
  readonly #launcher: PeriodicLauncher;
  /** What people ask of deployments. */
  readonly deploymentRequests: DeploymentRequests;

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#deployments = new Deployments(deps);
    this.#evaluator = new Evaluator(deps, this.#deployments);
    this.#turns = new Turns(deps, this.#evaluator);
    this.deploymentRequests = new DeploymentRequests(deps, this.#deployments, this.#turns);
    this.#launcher = new PeriodicLauncher(deps, async (parent, slotMs, changes) => {
      await this.#turns.take(() => this.#launch(periodicChild(parent, slotMs, deps.clock.wallMs()), changes));
    });
    deps.allocs.onEnded((jobId) => {
      void this.#turns.reconsider(jobId);
    });
    watchDeployments(deps.store, (jobId) => {
      void this.#turns.reconsider(jobId);
    });
  }

  /** Takes up every alloc that was not over when the agent ended, and nothing else: `start` follows. */
  async restore(): Promise<void> {
    const known = resumeAllocs(this.#deps);
    await moveDeadlines(this.#deps, known);
  }

  /** Looks what each job still wants, and launches periodic ones from now on. */
  async start(): Promise<void> {
    for (const { record: job } of this.#deps.store.listJobs()) {
      await this.#turns.reconsider(job.id);
    }
    this.#launcher.start();
  }

  /** @throws AgentError conflict, store_unavailable */
  register(spec: Job, checkIndex?: number): Promise<Evaluated> {
    return this.#turns.takeCaughtUp(async () => {
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
      const isRetry = same && this.#deployments.newest(job)?.status === 'failed';
      const why = 'Cancelled due to newer version of job';
      const changes: Change[] = same
        ? []
        : [
            { kind: 'put_job', job },
            { kind: 'put_host', key: purgeKey(spec.id), value: '' },
          ];
      if (!same || isRetry) changes.push(...this.#deployments.changesFor(before?.record, job, why));
      changes.push(...this.#launcher.markChanges(before?.record, job));
      const begun = before === undefined ? this.#evaluator.begin(job, changes) : undefined;
      changes.push(...(begun?.changes ?? []));
      if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
      failpoint('scheduler.after_job');
      begun?.act();
      if (begun !== undefined) await this.#turns.yield();
      await this.#turns.evaluate(spec.id, { retryFailed: before !== undefined });
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
    return this.#turns.take(async () => {
      const { store } = this.#deps;
      const beganAfter = store.index();
      const record = jobOf(store, jobId);
      const job = record.stopped ? record : { ...record, version: record.version + 1, stopped: true };
      const why = 'Cancelled because job is stopped';
      const changes: Change[] = record.stopped
        ? []
        : [{ kind: 'put_job', job }, ...this.#deployments.changesFor(record, job, why)];
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
      if (ending.changes.length > 0) await this.#turns.yield();
      if (options.noShutdownDelay) await this.#hurry(jobId);
      await this.#turns.evaluate(jobId, { job, noShutdownDelay: options.noShutdownDelay });
      return this.#evaluated(job, { unchanged, triggeredBy: 'job-deregister', beganAfter });
    });
  }

  /** Stops one alloc; the evaluation when it is over fills its place again. @throws AgentError not_found */
  stopAlloc(
    allocId: string,
    noShutdownDelay: boolean,
    why = 'alloc was stopped by request',
  ): Promise<{ evalId: string; index: number }> {
    return this.#turns.take(async () => {
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
    return this.#turns.takeCaughtUp(async () => {
      const { store, clock } = this.#deps;
      const parent = jobOf(store, jobId);
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
    return this.#turns.takeCaughtUp(async () => {
      const { store, clock } = this.#deps;
      const parent = jobOf(store, jobId);
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

  /** Does `work` when nobody else changes jobs: what is collected must not be placed meanwhile. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.take(work);
  }

  /** Looks at every job again, in its turn: this host takes new allocs again. */
  reconsiderAll(): void {
    for (const { record: job } of this.#deps.store.listJobs()) void this.#turns.reconsider(job.id);
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
    if (isNew) await this.#turns.yield();
    if (isNew) await this.#turns.evaluate(child.id, {});
    const triggeredBy = child.dispatched === true ? 'job-register' : 'periodic-job';
    const done = await this.#evaluated(child, { unchanged: !isNew, triggeredBy, beganAfter });
    return { ...done, jobId: child.id };
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

  #evaluated(job: JobRecord, done: Done): Promise<Evaluated> {
    return noteEvaluation(this.#deps, this.#deployments, job, done);
  }
}
