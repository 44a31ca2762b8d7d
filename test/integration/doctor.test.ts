/**
 * `holdfast doctor` over a real agent: what it finds, what it cures, what it keeps its hands off. Other tests run beside
 * this one, so of the processes of this host only its own are looked at.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';
import type { DoctorFinding } from '../../src/api/wire.js';
import { isAlive } from '../../src/base/host.js';
import { parseCgroupMounts } from '../../src/executor/cgroup-roots.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

function jobOf(id: string, task: object, type = 'service'): object {
  return {
    ID: id,
    Type: type,
    TaskGroups: [{ Name: 'g', Tasks: [{ Name: 't', Driver: 'raw_exec', ...task }] }],
  };
}

const NO_MOUNTS =
  process.getuid?.() === 0 && spawnSync('unshare', ['-m', 'true']).status === 0
    ? false
    : 'a mount of its own takes root';

const sleeper = jobOf('sleeper', { Config: { command: 'sleep', args: ['1000'] } });

/** Findings that are about something of this test. */
async function findings(
  agent: RealAgent,
  pids: readonly number[],
  ...args: readonly string[]
): Promise<readonly DoctorFinding[]> {
  const { code, stdout, stderr } = await agent.cli(['doctor', '--json', ...args]);
  assert.equal(stderr, '');
  const all = JSON.parse(stdout) as readonly DoctorFinding[];
  assert.equal(code, all.every(({ Outcome }) => Outcome === 'fixed') ? 0 : 1);
  return all.filter(
    ({ Kind, Subject }) => Kind !== 'process' || pids.some((pid) => Subject === `pid ${pid}`),
  );
}

/** A process that carries the mark of a run. The test ends it. */
function markedProcess(runId: string): ChildProcess & { readonly pid: number } {
  const child = spawn('sleep', ['1000'], {
    env: { PATH: process.env['PATH'], HOLDFAST_RUN_ID: runId },
    stdio: 'ignore',
  });
  assert.ok(child.pid !== undefined);
  return Object.assign(child, { pid: child.pid });
}

function runIdOf(): string {
  return randomBytes(16).toString('hex');
}

