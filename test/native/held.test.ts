/** An executor that is started to be held: all is set up, and nothing of the task runs before it is told to go. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat, type ProcessRef } from '../../src/base/host.js';
import { FRAME, REPLY_BIT } from '../../src/executor/protocol.js';
import { until } from '../helpers/until.js';
import { Cgroup, needs, V1_MEMORY, V2 } from './cgroups.js';
import { IS_ROOT, processesOf, Run, TOLD } from './harness.js';
import { areGone, childrenOf, Held } from './hold.js';

const ECANCELED = 125;
const ECHILD = 10;
const SIGKILL = 'SIGKILL';
const GIVEN_UP = {
  status: TOLD.startFailed,
  stderr: 'start failed at gate: given up before its start: Operation canceled',
};

type Change = ConstructorParameters<typeof Run>[0];

/** Kinds of tasks whose starts go different ways, and how many children stand at the gate. */
const KINDS: readonly (readonly [string, Change, number])[] = [
  ['a plain task', {}, 1],
  [
    'a task in a pid namespace',
    {
      isolation: {
        namespaces: ['mount', 'pid', 'ipc', ...(IS_ROOT ? [] : (['user'] as const))],
        mounts: ['/bin', '/etc', '/lib', '/lib64', '/sbin', '/usr'].map((dir) => ({
          source: dir,
          target: dir,
          options: ['ro', 'optional', 'link'],
        })),
        search: ['/usr/bin', '/bin'],
        capabilities: { bounding: 0, ambient: 0 },
        noNewPrivs: true,
        seccomp: true,
      },
    },
    2,
  ],
  ['a task with a terminal', { terminal: { columns: 80, rows: 24 } }, 1],
];

/** The process that holds the terminal of the run, if there is one. */
function holdersOf(run: Run): ProcessRef[] {
  const { tty_pid, tty_start } = run.status();
  return tty_pid === undefined ? [] : [{ pid: Number(tty_pid), startTicks: Number(tty_start) }];
}

/** What is left of a run that was held and never told to go: only what says so. */
async function assertNeverStarted(run: Run, was: readonly ProcessRef[]): Promise<void> {
  await areGone(was);
  assert.ok(!existsSync(join(run.dir, 'exit')), 'nothing is on record');
  assert.deepEqual([run.status()['state'], run.status()['pid']], ['ready', undefined]);
  assert.equal((await run.adopt()).status, TOLD.notThere);
  assert.equal((await run.start()).status, TOLD.claimed);
  using again = new Held(run);
  assert.equal((await again.told).status, TOLD.claimed);
  assert.equal(run.log(), '');
  assert.deepEqual(processesOf(run.runId), []);
}

