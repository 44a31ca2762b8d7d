/**
 * Owns `npm run test:vm`: a Debian guest with systemd as its first process and cgroup v2 alone, holdfast installed in
 * it as docs/service.md says, and everything that cannot be shown on the machine that runs the tests: the unit, real
 * limits, reboots, power cuts. One guest, one story: each part begins where the one before ended.
 * Longer than a file should be, because the story is told in one piece.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import type { TaskView } from '../helpers/agent-api.js';
import { GuestHost, shellJob, STEADY } from './host.js';
import { lacking, makeCodeDisk, makeDataDisk, prepareImage } from './image.js';
import { Machine } from './machine.js';

const UNIT_CGROUP = '/sys/fs/cgroup/system.slice/holdfast.service';
/** Eight minutes when nothing else runs; this is for a machine with much else to do. */
const LIMIT_MS = 1_800_000;
const PATIENCE = { timeoutMs: 60_000, everyMs: 300 };
const ALWAYS = { Attempts: 10, Interval: 3600e9, Delay: 1e9, Mode: 'fail', Jitter: 0 };

const missing = lacking();
if (missing !== undefined) {
  process.stderr.write(`holdfast: cannot run the guest: ${missing}\n`);
  process.exit(1);
}
const dir = mkdtempSync(join(tmpdir(), 'holdfast-vm-'));
const image = prepareImage();
const machine = new Machine(dir, image, [makeCodeDisk(dir), makeDataDisk(dir)]);
const host = new GuestHost(machine);
/** Pids of the helpers of a daemon that was killed. */
const orphans: string[] = [];
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    void close().then(() => process.exit(130));
  });
}
async function close(): Promise<void> {
  await machine.cut();
  rmSync(dir, { recursive: true, force: true });
}

/** What must not change while it is not asked to: every process, and how often each task was started. */
async function untouched(what: string, blow: () => Promise<void>): Promise<void> {
  const before = await host.identities();
  const allocs = [...(await host.tasks('steady')), ...(await host.tasks('boxed'))]
    .filter(({ state }) => state.State === 'running')
    .map(({ allocId }) => allocId);
  assert.equal(before.length, 4);
  await blow();
  await host.answers();
  for (const [job, count] of [
    ['steady', 3],
    ['boxed', 1],
  ] as const) {
    await host.untilTasks(
      job,
      `runs on after ${what}`,
      (tasks) => tasks.filter(({ state }) => state.Holdfast.Pid !== null).length === count,
    );
  }
  assert.deepEqual(await host.identities(), before, what);
  for (const id of allocs) assert.equal(await host.starts(id), 1, what);
}

/** What must be true after every boot: the ends nobody saw are unknown, and all run again. */
async function afterReboot(what: string, kinds: readonly string[]): Promise<void> {
  await host.answers();
  const isUp = ({ state }: TaskView): boolean => state.State === 'running' && state.Holdfast.Pid !== null;
  const tasks = [
    ...(await host.untilTasks('steady', `runs again after ${what}`, (all) => all.filter(isUp).length === 3)),
    ...(await host.untilTasks('boxed', `runs again after ${what}`, (all) => all.some(isUp))),
  ];
  const boot = (await machine.out('cat /proc/sys/kernel/random/boot_id')).replaceAll('-', '');
  for (const { allocId, state } of tasks) {
    if (state.State !== 'running') continue;
    const runs = await host.runs(allocId, 'task');
    const [last, before] = [runs.at(-1), runs.at(-2)];
    assert.equal(last?.Outcome, 'open');
    assert.equal(last.BootID.replaceAll('-', ''), boot);
    assert.ok(
      before === undefined || kinds.includes(before.Exit?.Kind ?? ''),
      `${what}: ${JSON.stringify(before)}`,
    );
    if (before?.Exit?.Kind === 'unknown') assert.equal(before.Exit.Reason, 'host_rebooted');
  }
}