/** Where this agent's cgroups are; empty as an ordinary user. */
function cgroupRootsOf(agent: RealAgent): readonly string[] {
  const { unified, v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  return [unified, v1.get('memory'), v1.get('blkio')]
    .flatMap((mount) => (mount === undefined ? [] : [join(mount, agent.cgroupRoot)]))
    .filter((root) => existsSync(root));
}

function kinds(found: readonly DoctorFinding[]): readonly string[] {
  return found
    .map(({ Kind, CanFix, Outcome }) => `${Kind} ${CanFix ? 'curable' : 'left to people'} ${Outcome}`)
    .sort();
}

test('leftovers are listed with their cure, changed only by --fix, and what runs is not touched', async () => {
  await using agent = await RealAgent.start();
  await agent.register(sleeper);
  const [task] = await agent.untilTasks('sleeper', 'runs', ([one]) => one?.state.State === 'running');
  assert.ok(task !== undefined);
  const [run] = await agent.runs(task.allocId, 't');
  assert.ok(run !== undefined);
  const { workload, executor } = agent.processesOfRun(run.RunID);
  assert.deepEqual(await findings(agent, [workload.pid, executor.pid]), []);

  const strayRun = runIdOf();
  const stray = markedProcess(strayRun);
  const foreign = markedProcess(runIdOf());
  try {
    mkdirSync(agent.runDir(strayRun), { recursive: true });
    const emptyRun = agent.runDir(runIdOf());
    mkdirSync(emptyRun, { recursive: true });
    const allocDir = join(agent.dataDir, 'alloc', randomUUID());
    mkdirSync(join(allocDir, 'alloc'), { recursive: true });
    const strange = join(agent.dataDir, 'alloc', 'notes');
    mkdirSync(strange);
    const socket = join(agent.dataDir, 'old.sock');
    const bind = 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])';
    assert.equal(spawnSync('python3', ['-c', bind, socket]).status, 0);
    const roots = cgroupRootsOf(agent);
    const ourLeaves = roots.map((root) => join(root, `${task.allocId.slice(0, 8)}.t.00000000`));
    const otherLeaves = roots.map((root) => join(root, 'ffffffff.t.00000000'));
    for (const dir of [...ourLeaves, ...otherLeaves]) mkdirSync(dir);

    const pids = [stray.pid, foreign.pid, workload.pid, executor.pid];
    const isThere = [
      agent.runDir(strayRun),
      emptyRun,
      allocDir,
      strange,
      socket,
      ...ourLeaves,
      ...otherLeaves,
    ];
    const cgroupOf = (what: string): string[] => (roots.length > 0 ? [`cgroup ${what}`] : []);
    const expected = (outcome: string): string[] =>
      [
        'alloc_dir left to people open',
        'process left to people open',
        ...cgroupOf('left to people open'),
        `alloc_dir curable ${outcome}`,
        `process curable ${outcome}`,
        `run_dir curable ${outcome}`,
        `run_dir curable ${outcome}`,
        `socket curable ${outcome}`,
        ...cgroupOf(`curable ${outcome}`),
      ].sort();

    const found = await findings(agent, pids);
    assert.deepEqual(kinds(found), expected('open'));
    for (const { Advice, Subject } of found) assert.notEqual(Advice, '', Subject);
    for (const path of isThere) assert.ok(existsSync(path), `${path} was only to be looked at`);
    const told = await agent.cli(['doctor']);
    assert.equal(told.code, 1);
    assert.match(told.stdout, /found {2}run_dir {2}.*\n +holdfast doctor --fix/);

    const ended = once(stray, 'exit');
    assert.deepEqual(kinds(await findings(agent, pids, '--fix')), expected('fixed'));
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    for (const path of [agent.runDir(strayRun), emptyRun, allocDir, socket, ...ourLeaves])
      assert.ok(!existsSync(path), path);
    for (const path of [strange, ...otherLeaves]) assert.ok(existsSync(path), path);
    assert.equal(foreign.exitCode ?? foreign.signalCode, null, 'not ours by any sign');
    assert.ok(isAlive(workload) && isAlive(executor));
    assert.equal((await agent.runs(task.allocId, 't')).length, 1);
  } finally {
    stray.kill('SIGKILL');
    foreign.kill('SIGKILL');
  }
});

test('the tasks of another agent are neither listed nor touched', async () => {
  await using agent = await RealAgent.start();
  await using other = await RealAgent.start();
  await other.register(sleeper);
  const [task] = await other.untilTasks('sleeper', 'runs', ([one]) => one?.state.State === 'running');
  assert.ok(task !== undefined);
  const [run] = await other.runs(task.allocId, 't');
  assert.ok(run !== undefined);
  const { workload, executor } = other.processesOfRun(run.RunID);
  // Also while that agent is away.
  await other.kill();
  assert.deepEqual(await findings(agent, [workload.pid, executor.pid], '--fix'), []);
  assert.ok(isAlive(workload) && isAlive(executor));
});

test('what a task was asked to leave behind is no finding', async () => {
  await using agent = await RealAgent.start();
  // Its child tells its pid; it is ended below.
  const script = 'setsid sleep 1000 >/dev/null 2>&1 & echo $!';
  await agent.register(
    jobOf('keeper', { Leftovers: 'keep', Config: { command: 'sh', args: ['-c', script] } }, 'batch'),
  );
  const [task] = await agent.untilTasks('keeper', 'is over', ([one]) => one?.state.State === 'dead');
  assert.ok(task !== undefined);
  const pid = Number(agent.output(task.allocId, 't').trim());
  assert.ok(existsSync(`/proc/${pid}`), agent.log());
  try {
    assert.deepEqual(await findings(agent, [pid], '--fix'), []);
    assert.ok(existsSync(`/proc/${pid}`));
  } finally {
    process.kill(pid, 'SIGKILL');
    await until('it is gone', () => !existsSync(`/proc/${pid}`));
  }
});

