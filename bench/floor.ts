/** Owns the C program that everything is measured against: builds it, runs it, reads what it stamped. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../bench/floor.c', import.meta.url));

export class Floor {
  /**
   * What stamps the time. Linked statically where there is a libc for that: a dynamic program runs its loader before its own first
   * instruction, for half a millisecond, whoever starts it.
   */
  readonly program: string;
  /** The same, linked dynamically. */
  readonly dynamic: string;
  readonly dir: string;

  /** Builds the programs into `dir`. @throws Error with the compiler's output */
  constructor(dir: string) {
    this.dir = dir;
    this.dynamic = join(dir, 'floor-dynamic');
    build(this.dynamic, []);
    this.program = join(dir, 'floor');
    try {
      build(this.program, ['-static']);
    } catch {
      console.error('no static libc: starts are measured with the loader of a dynamic program');
      this.program = this.dynamic;
    }
  }

  /** Milliseconds to the first instruction, `count` times one after the other: of a bare fork and exec. */
  measureStarts(count: number): readonly number[] {
    return this.#milliseconds(['start', String(count), join(this.dir, 'floor-starts')]);
  }

  /** The same with a shim a task, which splices its output into a file. */
  measureShims(count: number): readonly number[] {
    return this.#milliseconds(['shims', String(count), join(this.dir, 'out'), join(this.dir, 'floor-shims')]);
  }

  /** Milliseconds to the last of `count` first instructions of what stays, all forked at once. */
  measureBurst(count: number): number {
    return this.#milliseconds(['burst', String(count), join(this.dir, 'floor-burst')])[0] ?? Number.NaN;
  }

  /** The same with a shim a task. */
  measureShimBurst(count: number): number {
    const args = ['shim-burst', String(count), join(this.dir, 'out'), join(this.dir, 'floor-shim-burst')];
    return this.#milliseconds(args)[0] ?? Number.NaN;
  }

  /** Milliseconds that a shim takes for so many bytes of lines, into a file that is not rotated. */
  measureShimLines(bytes: number): number {
    const out = join(this.dir, 'lines');
    const fromMs = performance.now();
    execFileSync(this.program, ['splice', out, this.program, 'lines', String(bytes)]);
    const tookMs = performance.now() - fromMs;
    rmSync(out);
    return tookMs;
  }

  /** Milliseconds from a signal to a process that obeys it being reaped. */
  measureStops(count: number): readonly number[] {
    return this.#milliseconds(['stop', String(count), join(this.dir, 'floor-stops')]);
  }

  /** Milliseconds from the end of a process to a durable record of it. */
  measureRecords(count: number): readonly number[] {
    return this.#milliseconds(['record', String(count), this.dir, join(this.dir, 'floor-records')]);
  }

  /** Milliseconds from before a durable record to what `/bin/date` says, started after it. */
  measureDates(count: number): readonly number[] {
    return this.#milliseconds(['date', String(count), join(this.dir, 'record')]);
  }

  #milliseconds(args: readonly string[]): readonly number[] {
    const out = execFileSync(this.program, args, { encoding: 'utf8' });
    return out
      .split('\n')
      .filter((line) => line !== '')
      .map((ns) => Number(ns) / 1e6);
  }

  /** Milliseconds from the end of a run to the first instruction of the next, with a durable record in between. */
  measureRestarts(count: number): readonly number[] {
    const stamps = join(this.dir, 'floor-restarts');
    execFileSync(this.program, ['restart', String(count), join(this.dir, 'record'), stamps]);
    return readGaps(stamps);
  }

  /**
   * Sends frames to the executor of the run in `dir`.
   * @returns CLOCK_MONOTONIC in nanoseconds of the answer to the last of them. @throws Error when one of them is not answered
   */
  async lastAnswerNs(dir: string, frames: readonly Buffer[]): Promise<bigint> {
    const stdio = ['pipe', 'pipe', 'inherit'] as const;
    const child = spawn(this.program, ['ask', String(frames.length), dir], { stdio: [...stdio] });
    child.stdin.end(Buffer.concat(frames));
    const said: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => said.push(chunk));
    await once(child, 'close');
    if (child.exitCode !== 0) throw new Error(`no answer from the executor in ${dir}`);
    return BigInt(Buffer.concat(said).toString().trim());
  }

  /** A parent with one sleeping child. The caller ends both. */
  async startShim(): Promise<{ readonly shim: ChildProcess; readonly childPid: number }> {
    const shim = spawn(this.dynamic, ['shim'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(shim.stdout, 'data')) as [Buffer];
    return { shim, childPid: Number(line.toString()) };
  }
}

function build(program: string, options: readonly string[]): void {
  const args = ['-std=gnu17', '-O2', '-Wall', '-Wextra', '-Werror', ...options, '-o', program, SOURCE];
  execFileSync('gcc', args, { stdio: ['ignore', 'ignore', options.length === 0 ? 'inherit' : 'ignore'] });
}

/** CLOCK_MONOTONIC in nanoseconds at which each `start` of a stamp file was written. */
export function readStarts(path: string): readonly bigint[] {
  return readStamps(path)
    .filter(({ what }) => what === 'start')
    .map(({ atNs }) => atNs);
}

/** CLOCK_MONOTONIC in nanoseconds of the last `end` of a stamp file. */
export function readEnd(path: string): bigint | undefined {
  return readStamps(path).findLast(({ what }) => what === 'end')?.atNs;
}

/** Milliseconds from each `end` to the `start` after it. */
export function readGaps(path: string): readonly number[] {
  const stamps = readStamps(path);
  return stamps.flatMap(({ what, atNs }, index) => {
    const before = stamps[index - 1];
    return what === 'start' && before?.what === 'end' ? [Number(atNs - before.atNs) / 1e6] : [];
  });
}

function readStamps(path: string): readonly { readonly what: string; readonly atNs: bigint }[] {
  if (!existsSync(path)) return [];
  // The last line may be on its way.
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => {
    const [what = '', ns = '0'] = line.split(' ');
    return { what, atNs: BigInt(ns) };
  });
}
