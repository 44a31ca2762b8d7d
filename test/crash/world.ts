/**
 * Owns one host under attack: a real agent, the workloads on it, what was asked of it and what it answered, and which
 * executors were killed. Every answer that says "done" is a promise that the audit holds the agent to.
 */
import { existsSync, readdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isAlive } from '../../src/base/host.js';
import type { AllocListStub, Run } from '../../src/api/wire.js';
import { RealAgent } from '../helpers/real-agent.js';
import { FeedReader } from './feed-reader.js';
import { jobOf, type Workload } from './workloads.js';

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What is known to be wanted of a job; undefined = an answer never came, so either may hold. */
export interface Wish {
  stopped: boolean | undefined;
  generation: number;
  priority: number;
  busy: boolean;
}

export class CrashWorld implements AsyncDisposable {
  readonly agent: RealAgent;
  readonly home: string;
  readonly workloads: readonly Workload[];
  readonly feed: FeedReader;
  readonly wishes = new Map<string, Wish>();
  readonly killedExecutors = new Set<string>();
  /** Executors die by themselves, and nobody notes which. */
  executorsAreDoomed = false;
  /** Jobs that were ever purged: what is known of their runs is gone. */
  readonly purged = new Set<string>();
  /** Restarts that the agent said it would make, by alloc. */
  readonly restartsPromised = new Map<string, number>();
  /** Newest view of every run ever seen. */
  readonly runs = new Map<string, Run & { readonly job: string }>();
  readonly faults: string[] = [];
  agentKills = 0;
  executorKills = 0;
  operations = 0;
  #allocs: readonly AllocListStub[] = [];

  static async open(
    workloads: readonly Workload[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<CrashWorld> {
    const agent = await RealAgent.start({ env });
    const world = new CrashWorld(agent, workloads);
    await mkdir(world.home, { mode: 0o777 });
    return world;
  }

  private constructor(agent: RealAgent, workloads: readonly Workload[]) {
    this.agent = agent;
    this.workloads = workloads;
    this.home = join(agent.dir, 'evidence');
    this.feed = new FeedReader(agent.socket);
    for (const { id } of workloads)
      this.wishes.set(id, { stopped: undefined, generation: 0, priority: 50, busy: false });
  }

  // ---- operations ------------------------------------------------------------------------------------------------

  /** Registers a job. Not being answered is no fault; a refusal is. */
  async register(workload: Workload, change: 'none' | 'in_place' | 'replacing'): Promise<void> {
    await this.#operate(workload, async (wish) => {
      if (change === 'in_place') wish.priority = (wish.priority % 90) + 1;
      if (change === 'replacing') wish.generation += 1;
      wish.stopped = undefined;
      if (await this.#ask('PUT', '/v1/jobs', { Job: jobOf(workload, this.home, wish) })) wish.stopped = false;
    });
  }

  async stop(workload: Workload, purge: boolean): Promise<void> {
    await this.#operate(workload, async (wish) => {
      wish.stopped = undefined;
      if (purge) this.purged.add(workload.id);
      if (await this.#ask('DELETE', `/v1/job/${workload.id}?purge=${purge}`)) wish.stopped = true;
    });
  }

  async restart(workload: Workload): Promise<void> {
    await this.#operate(workload, async () => {
      const alloc = this.#allocOf(workload);
      if (alloc === undefined) return;
      if (await this.#ask('PUT', `/v1/client/allocation/${alloc}/restart`, {}))
        this.restartsPromised.set(alloc, (this.restartsPromised.get(alloc) ?? 0) + 1);
    });
  }

  async signal(workload: Workload): Promise<void> {
    await this.#operate(workload, async () => {
      const alloc = this.#allocOf(workload);
      if (alloc !== undefined)
        await this.#ask('PUT', `/v1/client/allocation/${alloc}/signal`, { Signal: 'SIGCONT' });
    });
  }

  /** One operation on a job at a time, so that its answer can be understood. */
  async #operate(workload: Workload, work: (wish: Wish) => Promise<void>): Promise<void> {
    const wish = this.wishes.get(workload.id);
    if (wish === undefined || wish.busy) return;
    wish.busy = true;
    this.operations += 1;
    try {
      await work(wish);
    } finally {
      wish.busy = false;
    }
  }

  /** True when it was done, false when it is not known whether it was, or when it could not be. */
  async #ask(method: string, path: string, body?: unknown): Promise<boolean> {
    const answer = await this.agent.request(method, path, body).catch(() => undefined);
    // 503: it is leaving, and has not done it.
    if (answer !== undefined && answer.status >= 500 && answer.status !== 503)
      this.faults.push(`${method} ${path}: ${answer.text}`);
    return answer?.status === 200;
  }

  #allocOf(workload: Workload): string | undefined {
    return this.#allocs.filter((alloc) => alloc.JobID === workload.id).at(-1)?.ID;
  }

  // ---- blows -----------------------------------------------------------------------------------------------------

  async killAgent(): Promise<void> {
    this.agentKills += 1;
    await this.agent.kill();
  }

  /** SIGKILL to the executor of some run that is there. @param pick chooses one */
  killExecutor(pick: (runIds: readonly string[]) => string | undefined): void {
    const runId = pick(this.runDirs());
    if (runId === undefined) return;
    try {
      const { executor } = this.agent.processesOfRun(runId);
      this.killedExecutors.add(runId);
      if (!isAlive(executor)) return;
      process.kill(executor.pid, 'SIGKILL');
      this.executorKills += 1;
    } catch {
      // It ended while we looked.
    }
  }

  /** Ids of the runs whose directory is there. */
  runDirs(): readonly string[] {
    const root = join(this.agent.dataDir, 'run');
    return existsSync(root) ? readdirSync(root).flatMap((shard) => readdirSync(join(root, shard))) : [];
  }

  /** True when the end of a run may be unknown. */
  mayBeUnknown(runId: string): boolean {
    return this.executorsAreDoomed || this.killedExecutors.has(runId);
  }

  // ---- what the agent says ---------------------------------------------------------------------------------------

  allocs(): readonly AllocListStub[] {
    return this.#allocs;
  }

  /** Asks for every alloc and run. An agent that dies meanwhile leaves the older view. */
  async look(): Promise<void> {
    try {
      this.#allocs = (await this.agent.get('/v1/allocations')) as readonly AllocListStub[];
      for (const { ID, JobID } of this.#allocs) {
        const answer = await this.agent.request('GET', `/v1/holdfast/allocation/${ID}/runs?task=t`);
        if (answer.status !== 200) continue;
        for (const run of JSON.parse(answer.text) as readonly Run[])
          this.runs.set(run.RunID, { ...run, job: JobID });
      }
    } catch {
      // It was killed: the next look tells more.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.feed.close();
    await this.agent.close();
  }
}
