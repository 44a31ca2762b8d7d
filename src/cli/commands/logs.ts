/** Owns `holdfast logs`. */
import type { Cli } from '../cli.js';
import {
  addExamples,
  addJson,
  flagOf,
  TARGET_HELP,
  textOf,
  type Definition,
  type Options,
} from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchTarget } from '../fetch.js';
import { LogPrinter, type NamedLog } from '../log-printer.js';
import { readLogs, type LogWish } from '../log-reader.js';
import { currentAllocs, isLive, taskNames, type Target } from '../target.js';
import { parseSince } from '../when.js';

/** Lines shown before following, when nothing else is asked for. */
const LINES_BEFORE_FOLLOWING = 10;

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('<target>', TARGET_HELP)
    .option('-f, --follow', 'go on with what is written from now on, until the allocs are over')
    .option('-n, --lines <n>', 'only the last n lines of each task (default: all; with -f 10)')
    .option('--stderr', 'stderr instead of stdout')
    .option('--since <time>', 'only rotated files written to since: 10m, 7d, 14:05, or a date')
    .option('--grep <regexp>', 'only lines that match');
  addExamples(command, [
    ['holdfast logs web', 'stdout, across rotated files; several tasks with a prefix'],
    ['holdfast logs web/api/server -f -n 50', 'the last 50 lines, and live'],
    ['holdfast logs web --stderr --grep "ERR|FATAL"', 'what went wrong'],
  ]);
  run(async (cli, options, [text = '']) => {
    const target = await fetchTarget(cli, text);
    const wish = readWish(options, cli.clock.wallMs());
    const names = logNames(target, flagOf(options, 'stderr') ? 'stderr' : 'stdout');
    if (names.length === 0) {
      const why = `"holdfast status ${text}" says why`;
      throw new CliError(EXIT.notRunning, `${JSON.stringify(text)} has no tasks yet: ${why}`);
    }
    const printer = new LogPrinter(cli, names, wish.grep);
    await readLogs(cli, names, wish, printer, () => findMore(cli, target, names[0]?.stream ?? 'stdout'));
    if (!printer.hasWritten()) sayNothingThere(cli, options);
    return EXIT.ok;
  });
}

/** An empty answer leaves open whether one has looked in the wrong place. */
function sayNothingThere(cli: Cli, options: Options): void {
  const isStderr = flagOf(options, 'stderr');
  const [asked, other] = isStderr ? ['stderr', 'without --stderr'] : ['stdout', 'with --stderr'];
  const isPart = [options['grep'], options['since'], options['lines']].some((value) => value !== undefined);
  const what = isPart ? `nothing of that on ${asked}` : `nothing was written to ${asked}`;
  cli.output.note(`holdfast: ${what}; see also "holdfast logs" ${other}`);
}

/** @throws CliError usage */
function readWish(options: Options, nowMs: number): LogWish {
  const follow = flagOf(options, 'follow');
  const since = textOf(options, 'since');
  const sinceMs = since === undefined ? undefined : Math.floor(parseSince(since, nowMs));
  const asked = readLines(textOf(options, 'lines'));
  const grep = readGrep(textOf(options, 'grep'));
  const isBare = grep === undefined && sinceMs === undefined;
  return {
    follow,
    lines: asked ?? (follow && isBare ? LINES_BEFORE_FOLLOWING : undefined),
    sinceMs,
    grep,
  };
}

function readLines(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new CliError(EXIT.usage, `--lines ${JSON.stringify(text)} is no count: give a whole number from 0`);
}

function readGrep(text: string | undefined): RegExp | undefined {
  if (text === undefined) return undefined;
  try {
    return new RegExp(text, 'u');
  } catch (cause) {
    throw new CliError(EXIT.usage, `--grep: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** A job, or a part of it, has new allocs in the place of old ones; an alloc is only ever itself. */
async function findMore(
  cli: Cli,
  target: Target,
  stream: NamedLog['stream'],
): Promise<{ names: readonly NamedLog[]; isMoreToCome: boolean }> {
  if (target.kind === 'alloc' || target.kind === 'alloc-task') return { names: [], isMoreToCome: false };
  try {
    const now = await fetchTarget(cli, target.text);
    const current = currentAllocs(now.allocs);
    const names = current.some(isLive) ? logNames(now, stream) : [];
    return { names, isMoreToCome: current.some(({ FollowupEvalID }) => FollowupEvalID !== '') };
  } catch (error) {
    // Purged meanwhile, or the daemon is away: who follows waits for it, or gives up, in its own time.
    const isGone = error instanceof CliError && error.exitCode !== EXIT.usage;
    if (isGone) return { names: [], isMoreToCome: false };
    throw error;
  }
}

/** The logs to read: of the live allocs, or of the newest ones when all are over. */
function logNames(target: Target, stream: NamedLog['stream']): NamedLog[] {
  const current = currentAllocs(target.allocs);
  const live = current.filter(isLive);
  return (live.length > 0 ? live : current).flatMap((alloc) =>
    taskNames(target, alloc).map((task) => ({ allocId: alloc.ID, jobId: alloc.JobID, task, stream })),
  );
}
