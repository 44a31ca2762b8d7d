/** A real agent in which there is one of everything that the API tells of, and the ids to ask for it. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import * as answers from '../../src/api/answers.js';
import type { AllocListStub, Deployment, DispatchResponse, Evaluation, Node } from '../../src/api/wire.js';
import { asObject } from './api-client.js';
import { RealAgent } from './real-agent.js';
import { until } from './until.js';

const S = 1e9;

const task = (script: string): object => ({
  Name: 'main',
  Driver: 'raw_exec',
  Config: { command: 'sh', args: ['-c', script] },
});

/** Two groups, of which one comes up by a deployment and one fails for good. */
export const SHOP = {
  ID: 'shop',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'front',
      Count: 2,
      Networks: [{ Mode: 'host', DynamicPorts: [{ Label: 'http' }] }],
      Update: { MaxParallel: 2, HealthCheck: 'task_states', MinHealthyTime: S / 10 },
      Tasks: [task('echo up; exec sleep 1000')],
    },
    {
      Name: 'back',
      RestartPolicy: { Attempts: 0, Mode: 'fail' },
      ReschedulePolicy: { Attempts: 0, Unlimited: false },
      Tasks: [task('echo no >&2; exit 3')],
    },
  ],
};

/** Its deployment waits to be told by hand. */
export const SLOW = {
  ID: 'slow',
  Type: 'service',
  Update: { MaxParallel: 1, HealthCheck: 'manual' },
  TaskGroups: [{ Name: 'g', Tasks: [task('exec sleep 1000')] }],
};

const BATCH = { Type: 'batch', TaskGroups: [{ Name: 'g', Tasks: [task('true')] }] };
export const CONV = { ID: 'conv', ...BATCH, ParameterizedJob: { MetaRequired: ['input'] } };
export const TICK = { ID: 'tick', ...BATCH, Periodic: { Enabled: true, Spec: '0 0 1 1 *' } };

/** One operation of openapi.json. */
export interface Operation {
  readonly method: string;
  /** As `/v1/job/{id}`. */
  readonly path: string;
  readonly query: readonly string[];
  readonly scope: string;
  /** Name of the schema of its answer; undefined: it answers no JSON. */
  readonly answer: string | undefined;
  readonly isSocket: boolean;
}

/** The operations of openapi.json. */
export function operationsIn(document: unknown): readonly Operation[] {
  return Object.entries(asObject(asObject(document)['paths'])).flatMap(([path, methods]) =>
    Object.entries(asObject(methods)).map(([method, operation]) => {
      const { parameters, responses, ...rest } = asObject(operation);
      const { 101: socket, 200: answered } = asObject(responses);
      const content = asObject(answered ?? {})['content'];
      const json = content === undefined ? {} : asObject(asObject(content)['application/json']);
      const ref = json['schema'] === undefined ? undefined : String(asObject(json['schema'])['$ref']);
      return {
        method: method.toUpperCase(),
        path,
        query: (parameters as { name: string; in: string }[])
          .filter((each) => each.in === 'query')
          .map(({ name }) => name),
        scope: String(rest['x-holdfast-scope']),
        answer: ref?.replace(/^.*\//, ''),
        isSocket: socket !== undefined,
      };
    }),
  );
}

const SCHEMAS = new Map(
  Object.values(answers).flatMap((schema) =>
    schema instanceof z.ZodType ? [[answers.ANSWER_SCHEMAS.get(schema)?.id, schema] as const] : [],
  ),
);

/** The answer is what the schema says, and nothing that it does not know. */
export function assertAnswer(name: string, answer: unknown, where: string): void {
  const schema = SCHEMAS.get(name);
  assert.ok(schema !== undefined, `${where}: no schema ${name}`);
  const read = schema.safeParse(answer);
  assert.ok(read.success, `${where}: ${read.success ? '' : z.prettifyError(read.error)}`);
  assert.deepEqual(read.data, answer, `${where}: it says more than its schema ${name}`);
}

export interface ContractWorld extends AsyncDisposable {
  readonly agent: RealAgent;
  readonly operations: readonly Operation[];
  readonly ids: {
    readonly alloc: string;
    /** A failed one. */
    readonly failed: string;
    readonly node: string;
    readonly evaluation: string;
    /** One that still goes on. */
    readonly deployment: string;
    readonly dispatched: string;
  };
  /** The path of an operation with what it needs to be answered. */
  url(path: string): string;
}

export async function startContractWorld(): Promise<ContractWorld> {
  const agent = await RealAgent.start();
  try {
    for (const job of [SHOP, SLOW, CONV, TICK]) await agent.register(job);
    const dispatched = await agent.request('PUT', '/v1/job/conv/dispatch', { Meta: { input: 'x' } });
    assert.equal(dispatched.status, 200, dispatched.text);
    const { DispatchedJobID } = JSON.parse(dispatched.text) as DispatchResponse;
    await agent.request('PUT', '/v1/job/tick/periodic/force', {});
    await agent.untilTasks('shop', 'has come up and failed', (tasks) => {
      const states = tasks.map(({ state }) => state.State);
      return states.filter((state) => state === 'running').length === 2 && states.includes('dead');
    });
    await agent.untilTasks(DispatchedJobID, 'is over', ([one]) => one?.state.State === 'dead');
    await until('the deployment of shop is over', async () => {
      const one = (await agent.get('/v1/job/shop/deployment')) as Deployment | null;
      return one !== null && one.Status !== 'running';
    });
    const list = async <T>(path: string): Promise<readonly T[]> => (await agent.get(path)) as readonly T[];
    const allocs = await list<AllocListStub>('/v1/job/shop/allocations');
    const [node] = await list<Node>('/v1/nodes');
    const evaluations = await list<Evaluation>('/v1/job/shop/evaluations');
    const deployment = (await agent.get('/v1/job/slow/deployment')) as Deployment | null;
    const ids = {
      alloc: allocs.find(({ ClientStatus }) => ClientStatus === 'running')?.ID ?? '',
      failed: allocs.find(({ ClientStatus }) => ClientStatus === 'failed')?.ID ?? '',
      node: node?.ID ?? '',
      evaluation: evaluations.find(({ TriggeredBy }) => TriggeredBy === 'job-register')?.ID ?? '',
      deployment: deployment?.ID ?? '',
      dispatched: DispatchedJobID,
    };
    for (const [name, id] of Object.entries(ids)) assert.notEqual(id, '', name);
    return {
      agent,
      operations: operationsIn(await agent.get('/v1/openapi.json')),
      ids,
      url: (path) => path.replace('{id}', idOf(path, ids)) + queryOf(path),
      [Symbol.asyncDispose]: () => agent.close(),
    };
  } catch (error) {
    await agent.close();
    throw error;
  }
}

function idOf(path: string, ids: ContractWorld['ids']): string {
  if (path.endsWith('/dispatch')) return 'conv';
  if (path.endsWith('/force')) return 'tick';
  if (path.includes('/job/')) return 'shop';
  if (path.includes('/evaluation/')) return ids.evaluation;
  if (path.includes('/deployment/')) return ids.deployment;
  return path.includes('/node/') ? ids.node : ids.alloc;
}

function queryOf(path: string): string {
  if (path.includes('/fs/ls/')) return '?path=alloc/logs';
  if (/\/fs\/(stat|cat|readat|stream)\//.test(path)) {
    return '?path=alloc/logs/main.stdout.0&offset=0&limit=3&follow=false';
  }
  return '';
}
