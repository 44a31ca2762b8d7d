/** Owns the table of `stats`: what each running task uses, against its limits. Pure. */
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { pathOf, type PsRow } from './ps.js';
import { renderTable, type Cell, type Column } from './table.js';
import { truncate } from './text.js';
import { formatAge, formatMemory, formatMemoryOf, formatPercent } from './units.js';

const COLUMNS: readonly Column[] = [
  { title: 'JOB/GROUP/TASK', shortest: 16, comfort: 24 },
  { title: 'ALLOC', spare: 3 },
  { title: 'CPU', align: 'right' },
  { title: 'MEM/LIMIT', align: 'right' },
  { title: 'MEM', align: 'right', drop: 3 },
  { title: 'PEAK', align: 'right', spare: 1 },
  { title: 'PROCS', align: 'right', drop: 2 },
  { title: 'THROTTLED', align: 'right', spare: 2 },
  { title: 'OOM KILLS', align: 'right', drop: 1 },
];

const NONE = '-';
/** From here on the kernel is busy taking pages back, and the next peak may kill. */
const MUCH_MEMORY_PERCENT = 90;

/** @param rows those without usage are left out */
export function renderStats(rows: readonly PsRow[], look: Look): string[] {
  const cells = rows.flatMap((row) => (row.usage === undefined ? [] : [cellsOf(row, row.usage.Holdfast)]));
  if (cells.length === 0) return [truncate('nothing runs now', look.width)];
  return renderTable(COLUMNS, cells, look);
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
