/** Owns `holdfast ps`. */
import { lookOf, writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { fetchKnown, fetchNode } from '../fetch.js';
import { currentAllocs, isLive } from '../target.js';

/** The cursor stands below the last line. */
const CURSOR_LINES = 1;

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
    if (flagOf(options, 'watch')) {
      const { watch } = await import('../watch.js');
      return watch(cli, (before) => show(cli, all, before));
    }
    await show(cli, all, '');
    return EXIT.ok;
  });
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
