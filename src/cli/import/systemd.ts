/** Owns the reading of systemd's service units. */
import { basename } from 'node:path';
import {
  NEVER,
  Notes,
  safeName,
  sizeToMib,
  splitWords,
  type Imported,
  type ImportedTask,
  type RestartPlan,
} from './imported.js';
import { readIni } from './ini.js';

const KNOWN = new Set(
  'Type ExecStart ExecStartPre ExecStartPost ExecStopPost WorkingDirectory User Environment Restart RestartSec StartLimitIntervalSec StartLimitBurst StartLimitInterval KillSignal KillMode TimeoutStopSec TimeoutSec MemoryMax MemoryLimit CPUQuota TasksMax OOMScoreAdjust StandardOutput StandardError SyslogIdentifier RemainAfterExit'.split(
    ' ',
  ),
);
const EXEC = 'the driver exec shuts a task in: docs/jobspec.md#config';
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['EnvironmentFile', 'write its lines into env, or make them a template with env = true'],
  ['Group', 'a task has the groups of its user'],
  ['ExecStop', 'a task is asked to stop by its kill_signal, and may have a ladder of them (stop_signals)'],
  ['ExecReload', '"holdfast signal HUP" sends a signal'],
  ['WatchdogSec', 'a check in a service block with check_restart restarts what does not answer'],
  ['LimitNOFILE', 'ulimit { nofile = "…" } in the config of the task'],
  ['LimitCORE', 'ulimit { core = "…" } in the config of the task'],
  ['UMask', 'umask in the config of the task'],
  ['Nice', 'nice in the config of the task'],
  ['SuccessExitStatus', 'here only 0 is a good end'],
  ['RestartPreventExitStatus', 'a task is restarted after every failure'],
  ['PrivateTmp', EXEC],
  ['ProtectSystem', EXEC],
  ['ProtectHome', EXEC],
  ['NoNewPrivileges', EXEC],
  ['CapabilityBoundingSet', EXEC],
  ['AmbientCapabilities', EXEC],
]);
/** Keys of [Unit] and [Install] that say nothing about the process. */
const SILENT = new Set([
  'Description',
  'Documentation',
  'StartLimitIntervalSec',
  'StartLimitBurst',
  'WantedBy',
]);

