/**
 * A real agent whose disk, files or data directory are not what it left behind: what runs goes on, what is known is
 * told, nothing is made up, and it catches up. What takes a machine of its own is in test/vm/.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import Sqlite from 'better-sqlite3';
import type { DoctorFinding } from '../../src/api/wire.js';
import { isAlive } from '../../src/base/host.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

function job(id: string, script: string, more: object = {}): object {
  return {
    ID: id,
    Type: 'service',
    TaskGroups: [
      {
        Name: 'g',
        RestartPolicy: { Attempts: 0, Mode: 'fail' },
        Tasks: [
          { Name: 't', Driver: 'raw_exec', Config: { command: '/bin/sh', args: ['-c', script] }, ...more },
        ],
      },
    ],
  };
}

const NO_MOUNTS =
  process.getuid?.() === 0 && spawnSync('unshare', ['-m', 'true']).status === 0
    ? false
    : 'a mount of its own takes root';
const STEADY = 'n=0; while :; do n=$((n+1)); echo "line $n"; sleep 0.05; done';
/** Ends with 3 as soon as the file `cue` is there. */
const ON_CUE = 'until [ -e "$NOMAD_ALLOC_DIR/data/cue" ]; do sleep 0.05; done; exit 3';
const runs = ([one]: readonly TaskView[]): boolean => one?.state.Holdfast.Pid != null;
const over = ([one]: readonly TaskView[]): boolean => one?.state.State === 'dead';

async function started(agent: RealAgent, id: string, script: string): Promise<TaskView> {
  await agent.register(job(id, script));
  const [task] = await agent.untilTasks(id, 'runs', runs);
  assert.ok(task !== undefined);
  return task;
}

async function findingsOf(agent: RealAgent, kind: string): Promise<readonly DoctorFinding[]> {
  const { stdout } = await agent.cli(['doctor', '--json', '--fix']);
  return (JSON.parse(stdout) as readonly DoctorFinding[]).filter(({ Kind }) => Kind === kind);
}

const cue = (agent: RealAgent, { allocId }: TaskView): string =>
  join(agent.dataDir, 'alloc', allocId, 'alloc', 'data', 'cue');

