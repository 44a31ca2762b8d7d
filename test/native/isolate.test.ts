/**
 * A task that is shut in: its root, namespaces, user, capabilities, filter, limits, and the ways out that it does not
 * have. As root and, by a user namespace, as an ordinary user.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive } from '../../src/base/host.js';
import type { ExecutorSpec } from '../../src/executor/protocol.js';
import { NAMESPACE_BITS, type NamespaceName, type SpecIsolation } from '../../src/executor/isolation.js';
import { capabilityMask, capabilityNames, DEFAULT_CAPABILITIES } from '../../src/jobspec/capability-names.js';
import { until } from '../helpers/until.js';
import { executor, EXECUTOR, IS_ROOT, processesOf, Run, TOLD } from './harness.js';

const HOST_DIRS = ['/bin', '/etc', '/lib', '/lib32', '/lib64', '/sbin', '/usr'];
const NAMESPACES: readonly NamespaceName[] = [
  'mount',
  'pid',
  'ipc',
  'uts',
  'cgroup',
  'net',
  ...(IS_ROOT ? [] : (['user'] as const)),
];

const isolation: SpecIsolation = {
  namespaces: NAMESPACES,
  mounts: HOST_DIRS.map((dir) => ({ source: dir, target: dir, options: ['ro', 'optional', 'link'] })),
  search: ['/usr/local/bin', '/usr/bin', '/bin'],
  capabilities: { bounding: capabilityMask(DEFAULT_CAPABILITIES), ambient: 0 },
  noNewPrivs: true,
  seccomp: true,
};

type Change = Partial<SpecIsolation> & { readonly spec?: Partial<Omit<ExecutorSpec, 'log'>> };

function shutIn(script: string, { spec, ...change }: Change = {}): Run {
  return new Run({
    path: 'sh',
    argv: ['sh', '-c', script],
    user: IS_ROOT ? 'nobody' : undefined,
    isolation: { ...isolation, ...change },
    attributes: { rlimits: [], umask: 0o022, nice: undefined },
    ...spec,
  });
}

/** What a script says, stderr included. */
async function says(script: string, change: Change = {}): Promise<string> {
  await using run = await shutIn(`exec 2>&1; ${script}`, change).started();
  await run.exit();
  return run.log();
}

const lines = (text: string): string[] => text.trimEnd().split('\n');
const asRoot = { skip: IS_ROOT ? false : 'only root has privileges to give up' };

