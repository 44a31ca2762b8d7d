/** The daemon's settings while it runs, and the host that its data belong to. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { readMachineMark } from '../../src/agent/host-binding.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

/** Does not end by a signal that can be ignored. */
const stubborn = {
  ID: 'stubborn',
  Type: 'service',
  TaskGroups: [
    {
      Name: 'g',
      Tasks: [
        {
          Name: 't',
          Driver: 'raw_exec',
          KillTimeout: 600_000_000_000,
          Config: { command: 'sh', args: ['-c', `trap '' INT TERM; echo up; while :; do sleep 1; done`] },
        },
      ],
    },
  ],
};

test('SIGHUP applies the log level and max_kill_timeout, says what needs a restart, and refuses rubbish', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'hf-conf-'));
  const file = join(dir, 'agent.yaml');
  const write = (text: string): Promise<void> => writeFile(file, text);
  try {
    await write('log_level: error\nmax_kill_timeout: 10m\n');
    await using agent = await RealAgent.start({ args: ['--config', file] });
    const reload = async (text: string, expected: RegExp): Promise<string> => {
      await write(text);
      const seen = agent.log().length;
      process.kill(agent.pid, 'SIGHUP');
      return await until(`the log says ${String(expected)}`, () => {
        const fresh = agent.log().slice(seen);
        return expected.test(fresh) ? fresh : undefined;
      });
    };
    assert.equal(agent.log(), '', 'nothing at this level');
    await agent.register(stubborn);
    const [task] = await agent.untilTasks('stubborn', 'runs', ([one]) => one?.state.State === 'running');
    assert.ok(task !== undefined);
    await until('it has set its trap', () => agent.output(task.allocId, 't').includes('up'));

    await reload(
      'max_kill_timeout: rubbish\n',
      /config is not valid.*max_kill_timeout|max_kill_timeout.*config is not valid/,
    );
    const said = await reload(
      'log_level: debug\nmax_kill_timeout: 200ms\ndatacenter: dc9\nsocket_group: 7\n',
      /needs a restart/,
    );
    assert.match(
      said,
      /applied: log_level, max_kill_timeout; needs a restart of the agent: socket_group, datacenter/,
    );

    const { status } = await agent.request('DELETE', '/v1/job/stubborn');
    assert.equal(status, 200);
    // With the old cap it would take ten minutes.
    await agent.untilTasks('stubborn', 'is over', ([one]) => one?.state.State === 'dead');
    assert.match(agent.log(), /"level":"debug"/);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test('data of another host are refused with a cure, and can be taken over', async () => {
  await using agent = await RealAgent.start();
  await agent.leave();
  const mark = readMachineMark();
  const db = new Sqlite(join(agent.dataDir, 'state.db'));
  const kept = db.prepare(`SELECT value FROM host WHERE key = 'machine'`).pluck().get();
  assert.equal(kept, mark);
  if (mark !== undefined) db.prepare(`UPDATE host SET value = 'another' WHERE key = 'machine'`).run();
  db.close();
  if (mark !== undefined) {
    const refused = await agent.cli(['agent', '--data-dir', agent.dataDir]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /made on another host.*--data-dir.*--accept-host/);
    await agent.start(['--accept-host']);
    await agent.leave();
  }
  await agent.start();
});
