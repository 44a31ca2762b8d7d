/** Owns what a config of another tool comes to before it is written down as a job file, and the notes on what was left out. */
import { formatDuration } from '../../jobspec/units.js';

/** When it is started again after it has ended. */
export type RestartWish = 'always' | 'on-failure' | 'never';

export interface ImportedTask {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly workDir?: string | undefined;
  readonly oomScoreAdj?: number | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly user?: string | undefined;
  readonly memoryMib?: number | undefined;
  readonly cpuPercent?: number | undefined;
  readonly pids?: number | undefined;
  readonly killSignal?: string | undefined;
  readonly killTimeoutMs?: number | undefined;
  readonly keepLeftovers?: boolean;
  readonly hook?: 'prestart' | 'poststart' | 'poststop' | undefined;
  readonly logs?: { readonly maxFiles: number; readonly maxFileMib: number } | undefined;
}

export interface RestartPlan {
  readonly wish: RestartWish;
  readonly attempts: number;
  readonly delayMs: number;
  /** Window in which the attempts are counted; it is made larger when they would not fit. */
  readonly intervalMs: number;
  readonly resetAfterMs?: number | undefined;
  readonly factor?: number | undefined;
  readonly maxDelayMs?: number | undefined;
}

export interface ImportedGroup {
  readonly name: string;
  readonly count: number;
  readonly restart: RestartPlan;
  readonly tasks: readonly ImportedTask[];
}

export interface Imported {
  readonly groups: readonly ImportedGroup[];
  /** What could not be carried over, or means something else here: a sentence each. */
  readonly notes: readonly string[];
}

/** Collects notes, each once, behind the name of what they are about. */
export class Notes {
  readonly all: string[] = [];

  add(about: string, text: string): void {
    const note = about === '' ? text : `${about}: ${text}`;
    if (!this.all.includes(note)) this.all.push(note);
  }

  /**
   * Tells of keys that are not carried over: of those in `advice` what to do instead, of all others that they are there.
   * @param known keys that the importer looks at
   */
  addUnknown(
    about: string,
    keys: Iterable<string>,
    known: ReadonlySet<string>,
    advice: ReadonlyMap<string, string> = new Map(),
  ): void {
    const left = [...keys].filter((key) => !known.has(key));
    for (const key of left) {
      const instead = advice.get(key);
      if (instead !== undefined) this.add(about, `${key} is not carried over: ${instead}`);
    }
    const others = left.filter((key) => !advice.has(key));
    if (others.length > 0) this.add(about, `not carried over: ${others.join(', ')}`);
  }

  /** Tells of a value that is there and could not be understood. */
  addUnread(about: string, key: string, value: string | undefined, read: unknown): void {
    if (value !== undefined && read === undefined)
      this.add(about, `${key === '' ? '' : `${key} `}${value} is not carried over: it cannot be read here`);
  }
}

/** Restarted without end: ten times a minute, then a pause until the minute is over. */
export const FOREVER: RestartPlan = { wish: 'always', attempts: 10, delayMs: 1000, intervalMs: 60_000 };
export const NEVER: RestartPlan = { wish: 'never', attempts: 0, delayMs: 1000, intervalMs: 60_000 };

const SHORTEST_INTERVAL_MS = 5000;

/** Keys of a restart block. */
export function restartKeys(plan: RestartPlan): Readonly<Record<string, string | number>> {
  const attempts = plan.wish === 'never' ? 0 : plan.attempts;
  const interval = Math.max(SHORTEST_INTERVAL_MS, plan.intervalMs, attempts * plan.delayMs);
  return {
    attempts,
    interval: formatDuration(interval),
    delay: formatDuration(plan.delayMs),
    mode: plan.wish === 'always' && attempts > 0 && plan.resetAfterMs === undefined ? 'delay' : 'fail',
    ...(plan.factor === undefined ? {} : { factor: plan.factor }),
    ...(plan.maxDelayMs === undefined
      ? {}
      : { max_delay: formatDuration(Math.max(plan.maxDelayMs, plan.delayMs)) }),
    ...(plan.resetAfterMs === undefined ? {} : { reset_after: formatDuration(plan.resetAfterMs) }),
  };
}

/** A name that a job, a group or a task may have. */
export function safeName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_.@-]+/g, '-').replace(/^-+|-+$/g, '');
  return name === '' ? 'app' : name.slice(0, 100);
}

/** MiB of `300M`, `1G`, `512k`, or a number of bytes; undefined when it is none. Rounded up, at least 10. */
export function sizeToMib(text: string): number | undefined {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*$/i.exec(text);
  if (found === null) return undefined;
  const unit =
    { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 }[(found[2] ?? '').toLowerCase()] ?? 1;
  return Math.max(10, Math.ceil((Number(found[1]) * unit) / 1024 ** 2));
}

/** Words of a command line as a shell would cut it; undefined when a quote is not closed. */
export function splitWords(line: string): string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? '';
    if (quote === "'" ? character === "'" : quote !== '' && character === quote) quote = '';
    else if (character === '\\' && quote !== "'") {
      at += 1;
      word = (word ?? '') + (line[at] ?? '');
    } else if (quote === '' && (character === '"' || character === "'")) {
      quote = character;
      word ??= '';
    } else if (quote === '' && /\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + character;
  }
  if (word !== undefined) words.push(word);
  return quote === '' ? words : undefined;
}

/** True for a line that only a shell understands. */
function needsShell(line: string): boolean {
  // In single quotes nothing means anything, in double quotes only `$` and backticks do.
  const bare = line
    .replaceAll(/'[^']*'/g, 'x')
    .replaceAll(/"((?:[^"\\]|\\.)*)"/g, (_all, inner: string) => `x${inner.replaceAll(/[^$`]/g, '')}`);
  return /[|&;<>`$()*?~#\n]|(?:^|\s)[A-Za-z_]\w*=/.test(bare);
}

/** A command line as a program with its arguments: by a shell where it needs one. */
export function commandOf(line: string): { readonly command: string; readonly args: readonly string[] } {
  const words = needsShell(line) ? undefined : splitWords(line);
  const [command, ...args] = words ?? [];
  if (command !== undefined) return { command, args };
  return { command: '/bin/sh', args: ['-c', line.trim()] };
}
