/** Owns the reading of PM2's ecosystem files (JSON, YAML) and of what `pm2 jlist` prints. */
import { existsSync } from 'node:fs';
import { basename, dirname, extname, isAbsolute, resolve } from 'node:path';
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
  'name script args cwd instances exec_mode env interpreter exec_interpreter interpreter_args node_args autorestart max_restarts min_uptime restart_delay exp_backoff_restart_delay max_memory_restart kill_timeout user uid version treekill'.split(
    ' ',
  ),
);
const OWN_LOGS = 'what a task writes is kept per alloc, and rotated: "holdfast logs" reads it';
const READY =
  'a task counts as started when its program runs; a check in a service block asks whether it is ready';
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['stop_exit_codes', 'here only 0 is a good end'],
  ['namespace', 'a job is what belongs together: its name is a TARGET'],
  ['out_file', OWN_LOGS],
  ['output', OWN_LOGS],
  ['error_file', OWN_LOGS],
  ['error', OWN_LOGS],
  ['log_file', OWN_LOGS],
  ['wait_ready', READY],
  ['listen_timeout', READY],
  ['shutdown_with_message', 'a task is asked to stop by its kill_signal'],
  ['env_file', 'write its lines into env'],
]);

/** PM2's own defaults. */
const MAX_RESTARTS = 16;
const MIN_UPTIME_MS = 1000;
const KILL_TIMEOUT_MS = 1600;

const INTERPRETERS: Readonly<Record<string, string>> = {
  '.js': 'node',
  '.cjs': 'node',
  '.mjs': 'node',
  '.py': 'python3',
  '.rb': 'ruby',
  '.sh': 'bash',
  '.php': 'php',
  '.pl': 'perl',
};

export function importPm2(text: string, file: string): Imported {
  const notes = new Notes();
  const data: unknown = parse(text);
  const list = isMap(data) ? (data['apps'] ?? data) : data;
  const apps = (Array.isArray(list) ? list : [list]).filter(isMap);
  return { groups: apps.flatMap((app) => readApp(flattened(app), file, notes)), notes: notes.all };
}

/** `pm2 jlist` has what was configured in `pm2_env`, under other names. */
function flattened(app: PlainMap): PlainMap {
  const env = app['pm2_env'];
  if (!isMap(env)) return app;
  const { name, pm_exec_path, pm_cwd, exec_interpreter, args, instances, autorestart, exec_mode } = env;
  const isFork = exec_mode !== 'cluster_mode';
  return {
    name: name ?? app['name'],
    script: pm_exec_path,
    cwd: pm_cwd,
    args,
    interpreter: exec_interpreter,
    autorestart,
    ...(isFork ? {} : { exec_mode: 'cluster', instances }),
    ...(env['max_memory_restart'] === undefined ? {} : { max_memory_restart: env['max_memory_restart'] }),
    ...(env['kill_timeout'] === undefined ? {} : { kill_timeout: env['kill_timeout'] }),
  };
}

function readApp(app: PlainMap, file: string, notes: Notes): ImportedGroup[] {
  const script = textOf(app['script']);
  const name = safeName(textOf(app['name']) ?? basename(script ?? 'app', extname(script ?? '')));
  if (script === undefined) {
    notes.add(name, 'it has no script, so there is nothing to run: left out');
    return [];
  }
  const cwd = resolve(dirname(file), textOf(app['cwd']) ?? '.');
  const isFile =
    isAbsolute(script) || INTERPRETERS[extname(script)] !== undefined || existsSync(resolve(cwd, script));
  const path = isFile ? resolve(cwd, script) : script;
  const asked = textOf(app['interpreter']) ?? textOf(app['exec_interpreter']);
  const interpreter = asked === 'none' ? undefined : (asked ?? INTERPRETERS[extname(script)]);
  const before = [...wordsOf(app['node_args']), ...wordsOf(app['interpreter_args'])];
  const args = wordsOf(app['args']);
  const [command, words] =
    interpreter === undefined ? [path, args] : [interpreter, [...before, path, ...args]];
  tellAbout(app, name, notes);
  const user = textOf(app['user'] ?? app['uid']);
  const memory = textOf(app['max_memory_restart']);
  const memoryMib = memory === undefined ? undefined : sizeToMib(memory);
  notes.addUnread(name, 'max_memory_restart', memory, memoryMib);
  if (memoryMib !== undefined)
    notes.add(
      name,
      `max_memory_restart ${memory ?? ''} became a hard limit: the kernel kills what grows beyond it, and it is restarted by its policy`,
    );
  return [
    {
      name,
      count: countOf(app['instances'], name, notes),
      restart: restartOf(app),
      tasks: [
        {
          name,
          command,
          args: words,
          workDir: cwd,
          env: textMapOf(app['env']),
          user,
          memoryMib,
          keepLeftovers: app['treekill'] === false,
          killTimeoutMs: numberOf(app['kill_timeout']) ?? KILL_TIMEOUT_MS,
        },
      ],
    },
  ];
}

function restartOf(app: PlainMap): RestartPlan {
  if (app['autorestart'] === false) return NEVER;
  const backoff = numberOf(app['exp_backoff_restart_delay']);
  // PM2 counts only restarts of runs that were shorter than min_uptime.
  return {
    ...FOREVER,
    attempts: numberOf(app['max_restarts']) ?? MAX_RESTARTS,
    delayMs: backoff ?? numberOf(app['restart_delay']) ?? 100,
    resetAfterMs: durationOf(app['min_uptime']) ?? MIN_UPTIME_MS,
    intervalMs: 3_600_000,
    ...(backoff === undefined ? {} : { factor: 1.5, maxDelayMs: 15_000 }),
  };
}

function countOf(instances: unknown, name: string, notes: Notes): number {
  if (instances === undefined) return 1;
  const count = Number(instances);
  if (Number.isInteger(count) && count > 0) return count;
  notes.add(
    name,
    `instances ${JSON.stringify(instances)} means as many as there are cores: write the count yourself, it is 1 now`,
  );
  return 1;
}

function tellAbout(app: PlainMap, name: string, notes: Notes): void {
  if (/cluster/.test(textOf(app['exec_mode']) ?? ''))
    notes.add(
      name,
      'cluster mode shares one port among its instances; here each one is a process of its own and needs a port of its own',
    );
  if (app['watch'] !== undefined && app['watch'] !== false)
    notes.add(name, 'watch is not carried over: a change of files restarts nothing');
  if (app['cron_restart'] !== undefined)
    notes.add(
      name,
      `cron_restart ${JSON.stringify(app['cron_restart'])} is not carried over: a periodic job does its work by the clock, "holdfast restart" restarts`,
    );
  const profiles = Object.keys(app).filter((key) => key.startsWith('env_') && key !== 'env_file');
  if (profiles.length > 0)
    notes.add(name, `${profiles.join(', ')}: a job file has one env; use variables (--var) for what differs`);
  const told = new Set([...KNOWN, 'watch', 'cron_restart', ...profiles]);
  notes.addUnknown(name, Object.keys(app), told, ADVICE);
}

function wordsOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return splitWords(value) ?? [value];
  return textsOf(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== ''
    ? value
    : typeof value === 'number'
      ? String(value)
      : undefined;
}

function numberOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0
    ? Math.round(number)
    : undefined;
}

/** `5000`, `"5s"`, `"1h"`. */
function durationOf(value: unknown): number | undefined {
  const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };
  const found = typeof value === 'string' ? /^(\d+)([smh])$/.exec(value) : null;
  return found === null ? numberOf(value) : Number(found[1]) * (units[found[2] ?? ''] ?? 1);
}
