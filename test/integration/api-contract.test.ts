/**
 * The contract of the HTTP API, held against a real agent: the routes that must be there, every field that Nomad's
 * command line reads without a look, and every answer against its schema in openapi.json.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asList, asObject } from '../helpers/api-client.js';
import {
  assertAnswer,
  CONV,
  SHOP,
  SLOW,
  startContractWorld,
  type ContractWorld,
} from '../helpers/contract-world.js';

/** The routes of the contract; `W` is PUT and POST. */
const CONTRACT = `
GET /v1/jobs | W /v1/jobs | GET /v1/job/{id} | DELETE /v1/job/{id} | GET /v1/job/{id}/summary
GET /v1/job/{id}/allocations | GET /v1/job/{id}/evaluations | GET /v1/job/{id}/deployments | GET /v1/job/{id}/versions
W /v1/job/{id}/plan | GET /v1/allocations | GET /v1/allocation/{id} | W /v1/allocation/{id}/stop
W /v1/client/allocation/{id}/restart | W /v1/client/allocation/{id}/signal
GET /v1/client/allocation/{id}/stats | GET /v1/client/allocation/{id}/checks | GET /v1/client/allocation/{id}/exec
GET /v1/client/fs/ls/{id} | GET /v1/client/fs/stat/{id} | GET /v1/client/fs/cat/{id} | GET /v1/client/fs/readat/{id}
GET /v1/client/fs/logs/{id} | GET /v1/client/fs/stream/{id} | GET /v1/client/stats | W /v1/client/gc
GET /v1/nodes | GET /v1/node/{id} | GET /v1/node/{id}/allocations
GET /v1/agent/self | GET /v1/agent/health | GET /v1/agent/members | GET /v1/agent/monitor
GET /v1/evaluation/{id} | GET /v1/evaluation/{id}/allocations | GET /v1/event/stream | GET /v1/metrics
W /v1/search | W /v1/validate/job | GET /v1/status/leader | GET /v1/regions | GET /v1/feed`;

/** What there is beyond it: of Nomad's tools, or ours. */
const BEYOND = `
GET /v1/client/gc | W /v1/system/gc | GET /v1/client/allocation/{id}/gc | W /v1/client/allocation/{id}/gc
W /v1/job/{id}/dispatch | W /v1/job/{id}/periodic/force | GET /v1/job/{id}/deployment
GET /v1/deployments | GET /v1/deployment/{id} | GET /v1/deployment/allocations/{id} | W /v1/deployment/fail/{id}
W /v1/deployment/pause/{id} | W /v1/deployment/promote/{id} | W /v1/deployment/allocation-health/{id}
W /v1/node/{id}/drain | W /v1/node/{id}/eligibility | GET /v1/evaluations | GET /v1/status/peers
GET /v1/holdfast/allocation/{id}/runs | GET /v1/holdfast/allocation/{id}/usage | GET /v1/holdfast/events
GET /v1/holdfast/doctor | W /v1/holdfast/doctor | GET /v1/openapi.json`;

function routesOf(table: string): readonly string[] {
  return table
    .trim()
    .split(/\s*[|\n]\s*/)
    .flatMap((route) =>
      route.startsWith('W ') ? [route.replace('W', 'PUT'), route.replace('W', 'POST')] : [route],
    );
}

const STUB =
  'ID:s Namespace:s JobID:s NodeID:s TaskGroup:s JobVersion:n DesiredStatus:s DesiredDescription:s ClientStatus:s ClientDescription:s CreateTime:n ModifyTime:n NodeName:s CreateIndex:n ModifyIndex:n TaskStates:o';
const ALLOC = `${STUB} Job.Version:n Job.TaskGroups:l Resources.CPU:n Resources.MemoryMB:n Resources.DiskMB:n Metrics:o TaskResources.main.CPU:n TaskResources.main.MemoryMB:n TaskStates.main.State:s TaskStates.main.Failed:b TaskStates.main.Restarts:n TaskStates.main.LastRestart:s TaskStates.main.StartedAt:s TaskStates.main.FinishedAt:s TaskStates.main.Events.[].Type:s TaskStates.main.Events.[].Time:n TaskStates.main.Events.[].DisplayMessage:s TaskStates.main.Events.[].Details:o AllocatedResources.Tasks.main.Cpu.CpuShares:n AllocatedResources.Tasks.main.Memory.MemoryMB:n AllocatedResources.Shared.DiskMB:n`;
/** What an alloc has besides while it runs, with ports. */
const RUNNING =
  'TaskStates.main.Holdfast.InForce:o AllocatedResources.Shared.Networks.[].IP:s AllocatedResources.Shared.Networks.[].Mode:s AllocatedResources.Shared.Networks.[].ReservedPorts:l AllocatedResources.Shared.Networks.[].DynamicPorts.[].Label:s AllocatedResources.Shared.Networks.[].DynamicPorts.[].Value:n AllocatedResources.Shared.Ports.[].Label:s AllocatedResources.Shared.Ports.[].Value:n AllocatedResources.Shared.Ports.[].To:n AllocatedResources.Shared.Ports.[].HostIP:s';