export function importSystemd(text: string, file: string): Imported {
  const notes = new Notes();
  const sections = readIni(text, { continuesWithBackslash: true });
  const name = safeName(basename(file).replace(/\.service$/, ''))
    .replaceAll('@', '-')
    .replace(/-+$/, '');
  const of = (section: string): Map<string, string[]> => {
    const keys = new Map<string, string[]>();
    for (const { entries } of sections.filter((one) => one.name === section)) {
      // An empty value clears what was set before.
      for (const { key, value } of entries)
        keys.set(key, value === '' ? [] : [...(keys.get(key) ?? []), value]);
    }
    return keys;
  };
  const [service, unit] = [of('Service'), of('Unit')];
  const one = (key: string): string | undefined => (service.get(key) ?? unit.get(key))?.at(-1);
  notes.addUnknown('[Service]', service.keys(), KNOWN, ADVICE);
  for (const { name: section } of sections)
    if (!['Unit', 'Service', 'Install'].includes(section))
      notes.add(
        `[${section}]`,
        section === 'Timer'
          ? 'left out: what runs by the clock is a job with a periodic block'
          : 'left out: only [Service] becomes a task',
      );
  for (const section of ['Unit', 'Install']) notes.addUnknown(`[${section}]`, of(section).keys(), SILENT);
  if (/^(?:After|Requires|Wants|BindsTo)$/m.test([...unit.keys()].join('\n')))
    notes.add(
      '[Unit]',
      'nothing waits for other units here: let the program retry, or add a prestart task that waits',
    );
  const type = one('Type') ?? 'simple';
  if (type === 'forking')
    notes.add(
      'Type=forking',
      'run the program in the foreground: what ends here counts as ended, with all it started',
    );
  if (type === 'notify')
    notes.add('Type=notify', 'readiness is not waited for: a task counts as started when its program runs');
  if (type === 'dbus' || type === 'idle')
    notes.add(`Type=${type}`, 'nothing is waited for: a task counts as started when its program runs');
  if (/^(?:yes|true|on|1)$/i.test(one('RemainAfterExit') ?? ''))
    notes.add(
      'RemainAfterExit',
      'what has ended is over; a prestart task does what must be done before another',
    );
  for (const key of ['StandardOutput', 'StandardError']) {
    const to = one(key);
    if (to !== undefined && !/^(?:journal|inherit|syslog|kmsg)/.test(to))
      notes.add(key, `${to} is not carried over: what a task writes is kept, "holdfast logs" reads it`);
  }
  const around = commonOf(service, one, notes);
  const task = (command: string, own: Partial<ImportedTask>): ImportedTask[] => {
    const read = readCommand(command, around.env ?? {}, notes);
    return read === undefined ? [] : [{ name, ...around, ...read, ...own }];
  };
  const starts = service.get('ExecStart') ?? [];
  const main = type === 'oneshot' && starts.length > 1 ? starts.slice(-1) : starts.slice(0, 1);
  const before = [...(service.get('ExecStartPre') ?? []), ...(type === 'oneshot' ? starts.slice(0, -1) : [])];
  if (main.length === 0) {
    notes.add('[Service]', 'it has no ExecStart, so there is nothing to run');
    return { groups: [], notes: notes.all };
  }
  if (before.length > 1)
    notes.add(
      'ExecStartPre',
      'they run at the same time here: make one script of them if their order counts',
    );
  const hooks = (lines: readonly string[], hook: NonNullable<ImportedTask['hook']>): ImportedTask[] =>
    lines.flatMap((line, at) => task(line, { name: lines.length === 1 ? hook : `${hook}-${at + 1}`, hook }));
  const tasks = [
    ...hooks(before, 'prestart'),
    ...main.flatMap((line) => task(line, {})),
    ...hooks(service.get('ExecStartPost') ?? [], 'poststart'),
    ...hooks(service.get('ExecStopPost') ?? [], 'poststop'),
  ];
  return { groups: [{ name, count: 1, restart: restartOf(one, notes), tasks }], notes: notes.all };
}

function commonOf(
  service: ReadonlyMap<string, readonly string[]>,
  one: (key: string) => string | undefined,
  notes: Notes,
): Omit<ImportedTask, 'name' | 'command' | 'args'> {
  const env: Record<string, string> = {};
  for (const line of service.get('Environment') ?? []) {
    for (const pair of splitWords(line) ?? []) {
      const at = pair.indexOf('=');
      if (at > 0) env[pair.slice(0, at)] = pair.slice(at + 1);
    }
  }
  const directory = one('WorkingDirectory')?.replace(/^-/, '');
  if (directory !== undefined && !directory.startsWith('/'))
    notes.add('WorkingDirectory', `${directory} is no absolute path: left out`);
  const memory = one('MemoryMax') ?? one('MemoryLimit');
  const quota = /^(\d+)%$/.exec(one('CPUQuota') ?? '')?.[1];
  const most = one('TasksMax');
  const score = Number(one('OOMScoreAdjust') ?? NaN);
  const memoryMib = memory === undefined || memory === 'infinity' ? undefined : sizeToMib(memory);
  const timeout = one('TimeoutStopSec') ?? one('TimeoutSec');
  if (memory !== 'infinity') notes.addUnread('MemoryMax', '', memory, memoryMib);
  notes.addUnread('CPUQuota', '', one('CPUQuota'), quota);
  if (most !== 'infinity' && !/^\d+$/.test(most ?? '0')) notes.addUnread('TasksMax', '', most, undefined);
  if (score < 0)
    notes.add('OOMScoreAdjust', `${score} is not carried over: a task is never protected more than others`);
  notes.addUnread('TimeoutStopSec', '', timeout, timeOf(timeout));
  const mode = one('KillMode') ?? 'control-group';
  if (mode === 'process' || mode === 'none')
    notes.add('KillMode', `${mode}: processes that outlive the task are left alone (leftovers = "keep")`);
  const signal = one('KillSignal') ?? 'SIGTERM';
  return {
    env,
    user: one('User'),
    workDir: directory?.startsWith('/') === true ? directory : undefined,
    memoryMib,
    cpuPercent: quota === undefined ? undefined : Number(quota),
    pids: most !== undefined && /^\d+$/.test(most) ? Number(most) : undefined,
    oomScoreAdj: score >= 0 ? Math.min(1000, score) : undefined,
    killSignal: /^\d+$/.test(signal) || signal.startsWith('SIG') ? signal : `SIG${signal}`,
    killTimeoutMs: timeOf(timeout) ?? 90_000,
    keepLeftovers: mode === 'process' || mode === 'none',
  };
}

