/** Owns the routes of deployments: reading them, failing, pausing, and saying by hand how an alloc is. */
import { z } from 'zod';
import { AgentError } from '../../base/errors.js';
import type { DeploymentRecord, Indexed } from '../../state/store.js';
import * as answers from '../answers.js';
import { findAlloc, findJob, pickByPrefix } from '../lookup.js';
import type { DeploymentChange } from '../operations.js';
import { parseBody } from '../query.js';
import { WRITE, type Call, type Route } from '../route.js';
import { deploymentToWire } from '../scheduling-to-wire.js';
import type { Services } from '../services.js';
import type { AllocListStub, Deployment, DeploymentUpdateResponse } from '../wire.js';

/** Tools send the id once more. */
const NothingAsked = z.looseObject({});
const PauseBody = z.looseObject({ Pause: z.boolean() });
const HealthBody = z.looseObject({
  HealthyAllocationIDs: z.array(z.string()).nullish(),
  UnhealthyAllocationIDs: z.array(z.string()).nullish(),
});

export function deploymentRoutes(services: Services): readonly Route[] {
  const { operations } = services;
  return [
    ...readRoutes(services),
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/deployment/fail/:id',
      body: NothingAsked,
      summary: 'Fails a deployment, and goes back to the last good version when its groups ask for it',
      answer: answers.DeploymentChanged,
      handle: async (call) => toResponse(await operations.failDeployment(find(services, call).record.id)),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/deployment/pause/:id',
      summary: 'Lets a deployment wait, or go on: {"Pause": true}',
      answer: answers.DeploymentChanged,
      body: PauseBody,
      handle: async (call) => {
        const { Pause } = parseBody(PauseBody, call.body);
        return toResponse(await operations.pauseDeployment(find(services, call).record.id, Pause));
      },
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/deployment/promote/:id',
      body: NothingAsked,
      summary: 'Always refused: there are no canaries on one host',
      answer: answers.DeploymentChanged,
      handle: (call) => {
        const { record } = find(services, call);
        throw new AgentError(
          'bad_request',
          `deployment ${record.id} has no canaries to promote: it goes on by itself`,
        );
      },
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/deployment/allocation-health/:id',
      summary: 'Says how allocs of a deployment are, for health_check = "manual"',
      answer: answers.DeploymentChanged,
      body: HealthBody,
      handle: async (call) => {
        const body = parseBody(HealthBody, call.body);
        const ids = (given: readonly string[] | null | undefined): readonly string[] =>
          (given ?? []).map((id) => findAlloc(services.store, id).record.id);
        const change = await operations.setAllocHealth(find(services, call).record.id, {
          healthy: ids(body.HealthyAllocationIDs),
          unhealthy: ids(body.UnhealthyAllocationIDs),
        });
        return toResponse(change);
      },
    },
  ];
}

function readRoutes(services: Services): readonly Route[] {
  const { store, view } = services;
  const ofJob = (call: Call): readonly Deployment[] =>
    store
      .listDeployments({ jobId: findJob(store, call.param('id')).record.id })
      .map(toWire)
      .reverse();
  const watchJob = (call: Call): `deployments/${string}` => `deployments/${call.param('id')}`;
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/deployments',
      summary: 'Lists deployments, newest first',
      answer: answers.DeploymentList,
      list: 'created',
      query: ['prefix'],
      watch: () => 'deployments',
      handle: ({ query }) =>
        store
          .listDeployments()
          .filter(({ record }) => record.id.startsWith(query.text('prefix') ?? ''))
          .map(toWire)
          .reverse(),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/deployment/:id',
      summary: 'Reads a deployment',
      answer: answers.Deployment,
      watch: (call) => `deployments/${find(services, call).record.id}`,
      handle: (call) => toWire(find(services, call)),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/deployment/allocations/:id',
      summary: 'Lists the allocs of a deployment',
      answer: answers.AllocList,
      watch: () => 'allocs',
      handle: (call): readonly AllocListStub[] => {
        const { id, jobId } = find(services, call).record;
        return view.allocStubs({ jobId }).filter(({ DeploymentID }) => DeploymentID === id);
      },
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/deployments',
      summary: 'Lists the deployments of a job, newest first',
      answer: answers.DeploymentList,
      list: 'created',
      watch: watchJob,
      handle: ofJob,
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/job/:id/deployment',
      summary: 'Reads the newest deployment of a job; null when there is none',
      answer: answers.DeploymentOrNone,
      watch: watchJob,
      handle: (call) => ofJob(call)[0] ?? null,
    },
  ];
}

function find({ store }: Services, call: Call): Indexed<DeploymentRecord> {
  return pickByPrefix('deployment', call.param('id'), store.listDeployments(), ({ record }) => record.id);
}

function toWire({ record, ...indexes }: Indexed<DeploymentRecord>): Deployment {
  return deploymentToWire(record, indexes);
}

function toResponse(change: DeploymentChange): DeploymentUpdateResponse {
  return {
    EvalID: change.evalId,
    EvalCreateIndex: change.beganAfter + 1,
    DeploymentModifyIndex: change.index,
    RevertedJobVersion: change.revertedTo ?? null,
    Index: change.index,
  };
}
