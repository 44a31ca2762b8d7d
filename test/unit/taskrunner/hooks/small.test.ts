/** The small hooks: payload, validation, directories. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { dispatchPayloadHook } from '../../../../src/taskrunner/hooks/dispatch-payload.js';
import { HookFailure } from '../../../../src/taskrunner/hooks/hook.js';
import { Pace } from '../../../../src/base/pace.js';
import { furnishAlloc, taskDirHook } from '../../../../src/taskrunner/hooks/task-dir.js';
import { validateHook } from '../../../../src/taskrunner/hooks/validate.js';
import { HookWorld } from '../../../helpers/hook-world.js';

describe('dispatch_payload', () => {
  const dispatchPayload = { file: 'in/put' };

  it('Dispatch_Payload: writes it below local, once', async () => {
    using world = new HookWorld();
    const payload = Buffer.from([0, 255, 10]);
    const answer = await dispatchPayloadHook.prestart?.(world.context({ dispatchPayload }, { payload }));
    assert.deepEqual(answer, { done: 'always' });
    assert.deepEqual(readFileSync(join(world.dirs.localDir, 'in/put')), payload);
  });

  it('DispatchHook_NoPayload: nothing to do is done', async () => {
    using world = new HookWorld();
    assert.equal(await dispatchPayloadHook.prestart?.(world.context({ dispatchPayload })), undefined);
    const payload = Buffer.from('x');
    assert.equal(await dispatchPayloadHook.prestart?.(world.context({}, { payload })), undefined);
  });

  it('DispatchHook_Error: out of local, or through a link, it is not written', async () => {
    using world = new HookWorld();
    const payload = Buffer.from('x');
    const up = world.context({ dispatchPayload: { file: '../x' } }, { payload });
    await assert.rejects(async () => dispatchPayloadHook.prestart?.(up), /leads out/);
    symlinkSync(world.dir, join(world.dirs.localDir, 'in'));
    const context = world.context({ dispatchPayload }, { payload });
    await assert.rejects(async () => dispatchPayloadHook.prestart?.(context), /in is a link/);
  });
});

describe('validate', () => {
  const hook = validateHook({ denied: ['root', 'daemon'], drivers: ['exec'] });
  const table: readonly (readonly [string, string, boolean])[] = [
    ['exec', 'root', false],
    ['exec', '0', false],
    ['exec', 'root:adm', false],
    ['exec', '${NOMAD_META_who}', false],
    ['exec', 'nobody', true],
    ['raw_exec', 'root', true],
  ];
  for (const [driver, user, allowed] of table) {
    it(`Validate_UserEnforcement: ${driver} as ${user} is ${allowed ? '' : 'not '}allowed`, async () => {
      using world = new HookWorld();
      const context = world.context({ driver, user, meta: { who: 'daemon' }, config: { command: 'x' } });
      const work = async () => hook.prestart?.(context);
      if (allowed) assert.equal(await work(), undefined);
      else {
        await assert.rejects(work, (error) => {
          assert.ok(error instanceof HookFailure);
          assert.equal(error.event.type, 'Failed Validation');
          assert.equal(error.recoverable, false);
          return true;
        });
      }
    });
  }

  it('Validate_ServiceName: one that is none once it is filled in is refused', async () => {
    const named = async (name: string, who: string) => {
      using world = new HookWorld();
      const services = [{ name, tags: [], checks: [] }];
      return await hook.prestart?.(
        world.context({ driver: 'raw_exec', config: { command: 'x' }, meta: { who }, services }),
      );
    };
    assert.equal(await named('web-${NOMAD_META_who}', 'one'), undefined);
    await assert.rejects(
      async () => named('web-${NOMAD_META_who}', 'two three'),
      (error) => {
        assert.ok(error instanceof HookFailure);
        assert.equal(error.event.type, 'Failed Validation');
        assert.equal(error.recoverable, false);
        assert.match(error.message, /^bad service name "web-two three": it may hold letters/);
        return true;
      },
    );
  });

  it('a config that the driver does not take', async () => {
    using world = new HookWorld();
    const context = world.context({ driver: 'raw_exec', config: { command: 'x', args: 'no list' } });
    await assert.rejects(async () => hook.prestart?.(context), /config: .*args/);
  });
});

describe('task_dir', () => {
  const makeAlloc = (dir: string): void => {
    mkdirSync(dir);
    furnishAlloc(dir);
  };
  it('G24: a task of another user cannot put its own directory in the place of logs, local or secrets', async (test) => {
    if (process.getuid?.() !== 0) {
      test.skip('only root can be two users');
      return;
    }
    using world = new HookWorld();
    chmodSync(world.dir, 0o755);
    await taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({}));
    const { allocDir, taskDir, logDir, localDir, secretsDir } = world.dirs;
    assert.equal(statSync(allocDir).mode & 0o7777, 0o1777);
    assert.equal(statSync(taskDir).mode & 0o7777, 0o1777);
    for (const dir of [logDir, localDir, secretsDir]) {
      const moved = spawnSync('/bin/mv', [dir, `${dir}.away`], { uid: 65534, gid: 65534, encoding: 'utf8' });
      assert.notEqual(moved.status, 0, dir);
      assert.match(moved.stderr, /not permitted/);
      assert.ok(existsSync(dir));
    }
  });

  it('gives each directory its mode, whatever the umask, and again when it was changed', async () => {
    using world = new HookWorld();
    const { allocDir, taskDir, logDir, localDir, secretsDir } = world.dirs;
    const modes: Readonly<Record<string, number>> = {
      [allocDir]: 0o1777,
      [join(allocDir, 'tmp')]: 0o1777,
      [join(allocDir, 'data')]: 0o777,
      [taskDir]: 0o1777,
      [join(taskDir, 'tmp')]: 0o1777,
      [localDir]: 0o777,
      [logDir]: 0o700,
      [secretsDir]: 0o700,
    };
    const seen = () =>
      Object.fromEntries(Object.keys(modes).map((dir) => [dir, statSync(dir).mode & 0o7777]));
    rmSync(dirname(allocDir), { recursive: true });
    const umask = process.umask(0o077);
    try {
      await taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({}));
    } finally {
      process.umask(umask);
    }
    assert.deepEqual(seen(), modes);
    for (const dir of [allocDir, join(taskDir, 'tmp'), localDir]) chmodSync(dir, 0o711);
    rmSync(join(allocDir, 'data'), { recursive: true });
    await taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({}));
    assert.deepEqual(seen(), modes);
  });

  it('makes that of the first task of what was made beforehand, and others beside it', async () => {
    using world = new HookWorld();
    const { allocDir, taskDir } = world.dirs;
    const root = dirname(allocDir);
    rmSync(root, { recursive: true });
    const made: number[] = [];
    const note = (dir: string): void => {
      makeAlloc(dir);
      made.push(...readdirSync(dir).map((name) => statSync(join(dir, name)).ino));
    };
    await taskDirHook(new Pace(1), note).prestart?.(world.context({}));
    assert.deepEqual([allocDir, taskDir].map((dir) => statSync(dir).ino).sort(), made.sort());
    const other = join(root, 'other');
    const dirs = {
      ...world.dirs,
      taskDir: other,
      localDir: join(other, 'local'),
      secretsDir: join(other, 'secrets'),
    };
    await taskDirHook(new Pace(1), note).prestart?.({ ...world.context({}), dirs });
    assert.deepEqual(readdirSync(other), ['local', 'secrets', 'tmp']);
    assert.deepEqual(readdirSync(root).sort(), [allocDir, other, taskDir].map((dir) => basename(dir)).sort());
  });

  it('makes whole what was made by half, wherever that ended', async () => {
    using world = new HookWorld();
    const { allocDir, taskDir, logDir, localDir, secretsDir } = world.dirs;
    const root = dirname(allocDir);
    const parts = [
      allocDir,
      taskDir,
      join(allocDir, 'tmp'),
      join(taskDir, 'tmp'),
      join(allocDir, 'data'),
      localDir,
    ];
    for (let missing = 0; missing <= parts.length + 2; missing += 1) {
      rmSync(root, { recursive: true });
      mkdirSync(root, 0o700);
      furnishAlloc(root);
      chmodSync(root, 0o700);
      const [firstTask = ''] = readdirSync(root).filter((name) => name !== 'alloc');
      for (const part of [...parts, logDir, secretsDir].slice(missing).reverse())
        rmSync(part.replace(taskDir, join(root, firstTask)), { recursive: true, force: true });
      await taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({}));
      for (const dir of [...parts, logDir, secretsDir])
        assert.ok(existsSync(dir), `${dir} without ${missing}`);
      assert.equal(statSync(root).mode & 0o777, 0o755);
      assert.equal(statSync(taskDir).mode & 0o7777, 0o1777);
      assert.equal(readdirSync(root).length, 2);
    }
  });

  it('says that it sets up once, however often that is tried', async () => {
    using world = new HookWorld();
    rmSync(world.dirs.taskDir, { recursive: true });
    for (let times = 0; times < 3; times++)
      await taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({}));
    assert.deepEqual(
      world.events.map(({ type }) => type),
      ['Task Setup'],
    );
  });

  it('touches nothing that a link leads to', async () => {
    using world = new HookWorld();
    const victim = join(world.dir, 'victim');
    mkdirSync(victim, { mode: 0o700 });
    rmSync(world.dirs.localDir, { recursive: true });
    symlinkSync(victim, world.dirs.localDir);
    await assert.rejects(
      async () => taskDirHook(new Pace(1), makeAlloc).prestart?.(world.context({})),
      /local: not a directory/,
    );
    assert.equal(statSync(victim).mode & 0o777, 0o700);
    assert.ok(lstatSync(world.dirs.localDir).isSymbolicLink());
  });
});
