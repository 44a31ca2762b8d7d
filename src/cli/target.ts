/**
 * Owns what a TARGET means: a job id, `job/group`, `job/group/task`, or an alloc id prefix (with `/task` behind it if
 * one task is meant). Pure.
 */
import type { AllocListStub, JobListStub } from '../api/wire.js';
import { shortId, SHORTEST_PREFIX } from '../base/ids.js';
import { nearest } from '../jobspec/nearest.js';
import { CliError, EXIT } from './exit.js';

/** What was found. `allocs` are oldest first, and may be those of the past. */
export interface Target {
  readonly kind: 'job' | 'group' | 'task' | 'alloc' | 'alloc-task';
  /** As the user wrote it. */
  readonly text: string;
  readonly jobId: string;
  readonly group: string | undefined;
  readonly task: string | undefined;
  readonly allocs: readonly AllocListStub[];
}

/** What there is to choose from. */
export interface Known {
  readonly jobs: readonly Pick<JobListStub, 'ID'>[];
  /** Oldest first. */
  readonly allocs: readonly AllocListStub[];
}

/** Candidates named in an error. */
const MOST_NAMED = 5;
const LOOKS_LIKE_ID = /^[0-9a-f][0-9a-f-]*$/i;

/** @throws CliError notFound with a guess at what was meant, usage when several are meant */
export function resolveTarget(text: string, known: Known): Target {
  return findByJob(text, known) ?? findByAlloc(text, known) ?? failUnknown(text, known);
}

/** Job ids may hold slashes, so the longest id that fits comes first. */
function findByJob(text: string, { jobs, allocs }: Known): Target | undefined {
  const parts = text.split('/');
  for (let taken = parts.length; taken >= Math.max(1, parts.length - 2); taken--) {
    const jobId = parts.slice(0, taken).join('/');
    if (!jobs.some(({ ID }) => ID === jobId)) continue;
    const [group, task] = parts.slice(taken);
    const ofJob = allocs.filter((alloc) => alloc.JobID === jobId);
    if (group === undefined) return { kind: 'job', text, jobId, group, task, allocs: ofJob };
    const ofGroup = ofJob.filter(({ TaskGroup }) => TaskGroup === group);
    if (ofGroup.length === 0) throw unknownPart('group', group, jobId, groupsOf(ofJob));
    if (task === undefined) return { kind: 'group', text, jobId, group, task, allocs: ofGroup };
    const ofTask = ofGroup.filter((alloc) => Object.hasOwn(alloc.TaskStates, task));
    if (ofTask.length === 0) throw unknownPart('task', task, `${jobId}/${group}`, tasksOf(ofGroup));
    return { kind: 'task', text, jobId, group, task, allocs: ofTask };
  }
  return undefined;
}

function findByAlloc(text: string, { allocs }: Known): Target | undefined {
  const [id = '', task, ...rest] = text.split('/');
  if (!LOOKS_LIKE_ID.test(id) || id.replaceAll('-', '').length < SHORTEST_PREFIX || rest.length > 0) {
    return undefined;
  }
  const found = allocs.filter(({ ID }) => ID.startsWith(id.toLowerCase()));
  const [alloc] = found;
  if (alloc === undefined) return undefined;
  if (found.length > 1) {
    const named = found.slice(0, MOST_NAMED).map((each) => `${each.ID} (${each.Name})`);
    const more = found.length > MOST_NAMED ? `, and ${found.length - MOST_NAMED} more` : '';
    throw new CliError(
      EXIT.usage,
      `${JSON.stringify(id)} could be ${named.join(', ')}${more}: give more digits`,
    );
  }
  if (task !== undefined && !Object.hasOwn(alloc.TaskStates, task)) {
    throw unknownPart('task', task, `alloc ${id}`, tasksOf([alloc]));
  }
  return {
    kind: task === undefined ? 'alloc' : 'alloc-task',
    text,
    jobId: alloc.JobID,
    group: alloc.TaskGroup,
    task,
    allocs: [alloc],
  };
}

function failUnknown(text: string, { jobs, allocs }: Known): never {
  const names = [...jobs.map(({ ID }) => ID), ...allocs.flatMap(pathsOf)];
  const guess = nearest(text, names);
  const advice =
    guess === undefined ? '"holdfast ps -a" lists what there is' : `did you mean ${JSON.stringify(guess)}?`;
  throw new CliError(EXIT.notFound, `no job or alloc ${JSON.stringify(text)}: ${advice}`);
}

function unknownPart(what: string, name: string, where: string, names: readonly string[]): CliError {
  const guess = nearest(name, names);
  const advice =
    guess === undefined ? `it has ${names.join(', ') || 'none'}` : `did you mean ${JSON.stringify(guess)}?`;
  return new CliError(EXIT.notFound, `${where} has no ${what} ${JSON.stringify(name)}: ${advice}`);
}

/** Everything that may be written as a TARGET: jobs, their parts, and the short ids of allocs that are not over. */
export function listTargetNames({ jobs, allocs }: Known): readonly string[] {
  const ids = allocs.filter(isLive).map(({ ID }) => shortId(ID));
  return [...new Set([...jobs.map(({ ID }) => ID), ...allocs.flatMap(pathsOf), ...ids])];
}

function groupsOf(allocs: readonly AllocListStub[]): string[] {
  return [...new Set(allocs.map(({ TaskGroup }) => TaskGroup))];
}

function tasksOf(allocs: readonly AllocListStub[]): string[] {
  return [...new Set(allocs.flatMap(({ TaskStates }) => Object.keys(TaskStates)))];
}

function pathsOf(alloc: AllocListStub): string[] {
  const group = `${alloc.JobID}/${alloc.TaskGroup}`;
  return [group, ...Object.keys(alloc.TaskStates).map((task) => `${group}/${task}`)];
}

/** True while processes of the alloc may run or will be started. */
export function isLive(alloc: Pick<AllocListStub, 'ClientStatus'>): boolean {
  return (
    alloc.ClientStatus === 'pending' || alloc.ClientStatus === 'running' || alloc.ClientStatus === 'unknown'
  );
}

/** The newest alloc of each place (`<job>.<group>[<index>]`), and every older one that is not over yet. */
export function currentAllocs(allocs: readonly AllocListStub[]): AllocListStub[] {
  const newest = new Map<string, AllocListStub>();
  for (const alloc of allocs) {
    const other = newest.get(alloc.Name);
    if (other === undefined || other.CreateIndex < alloc.CreateIndex) newest.set(alloc.Name, alloc);
  }
  return allocs.filter((alloc) => isLive(alloc) || newest.get(alloc.Name) === alloc);
}

/** The names of the target's tasks in one of its allocs. */
export function taskNames(target: Target, alloc: AllocListStub): string[] {
  return Object.keys(alloc.TaskStates).filter((task) => target.task === undefined || task === target.task);
}
