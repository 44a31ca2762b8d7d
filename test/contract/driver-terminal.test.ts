/** What a task with `tty = true` finds, under both drivers that run programs. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { constants } from 'node:os';
import type { TaskConfig } from '../../src/drivers/driver.js';
import { DriverWorld } from '../helpers/driver-world.js';

const IS_ROOT = process.getuid?.() === 0;
const LOOK =
  'test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size </dev/tty; echo "$TERM"; echo >&2 end';

const world = await DriverWorld.open();
const user = IS_ROOT ? { user: 'nobody' } : {};
/** Without cgroups no memory limit is asked for, which `exec` would refuse. */
const unlimited = async (): Promise<{ readonly resources: TaskConfig['resources'] }> => {
  const { resources } = await world.task();
  return {
    resources: world.deps.cgroups.mode === 'none' ? { ...resources, memoryMib: 300 } : resources,
  };
};

describe('a task with a terminal', { timeout: 60_000 }, () => {
  after(() => world.close());

  for (const name of ['raw_exec', 'exec'] as const) {
    const driver = name === 'exec' ? world.execDriver() : world.driver();

    it(`of ${name} has it for input and output, of its user, in the size that was asked for`, async () => {
      const fingerprint = await driver.fingerprint();
      assert.equal(fingerprint.health, 'healthy', fingerprint.description);
      const script = `${LOOK}; echo opened >/dev/stdout`;
      const config = await world.task({
        config: { command: '/bin/sh', args: ['-c', script], work_dir: '/', tty: true, tty_size: '100x30' },
        env: { PATH: '/usr/bin:/bin' },
        ...user,
        ...(await unlimited()),
      });
      const handle = world.keep(await driver.start(config, world.emit));
      const { result } = await handle.wait();
      await handle.release();
      assert.equal(world.stdout(config), 'terminal\n30 100\nxterm\nend\nopened\n');
      assert.deepEqual(result, { kind: 'exited', code: 0, oomKilled: false });
    });

    it(`of ${name} ends by force with all it has started`, async () => {
      const config = await world.task({
        config: {
          command: '/bin/sh',
          args: ['-c', 'trap "" TERM HUP; sleep 61 & sleep 62; sleep 63'],
          work_dir: '/',
          tty: true,
        },
        env: { PATH: '/usr/bin:/bin', TERM: 'dumb' },
        ...user,
        ...(await unlimited()),
      });
      const handle = world.keep(await driver.start(config, world.emit));
      await handle.stop({ signal: constants.signals.SIGTERM, graceMs: 200 });
      const { result } = await handle.wait();
      await handle.release();
      assert.equal(result.kind, 'signaled');
    });
  }
});
