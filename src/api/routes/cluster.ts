/** Owns the routes that make one host look like a cluster of one: nodes, evaluations, agent, search. */
import { z } from 'zod';
import * as answers from '../answers.js';
import { hostUsageToWire } from '../host-view.js';
import { pickByPrefix } from '../lookup.js';
import {
  agentSelfToWire,
  healthToWire,
  memberToWire,
  nodeToStub,
  nodeToWire,
  DATACENTER,
  REGION,
} from '../node-view.js';
import type { DrainRequest } from '../../scheduler/drainer.js';
import { parseBody } from '../query.js';
import { WRITE, type Call, type Route } from '../route.js';
import type { Services } from '../services.js';
import type { AllocListStub, Evaluation, Node, NodeUpdateResponse, SearchResponse } from '../wire.js';

/** The address Nomad's tools show for the leader; nothing listens there. */
const LEADER = '127.0.0.1:4647';
/** As many as Nomad gives before it says `truncated`. */
const MOST_MATCHES = 20;

const SearchBody = z.looseObject({ Prefix: z.string().default(''), Context: z.string().default('all') });

const DrainSpecBody = z.looseObject({
  Deadline: z.int().default(0),
  IgnoreSystemJobs: z.boolean().nullish(),
});

const DrainBody = z.looseObject({ DrainSpec: DrainSpecBody.nullish(), MarkEligible: z.boolean().nullish() });

const EligibilityBody = z.looseObject({ Eligibility: z.enum(['eligible', 'ineligible']) });

export function nodeRoutes({ store, operations, view }: Services): readonly Route[] {
  const findNode = (call: Call): Node =>
    pickByPrefix('node', call.param('id'), [nodeToWire(operations)], ({ ID }) => ID);
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/nodes',
      summary: 'Lists nodes: this host',
      answer: answers.NodeList,
      list: 'id',
      query: ['prefix'],
      watch: () => 'node',
      handle: ({ query }) =>
        [nodeToStub(operations)].filter(({ ID }) => ID.startsWith(query.text('prefix') ?? '')),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/node/:id',
      summary: 'Reads a node',
      answer: answers.Node,
      watch: () => 'node',
      handle: findNode,
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/node/:id/allocations',
      summary: 'Lists the allocs on a node, in full',
      answer: answers.FullAllocList,
      list: 'created',
      watch: () => 'allocs',
      handle: (call) => {
        findNode(call);
        return store.listAllocs().map((alloc) => view.alloc(alloc));
      },
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/node/:id/drain',
      summary: 'Begins to drain this host (DrainSpec), or ends it (no DrainSpec; MarkEligible)',
      answer: answers.NodeChanged,
      body: DrainBody,
      handle: async (call) => {
        findNode(call);
        const { DrainSpec, MarkEligible } = parseBody(DrainBody, call.body);
        if (DrainSpec == null) await operations.endDrain({ keepIneligible: MarkEligible !== true });
        else await operations.drain(readDrainSpec(DrainSpec));
        return nodeUpdated(store.index());
      },
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/node/:id/eligibility',
      summary: 'Says whether this host takes new allocs: Eligibility is eligible or ineligible',
      answer: answers.NodeChanged,
      body: EligibilityBody,
      handle: async (call) => {
        findNode(call);
        const { Eligibility } = parseBody(EligibilityBody, call.body);
        await operations.setEligible(Eligibility === 'eligible');
        return nodeUpdated(store.index());
      },
    },
  ];
}

/** As Nomad counts: 0 = no deadline, negative = at once. */
function readDrainSpec({ Deadline, IgnoreSystemJobs }: z.infer<typeof DrainSpecBody>): DrainRequest {
  const deadlineMs = Deadline === 0 ? undefined : Math.max(0, Math.round(Deadline / 1e6));
  return { deadlineMs, ignoreSystemJobs: IgnoreSystemJobs ?? false };
}

function nodeUpdated(index: number): NodeUpdateResponse {
  return { NodeModifyIndex: index, EvalIDs: [], EvalCreateIndex: 0 };
}