const EVALUATION =
  'ID:s Status:s StatusDescription:s JobID:s NodeID:s DeploymentID:s Wait:n NextEval:s BlockedEval:s CreateIndex:n';
const JOB = 'ID:s Name:s Type:s Priority:n Namespace:s Status:s SubmitTime:n Version:n Stop:b';
const NODE_STUB =
  'ID:s Name:s Address:s Datacenter:s NodePool:s NodeClass:s Version:s Drain:b SchedulingEligibility:s Status:s Drivers:o';
const DEPLOYMENT = 'ID:s JobID:s JobVersion:n Status:s StatusDescription:s TaskGroups:o CreateIndex:n';

/**
 * What Nomad's command line dereferences, by route: `path:type`, where the type is s(tring), n(umber), b(ool), o(bject)
 * or l(ist); none of it may be null. `[]` goes into every element of a list, of which there must be one.
 */
const READS: Readonly<Record<string, string>> = {
  '/v1/jobs': `[].${'ID:s Name:s Namespace:s Type:s Priority:n Periodic:b ParameterizedJob:b Stop:b Status:s SubmitTime:n ParentID:s Datacenters:l CreateIndex:n ModifyIndex:n JobModifyIndex:n JobSummary.JobID:s JobSummary.Namespace:s JobSummary.Summary:o JobSummary.Children:o'.replaceAll(' ', ' [].')}`,
  '/v1/job/{id}': `${JOB} TaskGroups.[].Name:s TaskGroups.[].Count:n TaskGroups.[].Tasks.[].Name:s`,
  '/v1/job/{id}/summary': `JobID:s Namespace:s Children:o ${['Queued', 'Complete', 'Failed', 'Running', 'Starting', 'Lost', 'Unknown'].map((word) => `Summary.front.${word}:n Summary.back.${word}:n`).join(' ')}`,
  '/v1/job/{id}/versions':
    'Versions.[].ID:s Versions.[].Version:n Versions.[].Stable:b Versions.[].SubmitTime:n',
  '/v1/job/{id}/allocations': each(STUB),
  '/v1/job/{id}/evaluations': each(EVALUATION),
  '/v1/job/{id}/deployment': DEPLOYMENT,
  '/v1/job/{id}/deployments': each(DEPLOYMENT),
  '/v1/allocations': each(STUB),
  '/v1/allocation/{id}': `${ALLOC} ${RUNNING}`,
  '/v1/client/allocation/{id}/stats':
    'ResourceUsage.CpuStats:o ResourceUsage.MemoryStats:o Timestamp:n Tasks.main.ResourceUsage.CpuStats.TotalTicks:n Tasks.main.ResourceUsage.CpuStats.Measured:l Tasks.main.ResourceUsage.MemoryStats.RSS:n Tasks.main.ResourceUsage.MemoryStats.Measured:l Tasks.main.Timestamp:n',
  '/v1/evaluation/{id}': EVALUATION,
  '/v1/evaluation/{id}/allocations': each(STUB),
  '/v1/evaluations': each(EVALUATION),
  '/v1/deployments': each(DEPLOYMENT),
  '/v1/deployment/{id}': `${DEPLOYMENT} TaskGroups.g.DesiredTotal:n TaskGroups.g.PlacedAllocs:n TaskGroups.g.HealthyAllocs:n TaskGroups.g.UnhealthyAllocs:n TaskGroups.g.RequireProgressBy:s`,
  '/v1/deployment/allocations/{id}': each(STUB),
  '/v1/nodes': each(NODE_STUB),
  '/v1/node/{id}': `${NODE_STUB} HTTPAddr:s NodeResources.Cpu:o NodeResources.Memory.MemoryMB:n NodeResources.Disk:o ReservedResources.Cpu:o ReservedResources.Memory:o Attributes:o Meta:o Drivers.raw_exec.Healthy:b Drivers.raw_exec.Detected:b`,
  '/v1/node/{id}/allocations': each(
    'Job.TaskGroups:l Resources.CPU:n Resources.MemoryMB:n Resources.DiskMB:n',
  ),
  '/v1/client/stats':
    'Memory.Total:n Memory.Available:n Memory.Used:n Memory.Free:n CPU:l DiskStats:l AllocDirStats.Size:n DeviceStats:l Uptime:n CPUTicksConsumed:n Timestamp:n',
  '/v1/client/fs/ls/{id}': each('Name:s IsDir:b Size:n FileMode:s ModTime:s'),
  '/v1/client/fs/stat/{id}': 'Name:s IsDir:b Size:n FileMode:s ModTime:s',
  '/v1/agent/self':
    'config.Version.Version:s config.Region:s member.Name:s member.Tags:o stats.client.node_id:s',
  '/v1/agent/health': 'client.ok:b client.message:s server.ok:b server.message:s',
  '/v1/agent/members':
    'ServerName:s ServerRegion:s ServerDC:s Members.[].Name:s Members.[].Addr:s Members.[].Port:n Members.[].Tags:o Members.[].Status:s',
};

