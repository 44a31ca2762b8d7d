/** Owns draining this host from the command line: asking for it, waiting for its end, and undoing it. */
import type { AllocListStub, Node, NodeUpdateResponse } from '../api/wire.js';
import { sleep } from '../base/clock.js';
import { readDuration } from '../jobspec/units.js';
import type { Cli } from './cli.js';
import { flagOf, textOf, type Definition, type Options } from './command.js';
import { CliError, EXIT, type ExitCode } from './exit.js';
import { fetchNode } from './fetch.js';
import { plural, sanitize } from './render/text.js';
import { isLive } from './target.js';

/** Nomad's. */
const DEFAULT_DEADLINE = '1h';
/** How often a drain that is waited for is looked at. */
const LOOK_MS = 500;
/** A daemon that is restarted in the middle is waited for; a drain goes on where it was. */
const GIVE_UP_MS = 60_000;

/** The options of `drain` and `node drain`. */
export function addDrainOptions(command: Definition['command']): void {
  command
    .option('--enable', 'begin to drain (for "node drain")')
    .option('--disable', 'end the drain, and start again what was stopped')
    .option('--deadline <duration>', 'what is left then is stopped whatever it is (default: 1h)')
    .option('--no-deadline', 'batch jobs may take as long as they like')
    .option('--force', 'stop everything now, batch jobs too')
    .option('--ignore-system', 'leave system jobs running')
    .option('--keep-ineligible', 'with --disable: go on taking nothing new')
    .option('--detach', 'do not wait until the host is drained');
}

/** @throws CliError */
export async function drain(cli: Cli, options: Options): Promise<ExitCode> {
  const node = await fetchNode(cli);
  if (flagOf(options, 'disable')) return endDrain(cli, node, flagOf(options, 'keepIneligible'));
  const Deadline = readDeadline(options);
  await ask(cli, node, 'drain', {
    DrainSpec: { Deadline, IgnoreSystemJobs: flagOf(options, 'ignoreSystem') },
  });
  await cli.output.write(`draining ${sanitize(node.Name)}: nothing new starts here\n`);
  if (flagOf(options, 'detach')) return EXIT.ok;
  await waitUntilDrained(cli);
  await cli.output.write(`drained; "holdfast drain --disable" takes new allocs again\n`);
  return EXIT.ok;
}

/** @throws CliError */
export async function setEligibility(cli: Cli, options: Options): Promise<ExitCode> {
  const [enable, disable] = [flagOf(options, 'enable'), flagOf(options, 'disable')];
  if (enable === disable) {
    throw new CliError(EXIT.usage, 'holdfast node eligibility: give --enable or --disable');
  }
  const node = await fetchNode(cli);
  await ask(cli, node, 'eligibility', { Eligibility: enable ? 'eligible' : 'ineligible' });
  await cli.output.write(
    enable ? 'this host takes new allocs\n' : 'this host takes nothing new; what runs goes on\n',
  );
  return EXIT.ok;
}

async function endDrain(cli: Cli, node: Node, keepIneligible: boolean): Promise<ExitCode> {
  await ask(cli, node, 'drain', { DrainSpec: null, MarkEligible: !keepIneligible });
  await cli.output.write(
    keepIneligible
      ? 'the drain is over; this host still takes nothing new\n'
      : 'this host takes new allocs\n',
  );
  return EXIT.ok;
}

async function ask(cli: Cli, node: Node, what: string, body: object): Promise<void> {
  await cli.client.ask<NodeUpdateResponse>(`/v1/node/${node.ID}/${what}`, { method: 'PUT', body });
}

/** Nanoseconds as Nomad counts them: 0 = none, negative = at once. @throws CliError usage */
function readDeadline(options: Options): number {
  if (flagOf(options, 'force')) return -1;
  if (options['deadline'] === false) return 0;
  const text = textOf(options, 'deadline') ?? DEFAULT_DEADLINE;
  const read = readDuration(text);
  if (read.ok) return read.value === 0 ? -1 : read.value * 1e6;
  throw new CliError(EXIT.usage, `--deadline ${JSON.stringify(text)}: ${read.why}`);
}

/** Says who is left whenever that changes. */
async function waitUntilDrained(cli: Cli): Promise<void> {
  let told = '';
  let goneSinceMs: number | undefined;
  for (;;) {
    try {
      const node = await fetchNode(cli);
      if (!node.Drain) return;
      const allocs = (await cli.client.get<readonly AllocListStub[]>('/v1/allocations')).filter(isLive);
      const left = allocs.map(({ Name }) => sanitize(Name)).join(', ');
      if (left !== told) cli.output.note(`${plural(allocs.length, 'alloc')} left: ${left}`);
      told = left;
      goneSinceMs = undefined;
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode !== EXIT.unreachable) throw error;
      const nowMs = cli.clock.monoMs();
      goneSinceMs ??= nowMs;
      if (nowMs - goneSinceMs > GIVE_UP_MS) throw error;
    }
    await sleep(cli.clock, LOOK_MS);
  }
}