describe('a task that is shut in', { concurrency: 2, timeout: 180_000 }, () => {
  it('has namespaces of its own, each of them, and so has nothing mounted on the host', async () => {
    await using run = await shutIn('echo ready; sleep 600').started();
    await run.logged('ready');
    const { pid } = run.workload;
    for (const name of NAMESPACES) {
      const file = name === 'mount' ? 'mnt' : name;
      const theirs = readlinkSync(`/proc/${pid}/ns/${file}`);
      assert.notEqual(theirs, readlinkSync(`/proc/self/ns/${file}`), name);
    }
    assert.doesNotMatch(readFileSync('/proc/self/mountinfo', 'utf8'), new RegExp(run.root));
    await run.stop(15, 20_000);
    assert.equal(await run.outcome(), 'signaled 15');
  });

  it('shares what it is to share', async () => {
    const shared = NAMESPACES.filter((name) => name !== 'pid' && name !== 'ipc' && name !== 'net');
    const said = await says('readlink /proc/self/ns/pid /proc/self/ns/ipc /proc/self/ns/net', {
      namespaces: shared,
    });
    const ours = ['pid', 'ipc', 'net'].map((name) => readlinkSync(`/proc/self/ns/${name}`));
    assert.deepEqual(lines(said), ours);
  });

  it('is process 2: an ordinary process, to which signals do what they do', async () => {
    const said = await says(
      'echo $$; ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; cat /proc/1/environ | wc -c',
    );
    assert.match(said, /^2\n\d+\nholdfast-init\n/);
    await using run = await shutIn('kill -TERM $$; sleep 60').started();
    assert.equal(await run.outcome(), 'signaled 15');
  });

  it('G28: sees read-only parts of the host, links as links, and can write nowhere else', async () => {
    const said = await says(
      'for d in / /etc /usr /usr/bin /dev /sys /proc/sys /proc/sys/kernel; do touch $d/x && echo "wrote $d"; done; readlink /bin; grep -c " ro," /proc/self/mountinfo; touch /tmp/fine && echo tmp is fine',
    );
    assert.doesNotMatch(said, /wrote/);
    assert.match(said, /Read-only file system/);
    assert.match(said, /tmp is fine/);
    if (existsSync('/usr/bin') && readlinkSync('/bin') === 'usr/bin') assert.match(said, /^usr\/bin$/m);
  });

  it('G23: a mount below a read-only bind is read-only too', asRoot, async () => {
    // /dev has mounts of its own on every host.
    const said = await says(
      'for d in /host /host/shm /host/pts; do touch $d/x && echo "wrote $d"; done; true',
      {
        mounts: [...isolation.mounts, { source: '/dev', target: '/host', options: ['ro'] }],
        spec: { user: 'root' },
      },
    );
    assert.doesNotMatch(said, /wrote/);
    assert.equal(lines(said).filter((line) => line.includes('Read-only')).length, 3, said);
  });

  it('finds its own directories where they are to be, and gives away what is its own', async () => {
    await using run = shutIn(
      'cat /data/in; echo out > /data/out; echo x > /ro/x; stat -c %u /own; sleep 0.1',
    );
    const [data, ro, own] = ['data', 'ro', 'own'].map((name) => join(run.root, name));
    for (const dir of [data, ro, own]) mkdirSync(String(dir), { mode: 0o777 });
    writeFileSync(join(String(data), 'in'), 'here\n');
    run.writeSpec({
      path: 'sh',
      argv: [
        'sh',
        '-c',
        'exec 2>&1; umask 0; cat /a/b/data/in; echo out > /a/b/data/out; echo x > /ro/x; stat -c %u /own',
      ],
      user: IS_ROOT ? '65534' : undefined,
      isolation: {
        ...isolation,
        mounts: [
          ...isolation.mounts,
          { source: String(data), target: '/a/b/data', options: ['own'] },
          { source: String(ro), target: '/ro', options: ['ro'] },
          { source: String(own), target: '/own', options: ['own'] },
        ],
      },
    });
    await run.started();
    await run.exit();
    assert.match(run.log(), /^here\n.*Read-only file system\n/);
    assert.equal(readFileSync(join(String(data), 'out'), 'utf8'), 'out\n');
    assert.equal(existsSync(join(String(ro), 'x')), false);
    assert.match(run.log(), new RegExp(`^${IS_ROOT ? 65534 : (process.getuid?.() ?? 0)}$`, 'm'));
  });

  it('G24: a link that a task planted leads to nowhere outside of its root', async () => {
    await using run = shutIn('true');
    const local = join(run.root, 'local');
    mkdirSync(local, { mode: 0o777 });
    symlinkSync(run.root, join(local, 'trap'));
    const target = join(run.root, 'victim');
    mkdirSync(target);
    run.writeSpec({
      path: '/bin/true',
      user: IS_ROOT ? 'nobody' : undefined,
      isolation: {
        ...isolation,
        mounts: [
          ...isolation.mounts,
          { source: local, target: '/local', options: [] },
          { source: '/etc', target: '/local/trap/victim/new', options: ['ro'] },
        ],
      },
    });
    const told = await run.start();
    assert.equal(existsSync(join(target, 'new')), false);
    assert.ok(told.status === TOLD.ok || told.status === TOLD.startFailed);
  });

  it('G21, G22: has exactly the user, groups and capabilities it is given', asRoot, async () => {
    const status = 'grep -E "^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)" /proc/self/status';
    const nobody = await says(status);
    assert.match(
      nobody,
      /^Uid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\nGroups:\t65534 \n/,
    );
    const sets = (text: string): Record<string, string[]> =>
      Object.fromEntries(
        [...text.matchAll(/^Cap(\w+):\t([0-9a-f]+)$/gm)].map(([, name = '', hex]): [string, string[]] => [
          name,
          capabilityNames(BigInt(`0x${hex ?? '0'}`)).sort(),
        ]),
      );
    const all = [...DEFAULT_CAPABILITIES].sort();
    assert.deepEqual(sets(nobody), { Inh: [], Prm: [], Eff: [], Bnd: all, Amb: [] });
    assert.match(nobody, /NoNewPrivs:\t1\nSeccomp:\t2/);
    const one = { bounding: capabilityMask(['net_bind_service', 'kill']), ambient: capabilityMask(['kill']) };
    const [two, kill] = [['kill', 'net_bind_service'], ['kill']];
    assert.deepEqual(sets(await says(status, { capabilities: one })), {
      Inh: kill,
      Prm: kill,
      Eff: kill,
      Bnd: two,
      Amb: kill,
    });
    const root = await says(status, { capabilities: one, spec: { user: 'root' } });
    assert.deepEqual(sets(root), { Inh: [], Prm: two, Eff: two, Bnd: two, Amb: [] });
    assert.match(root, /^Groups:\t0 $/m);
  });

  it('has no way out, also as root with the capabilities of Nomad’s set', async () => {
    const tries = [
      'mount -t tmpfs none /tmp',
      'mount -o remount,rw /usr',
      'umount /proc',
      'echo b > /proc/sysrq-trigger',
      'echo 1 > /proc/sys/kernel/panic',
      'unshare -U true',
      'unshare -m true',
      'nsenter -t 1 -m true',
      'chroot /proc/1/root true',
      'cat /proc/1/environ',
      'cat /proc/kcore',
      'cat /proc/keys | grep .',
      'hostname other',
      'date -s 12:00',
      'dmesg',
      'swapoff -a',
      `kill -0 ${process.pid}`,
      'kill -9 1; kill -TERM 1; test ! -e /proc/1/comm',
      'cat /dev/mem',
      'test -e /sys/fs/cgroup/memory',
    ];
    const script = tries.map((one, n) => `( ${one} ) >/dev/null 2>&1 && echo "${n} worked"`).join('; ');
    const said = await says(`${script}; echo tried`, IS_ROOT ? { spec: { user: 'root' } } : {});
    const worked = [...said.matchAll(/^(\d+) worked$/gm)].map(([, n]) => tries[Number(n)]);
    // Root may enter its own root again: that is no way out.
    assert.deepEqual(
      worked.filter((one) => !one?.startsWith('chroot /proc/1/root')),
      [],
    );
    assert.match(said, /tried/);
  });

  it('cannot use a device file that it makes', asRoot, async () => {
    const said = await says('mknod /tmp/null c 1 3 && echo made; cat /tmp/null && echo used', {
      spec: { user: 'root' },
    });
    assert.match(said, /made/);
    assert.doesNotMatch(said, /used/);
  });

  it('G22: system calls of the list are refused, those of other machines end the task', async () => {
    const script = [
      'import ctypes, errno',
      'c = ctypes.CDLL(None, use_errno=True)',
      'for n in (155, 165, 166, 169, 175, 176, 246, 248, 249, 250, 272, 298, 304, 308, 313, 321, 323, 425, 428, 429, 430, 442):',
      '  a = 0x10000000 if n == 272 else 0',
      '  ctypes.set_errno(0)',
      '  r = c.syscall(n, a, 0, 0, 0, 0)',
      '  print(n, r, errno.errorcode.get(ctypes.get_errno()))',
      'print(c.syscall(0x40000000 + 39), errno.errorcode.get(ctypes.get_errno()))',
    ].join('\n');
    const said = lines(await says(`python3 -c '${script}'`));
    assert.equal(said.length, 23, said.join('\n'));
    for (const line of said.slice(0, -1)) assert.match(line, /^\d+ -1 EPERM$/);
    assert.equal(said.at(-1), '-1 ENOSYS');
  });

  it('G22: set-uid programs give it nothing', async () => {
    const program = ['/usr/bin/su', '/bin/su', '/usr/bin/passwd'].find((path) => existsSync(path));
    const said = await says(`${program ?? 'su'} -s /bin/sh root -c id </dev/null; id -u`);
    assert.doesNotMatch(said, /uid=0/);
  });

  it('with a network of its own has a loopback that works, and nothing else', async () => {
    const said = await says('ls /sys/class/net; cat /sys/class/net/lo/operstate; grep -c : /proc/net/dev');
    // An ordinary user sees the sysfs of the host, but not its network.
    assert.equal(lines(said).at(-1), '1', said);
  });

  it('takes everything along: daemons, stopped ones, a burst of forks', async () => {
    // As many as two to the fifth, and not one more: a bomb without a limit would hit the host of the test.
    const burst = 'b() { n=$1; [ $n -gt 0 ] && { b $((n-1)) & b $((n-1)) & }; sleep 600; }';
    await using run = await shutIn(
      `${burst}; for i in 1 2 3; do setsid sh -c "sleep 600 & sleep 600" & done; sleep 600 & kill -STOP $!; ` +
        '( ( setsid sleep 600 & ) & ); (b 5) & echo ready; sleep 0.3; exit 7',
    ).started();
    const exit = await run.exit();
    assert.deepEqual([exit['result'], exit['code']], ['exited', '7']);
    assert.deepEqual(processesOf(run.runId), []);
    const init = Number(run.status()['init_pid']);
    await until('process 1 is gone', () => !existsSync(`/proc/${init}`));
  });

  it('with leftovers = keep lets them live, and process 1 leaves after the last of them', async () => {
    await using run = await shutIn('sleep 1 & exit 0', { spec: { leftovers: 'keep' } }).started();
    assert.equal(await run.outcome(), 'exited 0');
    const init = Number(run.status()['init_pid']);
    await until('process 1 is gone', () => !existsSync(`/proc/${init}`));
  });

  it('survives its executor, and the next one brings it to its end', async () => {
    await using run = await shutIn(
      'trap "exit 9" TERM; sleep 600 & echo ready; while :; do sleep 0.05; done',
    ).started();
    await run.logged('ready');
    const { workload } = run;
    await run.killExecutor();
    assert.ok(isAlive(workload));
    assert.deepEqual(await run.adopt(), { status: TOLD.ok, stderr: '' });
    await run.stop(15, 20_000);
    const exit = await run.exit();
    assert.equal(exit['adopted'], '1');
    assert.deepEqual(processesOf(run.runId), []);
    const init = Number(run.status()['init_pid']);
    await until('process 1 is gone', () => !existsSync(`/proc/${init}`));
  });

  it('never runs when its executor dies at the gate', async () => {
    await using run = shutIn('echo ran', { spec: { gate: true } });
    await run.started();
    await run.killExecutor();
    assert.equal(run.log(), '');
    assert.equal((await run.adopt()).status, TOLD.notThere);
  });

  it('is stopped before its start without having run', async () => {
    await using run = shutIn('echo ran', { spec: { gate: true } });
    await run.started();
    await run.stop(15, 1000);
    assert.equal(await run.outcome(), 'start_failed gate 125');
    assert.equal(run.log(), '');
  });

  it('G5: a start that fails says at which stage, and about what', async () => {
    const cases: readonly (readonly [Change, string, string])[] = [
      [{ mounts: [{ source: '/nonexistent', target: '/x', options: [] }] }, 'mount 2', '/nonexistent on /x'],
      [{ spec: { cwd: '/nonexistent' } }, 'chdir 2', '/nonexistent'],
      [{ spec: { path: 'no-such-program', argv: ['x'] } }, 'exec 2', 'no-such-program'],
      [
        {
          spec: {
            attributes: { rlimits: [{ name: 'nofile', soft: 5, hard: 2 ** 40 }], umask: 0, nice: undefined },
          },
        },
        'rlimit 1',
        `nofile 5 ${2 ** 40}`,
      ],
      [
        {
          spec: { attributes: { rlimits: [{ name: 'bogus', soft: 5, hard: 5 }], umask: 0, nice: undefined } },
        },
        'rlimit 22',
        'bogus 5 5',
      ],
      ...(IS_ROOT ? [] : ([[{ spec: { user: 'root' } }, 'user 1', 'root']] as const)),
    ];
    for (const [change, outcome, detail] of cases) {
      await using run = shutIn('true', change);
      assert.equal((await run.start()).status, TOLD.startFailed);
      assert.equal(await run.outcome(), `start_failed ${outcome}`);
      assert.equal((await run.exit())['detail'], detail);
      assert.deepEqual(processesOf(run.runId), []);
    }
  });

  it('G20: limits, mask and niceness are its own, not those of whoever started it', async () => {
    const script = 'ulimit -Sn; ulimit -Hn; ulimit -c; ulimit -u; umask; nice';
    const plain = lines(await says(script));
    assert.deepEqual([plain[0], plain[2], plain[4], plain[5]], ['1024', '0', '0022', '0']);
    const attributes = {
      rlimits: [
        { name: 'nofile', soft: 100, hard: 200 },
        { name: 'core', soft: 0, hard: 0 },
      ],
      umask: 0o077,
      nice: 7,
    };
    const asked = lines(await says(script, { spec: { attributes } }));
    assert.deepEqual([asked[0], asked[1], asked[2], asked[4], asked[5]], ['100', '200', '0', '0077', '7']);
  });

  it('the probe says whether this can be had here', async () => {
    assert.deepEqual(await executor('probe', IS_ROOT ? 'root' : 'user'), { status: 0, stderr: '' });
  });

  it('the bits of the namespaces are those of the contract', () => {
    assert.deepEqual(Object.values(NAMESPACE_BITS), [1, 2, 4, 8, 16, 32, 64]);
  });

  /** Calls that only the launcher makes, from its first steps to the last before the task is there. */
  const ON_THE_WAY = [
    ...['getpriority', 'keyctl', 'unshare', 'fsopen', 'move_mount', 'pivot_root', 'umount2'],
    ...['setgroups', 'setresgid', 'setresuid', 'seccomp', 'capset'],
  ];
  const straced =
    IS_ROOT && spawnSync('strace', ['-V']).status === 0 ? false : 'attaching strace needs root and strace';
  it('G5: is none when it is killed on its way, at whichever step', { skip: straced }, async () => {
    for (const call of ON_THE_WAY) {
      await using run = shutIn('echo ran');
      const inject = `inject=${call}:signal=KILL:when=1`;
      const options = ['-f', '-qq', '-o', join(run.root, 'strace'), '-e', `trace=${call}`, '-e', inject];
      const told = spawnSync('strace', [...options, EXECUTOR, 'run', run.dir], { timeout: 60_000 });
      assert.equal(told.status, TOLD.startFailed, `${call}: ${told.stderr.toString()}`);
      // Process 1 makes some of these calls, and its death may come between any two steps of the others.
      assert.match(await run.outcome(), /^start_failed (gate 10|init 12|status 2)$/, call);
      assert.equal(run.log(), '', call);
    }
  });
});
