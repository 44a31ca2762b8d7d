/** The metrics as Prometheus reads them, over a real socket, with tasks that end in every way. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import { asList, JOB, startApi, type ApiUnderTest } from '../helpers/api-client.js';

/** Lines of the text format as `name{labels}` → value; every other line must be a comment. */
function parseMetrics(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const parsed = /^([a-z_]+(?:\{.*\})?) (-?[\d.e+-]+)$/.exec(line);
    assert.ok(parsed, `no metric: ${line}`);
    assert.ok(!found.has(parsed[1] ?? ''), `twice: ${line}`);
    found.set(parsed[1] ?? '', Number(parsed[2]));
  }
  return found;
}

describe('metrics', { timeout: 60_000 }, () => {
  let api: ApiUnderTest;
  let allocId: string;
  const scrape = async (): Promise<ReadonlyMap<string, number>> => {
    const reply = await api.ask('/v1/metrics?format=prometheus');
    assert.equal(reply.status, 200);
    assert.match(String(reply.headers['content-type']), /^text\/plain; version=0\.0\.4/);
    return parseMetrics(reply.text);
  };

  before(async () => {
    api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    allocId = String(asList((await api.ask('/v1/allocations')).json())[0]?.['ID']);
  });
  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  it('counts starts and ends by kind, OOM kills apart', async () => {
    const before = await scrape();
    assert.equal(before.get('holdfast_client_allocs_exit_total{kind="failed"}'), 0);
    const { operations } = api;
    const killed = { kind: 'signaled', signal: 9, coreDumped: false } as const;
    for (const result of [
      { kind: 'exited', code: 0, oomKilled: false },
      { kind: 'exited', code: 3, oomKilled: false },
      { ...killed, oomKilled: false },
      { ...killed, oomKilled: true },
      { kind: 'unknown', reason: 'host_rebooted', detail: '' },
    ] as const) {
      await operations.startTask(allocId, 'server');
      await operations.endTask(allocId, 'server', result);
    }
    await operations.addEvent(allocId, 'server', { type: 'Restarting', reason: 'why', delayMs: 1 });
    const after = await scrape();
    const exits = ['succeeded', 'failed', 'signaled', 'unknown'].map((kind) =>
      after.get(`holdfast_client_allocs_exit_total{kind="${kind}"}`),
    );
    assert.deepEqual(exits, [1, 1, 2, 1]);
    assert.equal(after.get('holdfast_client_allocs_start_total'), 5);
    assert.equal(after.get('holdfast_client_allocs_restart_total'), 1);
    assert.equal(after.get('holdfast_client_allocs_oom_killed_total'), 1);
    assert.ok(
      (after.get('holdfast_store_commits_total') ?? 0) > (before.get('holdfast_store_commits_total') ?? 0),
    );
  });

  it('has series of a task only while it runs', async () => {
    const labels = `{namespace="default",alloc_id="${allocId}",job="web",task_group="front",task="server"}`;
    const name = `holdfast_client_allocs_memory_usage${labels}`;
    assert.equal((await scrape()).has(name), false);
    await api.operations.startTask(allocId, 'server');
    const running = await scrape();
    assert.equal(running.get(name), 8 * 2 ** 20);
    assert.equal(running.get(`holdfast_client_allocs_memory_allocated${labels}`), 256 * 2 ** 20);
    assert.equal(running.get(`holdfast_client_allocs_cpu_throttled_seconds_total${labels}`), 0.12);
    assert.equal(running.get(`holdfast_client_allocs_restarts${labels}`), 0);
    assert.equal(running.get('holdfast_client_tasks{state="running"}'), 1);
    await api.operations.endTask(allocId, 'server', { kind: 'exited', code: 0, oomKilled: false });
    assert.equal((await scrape()).has(name), false);
  });

  it('tells of the host and of the agent itself', async () => {
    const found = await scrape();
    assert.ok((found.get('holdfast_client_host_memory_total') ?? 0) > 0);
    assert.ok((found.get('holdfast_agent_resident_memory_bytes') ?? 0) > 0);
    assert.ok((found.get('holdfast_agent_event_loop_lag_seconds') ?? -1) >= 0);
    assert.equal(found.get('holdfast_agent_feed_readers'), 0);
    assert.equal(found.get('holdfast_store_kept_changes'), 0);
    const reader = api.feed('?snapshot=true');
    await until('the reader is heard', () => reader.said().length > 0);
    assert.equal((await scrape()).get('holdfast_agent_feed_readers'), 1);
    reader.socket.close();
    await until('the reader is gone', async () => (await scrape()).get('holdfast_agent_feed_readers') === 0);
  });

  it('refuses another format', async () => {
    assert.equal((await api.ask('/v1/metrics?format=statsd')).status, 400);
  });
});
