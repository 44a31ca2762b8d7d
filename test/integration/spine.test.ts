/**
 * The promise, with real processes: the daemon may be killed at any time, and afterwards the same processes run, no line of
 * their output is missing, nothing was started twice, and every end that happened meanwhile is known as it was.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import type { RestartPolicyJson } from '../../src/api/wire.js';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

/** Writes `line 1`, `line 2`, … in single writes, until it is ended. */
const WRITER = `
import time
n = 0
while True:
    n += 1
    print("line", n, flush=True)
    time.sleep(0.02)
`;

const NO_RESTART = { Attempts: 0, Mode: 'fail' };
const RESTART_SOON = { Attempts: 3, Interval: 60e9, Delay: 200e6, Mode: 'fail', Jitter: 0 };

interface TaskRequest {
  readonly name: string;
  readonly command: string;
  readonly args?: readonly string[];
  readonly restart?: Partial<RestartPolicyJson>;
}

function job(id: string, tasks: readonly TaskRequest[], count = 1): object {
  return {
    ID: id,
    Type: 'service',
    TaskGroups: [
      {
        Name: 'group',
        Count: count,
        Tasks: tasks.map(({ name, command, args = [], restart = NO_RESTART }) => ({
          Name: name,
          Driver: 'raw_exec',
          Config: { command, args },
          RestartPolicy: restart,
          KillTimeout: 2e9,
          Resources: { CPU: 50, MemoryMB: 64 },
        })),
      },
    ],
  };
}

function shell(name: string, script: string, restart?: Partial<RestartPolicyJson>): TaskRequest {
  return { name, command: '/bin/sh', args: ['-c', script], ...(restart === undefined ? {} : { restart }) };
}

const allRunning = (count: number) => (tasks: readonly TaskView[]) =>
  tasks.filter(({ state }) => state.State === 'running' && state.Holdfast.Pid !== null).length === count;

function pidOf(view: TaskView): number {
  const pid = view.state.Holdfast.Pid;
  assert.ok(pid !== null, `${view.task} has no pid`);
  return pid;
}

function runIdOf(view: TaskView): string {
  const id = view.state.Holdfast.RunID;
  assert.ok(id !== null, `${view.task} has no run`);
  return id;
}

/** Number of whole lines; fails when one is missing or repeated. */
function countLines(output: string): number {
  const lines = output.split('\n').slice(0, -1);
  for (const [index, line] of lines.entries()) assert.equal(line, `line ${index + 1}`);
  return lines.length;
}

