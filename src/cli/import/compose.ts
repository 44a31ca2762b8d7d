/** Owns the reading of compose files. The image is what cannot come along: a program of this host is run. */
import { dirname, resolve } from 'node:path';
import { parse } from 'yaml';
import {
  FOREVER,
  NEVER,
  Notes,
  safeName,
  sizeToMib,
  splitWords,
  type Imported,
  type ImportedGroup,
  type RestartPlan,
} from './imported.js';
import { isMap, textMapOf, textsOf, type PlainMap } from './plain.js';

const KNOWN = new Set(
  'image build command entrypoint environment working_dir user restart stop_signal stop_grace_period mem_limit cpus pids_limit deploy scale init'.split(
    ' ',
  ),
);
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['container_name', 'a task is named by job/group/task'],
  ['depends_on', 'groups start at once; a prestart task of the same group is waited for'],
  ['devices', 'a task of raw_exec sees those of the host'],
  ['env_file', 'write its lines into env, or make them a template with env = true'],
  ['healthcheck', 'a check in a service block does it, with check_restart to restart'],
  ['labels', 'meta holds what is said about a task'],
  ['logging', 'what a task writes is kept and rotated: the logs block says how much of it'],
  ['networks', 'tasks are on the network of the host'],
  ['ports', 'nothing is mapped: the program listens on the host itself. A network block can choose the port'],
  ['privileged', 'the user and its capabilities say what a task may do'],
  ['secrets', 'a template can write into the secrets directory of the task'],
  ['stdin_open', 'nobody types to a task; "holdfast exec -i" runs a command in it'],
  ['tty', 'tty = true in the config of the task gives it a terminal'],
  ['ulimits', 'ulimit in the config of the task'],
  ['volumes', 'a task of raw_exec sees the files of the host where they are'],
]);

export function importCompose(text: string, file: string): Imported {
  const notes = new Notes();
  const data: unknown = parse(text, { merge: true });
  const services = isMap(data) && isMap(data['services']) ? data['services'] : {};
  for (const key of isMap(data) ? Object.keys(data) : []) {
    if (!['services', 'version', 'name'].includes(key) && !key.startsWith('x-'))
      notes.add(key, 'left out: only services become tasks');
  }
  const groups = Object.entries(services).flatMap(([name, service]) =>
    isMap(service) ? readService(safeName(name), service, file, notes) : [],
  );
  return { groups, notes: notes.all };
}

function readService(name: string, service: PlainMap, file: string, notes: Notes): ImportedGroup[] {
  const words = [...wordsOf(service['entrypoint']), ...wordsOf(service['command'])];
  const [command, ...args] = words.map((word) => word.replaceAll('$$', () => '$'));
  if (command === undefined) {
    notes.add(name, 'it has no command: what runs is written in its image, and is not known here. Left out');
    return [];
  }
  if (service['image'] !== undefined || service['build'] !== undefined)
    notes.add(name, 'its image is not used: the program of this host is run, with the files of this host');
  const deploy = isMap(service['deploy']) ? service['deploy'] : {};
  const limits =
    isMap(deploy['resources']) && isMap(deploy['resources']['limits']) ? deploy['resources']['limits'] : {};
  notes.addUnknown(name, Object.keys(service), KNOWN, ADVICE);
  notes.addUnknown(`${name} deploy`, Object.keys(deploy), new Set(['replicas', 'resources']));
  const resources = isMap(deploy['resources']) ? deploy['resources'] : {};
  notes.addUnknown(`${name} deploy.resources`, Object.keys(resources), new Set(['limits']));
  notes.addUnknown(
    `${name} deploy.resources.limits`,
    Object.keys(limits),
    new Set(['cpus', 'memory', 'pids']),
  );
  if (words.some((word) => /\$\{?\w/.test(word.replaceAll('$$', ''))))
    notes.add(name, '${…} of compose is not filled in: use variables');
  const cpus = Number(service['cpus'] ?? limits['cpus'] ?? NaN);
  const memory = textOf(service['mem_limit'] ?? limits['memory']);
  const directory = textOf(service['working_dir']);
  const env = Array.isArray(service['environment'])
    ? pairsOf(textsOf(service['environment']))
    : textMapOf(service['environment']);
  const pids = Number(service['pids_limit'] ?? limits['pids'] ?? NaN);
  const user = textOf(service['user'])?.split(':')[0];
  const memoryMib = memory === undefined ? undefined : sizeToMib(memory);
  const grace = textOf(service['stop_grace_period']);
  notes.addUnread(name, 'mem_limit', memory, memoryMib);
  notes.addUnread(name, 'stop_grace_period', grace, graceOf(grace));
  const group = textOf(service['user'])?.split(':')[1];
  if (group !== undefined)
    notes.add(name, `the group ${group} is not carried over: a task has the groups of its user`);
  const inherited = Array.isArray(service['environment'])
    ? textsOf(service['environment']).filter((pair) => !pair.includes('='))
    : Object.entries(isMap(service['environment']) ? service['environment'] : {}).flatMap(([key, value]) =>
        value === null ? [key] : [],
      );
  if (inherited.length > 0)
    notes.add(
      name,
      `${inherited.join(', ')} came from the environment of compose, and is empty: write its value`,
    );
  if (directory !== undefined)
    notes.add(name, `working_dir ${directory} was a directory of the image: see that it is there`);
  return [
    {
      name,
      count: Math.max(1, Number(deploy['replicas'] ?? service['scale'] ?? 1) || 1),
      restart: restartOf(textOf(service['restart'])),
      tasks: [
        {
          name,
          command,
          args,
          workDir: directory === undefined ? undefined : resolve(dirname(file), directory),
          env,
          user,
          memoryMib,
          cpuPercent: cpus > 0 ? Math.max(1, Math.round(cpus * 100)) : undefined,
          pids: pids > 0 ? pids : undefined,
          killSignal: textOf(service['stop_signal']) ?? 'SIGTERM',
          killTimeoutMs: graceOf(grace) ?? 10_000,
        },
      ],
    },
  ];
}

function restartOf(asked = 'no'): RestartPlan {
  if (asked === 'no' || asked === 'false') return NEVER;
  const most = /^on-failure(?::(\d+))?$/.exec(asked);
  return most === null ? FOREVER : { ...FOREVER, wish: 'on-failure', attempts: Number(most[1] ?? 10) };
}

function wordsOf(value: unknown): readonly string[] {
  return typeof value === 'string' ? (splitWords(value) ?? []) : textsOf(value);
}

function pairsOf(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      return at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}

/** `1m30s`. */
function graceOf(text: string | undefined): number | undefined {
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  const parts = [...(text ?? '').matchAll(/(\d+)(ms|s|m|h)/g)];
  return parts.length === 0
    ? undefined
    : parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (units[unit ?? ''] ?? 0), 0);
}
