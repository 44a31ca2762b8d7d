import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { DriverHandle, TaskConfig } from '../../../src/drivers/driver.js';
import { MockDriver, MockWorld } from '../../../src/drivers/mock.js';
import { DriverRegistry } from '../../../src/drivers/registry.js';
import { FakeClock } from '../../helpers/fake-clock.js';

describe('mock_driver, on a clock that stands still', () => {
  let dir = '';
  let clock = new FakeClock();
  let driver = new MockDriver({ clock, bootId: 'b', world: new MockWorld() });
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'holdfast-mock-'));
    clock = new FakeClock();
    driver = new MockDriver({ clock, bootId: 'b', world: new MockWorld() });
  });
  afterEach(() => {
    rmSync(dir, { recursive: true });
  });

  const config = (script: Record<string, unknown>): TaskConfig => ({
    runId: 'r1',
    allocId: 'a1',
    jobId: 'j',
    group: 'g',
    task: 'web',
    config: script,
    env: {},
    user: undefined,
    resources: { cpuMhz: 1, cpuPercent: undefined, memoryMib: 10, memoryMaxMib: undefined, pids: undefined },
    logs: { maxFiles: 1, maxFileSizeMib: 1, disabled: false },
    leftovers: 'kill',
    dirs: { allocDir: dir, taskDir: dir, localDir: dir, secretsDir: dir, logDir: dir },
  });
  const start = (script: Record<string, unknown>): Promise<DriverHandle> => driver.start(config(script));

  it('runs for as long as it is told', async () => {
    const handle = await start({ run_for: '5s', exit_code: 9 });
    let ended = false;
    void handle.wait().then(() => (ended = true));
    await clock.advance(4_999);
    assert.equal(ended, false);
    await clock.advance(1);
    const { result, ranForMs } = await handle.wait();
    assert.deepEqual(result, { kind: 'exited', code: 9, oomKilled: false });
    assert.equal(ranForMs, 5_000);
    assert.deepEqual(clock.pendingMs(), []);
  });

  it('blocks, and fails, its start', async () => {
    const failed = assert.rejects(
      start({ start_block_for: '3s', start_error: 'no', start_error_recoverable: true }),
      { code: 'start_failed', recoverable: true, message: 'no' },
    );
    let over = false;
    void failed.then(() => (over = true));
    await clock.advance(2_999);
    assert.equal(over, false);
    await clock.advance(1);
    await failed;
  });

  it('takes its time to end, until force', async () => {
    for (const [graceMs, endsAfterMs, signal] of [
      [10_000, 2_000, 15],
      [1_000, 1_000, 9],
    ] as const) {
      driver = new MockDriver({ clock, bootId: 'b', world: new MockWorld() });
      const handle = await start({ run_for: '1h', kill_after: '2s' });
      const stopped = handle.stop({ signal: 15, graceMs });
      await clock.advance(endsAfterMs);
      await stopped;
      const { result, ranForMs } = await handle.wait();
      assert.deepEqual(result, { kind: 'signaled', signal, coreDumped: false, oomKilled: false });
      assert.equal(ranForMs, endsAfterMs);
    }
  });

  it('prints, repeats, and stops printing at its end', async () => {
    const handle = await start({
      run_for: '10s',
      stdout_string: 'tick\n',
      stdout_repeat: 2,
      stdout_repeat_duration: '1s',
      stderr_string: 'err\n',
    });
    await clock.advance(1_500);
    assert.equal(readFileSync(join(dir, 'web.stdout.0'), 'utf8'), 'tick\ntick\n');
    assert.equal(readFileSync(join(dir, 'web.stderr.0'), 'utf8'), 'err\n');
    const stopped = handle.stop({ signal: 15, graceMs: 0 });
    await clock.advance(5_000);
    await stopped;
    assert.equal(readFileSync(join(dir, 'web.stdout.0'), 'utf8'), 'tick\ntick\n');
  });

  it('fails signals, and its end, as scripted', async () => {
    const handle = await start({ run_for: '1s', signal_error: 'not me', exit_err_msg: 'lost' });
    await assert.rejects(handle.signal(10), { message: 'not me' });
    await clock.advance(1_000);
    assert.deepEqual((await handle.wait()).result, {
      kind: 'unknown',
      reason: 'driver_error',
      detail: 'lost',
    });
  });

  it('tells nothing to who has let go', async () => {
    const handle = await start({ run_for: '1s' });
    handle.detach();
    let told = false;
    void handle.wait().then(() => (told = true));
    await clock.advance(2_000);
    assert.equal(told, false);
  });

  it('is found by its name', async () => {
    const registry = new DriverRegistry([driver]);
    assert.equal(registry.get('mock_driver'), driver);
    const missing = registry.get('docker');
    await assert.rejects(
      missing.start(config({}), () => undefined),
      { code: 'driver_not_found', message: /mock_driver/ },
    );
    assert.equal((await registry.fingerprints())['mock_driver']?.health, 'healthy');
  });
});
