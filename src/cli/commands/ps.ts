/** Owns `holdfast ps`. */
import { sleep } from '../../base/clock.js';
import { lookOf, writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchKnown, fetchNode } from '../fetch.js';
import { currentAllocs, isLive } from '../target.js';

/** How often --watch looks again. */
const WATCH_MS = 2000;
/** How long --watch waits for a daemon that went away: one that is restarted is back sooner. */
const GIVE_UP_MS = 60_000;
/** The cursor stands below the last line. */
const CURSOR_LINES = 1;
const HOME_AND_CLEAR = '\x1b[H\x1b[J';

export function define({ command, run }: Definition): void {
  addJson(command)
    .option('-a, --all', 'also allocs that ended, were stopped or were replaced')
    .option('-w, --watch', 'go on showing it until interrupted');
  addExamples(command, [
    ['holdfast ps', 'what runs, and what should run but does not'],
    ['holdfast ps -a', 'also what is over'],
    ['holdfast ps -w', 'the same, live'],
  ]);
  run(async (cli, options) => {
    const all = flagOf(options, 'all');
    if (flagOf(options, 'watch')) return watch(cli, all);
    await show(cli, all, '');
    return EXIT.ok;
  });
}

/** Shows it again and again; a daemon that is gone for a moment is waited for. */
async function watch(cli: Cli, all: boolean): Promise<never> {
  let goneSinceMs: number | undefined;
  let wasShown = false;
  for (;;) {
    try {
      await show(cli, all, cli.output.isTerminal ? HOME_AND_CLEAR : '');
      wasShown = true;
      goneSinceMs = undefined;
    } catch (error) {
      if (!wasShown || !(error instanceof CliError) || error.exitCode !== EXIT.unreachable) throw error;
      const nowMs = cli.clock.monoMs();
      if (goneSinceMs === undefined)
        cli.output.note('holdfast: the daemon went away; waiting for it to come back');
      goneSinceMs ??= nowMs;
      if (nowMs - goneSinceMs > GIVE_UP_MS) throw error;
    }
    await sleep(cli.clock, WATCH_MS);
  }
}

async function show(cli: Cli, all: boolean, before: string): Promise<void> {
  // What is needed to draw is loaded while the daemon thinks.
  const [{ jobs, allocs }, node, { renderPs }, { fetchRows }, { describeScheduling }] = await Promise.all([
    fetchKnown(cli),
    cli.json ? undefined : fetchNode(cli),
    import('../render/ps.js'),
    import('../rows.js'),
    import('../render/drain.js'),
  ]);
  const isStopped = new Set(jobs.filter(({ Stop }) => Stop).map(({ ID }) => ID));
  const known = new Set(jobs.map(({ ID }) => ID));
  const isWanted = (jobId: string): boolean => known.has(jobId) && !isStopped.has(jobId);
  const shown = all
    ? allocs
    : currentAllocs(allocs).filter(
        (alloc) => isLive(alloc) || (isWanted(alloc.JobID) && alloc.ClientStatus !== 'complete'),
      );
  if (cli.json) {
    await writeJson(cli, shown);
    return;
  }
  const rows = await fetchRows(cli, shown);
  const look = lookOf(cli);
  const notice = node && describeScheduling(node, look.nowMs);
  const data = { rows, hiddenAllocs: allocs.length - shown.length, notice };
  let lines: readonly string[];
  if (before === '') lines = renderPs(data, look);
  else {
    const { renderPsFrame } = await import('../render/ps-frame.js');
    lines = renderPsFrame(data, cli.output.height() - CURSOR_LINES, look);
  }
  await cli.output.write(`${before}${lines.join('\n')}\n`);
}
