/** Owns the sheet of `status`: the verdict first, then why, the allocs, the tasks, what happened last. Pure. */
import {
  nsToMs,
  rfc3339ToMs,
  type Allocation,
  type CheckView,
  type Deployment,
  type Job,
  type TaskEventRow,
} from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { isLive } from '../target.js';
import { describeDeployment } from '../rollout.js';
import { renderEventLines } from './events.js';
import { describeInForce } from './in-force.js';
import type { PsRow } from './ps.js';
import { taskStatus } from './task-status.js';
import { pad, plural, sanitize, truncate, wrap } from './text.js';
import { formatMemoryOf, formatPercent, formatSince, formatTime } from './units.js';
import { decideVerdict, listTroubles, type Verdict } from './verdict.js';

/** Last lines of one stream of a task. */
export interface LogTail {
  readonly task: string;
  readonly stream: 'stdout' | 'stderr';
  readonly lines: readonly string[];
}

export type AllocDetails = Pick<Allocation, 'TaskStates' | 'AllocatedResources'> &
  Partial<Pick<Allocation, 'Job'>>;

/** A job that was launched by another. */
export interface Launch {
  readonly id: string;
  readonly submittedAtMs: number;
  readonly rows: readonly PsRow[];
}

export interface StatusData {
  /** As the user asked. */
  readonly target: string;
  /** null when it is purged already, but its allocs are still there. */
  readonly job: Job | null;
  /** Deployments of the job, the newest first. */
  readonly deployments?: readonly Deployment[];
  /** What a periodic or parameterized job has launched, the newest last, with the tasks of each. */
  readonly launches?: readonly Launch[];
  readonly rows: readonly PsRow[];
  /** Oldest first. */
  readonly events: readonly TaskEventRow[];
  readonly logs: readonly LogTail[];
  /** By alloc id: what a few of them have of this host, and what their tasks really got. */
  readonly details?: Readonly<Record<string, AllocDetails>>;
  /** By alloc id. */
  readonly checks?: Readonly<Record<string, readonly CheckView[]>>;
}

const LABEL_COLUMNS = 9;
/** Reasons given in full: the verdict shall not leave the screen. */
const MOST_REASONS = 5;

/** The sheet about a job or a part of it. */
export function renderStatus(data: StatusData, look: Look): string[] {
  const isStopped = data.job?.Stop === true;
  const verdict =
    data.rows.length > 0
      ? decideVerdict(data.rows, look.nowMs)
      : { word: isStopped ? 'stopped' : emptyWord(data.job), tone: 'dim' as const, detail: 'no allocs' };
  const troubles = listTroubles(data.rows, look.nowMs);
  return [
    verdictLine(data.target, verdict, look),
    ...whyLines(troubles, look),
    ...(data.job === null ? [] : [field('Job', jobText(data.job, look.nowMs), look)]),
    ...deploymentLines(data.deployments ?? [], look),
    ...launchLines(data.launches ?? [], look),
    ...allocLines(data, look),
    ...checkLines(data, look),
    ...section(
      'Events',
      data.events.flatMap((event) => eventLines(event, look)),
    ),
    ...section(
      'Log',
      data.logs.flatMap((tail) => logLines(tail, look)),
    ),
  ];
}

/** A pattern has no allocs of its own. */
function emptyWord(job: Job | null): string {
  if (job?.Periodic?.Enabled === true) return 'waits for the clock';
  return job?.ParameterizedJob == null ? 'pending' : 'waits for dispatch';
}

export function verdictLine(name: string, verdict: Verdict, look: Look): string {
  const line = truncate(`● ${sanitize(name)}  ${sanitize(verdict.word)}  ${verdict.detail}`, look.width);
  return look.paint(verdict.tone, line.slice(0, 1)) + line.slice(1);
}

/** One line of a sheet. */
export function field(label: string, text: string, look: Look, tone: Tone = 'plain'): string {
  const head = `  ${pad(label, LABEL_COLUMNS)}`;
  return look.paint('dim', head) + look.paint(tone, truncate(sanitize(text), look.width - head.length));
}

/** As `field`, but nothing is cut off. */
export function wrapped(label: string, text: string, look: Look, tone: Tone): string[] {
  const width = look.width - LABEL_COLUMNS - 2;
  return wrap(sanitize(text), width).map((line, at) => field(at === 0 ? label : '', line, look, tone));
}