describe('the daemon is killed and comes back', () => {
  it('G11: 20 tasks: the same processes, every line, Started once, and an end that it missed', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('lines', [{ name: 'writer', command: 'python3', args: ['-c', WRITER] }], 20));
    // Waits for its cue, fails once with 3, and then stays.
    const fickle =
      'cd "$NOMAD_ALLOC_DIR/data"; if [ -e failed ]; then exec sleep 1000; fi; ' +
      'until [ -e cue ]; do sleep 0.05; done; touch failed; exit 3';
    await agent.register(job('fickle', [shell('task', fickle, RESTART_SOON)]));
    const before = await agent.untilTasks('lines', 'all run', allRunning(20));
    const [fickleBefore] = await agent.untilTasks('fickle', 'runs', allRunning(1));
    assert.ok(fickleBefore !== undefined);
    const identity = (view: TaskView): string =>
      `${view.allocId} ${pidOf(view)} ${readProcessStat(pidOf(view))?.startTicks}`;
    const identities = before.map(identity).sort();
    const grown = (by: number) => {
      const from = new Map(
        before.map(({ allocId }) => [allocId, countLines(agent.output(allocId, 'writer'))]),
      );
      return until(`every log has ${by} lines more`, () =>
        before.every(
          ({ allocId }) => countLines(agent.output(allocId, 'writer')) >= (from.get(allocId) ?? 0) + by,
        ),
      );
    };
    await grown(5);

    await agent.kill();
    const cueAtMs = Date.now();
    const { allocId, state } = fickleBefore;
    writeFileSync(join(agent.dataDir, 'alloc', allocId, 'alloc', 'data', 'cue'), '');
    const record = join(agent.runDir(runIdOf(fickleBefore)), 'exit');
    await until('the task has ended while nobody looked', () => existsSync(record));
    const endedByMs = Date.now();
    await grown(20);
    await agent.start();

    const after = await agent.untilTasks('lines', 'all run', allRunning(20));
    assert.deepEqual(after.map(identity).sort(), identities);
    await grown(5);
    const started = (await agent.events('lines')).filter(({ Type }) => Type === 'Started');
    assert.deepEqual(started.map(({ AllocID }) => AllocID).sort(), before.map((view) => view.allocId).sort());

    // The end that happened meanwhile: known as it was, at its own time, and followed by the policy's restart.
    const [fickleAfter] = await agent.untilTasks('fickle', 'runs again', allRunning(1));
    assert.ok(fickleAfter !== undefined);
    assert.notEqual(pidOf(fickleAfter), state.Holdfast.Pid);
    const [first, second, ...more] = await agent.runs(allocId, 'task');
    assert.equal(first?.Exit?.Text, 'exited 3');
    assert.equal(first.Exit.Code, 3);
    const endedAtMs = Date.parse(first.EndedAt ?? '');
    assert.ok(endedAtMs >= cueAtMs && endedAtMs <= endedByMs, `ended at ${first.EndedAt}`);
    assert.equal(second?.Outcome, 'open');
    assert.deepEqual(more, []);
    const types = (await agent.events('fickle')).map(({ Type }) => Type);
    assert.deepEqual(
      types.filter((type) => type !== 'Task Setup'),
      // An ordinary user is told that the usual limits are not in force.
      [
        'Received',
        ...(process.getuid?.() === 0 ? [] : ['Driver']),
        'Started',
        'Terminated',
        'Restarting',
        'Started',
      ],
    );

    await agent.request('DELETE', '/v1/job/lines');
    await agent.untilTasks('lines', 'all dead', (tasks) =>
      tasks.every(({ state }) => state.State === 'dead'),
    );
    for (const view of before) {
      assert.ok(!isAlive({ pid: pidOf(view), startTicks: startOf(identities, view) }));
      assert.ok(countLines(agent.output(view.allocId, 'writer')) > 30);
    }
  });

  it('leaving by SIGTERM disturbs no task either', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('calm', [{ name: 'writer', command: 'python3', args: ['-c', WRITER] }]));
    const [before] = await agent.untilTasks('calm', 'runs', allRunning(1));
    await agent.leave();
    await agent.start();
    const [after] = await agent.untilTasks('calm', 'runs', allRunning(1));
    assert.ok(before !== undefined && after !== undefined);
    assert.equal(pidOf(after), pidOf(before));
    assert.equal(runIdOf(after), runIdOf(before));
  });
});

function startOf(identities: readonly string[], view: TaskView): number {
  return Number(identities.find((identity) => identity.startsWith(view.allocId))?.split(' ')[2]);
}

describe('how a task ended', () => {
  it('G3: SIGKILL from outside and exit 137 are told apart in the record, the events, the history and the table', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('killed', [{ name: 'task', command: '/bin/sleep', args: ['1000'] }]));
    await agent.register(
      job('code137', [
        shell('task', 'until [ -e "$NOMAD_ALLOC_DIR/data/cue" ]; do sleep 0.05; done; exit 137'),
      ]),
    );
    const [killed] = await agent.untilTasks('killed', 'runs', allRunning(1));
    const [code137] = await agent.untilTasks('code137', 'runs', allRunning(1));
    assert.ok(killed !== undefined && code137 !== undefined);
    // The agent removes a record once it is stored: it is held still until the records have been read here.
    process.kill(agent.pid, 'SIGSTOP');
    process.kill(pidOf(killed), 'SIGKILL');
    writeFileSync(join(agent.dataDir, 'alloc', code137.allocId, 'alloc', 'data', 'cue'), '');
    const records = await until('both have left a record', () => {
      const paths = [killed, code137].map((view) => join(agent.runDir(runIdOf(view)), 'exit'));
      return paths.every((path) => existsSync(path)) && paths.map((path) => readFileSync(path, 'utf8'));
    });
    assert.match(records[0] ?? '', /^result=signaled\nsignal=9$/m);
    assert.match(records[1] ?? '', /^result=exited\ncode=137$/m);
    process.kill(agent.pid, 'SIGCONT');
    const over = (tasks: readonly TaskView[]): boolean => tasks.every(({ state }) => state.State === 'dead');
    await agent.untilTasks('killed', 'is over', over);
    await agent.untilTasks('code137', 'is over', over);

    for (const [id, text, details] of [
      ['killed', 'killed by SIGKILL', { exit_kind: 'signaled', exit_code: '137', signal: '9' }],
      ['code137', 'exited 137', { exit_kind: 'exited', exit_code: '137', signal: '0' }],
    ] as const) {
      const [task] = await agent.tasks(id);
      assert.ok(task !== undefined);
      assert.equal(task.state.Holdfast.LastExit?.Text, text);
      const [run] = await agent.runs(task.allocId, 'task');
      assert.equal(run?.Exit?.Kind, details.exit_kind);
      const terminated = (await agent.events(id)).find(({ Type }) => Type === 'Terminated');
      assert.deepEqual({ ...terminated?.Details, ...details }, terminated?.Details);
      assert.match(terminated?.DisplayMessage ?? '', new RegExp(text));
      const history = await agent.cli(['history', id, '--json']);
      assert.equal(history.code, 0, history.stderr);
      assert.match(history.stdout, new RegExp(`"${details.exit_kind}"`));
      const status = await agent.cli(['status', id]);
      assert.match(status.stdout, new RegExp(text));
    }
  });
});

