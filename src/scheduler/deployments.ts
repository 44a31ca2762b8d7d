/**
 * Owns the deployments of jobs: begins one with a new version, looks how far it has come, ends it. What is decided is in
 * deployment.ts.
 */
import { newUuid } from '../base/ids.js';
import type { Change, DeploymentRecord, JobRecord } from '../state/store.js';
import { chooseRevert, isActive, judgeDeployment, newDeployment, withStatus } from './deployment.js';
import { evaluationOf } from './evaluation.js';
import { allocsOf, momentOf, type HandsDeps } from './hands.js';

export class Deployments {
  readonly #deps: Pick<HandsDeps, 'clock' | 'bootId' | 'store'>;

  constructor(deps: Pick<HandsDeps, 'clock' | 'bootId' | 'store'>) {
    this.#deps = deps;
  }

  /** The newest deployment of the job's version. */
  newest({ id, version }: JobRecord): DeploymentRecord | undefined {
    return this.#of(id).findLast(({ jobVersion }) => jobVersion === version);
  }

  /** Changes that go with a new version of a job: its deployment, and the end of the one before. */
  changesFor(before: JobRecord | undefined, job: JobRecord, why: string): readonly Change[] {
    const now = momentOf(this.#deps);
    const cancelled = before === undefined ? [] : this.#of(job.id).filter(isActive);
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
  async fail(
    job: JobRecord,
    deployment: DeploymentRecord,
    { why, revert }: { readonly why: string; readonly revert: boolean },
  ): Promise<JobRecord> {
    const { store } = this.#deps;
    const now = momentOf(this.#deps);
    const versions = store.listJobVersions(job.id).map(({ record }) => record);
    const choice = revert ? chooseRevert(deployment, versions, this.#of(job.id)) : undefined;
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
    changes.push(this.#note(job, failed));
    await store.commit(changes, { whenRefused: 'reject' });
    return next;
  }

  /** Looks how far the deployment has come. @returns the job as it is afterwards */
  async follow(job: JobRecord): Promise<JobRecord> {
    const { store } = this.#deps;
    const active = this.newest(job);
    if (active === undefined || !isActive(active) || job.stopped) return job;
    const now = momentOf(this.#deps);
    const verdict = judgeDeployment(active, allocsOf(store, job.id), now);
    if (verdict.kind === 'failed') return this.fail(job, verdict.deployment, verdict);
    if (verdict.kind === 'successful') {
      const what = 'Deployment completed successfully';
      const deployment = withStatus(verdict.deployment, 'successful', what, now.wallMs);
      await store.commit([{ kind: 'put_deployment', deployment }, this.#note(job, deployment)]);
    } else if (verdict.deployment !== active) {
      await store.commit([{ kind: 'put_deployment', deployment: verdict.deployment }]);
    }
    return job;
  }

  #note(job: JobRecord, { id }: DeploymentRecord): Change {
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

  /** The newest version before this one that was deployed well. */
  stableBefore({ id, version }: JobRecord): JobRecord | undefined {
    const deployed = this.#of(id).filter(
      ({ status, jobVersion }) => status === 'successful' && jobVersion < version,
    );
    const newest = deployed.reduce((most, { jobVersion }) => Math.max(most, jobVersion), -1);
    const found = this.#deps.store.getJobVersion(id, newest)?.record;
    return found?.stopped === false ? found : undefined;
  }

  #of(jobId: string): readonly DeploymentRecord[] {
    return this.#deps.store.listDeployments({ jobId }).map(({ record }) => record);
  }
}