function each(fields: string): string {
  return fields.replace(/\S+/g, '[].$&');
}

/** Throws unless every field of the list is there and of its type. */
function assertReads(answer: unknown, fields: string, where: string): void {
  for (const field of fields.split(' ')) {
    const [path = '', type = ''] = field.split(':');
    for (const value of valuesAt(answer, path.split('.'), where)) {
      const found = Array.isArray(value) ? 'l' : value === null ? 'null' : (typeof value).charAt(0);
      assert.equal(found, type, `${where}: ${path} is ${JSON.stringify({ value })}`);
    }
  }
}

function valuesAt(value: unknown, [step, ...rest]: readonly string[], where: string): readonly unknown[] {
  if (step === undefined) return [value];
  if (step !== '[]') return valuesAt(asObject(value)[step], rest, where);
  assert.ok(Array.isArray(value) && value.length > 0, `${where}: an empty list`);
  return value.flatMap((one) => valuesAt(one, rest, where));
}

describe('the contract of the API, with a real agent', { timeout: 120_000 }, () => {
  let world: ContractWorld;

  before(async () => {
    world = await startContractWorld();
  });
  after(async () => {
    await world[Symbol.asyncDispose]();
  });

  it('has every route that it must have, and no other that is not known of', () => {
    const served = world.operations.map(({ method, path }) => `${method} ${path}`);
    const expected = [...routesOf(CONTRACT), ...routesOf(BEYOND)];
    assert.deepEqual(
      served.filter((route) => !expected.includes(route)),
      [],
      'add it to the tables above',
    );
    assert.deepEqual(
      expected.filter((route) => !served.includes(route)),
      [],
      'not served',
    );
    assert.equal(new Set(expected).size, expected.length);
  });

  it('answers every read as its schema says, with every field that Nomad’s command line reads', async () => {
    const read: string[] = [];
    for (const { method, path, answer } of world.operations) {
      if (method !== 'GET' || answer === undefined || path.endsWith('/gc')) continue;
      const url = world.url(path);
      const value = await world.agent.get(url);
      assertAnswer(answer, value, url);
      const fields = READS[path];
      if (fields !== undefined) assertReads(value, fields, url);
      read.push(path);
    }
    assert.deepEqual(
      Object.keys(READS).filter((path) => !read.includes(path)),
      [],
    );
  });

  it('tells of what failed, was dispatched and was launched as of everything else', async () => {
    const { agent, ids } = world;
    const failed = await agent.get(`/v1/allocation/${ids.failed}`);
    assertAnswer('Allocation', failed, 'the failed alloc');
    assertReads(failed, ALLOC, 'the failed alloc');
    assert.equal(asObject(failed)['ClientStatus'], 'failed');
    for (const id of [ids.dispatched, 'conv', 'tick', 'slow']) {
      const job = await agent.get(`/v1/job/${encodeURIComponent(id)}`);
      assertAnswer('Job', job, id);
      assertReads(job, READS['/v1/job/{id}'] ?? '', id);
    }
    const launched = asList(await agent.get('/v1/jobs?prefix=tick/'));
    assert.equal(launched.length, 1);
    assert.equal(launched[0]?.['ParentID'], 'tick');
    const running = asObject(await agent.get(`/v1/allocation/${ids.alloc}`));
    assert.deepEqual(asObject(running['DeploymentStatus'])['Healthy'], true);
  });

  it('answers every write as its schema says', async () => {
    const { agent, ids } = world;
    const done = new Set<string>();
    const write = async (
      path: string,
      body: unknown,
      given?: { id?: string; status?: number; method?: string },
    ) => {
      const { status = 200, method = 'PUT', id } = given ?? {};
      const url = id === undefined ? world.url(path) : path.replace('{id}', encodeURIComponent(id));
      const reply = await agent.request(method, url, body);
      assert.equal(reply.status, status, `${url}: ${reply.text}`);
      const operation = world.operations.find((each) => each.method === method && each.path === path);
      if (status === 200) assertAnswer(operation?.answer ?? '', JSON.parse(reply.text), url);
      done.add(`${method} ${path}`);
      return status === 200 ? (JSON.parse(reply.text) as unknown) : {};
    };
    const registered = await write('/v1/jobs', { Job: SHOP });
    assertReads(registered, 'EvalID:s EvalCreateIndex:n JobModifyIndex:n Warnings:s', 'a registration');
    const checked = await write('/v1/validate/job', { Job: SHOP });
    assertReads(checked, 'DriverConfigValidated:b ValidationErrors:l Error:s Warnings:s', 'a validation');
    const plan = await write('/v1/job/{id}/plan', { Job: { ...SHOP, Priority: 60 }, Diff: true });
    assertReads(
      plan,
      'Annotations.DesiredTGUpdates.front.Ignore:n Diff.Type:s Diff.ID:s JobModifyIndex:n NextPeriodicLaunch:s Warnings:s CreatedEvals:l',
      'a plan',
    );
    const dispatched = await write('/v1/job/{id}/dispatch', { Meta: { input: 'y' } });
    assertReads(dispatched, 'DispatchedJobID:s EvalID:s', 'a dispatch');
    assertReads(await write('/v1/job/{id}/periodic/force', {}), 'EvalID:s', 'a launch');
    await write('/v1/client/allocation/{id}/signal', { Signal: 'SIGCONT', Task: 'main' });
    await write('/v1/client/allocation/{id}/restart', { TaskName: 'main' });
    const search = await write('/v1/search', { Prefix: ids.alloc.slice(0, 8), Context: 'all' });
    assertReads(search, 'Matches.allocs:l Truncations.allocs:b', 'a search');
    const changed = await write('/v1/node/{id}/eligibility', { Eligibility: 'eligible' });
    assertReads(changed, 'NodeModifyIndex:n EvalIDs:l EvalCreateIndex:n', 'a node');
    await write('/v1/node/{id}/drain', { DrainSpec: null, MarkEligible: true });
    assertReads(await write('/v1/deployment/pause/{id}', { Pause: true }), 'EvalID:s', 'a pause');
    await write('/v1/deployment/pause/{id}', { Pause: false });
    const [waiting] = asList(await agent.get('/v1/job/slow/allocations'));
    await write('/v1/deployment/allocation-health/{id}', { HealthyAllocationIDs: [waiting?.['ID']] });
    await write('/v1/deployment/promote/{id}', {}, { status: 400 });
    await agent.register({ ...SLOW, Meta: { newer: 'yes' } });
    const deployment = String(asObject(await agent.get('/v1/job/slow/deployment'))['ID']);
    await write('/v1/deployment/fail/{id}', {}, { id: deployment });
    const stopped = await write('/v1/allocation/{id}/stop', {});
    assertReads(stopped, 'EvalID:s Index:n', 'a stop');
    assertAnswer(
      'Evaluation',
      await agent.get(`/v1/evaluation/${String(asObject(stopped)['EvalID'])}`),
      'its evaluation',
    );
    await agent.untilTasks('shop', 'the stopped one is over', (tasks) =>
      tasks.some(({ allocId, state }) => allocId === ids.alloc && state.State === 'dead'),
    );
    await write('/v1/client/allocation/{id}/gc', {});
    await write('/v1/client/gc', undefined, { method: 'GET' });
    await write('/v1/client/gc', {});
    await write('/v1/system/gc', {});
    await write('/v1/holdfast/doctor', {});
    const gone = await write('/v1/job/{id}', undefined, { method: 'DELETE', id: CONV.ID });
    assertReads(gone, 'EvalID:s EvalCreateIndex:n JobModifyIndex:n', 'a stop of a job');
    const left = world.operations
      .filter(({ method, answer }) => method !== 'GET' && method !== 'POST' && answer !== undefined)
      .map(({ method, path }) => `${method} ${path}`)
      .filter((route) => !done.has(route));
    assert.deepEqual(left, [], 'writes that are not tried here');
  });
});