describe('an executor that is held', { concurrency: 2, timeout: 120_000 }, () => {
  for (const [kind, change, children] of KINDS) {
    it(`G7: ${kind}: is set up and waits; it runs on GO, and not before`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran; exec sleep 1000' });
      using held = new Held(run);
      const at = await held.ready(children);
      assert.deepEqual([run.status()['state'], run.status()['pid']], ['ready', undefined]);
      assert.equal(run.log(), '');
      // Not by time alone: it serves whoever asks, and still nothing has begun.
      const client = await run.client();
      assert.equal((await client.statusText())['state'], 'ready');
      assert.deepEqual(childrenOf(at.executor.pid), at.children);
      await held.go();
      assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
      assert.equal(run.status()['state'], 'running');
      assert.ok(
        at.children.some(({ pid }) => pid === run.workload.pid),
        'it is the one that waited',
      );
      assert.equal(readProcessStat(run.workload.pid)?.startTicks, run.workload.startTicks);
      await run.logged('ran\n');
      const holders = holdersOf(run);
      await run.stop(15, 20_000);
      assert.equal(await run.outcome(), 'signaled 15');
      assert.equal((await run.exit())['pid'], String(run.workload.pid));
      assert.equal(run.log(), 'ran\n');
      await areGone([at.executor, ...at.children, ...holders]);
    });

    it(`G7: ${kind}: nothing of it is made before its cgroup is, and nothing is left when its launcher dies then`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran' });
      using held = new Held(run);
      const executor = await held.isSetUp();
      assert.equal((await (await run.client()).statusText())['state'], 'ready');
      assert.deepEqual(childrenOf(executor.pid), []);
      const holders = holdersOf(run);
      held.leave();
      assert.deepEqual(await held.report, GIVEN_UP);
      await assertNeverStarted(run, [executor, ...holders]);
    });

    it(`G8: ${kind}: is made once when GO comes by a frame before the word that its cgroup is there`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran; exec sleep 1000' });
      using held = new Held(run);
      const executor = await held.isSetUp();
      const client = await run.client();
      await client.ask(FRAME.status);
      // Stopped, so that it finds both at once.
      process.kill(executor.pid, 'SIGSTOP');
      const go = client.send(FRAME.go);
      await held.made();
      process.kill(executor.pid, 'SIGCONT');
      assert.equal((await client.reply(go))?.type, FRAME.go | REPLY_BIT);
      assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
      await run.logged('ran\n');
      assert.equal(childrenOf(executor.pid).length, children);
      await run.stop(0, 0);
      assert.equal(await run.outcome(), 'signaled 9');
      assert.equal(run.log(), 'ran\n');
      await areGone([executor]);
    });

    it(`G7: ${kind}: nothing runs when its launcher dies before GO`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran' });
      using held = new Held(run);
      const at = await held.ready(children);
      const was = [at.executor, ...at.children, ...holdersOf(run)];
      held.leave();
      assert.deepEqual(await held.report, GIVEN_UP);
      await assertNeverStarted(run, was);
      assert.ok(!existsSync(join(run.dir, 'sock')));
    });

    it(`G7: ${kind}: nothing runs when the executor is killed before GO`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran' });
      using held = new Held(run);
      const at = await held.ready(children);
      const was = [at.executor, ...at.children, ...holdersOf(run)];
      process.kill(at.executor.pid, SIGKILL);
      await areGone(was);
      await held.go();
      assert.equal(await held.report, undefined);
      await assertNeverStarted(run, was);
    });

    it(`G7: ${kind}: is never lost when what waits is killed`, async () => {
      for (let victim = 0; victim < children; victim++) {
        await using run = new Run({ ...change, sh: 'echo ran' });
        using held = new Held(run);
        const at = await held.ready(children);
        process.kill(at.children[victim]?.pid ?? 0, SIGKILL);
        const told = await held.report;
        assert.equal(told?.status, TOLD.startFailed);
        assert.match(told.stderr, /^start failed at gate: killed before its start: /);
        await held.go();
        assert.equal(await run.outcome(), `start_failed gate ${ECHILD}`);
        assert.equal(run.status()['state'], 'failed');
        assert.equal(run.log(), '');
        await areGone([at.executor, ...at.children, ...holdersOf(run)]);
      }
    });

    it(`${kind}: a stop before GO is a start that was cancelled, and GO changes nothing`, async () => {
      await using run = new Run({ ...change, sh: 'echo ran' });
      using held = new Held(run);
      const at = await held.ready(children);
      await run.stop(15, 60_000);
      await held.go();
      assert.deepEqual(await held.report, {
        status: TOLD.startFailed,
        stderr: 'start failed at gate: stopped before its start: Operation canceled',
      });
      assert.equal(await run.outcome(), `start_failed gate ${ECANCELED}`);
      assert.equal(run.log(), '');
      await areGone([at.executor, ...at.children, ...holdersOf(run)]);
    });
  }

  it('G7: takes GO that is there before it is, also when nobody is there to hear of it', async () => {
    for (const leaves of [false, true]) {
      await using run = new Run({ sh: 'echo ran; exit 3' });
      const doors = join(run.root, 'doors');
      const script = `while [ ! -e ${doors} ]; do /bin/sleep 0.01; done; exec "$@"`;
      using held = new Held(run, ['/bin/sh', '-c', script, 'sh']);
      await held.go();
      if (leaves) held.leave();
      writeFileSync(doors, '');
      assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
      assert.equal(await run.outcome(), 'exited 3');
      assert.equal(run.log(), 'ran\n');
    }
  });

  it('G7: is given up when the end is there before it is', async () => {
    for (const isMade of [false, true]) {
      await using run = new Run({ sh: 'echo ran' });
      const doors = join(run.root, 'doors');
      const script = `while [ ! -e ${doors} ]; do /bin/sleep 0.01; done; exec "$@"`;
      using held = new Held(run, ['/bin/sh', '-c', script, 'sh']);
      if (isMade) await held.made();
      held.leave();
      writeFileSync(doors, '');
      assert.deepEqual(await held.report, GIVEN_UP);
      await assertNeverStarted(run, [run.executor]);
      assert.deepEqual(readdirSync(run.dir).sort(), ['lock', 'spec', 'status']);
    }
  });

  it('goes by a frame as well, once, and lives on when its launcher dies then', async () => {
    await using run = new Run({ sh: 'echo ran; exec sleep 1000' });
    using held = new Held(run);
    await held.ready();
    const client = await run.client();
    assert.equal((await client.ask(FRAME.go)).type, FRAME.go | REPLY_BIT);
    await held.go();
    assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
    held.leave();
    await run.logged('ran\n');
    // Answered after the end of its input was there to see.
    assert.equal((await client.statusText())['state'], 'running');
    assert.ok(isAlive(run.workload));
    await run.stop(0, 0);
    assert.equal(await run.outcome(), 'signaled 9');
    assert.equal(run.log(), 'ran\n');
  });

  it('goes by a frame, and its launcher dies without a word', async () => {
    await using run = new Run({ sh: 'echo ran; exec sleep 1000' });
    using held = new Held(run);
    await held.ready();
    const client = await run.client();
    await client.ask(FRAME.go);
    held.leave();
    await run.logged('ran\n');
    assert.equal((await client.statusText())['state'], 'running');
    await run.stop(0, 0);
    assert.equal(await run.outcome(), 'signaled 9');
  });

  it('G11: is ended by no signal but SIGKILL', async () => {
    await using run = new Run({ sh: 'exit 3' });
    using held = new Held(run);
    const { executor } = await held.ready();
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGPIPE', 'SIGUSR1', 'SIGTSTP'] as const)
      process.kill(executor.pid, signal);
    await held.go();
    assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
    assert.equal(await run.outcome(), 'exited 3');
  });

  const beforeGo: readonly (readonly [string, Change, string, string])[] = [
    ['no log directory', { log: { dir: '/nonexistent' } }, 'log_dir 2', 'log_dir: /nonexistent'],
    ['no such user', { user: 'no-such-user' }, 'user 2', 'user: no-such-user'],
    ['no such cgroup', { cgroup: '/nonexistent' }, 'cgroup 2', 'cgroup: /nonexistent'],
  ];
  const afterGo: readonly (readonly [string, Change, string, string])[] = [
    ['no such program', { argv: ['/nonexistent'] }, 'exec 2', 'exec: /nonexistent'],
    ['no such directory', { cwd: '/nonexistent' }, 'chdir 2', 'chdir: /nonexistent'],
  ];
  for (const [when, cases] of [
    ['before', beforeGo],
    ['after', afterGo],
  ] as const) {
    for (const [name, change, outcome, words] of cases) {
      it(`G5: ${name}: fails ${when} GO, says so, and leaves nothing`, async () => {
        await using run = new Run(change);
        using held = new Held(run);
        if (when === 'after') {
          await held.ready();
          await held.go();
        } else {
          await held.made();
        }
        assert.deepEqual(await held.report, {
          status: TOLD.startFailed,
          stderr: `start failed at ${words}: No such file or directory`,
        });
        assert.equal(await run.outcome(), `start_failed ${outcome}`);
        assert.equal(run.status()['state'], 'failed');
        await areGone([run.executor]);
        assert.deepEqual(readdirSync(run.dir).sort(), ['exit', 'lock', 'spec', 'status']);
      });
    }
  }

  for (const [name, change] of KINDS) {
    // Only root is nobody's to look into while it takes on its limits.
    const skip = IS_ROOT ? false : 'needs root';
    it(
      `G5: ${name}: a limit that there is not fails before GO, says so, and leaves nothing`,
      { skip },
      async () => {
        const rlimits = [{ name: 'bogus', soft: 5, hard: 5 }];
        await using run = new Run({ ...change, attributes: { rlimits, umask: 0o022, nice: undefined } });
        using held = new Held(run);
        const executor = await held.isSetUp();
        await held.made();
        assert.deepEqual(await held.report, {
          status: TOLD.startFailed,
          stderr: 'start failed at rlimit: bogus 5 5: Invalid argument',
        });
        assert.equal(await run.outcome(), 'start_failed rlimit 22');
        assert.equal((await run.exit())['detail'], 'bogus 5 5');
        assert.equal(run.status()['state'], 'failed');
        await areGone([executor, ...holdersOf(run)]);
        assert.deepEqual(readdirSync(run.dir).sort(), [
          ...['exit', 'lock', 'spec', 'status'],
          ...(change?.terminal === undefined ? [] : ['tty']),
        ]);
        assert.deepEqual(processesOf(run.runId), []);
      },
    );
  }

  it('G10: a spec that cannot be used is refused in words, and no claim is made', async () => {
    await using run = new Run({ bootId: '00000000-0000-4000-8000-000000000000' });
    using held = new Held(run);
    const told = await held.told;
    assert.equal(told.status, TOLD.noSetup);
    assert.match(told.stderr, /another boot/);
    assert.deepEqual(readdirSync(run.dir), ['spec']);
  });

  it('G8: of twenty at once that are all told to go one runs', async () => {
    await using run = new Run();
    run.writeSpec({ sh: `echo started >> ${run.root}/starts` });
    const all = Array.from({ length: 20 }, () => new Held(run));
    for (const held of all) await held.go();
    const told = await Promise.all(all.map((held) => held.told));
    assert.deepEqual(told.map(({ status }) => status).sort(), [
      TOLD.ok,
      ...Array.from({ length: 19 }, () => TOLD.claimed),
    ]);
    assert.equal(await run.outcome(), 'exited 0');
    assert.equal(readFileSync(join(run.root, 'starts'), 'utf8'), 'started\n');
  });

  it('a fence prevents it', async () => {
    await using run = new Run();
    writeFileSync(join(run.dir, 'lock'), '', { flag: 'wx' });
    using held = new Held(run);
    await held.go();
    const told = await held.told;
    assert.equal(told.status, TOLD.claimed);
    assert.match(told.stderr, /claimed already/);
  });

  it('G6: killed at any moment, it leaves nothing without GO, and with it at most a workload that is on record', async () => {
    const seen = { nothing: 0, workload: 0, ended: 0 };
    for (let round = 0; round < 60; round++) {
      const goes = round % 3 > 0;
      await using run = new Run();
      run.writeSpec({ sh: `echo $$ > ${run.root}/ran; exec sleep 1000` });
      using held = new Held(run);
      await until('an executor', () => existsSync(join(run.dir, 'status')), { everyMs: 0 });
      if (goes) await held.go();
      const untilNs = process.hrtime.bigint() + BigInt(round) * 40_000n;
      while (process.hrtime.bigint() < untilNs);
      const was = [run.executor, ...childrenOf(run.executor.pid)];
      await run.killExecutor();
      const told = await run.adopt();
      if (told.status === TOLD.ok) {
        seen.workload++;
        // A child that was still behind its gate ends by itself.
        await run.stop(0, 0).catch(() => undefined);
        const outcome = await run.outcome();
        const ran = existsSync(join(run.root, 'ran'));
        assert.ok(goes, 'it was never told to');
        assert.ok(outcome === 'signaled 9' || (!ran && outcome === 'unknown supervision_lost'), outcome);
      } else {
        assert.equal(told.status, TOLD.notThere);
        seen[existsSync(join(run.dir, 'exit')) ? 'ended' : 'nothing']++;
        await areGone(was);
        assert.ok(!existsSync(join(run.root, 'ran')), 'it ran and is not on record');
      }
      assert.deepEqual(processesOf(run.runId), []);
    }
    assert.ok(seen.workload > 0 && seen.nothing >= 20, JSON.stringify(seen));
  });
});

