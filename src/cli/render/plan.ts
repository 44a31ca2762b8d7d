/** Owns how `holdfast plan` shows what a job file would do: what differs, what becomes of each task, what to type next. Pure. */
import type {
  FieldDiff,
  JobDiff,
  ObjectDiff,
  PlannedAction,
  PlannedPlace,
  PlanResponse,
  TaskGroupDiff,
} from '../../api/wire.js';
import { nsToMs, rfc3339ToMs } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { renderTable, type Column } from './table.js';
import { plural, sanitize, shellWord, truncate } from './text.js';
import { formatAge } from './units.js';

/** Values above this are of no use on one line. */
const LONGEST_VALUE = 60;
/** These are nanoseconds on the wire. */
const DURATIONS = new Set(['KillTimeout', 'ShutdownDelay', 'Interval', 'Delay', 'MaxDelay', 'ResetAfter']);

const ACTIONS: Readonly<Record<PlannedAction, { readonly text: string; readonly tone: Tone }>> = {
  none: { text: 'none', tone: 'dim' },
  update_in_place: { text: 'in-place update', tone: 'warn' },
  replace: { text: 'replace', tone: 'bad' },
  create: { text: 'create', tone: 'good' },
  stop: { text: 'stop', tone: 'bad' },
};

const COLUMNS: readonly Column[] = [
  { title: 'GROUP/TASK', shortest: 12 },
  { title: 'ALLOC', drop: 2 },
  { title: 'ACTION' },
  { title: 'WHY', shortest: 12, drop: 1 },
];

export interface PlanData {
  readonly jobId: string;
  readonly plan: PlanResponse;
  /** As the user wrote it. */
  /** What stood behind `plan`: the file, and the values of its variables. */
  readonly words: readonly string[];
}

export function renderPlan({ jobId, plan, words }: PlanData, look: Look): string[] {
  const { Places } = plan.Holdfast;
  const changes = plan.Diff === null ? [] : changeLines(plan.Diff, look);
  const rows = Places.flatMap(placeRows);
  return [
    look.paint('bold', truncate(headOf(jobId, plan), look.width)),
    ...(changes.length === 0 ? [] : ['', ...changes]),
    ...(rows.length === 0 ? [] : ['', ...renderTable(COLUMNS, rows, look)]),
    '',
    summaryOf(Places),
    ...launchLines(plan),
    `Nothing was done. To do exactly this: holdfast run --check-index ${plan.JobModifyIndex} ${sanitize(words.map(shellWord).join(' '))}`,
  ];
}

function headOf(jobId: string, { Holdfast, JobModifyIndex }: PlanResponse): string {
  const name = sanitize(jobId);
  if (JobModifyIndex === 0) return `job ${name} is new`;
  if (Holdfast.Unchanged) return `job ${name} is unchanged, version ${Holdfast.Version}`;
  return `job ${name} would become version ${Holdfast.Version}`;
}

/** A word for each kind of thing that would happen to allocs. */
function summaryOf(places: readonly PlannedPlace[]): string {
  const counted = (['create', 'replace', 'update_in_place', 'stop', 'none'] as const).flatMap((action) => {
    const count = places.filter(({ Action }) => Action === action).length;
    const word = action === 'none' ? 'left alone' : ACTIONS[action].text;
    return count === 0 ? [] : [`${plural(count, 'alloc')}: ${word}`];
  });
  return counted.length === 0 ? 'No alloc is touched.' : `${counted.join('; ')}.`;
}

/** What happens step by step, and when the clock comes into it. */
function launchLines({ Holdfast, NextPeriodicLaunch }: PlanResponse): string[] {
  const steps = Holdfast.Deployment.map(({ Group, MaxParallel, MinHealthyTime, AutoRevert }) => {
    const back = AutoRevert ? ', and back to the last good version if one is not' : '';
    const wellFor = formatAge(nsToMs(MinHealthyTime));
    return `Deployment: ${sanitize(Group)}, ${MaxParallel} at a time, each well for ${wellFor}${back}. No canaries.`;
  });
  const next = rfc3339ToMs(NextPeriodicLaunch);
  return [...steps, ...(next === undefined ? [] : [`Next launch: ${NextPeriodicLaunch}.`])];
}

function placeRows(place: PlannedPlace): { text: string; tone?: Tone }[][] {
  const alloc = place.AllocID === null ? '-' : shortId(place.AllocID);
  const name = `${place.Group}[${place.Index}]`;
  return [
    [{ text: name }, { text: alloc }, ACTIONS[place.Action], { text: place.Why }],
    ...Object.entries(place.Tasks).map(([task, action]) => [
      { text: `  ${task}` },
      { text: '' },
      ACTIONS[action],
      { text: '' },
    ]),
  ];
}

// ------------------------------------------------------------------------------------------------- what differs

interface Change {
  readonly path: string;
  readonly field: FieldDiff;
}

/** `~ api/server Env[PORT]: 80 → 81`. What is wholly new or gone is one line, not a list of its parts. */
function changeLines(diff: JobDiff, look: Look): string[] {
  if (diff.Type === 'Added') return [];
  const lines = changesOf('', diff).map((change) => changeLine(change, look));
  for (const group of diff.TaskGroups) lines.push(...groupLines(group, look));
  return lines;
}

function groupLines(group: TaskGroupDiff, look: Look): string[] {
  if (group.Type === 'Added' || group.Type === 'Deleted') return [wholeLine(group.Type, group.Name, look)];
  return [
    ...changesOf(group.Name, group).map((change) => changeLine(change, look)),
    ...group.Tasks.flatMap((task) => {
      const path = `${group.Name}/${task.Name}`;
      if (task.Type === 'Added' || task.Type === 'Deleted') return [wholeLine(task.Type, path, look)];
      return changesOf(path, task).map((change) => changeLine(change, look));
    }),
  ];
}

function changesOf(path: string, diff: Pick<ObjectDiff, 'Fields' | 'Objects'>, within = ''): Change[] {
  return [
    ...diff.Fields.map((field) => ({ path: `${path} ${within}${field.Name}`.trim(), field })),
    ...diff.Objects.flatMap((object) => changesOf(path, object, `${within}${object.Name}.`)),
  ];
}

function changeLine({ path, field }: Change, look: Look): string {
  const name = field.Name;
  switch (field.Type) {
    case 'Added':
      return line('good', `+ ${path}: ${valueOf(name, field.New)}`, look);
    case 'Deleted':
      return line('bad', `- ${path}: ${valueOf(name, field.Old)}`, look);
    case 'Edited':
    case 'None':
      return line('warn', `~ ${path}: ${valueOf(name, field.Old)} → ${valueOf(name, field.New)}`, look);
  }
}

function wholeLine(type: 'Added' | 'Deleted', path: string, look: Look): string {
  return type === 'Added' ? line('good', `+ ${path}`, look) : line('bad', `- ${path}`, look);
}

function line(tone: Tone, text: string, look: Look): string {
  return look.paint(tone, truncate(sanitize(text), look.width));
}

function valueOf(name: string, value: string): string {
  if (DURATIONS.has(name) && /^\d+$/.test(value)) return formatAge(Number(value) / 1e6);
  const isPlain = /^[\w.:/=,+@%-]+$/.test(value);
  return truncate(isPlain ? value : JSON.stringify(value), LONGEST_VALUE);
}