function restartOf(one: (key: string) => string | undefined, notes: Notes): RestartPlan {
  const asked = one('Restart') ?? 'no';
  if (asked === 'no') return NEVER;
  const interval = timeOf(one('StartLimitIntervalSec') ?? one('StartLimitInterval')) ?? 10_000;
  const burst = Number(one('StartLimitBurst') ?? 5);
  if (asked !== 'always' && asked !== 'on-failure')
    notes.add('Restart', `${asked}: here a task is restarted after every failure`);
  return {
    wish: asked === 'always' ? 'always' : 'on-failure',
    attempts: Number.isInteger(burst) && burst > 0 ? burst : 5,
    delayMs: timeOf(one('RestartSec')) ?? 100,
    // No limit at all is a window that is over at once.
    intervalMs: interval,
  };
}

/** A command line of systemd: its prefixes, quotes and variables; no shell reads it. */
function readCommand(
  line: string,
  env: Readonly<Record<string, string>>,
  notes: Notes,
): { readonly command: string; readonly args: readonly string[] } | undefined {
  const prefix = /^[-@:+!|]*/.exec(line)?.[0] ?? '';
  if (prefix.includes('-')) notes.add(line, 'a failure of it is not ignored here');
  if (prefix.includes('+') || prefix.includes('!'))
    notes.add(line, 'it runs as the user of the task, without more rights');
  const [command, ...args] = splitWords(line.slice(prefix.length).trim()) ?? [];
  if (command === undefined) {
    notes.add(line, 'this command cannot be read: left out');
    return undefined;
  }
  const fill = (word: string): string =>
    word
      .replaceAll('$$', '\0')
      .replace(/\$\{(\w+)\}|\$(\w+)/g, (all, braced?: string, bare?: string) => {
        const value = env[braced ?? bare ?? ''];
        if (value === undefined) notes.add(line, `${all} is not set by Environment=, and is not filled in`);
        return value ?? all;
      })
      .replaceAll('\0', () => '$')
      .replaceAll('%%', '%');
  if (/%[a-zA-Z]/.test(line)) notes.add(line, 'specifiers such as %i are not filled in: use variables');
  return { command, args: args.map(fill) };
}

/** `5`, `1min 30s`, `500ms`; `infinity` has none. */
function timeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000);
  const units: Readonly<Record<string, number>> = {
    ms: 1,
    s: 1000,
    sec: 1000,
    m: 60_000,
    min: 60_000,
    h: 3_600_000,
    hr: 3_600_000,
    d: 86_400_000,
  };
  let sum = 0;
  for (const [, amount = '', unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    const factor = units[unit.replace(/(?<=.{2})s$/, '')] ?? units[unit];
    if (factor === undefined) return undefined;
    sum += Number(amount) * factor;
  }
  return sum > 0 ? Math.round(sum) : undefined;
}
