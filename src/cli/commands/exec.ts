/** Owns `holdfast exec`. */
import { isatty } from 'node:tty';
import { shortId } from '../../base/ids.js';
import type { AllocListStub } from '../../api/wire.js';
import { addExamples, flagOf, TARGET_HELP, textOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchTarget } from '../fetch.js';
import { sanitize } from '../render/text.js';
import { taskNames, type Target } from '../target.js';

/** Candidates named in an error. */
const MOST_NAMED = 5;

export function define({ command, run }: Definition): void {
  command
    .argument('<target>', TARGET_HELP)
    .argument('<command...>', 'the command and its arguments, best behind "--"')
    .option('-i, --interactive', 'hand input on to the command')
    .option('-t, --tty', 'on a terminal; both are the default when input and output are one')
    .option('--no-tty', 'never on a terminal')
    .option('--task <task>', 'which task of the alloc');
  addExamples(command, [
    ['holdfast exec web -- sh', 'a shell in the task'],
    ['holdfast exec 7a1c9d2e/api -- cat /etc/hostname', 'one command; its exit code is ours'],
    ['tar c . | holdfast exec -i web -- tar x -C local', 'with input'],
  ]);
  run(async (cli, options, [text = '', ...words]) => {
    const both = isatty(0) && isatty(1);
    const asked = textOf(options, 'task');
    const target = await fetchTarget(cli, text);
    const place = choosePlace({ ...target, task: asked ?? target.task });
    // Loaded late: it brings the websocket client with it.
    const { runExec } = await import('../exec-session.js');
    return await runExec(cli, {
      ...place,
      command: words,
      tty: options['tty'] === undefined ? both : flagOf(options, 'tty'),
      interactive: flagOf(options, 'interactive') || both,
    });
  });
}

interface Place {
  readonly allocId: string;
  readonly task: string;
}

/** The one running task that is meant. @throws CliError notFound, notRunning, usage when several are */
function choosePlace(target: Target): Place {
  const { task, text } = target;
  if (task !== undefined && target.allocs.every(({ TaskStates }) => TaskStates[task] === undefined)) {
    throw new CliError(EXIT.notFound, `${sanitize(text)} has no task ${JSON.stringify(task)}`);
  }
  const running = target.allocs.flatMap((alloc) =>
    taskNames(target, alloc)
      .filter((name) => alloc.TaskStates[name]?.State === 'running')
      .map((name) => ({ alloc, name })),
  );
  const [only, ...others] = running;
  if (only === undefined) {
    throw new CliError(
      EXIT.notRunning,
      `no task of ${JSON.stringify(text)} is running: "holdfast status ${sanitize(text)}" says why`,
    );
  }
  if (others.length === 0) return { allocId: only.alloc.ID, task: only.name };
  const named = running.slice(0, MOST_NAMED).map(({ alloc, name }) => pathOf(alloc, name));
  const more = running.length > MOST_NAMED ? `, and ${running.length - MOST_NAMED} more` : '';
  throw new CliError(
    EXIT.usage,
    `${JSON.stringify(text)} has ${running.length} running tasks: name one of ${named.join(', ')}${more}`,
  );
}

function pathOf(alloc: AllocListStub, task: string): string {
  return `${shortId(alloc.ID)}/${sanitize(task)}`;
}
