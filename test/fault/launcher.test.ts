/** The helper that forks for the agent: whatever becomes of it, runs start once and none is lost. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { sleep, systemClock } from '../../src/base/clock.js';
import { Deferred } from '../../src/base/deferred.js';
import { isAlive } from '../../src/base/host.js';
import { silentLogger } from '../../src/base/log.js';
import type { DriverHandle } from '../../src/drivers/driver.js';
import { Launcher, type HeldStart } from '../../src/executor/launcher.js';
import { readStatusFile } from '../../src/executor/run-dir.js';
import { DriverWorld, lives } from '../helpers/driver-world.js';
import { until } from '../helpers/until.js';
import { Run, TOLD } from '../native/harness.js';
import { areGone, childrenOf } from '../native/hold.js';

const world = await DriverWorld.open();

async function open(executorPath = world.deps.executorPath): Promise<Launcher> {
  const launcher = new Launcher({ clock: systemClock, logger: silentLogger, executorPath });
  await until('the launcher is ready', () => (launcher.isReady ? true : undefined));
  return launcher;
}

/** A program that starts its helper with the real one, and does `script` for a run. */
function executorThat(name: string, script: string): string {
  const path = join(world.dir, name, 'holdfast-executor');
  mkdirSync(dirname(path));
  const real = world.deps.executorPath;
  writeFileSync(path, `#!/bin/sh\n[ "$1" = launch ] && exec '${real}' "$@"\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

async function end(handle: DriverHandle): Promise<void> {
  await handle.stop({ signal: constants.signals.SIGKILL, graceMs: 0 });
  await handle.wait();
  await handle.release();
}

after(() => world.close());

describe('launcher', () => {
  it('starts many at once, each of them once, and more than it has slots for', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const handles = await Promise.all(
      Array.from({ length: 80 }, async () =>
        world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit)),
      ),
    );
    const pids = new Set(handles.map(({ ref }) => ref.workload?.pid));
    assert.equal(pids.size, 80);
    assert.ok(!pids.has(undefined));
    await Promise.all(handles.map(end));
  });

  it('starts nothing before it is where it belongs', async () => {
    const admitted = new Deferred<undefined>();
    const admit = async (): Promise<void> => {
      await admitted.promise;
    };
    await using launcher = new Launcher({ ...world.deps, clock: systemClock, logger: silentLogger, admit });
    await until('the launcher is ready', () => (launcher.isReady ? true : undefined));
    let isStarted = false;
    const config = await world.shell('exec sleep 600');
    const start = world
      .driver({ launcher })
      .start(config, world.emit)
      .finally(() => (isStarted = true));
    await sleep(systemClock, 100);
    assert.ok(!isStarted);
    admitted.resolve(undefined);
    await end(world.keep(await start));
  });

  it('is gone once it is closed', async () => {
    const launcher = await open();
    const { pid } = launcher;
    await launcher[Symbol.asyncDispose]();
    assert.throws(() => process.kill(pid ?? 0, 0), { code: 'ESRCH' });
  });

  it('is killed: what it has started lives on, and the next run starts without it', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const first = world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit));
    process.kill(launcher.pid ?? 0, 'SIGKILL');
    await until('it is known to be gone', () => (launcher.isReady ? undefined : true));
    const second = world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit));
    assert.notEqual(first.ref.workload?.pid, second.ref.workload?.pid);
    await Promise.all([first, second].map(end));
  });

  it('is killed while it starts something: it is found out whether that runs', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const configs = await Promise.all(Array.from({ length: 20 }, () => world.shell('exec sleep 600')));
    const starts = configs.map(async (config) => {
      try {
        return world.keep(await driver.start(config, world.emit));
      } catch {
        return undefined; // It never started, and that is known.
      }
    });
    setImmediate(() => process.kill(launcher.pid ?? 0, 'SIGKILL'));
    const handles = (await Promise.all(starts)).filter((handle) => handle !== undefined);
    await Promise.all(handles.map(end));
  });

  it('tells what a program said that could not do it, and kills one that takes too long', async () => {
    const executorPath = executorThat(
      'says',
      '[ "$2" = slow ] && exec sleep 600; echo "no memory" >&2; exit 12',
    );
    await using launcher = await open(executorPath);
    assert.deepEqual(await launcher.run('run', 'fast', 10_000), {
      kind: 'exited',
      code: 12,
      said: 'no memory',
    });
    const slow = await launcher.run('run', 'slow', 50);
    assert.equal(slow.kind, 'unclear');
    assert.match(slow.detail, /signal 9/);
  });

  it('cannot be started: nobody asks it', async () => {
    await using launcher = new Launcher({
      clock: systemClock,
      logger: silentLogger,
      executorPath: executorThat('none', 'exit 1').replace('/none/', '/nowhere/'),
    });
    await until('its failure has come', () => (launcher.pid === undefined ? true : undefined));
    assert.equal(launcher.isReady, false);
    const driver = world.driver({ launcher });
    await end(world.keep(await driver.start(await world.shell('exec sleep 600'), world.emit)));
  });
});

/** Longer than anything here takes. */
const LONG_MS = 30_000;

/** Holds the start of a run, and waits until all of it stands at its gate. */
async function hold(launcher: Launcher, run: Run): Promise<HeldStart> {
  const held = launcher.hold(run.dir);
  assert.ok(held !== undefined, 'it can be held');
  held.made();
  await until(
    'it waits at its gate',
    () => existsSync(join(run.dir, 'status')) && childrenOf(run.executor.pid).length > 0,
    { everyMs: 2 },
  );
  return held;
}

describe('a start that the launcher holds', { timeout: 120_000 }, () => {
  it('G7: runs when it is told to go, and not before', async () => {
    await using launcher = await open();
    await using run = new Run({ sh: 'echo ran; exit 3' });
    const held = await hold(launcher, run);
    assert.deepEqual([run.status()['state'], run.log()], ['ready', '']);
    assert.deepEqual(await held.go(LONG_MS), { kind: 'exited', code: TOLD.ok, said: '' });
    assert.equal(await run.outcome(), 'exited 3');
    assert.equal(run.log(), 'ran\n');
  });

  it('G7: is told to go before the launcher has even begun', async () => {
    const admitted = new Deferred<undefined>();
    const admit = async (): Promise<void> => {
      await admitted.promise;
    };
    await using launcher = new Launcher({ ...world.deps, clock: systemClock, logger: silentLogger, admit });
    await until('the launcher is ready', () => launcher.isReady);
    await using run = new Run({ sh: 'exit 3' });
    const held = launcher.hold(run.dir);
    held?.made();
    const end = held?.go(LONG_MS);
    admitted.resolve(undefined);
    assert.deepEqual(await end, { kind: 'exited', code: TOLD.ok, said: '' });
    assert.equal(await run.outcome(), 'exited 3');
  });

  it('G7: is dropped: it has left when that is answered, and nothing has run', async () => {
    await using launcher = await open();
    await using run = new Run({ sh: 'echo ran' });
    const held = await hold(launcher, run);
    const was = [run.executor, ...childrenOf(run.executor.pid)];
    const end = await held.drop(LONG_MS);
    assert.deepEqual([end.kind, 'code' in end ? end.code : undefined], ['exited', TOLD.startFailed]);
    await areGone(was);
    assert.equal((await run.adopt()).status, TOLD.notThere);
    assert.ok(!existsSync(join(run.dir, 'exit')));
    assert.equal(run.log(), '');
  });

  it('G5: fails before it is told to go, and says so when it is; or when it is dropped', async () => {
    await using launcher = await open();
    for (const word of ['go', 'drop'] as const) {
      await using run = new Run({ user: 'no-such-user' });
      const held = launcher.hold(run.dir);
      held?.made();
      assert.equal(await run.outcome(), 'start_failed user 2');
      await areGone([run.executor]);
      const end = await held?.[word](LONG_MS);
      assert.deepEqual(end, {
        kind: 'exited',
        code: TOLD.startFailed,
        said: 'start failed at user: no-such-user: No such file or directory',
      });
    }
  });

  it('is refused in words when there is nothing to start', async () => {
    await using launcher = await open();
    const end = await launcher.hold('/nonexistent')?.go(LONG_MS);
    assert.deepEqual(end, {
      kind: 'exited',
      code: TOLD.noSetup,
      said: 'holdfast-executor: /nonexistent: No such file or directory',
    });
  });

  it('G8: two of one run: one runs, the other one says that it is claimed', async () => {
    await using launcher = await open();
    await using run = new Run({ sh: 'echo ran; exit 3' });
    const held = [launcher.hold(run.dir), launcher.hold(run.dir)];
    for (const one of held) one?.made();
    const ends = await Promise.all(held.map(async (one) => one?.go(LONG_MS)));
    const codes = ends.map((end) => (end?.kind === 'exited' ? end.code : undefined));
    assert.deepEqual(codes.sort(), [TOLD.ok, TOLD.claimed]);
    assert.equal(await run.outcome(), 'exited 3');
    assert.equal(run.log(), 'ran\n');
  });

  it('no more than 32 are held; the rest are started without, and all run once', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const configs = await Promise.all(Array.from({ length: 80 }, () => world.shell('exec sleep 600')));
    const prepared = await Promise.all(configs.map((config) => driver.prepare(config)));
    const statusOf = (runId: string): string => {
      const path = join(world.deps.runsDir, runId.slice(0, 2), runId, 'status');
      return existsSync(path) ? readFileSync(path, 'utf8') : '';
    };
    const ready = (): number =>
      configs.filter(({ runId }) => statusOf(runId).includes('state=ready\n')).length;
    await until('32 are held', () => ready() === 32, { lastSeen: ready });
    const handles = await Promise.all(prepared.map(async (one) => world.keep(await one.start(world.emit))));
    const pids = new Set(handles.map(({ ref }) => ref.workload?.pid));
    assert.equal(pids.size, 80);
    assert.ok(!pids.has(undefined));
    // As many as before can be held again.
    const again = await Promise.all(
      Array.from({ length: 33 }, async () => driver.prepare(await world.shell('exit 0'))),
    );
    await Promise.all(again.map((one) => one.giveUp()));
    await Promise.all(handles.map(end));
    assert.equal(ready(), 0);
  });

  it('G7: of many that are held at once some go and some are dropped, each as it was told', async () => {
    await using launcher = await open();
    const runs = Array.from({ length: 32 }, () => new Run({ sh: 'echo ran' }));
    try {
      const held = runs.map((run) => launcher.hold(run.dir));
      assert.equal(launcher.hold('/nonexistent'), undefined, 'that would be too many');
      for (const one of held) one?.made();
      const goes = (at: number): boolean => at % 2 === 0;
      const ends = await Promise.all(held.map(async (one, at) => one?.[goes(at) ? 'go' : 'drop'](LONG_MS)));
      for (const [at, run] of runs.entries()) {
        const told = ends[at];
        assert.deepEqual(told?.kind === 'exited' ? told.code : told, goes(at) ? TOLD.ok : TOLD.startFailed);
        if (goes(at)) assert.equal(await run.outcome(), 'exited 0');
        else assert.ok(!existsSync(join(run.dir, 'exit')));
        assert.equal(run.log(), goes(at) ? 'ran\n' : '');
      }
    } finally {
      for (const run of runs) await run[Symbol.asyncDispose]();
    }
  });

  it('G7: its launcher is killed: nothing has run, which is not clear to the agent by that', async () => {
    await using launcher = await open();
    await using one = new Run({ sh: 'echo ran' });
    await using other = new Run({ sh: 'echo ran' });
    const held = [await hold(launcher, one), await hold(launcher, other)];
    const was = [one, other].flatMap((run) => [run.executor, ...childrenOf(run.executor.pid)]);
    process.kill(launcher.pid ?? 0, 'SIGKILL');
    await until('it is known to be gone', () => !launcher.isReady);
    assert.equal((await held[0]?.go(LONG_MS))?.kind, 'unclear');
    assert.equal((await held[1]?.drop(LONG_MS))?.kind, 'unclear');
    await areGone(was);
    for (const run of [one, other]) {
      assert.equal(run.log(), '');
      assert.ok(!existsSync(join(run.dir, 'exit')));
      assert.equal((await run.adopt()).status, TOLD.notThere);
    }
    assert.equal(launcher.hold(one.dir), undefined);
  });

  it('its launcher is killed: the driver finds out that it never started, and starts it without one', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const config = await world.shell('echo ran; exit 3');
    const prepared = await driver.prepare(config);
    const runDir = join(world.deps.runsDir, config.runId.slice(0, 2), config.runId);
    await until('its executor is there', () => existsSync(join(runDir, 'status')));
    process.kill(launcher.pid ?? 0, 'SIGKILL');
    const handle = world.keep(await prepared.start(world.emit));
    const { result } = await handle.wait();
    assert.deepEqual([result.kind, world.stdout(config)], ['exited', 'ran\n']);
  });

  it('it is killed itself while it is held: that is a start that failed, and nothing is left', async () => {
    await using launcher = await open();
    const driver = world.driver({ launcher });
    const config = await world.shell('exec sleep 600');
    const prepared = await driver.prepare(config);
    const runDir = join(world.deps.runsDir, config.runId.slice(0, 2), config.runId);
    const status = await until('its executor is there', () => {
      const read = readStatusFile(runDir);
      return read.kind === 'ok' ? read.value : undefined;
    });
    process.kill(status.executor.pid, 'SIGKILL');
    await assert.rejects(prepared.start(world.emit), { code: 'executor_failed', recoverable: true });
    assert.ok(!existsSync(runDir));
    assert.equal(world.stdout(config), '');
  });

  it('G7: its agent is gone: the launcher leaves, and so do those that it holds', async () => {
    const launcher = await open();
    await using run = new Run({ sh: 'echo ran' });
    const held = await hold(launcher, run);
    const was = [run.executor, ...childrenOf(run.executor.pid)];
    await launcher[Symbol.asyncDispose]();
    assert.equal((await held.go(LONG_MS)).kind, 'unclear');
    await areGone(was);
    assert.ok(!existsSync(join(run.dir, 'exit')));
    assert.equal(run.log(), '');
  });

  it('what has been started lives on when its launcher is killed', async () => {
    await using launcher = await open();
    await using run = new Run({ sh: 'exec sleep 600' });
    await (await hold(launcher, run)).go(LONG_MS);
    process.kill(launcher.pid ?? 0, 'SIGKILL');
    await until('it is known to be gone', () => !launcher.isReady);
    assert.equal((await (await run.client()).statusText())['state'], 'running');
    assert.ok(isAlive(run.workload));
  });

  it('one that takes long with it is let alone, and not clear', async () => {
    const pidFile = join(world.dir, 'pid-of-a-slow-one');
    const executorPath = executorThat('idles', `echo $$ > ${pidFile}; exec sleep 600`);
    await using launcher = await open(executorPath);
    for (const word of ['go', 'drop'] as const) {
      writeFileSync(pidFile, '');
      const held = launcher.hold('/nonexistent');
      const pid = await until('it runs', () => Number(readFileSync(pidFile, 'utf8')) || undefined);
      try {
        assert.equal((await held?.[word](50))?.kind, 'unclear');
        // The launcher has carried out all of it by then: it answers in order.
        assert.equal((await launcher.run('run', '/nonexistent', 50)).kind, 'unclear');
        assert.ok(lives(pid));
      } finally {
        process.kill(pid, 'SIGKILL');
      }
    }
  });

  for (const [word, outcome] of [
    ['go', 'exited 3'],
    ['drop', undefined],
  ] as const) {
    it(`a word that takes long is not lost: ${word}`, async () => {
      await using launcher = await open();
      await using run = new Run({ sh: 'echo ran; exit 3' });
      const held = await hold(launcher, run);
      const was = [run.executor, ...childrenOf(run.executor.pid)];
      process.kill(run.executor.pid, 'SIGSTOP');
      assert.equal((await held[word](50)).kind, 'unclear');
      assert.ok(isAlive(run.executor));
      process.kill(run.executor.pid, 'SIGCONT');
      if (outcome === undefined) await areGone(was);
      else assert.equal(await run.outcome(), outcome);
      assert.equal(existsSync(join(run.dir, 'exit')), outcome !== undefined);
      assert.equal(run.log(), outcome === undefined ? '' : 'ran\n');
    });
  }

  it('G7: it is stopped itself: whoever waits for a word is not forgotten, and others do without it', async () => {
    await using launcher = await open();
    await using one = new Run({ sh: 'echo ran' });
    await using other = new Run({ sh: 'echo ran' });
    const held = [await hold(launcher, one), await hold(launcher, other)];
    const was = [one, other].flatMap((run) => [run.executor, ...childrenOf(run.executor.pid)]);
    process.kill(launcher.pid ?? 0, 'SIGSTOP');
    assert.equal((await held[0]?.go(50))?.kind, 'unclear');
    await areGone(was);
    assert.ok(!launcher.isReady);
    assert.equal((await held[1]?.go(LONG_MS))?.kind, 'unclear');
    for (const run of [one, other]) {
      assert.equal(run.log(), '');
      assert.equal((await run.adopt()).status, TOLD.notThere);
    }
  });

  for (const [kind, terminal] of [
    ['a plain task', undefined],
    ['a task with a terminal', { columns: 80, rows: 24 }],
  ] as const) {
    it(`G6: ${kind}: an executor that is killed before it has reported is not clear`, async () => {
      await using launcher = await open();
      await using run = new Run({ sh: 'echo ran', terminal });
      const held = await hold(launcher, run);
      await run.killExecutor();
      assert.equal((await held.go(LONG_MS)).kind, 'unclear');
      assert.equal(run.log(), '');
    });
  }
});
