/**
 * Owns the checks of one alloc: asks each in its interval while its task runs, keeps what came of it, and tells when
 * that changes anything. Nothing of it is stored: an agent that comes back asks anew, and knows by then.
 */
import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../../base/clock.js';
import type { ExecOptions, ExecResult } from '../../drivers/sessions.js';
import { roleOf } from '../../jobspec/lifecycle.js';
import type { CheckProbe, ServiceCheck, TaskGroup } from '../../jobspec/types.js';
import type { CheckVerdict } from '../health.js';
import { isGoodEnough, newCheckState, nextCheckState, type CheckState } from './check-state.js';
import type { Probe, ProbeAnswer } from './probe.js';

export interface AllocChecksDeps {
  readonly clock: Clock;
  readonly allocId: string;
  readonly probe: Probe;
  /** The run of a task that is known to run; undefined = none is. */
  readonly runOf: (task: string) => string | undefined;
  readonly ports: () => Readonly<Record<string, number>>;
  readonly interpolate: (task: string, text: string) => string;
  readonly exec: (
    task: string,
    command: string,
    args: readonly string[],
    options: ExecOptions,
  ) => Promise<ExecResult>;
  /** The status of a check is another one. */
  readonly onStatus: (check: KnownCheck, before: CheckState) => void;
  readonly onRestart: (check: KnownCheck) => void;
}

/** A check with where it stands, and how it stands. */
export interface KnownCheck {
  readonly id: string;
  readonly service: string;
  readonly check: ServiceCheck;
  /** The tasks it is about. */
  readonly tasks: readonly string[];
  readonly state: CheckState;
}

interface Asked extends KnownCheck {
  state: CheckState;
  /** The runs that the state is about. */
  readonly runs: string;
  readonly abort: AbortController;
  timer: Timer | undefined;
}

type Placed = Omit<KnownCheck, 'state'>;

export class AllocChecks {
  readonly #deps: AllocChecksDeps;
  readonly #asked = new Map<string, Asked>();
  #placed: readonly Placed[] = [];

  constructor(deps: AllocChecksDeps, group: TaskGroup) {
    this.#deps = deps;
    this.update(group);
  }

  /** The job was changed in place: checks that are the same go on. */
  update(group: TaskGroup): void {
    this.#placed = placeChecks(this.#deps.allocId, group);
  }

  /** Begins to ask where a task has come up, and ends where one has gone. May be called again and again. */
  follow(): void {
    for (const [id, asked] of this.#asked) {
      const placed = this.#placed.find((one) => one.id === id);
      if (placed === undefined || this.#runsOf(placed) !== asked.runs) this.#end(asked);
    }
    for (const placed of this.#placed) {
      const runs = this.#runsOf(placed);
      if (runs !== undefined && !this.#asked.has(placed.id)) this.#begin(placed, runs);
    }
  }

  /** What all of them say of the alloc's health. */
  verdict(): CheckVerdict {
    if (this.#placed.length === 0) return { kind: 'none' };
    for (const { check, state } of this.list()) {
      if (isGoodEnough(check, state.status)) continue;
      const how = state.status === 'pending' ? 'has not passed yet' : `is not passing (${state.status})`;
      return { kind: 'not_passing', detail: `check ${JSON.stringify(check.name)} ${how}` };
    }
    return { kind: 'passing' };
  }

  /** All that there are, also those whose task does not run. */
  list(): readonly KnownCheck[] {
    return this.#placed.map((placed) => ({
      ...placed,
      state:
        this.#asked.get(placed.id)?.state ?? newCheckState({ ...placed.check, initialStatus: undefined }, 0),
    }));
  }

