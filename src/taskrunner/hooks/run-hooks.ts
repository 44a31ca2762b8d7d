/** Owns the running of a task's hooks: order, bounds, what a failure means, and the state that hooks want back. */
import type { LazyAbort } from '../../base/abort.js';
import { sleep, type Clock } from '../../base/clock.js';
import { AgentError, describeError, isRecoverable } from '../../base/errors.js';
import type { Logger } from '../../base/log.js';
import type { TaskMount } from '../../drivers/driver.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { Task } from '../../jobspec/types.js';
import type { HookRecord } from '../../state/store.js';
import { runBounded } from './bounded.js';
import {
  HOOK_DEADLINES_MS,
  HookFailure,
  type BoundedPhase,
  type HookContext,
  type TaskHook,
  type WatchContext,
} from './hook.js';

/** How soon a store that refuses writes is asked again; the same as for an intent. */
const SAVE_RETRY_MS = 1_000;

/** How a prestart phase ended. */
export type PrestartResult =
  | { readonly kind: 'done' }
  | {
      readonly kind: 'failed';
      readonly event: TaskEvent;
      readonly recoverable: boolean;
      readonly cancelled: boolean;
    };

export interface HookDeps {
  readonly hooks: readonly TaskHook[];
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  /** Stores what a hook wants back. */
  readonly save: (record: HookRecord) => Promise<void>;
}

/** What the hooks of a phase have in common; the rest belongs to the single hook. */
type Own = 'data' | 'logger' | 'clock' | 'save' | 'signal';
export type PhaseContext = Omit<HookContext, Own>;
export type WatchPhaseContext = Omit<WatchContext, Own>;

/** A phase that is run. */
export interface PhaseCall<Context extends PhaseContext = PhaseContext> {
  readonly context: Context;
  /** Cancels it. */
  readonly abort: LazyAbort;
}

/** Who waits while something is stored. */
type Caller = Pick<PhaseCall, 'abort'> & Pick<PhaseContext, 'waitFor'>;

/** The hooks of one task runner. A slow poststart may still be at work when a later phase begins; no other may. */
export class TaskHooks {
  readonly #deps: HookDeps;
  readonly #records: Map<string, HookRecord>;
  readonly #id: { readonly allocId: string; readonly task: string };

  /** @param stored what the hooks of this task had stored, from the store */
  constructor(
    deps: HookDeps,
    id: { readonly allocId: string; readonly task: string },
    stored: readonly HookRecord[],
  ) {
    this.#deps = deps;
    this.#id = id;
    this.#records = new Map(stored.map((record) => [record.hook, record]));
  }

  /** Environment given by hooks, in the hooks' order. */
  env(): readonly Readonly<Record<string, string>>[] {
    return this.#inOrder().map(({ env }) => env);
  }

  /** Mounts given by hooks, in the hooks' order. */
  mounts(): readonly TaskMount[] {
    return this.#inOrder().flatMap(({ mounts }) => mounts ?? []);
  }

  /** Runs the prestart hooks that are not done. Never rejects. */
  async prestart(call: PhaseCall): Promise<PrestartResult> {
    const { context, abort } = call;
    for (const hook of this.#deps.hooks) {
      if (hook.prestart === undefined || this.#isDone(hook)) continue;
      if (abort.aborted) return cancelled(hook);
      if (hook.concerns?.(context.task) === false) continue;
      try {
        const answer = await this.#call(hook, 'prestart', call, (own) => hook.prestart?.(own));
        if (answer === undefined) continue;
        const record: HookRecord = {
          ...this.#id,
          hook: hook.name,
          done: answer.done !== undefined,
          bootId: answer.done === 'this_boot' ? this.#deps.bootId : undefined,
          env: answer.env ?? {},
          data: answer.data ?? {},
          ...(answer.mounts === undefined ? {} : { mounts: answer.mounts }),
        };
        await this.#remember(record, { abort, waitFor: context.waitFor });
      } catch (error) {
        if (isAborted(abort)) return cancelled(hook);
        return {
          kind: 'failed',
          event: failure(hook, error),
          recoverable: isRecoverable(error),
          cancelled: false,
        };
      }
    }
    return { kind: 'done' };
  }

  /** Runs another phase: all hooks, whatever fails; stop hooks in reverse order. Never rejects. */
  async run(phase: Exclude<BoundedPhase, 'prestart' | 'update'>, call: PhaseCall): Promise<void> {
    const { hooks } = this.#deps;
    for (const hook of phase === 'stop' ? hooks.toReversed() : hooks) {
      if (hook[phase] === undefined) continue;
      await this.#tolerate(hook, phase, call, (own) => hook[phase]?.(own));
    }
  }

  /** Runs the update phase. Never rejects. */
  async update(call: PhaseCall, before: Task): Promise<void> {
    for (const hook of this.#deps.hooks) {
      if (hook.update === undefined) continue;
      await this.#tolerate(hook, 'update', call, (own) => hook.update?.(own, before));
    }
  }

  /** Begins what hooks do beside the workload, until the call is aborted. Returns at once. */
  watch(call: PhaseCall<WatchPhaseContext>): void {
    const { context, abort } = call;
    for (const hook of this.#deps.hooks) {
      if (hook.watch === undefined || hook.concerns?.(context.task) === false) continue;
      hook.watch(this.#contextFor(hook, call)).catch((error: unknown) => {
        if (!abort.aborted) this.#tell(hook, 'watch', context, error);
      });
    }
  }

