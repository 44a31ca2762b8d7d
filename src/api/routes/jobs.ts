/** Owns the routes of jobs: registering, reading, stopping. */
import { z } from 'zod';
import { AgentError } from '../../base/errors.js';
import * as answers from '../answers.js';
import { JOB_IN_BODY, readJob, validateJob } from '../job-body.js';
import { findJob } from '../lookup.js';
import type { JobChange } from '../operations.js';
import { planToWire } from '../plan-view.js';
import { parseBody } from '../query.js';
import { WRITE, type Call, type Route } from '../route.js';
import type { Services } from '../services.js';
import type { PlanResponse, RegisterResponse } from '../wire.js';

/** Tools send more than we look at (Submission, PolicyOverride …): the envelope is open, the job inside is not. */
const RegisterBody = z.looseObject({
  Job: JOB_IN_BODY.optional(),
  EnforceIndex: z.boolean().nullish(),
  JobModifyIndex: z.int().nonnegative().nullish(),
});

const PlanBody = z.looseObject({ Job: JOB_IN_BODY.optional(), Diff: z.boolean().nullish() });

const ValidateBody = z.looseObject({ Job: JOB_IN_BODY.optional() });

export function jobRoutes(services: Services): readonly Route[] {
  const { store, view, evaluations } = services;
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/jobs',
      summary: 'Lists jobs',
      answer: answers.JobList,
      list: 'id',
      query: ['prefix'],
      watch: () => 'jobs',
      handle: ({ query }) => view.jobs(query.text('prefix') ?? ''),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/jobs',
      summary: 'Registers a job: creates it, makes a new version, or does nothing when it is the same',
      answer: answers.JobChanged,
      body: RegisterBody,
      handle: (call) => register(services, call),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'read',
      path: '/v1/validate/job',
      summary: 'Checks a job without registering it',
      answer: answers.Validation,
      body: ValidateBody,
      handle: ({ body }) => validateJob(parseBody(ValidateBody, body).Job),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id',
      summary: 'Reads a job',
      answer: answers.Job,
      watch: (call) => `job/${call.param('id')}`,
      handle: (call) => view.job(findJob(store, call.param('id'))),
    },
    {
      kind: 'json',
      methods: ['DELETE'],
      scope: 'operate',
      path: '/v1/job/:id',
      summary: 'Stops a job, and with purge forgets it once its allocs have ended',
      answer: answers.JobChanged,
      query: ['purge', 'no_shutdown_delay'],
      handle: (call) => stop(services, call),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'read',
      path: '/v1/job/:id/plan',
      summary: 'Says what registering a job would do, without doing it',
      answer: answers.Plan,
      body: PlanBody,
      handle: (call) => plan(services, call),
    },
    ...jobPartRoutes(services),
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/evaluations',
      summary: 'Lists the evaluations of a job, newest first',
      answer: answers.EvaluationList,
      list: 'created',
      watch: (call) => `evaluations/${call.param('id')}`,
      handle: (call) => evaluations.list({ jobId: call.param('id') }),
    },
  ];
}

function jobPartRoutes({ store, view }: Services): readonly Route[] {
  const watch = (call: Call): `job/${string}` => `job/${call.param('id')}`;
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/summary',
      summary: 'Counts the allocs of a job by group and status',
      answer: answers.JobSummary,
      watch,
      handle: (call) => view.jobSummary(findJob(store, call.param('id'))),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/allocations',
      summary: 'Lists the allocs of a job',
      answer: answers.AllocList,
      list: 'created',
      watch,
      handle: (call) => view.allocStubs({ jobId: call.param('id') }),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/versions',
      summary: 'Lists the versions of a job, newest first',
      answer: answers.JobVersions,
      watch,
      handle: (call) => view.jobVersions(findJob(store, call.param('id'))),
    },
  ];
}

async function register(services: Services, { body }: Call): Promise<RegisterResponse> {
  const request = parseBody(RegisterBody, body);
  const { job, warnings } = readJob(present(request.Job));
  const change = await services.operations.registerJob(
    job,
    request.EnforceIndex === true ? { checkIndex: request.JobModifyIndex ?? 0 } : {},
  );
  return { ...answerChange(change), Warnings: warnings };
}

function plan({ operations }: Services, call: Call): PlanResponse {
  const request = parseBody(PlanBody, call.body);
  const { job, warnings } = readJob(present(request.Job));
  if (job.id !== call.param('id')) {
    throw new AgentError(
      'bad_request',
      `the path is of job ${JSON.stringify(call.param('id'))}, the body of ${JSON.stringify(job.id)}`,
    );
  }
  return planToWire(operations.planJob(job), { warnings, withDiff: request.Diff === true });
}

/** @throws AgentError bad_request */
function present(job: unknown): unknown {
  if (job !== undefined && job !== null) return job;
  throw new AgentError('bad_request', 'body: Job is missing: send {"Job": {…}}');
}

async function stop(services: Services, call: Call): Promise<RegisterResponse> {
  const { id } = findJob(services.store, call.param('id')).record;
  const change = await services.operations.stopJob(id, {
    purge: call.query.flag('purge'),
    noShutdownDelay: call.query.flag('no_shutdown_delay'),
  });
  return answerChange(change);
}

function answerChange(change: JobChange): RegisterResponse {
  return {
    EvalID: change.evalId,
    EvalCreateIndex: change.beganAfter + 1,
    JobModifyIndex: change.jobModifyIndex,
    Warnings: '',
    Index: change.index,
    Holdfast: { Version: change.version, Unchanged: change.unchanged },
  };
}
