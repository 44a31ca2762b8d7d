/** From the claim to execve: who may start a run, what a start says when it fails, what a task inherits. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants, release } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { parseRlimits } from '../../src/executor/in-force.js';
import { FRAME, FRAME_TAG, REPLY_BIT } from '../../src/executor/protocol.js';
import { intField } from '../../src/executor/tlv.js';
import { canHaveHangingDisk, HangingDisk } from '../helpers/hanging-disk.js';
import { until } from '../helpers/until.js';
import { executor, EXECUTOR, IS_ROOT, IS_SANITIZED, Run, TOLD } from './harness.js';

const ECANCELED = 125;

describe('exit status', () => {
  for (const code of [0, 1, 2, 125, 126, 127, 128, 130, 137, 143, 255]) {
    it(`G3: code ${code} stays a code`, async () => {
      await using run = new Run({ sh: `exit ${code}` });
      await run.started();
      assert.equal(await run.outcome(), `exited ${code}`);
    });
  }
  for (const signal of [1, 2, 6, 9, 11, 15, 31, 34, 64]) {
    it(`G3: signal ${signal} is no code`, async () => {
      await using run = new Run({ sh: `ulimit -c 0; kill -${signal} $$; sleep 60` });
      await run.started();
      assert.equal(await run.outcome(), `signaled ${signal}`);
    });
  }
});

describe('a start that fails', () => {
  const cases: readonly [string, ConstructorParameters<typeof Run>[0], string][] = [
    ['no such program', { argv: ['/nonexistent'] }, 'start_failed exec 2'],
    ['not executable', { argv: ['/etc/passwd'] }, 'start_failed exec 13'],
    ['no such directory', { cwd: '/nonexistent' }, 'start_failed chdir 2'],
    ['no such user', { user: 'no-such-user' }, 'start_failed user 2'],
    ['no such cgroup', { cgroup: '/nonexistent' }, 'start_failed cgroup 2'],
    ['a cgroup that cannot be joined', { joinProcs: ['/dev/full'] }, 'start_failed join_procs 28'],
    ['no log directory', { log: { dir: '/nonexistent' } }, 'start_failed log_dir 2'],
  ];
  for (const [name, spec, outcome] of cases) {
    it(`G5: ${name}: says stage and errno, and leaves nothing`, async () => {
      await using run = new Run(spec);
      assert.equal((await run.start()).status, TOLD.startFailed);
      assert.equal(await run.outcome(), outcome);
      assert.equal(run.status()['state'], 'failed');
      assert.deepEqual(readdirSync(run.dir).sort(), ['exit', 'lock', 'spec', 'status']);
      await until('the executor is gone', () => !isAlive(run.executor));
    });
  }

  it('G5: without the launcher beside it: says so of a start, and of a command that is not its own', async () => {
    await using run = new Run();
    const alone = join(run.root, 'holdfast-executor');
    copyFileSync(EXECUTOR, alone);
    const start = spawnSync(alone, ['run', run.dir], { encoding: 'utf8' });
    assert.equal(start.status, TOLD.startFailed);
    assert.match(
      start.stderr,
      /^holdfast-executor: start failed at setup: .*\/holdfast-launcher: No such file/,
    );
    assert.equal(await run.outcome(), 'start_failed setup 2');
    const wake = spawnSync(alone, ['wake', run.dir], { encoding: 'utf8' });
    assert.equal(wake.status, TOLD.noSetup);
    assert.match(wake.stderr, /^holdfast-executor: \/.*\/holdfast-launcher: No such file/);
  });

  it('starts with the launcher that lies there when both were replaced since', async () => {
    await using run = new Run({ gate: true, sh: 'exit 3' });
    const here = join(run.root, 'holdfast-executor');
    const install = (): void => {
      for (const [from, to] of [
        [EXECUTOR, here],
        [join(dirname(EXECUTOR), 'holdfast-launcher'), join(run.root, 'holdfast-launcher')],
      ] as const) {
        rmSync(to, { force: true });
        copyFileSync(from, to);
      }
    };
    install();
    assert.equal(spawnSync(here, ['run', run.dir]).status, TOLD.ok);
    install();
    if (IS_ROOT) assert.match(readlinkSync(`/proc/${run.executor.pid}/exe`), / \(deleted\)$/);
    const client = await run.client();
    await client.ask(FRAME.go);
    assert.equal(await run.outcome(), 'exited 3');
  });

  it('a detail of any length leaves a readable record', async () => {
    await using run = new Run({ argv: [`/${'x'.repeat(100_000)}`] });
    assert.equal((await run.start()).status, TOLD.startFailed);
    assert.equal(await run.outcome(), 'start_failed exec 36');
  });

  it('G10: refuses a spec of another boot, and makes no claim', async () => {
    await using run = new Run({ bootId: '00000000-0000-4000-8000-000000000000' });
    const told = await run.start();
    assert.equal(told.status, TOLD.noSetup);
    assert.match(told.stderr, /another boot/);
    assert.deepEqual(readdirSync(run.dir), ['spec']);
  });

  it('refuses any damaged spec, and makes no claim', async () => {
    await using run = new Run({ sh: 'exit 3', env: { A: 'x'.repeat(100) } });
    const whole = readFileSync(join(run.dir, 'spec'));
    const damaged = [
      Buffer.alloc(0),
      whole.subarray(0, 7),
      whole.subarray(0, 20),
      whole.subarray(0, whole.length - 1),
    ];
    const nul = Buffer.from(whole);
    nul[nul.indexOf('xxxx')] = 0;
    const huge = Buffer.from(whole);
    huge.writeUInt32LE(0xffffffff, 12);
    for (const bytes of [...damaged, nul, huge]) {
      writeFileSync(join(run.dir, 'spec'), bytes);
      assert.equal((await run.start()).status, TOLD.noSetup);
    }
    assert.deepEqual(readdirSync(run.dir), ['spec']);
  });
});

describe('claim', () => {
  it('G8: twenty at once start one workload', async () => {
    await using run = new Run();
    run.writeSpec({ sh: `echo started >> ${run.root}/starts` });
    const told = await Promise.all(Array.from({ length: 20 }, () => run.start()));
    const statuses = told.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [TOLD.ok, ...Array.from({ length: 19 }, () => TOLD.claimed)]);
    assert.equal(await run.outcome(), 'exited 0');
    assert.equal(readFileSync(join(run.root, 'starts'), 'utf8'), 'started\n');
  });

  it('a fence prevents a later start', async () => {
    await using run = new Run();
    writeFileSync(join(run.dir, 'lock'), '', { flag: 'wx' });
    assert.equal((await run.start()).status, TOLD.claimed);
    assert.deepEqual(readdirSync(run.dir).sort(), ['lock', 'spec']);
  });

  it('an ended run cannot be started again', async () => {
    await using run = await new Run().started();
    await run.exit();
    assert.equal((await run.start()).status, TOLD.claimed);
  });
});

describe('gate', () => {
  it('G7: nothing runs before GO, and a second GO is harmless', async () => {
    await using run = new Run({ gate: true, sh: 'echo ran; sleep 60' });
    await run.started();
    assert.equal(run.status()['state'], 'ready');
    assert.equal(run.status()['pid'], undefined);
    assert.equal(readFileSync(`/proc/${run.executor.pid}/task/${run.executor.pid}/children`, 'utf8'), '');
    const client = await run.client();
    assert.equal((await client.ask(FRAME.go)).type, FRAME.go | REPLY_BIT);
    assert.equal((await client.ask(FRAME.go)).type, FRAME.go | REPLY_BIT);
    await run.logged('ran\n');
    assert.equal(run.status()['state'], 'running');
    await run.stop(0, 0);
    assert.equal(await run.outcome(), 'signaled 9');
    assert.equal(run.log(), 'ran\n');
  });

  it('G7: an executor killed before GO leaves nothing that runs', async () => {
    await using run = await new Run({ gate: true, sh: 'echo ran' }).started();
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.notThere);
    assert.equal((await run.start()).status, TOLD.claimed);
    assert.equal(run.log(), '');
  });

  it('a stop before GO is a start that was cancelled', async () => {
    await using run = await new Run({ gate: true, sh: 'echo ran' }).started();
    await run.stop(15, 1000);
    assert.equal(await run.outcome(), `start_failed gate ${ECANCELED}`);
    assert.equal(run.log(), '');
  });

  it('a start that fails after GO is on record', async () => {
    await using run = await new Run({ gate: true, argv: ['/nonexistent'] }).started();
    const client = await run.client();
    const wait = client.send(FRAME.wait);
    await client.ask(FRAME.go);
    assert.equal((await client.reply(wait))?.type, FRAME.wait | REPLY_BIT);
    assert.equal(await run.outcome(), 'start_failed exec 2');
  });
});

describe('a child that hangs on its way to exec', () => {
  /** Opening a pipe that nobody reads blocks, as a user database or a network file system might. */
  async function hanging(): Promise<Run> {
    const run = new Run({ gate: true });
    const pipe = join(run.root, 'pipe');
    execFileSync('mkfifo', [pipe]);
    run.writeSpec({ gate: true, sh: 'echo ran', joinProcs: [pipe] });
    return run.started();
  }

  it('can be stopped, and was never started', async () => {
    await using run = await hanging();
    const client = await run.client();
    await client.ask(FRAME.go);
    assert.equal(run.status()['state'], 'starting');
    await run.stop(15, 100);
    assert.equal(await run.outcome(), `start_failed gate ${ECANCELED}`);
  });

  it('does not keep the executor busy, whoever comes and goes', async () => {
    await using run = await hanging();
    const clients = [await run.client(), await run.client()];
    for (const client of clients) await client.ask(FRAME.status);
    await clients[0]?.ask(FRAME.go);
    for (const client of clients) client.close();
    const client = await run.client();
    await client.ask(FRAME.status);
    const cpuTicks = (): number => {
      const fields = readFileSync(`/proc/${run.executor.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return Number(fields[11]) + Number(fields[12]);
    };
    const before = cpuTicks();
    await pause(500); // The window of observation itself: a loop that spins takes 50 ticks.
    assert.ok(cpuTicks() - before <= 5);
    await run.stop(0, 0);
    await run.exit();
  });
});

describe('an executor', () => {
  it('G11: is ended by no signal but SIGKILL', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const faults = [
      'SIGSEGV',
      'SIGBUS',
      'SIGFPE',
      'SIGILL',
      'SIGABRT',
      'SIGSYS',
      'SIGTRAP',
      'SIGIOT',
      'SIGSTKFLT',
    ];
    const spared = new Set(['SIGKILL', 'SIGSTOP', ...faults]);
    for (const name of Object.keys(constants.signals)) {
      if (!spared.has(name)) process.kill(run.executor.pid, name);
    }
    assert.equal((await (await run.client()).statusText())['state'], 'running');
  });
});

describe('status', () => {
  it('G37: names the executor and the workload as /proc does', async () => {
    await using run = await new Run({ sh: 'sleep 60' }).started();
    const status = run.status();
    assert.deepEqual(Object.keys(status), [
      'holdfast_status',
      'run_id',
      'boot_id',
      'version',
      'state',
      'executor_pid',
      'executor_start',
      'pid',
      'pid_start',
      'started_at_ns',
      'started_mono_ns',
      'stdout_bytes',
      'stdout_dropped',
      'stderr_bytes',
      'stderr_dropped',
    ]);
    assert.equal(status['state'], 'running');
    assert.equal(readProcessStat(run.executor.pid)?.startTicks, run.executor.startTicks);
    assert.equal(readProcessStat(run.workload.pid)?.startTicks, run.workload.startTicks);
    assert.equal(readProcessStat(run.workload.pid)?.ppid, run.executor.pid);
    const client = await run.client();
    assert.deepEqual(await client.statusText(), status);
    assert.equal(titleOf(run), 'holdfast-executor: web/front/main running');
    const startedMs = Number(BigInt(status['started_at_ns'] ?? 0) / 1_000_000n);
    assert.ok(Math.abs(startedMs - Date.now()) < 60_000);
  });

  it('G37: ps shows the state', async () => {
    await using run = new Run({
      sh: 'trap "" TERM; echo ready; while :; do sleep 0.01; done',
      gate: true,
    });
    assert.deepEqual(await run.start(), { status: TOLD.ok, stderr: '' });
    assert.equal(titleOf(run), 'holdfast-executor: web/front/main ready');
    await (await run.client()).ask(FRAME.go);
    await run.logged('ready');
    assert.equal(titleOf(run), 'holdfast-executor: web/front/main running');
    await run.stop(15, 60_000);
    assert.equal(titleOf(run), 'holdfast-executor: web/front/main stopping');
    await run.killExecutor();
    assert.equal((await run.adopt()).status, TOLD.ok);
    assert.equal(titleOf(run), 'holdfast-executor: web/front/main running');
    await run.stop(0, 0);
  });

  it('the end removes socket and pipes', async () => {
    await using run = await new Run().started();
    await run.exit();
    await until('the executor is gone', () => !isAlive(run.executor));
    // Whatever it says: where there is a record, that counts.
    assert.equal(run.status()['state'], 'running');
    assert.deepEqual(readdirSync(run.dir).sort(), ['exit', 'lock', 'spec', 'status']);
  });
});

/** CAP_SYS_RESOURCE, the 24th. */
const MAY_RAISE_LIMITS =
  (BigInt(`0x${/^CapEff:\t(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`) >> 24n) %
    2n ===
  1n;

/** As ps shows it: what is longer than the words it took the place of ends with one NUL, or more. */
function titleOf(run: Run): string {
  return readFileSync(`/proc/${run.executor.pid}/cmdline`, 'latin1').replace(/\0+$/, '');
}

/** What it was given stays open; what its loader opens does not. */
async function hasThree({ workload }: Run): Promise<void> {
  const fds = (): string => readdirSync(`/proc/${workload.pid}/fd`).join(' ');
  await until('it has its three descriptors', () => fds() === '0 1 2', { lastSeen: fds });
}

/** native/util.c. */
const SHORT_SLICE_NS = 300_000;

function readSliceNs(pid: number): number {
  return Number(/^se\.slice +: +(\d+)$/m.exec(readFileSync(`/proc/${pid}/sched`, 'utf8'))?.[1]);
}

describe('what a task inherits', () => {
  it('G20: three descriptors, no blocked or ignored signal, its own session, no OOM protection', async () => {
    await using run = await new Run({ argv: ['/bin/sleep', '1000'] }).started();
    const proc = `/proc/${run.workload.pid}`;
    await hasThree(run);
    const status = readFileSync(`${proc}/status`, 'utf8');
    assert.match(status, /^SigBlk:\t0{16}$/m);
    assert.match(status, /^SigIgn:\t0{16}$/m);
    assert.match(status, /^Umask:\t0022$/m);
    const stat = readFileSync(`${proc}/stat`, 'utf8').split(' ');
    assert.deepEqual([stat[4], stat[5]], [String(run.workload.pid), String(run.workload.pid)]);
    assert.equal(readFileSync(`${proc}/oom_score_adj`, 'utf8'), '0\n');
  });

  it('G20: the usual slice, while its executor has a short one', async (test) => {
    const [major = 0, minor = 0] = release()
      .split('.')
      .map((part) => parseInt(part, 10));
    if (major < 6 || (major === 6 && minor < 12)) {
      test.skip('a process can ask for a slice since Linux 6.12');
      return;
    }
    await using run = await new Run({ sh: 'exec sleep 1000' }).started();
    assert.equal(readSliceNs(run.executor.pid), SHORT_SLICE_NS);
    assert.ok(readSliceNs(run.workload.pid) > SHORT_SLICE_NS);
  });

  it('G20: a limit that it names is set as it is by a caller that may not raise any', async (test) => {
    const raised = ['--memlock=unlimited:unlimited'];
    if (spawnSync('prlimit', [...raised, '/bin/true']).status !== 0) {
      test.skip('raising a limit needs CAP_SYS_RESOURCE, which root of a container may lack');
      return;
    }
    await using run = new Run({
      argv: ['/bin/sleep', '1000'],
      attributes: { rlimits: [{ name: 'memlock', soft: -1, hard: -1 }], umask: 0o022, nice: undefined },
    });
    const lowered = ['setpriv', '--bounding-set', '-sys_resource'];
    execFileSync('prlimit', [...raised, ...lowered, EXECUTOR, 'run', run.dir]);
    const limits = readFileSync(`/proc/${run.workload.pid}/limits`, 'utf8');
    assert.match(limits, /^Max locked memory +unlimited +unlimited/m);
  });

  it('starts from a directory with a long name', async () => {
    await using run = new Run({ sh: 'exit 3' });
    const dir = join(run.root, ...Array.from({ length: 4 }, () => 'd'.repeat(100)));
    mkdirSync(dir, { recursive: true });
    for (const name of ['holdfast-executor', 'holdfast-launcher'])
      copyFileSync(join(dirname(EXECUTOR), name), join(dir, name));
    execFileSync(join(dir, 'holdfast-executor'), ['run', run.dir]);
    assert.equal(await run.outcome(), 'exited 3');
  });

  // Written past the page cache, which a disk takes by the sector.
  for (const sectorBytes of [512, 4096]) {
    it(
      `the record is whole on a disk with sectors of ${sectorBytes} bytes`,
      { skip: !canHaveHangingDisk() && 'needs root, loop devices and mkfs.ext4' },
      async () => {
        await using base = new Run();
        await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'), sectorBytes);
        await using run = await new Run({ sh: 'exit 3' }, disk.dir).started();
        assert.equal((await run.exit())['code'], '3');
        assert.equal(statSync(join(run.dir, 'exit')).size % 512, 0);
      },
    );
  }

  it('G20: nothing of a caller that has raised, lowered and opened all it could', async () => {
    await using run = new Run({
      argv: ['/bin/sleep', '1000'],
      attributes: { rlimits: [], umask: 0o022, nice: undefined },
    });
    // As an agent: thousands of open files allowed, a niceness and a mask of its own, signals ignored, files open.
    // A sanitizer reserves terabytes of addresses.
    const space = IS_SANITIZED ? '' : '--as=90000000000: --data=80000000000:';
    const script =
      'trap "" HUP PIPE INT USR1; umask 077; ulimit -Sn "$(ulimit -Hn)"; ulimit -c unlimited; ' +
      '(echo 500 > /proc/self/oom_score_adj) 2>/dev/null; exec 7</etc/passwd 9</etc/group; ' +
      `exec nice -n 5 ionice -c 2 -n 7 prlimit ${space} --cpu=5000: --fsize=900000000: ` +
      '--locks=5: --memlock=65536: --msgqueue=4096: --nproc=5000: --rss=70000000000: --rttime=1000000: --sigpending=300: ' +
      '--stack=1048576: "$0" run "$1"';
    execFileSync('/bin/sh', ['-c', script, EXECUTOR, run.dir]);
    const proc = `/proc/${run.workload.pid}`;
    const read = (file: string): string => readFileSync(join(proc, file), 'utf8');
    await hasThree(run);
    const threads = Math.floor(Number(readFileSync('/proc/sys/kernel/threads-max', 'utf8')) / 2);
    // Soft, and what only who may raise it has more of.
    const expected: Record<string, readonly [number | null, number | null]> = {
      ...Object.fromEntries(
        ['cpu', 'fsize', 'data', 'rss', 'as', 'locks', 'rttime'].map((name) => [name, [null, null] as const]),
      ),
      stack: [8 << 20, null],
      core: [0, null],
      nproc: [threads, threads],
      nofile: [1024, 524_288],
      memlock: [8 << 20, 8 << 20],
      sigpending: [threads, threads],
      msgqueue: [819_200, 819_200],
      nice: [0, 0],
      rtprio: [0, 0],
    };
    const most = new Map(
      parseRlimits(readFileSync('/proc/self/limits', 'utf8')).map(({ name, hard }) => [
        name,
        hard ?? Infinity,
      ]),
    );
    const within = (name: string, value: number | null): number | null => {
      const least = Math.min(value ?? Infinity, MAY_RAISE_LIMITS ? Infinity : (most.get(name) ?? Infinity));
      return least === Infinity ? null : least;
    };
    assert.deepEqual(
      Object.fromEntries(parseRlimits(read('limits')).map(({ name, soft, hard }) => [name, [soft, hard]])),
      Object.fromEntries(
        Object.entries(expected).map(([name, [soft, hard]]) => [
          name,
          [within(name, soft), within(name, hard)],
        ]),
      ),
    );
    const priority = execFileSync('ionice', ['-p', String(run.workload.pid)], { encoding: 'utf8' });
    assert.match(priority, /^none: prio 0/);
    const status = read('status');
    for (const [key, value] of [
      ['SigBlk', '0{16}'],
      ['SigIgn', '0{16}'],
      ['SigCgt', '0{16}'],
      ['Umask', '0022'],
    ]) {
      assert.match(status, new RegExp(`^${key}:\\t${value}$`, 'm'));
    }
    assert.equal(read('oom_score_adj'), '0\n');
    // That of another process is for those with CAP_SYS_NICE.
    if (IS_ROOT) assert.equal(read('timerslack_ns'), '50000\n');
    const fields = read('stat').split(') ')[1]?.split(' ') ?? [];
    // Session and group its own, no terminal; niceness: only root takes back what it was given.
    assert.deepEqual(fields.slice(2, 5), [String(run.workload.pid), String(run.workload.pid), '0']);
    assert.equal(fields[16], IS_ROOT ? '0' : '5');
    assert.deepEqual(read('environ').split('\0').filter(Boolean), [
      `HOLDFAST_RUN_ID=${run.runId}`,
      'PATH=/usr/bin:/bin',
    ]);
  });

  it('the arguments, environment and directory of its spec, and nothing else', async () => {
    await using run = await new Run({
      sh: 'pwd; env | sort',
      cwd: '/usr',
      env: { B: 'two words', A: '', PATH: '/usr/bin:/bin' },
    }).started();
    assert.equal(await run.outcome(), 'exited 0');
    const lines = run.log().trim().split('\n');
    // The shell adds its own PWD (and some add _ and SHLVL).
    const own = lines.filter((line) => !/^(PWD|OLDPWD|_|SHLVL)=/.test(line));
    assert.deepEqual(own, ['/usr', 'A=', 'B=two words', 'PATH=/usr/bin:/bin']);
  });

  it('stdout can be opened anew', async () => {
    await using run = await new Run({
      sh: 'echo one > /dev/stdout; echo two > /dev/stderr',
      ...(IS_ROOT ? { user: 'nobody' } : {}),
    }).started();
    assert.equal(await run.outcome(), 'exited 0');
    assert.equal(run.log('stdout') + run.log('stderr'), 'one\ntwo\n');
  });

  it('without a log directory output goes nowhere', async () => {
    await using run = await new Run({ sh: 'echo lost; echo lost >&2; exit 4', log: 'none' }).started();
    const exit = await run.exit();
    assert.deepEqual([exit['code'], exit['log_complete'], exit['stdout_bytes']], ['4', '1', '0']);
    assert.ok(!existsSync(join(run.dir, 'stdout')));
  });

  it('G21: the user and exactly its groups as root; as a user, nobody else', async () => {
    await using run = new Run({ sh: 'id -u; id -g; id -G', user: IS_ROOT ? 'nobody' : 'root' });
    if (IS_ROOT) {
      await run.started();
      assert.equal(await run.outcome(), 'exited 0');
      const nobody = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'));
      const [, uid, gid] = nobody ?? [];
      const [u, g, groups] = run.log().trim().split('\n');
      assert.deepEqual([u, g], [uid, gid]);
      assert.ok(!groups?.split(' ').includes('0'), 'group 0 is never added');
    } else {
      await run.start();
      assert.equal(await run.outcome(), 'start_failed user 1');
    }
  });

  it(
    'a number without an entry gets the group of that number and no other',
    { skip: IS_ROOT ? false : 'needs root' },
    async () => {
      await using run = await new Run({ sh: 'id -u; id -G', user: '54321' }).started();
      assert.equal(await run.outcome(), 'exited 0');
      assert.equal(run.log(), '54321\n54321\n');
    },
  );

  it('its own name is always possible', async () => {
    await using run = await new Run({ sh: 'id -u', user: String(process.getuid?.()) }).started();
    assert.equal(await run.outcome(), 'exited 0');
  });
});

describe('the command', () => {
  it('says its version', async () => {
    assert.equal((await executor('version')).status, 0);
    assert.equal((await executor()).status, TOLD.noSetup);
    assert.equal((await executor('run', '/nonexistent')).status, TOLD.noSetup);
  });

  it('G19: an unknown signal is an error, never another one', async () => {
    await using run = await new Run({ sh: 'sleep 60' }).started();
    const client = await run.client();
    for (const signal of [0, -1, 65, 2 ** 40]) assert.notEqual(await client.signal(signal), 0);
    const stop = [intField(FRAME_TAG.signal, 65), intField(FRAME_TAG.graceMs, 0)];
    assert.equal((await client.ask(FRAME.stop, stop)).type, 0xffff);
    assert.ok(isAlive(run.workload));
  });
});
