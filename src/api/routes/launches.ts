/** Owns the routes that launch jobs from a pattern, and those that forget what is over. */
import { z } from 'zod';
import * as answers from '../answers.js';
import { findAlloc, findJob } from '../lookup.js';
import { parseBody } from '../query.js';
import { WRITE, type Call, type Method, type Route } from '../route.js';
import type { Services } from '../services.js';
import type { DispatchResponse, PeriodicForceResponse } from '../wire.js';

const DispatchBody = z.looseObject({
  Payload: z.base64().nullish(),
  Meta: z.record(z.string(), z.string()).nullish(),
  IdempotencyToken: z.string().nullish(),
});

/** Nomad's tools ask for these with GET. */
const ANY_WRITE: readonly Method[] = ['GET', ...WRITE];

export function launchRoutes(services: Services): readonly Route[] {
  return [
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/job/:id/dispatch',
      summary: 'Runs a parameterized job with a payload (base64) and meta',
      answer: answers.JobDispatched,
      query: ['idempotency_token'],
      body: DispatchBody,
      handle: (call) => dispatch(services, call),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/job/:id/periodic/force',
      summary: 'Launches a periodic job now',
      answer: answers.JobLaunched,
      handle: (call) => force(services, call),
    },
  ];
}

export function gcRoutes({ store, operations }: Services): readonly Route[] {
  const collect = async (): Promise<object> => ({ Collected: await operations.collectGarbage() });
  return [
    {
      kind: 'json',
      methods: ANY_WRITE,
      scope: 'operate',
      path: '/v1/client/gc',
      summary: 'Forgets all dead allocs and launches that nothing needs, with their directories',
      answer: answers.Collected,
      handle: collect,
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/system/gc',
      summary: 'The same as /v1/client/gc',
      answer: answers.Collected,
      handle: collect,
    },
    {
      kind: 'json',
      methods: ANY_WRITE,
      scope: 'operate',
      path: '/v1/client/allocation/:id/gc',
      summary: 'Forgets one dead alloc, with its directory',
      answer: answers.Done,
      handle: async (call) => {
        await operations.collectAlloc(findAlloc(store, call.param('id')).record.id);
        return {};
      },
    },
  ];
}

async function dispatch(services: Services, call: Call): Promise<DispatchResponse> {
  const body = parseBody(DispatchBody, call.body);
  const payload = body.Payload ?? '';
  const token = body.IdempotencyToken ?? call.query.text('idempotency_token') ?? '';
  const { record } = findJob(services.store, call.param('id'));
  const made = await services.operations.dispatchJob(record.id, {
    payload: payload === '' ? undefined : payload,
    meta: body.Meta ?? {},
    idempotencyToken: token === '' ? undefined : token,
  });
  return {
    DispatchedJobID: made.jobId,
    EvalID: made.evalId,
    EvalCreateIndex: made.beganAfter + 1,
    JobCreateIndex: made.jobModifyIndex,
    Index: made.index,
  };
}

async function force(services: Services, call: Call): Promise<PeriodicForceResponse> {
  const { record } = findJob(services.store, call.param('id'));
  const made = await services.operations.forcePeriodic(record.id);
  return {
    EvalID: made.evalId,
    EvalCreateIndex: made.beganAfter + 1,
    Index: made.index,
    Holdfast: { JobID: made.jobId },
  };
}
