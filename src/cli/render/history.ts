/** Owns the table of `history`: a line per attempt to run a task. Pure. */
import { nsToMs, rfc3339ToMs, type Run } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { renderTable, type Cell, type Column } from './table.js';
import { plural, sanitize, wrap } from './text.js';
import { formatAge, formatDateTime, formatMemory } from './units.js';

const COLUMNS: readonly Column[] = [
  { title: 'ALLOC', spare: 2 },
  { title: 'TASK', shortest: 8 },
  { title: '#', align: 'right' },
  { title: 'WHEN', drop: 1 },
  { title: 'RAN FOR', align: 'right' },
  { title: 'EXIT', shortest: 8, comfort: 15 },
  { title: 'PEAK MEM', align: 'right', spare: 1 },
  { title: 'REASON', shortest: 12, comfort: 20 },
];

const NONE = '-';
const CUT = '…';
const INDENT = '    ';

/** One line per attempt, in the order given. Where reasons have no room in the table, each stands below its attempt. */
export function renderHistory(runs: readonly Run[], look: Look): string[] {
  const table = renderTable(
    COLUMNS,
    runs.map((run) => cellsOf(run, look)),
    look,
  );
  if (!table.some((line) => line.includes(CUT))) return table;
  const [header = '', ...lines] = renderTable(
    COLUMNS.slice(0, -1),
    runs.map((run) => cellsOf(run, look).slice(0, -1)),
    look,
  );
  return [header, ...lines.flatMap((line, at) => [line, ...reasonBelow(runs[at], look)])];
}

function reasonBelow(run: Run | undefined, look: Look): string[] {
  const reason = run === undefined ? '' : sanitize(reasonOf(run));
  if (reason === '') return [];
  return wrap(reason, look.width - INDENT.length).map((line) => look.paint('dim', INDENT + line));
}

function cellsOf(run: Run, look: Look): Cell[] {
  const startedMs = run.StartedAt === null ? undefined : rfc3339ToMs(run.StartedAt);
  const peakBytes = run.Usage?.PeakMemoryBytes ?? undefined;
  // Of an attempt that came to nothing, when it was made.
  const whenMs = startedMs ?? rfc3339ToMs(run.IntendedAt);
  return [
    { text: shortId(run.AllocID), tone: 'dim' },
    { text: run.Task },
    { text: String(run.Attempt) },
    { text: whenMs === undefined ? NONE : formatDateTime(whenMs) },
    { text: ranFor(run, startedMs, look.nowMs) },
    exitCell(run),
    { text: peakBytes === undefined ? NONE : formatMemory(peakBytes) },
    { text: reasonOf(run), tone: 'dim' },
  ];
}

function ranFor(run: Run, startedMs: number | undefined, nowMs: number): string {
  if (run.RanFor !== null) return formatAge(nsToMs(run.RanFor));
  return run.Outcome === 'open' && startedMs !== undefined ? `${formatAge(nowMs - startedMs)} so far` : NONE;
}

/** A signal is named, a code has `exit` before it: SIGKILL and `exit 137` are two different things. */
function exitCell(run: Run): { text: string; tone: Tone } {
  switch (run.Outcome) {
    case 'open':
      return run.StartedAt === null ? { text: 'starting', tone: 'warn' } : { text: 'running', tone: 'good' };
    case 'start_failed':
      return { text: 'could not start', tone: 'bad' };
    case 'never_started':
      return { text: 'never started', tone: 'warn' };
    case 'ended':
      break;
  }
  switch (run.Exit?.Kind) {
    case 'exited':
      return { text: `exit ${run.Exit.Code ?? '?'}`, tone: run.Exit.Code === 0 ? 'plain' : 'bad' };
    case 'signaled':
      return { text: run.Exit.SignalName, tone: 'bad' };
    case 'unknown':
    case undefined:
      return { text: 'unknown', tone: 'bad' };
  }
}

/** An older agent does not say. */
function limitHits({ MemoryLimitHits: hits }: Partial<Run>): string {
  return (hits ?? 0) > 0 ? `memory limit hit ${plural(hits ?? 0, 'time')}` : '';
}

function reasonOf(run: Run): string {
  const exit = run.Exit;
  return [
    run.Error,
    exit?.OOMKilled === true ? 'OOM killed' : '',
    limitHits(run),
    exit?.CoreDumped === true ? 'core dumped' : '',
    exit?.Kind === 'unknown' ? exit.Text : '',
    run.LeftoversKilled > 0 ? `${plural(run.LeftoversKilled, 'leftover')} killed` : '',
    run.LogComplete === false ? 'end of log may be missing' : '',
  ]
    .filter((part) => part !== '')
    .join('; ');
}
