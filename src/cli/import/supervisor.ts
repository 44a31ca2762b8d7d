/** Owns the reading of supervisord's configuration: `[program:x]` sections become groups. */
import { dirname, resolve } from 'node:path';
import {
  commandOf,
  NEVER,
  Notes,
  safeName,
  sizeToMib,
  splitWords,
  type Imported,
  type ImportedGroup,
  type RestartPlan,
} from './imported.js';
import { readIni, type IniSection } from './ini.js';

const KNOWN = new Set(
  'command process_name numprocs directory user environment autostart autorestart startsecs startretries exitcodes stopsignal stopwaitsecs stopasgroup killasgroup redirect_stderr stdout_logfile stdout_logfile_maxbytes stdout_logfile_backups stderr_logfile stderr_logfile_maxbytes stderr_logfile_backups priority'.split(
    ' ',
  ),
);
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['umask', 'write it into the config of the task'],
  ['serverurl', 'there is no XML-RPC; docs/api.md has the HTTP API'],
  ['stdout_capture_maxbytes', 'there is no capture mode'],
  ['stdout_syslog', 'what a task writes goes to its log files'],
  ['stderr_syslog', 'what a task writes goes to its log files'],
]);
/** Keys of [supervisord] that change what its programs get. */
const INHERITED: ReadonlyMap<string, string> = new Map([
  ['environment', 'write it into the env of each task'],
  ['umask', 'write it into the config of each task'],
  ['minfds', 'ulimit { nofile = "…" } in the config of a task'],
  ['user', 'it is the user of the programs that name none: write it into their tasks'],
  ['directory', 'a task runs in its own directory unless its config has a work_dir'],
]);
/** Sections about supervisord itself. */
const ITS_OWN = /^(?:supervisorctl|unix_http_server|inet_http_server|rpcinterface:.*)$/;
const SECOND_MS = 1000;

export function importSupervisor(text: string, file: string): Imported {
  const notes = new Notes();
  const groups: ImportedGroup[] = [];
  for (const section of readIni(text, { continuesWithBackslash: false })) {
    const program = /^program:(.+)$/.exec(section.name)?.[1];
    if (program !== undefined) groups.push(...readProgram(program.trim(), section, file, notes));
    else if (section.name === 'supervisord') {
      const inherited = section.entries.map(({ key }) => key).filter((key) => INHERITED.has(key));
      notes.addUnknown('[supervisord]', inherited, new Set(), INHERITED);
    } else if (section.name === 'include')
      notes.add('[include]', 'other files are not read: import each of them');
    else if (!ITS_OWN.test(section.name))
      notes.add(`[${section.name}]`, 'left out: only programs become tasks');
  }
  return { groups, notes: notes.all };
}

function readProgram(program: string, section: IniSection, file: string, notes: Notes): ImportedGroup[] {
  const keys = new Map(section.entries.map(({ key, value }) => [key, value]));
  const name = safeName(program);
  const expand = (text: string): string =>
    text
      .replaceAll('%(program_name)s', program)
      .replaceAll('%(here)s', resolve(dirname(file)))
      .replaceAll('%%', '%');
  const line = keys.get('command');
  if (line === undefined || line === '') {
    notes.add(name, 'it has no command, so there is nothing to run: left out');
    return [];
  }
  const used = [...keys.values()].flatMap((value) => value.match(/%\((?!program_name|here)\w+\)\w*/g) ?? []);
  if (used.length > 0)
    notes.add(
      name,
      `${[...new Set(used)].join(', ')} is not filled in: use $NOMAD_ALLOC_INDEX in a shell, or variables`,
    );
  const priority = keys.get('priority');
  if (priority !== undefined)
    notes.add(name, `priority ${priority} is not carried over: groups start at once`);
  if (keys.get('autostart') === 'false') notes.add(name, 'autostart=false: the job starts when it is run');
  if (keys.has('stdout_logfile') || keys.has('stderr_logfile'))
    notes.add(name, 'log files are kept per alloc: read them with "holdfast logs"');
  if (isYes(keys.get('redirect_stderr')))
    notes.add(
      name,
      'redirect_stderr: stderr stays a stream of its own ("holdfast logs --stderr"); 2>&1 in a shell joins them',
    );
  for (const key of ['stopasgroup', 'killasgroup']) {
    const value = keys.get(key);
    if (value !== undefined && !isYes(value))
      notes.add(name, `${key}=${value}: here nothing outlives its task, unless leftovers = "keep"`);
  }
  if (keys.has('stderr_logfile_maxbytes') || keys.has('stderr_logfile_backups'))
    notes.add(name, 'the size and number of log files are the same for stdout and stderr');
  notes.addUnknown(name, keys.keys(), KNOWN, ADVICE);
  const directory = keys.get('directory');
  const size = sizeToMib(keys.get('stdout_logfile_maxbytes') ?? '');
  const backups = Number(keys.get('stdout_logfile_backups') ?? NaN);
  const stopSignal = keys.get('stopsignal') ?? 'TERM';
  return [
    {
      name,
      count: Math.max(1, Number(keys.get('numprocs') ?? 1) || 1),
      restart: restartOf(keys, name, notes),
      tasks: [
        {
          name,
          ...programOf(expand(line)),
          workDir: directory === undefined ? undefined : resolve(dirname(file), expand(directory)),
          env: readEnvironment(expand(keys.get('environment') ?? '')),
          user: keys.get('user'),
          killSignal: stopSignal.startsWith('SIG') ? stopSignal : `SIG${stopSignal}`,
          killTimeoutMs: secondsOf(keys.get('stopwaitsecs'), 10) * SECOND_MS,
          logs:
            size === undefined && Number.isNaN(backups)
              ? undefined
              : { maxFiles: Number.isNaN(backups) ? 10 : backups + 1, maxFileMib: size ?? 50 },
        },
      ],
    },
  ];
}

function isYes(value: string | undefined): boolean {
  return /^(?:true|yes|on|1)$/i.test(value ?? '');
}

/** supervisord asks no shell either. */
function programOf(line: string): { readonly command: string; readonly args: readonly string[] } {
  const [command, ...args] = splitWords(line) ?? [];
  return command === undefined ? commandOf(line) : { command, args };
}

function restartOf(keys: ReadonlyMap<string, string>, name: string, notes: Notes): RestartPlan {
  const asked = keys.get('autorestart') ?? 'unexpected';
  if (/^(?:false|no|off|0)$/i.test(asked)) return NEVER;
  const codes = keys.get('exitcodes') ?? '0';
  if (asked === 'unexpected' && codes !== '0')
    notes.add(name, `exitcodes=${codes}: here only 0 counts as a good end`);
  return {
    wish: asked === 'unexpected' ? 'on-failure' : 'always',
    attempts: secondsOf(keys.get('startretries'), 3),
    delayMs: SECOND_MS,
    intervalMs: 600_000,
    resetAfterMs: Math.max(SECOND_MS, secondsOf(keys.get('startsecs'), 1) * SECOND_MS),
  };
}

function secondsOf(text: string | undefined, fallback: number): number {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : fallback;
}

/** `A="b",C=d`. */
function readEnvironment(text: string): Readonly<Record<string, string>> {
  const pairs = text.matchAll(/([A-Za-z_]\w*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^,\n]*))/g);
  return Object.fromEntries(
    [...pairs].map(([, key = '', double, single, bare]) => [
      key,
      double?.replace(/\\(.)/g, '$1') ?? single ?? (bare ?? '').trim(),
    ]),
  );
}