/** The reasons in full, worst first; of many, how many more there are. */
export function whyLines(troubles: readonly { text: string; tone: Tone }[], look: Look): string[] {
  const hidden = troubles.length - MOST_REASONS;
  return [
    ...troubles
      .slice(0, MOST_REASONS)
      .flatMap(({ text, tone }, at) => wrapped(at === 0 ? 'Why' : '', text, look, tone)),
    ...(hidden > 0 ? [field('', `and ${hidden} more: holdfast ps`, look, 'dim')] : []),
  ];
}

function section(label: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`  ${label}`, ...lines];
}

function jobText(job: Job, nowMs: number): string {
  const age = formatSince(nowMs - nsToMs(job.SubmitTime));
  const nextMs = job.Holdfast.NextLaunch === null ? undefined : rfc3339ToMs(job.Holdfast.NextLaunch);
  const next = nextMs === undefined ? '' : `, next launch ${formatTime(nextMs, nowMs)}`;
  return `${job.Type}, version ${job.Version}, ${job.Stop ? 'stopped' : job.Status}, submitted ${age} ago${next}`;
}

/** What is under way, or how it ended; after a failure that was undone, the failure as well. */
function deploymentLines([newest, before]: readonly Deployment[], look: Look): string[] {
  if (newest === undefined) return [];
  const undone = before?.Status === 'failed' && newest.Status !== 'failed' ? [before] : [];
  return [newest, ...undone].flatMap((deployment, at) => {
    const { ID, JobVersion, StatusDescription, Status } = deployment;
    const tone = Status === 'failed' ? 'bad' : 'plain';
    const text = `${shortId(ID)} of version ${JobVersion}: ${describeDeployment(deployment)}`;
    return [
      ...wrapped(at === 0 ? 'Deploy' : 'before', text, look, tone),
      ...(Status === 'failed' ? wrapped('', StatusDescription, look, tone) : []),
    ];
  });
}

function launchLines(launches: readonly Launch[], look: Look): string[] {
  return launches.map(({ id, submittedAtMs, rows }, at) => {
    const { word, tone } = decideVerdict(rows, look.nowMs);
    const age = formatSince(look.nowMs - submittedAtMs);
    const text = `${id}  ${rows.length === 0 ? 'no allocs' : word}, ${age} ago`;
    return field(at === 0 ? 'Launched' : '', text, look, tone === 'bad' ? 'bad' : 'plain');
  });
}

/** What becomes of the place of a failed alloc. */
function rescheduleLine({ Holdfast, NextAllocation }: PsRow['alloc'], look: Look): string[] {
  const atMs = Holdfast.RescheduleAt === null ? undefined : rfc3339ToMs(Holdfast.RescheduleAt);
  if (atMs !== undefined && NextAllocation === '') {
    const inMs = Math.max(0, atMs - look.nowMs);
    return [field('', `a new alloc takes its place in ${formatSince(inMs)}`, look, 'warn')];
  }
  const why = Holdfast.RescheduleStopped;
  return why === '' ? [] : [field('', `no new alloc takes its place: ${why}`, look, 'bad')];
}

/** A line for each alloc, and below it one for each of its tasks. */
function allocLines({ rows, details }: StatusData, look: Look): string[] {
  const lines: string[] = [];
  let previous: string | undefined;
  for (const row of rows) {
    const { alloc } = row;
    if (alloc.ID !== previous) {
      const age = formatSince(look.nowMs - nsToMs(alloc.CreateTime));
      const stop = isLive(alloc) ? 'to be stopped' : 'stopped';
      const wanted = alloc.DesiredStatus === 'stop' ? `, ${stop}: ${alloc.DesiredDescription}` : '';
      const text = `${shortId(alloc.ID)}  ${alloc.Name}  ${alloc.ClientStatus}${healthOf(alloc)}, created ${age} ago${wanted}`;
      lines.push(field('Alloc', text, look));
      lines.push(...rescheduleLine(alloc, look));
      lines.push(...portLines(details?.[alloc.ID], look));
      previous = alloc.ID;
    }
    if (row.task === undefined) continue;
    lines.push(taskLine(row, look));
    const detail = details?.[alloc.ID];
    const seen = detail?.TaskStates[row.task]?.Holdfast.InForce;
    if (seen !== undefined) lines.push(...inForceLines(describeInForce(seen, configOf(detail, row)), look));
  }
  return lines;
}

/** What the version of the job that the alloc runs says of the task; undefined when that is no longer on record. */
function configOf(
  detail: AllocDetails | undefined,
  { alloc, task }: PsRow,
): Readonly<Record<string, unknown>> | undefined {
  const group = detail?.Job?.TaskGroups.find(({ Name }) => Name === alloc.TaskGroup);
  return group?.Tasks.find(({ Name }) => Name === task)?.Config;
}

