/**
 * Owns the form of records as rows: durable facts in columns of their own, everything else as JSON in `rest`, so that a
 * field that is added to a record is stored without a change here. Decoding checks what it reads and throws BadRow; it
 * adds the columns to the object that `rest` holds, because a spread of it takes ten times as long.
 */
import { encodeJson } from './json.js';
import { asColumns, BadRow, type Columns, type Row } from './row.js';
import type {
  AllocRecord,
  FeedPayload,
  FeedRow,
  HookRecord,
  Indexed,
  JobRecord,
  TaskEventRow,
} from './store.js';

const CLIENT_STATUSES = ['pending', 'running', 'complete', 'failed', 'lost', 'unknown'] as const;
export function decodeIndexed<T>(row: Row, record: T): Indexed<T> {
  return { record, createIndex: row.number('create_index'), modifyIndex: row.number('modify_index') };
}

export function encodeJob(job: JobRecord): Columns {
  const { id, version, spec, stopped, submittedAtMs, ...rest } = job;
  return asColumns({
    job_id: id,
    version,
    stopped,
    submitted_at_ms: submittedAtMs,
    spec: encodeJson(spec),
    rest: encodeJson(rest),
  });
}

export function decodeJob(row: Row): JobRecord {
  const spec = row.object('spec');
  const id = row.text('job_id');
  // The parser made it and nobody else writes it: the outline tells a damaged spec from a whole one.
  if (spec['id'] !== id || !Array.isArray(spec['groups'])) throw new BadRow(`spec is not that of job ${id}`);
  return Object.assign(row.object('rest'), {
    id,
    version: row.number('version'),
    spec: spec as unknown as JobRecord['spec'],
    stopped: row.flag('stopped'),
    submittedAtMs: row.number('submitted_at_ms'),
  });
}

export function encodeAlloc(alloc: AllocRecord): Columns {
  const { id, jobId, jobVersion, group, index, desiredStatus, desiredDescription, ...others } = alloc;
  const { noShutdownDelay, clientStatus, clientDescription, createdAtMs, modifiedAtMs, ...rest } = others;
  return asColumns({
    alloc_id: id,
    job_id: jobId,
    job_version: jobVersion,
    group_name: group,
    group_index: index,
    desired_status: desiredStatus,
    desired_description: desiredDescription,
    no_shutdown_delay: noShutdownDelay,
    client_status: clientStatus,
    client_description: clientDescription,
    created_at_ms: createdAtMs,
    modified_at_ms: modifiedAtMs,
    rest: encodeJson(rest),
  });
}

export function decodeAlloc(row: Row): AllocRecord {
  return Object.assign(row.object('rest'), {
    id: row.text('alloc_id'),
    jobId: row.text('job_id'),
    jobVersion: row.number('job_version'),
    group: row.text('group_name'),
    index: row.number('group_index'),
    desiredStatus: row.word('desired_status', ['run', 'stop']),
    desiredDescription: row.text('desired_description'),
    noShutdownDelay: row.flag('no_shutdown_delay'),
    clientStatus: row.word('client_status', CLIENT_STATUSES),
    clientDescription: row.text('client_description'),
    createdAtMs: row.number('created_at_ms'),
    modifiedAtMs: row.number('modified_at_ms'),
  });
}

export function encodeHook(hook: HookRecord): Columns {
  const { allocId, task, hook: name, done, bootId, env, data, ...rest } = hook;
  return asColumns({
    alloc_id: allocId,
    task,
    hook: name,
    done,
    boot_id: bootId,
    env: encodeJson(env),
    data: encodeJson(data),
    rest: encodeJson(rest),
  });
}

export function decodeHook(row: Row): HookRecord {
  return Object.assign(row.object('rest'), {
    allocId: row.text('alloc_id'),
    task: row.text('task'),
    hook: row.text('hook'),
    done: row.flag('done'),
    bootId: row.optionalText('boot_id'),
    env: row.object('env') as HookRecord['env'],
    data: row.object('data') as HookRecord['data'],
  });
}

export function decodeEvent(row: Row): TaskEventRow {
  const event = row.object('event');
  if (event['type'] !== row.text('type')) throw new BadRow('event and its type do not agree');
  return {
    allocId: row.text('alloc_id'),
    task: row.text('task'),
    seq: row.number('seq'),
    atMs: row.number('at_ms'),
    event: event as unknown as TaskEventRow['event'],
  };
}

/** A record, so that none can be forgotten. */
const FEED_TOPICS = Object.keys({
  Job: true,
  Allocation: true,
  TaskEvent: true,
  Deployment: true,
  Evaluation: true,
  Node: true,
} satisfies Record<FeedPayload['topic'], true>) as FeedPayload['topic'][];

export function decodeFeedRow(row: Row): FeedRow {
  const payload = row.object('payload');
  const topic = row.word('topic', FEED_TOPICS);
  if (payload['topic'] !== topic || payload['type'] !== row.text('type')) {
    throw new BadRow('payload and its topic do not agree');
  }
  return {
    index: row.number('index'),
    atMs: row.number('at_ms'),
    key: row.text('key'),
    payload: payload as unknown as FeedPayload,
  };
}
