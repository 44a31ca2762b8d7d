import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, it } from 'node:test';
import { inForceToWire } from '../../../src/api/in-force-view.js';
import { nameOfUser } from '../../../src/base/users.js';
import { parseProcessStat, readProcessStat } from '../../../src/base/host.js';
import { describeInForce } from '../../../src/cli/render/in-force.js';
import { countMounts, lookAtWorkload, parseRlimits, parseStatus } from '../../../src/executor/in-force.js';
import { inForceOfState } from '../../../src/executor/in-force-record.js';

const STATUS = `Name:\tTab: x
Umask:\t0027
State:\tS (sleeping)
Uid:\t1000\t65534\t65534\t65534
Gid:\t1000\t65533\t65534\t65534
Groups:\t4 27 
CapInh:\t0000000000000400
CapPrm:\t0000000000000400
CapEff:\t0000000000000400
CapBnd:\t00000000a80425fb
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
`;

const LIMITS = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max open files            256                  512                  files     
Max something new         1                    2                    things
`;

describe('what a workload really got', () => {
  it('is read from what the kernel writes of a process', () => {
    assert.deepEqual(parseStatus(STATUS), {
      uid: 65_534,
      gid: 65_533,
      groups: [4, 27],
      capabilities: {
        effective: '400',
        permitted: '400',
        inheritable: '400',
        bounding: 'a80425fb',
        ambient: '0',
      },
      noNewPrivs: true,
      seccomp: 'filter',
      umask: '0027',
    });
    assert.deepEqual(parseRlimits(LIMITS), [
      { name: 'cpu', soft: null, hard: null },
      { name: 'nofile', soft: 256, hard: 512 },
    ]);
    // A name may hold anything; the nice value is the 19th field.
    assert.deepEqual(parseProcessStat('7 (a) (b) S 1 7 7 0 -1 1 2 3 4 5 6 7 8 9 25 5 1 0 99 3'), {
      state: 'S',
      ppid: 1,
      nice: 5,
      startTicks: 99,
    });
    const mounts = '1 0 0:1 / / ro,nosuid - ext4 x rw\n2 1 0:2 / /tmp rw - tmpfs x ro\n';
    assert.deepEqual(countMounts(mounts), { total: 2, readOnly: 1 });
  });

  it('is the truth about a process that is there, and nothing about one that is not', () => {
    const child = spawn('/bin/sleep', ['100'], { stdio: 'ignore' });
    try {
      const pid = child.pid ?? 0;
      const startTicks = readProcessStat(pid)?.startTicks ?? 0;
      const seen = lookAtWorkload({ pid, startTicks }, undefined);
      assert.deepEqual(seen.process?.namespaces, []);
      assert.equal(seen.process.uid, process.geteuid?.());
      // As it is after it was stored.
      assert.deepEqual(inForceOfState({ inForce: JSON.parse(JSON.stringify(seen)) as unknown }), seen);
      assert.equal(lookAtWorkload({ pid, startTicks: startTicks + 1 }, undefined).process, undefined);
    } finally {
      child.kill('SIGKILL');
    }
    assert.deepEqual(lookAtWorkload(undefined, undefined), { cgroups: [], limits: {} });
    for (const state of [{}, { inForce: 3 }, { inForce: { limits: {} } }])
      assert.equal(inForceOfState(state), undefined);
  });

  it('is told in names and in one line', () => {
    const passwd = 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n';
    assert.equal(nameOfUser(passwd, 7), undefined);
    const wire = inForceToWire(
      {
        process: {
          ...parseStatus(STATUS),
          namespaces: ['mount', 'pid'],
          oomScoreAdj: 0,
          nice: 0,
          rlimits: [],
          mounts: { total: 9, readOnly: 4 },
        },
        cgroups: ['/c'],
        limits: { memoryMaxBytes: 64 * 1024 * 1024, pidsMax: 50, cpuQuotaPercent: 20 },
      },
      passwd,
    );
    assert.deepEqual(wire.Process?.Capabilities.Effective, ['net_bind_service']);
    assert.equal(
      describeInForce(wire),
      'own mount pid, user nobody, no new privileges, seccomp, 1 capability of 14, 9 mounts, 4 read-only; umask 0027; ' +
        'limits memory 64 MiB, cpu 20%, pids 50',
    );
    assert.equal(describeInForce(inForceToWire({ cgroups: [], limits: {} }, '')), 'no limits: no cgroup');
    const idle = inForceToWire({ cgroups: ['/c'], limits: { ioWeightIdle: 700 } }, '');
    assert.equal(describeInForce(idle), 'limits io weight 700 without effect: no disk with bfq or iocost');
  });
});
