/**
 * Owns the list of commands and the global options. Only the module of the command that is asked for is loaded: a
 * command must not pay at its start for what others need. A little over 300 lines because it is one list.
 */
import { Command, CommanderError } from 'commander';
import { systemClock } from '../base/clock.js';
import { nearest } from '../jobspec/nearest.js';
import { chooseAddress } from './address.js';
import type { Cli } from './cli.js';
import { flagOf, TARGET_HELP, textOf, type CommandModule, type Options } from './command.js';
import type { CommandFacts, Operand } from './completion-scripts.js';
import { CliError, EXIT } from './exit.js';
import { ApiClient } from './http.js';
import { processOutput, type Output } from './output.js';
import { sanitize } from './render/text.js';
import { readTlsFiles } from './tls.js';

interface Entry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
}

const COMMANDS: readonly Entry[] = [
  { name: 'agent', summary: 'run the daemon', load: () => import('./commands/agent.js') },
  {
    name: 'dev',
    summary: 'try a job file with a daemon of its own',
    load: () => import('./commands/dev.js'),
  },
  {
    name: 'run',
    summary: 'start a job, and watch it until it is well',
    load: () => import('./commands/run.js'),
  },
  { name: 'validate', summary: 'check a job file', load: () => import('./commands/validate.js') },
  {
    name: 'plan',
    summary: 'say what running a job file would do, without doing it',
    load: () => import('./commands/plan.js'),
  },
  {
    name: 'init',
    summary: 'write an example of a job file',
    load: () => import('./commands/init.js'),
  },
  {
    name: 'import',
    summary: 'make a job file of a config of another tool',
    load: () => import('./commands/import.js'),
  },
  {
    name: 'schema',
    summary: 'print the JSON Schema of job files',
    load: () => import('./commands/schema.js'),
  },
  { name: 'ps', summary: 'list tasks, failed ones first', load: () => import('./commands/ps.js') },
  {
    name: 'status',
    summary: 'say how a job or this host is, and why',
    load: () => import('./commands/status.js'),
  },
  { name: 'stats', summary: 'show what running tasks use', load: () => import('./commands/stats.js') },
  { name: 'logs', summary: 'show what tasks have written', load: () => import('./commands/logs.js') },
  { name: 'events', summary: 'show what happened to tasks', load: () => import('./commands/events.js') },
  { name: 'history', summary: 'list the attempts to run tasks', load: () => import('./commands/history.js') },
  { name: 'stop', summary: 'stop a job, or an alloc', load: () => import('./commands/stop.js') },
  {
    name: 'dispatch',
    summary: 'run a parameterized job',
    load: () => import('./commands/dispatch.js'),
  },
  {
    name: 'periodic',
    summary: 'launch a periodic job now',
    load: () => import('./commands/periodic.js'),
  },
  { name: 'purge', summary: 'stop a job and forget it', load: () => import('./commands/purge.js') },
  {
    name: 'gc',
    summary: 'forget everything that is over and not needed',
    load: () => import('./commands/gc.js'),
  },
  { name: 'restart', summary: 'restart running tasks', load: () => import('./commands/restart.js') },
  { name: 'signal', summary: 'send a signal to running tasks', load: () => import('./commands/signal.js') },
  { name: 'exec', summary: 'run a command in a task', load: () => import('./commands/exec.js') },
  { name: 'inspect', summary: 'print the stored record', load: () => import('./commands/inspect.js') },
  {
    name: 'doctor',
    summary: 'look for leftovers on this host, and clean them up',
    load: () => import('./commands/doctor.js'),
  },
  {
    name: 'drain',
    summary: 'stop everything on this host gracefully, and start nothing new',
    load: () => import('./commands/drain.js'),
  },
  {
    name: 'node',
    summary: 'say what this host can do, and what is missing',
    load: () => import('./commands/node.js'),
  },
  {
    name: 'token',
    summary: 'make a token for the API on TCP',
    load: () => import('./commands/token.js'),
  },
  {
    name: 'completion',
    summary: 'print a script for bash, zsh or fish',
    load: () => import('./commands/completion.js'),
  },
  { name: 'version', summary: 'print the version', load: () => import('./commands/version.js') },
];

