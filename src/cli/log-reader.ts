/**
 * Owns the course of `logs`: first what is there, task by task, then, when following, all tasks at once. Following
 * goes on across a restart of the daemon, at the very byte where it was.
 */
import type { Allocation } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';
import type { Params } from './http.js';
import type { LogPrinter, NamedLog } from './log-printer.js';
import { streamLog } from './log-tail.js';
import { isLive } from './target.js';

export interface LogWish {
  readonly follow: boolean;
  /** Last lines of each log (of those that match); undefined = all. */
  readonly lines: number | undefined;
  readonly sinceMs: number | undefined;
  readonly grep: RegExp | undefined;
}

/** Place behind the last byte that was read. */
interface Place {
  readonly file: string;
  readonly offset: number;
}

/** What there is to follow now, and whether an alloc is due to take the place of one that is over. */
export type FindMore = () => Promise<{ readonly names: readonly NamedLog[]; readonly isMoreToCome: boolean }>;

const RETRY_MS = 500;
/** How often is looked for new allocs while others are followed. */
const LOOK_MS = 2000;
/** How long nothing must come up before following ends. */
const SETTLE_MS = 1000;
/** A daemon that is upgraded or restarted is back sooner. */
const GIVE_UP_MS = 60_000;

const never = new AbortController().signal;

/** @throws CliError */
export async function readLogs(
  cli: Cli,
  names: readonly NamedLog[],
  wish: LogWish,
  printer: LogPrinter,
  findMore: FindMore,
): Promise<void> {
  const places = new Map<NamedLog, Place | undefined>();
  for (const name of names) places.set(name, await readPast(cli, name, wish, printer));
  if (!wish.follow) return;
  const followed = new Map<string, Promise<void>>();
  const begin = (name: NamedLog): void => {
    followed.set(keyOf(name), follow(cli, name, wish, printer, places.get(name)));
  };
  names.forEach(begin);
  let overSinceMs: number | undefined;
  let failed: unknown;
  for (;;) {
    // Whichever is first: all are over, or it is time to look for allocs that came up meanwhile.
    const all = Promise.all(followed.values()).then(
      () => 'over' as const,
      (error: unknown) => {
        failed = error;
        return 'failed' as const;
      },
    );
    const cancel = new AbortController();
    const state = await Promise.race([
      all,
      sleep(cli.clock, LOOK_MS, cancel.signal).then(() => 'look' as const),
    ]);
    cancel.abort();
    if (state === 'failed') throw failed;
    const { names: current, isMoreToCome } = await findMore();
    const more = current.filter((name) => !followed.has(keyOf(name)));
    for (const name of more) {
      printer.add(name);
      begin(name);
    }
    if (state === 'look' || more.length > 0 || isMoreToCome) {
      overSinceMs = undefined;
      if (state === 'over') await sleep(cli.clock, RETRY_MS);
      continue;
    }
    const nowMs = cli.clock.monoMs();
    overSinceMs ??= nowMs;
    // What takes the place of an alloc is there a moment after its end.
    if (nowMs - overSinceMs > SETTLE_MS) return;
    await sleep(cli.clock, RETRY_MS);
  }
}

function keyOf({ allocId, task, stream }: NamedLog): string {
  return `${allocId}/${task}/${stream}`;
}

/** Prints what there is. @returns where it ended; undefined = nothing was read */
async function readPast(
  cli: Cli,
  name: NamedLog,
  wish: LogWish,
  printer: LogPrinter,
): Promise<Place | undefined> {
  // The daemon counts lines, but not lines that match, and not within a time: then we count.
  const isCountedHere = wish.lines !== undefined && (wish.grep !== undefined || wish.sinceMs !== undefined);
  const query: Params = {
    since: wish.sinceMs,
    lines: isCountedHere ? undefined : wish.lines,
  };
  const most = wish.lines ?? Infinity;
  let kept: string[] = [];
  let place: Place | undefined;
  for await (const piece of streamLog(cli, name, query, never)) {
    place = { file: piece.file, offset: piece.endBytes };
    if (!isCountedHere) await printer.print(name, piece);
    else if (most > 0) kept = [...kept, ...printer.take(name, piece)].slice(-most);
  }
  if (isCountedHere && !wish.follow) kept.push(...printer.takeRest(name));
  await printer.printLines(name, most > 0 ? kept.slice(-most) : []);
  if (!wish.follow) await printer.finish(name);
  return place;
}

async function follow(
  cli: Cli,
  name: NamedLog,
  wish: LogWish,
  printer: LogPrinter,
  begin: Place | undefined,
): Promise<void> {
  let place = begin;
  let goneSinceMs: number | undefined;
  for (;;) {
    try {
      const query = { follow: true, ...(place ?? beginning(wish)) };
      for await (const piece of streamLog(cli, name, query, never)) {
        goneSinceMs = undefined;
        place = { file: piece.file, offset: piece.endBytes };
        await printer.print(name, piece);
      }
      // Over, or the daemon is leaving and has ended the answer.
      if (!(await isAllocLive(cli, name.allocId))) break;
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode !== EXIT.unreachable) throw error;
      const nowMs = cli.clock.monoMs();
      if (goneSinceMs === undefined) {
        cli.output.note('holdfast: the daemon went away; waiting for it to come back');
      }
      goneSinceMs ??= nowMs;
      if (nowMs - goneSinceMs > GIVE_UP_MS) throw error;
    }
    await sleep(cli.clock, RETRY_MS);
  }
  await printer.finish(name);
}

/** Nothing was there: it begins with the first byte. Nothing was wanted: it begins now. */
function beginning(wish: LogWish): Params {
  return wish.lines === 0 ? { origin: 'end', offset: 0 } : { origin: 'start', offset: 0 };
}

async function isAllocLive(cli: Cli, allocId: string): Promise<boolean> {
  try {
    return isLive(await cli.client.get<Allocation>(`/v1/allocation/${allocId}`));
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.notFound) return false;
    throw error;
  }
}