test('a thing whose record is in quarantine is listed and left alone', async () => {
  await using agent = await RealAgent.start();
  await agent.register(jobOf('short', { Config: { command: 'true' } }, 'batch'));
  const [task] = await agent.untilTasks('short', 'is over', ([one]) => one?.state.State === 'dead');
  assert.ok(task !== undefined);
  await agent.leave();
  const db = new Sqlite(join(agent.dataDir, 'state.db'));
  db.prepare(`UPDATE allocs SET desired_status = 'rubbish' WHERE alloc_id = ?`).run(task.allocId);
  db.close();
  await agent.start();
  const dir = join(agent.dataDir, 'alloc', task.allocId);
  writeFileSync(join(dir, 'precious'), '');
  const found = await findings(agent, [], '--fix');
  assert.deepEqual(
    kinds(found).filter((kind) => !kind.startsWith('cgroup')),
    ['alloc_dir left to people open', 'quarantine left to people open'],
  );
  assert.match(found.find(({ Kind }) => Kind === 'alloc_dir')?.Advice ?? '', /quarantine/);
  assert.deepEqual(readdirSync(dir).includes('precious'), true);
});

test('executors of another version are told in one finding', async () => {
  await using agent = await RealAgent.start();
  await agent.register(sleeper);
  const [task] = await agent.untilTasks('sleeper', 'runs', ([one]) => one?.state.State === 'running');
  assert.ok(task !== undefined);
  const [run] = await agent.runs(task.allocId, 't');
  assert.ok(run !== undefined);
  const status = join(agent.runDir(run.RunID), 'status');
  writeFileSync(status, readFileSync(status, 'utf8').replace(/^version=.*$/m, 'version=0.0.1'));
  const found = await findings(agent, []);
  assert.deepEqual(kinds(found), ['executor_version left to people open']);
  assert.match(found[0]?.Problem ?? '', /^1 task runs under executors of version 0\.0\.1/);
});

test(
  'what is mounted below the directory of an alloc is unmounted, and never emptied',
  { skip: NO_MOUNTS },
  async () => {
    await using agent = await RealAgent.start();
    await agent.leave();
    // In a mount namespace of its own: nothing of this can be left on the host.
    agent.launch(['unshare', '--mount', '--propagation', 'private']);
    await agent.ready();
    const inside = (...command: readonly string[]): void => {
      const { status, stderr } = spawnSync('nsenter', [`--mount=/proc/${agent.pid}/ns/mnt`, ...command]);
      assert.equal(status, 0, String(stderr));
    };
    const precious = join(agent.dir, 'precious');
    mkdirSync(precious);
    writeFileSync(join(precious, 'file'), '');
    await agent.register(sleeper);
    await agent.register(jobOf('short', { Config: { command: 'true' } }, 'batch'));
    const [running] = await agent.untilTasks('sleeper', 'runs', ([one]) => one?.state.State === 'running');
    const [ended] = await agent.untilTasks('short', 'is over', ([one]) => one?.state.State === 'dead');
    assert.ok(running !== undefined && ended !== undefined);
    const dirOf = (allocId: string): string => join(agent.dataDir, 'alloc', allocId);
    const places = [running, ended].map(({ allocId }) => join(dirOf(allocId), 't', 'local', 'with space'));
    for (const place of places) {
      mkdirSync(place);
      inside('mount', '--bind', precious, place);
      inside('mount', '-t', 'tmpfs', 'holdfast', place);
    }
    // The way to it is in the log: the job is not forgotten while something is mounted there.
    await agent.request('DELETE', '/v1/job/short?purge=true');
    await until('it says why', () => agent.log().includes('is not removed while something is mounted on'));
    assert.equal((await agent.tasks('short')).length, 1);

    const found = await findings(agent, []);
    assert.deepEqual(kinds(found), ['mount curable open']);
    assert.equal(found[0]?.Subject, places[1], 'what a task that runs has mounted is its own business');
    assert.deepEqual(kinds(await findings(agent, [], '--fix')), ['mount curable fixed']);
    await agent.untilTasks('short', 'is forgotten', (tasks) => tasks.length === 0);
    assert.ok(!existsSync(dirOf(ended.allocId)));
    assert.deepEqual(readdirSync(precious), ['file']);
    inside('umount', places[0] ?? '');
    inside('umount', places[0] ?? '');
  },
);
