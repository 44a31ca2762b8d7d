/** Owns the routes that Nomad has no word for: the attempts of a task and the durable events. */
import { AgentError } from '../../base/errors.js';
import * as answers from '../answers.js';
import { findAlloc } from '../lookup.js';
import type { WatchKey } from '../index-watch.js';
import { WRITE, type Call, type Route } from '../route.js';
import type { Services } from '../services.js';
import { eventRowToWire, runToWire } from '../task-to-wire.js';
import type { DoctorFinding, Run, TaskEventRow } from '../wire.js';

const DEFAULT_EVENTS = 1000;
/** As many as the store keeps for one task. */
const MOST_EVENTS = 10_000;

export function holdfastRoutes(services: Services): readonly Route[] {
  const { store } = services;
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/holdfast/allocation/:id/runs',
      summary: 'Lists the attempts to run the tasks of an alloc, each with its true end',
      answer: answers.RunList,
      query: ['task'],
      watch: (call) => `alloc/${findAlloc(store, call.param('id')).record.id}`,
      handle: (call) => listRuns(services, call),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/holdfast/events',
      summary: 'Lists task events from the durable history, oldest first',
      answer: answers.TaskEventList,
      query: ['job', 'alloc', 'task', 'since', 'limit'],
      watch: (call) => eventsKey(services, call),
      handle: (call) => listEvents(services, call),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/holdfast/doctor',
      summary: 'Looks for leftovers and inconsistencies on this host',
      answer: answers.Findings,
      handle: () => doctor(services, false),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/holdfast/doctor',
      summary: 'Looks for leftovers and inconsistencies, and cures those that can be',
      answer: answers.Findings,
      handle: () => doctor(services, true),
    },
  ];
}

function listRuns({ store }: Services, call: Call): readonly Run[] {
  const { record } = findAlloc(store, call.param('id'));
  const only = call.query.text('task') ?? '';
  const tasks = store.listTasks(record.id).filter(({ task }) => only === '' || task === only);
  if (only !== '' && tasks.length === 0) {
    throw new AgentError('not_found', `alloc ${record.id} has no task ${JSON.stringify(only)}`);
  }
  return tasks.flatMap(({ task }) => store.listRuns(record.id, task).map(runToWire));
}

async function doctor({ operations }: Services, fix: boolean): Promise<readonly DoctorFinding[]> {
  const findings = await operations.doctor({ fix });
  return findings.map(({ kind, subject, problem, advice, canFix, outcome }) => ({
    Kind: kind,
    Subject: subject,
    Problem: problem,
    Advice: advice,
    CanFix: canFix,
    Outcome: outcome.kind,
    Error: outcome.kind === 'failed' ? outcome.why : '',
  }));
}

function eventsKey({ store }: Services, { query }: Call): WatchKey {
  const alloc = query.text('alloc') ?? '';
  const job = query.text('job') ?? '';
  if (alloc !== '') return `events/${findAlloc(store, alloc).record.id}`;
  return job === '' ? 'events' : `events/${job}`;
}

function listEvents({ store }: Services, { query }: Call): readonly TaskEventRow[] {
  const alloc = query.text('alloc') ?? '';
  const job = query.text('job') ?? '';
  const task = query.text('task') ?? '';
  const sinceMs = query.timeMs('since');
  const limit = Math.min(query.count('limit') ?? DEFAULT_EVENTS, MOST_EVENTS);
  const jobs = new Map(store.listAllocs().map(({ record }) => [record.id, record.jobId]));
  return store
    .listTaskEvents({
      ...(alloc === '' ? {} : { allocId: findAlloc(store, alloc).record.id }),
      ...(job === '' ? {} : { jobId: job }),
      ...(task === '' ? {} : { task }),
      ...(sinceMs === undefined ? {} : { sinceMs }),
      limit,
    })
    .map((row) => eventRowToWire(row, jobs.get(row.allocId) ?? ''));
}
