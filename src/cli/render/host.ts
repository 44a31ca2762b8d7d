/** Owns the sheet of `status` about the host: is all well, and if not, what is not. Pure. */
import { nsToMs, rfc3339ToMs, type Node } from '../../api/wire.js';
import type { Look, Tone } from '../output.js';
import { describeScheduling } from './drain.js';
import type { PsRow } from './ps.js';
import { field, verdictLine, whyLines, wrapped } from './status.js';
import { renderTable, type Cell, type Column } from './table.js';
import { plural } from './text.js';
import { formatSince } from './units.js';
import { decideVerdict, listTroubles, type Verdict } from './verdict.js';

export interface HostData {
  readonly node: Pick<
    Node,
    'Name' | 'Version' | 'Attributes' | 'Holdfast' | 'Drain' | 'SchedulingEligibility' | 'DrainStrategy'
  >;
  readonly jobs: readonly {
    readonly ID: string;
    readonly Type: string;
    readonly Stop: boolean;
    readonly Periodic?: boolean;
    readonly ParameterizedJob?: boolean;
    readonly Status: string;
    readonly SubmitTime: number;
  }[];
  /** Tasks of the current allocs. */
  readonly rows: readonly PsRow[];
}

const JOB_COLUMNS: readonly Column[] = [
  { title: 'JOB', shortest: 12, cut: 'middle' },
  { title: 'TYPE', drop: 3 },
  { title: 'STATUS', shortest: 12 },
  { title: 'TASKS', shortest: 12, drop: 2 },
  { title: 'SUBMITTED', align: 'right', drop: 1 },
];

const NO_LIMITS =
  'memory, CPU and pids are not limited: this daemon has no cgroups (run it as root, or delegate it some)';
const WORST_FIRST: readonly Tone[] = ['bad', 'warn', 'good', 'dim'];

/** The sheet about this host: is all well, and if not, what is not. */
export function renderHost({ node, jobs, rows }: HostData, look: Look): string[] {
  const warnings = node.Holdfast.Warnings;
  const verdict = decideVerdict(rows, look.nowMs);
  const scheduling = describeScheduling(node, look.nowMs);
  const isWell = warnings.length === 0 && (verdict.tone === 'good' || verdict.tone === 'dim');
  const head: Verdict = isWell
    ? { word: 'all well', tone: 'good', detail: verdict.detail }
    : { word: 'needs attention', tone: warnings.length > 0 ? 'bad' : verdict.tone, detail: verdict.detail };
  const startedMs = rfc3339ToMs(node.Holdfast.StartedAt);
  const up = startedMs === undefined ? '' : `, up ${formatSince(look.nowMs - startedMs)}`;
  const troubles = listTroubles(rows, look.nowMs);
  const cells = jobs.map((job) => {
    const own = decideVerdict(
      rows.filter(({ alloc }) => alloc.JobID === job.ID),
      look.nowMs,
    );
    const word = wordOf(job, own);
    const age = `${formatSince(look.nowMs - nsToMs(job.SubmitTime))} ago`;
    const tasks = own.detail === plural(0, 'task') ? '-' : own.detail;
    const row = [{ text: job.ID }, { text: job.Type }, word, { text: tasks }, { text: age }];
    return { row, rank: WORST_FIRST.indexOf(word.tone) };
  });
  return [
    verdictLine(node.Name, head, look),
    ...warnings.flatMap((text) => wrapped('Warning', text, look, 'bad')),
    ...(scheduling === undefined ? [] : wrapped('Scheduling', `this host ${scheduling}`, look, 'warn')),
    ...whyLines(troubles, look),
    field('Daemon', `holdfast ${node.Version}${up}, data in ${node.Holdfast.DataDir}`, look),
    ...(node.Attributes['driver.raw_exec.cgroups'] === 'none' ? [field('Limits', NO_LIMITS, look)] : []),
    ...(cells.length === 0
      ? []
      : [
          '',
          ...renderTable(
            JOB_COLUMNS,
            cells.sort((a, b) => a.rank - b.rank).map(({ row }) => row),
            look,
          ),
        ]),
  ];
}

/** Of a job that runs nothing itself, what it waits for. */
function wordOf(job: HostData['jobs'][number], own: Verdict): Cell & { readonly tone: Tone } {
  if (job.Stop) return { text: 'stopped', tone: 'dim' };
  if (job.Periodic === true) return { text: 'waits for the clock', tone: 'dim' };
  if (job.ParameterizedJob === true) return { text: 'waits for dispatch', tone: 'dim' };
  return { text: own.word, tone: own.tone };
}
