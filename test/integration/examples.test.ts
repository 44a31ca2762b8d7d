/** Every file of examples/ runs, as a user would run it, and comes to what it says it comes to. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { InForceJson, Node } from '../../src/api/wire.js';
import { parseCores } from '../../src/executor/cores.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const EXAMPLES = fileURLToPath(new URL('../../../examples', import.meta.url));

const MIB = 2 ** 20;
const run = ({ state }: TaskView): boolean => state.State === 'running';
const complete = ({ state }: TaskView): boolean => state.State === 'dead' && !state.Failed;
const failed = ({ state }: TaskView): boolean => state.State === 'dead' && state.Failed;

/** What each file comes to, by task; and the exit code of `holdfast run`. */
const EXPECTED: Readonly<
  Record<
    string,
    { readonly code: number; readonly tasks: Readonly<Record<string, (view: TaskView) => boolean>> }
  >
> = {
  'batch.hcl': { code: 0, tasks: { count: complete } },
  'checks.hcl': { code: 0, tasks: { server: run } },
  'crashing.hcl': { code: 1, tasks: { boom: failed } },
  'demo.hcl': { code: 0, tasks: { server: run, ticker: run, fickle: run } },
  'isolated.hcl': { code: 0, tasks: { probe: complete } },
  // Patterns run nothing until they are launched: below.
  'parameterized.hcl': { code: 0, tasks: {} },
  'periodic.hcl': { code: 0, tasks: {} },
  'mock.hcl': { code: 1, tasks: { fine: complete, late: failed } },
  'rolling-update.hcl': { code: 0, tasks: { greet: run } },
  'stages.hcl': {
    code: 0,
    tasks: { prepare: complete, clock: complete, work: complete, tidy: complete },
  },
  'templates.hcl': { code: 0, tasks: { show: complete } },
  'terminal.hcl': { code: 0, tasks: { paint: complete } },
  'two-tasks.hcl': { code: 0, tasks: { writer: run, reader: run } },
  'web.hcl': { code: 0, tasks: { server: run } },
  'web.json': { code: 0, tasks: { server: run } },
  'web.yaml': { code: 0, tasks: { server: run } },
};

/** Whether this host and user can keep the limits of isolated.hcl; the file says who cannot. */
async function canLimit(agent: RealAgent): Promise<boolean> {
  const [{ ID: id } = { ID: '' }] = (await agent.get('/v1/nodes')) as readonly { readonly ID: string }[];
  const { Holdfast, Attributes } = (await agent.get(`/v1/node/${id}`)) as Node;
  const wanted = ['memory', 'swap', 'CPU time', 'processes', 'disk I/O'].map((what) => `limit ${what}`);
  const can = new Set(Holdfast.Capabilities.filter(({ Available }) => Available).map(({ Name }) => Name));
  return (
    [...wanted, 'reserve cores'].every((name) => can.has(name)) && Number(Attributes['cpu.numcores']) > 1
  );
}