describe('an executor is killed', () => {
  it('there is never a second copy, the agent says so, and stop still ends the workload', async () => {
    await using agent = await RealAgent.start();
    await agent.register(
      job('orphan', [{ name: 'task', command: 'python3', args: ['-c', WRITER], restart: RESTART_SOON }]),
    );
    const [view] = await agent.untilTasks('orphan', 'runs', allRunning(1));
    assert.ok(view !== undefined);
    const { executor, workload } = agent.processesOfRun(runIdOf(view));
    assert.equal(workload.pid, pidOf(view));
    process.kill(executor.pid, 'SIGKILL');
    await until(
      'the agent says that supervision was lost',
      async () => (await agent.events('orphan')).some(({ Type }) => Type === 'Supervision Lost'),
      { lastSeen: () => agent.log().slice(-2000) },
    );
    const [still] = await agent.untilTasks('orphan', 'runs', allRunning(1));
    assert.equal(still?.state.Holdfast.Pid, workload.pid);
    assert.ok(isAlive(workload));
    assert.equal((await agent.events('orphan')).filter(({ Type }) => Type === 'Started').length, 1);
    const lines = countLines(agent.output(view.allocId, 'task'));
    await until('its output is read on', () => countLines(agent.output(view.allocId, 'task')) > lines + 5);

    await agent.request('DELETE', '/v1/job/orphan');
    await agent.untilTasks('orphan', 'is over', (tasks) =>
      tasks.every(({ state }) => state.State === 'dead'),
    );
    assert.ok(!isAlive(workload));
    assert.equal((await agent.runs(view.allocId, 'task')).length, 1);
  });

  it('while the daemon is away as well: the same', async () => {
    await using agent = await RealAgent.start();
    await agent.register(
      job('orphan', [{ name: 'task', command: 'python3', args: ['-c', WRITER], restart: RESTART_SOON }]),
    );
    const [view] = await agent.untilTasks('orphan', 'runs', allRunning(1));
    assert.ok(view !== undefined);
    const { executor, workload } = agent.processesOfRun(runIdOf(view));
    await agent.kill();
    process.kill(executor.pid, 'SIGKILL');
    await until('the executor is gone', () => !isAlive(executor));
    await agent.start();
    await until('the agent says that supervision was lost', async () =>
      (await agent.events('orphan')).some(({ Type }) => Type === 'Supervision Lost'),
    );
    const [still] = await agent.untilTasks('orphan', 'runs', allRunning(1));
    assert.equal(still?.state.Holdfast.Pid, workload.pid);
    assert.equal((await agent.runs(view.allocId, 'task')).length, 1);
  });
});

describe('two daemons on one data directory', () => {
  it('the second one refuses, says why, and harms nothing', async () => {
    await using agent = await RealAgent.start();
    await agent.register(job('calm', [{ name: 'task', command: '/bin/sleep', args: ['1000'] }]));
    const [before] = await agent.untilTasks('calm', 'runs', allRunning(1));
    const other = join(agent.dir, 'other.sock');
    const second = await agent.cli(['agent', '--data-dir', agent.dataDir, '--socket', other]);
    assert.equal(second.code, 1);
    const told = second.stderr.split('\n').find((line) => line.startsWith('holdfast: '));
    assert.match(
      told ?? second.stderr,
      new RegExp(`another agent.*${agent.pid}|${agent.pid}.*another agent`),
    );
    assert.equal(existsSync(other), false);
    const [after] = await agent.tasks('calm');
    assert.equal(after?.state.Holdfast.Pid, before?.state.Holdfast.Pid);
    assert.equal(readFileSync(join('/proc', String(agent.pid), 'comm'), 'utf8').length > 0, true);
  });
});
