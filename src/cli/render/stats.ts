/** Owns the table of `stats`: what each running task uses, against its limits. Pure. */
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { pathOf, type PsRow } from './ps.js';
import { renderTable, type Cell, type Column } from './table.js';
import { truncate } from './text.js';
import { sparkline } from './sparkline.js';
import { formatAge, formatMemory, formatMemoryOf, formatPercent } from './units.js';

const COLUMNS: readonly Column[] = [
  { title: 'JOB/GROUP/TASK', shortest: 16, comfort: 24, cut: 'middle' },
  { title: 'ALLOC', spare: 3 },
  { title: 'CPU', align: 'right' },
  { title: 'MEM/LIMIT', align: 'right' },
  { title: 'MEM', align: 'right', drop: 3 },
  { title: 'PEAK', align: 'right', spare: 1 },
  { title: 'PROCS', align: 'right', drop: 2 },
  { title: 'THROTTLED', align: 'right', spare: 2 },
  { title: 'OOM KILLS', align: 'right', drop: 1 },
];

const PAST: Column = { title: 'CPU BEFORE', drop: 4 };
/** Of those that the daemon keeps. */
const DRAWN_SAMPLES = 20;
const NONE = '-';
/** From here on the kernel is busy taking pages back, and the next peak may kill. */
const MUCH_MEMORY_PERCENT = 90;

/** CPU percent of the last minutes by `<alloc id>/<task>`, oldest first. */
export type CpuHistory = ReadonlyMap<string, readonly (number | null)[]>;

/**
 * @param rows those without usage are left out
 * @param history drawn beside the figures; undefined = no such column
 */
export function renderStats(rows: readonly PsRow[], look: Look, history?: CpuHistory): string[] {
  const cells = rows.flatMap((row) => {
    if (row.usage === undefined) return [];
    const past = history?.get(`${row.alloc.ID}/${row.task ?? ''}`) ?? [];
    const drawn: Cell[] =
      history === undefined ? [] : [{ text: sparkline(past, DRAWN_SAMPLES), tone: 'dim' }];
    return [[...cellsOf(row, row.usage.Holdfast), ...drawn]];
  });
  if (cells.length === 0) return [truncate('nothing runs now', look.width)];
  return renderTable(history === undefined ? COLUMNS : [...COLUMNS, PAST], cells, look);
}

function cellsOf(row: PsRow, usage: NonNullable<PsRow['usage']>['Holdfast']): Cell[] {
  const { CPUPercent, MemoryBytes, MemoryLimitBytes, MemoryPeakBytes, Processes } = usage;
  const percent = MemoryLimitBytes === null ? undefined : (MemoryBytes / MemoryLimitBytes) * 100;
  const tone: Tone = percent !== undefined && percent >= MUCH_MEMORY_PERCENT ? 'warn' : 'plain';
  return [
    { text: pathOf(row) },
    { text: shortId(row.alloc.ID), tone: 'dim' },
    { text: CPUPercent === null ? NONE : formatPercent(CPUPercent) },
    { text: formatMemoryOf(MemoryBytes, MemoryLimitBytes), tone },
    { text: percent === undefined ? NONE : formatPercent(percent), tone },
    { text: MemoryPeakBytes === null ? NONE : formatMemory(MemoryPeakBytes) },
    { text: String(Processes) },
    throttledCell(usage.ThrottledMs),
    oomCell(usage.OOMKills),
  ];
}

function throttledCell(ms: number | null): Cell {
  if (ms === null) return { text: NONE };
  return ms === 0 ? { text: '0' } : { text: formatAge(ms), tone: 'warn' };
}

function oomCell(kills: number | null): Cell {
  if (kills === null) return { text: NONE };
  return { text: String(kills), tone: kills > 0 ? 'bad' : 'plain' };
}