  /** Asks nothing any more. */
  close(): void {
    for (const asked of [...this.#asked.values()]) this.#end(asked);
  }

  /** The runs of all its tasks; undefined while none of them runs. */
  #runsOf({ tasks }: Placed): string | undefined {
    const runs = tasks.map((task) => this.#deps.runOf(task) ?? '');
    return runs.some((run) => run !== '') ? runs.join(' ') : undefined;
  }

  #begin(placed: Placed, runs: string): void {
    const state = newCheckState(placed.check, this.#deps.clock.monoMs());
    const asked: Asked = { ...placed, state, runs, abort: new AbortController(), timer: undefined };
    this.#asked.set(placed.id, asked);
    this.#askIn(asked, 0);
  }

  #end(asked: Asked): void {
    asked.timer?.[Symbol.dispose]();
    asked.abort.abort();
    this.#asked.delete(asked.id);
  }

  #askIn(asked: Asked, delayMs: number): void {
    asked.timer = this.#deps.clock.setTimer(delayMs, () => {
      const beganMonoMs = this.#deps.clock.monoMs();
      void this.#ask(asked).then((answer) => {
        if (!this.#isWanted(asked)) return;
        this.#take(asked, answer);
        // The answer may have ended it.
        if (!this.#isWanted(asked)) return;
        const tookMs = this.#deps.clock.monoMs() - beganMonoMs;
        this.#askIn(asked, Math.max(0, asked.check.intervalMs - tookMs));
      });
    });
  }

  #isWanted(asked: Asked): boolean {
    return this.#asked.get(asked.id) === asked;
  }

  #ask(asked: Asked): Promise<ProbeAnswer> {
    const { check, tasks, abort } = asked;
    const [task = ''] = tasks;
    const resolve = (text: string): string => this.#deps.interpolate(task, text);
    const probe = resolveProbe(check.probe, resolve);
    const port = probe.kind === 'script' ? 0 : (this.#deps.ports()[probe.port] ?? Number(probe.port));
    return this.#deps.probe({
      probe,
      port,
      timeoutMs: check.timeoutMs,
      signal: abort.signal,
      exec: (command, args, options) => this.#deps.exec(task, command, args, options),
    });
  }

  #take(asked: Asked, answer: ProbeAnswer): void {
    const { clock, onStatus, onRestart } = this.#deps;
    const before = asked.state;
    const result = { ...answer, atMs: clock.wallMs() };
    const { state, wantsRestart } = nextCheckState(asked.check, before, result, clock.monoMs());
    asked.state = state;
    if (state.status !== before.status) onStatus(asked, before);
    if (wantsRestart) onRestart(asked);
  }
}

/** The checks of a group and of its tasks, each with an id that stays the same as long as the check does. */
function placeChecks(allocId: string, group: TaskGroup): readonly Placed[] {
  const mains = group.tasks.filter((task) => roleOf(task) === 'main').map(({ name }) => name);
  const services = [...(group.services ?? []), ...group.tasks.flatMap((task) => task.services ?? [])];
  const placed = services.flatMap((service) =>
    service.checks.map((check) => ({ service: service.name, check, tasks: tasksOf(check, mains) })),
  );
  const seen = new Map<string, number>();
  return placed.map((one) => {
    const text = JSON.stringify([allocId, one]);
    const times = seen.get(text) ?? 0;
    seen.set(text, times + 1);
    const id = createHash('sha256').update(`${text}${times}`).digest('hex').slice(0, 32);
    return { ...one, id };
  });
}

function tasksOf({ task }: ServiceCheck, mains: readonly string[]): readonly string[] {
  return task === undefined ? mains : [task];
}

function resolveProbe(probe: CheckProbe, resolve: (text: string) => string): CheckProbe {
  switch (probe.kind) {
    case 'tcp':
      return { ...probe, address: resolve(probe.address) };
    case 'script':
      return { ...probe, command: resolve(probe.command), args: probe.args.map(resolve) };
    case 'http': {
      const headers = Object.entries(probe.headers).map(
        ([key, values]) => [key, values.map(resolve)] as const,
      );
      return {
        ...probe,
        address: resolve(probe.address),
        path: resolve(probe.path),
        body: resolve(probe.body),
        headers: Object.fromEntries(headers),
      };
    }
  }
}
