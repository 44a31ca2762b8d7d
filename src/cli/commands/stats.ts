/** Owns `holdfast stats`. */
import type { AllocUsageHistory } from '../../api/wire.js';
import { sleep } from '../../base/clock.js';
import { lookOf, writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, TARGET_HELP, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchKnown, mapBounded } from '../fetch.js';
import type { PsRow } from '../render/ps.js';
import { renderStats, type CpuHistory } from '../render/stats.js';
import { sanitize } from '../render/text.js';
import { fetchRows } from '../rows.js';
import { isLive, resolveTarget } from '../target.js';

/** How often --follow looks again. */
const FOLLOW_MS = 2000;
/** Percent of CPU is that between two samples: how long we wait for the second one. */
const SECOND_SAMPLE_MS = 1000;
/** Requests under way at once. */
const MOST_AT_ONCE = 8;
const HOME_AND_CLEAR = '\x1b[H\x1b[J';

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('[target]', TARGET_HELP)
    .option('-f, --follow', 'go on showing it until interrupted');
  addExamples(command, [
    ['holdfast stats', 'CPU, memory against its limit, processes, throttling and OOM kills of what runs'],
    ['holdfast stats web/api -f', 'the same of a part of a job, live'],
  ]);
  run(async (cli, options, [target]) => {
    const first = await fetchUsage(cli, target);
    const isComplete = first.every(({ usage }) => usage?.Holdfast.CPUPercent !== null);
    if (!isComplete) await sleep(cli.clock, SECOND_SAMPLE_MS);
    const rows = isComplete ? first : await fetchUsage(cli, target);
    if (!flagOf(options, 'follow')) {
      if (cli.json) await writeJson(cli, rows.map(toJson));
      else await cli.output.write(`${renderStats(rows, lookOf(cli)).join('\n')}\n`);
      return EXIT.ok;
    }
    await show(cli, rows);
    for (;;) {
      await sleep(cli.clock, FOLLOW_MS);
      await show(cli, await fetchUsage(cli, target));
    }
  });
}

/** What runs of the target, busiest first. @throws CliError notRunning when nothing of a target does */
async function fetchUsage(cli: Cli, text: string | undefined): Promise<PsRow[]> {
  const known = await fetchKnown(cli);
  const target = text === undefined ? undefined : resolveTarget(text, known);
  const rows = await fetchRows(cli, (target?.allocs ?? known.allocs).filter(isLive), target?.task);
  const running = rows.filter(({ usage }) => usage !== undefined);
  if (running.length === 0 && text !== undefined) {
    throw new CliError(
      EXIT.notRunning,
      `nothing of ${sanitize(text)} runs: see holdfast status ${sanitize(text)}`,
    );
  }
  const cpuOf = (row: PsRow): number => row.usage?.Holdfast.CPUPercent ?? 0;
  return running.sort((a, b) => cpuOf(b) - cpuOf(a));
}

/** One picture: on a terminal in place of the one before; as JSON on a line of its own. */
async function show(cli: Cli, rows: readonly PsRow[]): Promise<void> {
  if (cli.json) {
    await cli.output.write(`${JSON.stringify(rows.map(toJson))}\n`);
    return;
  }
  const history = cli.output.isTerminal ? await fetchHistory(cli, rows) : undefined;
  const lines = renderStats(rows, lookOf(cli), history).slice(0, cli.output.height() - 1);
  await cli.output.write(`${cli.output.isTerminal ? HOME_AND_CLEAR : ''}${lines.join('\n')}\n`);
}

/** What the daemon remembers of the CPU of these tasks; what it does not is empty. */
async function fetchHistory(cli: Cli, rows: readonly PsRow[]): Promise<CpuHistory> {
  const allocIds = [...new Set(rows.map(({ alloc }) => alloc.ID))];
  const answers = await mapBounded(allocIds, MOST_AT_ONCE, async (id) => {
    const past = await cli.client
      .get<AllocUsageHistory>(`/v1/holdfast/allocation/${id}/usage`)
      .catch((error: unknown) => {
        // It ended since we looked.
        if (error instanceof CliError && error.exitCode !== EXIT.unreachable) return undefined;
        throw error;
      });
    return Object.entries(past?.Tasks ?? {}).map(([task, samples]): [string, (number | null)[]] => [
      `${id}/${task}`,
      samples.map(({ Holdfast }) => Holdfast.CPUPercent),
    ]);
  });
  return new Map(answers.flat());
}

function toJson({ alloc, task, usage }: PsRow): object {
  return { AllocID: alloc.ID, JobID: alloc.JobID, TaskGroup: alloc.TaskGroup, Task: task, ...usage };
}
