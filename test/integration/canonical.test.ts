/**
 * The usual histories of docs/events.md with real processes: what operators see of a task, in order, and the words that
 * `status` has for where it stands. One agent runs all of them side by side.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TaskView } from '../helpers/agent-api.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

let agent: RealAgent;
before(async () => {
  agent = await RealAgent.start();
});
after(async () => {
  await agent.close();
});

const shell = (script: string): object => ({ command: '/bin/sh', args: ['-c', script] });
const ATTEMPTS = (n: number, delay = 0): object => ({
  Attempts: n,
  Interval: 600e9,
  Delay: delay,
  Mode: 'fail',
});
// An ordinary user is told that the usual limits are not in force.
const UNLIMITED = process.getuid?.() === 0 ? [] : ['Driver'];
const BEGUN = ['Received', 'Task Setup', ...UNLIMITED, 'Started'];
const KILLED = ['Killing', 'Terminated', 'Killed'];

interface Asked {
  readonly type?: 'batch' | 'service';
  readonly tasks: Readonly<Record<string, object>>;
}

async function register(id: string, { type = 'service', tasks }: Asked, on = agent): Promise<void> {
  await on.register({
    ID: id,
    Type: type,
    TaskGroups: [
      {
        Name: 'g',
        ReschedulePolicy: { Attempts: 0, Unlimited: false },
        Tasks: Object.entries(tasks).map(([Name, task]) => ({
          Name,
          Driver: 'raw_exec',
          RestartPolicy: ATTEMPTS(0),
          KillTimeout: 5e9,
          ...task,
        })),
      },
    ],
  });
}

const all =
  (test: (view: TaskView) => boolean) =>
  (tasks: readonly TaskView[]): boolean =>
    tasks.length > 0 && tasks.every(test);
const isUp = ({ state }: TaskView): boolean => state.Holdfast.Phase === 'running';
const isDead = ({ state }: TaskView): boolean => state.State === 'dead';

async function typesOf(job: string, task = 't', of = agent): Promise<string[]> {
  return (await of.events(job)).filter(({ Task }) => Task === task).map(({ Type }) => Type);
}

async function statusOf(job: string, on = agent): Promise<string> {
  return (await on.cli(['status', job])).stdout;
}

describe('canonical sequences', { concurrency: 3, timeout: 120_000 }, () => {
  it('happy: a batch task does its work', async () => {
    await register('happy', { type: 'batch', tasks: { t: { Config: shell('echo done') } } });
    await agent.untilTasks('happy', 'is over', all(isDead));
    assert.deepEqual(await typesOf('happy'), [...BEGUN, 'Terminated']);
    assert.match(await statusOf('happy'), /complete/);
  });

  it('killed while running, with its shutdown_delay, and said so meanwhile', async () => {
    const task = { Config: { command: 'sleep', args: ['1000'] }, ShutdownDelay: 1.5e9 };
    await register('stopped', { tasks: { t: task } });
    await agent.untilTasks('stopped', 'runs', all(isUp));
    await agent.request('DELETE', '/v1/job/stopped');
    const [view] = await agent.untilTasks(
      'stopped',
      'is stopping',
      all(({ state }) => state.Holdfast.Phase === 'stopping'),
    );
    assert.equal(view?.state.State, 'running', 'what lives is not called pending');
    assert.match(await statusOf('stopped'), /stopping: job was stopped/);
    await agent.untilTasks('stopped', 'is over', all(isDead));
    assert.deepEqual(await typesOf('stopped'), [...BEGUN, 'Waiting for Shutdown Delay', ...KILLED]);
    assert.match(await statusOf('stopped'), /stopped/);
  });

  it('killed while it waits, and in its restart delay: nothing ran, and it is said all the same', async () => {
    const waits = { Templates: [{ SourcePath: 'local/none', DestPath: 'local/x' }], Config: shell('true') };
    const fails = { Config: shell('exit 3'), RestartPolicy: ATTEMPTS(5, 60e9) };
    await register('unborn', { tasks: { waits } });
    await register('resting', { tasks: { fails } });
    await agent.untilTasks(
      'unborn',
      'waits',
      all(({ state }) => state.Holdfast.PhaseDetail.startsWith('waiting on')),
    );
    await agent.untilTasks(
      'resting',
      'is in its delay',
      all(({ state }) => state.Holdfast.Phase === 'backoff'),
    );
    assert.match(await statusOf('unborn'), /prestart: waiting on file local\/none/);
    assert.match(await statusOf('resting'), /backoff, retry in (1m|5\ds).*\(1\/5 used; exited 3\)/);
    for (const job of ['unborn', 'resting']) {
      await agent.request('DELETE', `/v1/job/${job}`);
      await agent.untilTasks(job, 'is over', all(isDead));
      assert.match(await statusOf(job), /stopped/);
    }
    assert.deepEqual((await typesOf('unborn', 'waits')).slice(-2), ['Template', 'Killed']);
    assert.deepEqual(await typesOf('resting', 'fails'), [...BEGUN, 'Terminated', 'Restarting', 'Killed']);
  });

  it('a start error that may pass, one restart allowed: six events, and why', async () => {
    const program = join(agent.dir, 'busy');
    writeFileSync(program, '#!/nonexistent/interpreter\n', { mode: 0o755 });
    const task = { Driver: 'mock_driver', Config: { start_error: 'no room', start_error_recoverable: true } };
    await register('nostart', { tasks: { t: { ...task, RestartPolicy: ATTEMPTS(1) } } });
    await agent.untilTasks('nostart', 'is over', all(isDead));
    const failed = ['Driver Failure', 'Restarting', 'Driver Failure', 'Not Restarting'];
    assert.deepEqual(await typesOf('nostart'), ['Received', 'Task Setup', ...failed]);
    assert.match(await statusOf('nostart'), /failed: no room/);
    await register('never', { tasks: { t: { Config: { command: program }, RestartPolicy: ATTEMPTS(5) } } });
    await agent.untilTasks('never', 'is over', all(isDead));
    const atOnce = ['Received', 'Task Setup', 'Driver Failure', 'Not Restarting'];
    assert.deepEqual(await typesOf('never'), atOnce, 'what will not pass is not tried again');
  });

  it('an artifact that cannot be had, one retry: eight events', async () => {
    const task = {
      Config: shell('true'),
      Artifacts: [{ GetterSource: `file://${join(agent.dir, 'none')}` }],
      RestartPolicy: ATTEMPTS(1),
    };
    await register('fetch', { tasks: { t: task } });
    await agent.untilTasks('fetch', 'is over', all(isDead));
    const failed = ['Downloading Artifacts', 'Failed Artifact Download'];
    assert.deepEqual(await typesOf('fetch'), [
      'Received',
      'Task Setup',
      ...failed,
      'Restarting',
      ...failed,
      'Not Restarting',
    ]);
    assert.match(await statusOf('fetch'), /failed: .*none/);
  });

  it('check_restart, two restarts allowed: each counted, then it has failed', async () => {
    const check = {
      Name: 'c',
      Type: 'script',
      Command: '/bin/false',
      Interval: 1e9,
      Timeout: 5e9,
      CheckRestart: { Limit: 1, Grace: 0 },
    };
    const task = {
      Config: { command: 'sleep', args: ['1000'] },
      RestartPolicy: ATTEMPTS(2),
      Services: [{ Name: 's', Provider: 'nomad', Checks: [check] }],
    };
    await register('checked', { tasks: { t: task } });
    await agent.untilTasks('checked', 'is over', all(isDead));
    const types = (await typesOf('checked')).filter((type) => !type.startsWith('Check '));
    const round = ['Started', 'Restart Signaled', 'Killing', 'Terminated'];
    assert.deepEqual(types, [
      'Received',
      'Task Setup',
      ...UNLIMITED,
      ...round,
      'Restarting',
      ...round,
      'Restarting',
      // By now it has left the recent events, so it is said again.
      ...UNLIMITED,
      ...round,
      'Not Restarting',
    ]);
  });

  it('restarted by hand: ended as in a stop, started anew', async () => {
    await register('again', { tasks: { t: { Config: { command: 'sleep', args: ['1000'] } } } });
    await agent.untilTasks('again', 'runs', all(isUp));
    assert.equal((await agent.cli(['restart', 'again'])).code, 0);
    await until(
      'it runs again',
      async () => (await typesOf('again')).filter((type) => type === 'Started').length === 2,
    );
    const round = ['Restart Signaled', 'Killing', 'Terminated', 'Restarting', 'Started'];
    assert.deepEqual(await typesOf('again'), [...BEGUN, ...round]);
  });

  it('a sibling fails, a leader ends, only sidecars are left: the others are told why they end', async () => {
    const sleep = { Config: { command: 'sleep', args: ['1000'] } };
    const soon = (code: number): object => ({ Config: shell(`sleep 0.7; exit ${code}`) });
    await register('sibling', { tasks: { t: sleep, other: soon(1) } });
    await register('leader', { type: 'batch', tasks: { t: sleep, boss: { ...soon(0), Leader: true } } });
    const Lifecycle = { Hook: 'prestart', Sidecar: true };
    await register('mains', { type: 'batch', tasks: { t: { ...sleep, Lifecycle }, main: soon(0) } });
    const why = { sibling: 'Sibling Task Failed', leader: 'Leader Task Dead', mains: 'Main Tasks Dead' };
    for (const [job, because] of Object.entries(why)) {
      await agent.untilTasks(job, 'is over', all(isDead));
      assert.deepEqual(await typesOf(job), [...BEGUN, because, ...KILLED], job);
    }
    assert.match(await statusOf('sibling'), /stopped: task "other" of the group failed/);
  });

  it('a set-up that fails for good: never started, and status says what is wrong', async () => {
    const task = { Config: shell('true'), User: 'no-such-user-of-holdfast' };
    await register('setup', { tasks: { t: task } });
    await agent.untilTasks('setup', 'is over', all(isDead));
    const types = await typesOf('setup');
    assert.ok(!types.includes('Started'));
    assert.equal(types.at(-1), 'Not Restarting');
    assert.match(await statusOf('setup'), /failed: .*no-such-user-of-holdfast/);
  });

  it('a template’s script runs in the task after the first start and after each change', async () => {
    const input = join(agent.dir, 'script-input');
    const trace = join(agent.dir, 'script-trace');
    const data = '{{ file "alloc/data/in" }}';
    const script = (args: readonly string[], over = {}): object => ({
      EmbeddedTmpl: data,
      DestPath: `local/${args[0] ?? ''}`,
      ChangeMode: 'script',
      Splay: 0,
      ChangeScript: { Command: '/bin/sh', Args: args.slice(1), Timeout: 5e9, ...over },
    });
    const task = {
      Config: shell(`mkdir -p ../alloc/data; exec sleep 1000`),
      Templates: [
        { EmbeddedTmpl: 'x', DestPath: 'alloc/data/in', ChangeMode: 'noop', Once: true },
        script(
          ['conf', '-c', `echo "$(cat local/conf) \${NOMAD_TASK_NAME}" >> ${trace}; test ! -e ${input}`],
          {
            FailOnError: true,
          },
        ),
      ],
    };
    await register('scripted', { tasks: { t: task } });
    await until('the first', () => existsSync(trace));
    const [view] = await agent.untilTasks('scripted', 'runs', all(isUp));
    assert.ok(view);
    writeFileSync(input, '');
    writeFileSync(join(agent.dataDir, 'alloc', view.allocId, 'alloc/data/in'), 'y');
    await agent.untilTasks('scripted', 'has failed', all(isDead));
    const events = await agent.events('scripted');
    assert.ok(events.some(({ DisplayMessage }) => /change_script .*: exited 1/.test(DisplayMessage)));
    assert.equal(events.at(-1)?.Type, 'Killed');
    assert.match(await statusOf('scripted'), /failed: .*change_script/);
  });
});

it('taken up again: running, ended meanwhile, in its delay, waiting, dead; nothing is said twice', async () => {
  const killed = await RealAgent.start();
  after(() => killed.close());
  const go = join(killed.dir, 'go');
  const Lifecycle = { Hook: 'prestart', Sidecar: false };
  const sleep = { Config: { command: 'sleep', args: ['1000'] } };
  await register('running', { tasks: { t: sleep } }, killed);
  const waits = `while [ ! -e ${go} ]; do sleep 0.05; done; exit 7`;
  await register('ended', { type: 'batch', tasks: { t: { Config: shell(waits) } } }, killed);
  const rests = { Config: shell('exit 3'), RestartPolicy: ATTEMPTS(5, 60e9) };
  await register('resting', { tasks: { t: rests } }, killed);
  await register('waiting', { tasks: { init: { ...sleep, Lifecycle }, t: sleep } }, killed);
  await register('dead', { type: 'batch', tasks: { t: { Config: shell('true') }, other: sleep } }, killed);
  const phases = {
    running: 'running',
    ended: 'running',
    resting: 'backoff',
    waiting: 'waiting',
    dead: 'dead',
  };
  for (const [job, phase] of Object.entries(phases)) {
    await killed.untilTasks(job, `is ${phase}`, (tasks) =>
      tasks.some(({ task, state }) => task === 't' && state.Holdfast.Phase === phase),
    );
  }
  const before = new Map<string, string[]>();
  for (const job of Object.keys(phases)) before.set(job, await typesOf(job, 't', killed));
  await killed.kill();
  writeFileSync(go, '');
  await killed.start();
  await killed.untilTasks('ended', 'is over', all(isDead));
  assert.deepEqual(await typesOf('ended', 't', killed), [...BEGUN, 'Terminated', 'Not Restarting']);
  for (const job of ['running', 'resting', 'waiting', 'dead'])
    assert.deepEqual(await typesOf(job, 't', killed), before.get(job), job);
  assert.match(await statusOf('ended', killed), /failed: exited 7/);
  assert.match(
    await statusOf('resting', killed),
    /backoff, retry in (1m|[1-5]?\ds).*\(1\/5 used; exited 3\)/,
  );
  assert.match(await statusOf('waiting', killed), /waiting/);
  assert.match(await statusOf('dead', killed), /complete/);
});
