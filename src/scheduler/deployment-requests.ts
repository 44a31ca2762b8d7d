/** Owns what people ask of a deployment: to give it up, to let it wait, to call its allocs healthy or not. */
import { AgentError } from '../base/errors.js';
import type { Change, DeploymentRecord, JobRecord } from '../state/store.js';
import { isActive, resumed, withStatus } from './deployment.js';
import type { Deployments } from './deployments.js';
import { noteEvaluation, type Done, type Evaluated } from './evaluated.js';
import { jobOf, momentOf, type HandsDeps } from './hands.js';
import type { Turns } from './turns.js';

export class DeploymentRequests {
  readonly #deps: HandsDeps;
  readonly #deployments: Deployments;
  readonly #turns: Turns;

  constructor(deps: HandsDeps, deployments: Deployments, turns: Turns) {
    this.#deps = deps;
    this.#deployments = deployments;
    this.#turns = turns;
  }

  /** Marks a deployment failed, and reverts when its groups ask for it. @throws AgentError not_found, bad_request */
  fail(deploymentId: string): Promise<Evaluated & { readonly revertedTo: number | undefined }> {
    return this.#turns.takeCaughtUp(async () => {
      const beganAfter = this.#deps.store.index();
      const { job, deployment } = this.#active(deploymentId);
      const revert = Object.values(deployment.groups).some(({ autoRevert }) => autoRevert);
      const why = 'Deployment marked as failed';
      const next = await this.#deployments.fail(job, deployment, { why, revert });
      await this.#turns.evaluate(job.id, {});
      const done = await this.#note(next, { unchanged: false, beganAfter });
      return { ...done, revertedTo: next.version === job.version ? undefined : next.version };
    });
  }

  /** Lets a deployment wait, or go on. @throws AgentError not_found, bad_request */
  pause(deploymentId: string, pause: boolean): Promise<Evaluated> {
    return this.#turns.takeCaughtUp(async () => {
      const { store, clock } = this.#deps;
      const beganAfter = store.index();
      const { job, deployment } = this.#active(deploymentId);
      const status = pause ? 'paused' : 'running';
      const description = pause ? 'Deployment is paused' : 'Deployment is running';
      const goesOn = pause ? deployment : resumed(deployment, momentOf(this.#deps));
      const changed = withStatus(goesOn, status, description, clock.wallMs());
      await store.commit([{ kind: 'put_deployment', deployment: changed }], { whenRefused: 'reject' });
      await this.#turns.evaluate(job.id, {});
      return this.#note(job, { unchanged: deployment.status === status, beganAfter });
    });
  }

  /** Says how allocs are, instead of whoever watches them. @throws AgentError not_found, bad_request */
  setHealth(
    deploymentId: string,
    said: { readonly healthy: readonly string[]; readonly unhealthy: readonly string[] },
  ): Promise<Evaluated> {
    return this.#turns.takeCaughtUp(async () => {
      const { store, allocs, clock } = this.#deps;
      const beganAfter = store.index();
      const { job, deployment } = this.#active(deploymentId);
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
      await this.#turns.evaluate(job.id, {});
      return this.#note(job, { unchanged: false, beganAfter });
    });
  }

  #active(id: string): { readonly job: JobRecord; readonly deployment: DeploymentRecord } {
    const deployment = this.#deps.store.getDeployment(id)?.record;
    if (deployment === undefined) throw new AgentError('not_found', `no deployment ${id}`);
    if (!isActive(deployment)) {
      throw new AgentError('bad_request', `deployment ${id} is over: it is ${deployment.status}`);
    }
    return { job: jobOf(this.#deps.store, deployment.jobId), deployment };
  }

  #note(job: JobRecord, done: Omit<Done, 'triggeredBy'>): Promise<Evaluated> {
    const triggeredBy = 'deployment-watcher';
    return noteEvaluation(this.#deps, this.#deployments, job, { ...done, triggeredBy });
  }
}