/** The headings of the help, and what stands below them. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'The daemon and its host:': ['agent', 'dev', 'doctor', 'drain', 'node', 'token'],
  'Job files:': ['run', 'validate', 'plan', 'init', 'import', 'schema'],
  'Look:': ['ps', 'status', 'stats', 'logs', 'events', 'history', 'inspect'],
  'Act:': ['stop', 'restart', 'signal', 'exec', 'dispatch', 'periodic', 'purge', 'gc'],
};

/** What somebody types who has never seen it. */
const FIRST_STEPS = `
First steps:
  holdfast agent                  the daemon, in a terminal of its own
  holdfast run -- sleep 1000      a job of one task
  holdfast init job.hcl           an example of a job file; then: holdfast run job.hcl
  holdfast ps                     what runs
  holdfast status sleep           how it is, and why
  holdfast stop sleep

"holdfast help COMMAND" has more examples.
`;

/** What fingers type that come from elsewhere. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['apply', 'run'],
  ['daemon', 'agent'],
  ['delete', 'purge'],
  ['describe', 'status'],
  ['kill', 'stop'],
  ['list', 'ps'],
  ['ls', 'ps'],
  ['monit', 'ps -w'],
  ['reload', 'signal HUP'],
  ['rm', 'purge'],
  ['show', 'inspect'],
  ['start', 'run'],
  ['tail', 'logs -f'],
  ['top', 'ps -w'],
  ['up', 'run'],
]);

const VERSION_FLAGS = new Set(['-V', '--version']);

const GLOBAL_WITH_VALUE = new Set(['--address', '--token', '--ca-cert', '--client-cert', '--client-key']);

/** What a run of the CLI works with; tests give their own. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly uid: number;
  /** @param noColor --no-color was given */
  readonly output: (noColor: boolean) => Output;
}

/** The world of this process. */
export function processWorld(): World {
  return { env: process.env, uid: process.getuid?.() ?? 0, output: processOutput };
}

/**
 * Runs one command line.
 * @param words without node and script
 */
export async function runCli(words: readonly string[], world: World): Promise<number> {
  const argv = asNomadWrites(words);
  const output = world.output(false);
  const note = (line: string): void => {
    output.note(line);
  };
  let exitCode: number = EXIT.ok;
  const chosen = chooseCommand(argv);
  if (chosen === undefined && argv.some((word) => VERSION_FLAGS.has(word))) return runCli(['version'], world);
  if (chosen !== undefined && !COMMANDS.some(({ name }) => name === chosen)) {
    note(`holdfast: unknown command ${JSON.stringify(chosen)}: ${adviceOn(chosen)}`);
    return EXIT.usage;
  }
  const program = newProgram(note, chosen);
  for (const entry of COMMANDS) {
    const command = program.command(entry.name).description(entry.summary);
    const [group] = Object.entries(GROUPS).find(([, names]) => names.includes(entry.name)) ?? [];
    if (group !== undefined) command.helpGroup(group);
    if (entry.name !== chosen) continue;
    (await entry.load()).define({
      command,
      argv,
      run: (action) => {
        command.action(async () => {
          const options = command.optsWithGlobals<Options>();
          exitCode = await action(openCli(options, world), options, command.args);
        });
      },
    });
  }
  try {
    if (argv.length === 0) program.outputHelp();
    else await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    if (!(error instanceof CliError)) throw error;
    note(`holdfast: ${error.message}`);
    return error.exitCode;
  }
}

