/** Owns what the service manager is told and when (sd_notify): readiness, a status line, reloads, the end, the watchdog. */
import type { Clock, Timer } from '../base/clock.js';
import type { Notifier } from './notify.js';

/** The status line is told at most so often. */
const STATUS_EVERY_MS = 1_000;

type Teller = Pick<Notifier, 'isHeard' | 'send' | 'close'>;

/** What is asked of the agent while it runs. */
export interface Reported {
  /** One line for people. */
  status(): string;
  /** Called whenever the status may have changed. Disposing ends it. */
  onChanged(listener: () => void): Disposable;
  /** Proves that the agent can still work. Throws when it cannot: then the watchdog is not fed. */
  probe(): void;
}

/** How often the watchdog wants to hear of us, from its environment; undefined = it is not for this process. */
export function watchdogEveryMs(
  env: Readonly<Record<string, string | undefined>>,
  pid: number,
): number | undefined {
  const limitUs = Number(env['WATCHDOG_USEC']);
  const meant = env['WATCHDOG_PID'];
  if (!(limitUs > 0) || !Number.isFinite(limitUs)) return undefined;
  if (meant !== undefined && meant !== '' && Number(meant) !== pid) return undefined;
  return limitUs / 2_000;
}

export class ServiceReport {
  readonly #clock: Clock;
  readonly #notifier: Teller;
  readonly #watchdogMs: number | undefined;
  #reported: Reported | undefined;
  #listening: Disposable | undefined;
  #watchdog: Timer | undefined;
  #statusTimer: Timer | undefined;
  #toldStatus = '';
  #toldAtMs = -Infinity;

  /** @param options.watchdogMs how often the watchdog is fed; undefined = there is none */
  constructor(options: {
    readonly clock: Clock;
    readonly notifier: Teller;
    readonly watchdogMs: number | undefined;
  }) {
    this.#clock = options.clock;
    this.#notifier = options.notifier;
    this.#watchdogMs = options.watchdogMs;
  }

  /** The doors are open and every alloc is taken up. From now on the status is told and the watchdog fed. */
  ready(reported: Reported): void {
    if (!this.#notifier.isHeard) return;
    this.#reported = reported;
    this.#noteTold(reported.status());
    this.#notifier.send({ READY: 1, STATUS: this.#toldStatus });
    this.#listening = reported.onChanged(() => {
      this.#changed();
    });
    this.#feed();
  }

  /** The agent cannot start. */
  failed(why: string): void {
    this.#notifier.send({ STATUS: `cannot start: ${oneLine(why)}` });
  }

  /** Settings are read again; call `reloaded` afterwards, whatever came of it. */
  reloading(): void {
    this.#notifier.send({ RELOADING: 1, MONOTONIC_USEC: Math.round(this.#clock.monoMs() * 1000) });
  }

  /** @param problem what is wrong with the new settings; undefined = they were taken */
  reloaded(problem: string | undefined): void {
    if (problem !== undefined) this.#noteTold(`reload failed: ${oneLine(problem)}`);
    this.#notifier.send({ READY: 1, ...(problem === undefined ? {} : { STATUS: this.#toldStatus }) });
  }

  /** The agent leaves; the watchdog is fed until `close`. */
  stopping(): void {
    this.#listening?.[Symbol.dispose]();
    this.#statusTimer?.[Symbol.dispose]();
    this.#reported = undefined;
    this.#notifier.send({ STOPPING: 1, STATUS: 'leaving; tasks keep running' });
  }

  /** Says no more. */
  async close(): Promise<void> {
    this.#listening?.[Symbol.dispose]();
    this.#statusTimer?.[Symbol.dispose]();
    this.#watchdog?.[Symbol.dispose]();
    await this.#notifier.close();
  }

  #changed(): void {
    if (this.#statusTimer !== undefined) return;
    const waitMs = this.#toldAtMs + STATUS_EVERY_MS - this.#clock.monoMs();
    // Also when it is due at once: this runs within a commit.
    this.#statusTimer = this.#clock.setTimer(Math.max(0, waitMs), () => {
      this.#statusTimer = undefined;
      this.#tellStatus();
    });
    this.#statusTimer.unref();
  }

  #tellStatus(): void {
    let status: string | undefined;
    try {
      status = this.#reported?.status();
    } catch {
      return; // The store cannot be read, which others tell; the line stays as it was.
    }
    if (status === undefined || status === this.#toldStatus) return;
    this.#noteTold(status);
    this.#notifier.send({ STATUS: status });
  }

  #noteTold(status: string): void {
    this.#toldStatus = status;
    this.#toldAtMs = this.#clock.monoMs();
  }

  /** That this runs at all shows that the event loop turns. */
  #feed(): void {
    if (this.#watchdogMs === undefined) return;
    if (this.#isWell()) this.#notifier.send({ WATCHDOG: 1 });
    this.#watchdog = this.#clock.setTimer(this.#watchdogMs, () => {
      this.#feed();
    });
    this.#watchdog.unref();
  }

  #isWell(): boolean {
    try {
      this.#reported?.probe();
      return true;
    } catch {
      // What is wrong shows in the log of whoever needs the store; here it only stops the feeding.
      return false;
    }
  }
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, '; ');
}
