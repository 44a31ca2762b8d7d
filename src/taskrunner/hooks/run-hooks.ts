/** Owns the running of a task's hooks: order, what a failure means, and the state that hooks want back. */
import { AgentError, describeError, isRecoverable } from '../../base/errors.js';
import type { Logger } from '../../base/log.js';
import type { TaskEvent } from '../../events/task-event.js';
import type { HookRecord } from '../../state/store.js';
import type { HookContext, TaskHook } from './hook.js';

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
  readonly bootId: string;
  readonly logger: Logger;
  /** Stores what a hook wants back. A refusal fails the hook: it would be run a second time. */
  readonly save: (record: HookRecord) => Promise<void>;
}

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
    return this.#deps.hooks.flatMap((hook) => {
      const record = this.#records.get(hook.name);
      return record === undefined ? [] : [record.env];
    });
  }

  /** Runs the prestart hooks that are not done. Never rejects. */
  async prestart(context: Omit<HookContext, 'data'>): Promise<PrestartResult> {
    for (const hook of this.#deps.hooks) {
      if (hook.prestart === undefined || this.#isDone(hook)) continue;
      if (context.signal.aborted) return cancelled(hook);
      try {
        const answer = await hook.prestart({ ...context, data: this.#data(hook) });
        if (answer !== undefined) {
          await this.#remember({
            ...this.#id,
            hook: hook.name,
            done: answer.done !== undefined,
            bootId: answer.done === 'this_boot' ? this.#deps.bootId : undefined,
            env: answer.env ?? {},
            data: answer.data ?? {},
          });
        }
      } catch (error) {
        if (isAborted(context.signal)) return cancelled(hook);
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
  async run(
    phase: 'poststart' | 'preKill' | 'exited' | 'stop',
    context: Omit<HookContext, 'data'>,
  ): Promise<void> {
    const hooks = phase === 'stop' ? this.#deps.hooks.toReversed() : this.#deps.hooks;
    for (const hook of hooks) {
      try {
        await hook[phase]?.({ ...context, data: this.#data(hook) });
      } catch (error) {
        this.#deps.logger.warn(
          { hook: hook.name, phase, error: describeError(error) },
          'task hook failed, ignoring',
        );
        context.emit({ type: 'Task hook failed', hook: hook.name, error: describeError(error) });
      }
    }
  }

  #isDone(hook: TaskHook): boolean {
    const record = this.#records.get(hook.name);
    return record?.done === true && (record.bootId === undefined || record.bootId === this.#deps.bootId);
  }

  #data(hook: TaskHook): Readonly<Record<string, string>> {
    return this.#records.get(hook.name)?.data ?? {};
  }

  async #remember(record: HookRecord): Promise<void> {
    const before = this.#records.get(record.hook);
    if (before !== undefined && JSON.stringify(before) === JSON.stringify(record)) return;
    await this.#deps.save(record);
    this.#records.set(record.hook, record);
  }
}

/** A call, because the compiler does not know that a signal changes while somebody awaits. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

function cancelled(hook: TaskHook): PrestartResult {
  const event: TaskEvent = { type: 'Task hook failed', hook: hook.name, error: 'cancelled' };
  return { kind: 'failed', event, recoverable: true, cancelled: true };
}

/** A bad config is told as what it is; any other failure under the hook's name. */
function failure(hook: TaskHook, error: unknown): TaskEvent {
  if (error instanceof AgentError && error.code === 'driver_config_invalid') {
    return { type: 'Failed Validation', error: error.message };
  }
  return { type: 'Task hook failed', hook: hook.name, error: describeError(error) };
}