/** What each command declares, for completion and for tests of the help. Loads them all. */
export async function describeCommands(): Promise<readonly CommandFacts[]> {
  return (await loadCommands()).map(({ command, summary }) => ({
    name: command.name(),
    summary,
    options: command.options
      .filter(({ long, hidden }) => long !== undefined && !hidden)
      .map(({ long, short, flags, description }) => ({
        long: long ?? '',
        short,
        takes: !/[<[]/.test(flags) ? 'nothing' : /<(?:file|dir|path)>/.test(flags) ? 'file' : 'text',
        summary: description,
      })),
    operands: command.registeredArguments.map((argument) => operandOf(argument.name(), argument.description)),
  }));
}

/** Every command with its options and its help, and nothing that runs it. */
export async function loadCommands(): Promise<readonly { command: Command; summary: string }[]> {
  return Promise.all(
    COMMANDS.map(async ({ name, summary, load }) => {
      const command = new Command(name).description(summary);
      (await load()).define({ command, argv: [], run: () => undefined });
      return { command, summary };
    }),
  );
}

function operandOf(name: string, description: string): Operand {
  if (description === TARGET_HELP) return { kind: 'target' };
  if (name === 'signal')
    return { kind: 'words', words: ['HUP', 'INT', 'QUIT', 'TERM', 'USR1', 'USR2', 'KILL', 'STOP', 'CONT'] };
  if (/^\w+(?:, \w+)*$/.test(description)) return { kind: 'words', words: description.split(', ') };
  return /file|words/.test(name) ? { kind: 'file' } : { kind: 'none' };
}

function adviceOn(word: string): string {
  const meant =
    ELSEWHERE.get(word) ??
    nearest(
      word,
      COMMANDS.map(({ name }) => name),
    );
  return meant === undefined ? '"holdfast help" lists the commands' : `did you mean "holdfast ${meant}"?`;
}

/** @param chosen the command of this line, if it names one */
function newProgram(note: (line: string) => void, chosen: string | undefined): Command {
  const program = new Command('holdfast');
  return program
    .description('Runs workloads and never lets go of them.')
    .option(
      '--address <url>',
      'daemon: unix:///path or http(s)://HOST:PORT (HOLDFAST_ADDR; default: the local socket)',
    )
    .option('--token <token>', 'token for a daemon on TCP (HOLDFAST_TOKEN)')
    .option('--ca-cert <file>', 'CA of the daemon, for https (HOLDFAST_CACERT)')
    .option('--client-cert <file>', 'certificate to show to the daemon (HOLDFAST_CLIENT_CERT)')
    .option('--client-key <file>', 'its key (HOLDFAST_CLIENT_KEY)')
    .option('--no-color', 'no colours (also NO_COLOR, also when the output is no terminal)')
    .showSuggestionAfterError(true)
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      outputError: (text) => {
        const line =
          missingOperand(program, chosen, text) ??
          text
            .replace(/^error: /, '')
            .trim()
            .replace(/\.$/, '')
            .replaceAll('\n', ' ');
        note(
          `holdfast: ${line}; ${JSON.stringify(chosen === undefined ? 'holdfast help' : `holdfast help ${chosen}`)} shows how`,
        );
      },
    })
    .addHelpText(
      'after',
      ({ command }) =>
        `${command === program ? FIRST_STEPS : ''}\nExit codes: 0 ok, 1 failed, 2 usage or invalid job file, 3 not running, 4 not found, 5 daemon unreachable, 6 not permitted`,
    );
}

/** What is to be given, in the words of the help, when a command lacks it. */
function missingOperand(program: Command, chosen: string | undefined, text: string): string | undefined {
  const name = /missing required argument '(\w+)'/.exec(text)?.[1];
  const command = program.commands.find((each) => each.name() === chosen);
  const description = command?.registeredArguments.find((each) => each.name() === name)?.description ?? '';
  return name === undefined || description === '' ? undefined : `give ${name.toUpperCase()}: ${description}`;
}

/** Long options that fingers give one dash, as Nomad's tools have it. */
const ONE_DASH = /^-(?=(?:var|var-file|check-index|detach|json|stderr|address|token)(?:=|$))/;

function asNomadWrites(argv: readonly string[]): string[] {
  const end = argv.indexOf('--');
  return argv.map((word, at) => (end === -1 || at < end ? word.replace(ONE_DASH, '--') : word));
}

/** The first word that is no global option; for `help NAME` it is NAME. */
function chooseCommand(argv: readonly string[]): string | undefined {
  const words = argv.filter(
    (word, at) => !word.startsWith('-') && !GLOBAL_WITH_VALUE.has(argv[at - 1] ?? ''),
  );
  return words[0] === 'help' ? words[1] : words[0];
}

/** Everything that asks for an address is refused here, not before: `agent` and `--help` need none. */
function openCli(options: Options, world: World): Cli {
  const address = chooseAddress(textOf(options, 'address'), world.env, world.uid);
  const output = world.output(options['color'] === false);
  const warn = (text: string): void => {
    output.note(`holdfast: ${sanitize(text)}`);
  };
  const token = textOf(options, 'token') ?? world.env['HOLDFAST_TOKEN'];
  return {
    client: new ApiClient(address, { token, tls: readTlsFiles(options, world.env) }, warn),
    output,
    clock: systemClock,
    json: flagOf(options, 'json'),
  };
}
