/** Owns the table of `ps`: a row per task, failed ones first. Pure. */
import { rfc3339ToMs, nsToMs, type TaskResourceUsage } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Look } from '../output.js';
import { renderTable, type Cell, type Column } from './table.js';
import { compareTrouble, taskStatus, type TaskView } from './task-status.js';
import { plural, sanitize, truncate, wrap } from './text.js';
import { formatMemoryOf, formatPercent, formatRough, formatSince } from './units.js';

export interface PsRow extends TaskView {
  readonly usage: TaskResourceUsage | undefined;
}

export interface PsData {
  readonly rows: readonly PsRow[];
  /** Allocs that are over and were left out. */
  readonly hiddenAllocs: number;
  /** What of the host itself must be known to understand the table. */
  readonly notice?: string | undefined;
}

/** The reason in STATUS is worth more than ids and figures: 42 columns hold a backoff with its count and last exit. */
const COLUMNS: readonly Column[] = [
  { title: 'JOB/GROUP/TASK', shortest: 16, comfort: 24, cut: 'middle' },
  { title: 'ALLOC', spare: 1 },
  { title: 'STATUS', shortest: 20, comfort: 42 },
  { title: 'RESTARTS', align: 'right' },
  { title: 'AGE', align: 'right', drop: 1 },
  { title: 'PID', align: 'right', spare: 4 },
  { title: 'CPU', align: 'right', spare: 3 },
  { title: 'MEM/LIMIT', align: 'right', spare: 2 },
];

/** One long reason must not push the other columns away where nothing else bounds the width; `status` has it all. */
const MOST_STATUS = 100;

const NONE = '-';

/** The lines of the table, and what it left out. */
export function renderPs({ rows, hiddenAllocs, notice }: PsData, look: Look): string[] {
  const shown = rows
    .map((row) => ({ row, status: taskStatus(row, look.nowMs) }))
    .sort((a, b) => compareTrouble(a.status.trouble, b.status.trouble));
  const hidden = `${plural(hiddenAllocs, 'alloc')} that ended or stopped not shown: holdfast ps -a`;
  const footer = [
    ...(hiddenAllocs === 0 ? [] : [look.paint('dim', truncate(hidden, look.width))]),
    ...(notice === undefined ? [] : wrap(`this host ${notice}`, look.width)).map((line) =>
      look.paint('warn', line),
    ),
  ];
  if (shown.length === 0) {
    const nothing =
      hiddenAllocs === 0 && notice === undefined
        ? 'nothing runs here: holdfast run FILE starts a job'
        : 'nothing runs now';
    return [truncate(nothing, look.width), ...footer];
  }
  const cells = shown.map(({ row, status }): Cell[] => [
    { text: pathOf(row) },
    { text: shortId(row.alloc.ID), tone: 'dim' },
    { text: truncate(sanitize(status.text), MOST_STATUS), tone: status.tone },
    { text: restartsOf(row, look.nowMs) },
    { text: formatSince(look.nowMs - nsToMs(row.alloc.CreateTime)) },
    { text: String(row.state?.Holdfast.Pid ?? NONE) },
    { text: cpuOf(row.usage) },
    { text: memoryOf(row.usage) },
  ]);
  return [...renderTable(COLUMNS, cells, look), ...footer];
}

/** `job/group/task`, as a TARGET. */
export function pathOf({ alloc, task }: TaskView): string {
  return [alloc.JobID, alloc.TaskGroup, ...(task === undefined ? [] : [task])].join('/');
}

/** `2 (3d ago)`. */
function restartsOf({ state }: TaskView, nowMs: number): string {
  if (state === undefined || state.Restarts === 0) return '0';
  const last = rfc3339ToMs(state.LastRestart);
  return last === undefined ? String(state.Restarts) : `${state.Restarts} (${formatRough(nowMs - last)} ago)`;
}

function cpuOf(usage: TaskResourceUsage | undefined): string {
  const percent = usage?.Holdfast.CPUPercent ?? undefined;
  return percent === undefined ? NONE : formatPercent(percent);
}

function memoryOf(usage: TaskResourceUsage | undefined): string {
  return usage === undefined
    ? NONE
    : formatMemoryOf(usage.Holdfast.MemoryBytes, usage.Holdfast.MemoryLimitBytes);
}