describe('an executor that is held, and cgroup v2', needs(V2, 'cgroup v2'), () => {
  it('its task is born in the cgroup, and leaves it when it is given up', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = new Run({ sh: 'echo ran', cgroup: cgroup.dir });
    using held = new Held(run);
    const { executor, children } = await held.ready();
    assert.deepEqual(
      cgroup.pids(),
      children.map(({ pid }) => pid),
    );
    held.leave();
    await assertNeverStarted(run, [executor, ...children]);
    assert.deepEqual(cgroup.pids(), []);
  });

  it('its executor is set up before its cgroup is there, and what runs is born in it all the same', async () => {
    await using parent = new Cgroup(V2);
    const dir = join(parent.dir, 'leaf');
    await using run = new Run({ sh: 'echo ran; exec sleep 1000', cgroup: dir });
    using held = new Held(run);
    await held.isSetUp();
    await using leaf = new Cgroup(parent.dir, 'leaf');
    const { children } = await held.ready();
    assert.deepEqual(
      leaf.pids(),
      children.map(({ pid }) => pid),
    );
    await held.go();
    assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
    await run.logged('ran\n');
    await run.stop(0, 0);
    assert.equal(await run.outcome(), 'signaled 9');
    assert.deepEqual(leaf.pids(), []);
  });

  it('G5: is told to go by a frame before its cgroup is there: that is a start that fails', async () => {
    await using run = new Run({ sh: 'echo ran', cgroup: join(V2 ?? '', 'holdfast-native-test-none') });
    using held = new Held(run);
    const executor = await held.isSetUp();
    await (await run.client()).ask(FRAME.go);
    await held.go();
    assert.equal((await held.report)?.status, TOLD.startFailed);
    assert.equal(await run.outcome(), 'start_failed cgroup 2');
    await areGone([executor]);
  });

  it('G7: what waits is killed: made again, for a kernel that kills at birth, or on record; never lost', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = new Run({ sh: 'echo ran; exit 3', cgroup: cgroup.dir });
    using held = new Held(run);
    const { executor, children } = await held.ready();
    process.kill(children[0]?.pid ?? 0, SIGKILL);
    await areGone(children);
    const again = await until('another one, or a record', () => {
      if (existsSync(join(run.dir, 'exit'))) return 'on record';
      return childrenOf(executor.pid).length > 0 ? 'made again' : undefined;
    });
    assert.equal(run.log(), '');
    await held.go();
    const { status } = await held.told;
    assert.deepEqual(
      [status, await run.outcome(), run.log()],
      again === 'made again'
        ? [TOLD.ok, 'exited 3', 'ran\n']
        : [TOLD.startFailed, `start_failed gate ${ECHILD}`, ''],
    );
    assert.deepEqual(cgroup.pids(), []);
  });

  /** Runs the executor out of that cgroup. */
  const from = (procs: string): string[] => ['/bin/sh', '-c', `echo $$ > ${procs}; exec "$@"`, 'sh'];

  it('writes no file to be where its launcher is already', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = new Run({
      sh: 'exec sleep 1000',
      selfProcs: [join(cgroup.dir, 'no-such-file')],
    });
    using held = new Held(run, from(join(cgroup.dir, 'cgroup.procs')));
    const { executor, children } = await held.ready();
    assert.deepEqual(cgroup.pids().sort(), [executor, ...children].map(({ pid }) => pid).sort());
    assert.equal(run.status()['self_procs_errno'], undefined);
    held.leave();
    await areGone([executor, ...children]);
  });

  it('moves itself when its launcher is elsewhere, also just below or above', async () => {
    await using cgroup = new Cgroup(V2);
    await using below = new Cgroup(cgroup.dir);
    for (const [at, to] of [
      [undefined, cgroup],
      [below, cgroup],
      [cgroup, below],
    ] as const) {
      await using run = new Run({ sh: 'exec sleep 1000', selfProcs: [join(to.dir, 'cgroup.procs')] });
      using held = new Held(run, at === undefined ? [] : from(join(at.dir, 'cgroup.procs')));
      const { executor } = await held.ready();
      assert.ok(to.pids().includes(executor.pid));
      assert.equal(run.status()['self_procs_errno'], undefined);
      held.leave();
      await areGone([executor]);
    }
  });

  it('says when it cannot', async () => {
    await using cgroup = new Cgroup(V2);
    await using run = new Run({ selfProcs: [join(cgroup.dir, 'no-such-file')] });
    using held = new Held(run);
    await held.ready();
    assert.equal(run.status()['self_procs_errno'], '2');
  });

  it(
    'a group of cgroup v1 with the same path is another one',
    needs(V1_MEMORY, 'cgroup v1 memory'),
    async () => {
      await using cgroup = new Cgroup(V2);
      await using v1 = new Cgroup(V1_MEMORY, cgroup.name);
      await using run = new Run({
        sh: 'exec sleep 1000',
        selfProcs: [join(cgroup.dir, 'no-such-file'), join(v1.dir, 'tasks')],
      });
      using held = new Held(run, from(join(cgroup.dir, 'cgroup.procs')));
      const { executor } = await held.ready();
      assert.ok(v1.pids().includes(executor.pid));
      assert.equal(run.status()['self_procs_errno'], undefined);
      held.leave();
      await areGone([executor]);
    },
  );
});
