/** Every file of examples/ runs, as a user would run it, and comes to what it says it comes to. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { RealAgent, type TaskView } from '../helpers/real-agent.js';

const EXAMPLES = fileURLToPath(new URL('../../../examples', import.meta.url));

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
      const said = await agent.cli(['run', file]);
      assert.equal(said.code, code, said.stdout + said.stderr);
      const [{ ID: id } = { ID: '' }] = (await agent.get('/v1/jobs')) as readonly { readonly ID: string }[];
      const tasks = await agent.untilTasks(id, 'comes to what it shall', (seen) =>
        seen.every((view) => expected[view.task]?.(view) ?? false),
      );
      assert.deepEqual([...new Set(tasks.map(({ task }) => task))].sort(), Object.keys(expected).sort());
    });
  }

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
