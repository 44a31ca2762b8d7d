/** Owns the job that `run -- CMD` makes: one group, one raw_exec task. Pure. */
import { resolve } from 'node:path';
import { readMib } from '../jobspec/units.js';
import { CliError, EXIT } from './exit.js';

export interface AdHocWishes {
  readonly name: string | undefined;
  readonly memory: string | undefined;
  /** `KEY=value` each. */
  readonly env: readonly string[];
  readonly user: string | undefined;
  readonly isBatch: boolean;
  /** Directory that the command is run in, and that a relative path is relative to. */
  readonly cwd: string;
}

/** What the daemon needs to make a job of; everything else has its default there. */
export interface AdHocJob {
  readonly ID: string;
  readonly Name: string;
  readonly Type: 'service' | 'batch';
  readonly TaskGroups: readonly [
    {
      readonly Name: string;
      readonly Count: 1;
      readonly Tasks: readonly [Readonly<Record<string, unknown>>];
    },
  ];
}

/** @param words the command and its arguments. @throws CliError usage */
export function adHocJob(words: readonly string[], wishes: AdHocWishes): AdHocJob {
  const [command, ...args] = words;
  if (command === undefined) throw new CliError(EXIT.usage, 'nothing behind "--": give a command to run');
  const name = wishes.name === undefined ? nameOf(command) : checkedName(wishes.name);
  return {
    ID: name,
    Name: name,
    Type: wishes.isBatch ? 'batch' : 'service',
    TaskGroups: [
      {
        Name: name,
        Count: 1,
        Tasks: [
          {
            Name: name,
            Driver: 'raw_exec',
            Config: {
              command: command.includes('/') ? resolve(wishes.cwd, command) : command,
              args,
              work_dir: wishes.cwd,
            },
            Env: readEnv(wishes.env),
            ...(wishes.user === undefined ? {} : { User: wishes.user }),
            ...(wishes.memory === undefined ? {} : { Resources: { MemoryMB: readMemory(wishes.memory) } }),
          },
        ],
      },
    ],
  };
}

/** The daemon has more to say about names; this is what people get wrong. */
function checkedName(name: string): string {
  if (/^[^/\s\p{Cc}]+$/u.test(name)) return name;
  throw new CliError(
    EXIT.usage,
    `--name ${JSON.stringify(name)}: a name cannot be empty or hold "/" or spaces`,
  );
}

/** The name of the program, made of letters that every name may have. */
function nameOf(command: string): string {
  const base = command.slice(command.lastIndexOf('/') + 1).replaceAll(/[^A-Za-z0-9_.-]/g, '-');
  if (/[A-Za-z0-9]/.test(base)) return base;
  throw new CliError(EXIT.usage, `no name can be made of ${JSON.stringify(command)}: give one with --name`);
}

function readEnv(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)];
      throw new CliError(EXIT.usage, `--env ${JSON.stringify(pair)}: write KEY=value`);
    }),
  );
}

function readMemory(text: string): number {
  // As docker and systemd-run write it: 256m, 1g.
  const unit = /^([\d.]+)\s*([mg])$/i.exec(text.trim());
  const read = readMib(
    unit === null ? text : `${unit[1] ?? ''}${unit[2]?.toLowerCase() === 'g' ? 'GiB' : 'MiB'}`,
  );
  if (read.ok && read.value > 0) return read.value;
  throw new CliError(
    EXIT.usage,
    `--memory ${JSON.stringify(text)}: ${read.ok ? 'it must be above 0' : read.why}`,
  );
}
