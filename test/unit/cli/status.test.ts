/** The sheet of `status` for what deployments, rescheduling, launches, checks and hooks bring: each line, and its place. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { msToNs, msToRfc3339, type CheckView, type Deployment } from '../../../src/api/wire.js';
import { renderHost } from '../../../src/cli/render/host.js';
import { renderStatus, type StatusData } from '../../../src/cli/render/status.js';
import {
  alloc,
  exited,
  failedRow,
  job,
  look,
  MINUTE,
  node,
  NOW_MS,
  row,
  runningRow,
  SECOND,
  taskState,
} from './samples.js';

function sheet(own: Partial<StatusData>, width = 100): string[] {
  return renderStatus({ target: 'orders', job: job(), rows: [], events: [], logs: [], ...own }, look(width));
}

function deployment(own: Partial<Deployment> = {}): Deployment {
  return {
    ID: 'b4237d85-0000-4000-8000-000000000000',
    Namespace: 'default',
    JobID: 'orders',
    JobVersion: 7,
    JobCreateIndex: 1,
    IsMultiregion: false,
    TaskGroups: {
      api: {
        AutoRevert: true,
        AutoPromote: false,
        ProgressDeadline: 0,
        RequireProgressBy: msToRfc3339(NOW_MS),
        Promoted: false,
        PlacedCanaries: null,
        DesiredCanaries: 0,
        DesiredTotal: 3,
        PlacedAllocs: 2,
        HealthyAllocs: 1,
        UnhealthyAllocs: 0,
      },
    },
    Status: 'running',
    StatusDescription: 'Deployment is running',
    CreateIndex: 1,
    ModifyIndex: 1,
    CreateTime: 0,
    ModifyTime: 0,
    ...own,
  };
}

describe('status of a deployment', () => {
  it('says how far it is', () => {
    const lines = sheet({ rows: [runningRow()], deployments: [deployment()] });
    assert.equal(lines[2], '  Deploy   b4237d85 of version 7: running, api 1 of 3 healthy');
  });

  it('a failed one says why, and still does when what it undid is on its way back', () => {
    const description = 'Failed due to unhealthy allocations - rolling back to job version 6';
    const failed = deployment({ Status: 'failed', StatusDescription: description });
    const alone = sheet({ rows: [runningRow()], deployments: [failed] });
    assert.deepEqual(alone.slice(2, 4), [
      '  Deploy   b4237d85 of version 7: failed, api 1 of 3 healthy',
      `           ${description}`,
    ]);
    const back = deployment({ ID: 'a0957c49', JobVersion: 8 });
    const both = sheet({ rows: [runningRow()], deployments: [back, failed] });
    assert.deepEqual(both.slice(2, 5), [
      '  Deploy   a0957c49 of version 8: running, api 1 of 3 healthy',
      '  before   b4237d85 of version 7: failed, api 1 of 3 healthy',
      `           ${description}`,
    ]);
  });

  it('one that failed before a good one is the past', () => {
    const good = deployment({ Status: 'successful' });
    const old = [good, deployment({ Status: 'successful' }), deployment({ Status: 'failed' })];
    assert.doesNotMatch(sheet({ rows: [runningRow()], deployments: old }).join('\n'), /failed/);
  });
});

describe('status of an alloc', () => {
  it('says whether it is healthy, and why not', () => {
    const health = {
      Healthy: false,
      Timestamp: '',
      Canary: false as const,
      ModifyIndex: 1,
      Holdfast: { Detail: 'task server was not running for 10s' },
    };
    const rows = [{ ...runningRow(), alloc: alloc('7a1c9d2e', { DeploymentStatus: health }) }];
    assert.match(
      sheet({ rows }, 120).join('\n'),
      /running, unhealthy: task server was not running for 10s, created/,
    );
  });

  it('says when another takes the place of a failed one, or why none does', () => {
    const failed = failedRow();
    const at = (Holdfast: (typeof failed.alloc)['Holdfast']): string =>
      sheet({ rows: [{ ...failed, alloc: { ...failed.alloc, Holdfast } }] }).join('\n');
    const soon = { RescheduleAt: msToRfc3339(NOW_MS + 30 * SECOND), RescheduleStopped: '' };
    assert.match(at(soon), /\n {11}a new alloc takes its place in 30s\n/);
    const never = { RescheduleAt: null, RescheduleStopped: 'rescheduling is off (attempts = 0)' };
    assert.match(at(never), /\n {11}no new alloc takes its place: rescheduling is off \(attempts = 0\)\n/);
  });

  it('says where its ports are', () => {
    const Ports = [
      { Label: 'http', Value: 23011, To: 0 as const, HostIP: '127.0.0.1' },
      { Label: 'admin', Value: 9090, To: 0 as const, HostIP: '127.0.0.1' },
    ];
    const AllocatedResources = { Tasks: {}, Shared: { DiskMB: 0, Networks: [], Ports } };
    const details = { [runningRow().alloc.ID]: { TaskStates: {}, AllocatedResources } };
    const lines = sheet({ rows: [runningRow()], details });
    assert.match(
      lines.find((line) => line.includes('http')) ?? '',
      /^ {4}ports {2}http=127.0.0.1:23011, admin=127.0.0.1:9090$/,
    );
    assert.ok(sheet({ rows: [runningRow()], details }, 40).includes('    admin=127.0.0.1:9090'));
    const none = { ...AllocatedResources, Shared: { DiskMB: 0, Networks: [], Ports: [] } };
    const bare = sheet({
      rows: [runningRow()],
      details: { [runningRow().alloc.ID]: { TaskStates: {}, AllocatedResources: none } },
    });
    assert.doesNotMatch(bare.join('\n'), /ports/);
  });

  it('lists its checks, the output of one that fails with it', () => {
    const check = (Check: string, Status: string, Output: string): CheckView =>
      ({ Check, Output, Holdfast: { Status } }) as unknown as CheckView;
    const one = runningRow();
    const checks = {
      [one.alloc.ID]: [check('alive', 'success', 'ok'), check('http', 'failure', 'connect\nrefused')],
    };
    const lines = sheet({ rows: [one], checks });
    const from = lines.findIndex((line) => line.startsWith('  Checks'));
    assert.deepEqual(lines.slice(from, from + 2), [
      '  Checks   7a1c9d2e  alive  passing',
      '           7a1c9d2e  http  failing: connect refused',
    ]);
  });
});

describe('status of a task', () => {
  it('that waits says for what, in the verdict as well', () => {
    const state = taskState('waiting', {}, { PhaseDetail: 'artifact https://example.com/x: retry in 4s' });
    const lines = sheet({ rows: [row({ alloc: alloc('7a1c9d2e'), state })] });
    assert.match(lines[0] ?? '', /^● orders {2}\S+ {2}1 task/);
    assert.match(lines.join('\n'), /artifact https:\/\/example\.com\/x: retry in 4s/);
  });

  it('that cannot be killed says so', () => {
    const detail = '1 process outlives SIGKILL (pid 4711, state D)';
    const state = taskState('stopping', {}, { PhaseDetail: detail, Pid: 4711, LastExit: exited(0) });
    assert.match(sheet({ rows: [row({ alloc: alloc('7a1c9d2e'), state })] }).join('\n'), /outlives SIGKILL/);
  });
});

describe('status of a job that launches others', () => {
  const cron = { Enabled: true, Spec: '* * * * *' } as never;

  it('says when the next is due, and how the last ones went', () => {
    const next = msToRfc3339(NOW_MS + MINUTE);
    const periodic = job({ Type: 'batch', Periodic: cron, Holdfast: { NextLaunch: next } });
    const launches = [
      { id: 'orders/periodic-1', submittedAtMs: NOW_MS - 2 * MINUTE, rows: [failedRow()] },
      { id: 'orders/periodic-2', submittedAtMs: NOW_MS - MINUTE, rows: [] },
    ];
    assert.deepEqual(sheet({ job: periodic, launches }), [
      '● orders  waits for the clock  no allocs',
      '  Job      batch, version 7, running, submitted 2h ago, next launch 14:01:12',
      '  Launched orders/periodic-1  failed, 2m ago',
      '           orders/periodic-2  no allocs, 1m ago',
    ]);
  });

  it('stands in the list of the host with what it waits for', () => {
    const own = { Type: 'batch', Stop: false, Status: 'running', SubmitTime: msToNs(NOW_MS - MINUTE) };
    const jobs = [
      { ...own, ID: 'report', Periodic: true },
      { ...own, ID: 'convert', ParameterizedJob: true },
      { ...own, ID: 'old', Stop: true, Periodic: true },
    ];
    const text = renderHost({ node: node([]), jobs, rows: [] }, look(100)).join('\n');
    assert.match(text, /report +batch +waits for the clock +-/);
    assert.match(text, /convert +batch +waits for dispatch +-/);
    assert.match(text, /old +batch +stopped/);
  });
});