describe('hostile state', { timeout: 240_000 }, () => {
  it('a disk that refuses writes: tasks run on, it says so, and catches up', async () => {
    await using agent = await RealAgent.start();
    const steady = await started(agent, 'steady', STEADY);
    const ending = await started(agent, 'ending', ON_CUE);
    const limit = (bytes: string): void => {
      execFileSync('prlimit', ['--pid', String(agent.pid), `--fsize=${bytes}:`]);
    };
    limit('1');
    const refused = await agent.request('PUT', '/v1/jobs', { Job: job('extra', 'exit 0') });
    assert.equal(refused.status, 503, refused.text);
    assert.match(refused.text, /disk|write|large/i);
    writeFileSync(cue(agent, ending), '');
    await until('it says so', async () => (await agent.request('GET', '/v1/agent/health')).status === 500);
    // Nothing is told that is not stored.
    assert.equal((await agent.tasks('ending'))[0]?.state.State, 'running');
    const [found, ...more] = await findingsOf(agent, 'kept_changes');
    assert.deepEqual(more, []);
    assert.equal(found?.Outcome, 'open', 'nobody but the disk can cure that');
    assert.equal(found.CanFix, false);
    assert.match(found.Problem, /refuses writes, \d+ changes wait in memory: ./);
    assert.match(found.Advice, /make room/);
    const [same] = await agent.tasks('steady');
    assert.deepEqual(
      [same?.state.Holdfast.Pid, same?.state.Holdfast.Attempts],
      [steady.state.Holdfast.Pid, 1],
    );

    limit('unlimited');
    await until(
      'it has caught up',
      async () => (await agent.request('GET', '/v1/agent/health')).status === 200,
    );
    assert.deepEqual(await findingsOf(agent, 'kept_changes'), []);
    const [ended] = await agent.untilTasks('ending', 'is over', over);
    assert.equal(ended?.state.Holdfast.LastExit?.Code, 3);
    await agent.kill();
    await agent.start();
    assert.equal((await agent.tasks('ending'))[0]?.state.Holdfast.LastExit?.Code, 3);
    assert.equal((await agent.tasks('steady'))[0]?.state.Holdfast.Pid, steady.state.Holdfast.Pid);
    assert.equal((await agent.tasks('extra')).length, 0, 'what was refused is not there');
  });

  it('killed while the disk refuses writes: the end is read from the record of its executor', async () => {
    await using agent = await RealAgent.start();
    const ending = await started(agent, 'ending', ON_CUE);
    execFileSync('prlimit', ['--pid', String(agent.pid), '--fsize=1:']);
    writeFileSync(cue(agent, ending), '');
    await until(
      'the end waits in memory',
      async () => (await agent.request('GET', '/v1/agent/health')).status === 500,
    );
    await agent.kill();
    await agent.start();
    const [known] = await agent.untilTasks('ending', 'is over', over);
    assert.equal(known?.state.Holdfast.LastExit?.Code, 3);
    const told = await agent.events('ending');
    assert.equal(told.filter(({ Type }) => Type === 'Terminated').length, 1, 'told once');
  });

  it('an alloc directory that is gone: the task runs on, stops, and starts again in a new one', async () => {
    await using agent = await RealAgent.start();
    const { allocId, state } = await started(agent, 'steady', STEADY);
    rmSync(join(agent.dataDir, 'alloc', allocId), { recursive: true });
    await agent.kill();
    await agent.start();
    const [found] = await agent.untilTasks('steady', 'is supervised again', runs);
    assert.equal(found?.state.Holdfast.Pid, state.Holdfast.Pid);
    const logs = await agent.cli(['logs', 'steady']);
    assert.doesNotMatch(logs.stdout + logs.stderr, /\n\s+at /, 'no stack trace');
    const restarted = await agent.cli(['restart', 'steady']);
    assert.equal(restarted.code, 0, restarted.stderr);
    const [again] = await agent.untilTasks(
      'steady',
      'runs again',
      ([one]) => one?.state.Holdfast.Attempts === 2 && one.state.Holdfast.Pid != null,
    );
    assert.notEqual(again?.state.Holdfast.Pid, state.Holdfast.Pid);
    await until('it writes into its new directory', () => /line 2/.test(agent.output(allocId, 't')));
  });

  it('a spec that is garbage, and a dead executor: the task is not started a second time', async () => {
    await using agent = await RealAgent.start();
    const { allocId, state } = await started(agent, 'steady', STEADY);
    const [run] = await agent.runs(allocId, 't');
    assert.ok(run !== undefined);
    const { executor, workload } = agent.processesOfRun(run.RunID);
    await agent.kill();
    process.kill(executor.pid, 'SIGKILL');
    await until('its executor is gone', () => !isAlive(executor));
    writeFileSync(join(agent.runDir(run.RunID), 'spec'), 'garbage');
    await agent.start();
    // Whether somebody can take over or not: there is one process, and it is this one.
    const [found] = await agent.untilTasks('steady', 'is known', ([one]) => one !== undefined);
    assert.equal(found?.state.Holdfast.Attempts, 1);
    assert.ok(isAlive(workload));
    process.kill(state.Holdfast.Pid ?? 0, 'SIGKILL');
    const [ended] = await agent.untilTasks('steady', 'is over', over);
    assert.notEqual(ended?.state.Holdfast.LastExit?.Kind, 'exited', 'no status is made up');
    assert.equal((await agent.runs(allocId, 't')).length, 1);
  });

  it('an older version than the data: refused, nothing touched, tasks run on', async () => {
    await using agent = await RealAgent.start();
    const steady = await started(agent, 'steady', STEADY);
    await agent.leave();
    const path = join(agent.dataDir, 'state.db');
    const setVersion = (change: number): void => {
      const db = new Sqlite(path);
      const now = Number(db.pragma('user_version', { simple: true }));
      db.pragma(`user_version = ${now + change}`);
      db.close();
    };
    setVersion(1);
    const image = readFileSync(path);
    const runDirs = readdirSync(join(agent.dataDir, 'run'));
    await assert.rejects(agent.start(), /written by a newer holdfast \(schema/);
    assert.ok(image.equals(readFileSync(path)), 'the database is byte for byte as it was');
    assert.deepEqual(readdirSync(join(agent.dataDir, 'run')), runDirs);
    assert.ok(existsSync(`/proc/${steady.state.Holdfast.Pid}`));
    setVersion(-1);
    await agent.start();
    const [found] = await agent.untilTasks('steady', 'is supervised again', runs);
    assert.deepEqual(
      [found?.state.Holdfast.Pid, found?.state.Holdfast.Attempts],
      [steady.state.Holdfast.Pid, 1],
    );
  });

  it('a second agent on the same data directory: refused by name, and the first does not notice', async () => {
    await using agent = await RealAgent.start();
    const steady = await started(agent, 'steady', STEADY);
    const second = await agent.cli(['agent', '--data-dir', agent.dataDir]);
    assert.notEqual(second.code, 0);
    assert.match(second.stderr, new RegExp(`store_locked|pid ${agent.pid}`));
    const [found] = await agent.tasks('steady');
    assert.equal(found?.state.Holdfast.Pid, steady.state.Holdfast.Pid);
    assert.ok(existsSync(agent.socket));
  });

  it('modes that let others in are set right at the start', async () => {
    await using agent = await RealAgent.start();
    await agent.leave();
    const wide = ['', 'run', 'alloc', 'state.db'].map((name) => join(agent.dataDir, name));
    for (const path of wide) chmodSync(path, 0o777);
    await agent.start();
    assert.deepEqual(
      wide.map((path) => (statSync(path).mode & 0o777).toString(8)),
      ['711', '700', '711', '600'],
    );
  });

  it('a state.db that is gone while tasks run: nothing is started, nothing killed, doctor ends what is left', async () => {
    await using agent = await RealAgent.start();
    const { allocId } = await started(agent, 'steady', STEADY);
    const [run] = await agent.runs(allocId, 't');
    assert.ok(run !== undefined);
    const { workload } = agent.processesOfRun(run.RunID);
    await agent.kill();
    const aside = join(agent.dir, 'aside');
    mkdirSync(aside);
    for (const name of readdirSync(agent.dataDir).filter((each) => each.startsWith('state.db')))
      renameSync(join(agent.dataDir, name), join(aside, name));
    await agent.start();
    assert.deepEqual(await agent.tasks(), []);
    assert.ok(isAlive(workload), 'what it does not know it does not end by itself');
    const { stdout } = await agent.cli(['doctor', '--json']);
    const found = JSON.parse(stdout) as readonly DoctorFinding[];
    const ours = (kind: string): boolean => found.some(({ Kind, CanFix }) => Kind === kind && CanFix);
    assert.ok(ours('process') && ours('run_dir') && ours('alloc_dir'), stdout);
    // Also when the operator finds the file again.
    await agent.leave();
    for (const name of readdirSync(aside)) renameSync(join(aside, name), join(agent.dataDir, name));
    await agent.start();
    await agent.untilTasks('steady', 'is supervised again', runs);
    assert.ok(isAlive(workload));
  });

  it('little room on the disk is a finding of its own', { skip: NO_MOUNTS }, async () => {
    await using agent = await RealAgent.start();
    await agent.leave();
    // A small disk that only this agent and its children see; its socket is outside.
    const script = `mount -t tmpfs -o size=64m holdfast "$0" && head -c 64500000 /dev/zero > "$0/ballast" && exec "$@"`;
    const socket = join(agent.dir, 'outside.sock');
    agent.launch(['unshare', '-m', 'sh', '-c', script, agent.dataDir], ['--socket', socket]);
    const env = { HOLDFAST_ADDR: `unix://${socket}` };
    await until('it answers', () => existsSync(socket), { timeoutMs: 60_000, lastSeen: () => agent.log() });
    const { code, stdout } = await agent.cli(['doctor', '--json', '--fix'], { env });
    assert.equal(code, 1);
    const found = (JSON.parse(stdout) as readonly DoctorFinding[]).filter(({ Kind }) => Kind !== 'process');
    assert.deepEqual(
      found.map(({ Kind, Subject, CanFix, Outcome }) => [Kind, Subject, CanFix, Outcome]),
      [['disk_space', agent.dataDir, false, 'open']],
    );
    assert.match(found[0]?.Problem ?? '', /^only \d MiB are free$/);
    assert.match(found[0]?.Advice ?? '', /make room; holdfast purge JOB/);
  });
});