describe('holdfast on a machine of its own', { timeout: LIMIT_MS }, () => {
  after(close);

  it(`the guest boots (Linux ${image.kernelVersion})`, async () => {
    await machine.boot();
    assert.equal(await machine.out('stat -fc %T /sys/fs/cgroup'), 'cgroup2fs');
    assert.match(await machine.out('cat /sys/fs/cgroup/cgroup.controllers'), /\bcpu\b.*\bmemory\b.*\bpids\b/);
    process.stdout.write(`# ${(await machine.out('systemctl --version')).split('\n')[0]}\n`);
  });

  it('the unit installs, verifies, and starts', async () => {
    await machine.out('cp -a /mnt/code/holdfast /opt/holdfast', 180_000);
    await machine.out(
      'cp /opt/holdfast/packaging/holdfast.service /etc/systemd/system/ && systemctl daemon-reload',
    );
    await machine.out('ln -s /opt/holdfast/dist/src/cli/main.js /usr/local/bin/holdfast');
    assert.equal(await machine.out('systemd-analyze verify holdfast.service'), '');
    await machine.out('systemctl enable --now -q holdfast');
    assert.equal(await host.unit('SubState'), 'running');
    assert.equal(await host.unit('StatusText'), 'no tasks');
    await host.register(shellJob('steady', STEADY, { count: 3, restart: ALWAYS }));
    await host.untilTasks(
      'steady',
      'all run',
      (tasks) => tasks.length === 3 && tasks.every(({ state }) => state.Holdfast.Pid !== null),
    );
    await until(
      'the status line tells of them',
      async () => (await host.unit('StatusText')) === '3 tasks running',
    );
  });

  it('the unit permits tasks that are shut in (driver exec)', async () => {
    const config = { cap_drop: ['all'], network_mode: 'none' };
    await host.register(shellJob('boxed', STEADY, { driver: 'exec', config, restart: ALWAYS }));
    const [task] = await host.untilTasks('boxed', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    const of = `/proc/${task?.state.Holdfast.Pid}`;
    const said = await machine.out(
      `grep -E '^(Uid|NoNewPrivs|Seccomp|CapBnd):' ${of}/status; for n in mnt pid ipc net; do readlink ${of}/ns/$n /proc/1/ns/$n | uniq | wc -l; done; cat ${of}/oom_score_adj`,
    );
    const [uid, bounding, privileges, seccomp, ...rest] = said.split('\n');
    assert.match(uid ?? '', /^Uid:\s+65534\s/);
    assert.match(bounding ?? '', /\b0{16}$/);
    assert.match(privileges ?? '', /\b1$/);
    assert.match(seccomp ?? '', /\b2$/);
    assert.deepEqual(
      rest,
      ['2', '2', '2', '2', '0'],
      'namespaces of its own; not the OOM score of the daemon',
    );
    const session = await machine.sh(
      `holdfast exec boxed -- sh -c 'id -u; set -- /proc/[0-9]*; echo $#; exit 7'`,
    );
    assert.equal(session.code, 7, session.text);
    assert.match(session.text, /^65534\n/);
    assert.ok(Number(session.text.split('\n')[1]) < 12, session.text);
  });

  it('tasks and executors live outside the cgroup of the unit', async () => {
    const inUnit = await machine.out(
      `for pid in $(cat ${UNIT_CGROUP}/cgroup.procs); do tr '\\0' ' ' < /proc/$pid/cmdline | cut -d' ' -f1-2; done`,
    );
    const helper = /holdfast-executor (notify|launch\w*)$/;
    const others = inUnit
      .split('\n')
      .filter((line) => !helper.test(line.trim()) && !line.includes('main.js'));
    assert.deepEqual(others, [], 'the agent, and what speaks and forks for it');
    for (const { state } of await host.tasks('steady')) {
      const cgroup = await machine.out(`cat /proc/${state.Holdfast.Pid}/cgroup`);
      assert.match(cgroup, /^0::\/holdfast\.slice\/[0-9a-f]{8}\.task\.[0-9a-f]{8}$/);
    }
  });

  it('systemctl restart touches no task', async () => {
    await untouched('systemctl restart', async () => {
      await machine.out('systemctl restart holdfast');
    });
  });

  it('kill -9 of the daemon touches no task, and the unit comes back by itself', async () => {
    await untouched('kill -9', async () => {
      const pid = await host.unit('MainPID');
      orphans.push(...(await machine.out(`cat ${UNIT_CGROUP}/cgroup.procs`)).split('\n'));
      await machine.out(`kill -9 ${pid}`);
      await until(
        'systemd starts it again',
        async () => {
          const now = await host.unit('MainPID');
          return now !== '0' && now !== pid && (await host.unit('ActiveState')) === 'active';
        },
        { timeoutMs: 180_000, everyMs: 300 },
      );
    });
  });

  it('systemctl stop touches no task; an end in between is known as it was', async () => {
    const fickle = 'until [ -e "$NOMAD_ALLOC_DIR/data/cue" ]; do sleep 0.2; done; exit 3';
    await host.register(shellJob('fickle', fickle));
    const [task] = await host.untilTasks('fickle', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    assert.ok(task !== undefined);
    const pid = task.state.Holdfast.Pid;
    // `untouched` counts the tasks of `steady` alone: this one ends on purpose.
    await machine.out('systemctl stop holdfast');
    assert.equal(await host.unit('ActiveState'), 'inactive');
    assert.equal(await host.unit('Result'), 'success');
    await machine.out(`touch /var/lib/holdfast/alloc/${task.allocId}/alloc/data/cue`);
    await until(
      'it ends while nobody looks',
      async () => (await machine.sh(`test -d /proc/${pid}`)).code !== 0,
    );
    await machine.out('systemctl start holdfast');
    const [ended] = await host.untilTasks('fickle', 'is over', (tasks) => tasks[0]?.state.State === 'dead');
    assert.deepEqual(
      [ended?.state.Holdfast.LastExit?.Kind, ended?.state.Holdfast.LastExit?.Code, ended?.state.Failed],
      ['exited', 3, true],
    );
    for (const { allocId } of await host.tasks('steady')) assert.equal(await host.starts(allocId), 1);
    await host.purge('fickle');
  });

  it('systemd has nothing to complain about', async () => {
    const complaints = await machine.sh(
      'journalctl -b -o cat _PID=1 --no-pager | grep -iE "left.?over|remains running|implies|ignoring|failed" | grep -i holdfast',
    );
    // What the kill -9 above was is all it says, and perhaps that helpers of that daemon were not gone in the same moment.
    const lines = complaints.text
      .split('\n')
      .filter((line) => line !== '' && !/Failed with result 'signal'/.test(line))
      .filter((line) => !orphans.includes(/process (\d+) .* remains running/.exec(line)?.[1] ?? ''));
    assert.deepEqual(lines, []);
  });

  it('the journal has one JSON object a line', async () => {
    const lines = (await machine.out('journalctl -b -o cat --no-pager _SYSTEMD_UNIT=holdfast.service')).split(
      '\n',
    );
    assert.ok(lines.length > 4);
    for (const line of lines) {
      const { level, time, msg } = JSON.parse(line) as Readonly<Record<string, unknown>>;
      assert.ok(typeof level === 'string' && typeof time === 'string' && typeof msg === 'string', line);
    }
  });

  it('the watchdog ends a daemon that hangs; no task notices', async () => {
    await machine.out(
      'mkdir -p /run/systemd/system/holdfast.service.d && printf "[Service]\\nWatchdogSec=20\\n" > /run/systemd/system/holdfast.service.d/test.conf && systemctl daemon-reload && systemctl restart holdfast',
    );
    try {
      await untouched('the watchdog', async () => {
        const pid = await host.unit('MainPID');
        await machine.out(`kill -STOP ${pid}`);
        await until(
          'systemd starts another one',
          async () => {
            const now = await host.unit('MainPID');
            return now !== '0' && now !== pid && (await host.unit('ActiveState')) === 'active';
          },
          { timeoutMs: 180_000, everyMs: 500 },
        );
      });
    } finally {
      // systemd keeps to the limit that a service was started with.
      await machine.out(
        'rm -r /run/systemd/system/holdfast.service.d && systemctl daemon-reload && systemctl restart holdfast',
      );
    }
    assert.equal(await host.unit('WatchdogUSec'), '1min');
  });

  it('memory is limited: the end says OOM, and others live on', async () => {
    await untouched('an OOM kill', async () => {
      await host.register(shellJob('hog', 'exec tail /dev/zero', { resources: { MemoryMB: 24 } }));
      const [hog] = await host.untilTasks('hog', 'is over', (tasks) => tasks[0]?.state.State === 'dead');
      const exit = hog?.state.Holdfast.LastExit;
      assert.deepEqual([exit?.Kind, exit?.SignalName, exit?.OOMKilled], ['signaled', 'SIGKILL', true]);
      const [run] = await host.runs(hog?.allocId ?? '', 'task');
      const peak = (run?.Usage?.PeakMemoryBytes ?? 0) / 2 ** 20;
      assert.ok(peak > 20 && peak <= 24.5, `peak ${peak} MiB`);
      assert.ok((run?.MemoryLimitHits ?? 0) > 0, 'memory.events counts how often it was at its limit');
      await host.purge('hog');
    });
  });

  it('G20: a task has the limits that systemd gives a service', async () => {
    const [task] = await host.tasks('steady');
    const service = await machine.out('systemd-run --quiet --wait --pipe cat /proc/self/limits');
    assert.match(service, /^Max open files +1024 +524288/m);
    assert.equal(await machine.out(`cat /proc/${task?.state.Holdfast.Pid}/limits`), service);
  });

  it('the number of processes is limited', async () => {
    const script = 'for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait';
    await host.register(shellJob('many', script, { resources: { Pids: 6 } }));
    const [task] = await host.untilTasks(
      'many',
      'was started',
      (tasks) => (tasks[0]?.state.Holdfast.Attempts ?? 0) > 0,
    );
    const events = await until(
      'the limit was met',
      async () => {
        const said = await machine.sh(
          'cat /sys/fs/cgroup/holdfast.slice/*.task.*/pids.events | grep -v " 0$"',
        );
        const [now] = await host.tasks('many');
        return said.text.trim() !== '' || now?.state.State === 'dead' ? said.text : undefined;
      },
      { timeoutMs: 60_000, everyMs: 300 },
    );
    const stderr = await machine.out(`cat /var/lib/holdfast/alloc/${task?.allocId}/alloc/logs/task.stderr.0`);
    assert.match(events + stderr, /max [1-9]|[Cc]annot fork/);
    await host.purge('many');
  });

  it('CPU time is limited', async () => {
    await host.register(shellJob('busy', 'while :; do :; done', { resources: { CPUPercent: 20 } }));
    const [task] = await host.untilTasks('busy', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    const stat = `$(sed 's/0:://' /proc/${task?.state.Holdfast.Pid}/cgroup)/cpu.stat`;
    // Measured in the guest, by its own clock.
    const said = await machine.out(
      `f=/sys/fs/cgroup${stat}; a=$(sed -n 's/usage_usec //p' $f); s=$(cut -d' ' -f1 /proc/uptime); sleep 5; ` +
        `b=$(sed -n 's/usage_usec //p' $f); e=$(cut -d' ' -f1 /proc/uptime); echo $a $b $s $e; grep nr_throttled $f`,
    );
    const [figures = '', throttled = ''] = said.split('\n');
    const [a = 0, b = 0, s = 0, e = 0] = figures.split(' ').map(Number);
    const percent = (b - a) / 10_000 / (e - s);
    assert.ok(percent > 5 && percent < 30, `used ${percent} percent of a processor`);
    assert.match(throttled, /nr_throttled [1-9]/);
    await host.purge('busy');
  });

  it('cores, swap and disk I/O are limited, and everybody’s again afterwards', async () => {
    const limits = { Cores: 1, MemoryMB: 64, MemorySwapMB: 16, IOReadMB: 50, IOWriteMB: 2, IOWeight: 200 };
    const dd =
      'f="$NOMAD_ALLOC_DIR/data/x"; s=$(cut -d" " -f1 /proc/uptime); dd if=/dev/zero of="$f" bs=1M count=8 conv=fsync 2>&1; ' +
      'echo "from $s to $(cut -d" " -f1 /proc/uptime)"; ';
    await host.register(shellJob('tight', dd + STEADY, { driver: 'exec', resources: limits }));
    const [task] = await host.untilTasks('tight', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    const own = `/sys/fs/cgroup$(sed 's/0:://' /proc/${task?.state.Holdfast.Pid}/cgroup)`;
    const seen = await machine.out(
      `cd ${own} && cat cpuset.cpus cpuset.mems memory.swap.max && grep -c 'rbps=52428800 wbps=2097152' io.max && head -1 io.weight`,
    );
    const [cpus = '', mems, swap, disks, weight] = seen.split('\n');
    assert.match(cpus, /^[01]$/);
    assert.deepEqual([mems, swap, weight], ['0', String(16 * 2 ** 20), 'default 200']);
    assert.ok(Number(disks) >= 1, seen);
    const others = 'cat /sys/fs/cgroup/holdfast.slice/*.task.*/cpuset.cpus | sort | uniq -c';
    const shared = (await machine.out(others)).split('\n').map((line) => line.trim().split(/\s+/)[1]);
    assert.deepEqual([...new Set(shared)].sort(), ['0', '1'], 'the others have the other core');
    // They are given back, and taken again, while it runs.
    const { Cores: gone, ...less } = limits;
    assert.equal(gone, 1);
    await host.register(shellJob('tight', dd + STEADY, { driver: 'exec', resources: { ...less, CPU: 100 } }));
    const all = `cat ${own}/cpuset.cpus; ${others} | grep -vw '0-1'`;
    await until('they are everybody’s', async () => (await machine.sh(all)).text.trim() === '0-1', PATIENCE);
    await host.register(shellJob('tight', dd + STEADY, { driver: 'exec', resources: limits }));
    await until(
      'it has one again',
      async () => /^[01]$/.test((await machine.out(`cat ${own}/cpuset.cpus`)).trim()),
      PATIENCE,
    );
    // Buffered, too: v2 knows whose the page is that is written back.
    const log = `/var/lib/holdfast/alloc/${task?.allocId}/alloc/logs/task.stdout.0`;
    await until('it has written', async () => (await machine.sh(`grep from ${log}`)).code === 0, {
      timeoutMs: 60_000,
      everyMs: 500,
    });
    const [from = 0, to = 0] = (await machine.out(`sed -n 's/from \\(.*\\) to/\\1/p' ${log}`))
      .split(' ')
      .map(Number);
    assert.ok(to - from > 2, `8 MiB at 2 MiB a second took ${to - from} s`);
    await host.purge('tight');
    await until(
      'all cores are everybody’s',
      async () => (await machine.sh(`${others} | grep -vw '0-1'`)).text.trim() === '',
      {
        timeoutMs: 30_000,
        everyMs: 300,
      },
    );
  });

  it('G15: the deadline of a stop does not care about the wall clock', async () => {
    const deaf = 'trap "" TERM INT; while :; do sleep 1000 & wait $!; done';
    await host.register(shellJob('deaf', deaf, { killTimeout: 12e9 }));
    const [task] = await host.untilTasks('deaf', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    const pid = String(task?.state.Holdfast.Pid);
    const from = Number(await machine.out("cut -d' ' -f1 /proc/uptime"));
    assert.equal((await host.request('DELETE', '/v1/job/deaf')).status, 200);
    await machine.out('date -s "+1 day"; sleep 2; date -s "-2 days"; sleep 2; date -s "+1 day"');
    await machine.out(`kill -0 ${pid}`);
    await machine.out(`while kill -0 ${pid} 2>&1; do sleep 0.1; done`, 60_000);
    const tookS = Number(await machine.out("cut -d' ' -f1 /proc/uptime")) - from;
    assert.ok(tookS > 11.5 && tookS < 25, `gone after ${tookS} s`);
    await host.purge('deaf');
  });

  it('an upgrade in place touches no task; old executors serve the new daemon', async () => {
    await machine.out(
      `cp -a /opt/holdfast /opt/holdfast.new && sed -i 's/"version": "[^"]*"/"version": "99.0.0"/' /opt/holdfast.new/package.json`,
      180_000,
    );
    await untouched('the upgrade', async () => {
      await machine.out(
        'mv /opt/holdfast /opt/holdfast.old && mv /opt/holdfast.new /opt/holdfast && systemctl restart holdfast',
      );
    });
    const self = (await host.get('/v1/agent/self')) as { stats: { holdfast: { version: string } } };
    assert.equal(self.stats.holdfast.version, '99.0.0');
    await machine.out('rm -r /opt/holdfast.old');
    // One of the old ones can be stopped, and its place is filled by a new executor.
    const [first] = await host.tasks('steady');
    await host.request('PUT', `/v1/allocation/${first?.allocId}/stop`);
    await host.untilTasks(
      'steady',
      'one was replaced',
      (tasks) =>
        tasks.filter(({ state }) => state.Holdfast.Pid !== null).length === 3 &&
        tasks.some(({ allocId, state }) => allocId === first?.allocId && state.State === 'dead'),
    );
    const stopped = (await host.tasks('steady')).find(({ allocId }) => allocId === first?.allocId);
    assert.equal(stopped?.state.Holdfast.LastExit?.SignalName, 'SIGTERM');
  });

  it('a pid that somebody else has now is never signalled', async () => {
    await host.register(shellJob('reused', 'exec sleep 100000', { restart: ALWAYS }));
    const [task] = await host.untilTasks('reused', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
    const pid = task?.state.Holdfast.Pid ?? 0;
    await machine.out('systemctl stop holdfast');
    const executor = await machine.out(`ps -o ppid= -p ${pid}`);
    await machine.out(
      `kill -9 ${executor.trim()} ${pid}; until ! kill -0 ${pid} 2>/dev/null; do sleep 0.1; done`,
    );
    // The very pid is given out again, to a bystander; others may be quicker.
    const bystander = await machine.out(
      `for i in $(seq 600); do echo ${pid - 1} > /proc/sys/kernel/ns_last_pid; sleep 100001 & ` +
        `[ $! -eq ${pid} ] && break; kill $!; wait $!; sleep 0.1; done 2>/dev/null; ` +
        `sleep 0.1; cat /proc/${pid}/cmdline | tr '\\0' ' '`,
      180_000,
    );
    assert.match(bystander, /sleep 100001/);
    await machine.out('systemctl start holdfast');
    const [again] = await host.untilTasks(
      'reused',
      'runs again',
      (tasks) => tasks[0]?.state.Holdfast.Pid != null && tasks[0].state.Holdfast.Attempts === 2,
    );
    assert.notEqual(again?.state.Holdfast.Pid, pid);
    const [first] = await host.runs(again?.allocId ?? '', 'task');
    assert.equal(first?.Exit?.Kind, 'unknown');
    await host.purge('reused');
    assert.match(await machine.out(`cat /proc/${pid}/cmdline | tr '\\0' ' '`), /sleep 100001/);
    await machine.out(`kill ${pid}`);
  });

  it('a clock that is set a day forth and back starts nothing early and delays nothing', async () => {
    const policy = { Attempts: 5, Interval: 3600e9, Delay: 12e9, Mode: 'fail', Jitter: 0 };
    const uptime = async (): Promise<number> => Number(await machine.out("cut -d' ' -f1 /proc/uptime"));
    await untouched('steps of the clock', async () => {
      await host.register(
        shellJob('late', 'cut -d" " -f1 /proc/uptime >> "$NOMAD_ALLOC_DIR/data/starts"; exit 1', {
          restart: policy,
        }),
      );
      const [task] = await host.untilTasks(
        'late',
        'waits',
        (tasks) => tasks[0]?.state.Holdfast.Phase === 'backoff',
      );
      await machine.out('date -s "+1 day"');
      await host.untilTasks(
        'late',
        'was started again',
        (tasks) => (tasks[0]?.state.Holdfast.Attempts ?? 0) >= 2,
      );
      await machine.out('date -s "-2 days"');
      await host.untilTasks(
        'late',
        'was started a third time',
        (tasks) => (tasks[0]?.state.Holdfast.Attempts ?? 0) >= 3,
      );
      const starts = (await machine.out(`cat /var/lib/holdfast/alloc/${task?.allocId}/alloc/data/starts`))
        .split('\n')
        .map(Number);
      for (const [at, start] of starts.entries()) {
        const before = starts[at - 1];
        if (before === undefined) continue;
        assert.ok(start - before >= 11.9 && start - before < 25, `attempts at ${starts.join(', ')} s`);
      }
      await machine.out('date -s "+1 day"');
      assert.ok((await uptime()) > 0);
      await host.purge('late');
    });
  });

  it('a machine that was suspended goes on as if nothing had been', async () => {
    await untouched('suspension', async () => {
      const restarts = await host.unit('NRestarts');
      await machine.sleep(15_000);
      // Its clock then jumps to the time that it has slept.
      await machine.out(`date -s @${Math.floor(Date.now() / 1000)}`);
      await host.answers();
      assert.equal(await host.unit('NRestarts'), restarts, 'the watchdog has not struck');
    });
  });

  it('a full disk: tasks run on, nothing new starts, and it catches up', async () => {
    await untouched('a full disk', async () => {
      await host.register(
        shellJob('ending', 'until [ -e "$NOMAD_ALLOC_DIR/data/cue" ]; do sleep 0.2; done; exit 4'),
      );
      const [task] = await host.untilTasks('ending', 'runs', (tasks) => tasks[0]?.state.Holdfast.Pid != null);
      await machine.out(`touch /var/lib/holdfast/alloc/${task?.allocId}/alloc/data/cue.later`);
      await machine.sh('cat /dev/zero > /var/lib/holdfast/fill; sync');
      const refused = await until(
        'a job is refused',
        async () => {
          const { status, text } = await host.request('PUT', '/v1/jobs', {
            Job: shellJob('extra', 'exit 0'),
          });
          return status === 200 ? undefined : { status, text };
        },
        { timeoutMs: 60_000, everyMs: 500 },
      );
      assert.match(refused.text, /disk|space|write/);
      await machine.out(
        `mv /var/lib/holdfast/alloc/${task?.allocId}/alloc/data/cue.later /var/lib/holdfast/alloc/${task?.allocId}/alloc/data/cue`,
      );
      await until(
        'the agent says so',
        async () => (await host.request('GET', '/v1/agent/health')).status === 500,
        { timeoutMs: 60_000, everyMs: 500 },
      );
      await machine.out('rm /var/lib/holdfast/fill; sync');
      const [ended] = await host.untilTasks(
        'ending',
        'is known to be over',
        (tasks) => tasks[0]?.state.State === 'dead',
      );
      assert.deepEqual(
        [ended?.state.Holdfast.LastExit?.Kind, ended?.state.Holdfast.LastExit?.Code],
        ['exited', 4],
      );
      await until(
        'the agent is well',
        async () => (await host.request('GET', '/v1/agent/health')).status === 200,
        { timeoutMs: 60_000, everyMs: 500 },
      );
      await host.purge('ending');
      await host.request('DELETE', '/v1/job/extra?purge=true');
    });
  });

  it('a power cut during writes: all that was answered or told is there, and nothing is repeated', async () => {
    // Tells every event as it comes, and registers job after job, each with an end of its own.
    const curl = 'curl -sN --unix-socket /var/lib/holdfast/holdfast.sock';
    const body = Buffer.from(
      JSON.stringify({ Job: shellJob('burst-JOB', 'exit CODE', { type: 'batch' }) }),
    ).toString('base64');
    machine.send(
      `(${curl} 'http://h/v1/event/stream?topic=TaskEvent' | sed -u 's/^/TOLD /') & ` +
        `for i in $(seq 1 200); do echo ${body} | base64 -d | sed "s/JOB/$i/;s/CODE/$((i%7))/" | ` +
        `${curl} -f -o /dev/null -X PUT --data-binary @- http://h/v1/jobs && echo "ACKED $i"; done`,
    );
    await until(
      'some are on their way',
      () => (machine.said.match(/"Type":"Terminated"/g) ?? []).length >= 12,
      {
        timeoutMs: 90_000,
        lastSeen: () => machine.said.slice(-2_000),
      },
    );
    await machine.cut();
    const { said } = machine;
    const acked = [...said.matchAll(/^ACKED (\d+)\r?\n/gm)].map((match) => Number(match[1]));
    const told = [...said.matchAll(/^TOLD (\{.*\})\r?\n/gm)].flatMap((match) => toldEvents(match[1] ?? ''));
    const ends = told.filter(({ Type, JobID }) => Type === 'Terminated' && JobID.startsWith('burst-'));
    assert.ok(acked.length >= 5 && ends.length >= 5, `${acked.length} acked, ${ends.length} ends told`);
    await machine.boot();
    await afterReboot('a power cut', ['unknown']);
    const jobs = (await host.get('/v1/jobs')) as readonly { readonly ID: string }[];
    const known = new Set(jobs.map(({ ID }) => ID));
    for (const id of acked)
      assert.ok(known.has(`burst-${id}`), `job burst-${id} was acknowledged and is gone`);
    for (const { JobID, AllocID } of ends) {
      const runs = await host.runs(AllocID, 'task');
      const ended = runs.filter(({ Exit }) => Exit?.Kind === 'exited');
      assert.deepEqual(
        ended.map(({ Exit }) => Exit?.Code),
        [Number(JobID.slice(6)) % 7],
        `${JobID}: ${JSON.stringify(runs)}`,
      );
      assert.equal(runs.length, 1, `${JobID} was run again`);
    }
    const latest = Math.max(...told.map(({ index }) => index));
    const headers = await machine.out(`${curl} -o /dev/null -D - http://h/v1/jobs`);
    const index = Number(/x-nomad-index: (\d+)/i.exec(headers)?.[1]);
    assert.ok(index >= latest, `event ${latest} was told, and the store is at ${index}`);
    // All the others come to an end too, each as it must.
    await until(
      'every job of the burst is over',
      async () => {
        const tasks = (await host.tasks()).filter(({ job }) => job.startsWith('burst-'));
        return tasks.every(({ state }) => state.State === 'dead');
      },
      { timeoutMs: 90_000, everyMs: 500 },
    );
    process.stdout.write(`# ${acked.length} jobs acknowledged, ${ends.length} ends told before the cut\n`);
  });

  it('a reboot: the daemon comes back with its tasks, and says how each ended', async () => {
    machine.send('systemctl reboot');
    await machine.left(180_000);
    await machine.boot();
    // Whoever was ended by the shutdown itself was seen by its executor.
    await afterReboot('a reboot', ['signaled', 'unknown']);
  });

  it('a disk that fails: tasks run on, the daemon says so and calls nothing damaged', async () => {
    const before = await host.identities();
    const pids = before.map((line) => line.split(' ')[0]);
    // What ext4 does on an error: its file system is over; it takes nothing more and gives back little.
    await machine.sh('mount -o remount,abort /var/lib/holdfast');
    for (const [method, path] of [
      ['PUT', '/v1/jobs'],
      ['GET', '/v1/allocations'],
    ] as const) {
      const body = method === 'PUT' ? { Job: shellJob('extra', 'exit 0') } : undefined;
      const { status, text } = await host.request(method, path, body);
      const { text: last } = await machine.sh('journalctl -b -o cat -u holdfast --no-pager | tail -n 12');
      assert.ok(status === 503 || (status === 200 && method === 'GET'), `${status} ${text}\n${last}`);
      if (status === 503) assert.match(text, /disk|read-only|write/);
      assert.doesNotMatch(text, /malformed|damaged/);
    }
    const stats = await machine.out(
      `cut -d' ' -f1,22 ${pids.map((pid) => `/proc/${pid}/stat`).join(' ')} | sort`,
    );
    assert.deepEqual(stats.split('\n').sort(), before, 'tasks run on');
    assert.equal(await host.unit('ActiveState'), 'active');
    await machine.cut();
    await machine.boot();
    await afterReboot('a failing disk', ['unknown', 'signaled']);
  });

  it('purged, nothing is left', async () => {
    const jobs = (await host.get('/v1/jobs')) as readonly { readonly ID: string }[];
    for (const { ID } of jobs) await host.purge(ID);
    assert.equal(await machine.out('cd /var/lib/holdfast/alloc && find . -mindepth 1 -maxdepth 3'), '');
    // The directory of the last run goes a moment after its end is stored.
    let left = '';
    await until(
      'no run directory is left',
      async () => {
        left = await machine.out('find /var/lib/holdfast/run -mindepth 2 -ls');
        return left === '';
      },
      { timeoutMs: 60_000, everyMs: 500, lastSeen: () => left },
    );
    assert.equal(
      await machine.out('find /sys/fs/cgroup/holdfast.slice -mindepth 1 -type d'),
      '/sys/fs/cgroup/holdfast.slice/executors',
    );
    const doctor = await machine.sh('holdfast doctor');
    assert.equal(doctor.code, 0, doctor.text);
  });
});

interface Told {
  readonly Type: string;
  readonly JobID: string;
  readonly AllocID: string;
  readonly index: number;
}

function toldEvents(line: string): Told[] {
  interface Message {
    readonly Index?: number;
    readonly Events?: readonly { readonly Payload: { readonly TaskEvent: Omit<Told, 'index'> } }[];
  }
  let message: Message;
  try {
    message = JSON.parse(line) as Message;
  } catch {
    // Two programs write to one port: a line that was cut in two was told, but cannot be read here.
    return [];
  }
  const { Index, Events = [] } = message;
  return Events.map(({ Payload }) => ({ ...Payload.TaskEvent, index: Index ?? 0 }));
}