/** Where the ports of an alloc are. Nothing of it is cut off. */
function portLines(details: AllocDetails | undefined, look: Look): string[] {
  const ports = details?.AllocatedResources.Shared.Ports ?? [];
  if (ports.length === 0) return [];
  const indent = ' '.repeat(4);
  const text = `ports  ${ports.map(({ Label, HostIP, Value }) => `${Label}=${HostIP}:${Value}`).join(', ')}`;
  return wrap(sanitize(text), look.width - indent.length).map((line) => indent + line);
}

/** Nothing of it is cut off. */
function inForceLines(text: string, look: Look): string[] {
  const indent = ' '.repeat(6);
  return wrap(sanitize(`isolation: ${text}`), look.width - indent.length).map((line) =>
    look.paint('dim', indent + line),
  );
}

function taskLine(row: PsRow, look: Look): string {
  const status = taskStatus(row, look.nowMs);
  const head = `    ${sanitize(row.task ?? '')}  `;
  const statusText = truncate(sanitize(status.text), Math.max(0, look.width - head.length));
  const facts = [...lifeFacts(row, look.nowMs), ...usageFacts(row)].map((fact) => `, ${fact}`).join('');
  const cut = truncate(head + statusText + facts, look.width);
  const end = Math.min(cut.length, head.length + statusText.length);
  return cut.slice(0, head.length) + look.paint(status.tone, cut.slice(head.length, end)) + cut.slice(end);
}

function lifeFacts({ state }: PsRow, nowMs: number): string[] {
  if (state === undefined) return [];
  const facts: string[] = [];
  const startedMs = rfc3339ToMs(state.StartedAt);
  const finishedMs = rfc3339ToMs(state.FinishedAt);
  if (state.Holdfast.Pid !== null) facts.push(`pid ${state.Holdfast.Pid}`);
  if (state.State === 'running' && state.Holdfast.Phase === 'running' && startedMs !== undefined) {
    facts.push(`up ${formatSince(nowMs - startedMs)}`);
  }
  if (state.State === 'dead' && finishedMs !== undefined) {
    facts.push(`ended ${formatTime(finishedMs, nowMs)}`);
  }
  if (state.Restarts > 0) facts.push(plural(state.Restarts, 'restart'));
  return facts;
}

function usageFacts({ usage }: PsRow): string[] {
  if (usage === undefined) return [];
  const { CPUPercent, MemoryBytes, MemoryLimitBytes } = usage.Holdfast;
  return [
    ...(CPUPercent === null ? [] : [`cpu ${formatPercent(CPUPercent)}`]),
    `mem ${formatMemoryOf(MemoryBytes, MemoryLimitBytes)}`,
  ];
}

function eventLines(event: TaskEventRow, look: Look): string[] {
  const lines = renderEventLines(event, sanitize(event.Task), { ...look, width: look.width - 4 });
  return lines.map((line) => `    ${line}`);
}

function logLines({ task, stream, lines }: LogTail, look: Look): string[] {
  const head = `    ${sanitize(task)} ${stream === 'stdout' ? 'out' : 'err'} | `;
  return lines.map((line) => truncate(`${head}${sanitize(line)}`, look.width));
}

function healthOf({ DeploymentStatus }: PsRow['alloc']): string {
  if (DeploymentStatus === null) return '';
  const { Healthy, Holdfast } = DeploymentStatus;
  return Healthy ? `, healthy ${sanitize(Holdfast.Detail)}` : `, unhealthy: ${sanitize(Holdfast.Detail)}`;
}

/** What is asked of the allocs, a line each; a check that does not pass with what it said. */
function checkLines({ checks = {}, rows }: StatusData, look: Look): string[] {
  const shown = [...new Set(rows.map(({ alloc }) => alloc.ID))].flatMap((id) =>
    (checks[id] ?? []).map((check) => ({ id, check })),
  );
  return shown.map(({ id, check }, index) => {
    const { Status } = check.Holdfast;
    const said =
      Status === 'success' || Status === 'pending' ? '' : `: ${check.Output.replace(/\s+/g, ' ').trim()}`;
    const text = `${shortId(id)}  ${sanitize(check.Check)}  ${WORDS[Status]}${sanitize(said)}`;
    return field(index === 0 ? 'Checks' : '', truncate(text, Math.max(20, look.width - LABEL_COLUMNS)), look);
  });
}

const WORDS = {
  pending: 'not known yet',
  success: 'passing',
  warning: 'warning',
  failure: 'failing',
} as const;
