/** Owns the alloc runners of this agent: one for each alloc that is not over. */
import { shortId } from '../base/ids.js';
import { AllocRunner, watchAllocRunner } from './alloc-runner.js';
import type { AllocRunnerDeps, AllocSubject, Neighbours } from './deps.js';

export class AllocTable implements Neighbours {
  readonly #deps: AllocRunnerDeps;
  readonly #runners = new Map<string, AllocRunner>();
  readonly #onEnded: ((jobId: string) => void)[] = [];
  #leaving = false;

  constructor(deps: AllocRunnerDeps) {
    this.#deps = deps;
  }

  /** Called with the job of each alloc that is over, in the order of the calls of this. */
  onEnded(listener: (jobId: string) => void): void {
    this.#onEnded.push(listener);
  }

  /** Runs an alloc whose record is stored, from the start or from where the store says it is. */
  run(subject: AllocSubject): void {
    const { alloc } = subject;
    if (this.#leaving || this.#runners.has(alloc.id)) return;
    const runner = new AllocRunner(this.#deps, subject, this);
    this.#runners.set(alloc.id, runner);
    watchAllocRunner(runner, this.#deps.logger, () => {
      if (this.#leaving) return;
      this.#runners.delete(alloc.id);
      for (const listener of this.#onEnded) listener(alloc.jobId);
    });
    runner.run();
  }

  /** The runner of an alloc that is not over. */
  get(allocId: string): AllocRunner | undefined {
    return this.#runners.get(allocId);
  }

  /** Who has which port: the allocs that run, and those of which it is not known that they are over. */
  portHolders(allocId: string): ReadonlyMap<number, string> {
    const { store } = this.#deps;
    const holders = new Map<number, string>();
    for (const { record } of store.listAllocs()) {
      const alloc = this.#runners.get(record.id)?.alloc ?? record;
      if (alloc.id === allocId || alloc.ports === undefined) continue;
      const isOver =
        !this.isLive(alloc.id) && store.listTasks(alloc.id).every(({ phase }) => phase === 'complete');
      if (isOver) continue;
      const who = `alloc ${shortId(alloc.id)} of job ${alloc.jobId}`;
      for (const port of Object.values(alloc.ports)) holders.set(port, who);
    }
    return holders;
  }

  /** True while anything of the alloc runs, may run again, or is being cleaned up. */
  isLive(allocId: string): boolean {
    return this.#runners.has(allocId);
  }

  /** Resolves when it is known of every alloc taken up by now what became of it while no agent was there. */
  async known(): Promise<void> {
    await Promise.all([...this.#runners.values()].map((runner) => runner.known()));
  }

  /** True once the agent leaves: nothing is started any more. */
  get leaving(): boolean {
    return this.#leaving;
  }

  /** Ids of the allocs that are not over. */
  liveIds(): readonly string[] {
    return [...this.#runners.keys()];
  }

  liveCount(): number {
    return this.#runners.size;
  }

  /** The agent leaves: every workload goes on without it. */
  async shutdown(): Promise<void> {
    this.#leaving = true;
    await Promise.all([...this.#runners.values()].map((runner) => runner.shutdown()));
  }
}