export function hostRoutes({ operations }: Services): readonly Route[] {
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/stats',
      summary: 'Says what this host uses: memory, processors, uptime, the disk of the data dir',
      answer: answers.HostStats,
      handle: async () => hostUsageToWire(await operations.hostUsage(), operations.node()),
    },
  ];
}

export function evaluationRoutes({ view, evaluations }: Services): readonly Route[] {
  const find = (call: Call): Evaluation =>
    pickByPrefix('evaluation', call.param('id'), evaluations.list(), ({ ID }) => ID);
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/evaluations',
      summary: 'Lists the newest evaluations, newest first',
      answer: answers.EvaluationList,
      list: 'created',
      query: ['prefix'],
      watch: () => 'evaluations',
      handle: ({ query }) => evaluations.list().filter(({ ID }) => ID.startsWith(query.text('prefix') ?? '')),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/evaluation/:id',
      summary: 'Reads an evaluation',
      answer: answers.Evaluation,
      watch: (call) => `evaluations/${find(call).ID}`,
      handle: find,
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/evaluation/:id/allocations',
      summary: 'Lists the allocs that an evaluation has touched',
      answer: answers.AllocList,
      list: 'created',
      handle: (call): readonly AllocListStub[] => {
        const { JobID, CreateIndex } = find(call);
        return view.allocStubs({ jobId: JobID }).filter(({ ModifyIndex }) => ModifyIndex >= CreateIndex);
      },
    },
  ];
}

export function agentRoutes({ store, operations }: Services): readonly Route[] {
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/agent/self',
      summary: 'Says who this agent is',
      answer: answers.Self,
      handle: () => agentSelfToWire(operations),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/agent/health',
      summary: 'Says whether the agent is well: 200, or 500 while the disk refuses writes',
      answer: answers.Health,
      status: () => (store.trouble() === undefined ? 200 : 500),
      handle: () => healthToWire(operations, store.trouble()),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/agent/members',
      summary: 'Lists the members of the cluster: this agent',
      answer: answers.Members,
      handle: () => ({
        ServerName: operations.node().name,
        ServerRegion: REGION,
        ServerDC: DATACENTER,
        Members: [memberToWire(operations.node())],
      }),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/status/leader',
      summary: 'Says who leads',
      answer: answers.Text,
      handle: () => LEADER,
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/status/peers',
      summary: 'Lists those who could lead',
      answer: answers.TextList,
      handle: () => [LEADER],
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/regions',
      summary: 'Lists regions',
      answer: answers.TextList,
      handle: () => [REGION],
    },
  ];
}

export function searchRoutes(services: Services): readonly Route[] {
  return [
    {
      kind: 'json',
      methods: WRITE,
      scope: 'read',
      path: '/v1/search',
      summary: 'Finds jobs, allocs, nodes and evaluations whose id begins so',
      answer: answers.Search,
      body: SearchBody,
      handle: ({ body }) => search(services, parseBody(SearchBody, body)),
    },
  ];
}

function search(services: Services, asked: z.infer<typeof SearchBody>): SearchResponse {
  const { store, operations, evaluations } = services;
  const ids: Readonly<Record<string, () => readonly string[]>> = {
    allocs: () => store.listAllocs().map(({ record }) => record.id),
    deployment: () => store.listDeployments().map(({ record }) => record.id),
    evals: () => evaluations.list().map(({ ID }) => ID),
    jobs: () => store.listJobs().map(({ record }) => record.id),
    nodes: () => [operations.node().nodeId],
  };
  const matches: Record<string, readonly string[]> = {};
  const truncations: Record<string, boolean> = {};
  for (const [context, list] of Object.entries(ids)) {
    if (asked.Context !== 'all' && asked.Context !== '' && asked.Context !== context) continue;
    const found = list().filter((id) => id.startsWith(asked.Prefix));
    if (found.length > 0) matches[context] = found.slice(0, MOST_MATCHES);
    truncations[context] = found.length > MOST_MATCHES;
  }
  return { Matches: matches, Truncations: truncations };
}
