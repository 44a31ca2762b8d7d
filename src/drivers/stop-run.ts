/**
 * Owns the stop of a run under an executor, whatever state that executor is in. The executor enforces the stop by
 * itself once it has been asked; here is what follows when it does not answer: it is woken, then replaced by one that
 * does, and when not even that can be done, what is left of the run is killed from here.
 */
import type { Clock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import type { ExecutorClient } from '../executor/client.js';

/** What the stop may see of a run, and do to it. */
export interface StoppableRun {
  isOver(): boolean;
  /** The executor that is followed at this time. */
  client(): ExecutorClient | undefined;
  endedWithin(ms: number): Promise<void>;
  /** Makes a stopped executor go on, and one without a socket listen again. */
  wake(): Promise<void>;
  /** Kills the executor; another one takes over, and is then asked to stop the run. */
  unseat(): Promise<void>;
  /** Kills what is in the run's cgroup and what carries its mark. */
  killRemains(): Promise<void>;
}

/** How long after the deadline of a stop it counts as failed: the executor kills again and again meanwhile. */
const KILL_MARGIN_MS = 10_000;
const LOOK_EVERY_MS = 100;
/** How long after the deadline an executor that has accepted the stop is asked what holds it up, and how often. */
const ASK_AFTER_MS = 1_000;
/** No executor at all for this long after the deadline: nobody is going to carry the stop out. */
const ALONE_MS = 4_000;

/** Resolves when nothing of the run is left. @throws AgentError kill_failed (recoverable), which names what is left */
export async function stopRun(
  clock: Clock,
  run: StoppableRun,
  how: { readonly signal: number; readonly graceMs: number },
): Promise<void> {
  const killAtMs = clock.monoMs() + how.graceMs;
  let asked: ExecutorClient | undefined;
  let askAgainAtMs = killAtMs + ASK_AFTER_MS;
  let trouble = 'something of it is still there';
  let silences = 0;
  while (!run.isOver()) {
    const nowMs = clock.monoMs();
    if (nowMs > killAtMs + KILL_MARGIN_MS) throw killFailed(trouble);
    const client = run.client();
    if (client === undefined) {
      if (nowMs > killAtMs + ALONE_MS) await run.killRemains();
    } else if (client !== asked || nowMs > askAgainAtMs) {
      // An executor that has just taken over knows nothing of the stop: it is asked again, with what is left.
      try {
        if (client !== asked)
          await client.stop({ signal: how.signal, graceMs: Math.max(0, killAtMs - nowMs) });
        else trouble = (await whatIsStuck(client)) ?? trouble;
        asked = client;
        silences = 0;
      } catch (error) {
        trouble = describeError(error);
        silences += 1;
        if (!run.isOver()) await insist(run, silences, clock.monoMs() >= killAtMs);
      }
      if (nowMs > askAgainAtMs) askAgainAtMs = clock.monoMs() + ASK_AFTER_MS;
    }
    await run.endedWithin(LOOK_EVERY_MS);
  }
}

/** Each silence lasts as long as a reply may take. Before the deadline the task's own end is not anticipated. */
async function insist(run: StoppableRun, silences: number, isLate: boolean): Promise<void> {
  if (silences === 1 || !isLate) await run.wake();
  else if (silences === 2) await run.unseat();
  else await run.killRemains();
}

/** What does not die although it was killed. @throws AgentError executor_unreachable */
async function whatIsStuck(client: ExecutorClient): Promise<string | undefined> {
  const status = await client.status();
  return status.kind === 'ok' && status.value.stuck !== undefined
    ? `the kernel does not let go of ${status.value.stuck}`
    : undefined;
}

function killFailed(trouble: string): AgentError {
  return new AgentError('kill_failed', `the task did not end after its kill deadline: ${trouble}`, {
    recoverable: true,
  });
}
