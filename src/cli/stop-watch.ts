/** Owns waiting for the end of a job, or of one alloc, and saying who is left meanwhile. */
import type { FeedAllocation, TaskEventRow } from '../api/wire.js';
import { shortId } from '../base/ids.js';
import { lookOf, type Cli } from './cli.js';
import { fetchKnown } from './fetch.js';
import { renderEvent, type EventWidths } from './render/events.js';
import { sanitize } from './render/text.js';
import { formatAge } from './render/units.js';
import { isLive } from './target.js';

/** When those who are left are named first, and how often then. */
const FIRST_REMIND_MS = 1000;
const REMIND_MS = 5000;

/** What is waited for. */
export type End =
  /** No alloc of the job is live. */
  | { readonly kind: 'job' }
  /** This alloc is over. */
  | { readonly kind: 'alloc'; readonly allocId: string }
  /** The job is forgotten. */
  | { readonly kind: 'purge' };

/**
 * @param after index of the feed before the stop was asked for
 * @throws CliError
 */
export async function waitForEnd(cli: Cli, jobId: string, end: End, after: number): Promise<void> {
  const { watchJob } = await import('./job-watch.js');
  const leave = new AbortController();
  const widths: EventWidths = { job: undefined, task: 0 };
  const beganMs = cli.clock.monoMs();
  let left: readonly FeedAllocation[] = [];
  const remind = (): void => {
    const names = describeLeft(left);
    if (names !== '') {
      cli.output.note(`after ${formatAge(cli.clock.monoMs() - beganMs)} still there: ${sanitize(names)}`);
    }
    timer = cli.clock.setTimer(REMIND_MS, remind);
  };
  let timer = cli.clock.setTimer(FIRST_REMIND_MS, remind);
  try {
    for await (const update of watchJob(cli, jobId, after, leave.signal)) {
      left = update.allocs.filter((alloc) => isLive(alloc) && isMeant(end, alloc.ID));
      await printEvents(cli, update.events, end, widths);
      if (!update.isCurrent) continue;
      const isOver =
        end.kind === 'purge'
          ? update.isPurged || (left.length === 0 && (await isForgotten(cli, jobId)))
          : left.length === 0;
      if (isOver) return;
    }
  } finally {
    timer[Symbol.dispose]();
    leave.abort();
  }
}

async function printEvents(
  cli: Cli,
  events: readonly TaskEventRow[],
  end: End,
  widths: EventWidths,
): Promise<void> {
  for (const event of events) {
    if (!isMeant(end, event.AllocID)) continue;
    await cli.output.write(`${renderEvent(event, widths, lookOf(cli))}\n`);
  }
}

function isMeant(end: End, allocId: string): boolean {
  return end.kind !== 'alloc' || end.allocId === allocId;
}

/** In case the feed has lost the word of it. */
async function isForgotten(cli: Cli, jobId: string): Promise<boolean> {
  const { jobs } = await fetchKnown(cli);
  return !jobs.some(({ ID }) => ID === jobId);
}

/** `web.api[0] 7a1c9d2e: server pid 41230 (stopping)`. */
function describeLeft(allocs: readonly FeedAllocation[]): string {
  return allocs
    .map((alloc) => {
      const tasks = Object.entries(alloc.TaskStates)
        .filter(([, { State }]) => State !== 'dead')
        .map(([task, { Holdfast }]) => {
          const pid = Holdfast.Pid === null ? '' : ` pid ${Holdfast.Pid}`;
          return `${task}${pid} (${Holdfast.Phase})`;
        });
      return `${alloc.Name} ${shortId(alloc.ID)}: ${tasks.join(', ') || alloc.ClientStatus}`;
    })
    .join('; ');
}