  async #tolerate(
    hook: TaskHook,
    phase: BoundedPhase,
    call: PhaseCall,
    work: (own: HookContext) => Promise<void> | undefined,
  ): Promise<void> {
    try {
      await this.#call(hook, phase, call, work);
    } catch (error) {
      this.#tell(hook, phase, call.context, error);
    }
  }

  #tell(hook: TaskHook, phase: string, context: Pick<PhaseContext, 'emit'>, error: unknown): void {
    const text = describeError(error);
    this.#deps.logger.warn({ hook: hook.name, phase, error: text }, 'task hook failed, ignoring');
    context.emit({ type: 'Task hook failed', hook: hook.name, error: text });
  }

  async #call<T>(
    hook: TaskHook,
    phase: BoundedPhase,
    { context, abort }: PhaseCall,
    work: (own: HookContext) => Promise<T> | undefined,
  ): Promise<T | undefined> {
    let over = false;
    let said = false;
    const waitFor = (what: string): void => {
      said = true;
      if (!over) context.waitFor(what);
    };
    const emit = (event: TaskEvent): void => {
      if (!over) context.emit(event);
    };
    const bounds = {
      clock: this.#deps.clock,
      name: `hook ${hook.name} (${phase})`,
      limitMs: hook.deadlinesMs?.[phase] ?? HOOK_DEADLINES_MS[phase],
      outer: abort,
      onSlow: () => {
        if (!said) waitFor(`hook ${hook.name}`);
      },
    };
    try {
      return await runBounded(bounds, async (own) =>
        work(this.#contextFor(hook, { context: { ...context, emit, waitFor }, abort: own })),
      );
    } finally {
      over = true;
    }
  }

  /** Each hook has its own; what few of them look at is made when they do. */
  #contextFor<Context extends PhaseContext>(
    hook: TaskHook,
    { context, abort }: PhaseCall<Context>,
  ): Context & Pick<HookContext, Own> {
    const { clock, logger } = this.#deps;
    return {
      ...context,
      clock,
      data: this.#records.get(hook.name)?.data ?? {},
      save: (data) => this.#keep(hook, data, { abort, waitFor: context.waitFor }),
      get logger() {
        return logger.child({ hook: hook.name });
      },
      get signal() {
        return abort.signal;
      },
    };
  }

  #inOrder(): readonly HookRecord[] {
    return this.#deps.hooks.flatMap(({ name }) => this.#records.get(name) ?? []);
  }

  #isDone(hook: TaskHook): boolean {
    const record = this.#records.get(hook.name);
    return record?.done === true && (record.bootId === undefined || record.bootId === this.#deps.bootId);
  }

  #keep(hook: TaskHook, data: Readonly<Record<string, string>>, caller: Caller): Promise<void> {
    const none = { ...this.#id, hook: hook.name, done: false, bootId: undefined, env: {} };
    return this.#remember({ ...(this.#records.get(hook.name) ?? none), data }, caller);
  }

  /**
   * Stores what a hook wants back before anything follows from it. A disk that refuses writes is no failure of the task:
   * it is asked again, for as long as it takes, and what the hook did is not done twice.
   */
  async #remember(record: HookRecord, { abort, waitFor }: Caller): Promise<void> {
    const before = this.#records.get(record.hook);
    if (before !== undefined && JSON.stringify(before) === JSON.stringify(record)) return;
    for (;;) {
      try {
        await this.#deps.save(record);
        this.#records.set(record.hook, record);
        return;
      } catch (error) {
        if (error instanceof AgentError && error.code === 'internal') throw error;
        waitFor(`the store, to keep what hook ${record.hook} did: ${describeError(error)}`);
        await sleep(this.#deps.clock, SAVE_RETRY_MS, abort.signal);
        abort.signal.throwIfAborted();
      }
    }
  }
}

/** A call, because the compiler does not know that it changes while somebody awaits. */
function isAborted(abort: LazyAbort): boolean {
  return abort.aborted;
}

function cancelled(hook: TaskHook): PrestartResult {
  const event: TaskEvent = { type: 'Task hook failed', hook: hook.name, error: 'cancelled' };
  return { kind: 'failed', event, recoverable: true, cancelled: true };
}

/** A bad config is told as what it is, a failure with its own event by that; any other under the hook's name. */
function failure(hook: TaskHook, error: unknown): TaskEvent {
  if (error instanceof HookFailure) return error.event;
  if (error instanceof AgentError && error.code === 'driver_config_invalid') {
    return { type: 'Failed Validation', error: error.message };
  }
  return { type: 'Task hook failed', hook: hook.name, error: describeError(error) };
}
