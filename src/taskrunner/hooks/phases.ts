/**
 * Owns the hook phases at work of one task: begins them as it is told, gives them their context, cancels them, and posts
 * what they came to. How the hooks of a phase are run is in run-hooks.ts.
 */
import { LazyAbort } from '../../base/abort.js';
import type { Task } from '../../jobspec/types.js';
import type { HookPhase, RunnerEvent } from '../machine.js';
import type { TaskSpec } from '../task-spec.js';
import type { WatchContext } from './hook.js';
import type { PhaseCall, PhaseContext, TaskHooks } from './run-hooks.js';

/** What a hook that watches can do to its task. */
export type WatchControls = Pick<WatchContext, 'restart' | 'sendSignal' | 'exec' | 'kill'>;

export class HookPhases {
  readonly #hooks: TaskHooks;
  readonly #spec: TaskSpec;
  readonly #post: (event: RunnerEvent) => void;
  readonly #controls: WatchControls;
  /** Of the phases at work: a slow poststart may still be when the exited hooks begin. */
  readonly #aborts = new Set<LazyAbort>();
  /** Of what hooks do beside the workload. */
  #watchAbort: LazyAbort | undefined;
  /** Updates come one after the other. */
  #updates: Promise<void> = Promise.resolve();

  constructor(hooks: TaskHooks, spec: TaskSpec, post: (event: RunnerEvent) => void, controls: WatchControls) {
    this.#hooks = hooks;
    this.#spec = spec;
    this.#post = post;
    this.#controls = controls;
  }

  /** Begins a phase; what it came to is posted. */
  begin(phase: HookPhase, attempt: number): void {
    if (phase === 'pre_kill' || phase === 'exited') this.#watchAbort?.abort();
    if (phase === 'poststart') this.#watch(attempt);
    void this.#run(phase, attempt);
  }

  /** Begins the update hooks. @param before the task as it was */
  update(attempt: number, before: Task): void {
    const abort = new LazyAbort();
    this.#aborts.add(abort);
    const context = this.#context('update', attempt);
    this.#updates = this.#updates.then(async () => {
      if (!abort.aborted) await this.#hooks.update({ context, abort }, before);
      this.#aborts.delete(abort);
    });
  }

  /** Cancels what is at work, stop hooks apart; the answers still come. */
  abort(): void {
    for (const abort of this.#aborts) abort.abort();
    this.#watchAbort?.abort();
  }

  /** The agent leaves: resolves when the hooks have let go of what they held. */
  async shutdown(attempt: number): Promise<void> {
    const context = this.#context('shutdown', attempt);
    await this.#hooks.run('shutdown', { context, abort: new LazyAbort() });
  }

  async #run(phase: HookPhase, attempt: number): Promise<void> {
    const abort = new LazyAbort();
    if (phase !== 'stop') this.#aborts.add(abort);
    const answer = await this.#answer(phase, attempt, { context: this.#context(phase, attempt), abort });
    this.#aborts.delete(abort);
    this.#post(answer);
  }

  async #answer(phase: HookPhase, attempt: number, call: PhaseCall): Promise<RunnerEvent> {
    if (phase === 'prestart') {
      const result = await this.#hooks.prestart(call);
      return result.kind === 'done'
        ? { kind: 'hooks_done', phase, attempt }
        : { ...result, kind: 'prestart_failed' };
    }
    await this.#hooks.run(phase === 'pre_kill' ? 'preKill' : phase, call);
    return { kind: 'hooks_done', phase, attempt };
  }

  #watch(attempt: number): void {
    this.#watchAbort?.abort();
    const abort = new LazyAbort();
    this.#watchAbort = abort;
    const context = { ...this.#context('watch', attempt), ...this.#controls };
    this.#hooks.watch({ context, abort });
  }

  #context(phase: HookPhase | 'update' | 'shutdown' | 'watch', attempt: number): PhaseContext {
    const { job, group, task, allocId, allocIndex, dirs, payload } = this.#spec.subject;
    return {
      allocId,
      allocIndex,
      job,
      group,
      task,
      dirs,
      payload: typeof payload === 'string' ? Buffer.from(payload, 'base64') : payload,
      attempt,
      env: () => this.#spec.env(),
      hostEnv: () => this.#spec.env(dirs),
      config: () => this.#spec.config(),
      emit: (event) => {
        this.#post({ kind: 'say', event });
      },
      waitFor: (what) => {
        if (phase === 'update' || phase === 'shutdown' || phase === 'watch') return;
        this.#post({ kind: 'waiting_on', phase, attempt, what });
      },
    };
  }
}
