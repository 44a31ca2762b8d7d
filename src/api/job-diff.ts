/**
 * Owns what differs between two versions of a job, in the shape that Nomad's tools read. Pure. Only what differs is
 * told; what is added or gone is told in full, except what is empty.
 */
import type {
  DiffType,
  FieldDiff,
  JobDiff,
  JobJson,
  ObjectDiff,
  TaskDiff,
  TaskGroupDiff,
  TaskGroupJson,
  TaskJson,
} from './wire.js';

type Fields = Readonly<Record<string, unknown>>;
interface Differences {
  readonly fields: FieldDiff[];
  readonly objects: ObjectDiff[];
}

/** Maps whose keys the user chose: `Env[PORT]`. */
const MAPS = new Set(['Env', 'Meta', 'GetterOptions', 'GetterHeaders']);

/** @param before undefined when there is no such job: then all of it is new */
export function diffJobs(before: JobJson | undefined, after: JobJson): JobDiff {
  const { fields, objects } = diffFields(before, after, ['ID', 'TaskGroups']);
  const groups = pairByName(before?.TaskGroups ?? [], after.TaskGroups).map(([old, now]) =>
    diffGroups(old, now),
  );
  const changed = groups.filter(({ Type }) => Type !== 'None');
  const isSame = fields.length === 0 && objects.length === 0 && changed.length === 0;
  const type = before === undefined ? 'Added' : isSame ? 'None' : 'Edited';
  return { Type: type, ID: after.ID, Fields: fields, Objects: objects, TaskGroups: changed };
}

function diffGroups(before: TaskGroupJson | undefined, after: TaskGroupJson | undefined): TaskGroupDiff {
  const { fields, objects } = diffFields(before, after, ['Name', 'Tasks']);
  const tasks = pairByName(before?.Tasks ?? [], after?.Tasks ?? [])
    .map(([old, now]) => diffTasks(old, now))
    .filter(({ Type }) => Type !== 'None');
  return {
    Type: typeOf(before, after, fields.length + objects.length + tasks.length > 0),
    Name: (after ?? before)?.Name ?? '',
    Fields: fields,
    Objects: objects,
    Tasks: tasks,
    Updates: {},
  };
}

function diffTasks(before: TaskJson | undefined, after: TaskJson | undefined): TaskDiff {
  return { ...diffObjects((after ?? before)?.Name ?? '', before, after, ['Name']), Annotations: null };
}

function diffObjects(
  name: string,
  before: object | undefined,
  after: object | undefined,
  without: readonly string[] = [],
): ObjectDiff {
  const { fields, objects } = diffFields(before, after, without);
  const type = typeOf(before, after, fields.length + objects.length > 0);
  return { Type: type, Name: name, Fields: fields, Objects: objects };
}

function typeOf(before: unknown, after: unknown, differs: boolean): DiffType {
  if (before === undefined) return 'Added';
  if (after === undefined) return 'Deleted';
  return differs ? 'Edited' : 'None';
}

function diffFields(
  before: object | undefined,
  after: object | undefined,
  without: readonly string[],
): Differences {
  const found: Differences = { fields: [], objects: [] };
  const old: Fields = { ...before };
  const now: Fields = { ...after };
  for (const key of [...new Set([...Object.keys(old), ...Object.keys(now)])].sort()) {
    if (!without.includes(key)) diffValues(key, old[key], now[key], found);
  }
  return found;
}

function diffValues(name: string, before: unknown, after: unknown, found: Differences): void {
  if (Array.isArray(before) || Array.isArray(after)) {
    const old: readonly unknown[] = Array.isArray(before) ? before : [];
    const now: readonly unknown[] = Array.isArray(after) ? after : [];
    for (let at = 0; at < Math.max(old.length, now.length); at++)
      diffValues(`${name}[${at}]`, old[at], now[at], found);
    return;
  }
  const old = isObject(before) ? before : undefined;
  const now = isObject(after) ? after : undefined;
  if (old === undefined && now === undefined) {
    const field = diffTexts(name, textOf(before), textOf(after));
    if (field !== undefined) found.fields.push(field);
    return;
  }
  if (MAPS.has(name)) {
    for (const key of [...new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})])].sort())
      diffValues(`${name}[${key}]`, old?.[key], now?.[key], found);
    return;
  }
  const object = diffObjects(name, old, now);
  if (object.Fields.length + object.Objects.length > 0) found.objects.push(object);
}

function diffTexts(name: string, old: string | undefined, now: string | undefined): FieldDiff | undefined {
  // An empty text is a value in a map of the user's own, and nothing anywhere else.
  const isOwn = name.includes('[');
  const [before, after] = isOwn ? [old, now] : [old === '' ? undefined : old, now === '' ? undefined : now];
  if (before === after) return undefined;
  const type = typeOf(before, after, true);
  return { Type: type, Name: name, Old: before ?? '', New: after ?? '', Annotations: null };
}

function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Pairs what has the same name, in the order of what there was, then of what is new. */
function pairByName<T extends { readonly Name: string }>(
  before: readonly T[],
  after: readonly T[],
): [T | undefined, T | undefined][] {
  const names = new Set([...before, ...after].map(({ Name }) => Name));
  return [...names].map((name) => [
    before.find(({ Name }) => Name === name),
    after.find(({ Name }) => Name === name),
  ]);
}