/** A port that was free a moment ago: copies of this test run side by side. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  assert.ok(address !== null && typeof address === 'object');
  return address.port;
}

describe('examples/', () => {
  it('has an expectation for every file, and no other', () => {
    assert.deepEqual(readdirSync(EXAMPLES).sort(), Object.keys(EXPECTED).sort());
  });

  for (const [name, { code, tasks: expected }] of Object.entries(EXPECTED)) {
    it(`${name} runs`, async () => {
      await using agent = await RealAgent.start();
      const file = join(agent.dir, name);
      const text = readFileSync(join(EXAMPLES, name), 'utf8');
      writeFileSync(file, text.replaceAll('8080', String(await freePort())));
      const needsMore = name === 'isolated.hcl' && !(await canLimit(agent));
      const options = needsMore ? ['-var', 'limits=false'] : [];
      const said = await agent.cli(['run', ...options, file]);
      assert.equal(said.code, code, said.stdout + said.stderr);
      const [{ ID: id } = { ID: '' }] = (await agent.get('/v1/jobs')) as readonly { readonly ID: string }[];
      const tasks = await agent.untilTasks(id, 'comes to what it shall', (seen) =>
        seen.every((view) => expected[view.task]?.(view) ?? false),
      );
      assert.deepEqual([...new Set(tasks.map(({ task }) => task))].sort(), Object.keys(expected).sort());
    });
  }

  it('isolated.hcl shows in status and inspect what it really got', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-isolated-'));
    try {
      writeFileSync(join(dir, 'seen-from-inside'), '');
      chmodSync(dir, 0o755);
      const config = join(dir, 'agent.yaml');
      writeFileSync(config, JSON.stringify({ host_volume: { offered: { path: dir } } }));
      await using agent = await RealAgent.start({ args: ['--config', config] });
      const file = join(EXAMPLES, 'isolated.hcl');
      const hasLimits = await canLimit(agent);
      const options = ['volume=offered', 'seconds=600', `limits=${String(hasLimits)}`];
      const said = await agent.cli(['run', '--detach', ...options.flatMap((set) => ['-var', set]), file]);
      assert.equal(said.code, 0, said.stdout + said.stderr);
      await agent.untilTasks('isolated', 'runs', (seen) => seen.length === 1 && seen.every(run));
      const [status, inspected] = await Promise.all([
        agent.cli(['status', 'isolated']),
        agent.cli(['inspect', 'isolated/box/probe']),
      ]);
      const shown = status.stdout.replace(/\s+/g, ' ');
      assert.match(shown, /isolation: own mount pid ipc uts cgroup net/);
      const { Holdfast } = JSON.parse(inspected.stdout) as {
        Holdfast: { Running: readonly { InForce: InForceJson }[] };
      };
      const [{ InForce: got } = { InForce: undefined }] = Holdfast.Running;
      assert.ok(got !== undefined && got.Process !== null, inspected.stdout);
      assert.deepEqual(got.Process.OwnNamespaces.slice(0, 6), [
        'mount',
        'pid',
        'ipc',
        'uts',
        'cgroup',
        'net',
      ]);
      assert.deepEqual(got.Process.Capabilities.Bounding, ['net_bind_service']);
      assert.deepEqual([got.Process.NoNewPrivs, got.Process.Seccomp], [true, 'filter']);
      const { Umask, Nice, OOMScoreAdj, Rlimits } = got.Process;
      assert.deepEqual([Umask, Nice, OOMScoreAdj], ['0027', 5, 100]);
      assert.deepEqual(Rlimits['nofile'], { Soft: 256, Hard: 512 });
      assert.deepEqual(Rlimits['nproc'], { Soft: 5000, Hard: 5000 });
      assert.deepEqual(Rlimits['core'], { Soft: 0, Hard: 0 });
      if (hasLimits) {
        assert.equal(got.Process.User, 'nobody');
        const { MemoryMaxBytes, MemoryReserveBytes, SwapMaxBytes, CPUPercent, Pids } = got.Limits;
        assert.deepEqual([MemoryMaxBytes, MemoryReserveBytes, SwapMaxBytes], [128 * MIB, 64 * MIB, 32 * MIB]);
        assert.deepEqual([CPUPercent, Pids], [80, 50]);
        assert.deepEqual([got.Limits.IOReadBps, got.Limits.IOWriteBps], [50 * MIB, 20 * MIB]);
        assert.equal(parseCores(got.Limits.CPUs ?? '').length, 1);
        assert.match(
          shown,
          /limits memory 128 MiB, swap 32 MiB, cpu 80%, cores \d+, pids 50, reads 50 MiB\/s, writes 20 MiB\/s/,
        );
      }
      let stdout = '';
      await until('all is said', async () => {
        ({ stdout } = await agent.cli(['logs', 'isolated']));
        return stdout.includes('seen-from-inside');
      });
      assert.match(stdout, /open files: 256, umask 0?027/);
      if (hasLimits) assert.ok(stdout.includes(`Cpus_allowed_list:\t${got.Limits.CPUs ?? ''}\n`), stdout);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  it('parameterized.hcl and periodic.hcl run when they are launched, and are forgotten', async () => {
    await using agent = await RealAgent.start();
    for (const name of ['parameterized.hcl', 'periodic.hcl']) await agent.cli(['run', join(EXAMPLES, name)]);
    const payload = join(agent.dir, 'payload');
    writeFileSync(payload, 'four words of payload');
    const dispatched = await agent.cli(['dispatch', '-m', 'who=me', 'words', payload]);
    assert.equal(dispatched.code, 0, dispatched.stdout + dispatched.stderr);
    const [, id = ''] = /(words\/dispatch-\S+)/.exec(dispatched.stdout) ?? [];
    assert.match((await agent.cli(['logs', id])).stdout, /me sent 4 words/);
    const forced = await agent.cli(['periodic', 'force', 'report']);
    assert.equal(forced.code, 0, forced.stdout + forced.stderr);
    assert.match((await agent.cli(['gc'])).stdout, /^forgot 2 allocs\n$/);
    assert.equal((await agent.cli(['status', id])).code, 4);
  });
});
