/** The words for what a task really got: all of it that is not as usual, and nothing of what is. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { InForceJson } from '../../../src/api/wire.js';
import { describeInForce } from '../../../src/cli/render/in-force.js';
import { renderStatus } from '../../../src/cli/render/status.js';
import { job, look, runningRow, taskState } from './samples.js';

type Process = NonNullable<InForceJson['Process']>;

function seen(own: Partial<Process> = {}): InForceJson {
  const none: readonly string[] = [];
  return {
    Process: {
      OwnNamespaces: none,
      UID: 65_534,
      GID: 65_534,
      Groups: [],
      User: 'nobody',
      Capabilities: { Effective: none, Permitted: none, Inheritable: none, Bounding: none, Ambient: none },
      NoNewPrivs: false,
      Seccomp: 'off',
      Umask: '0022',
      Nice: 0,
      OOMScoreAdj: 0,
      Rlimits: {
        core: { Soft: 0, Hard: null },
        nofile: { Soft: 256, Hard: 512 },
        nproc: { Soft: 50, Hard: 50 },
        stack: { Soft: null, Hard: null },
      },
      Mounts: null,
      ...own,
    },
    Cgroups: ['/sys/fs/cgroup/x'],
    Limits: {
      MemoryMaxBytes: null,
      MemoryReserveBytes: null,
      SwapMaxBytes: null,
      CPUPercent: null,
      CPUShares: null,
      CPUWeight: null,
      CPUs: null,
      Pids: null,
      IOWeight: null,
      IOWeightIdle: null,
      IOReadBps: null,
      IOWriteBps: null,
    },
  };
}

const HEAD = 'namespaces of the host, user nobody, no capabilities';

describe('what is in force', () => {
  it('is quiet of what nobody asked for', () => {
    assert.equal(describeInForce(seen()), `${HEAD}; no limits`);
    assert.equal(describeInForce(seen(), { command: 'x', ulimit: {} }), `${HEAD}; no limits`);
    assert.equal(describeInForce(seen({ Nice: null, OOMScoreAdj: null })), `${HEAD}; no limits`);
  });

  it('says the mask, the niceness, the OOM score and the limits that the job file names', () => {
    const process = seen({ Umask: '0027', Nice: -5, OOMScoreAdj: 100 });
    const ulimit = { nofile: '256:512', nproc: 50, core: '0:unlimited', stack: '-1', none: 1 };
    const asked =
      'umask 0027, nice -5, oom_score_adj 100, ulimit nofile 256:512 nproc 50 core 0:unlimited stack unlimited';
    for (const config of [{ ulimit }, { ulimit: [ulimit] }])
      assert.equal(describeInForce(process, config), `${HEAD}; ${asked}; no limits`);
  });

  it('is quiet of a process that could not be looked at', () => {
    assert.equal(describeInForce({ ...seen(), Process: null }, { ulimit: { nofile: 1 } }), 'no limits');
  });

  it('is in the sheet of a task, by the version of the job that it runs, within the width', () => {
    const row = runningRow();
    const Config = { ulimit: { nofile: '256:512', nproc: 50 } };
    const TaskGroups = [{ Name: row.alloc.TaskGroup, Tasks: [{ Name: row.task, Config }] }];
    const detail = {
      TaskStates: { [row.task ?? '']: taskState('running', {}, { InForce: seen({ Umask: '0027' }) }) },
      AllocatedResources: { Tasks: {}, Shared: { DiskMB: 0, Networks: [], Ports: [] } },
      Job: { ...job(), TaskGroups } as unknown as ReturnType<typeof job>,
    };
    const sheet = { target: 'x', job: job(), rows: [row], events: [], logs: [] };
    const lines = renderStatus({ ...sheet, details: { [row.alloc.ID]: detail } }, look(80));
    assert.ok(lines.every((line) => line.length <= 80));
    const text = lines.map((line) => line.trim()).join(' ');
    assert.match(text, /isolation: .+; umask 0027, ulimit nofile 256:512 nproc 50; no limits/);
  });
});
