/** Owns `holdfast events`. */
import type { TaskEventRow } from '../../api/wire.js';
import { lookOf, type Cli } from '../cli.js';
import { addExamples, addJson, flagOf, TARGET_HELP, textOf, type Definition } from '../command.js';
import { EXIT } from '../exit.js';
import { fetchTarget } from '../fetch.js';
import type { Params } from '../http.js';
import { renderEvent, type EventWidths } from '../render/events.js';
import type { Target } from '../target.js';
import { parseSince } from '../when.js';

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('[target]', TARGET_HELP)
    .option('-f, --follow', 'go on with what happens from now on')
    .option('--since <time>', 'only what happened since: 10m, 7d, 14:05, or a date');
  addExamples(command, [
    ['holdfast events', 'what happened on this host, oldest first'],
    ['holdfast events web -f', 'of one job, and live'],
    ['holdfast events --since 2h --json', 'an object a line, for programs'],
  ]);
  run(async (cli, options, [text]) => {
    const target = text === undefined ? undefined : await fetchTarget(cli, text);
    const since = textOf(options, 'since');
    const sinceMs = since === undefined ? undefined : parseSince(since, cli.clock.wallMs());
    const printer = new EventPrinter(cli, target);
    const asked = await cli.client.ask<readonly TaskEventRow[]>('/v1/holdfast/events', {
      query: { ...selection(target), since: sinceMs === undefined ? undefined : Math.floor(sinceMs) },
    });
    await printer.print(asked.value);
    if (flagOf(options, 'follow')) await follow(cli, printer, target, asked.index);
    return EXIT.ok;
  });
}

/** What the daemon can select by; the rest is done by the printer. */
function selection(target: Target | undefined): Params {
  if (target === undefined) return {};
  const [only] = target.allocs;
  const isOne = target.kind === 'alloc' || target.kind === 'alloc-task';
  return isOne && only !== undefined
    ? { alloc: only.ID, task: target.task }
    : { job: target.jobId, task: target.task };
}

async function follow(
  cli: Cli,
  printer: EventPrinter,
  target: Target | undefined,
  after: number,
): Promise<void> {
  const { readFeed } = await import('../feed.js');
  const never = new AbortController().signal;
  const topics = [`TaskEvent:${target?.jobId ?? '*'}`];
  for await (const news of readFeed(cli, { topics, after }, never)) {
    if ('Lost' in news) cli.output.note(`holdfast: events ${news.Lost.From} to ${news.Lost.To} were lost`);
    if (!('Events' in news)) continue;
    await printer.print(
      news.Events.flatMap((event) => (event.Topic === 'TaskEvent' ? [event.Payload.TaskEvent] : [])),
    );
  }
}

/** Prints the events of a target, each once. */
class EventPrinter {
  readonly #cli: Cli;
  readonly #target: Target | undefined;
  readonly #widths: EventWidths;

  constructor(cli: Cli, target: Target | undefined) {
    this.#cli = cli;
    this.#target = target;
    this.#widths = { job: target === undefined ? 0 : undefined, task: 0 };
  }

  async print(events: readonly TaskEventRow[]): Promise<void> {
    const lines = events
      .filter((event) => this.#isWanted(event))
      .map((event) =>
        this.#cli.json ? JSON.stringify(event) : renderEvent(event, this.#widths, lookOf(this.#cli)),
      );
    if (lines.length > 0) await this.#cli.output.write(`${lines.join('\n')}\n`);
  }

  #isWanted(event: TaskEventRow): boolean {
    const target = this.#target;
    if (target === undefined) return true;
    if (event.JobID !== target.jobId || (target.task !== undefined && event.Task !== target.task))
      return false;
    // A job's allocs may be made while we follow; of the other targets we know them, but for a group's new ones.
    return target.kind === 'job' || target.allocs.some(({ ID }) => ID === event.AllocID);
  }
}
