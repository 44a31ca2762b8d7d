/** The API over a real unix socket: routes and their shapes, as Nomad's tools use them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { asList, asObject, JOB, startApi, type ApiUnderTest, type Json } from '../helpers/api-client.js';
import { deploymentRecord } from '../helpers/records.js';

/** Walks `a.b.c`; every step and the value at the end must be there and not null. */
function mustHave(value: unknown, paths: string): void {
  for (const path of paths.trim().split(/\s+/)) {
    let here: unknown = value;
    for (const step of path.split('.')) {
      here = asObject(here)[step];
      assert.ok(here !== undefined && here !== null, `${path} is missing in ${JSON.stringify(value)}`);
    }
  }
}

describe('api', () => {
  let api: ApiUnderTest;
  let allocId: string;
  let evalId: string;

  before(async () => {
    api = await startApi();
    const reply = await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    assert.equal(reply.status, 200, reply.text);
    evalId = String(asObject(reply.json())['EvalID']);
    allocId = String(asList((await api.ask('/v1/allocations')).json())[0]?.['ID']);
    await api.operations.startTask(allocId, 'server');
  });
  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  const get = async (path: string): Promise<unknown> => {
    const reply = await api.ask(path);
    assert.equal(reply.status, 200, `${path}: ${reply.text}`);
    assert.match(String(reply.headers['content-type']), /^application\/json/);
    return reply.json();
  };

  describe('fields that Nomad’s CLI reads without a look', () => {
    it('of a registration', async () => {
      const reply = asObject((await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } })).json());
      mustHave(reply, 'EvalID EvalCreateIndex JobModifyIndex Warnings Index Holdfast.Version');
      assert.deepEqual(reply['Holdfast'], { Version: 0, Unchanged: true });
    });

    it('of jobs', async () => {
      const [stub] = asList(await get('/v1/jobs?prefix=we'));
      mustHave(
        stub,
        'ID Name Namespace Type Priority Periodic ParameterizedJob Stop Status SubmitTime ParentID Datacenters CreateIndex ModifyIndex JobModifyIndex JobSummary.JobID JobSummary.Namespace JobSummary.Summary.front JobSummary.Children',
      );
      assert.equal(stub?.['Status'], 'running');
      assert.deepEqual(await get('/v1/jobs?prefix=x'), []);
      const job = asObject(await get('/v1/job/web'));
      mustHave(job, 'ID Name Type Priority Namespace Status SubmitTime Version Stop TaskGroups');
      for (const group of asList(job['TaskGroups'])) mustHave(group, 'Name Count Tasks');
      mustHave(
        await get('/v1/job/web/summary'),
        'JobID Namespace Children Summary.front.Queued Summary.front.Complete Summary.front.Failed Summary.front.Running Summary.front.Starting Summary.front.Lost Summary.front.Unknown',
      );
      assert.equal(await get('/v1/job/web/deployment'), null);
      assert.deepEqual(await get('/v1/job/web/deployments'), []);
      mustHave(asObject(await get('/v1/job/web/versions')), 'Versions');
    });

    it('of allocs', async () => {
      const STUB =
        'ID Namespace JobID NodeID TaskGroup JobVersion DesiredStatus DesiredDescription ClientStatus ClientDescription CreateTime ModifyTime CreateIndex ModifyIndex NodeName TaskStates';
      for (const path of ['/v1/allocations', '/v1/job/web/allocations?all=false']) {
        const stubs = asList(await get(path));
        assert.equal(stubs.length, 2);
        for (const stub of stubs) mustHave(stub, STUB);
      }
      const alloc = asObject(await get(`/v1/allocation/${allocId}`));
      mustHave(
        alloc,
        `${STUB} Job.Version Job.TaskGroups Resources.CPU Resources.MemoryMB Resources.DiskMB Metrics`,
      );
      mustHave(alloc['TaskResources'], 'server.CPU server.MemoryMB');
      const state = asObject(asObject(alloc['TaskStates'])['server']);
      mustHave(state, 'State Failed Restarts LastRestart StartedAt FinishedAt Events');
      mustHave(state, 'Holdfast.Phase Holdfast.RunID Holdfast.Pid Holdfast.Attempts');
      for (const event of asList(state['Events'])) mustHave(event, 'Type Time DisplayMessage Details');
      const group = asList(asObject(alloc['Job'])['TaskGroups'])[0];
      assert.equal(group?.['Name'], alloc['TaskGroup']);
    });

    it('of usage', async () => {
      const stats = await get(`/v1/client/allocation/${allocId}/stats`);
      mustHave(stats, 'ResourceUsage.CpuStats.TotalTicks ResourceUsage.MemoryStats.Usage Timestamp');
      mustHave(
        stats,
        'Tasks.server.ResourceUsage.CpuStats.Percent Tasks.server.ResourceUsage.MemoryStats.RSS Tasks.server.Timestamp',
      );
      assert.equal(asObject(asObject(asObject(stats)['ResourceUsage'])['CpuStats'])['TotalTicks'], 250);
    });

    it('of evaluations', async () => {
      const evaluation = asObject(await get(`/v1/evaluation/${evalId}?related=true`));
      mustHave(
        evaluation,
        'ID Status StatusDescription JobID NodeID DeploymentID Wait NextEval BlockedEval CreateIndex',
      );
      assert.equal(evaluation['Status'], 'complete');
      assert.equal(evaluation['DeploymentID'], '');
      const allocs = asList(await get(`/v1/evaluation/${evalId}/allocations`));
      assert.equal(allocs.length, 2);
      for (const alloc of allocs)
        assert.ok(Number(alloc['CreateIndex']) >= Number(evaluation['CreateIndex']));
      assert.ok(asList(await get('/v1/job/web/evaluations')).some(({ ID }) => ID === evalId));
    });

    it('of nodes', async () => {
      const [stub] = asList(await get('/v1/nodes?resources=true'));
      mustHave(
        stub,
        'ID Name Address Datacenter NodePool NodeClass Version Drain SchedulingEligibility Status Drivers.raw_exec.Healthy',
      );
      const id = String(stub?.['ID']);
      const node = asObject(await get(`/v1/node/${id}`));
      mustHave(node, 'NodeResources.Cpu NodeResources.Memory ReservedResources.Cpu ReservedResources.Memory');
      assert.equal(node['HTTPAddr'], '');
      for (const alloc of asList(await get(`/v1/node/${id.slice(0, 8)}/allocations`))) {
        mustHave(alloc, 'Job Resources.CPU Resources.MemoryMB Resources.DiskMB');
      }
    });

    it('of the agent', async () => {
      const self = await get('/v1/agent/self');
      mustHave(self, 'config.Version.Version member.Name member.Tags stats.client.node_id');
      mustHave(await get('/v1/agent/members'), 'ServerName ServerRegion ServerDC Members');
      assert.deepEqual(await get('/v1/agent/health'), {
        client: { ok: true, message: 'ok' },
        server: { ok: true, message: 'ok' },
      });
      assert.equal(await get('/v1/status/leader'), '127.0.0.1:4647');
      assert.deepEqual(await get('/v1/regions'), ['global']);
    });

    it('of the host', async () => {
      mustHave(
        await get('/v1/client/stats?node_id=0de00000'),
        'Memory.Total Memory.Available Memory.Used Memory.Free CPU DiskStats AllocDirStats.Size DeviceStats Uptime Timestamp CPUTicksConsumed',
      );
    });

    it('of a plan', async () => {
      const plan = async (body: object, id = 'web') =>
        await api.ask(`/v1/job/${id}/plan`, { method: 'PUT', body });
      const reply = await plan({ Job: { ...JOB, Priority: 60 }, Diff: true });
      const told = asObject(reply.json());
      mustHave(
        told,
        'Annotations.DesiredTGUpdates.front Diff.Type Diff.ID Diff.Fields Diff.TaskGroups JobModifyIndex Warnings Holdfast.Places',
      );
      assert.equal(asObject(told['Diff'])['Type'], 'Edited');
      assert.equal(asObject((await plan({ Job: JOB })).json())['Diff'], null);
      assert.equal((await plan({ Job: JOB }, 'other')).status, 400);
      assert.equal((await plan({})).status, 400);
    });

    it('of a search', async () => {
      const found = asObject(
        (await api.ask('/v1/search', { method: 'PUT', body: { Prefix: 'we', Context: 'all' } })).json(),
      );
      assert.deepEqual(found['Matches'], { jobs: ['web'] });
      mustHave(found, 'Truncations');
      assert.equal(asObject(found['Truncations'])['allocs'], false);
    });
  });

  it('answers every route of openapi.json, and no answer is empty', async () => {
    const { paths } = asObject(await get('/v1/openapi.json'));
    // What never ends, or is no plain HTTP.
    const deployment = deploymentRecord({ id: 'de000000-0000-4000-8000-000000000001' });
    await api.store.commit([{ kind: 'put_deployment', deployment }]);
    const skipped = new Set([
      '/v1/event/stream',
      '/v1/feed',
      '/v1/agent/monitor',
      '/v1/client/allocation/{id}/exec',
    ]);
    for (const [path, operations] of Object.entries(asObject(paths))) {
      if (!('get' in asObject(operations)) || skipped.has(path)) continue;
      const ids = { '/job/': 'web', evaluation: evalId, '/deployment/': deployment.id, '': allocId };
      const id = Object.entries(ids).find(([part]) => path.includes(part))?.[1] ?? '';
      const url = path.replace('{id}', path.includes('/node/') ? '0de00000' : id);
      const isFile = path.includes('/fs/');
      const reply = await api.ask(isFile ? `${url}?offset=0&limit=1` : url);
      const expected = isFile ? 404 : 200;
      assert.equal(reply.status, expected, `${url}: ${reply.text}`);
      assert.notEqual(reply.text, '', url);
    }
  });

  it('tells attempts and events as they were', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'POST', body: { Job: JOB } });
    const id = String(asList((await own.ask('/v1/allocations')).json())[0]?.['ID']);
    await own.operations.startTask(id, 'server');
    await own.operations.endTask(id, 'server', {
      kind: 'signaled',
      signal: 9,
      coreDumped: false,
      oomKilled: true,
    });
    await own.operations.startTask(id, 'server');
    await own.operations.endTask(id, 'server', {
      kind: 'unknown',
      reason: 'host_rebooted',
      detail: 'host rebooted',
    });
    const runs = asList((await own.ask(`/v1/holdfast/allocation/${id}/runs?task=server`)).json());
    assert.deepEqual(
      runs.map(({ Attempt, Outcome }) => [Attempt, Outcome]),
      [
        [1, 'ended'],
        [2, 'ended'],
      ],
    );
    assert.deepEqual(runs[0]?.['Exit'], {
      Kind: 'signaled',
      Code: null,
      Signal: 9,
      SignalName: 'SIGKILL',
      OOMKilled: true,
      CoreDumped: false,
      Reason: '',
      Text: 'killed by SIGKILL (OOM killed)',
    });
    assert.deepEqual(
      [
        asObject(runs[1]?.['Exit'])['Kind'],
        asObject(runs[1]?.['Exit'])['Code'],
        asObject(runs[1]?.['Exit'])['Reason'],
      ],
      ['unknown', null, 'host_rebooted'],
    );
    const events = asList((await own.ask(`/v1/holdfast/events?alloc=${id.slice(0, 8)}`)).json());
    assert.deepEqual(
      events.map(({ Type, ExitCode, Signal }) => [Type, ExitCode, Signal]),
      [
        ['Started', 0, 0],
        ['Terminated', 137, 9],
        ['Started', 0, 0],
        ['Terminated', -1, 0],
      ],
    );
    assert.equal(asList((await own.ask('/v1/holdfast/events?job=web&limit=2')).json()).length, 2);
    assert.equal((await own.ask('/v1/holdfast/events?since=yesterday')).status, 400);
    assert.equal((await own.ask(`/v1/holdfast/allocation/${id}/runs?task=nobody`)).status, 404);
  });

  it('finds allocs by unique prefix', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const [first] = own.store.listAllocs();
    assert.ok(first !== undefined);
    const twin = { ...first.record, id: `${first.record.id.slice(0, 20)}-twin` };
    await own.store.commit([{ kind: 'put_alloc', alloc: twin }]);
    const prefix = first.record.id.slice(0, 8);
    const both = await own.ask(`/v1/allocation/${prefix}`, { headers: { accept: 'application/json' } });
    assert.equal(both.status, 400);
    assert.equal(asObject(both.json())['Code'], 'ambiguous');
    assert.ok(both.text.includes(first.record.id) && both.text.includes(twin.id), both.text);
    assert.equal((await own.ask(`/v1/allocation/${first.record.id.slice(0, 23)}`)).status, 200);
    assert.equal((await own.ask(`/v1/allocation/${prefix.slice(0, 3)}`)).status, 400);
    assert.equal(
      asList((await own.ask(`/v1/allocations?prefix=${prefix.slice(0, 1)}`)).json()).length >= 2,
      true,
    );
  });

  it('checks the index when asked', async () => {
    await using own = await startApi();
    const put = async (fields: Json): Promise<number> =>
      (await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB, ...fields } })).status;
    assert.equal(await put({ EnforceIndex: true, JobModifyIndex: 5 }), 409);
    assert.equal(await put({ EnforceIndex: true, JobModifyIndex: 0 }), 200);
    assert.equal(await put({ EnforceIndex: true, JobModifyIndex: 0 }), 409);
    assert.equal(await put({ EnforceIndex: false, JobModifyIndex: 0 }), 200);
    const index = own.store.getJob('web')?.modifyIndex;
    assert.equal(await put({ EnforceIndex: true, JobModifyIndex: index }), 200);
  });

  it('validates without registering', async () => {
    const good = asObject(
      (await api.ask('/v1/validate/job', { method: 'PUT', body: { Job: { ...JOB, ID: 'other' } } })).json(),
    );
    assert.deepEqual(good, { DriverConfigValidated: true, ValidationErrors: [], Error: '', Warnings: '' });
    const bad = asObject(
      (await api.ask('/v1/validate/job', { method: 'PUT', body: { Job: { Name: 1 } } })).json(),
    );
    assert.ok(Array.isArray(bad['ValidationErrors']) && bad['ValidationErrors'].length > 0);
    assert.equal((await api.ask('/v1/job/other')).status, 404);
  });

  it('stops, restarts and signals', async () => {
    await using own = await startApi();
    await own.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const id = String(asList((await own.ask('/v1/allocations')).json())[0]?.['ID']);
    const put = (path: string, body: Json = {}) => own.ask(path, { method: 'PUT', body });
    assert.equal((await put(`/v1/client/allocation/${id}/restart`, { TaskName: '' })).status, 409);
    await own.operations.startTask(id, 'server');
    const restarted = await put(`/v1/client/allocation/${id}/restart`, { TaskName: 'server' });
    assert.deepEqual([restarted.status, restarted.text], [200, '{}']);
    const signaled = await put(`/v1/client/allocation/${id}/signal`, {
      AllocID: id,
      Signal: 'SIGHUP',
      Task: '',
    });
    assert.deepEqual([signaled.status, signaled.text], [200, '{}']);
    const stopped = asObject((await put(`/v1/allocation/${id}/stop?no_shutdown_delay=true`)).json());
    assert.equal((await own.ask(`/v1/evaluation/${String(stopped['EvalID'])}`)).status, 200);
    assert.equal(asList((await own.ask('/v1/allocations')).json()).length, 3);
    const gone = await own.ask('/v1/job/web?purge=true', { method: 'DELETE' });
    mustHave(gone.json(), 'EvalID EvalCreateIndex JobModifyIndex');
    assert.equal((await own.ask('/v1/job/web')).status, 404);
    assert.deepEqual(asList((await own.ask('/v1/job/web/allocations')).json()), []);
  });

  it('cuts lists into pages and picks by filter', async () => {
    await using own = await startApi();
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
      await own.ask('/v1/jobs', { method: 'PUT', body: { Job: { ...JOB, ID: id, Name: id } } });
    }
    const seen: unknown[] = [];
    let token: string | undefined = '';
    while (token !== undefined) {
      const page = await own.ask(`/v1/jobs?per_page=2&next_token=${token}`);
      seen.push(asList(page.json()).map(({ ID }) => ID));
      const next = page.headers['x-nomad-nexttoken'];
      token = typeof next === 'string' ? next : undefined;
    }
    assert.deepEqual(seen, [['a', 'b'], ['c', 'd'], ['e']]);
    const filter = encodeURIComponent('JobID == "c" and DesiredStatus != "stop"');
    const picked = asList((await own.ask(`/v1/allocations?filter=${filter}`)).json());
    assert.deepEqual(new Set(picked.map(({ JobID }) => JobID)), new Set(['c']));
    for (const bad of ['filter=a+matches+"b"', 'filter=Nope==1', 'per_page=x']) {
      assert.equal((await own.ask(`/v1/jobs?${bad}`)).status, 400, bad);
    }
  });

  it('pretty-prints when asked', async () => {
    assert.match((await api.ask('/v1/regions?pretty')).text, /^\[\n {4}"global"\n\]$/);
  });
});
