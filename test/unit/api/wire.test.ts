import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { reduceJobStatus } from '../../../src/api/job-to-wire.js';
import { eventToWire, exitToWire, runToWire, taskStateToWire } from '../../../src/api/task-to-wire.js';
import {
  httpStatusOf,
  jobSpecToWire,
  msToNs,
  msToRfc3339,
  nsToMs,
  rfc3339ToMs,
} from '../../../src/api/wire.js';
import { ERROR_CODES } from '../../../src/base/errors.js';
import type { ExitResult } from '../../../src/events/exit-result.js';
import { parseJobFile, parseJobJson } from '../../../src/jobspec/parse.js';
import type { AllocRecord } from '../../../src/state/store.js';
import { allocRecord, jobRecord, runRecord, stamped, taskRecord } from '../../helpers/records.js';

const WALL_MS = fc.integer({ min: 0, max: 4_102_444_800_000 });

describe('numbers on the wire', () => {
  it('are exact although nanoseconds exceed 2^53', () => {
    fc.assert(
      fc.property(WALL_MS, (ms) => {
        const text = JSON.stringify(msToNs(ms));
        assert.equal(BigInt(text), BigInt(ms) * 1_000_000n);
        assert.equal(nsToMs(Number(text)), ms);
        assert.equal(rfc3339ToMs(msToRfc3339(ms)), ms);
      }),
    );
    assert.equal(msToRfc3339(undefined), '0001-01-01T00:00:00Z');
    assert.equal(rfc3339ToMs('0001-01-01T00:00:00Z'), undefined);
    assert.equal(rfc3339ToMs('soon'), undefined);
  });

  it('give every error code a status of an error', () => {
    for (const code of ERROR_CODES) {
      assert.ok(httpStatusOf(code) >= 400 && httpStatusOf(code) < 600, code);
    }
  });
});

describe('jobSpecToWire', () => {
  it('is read back to the same job', () => {
    const file = `
      job "web" {
        type = "batch"
        meta { a = "b" }
        group "front" {
          count = 3
          restart {
            attempts = 4
            interval = "1h"
            delay = "2s"
            mode = "delay"
            factor = 1.5
            max_delay = "1m"
            reset_after = "10m"
          }
          task "server" {
            driver = "raw_exec"
            user = "nobody"
            config { command = "/bin/true" }
            env { X = "1" }
            kill_signal = "SIGTERM"
            kill_timeout = "7s"
            shutdown_delay = "100ms"
            leftovers = "keep"
            resources {
              cpu = 200
              memory = 64
              memory_max = 128
              cpu_percent = 150
              pids = 20
            }
            logs { max_files = 3 }
          }
          task "plain" {
            driver = "mock_driver"
            config { run_for = "1s" }
          }
        }
      }`;
    const read = parseJobFile(file, 'web.hcl');
    assert.ok(read.ok, JSON.stringify(read));
    const body: unknown = JSON.parse(JSON.stringify(jobSpecToWire(read.job)));
    const again = parseJobJson(body);
    assert.ok(again.ok, JSON.stringify(again));
    assert.deepEqual(again.job, read.job);
  });
});

describe('ends on the wire', () => {
  const ENDS: readonly (readonly [ExitResult, object, { ExitCode: number; Signal: number }])[] = [
    [
      { kind: 'exited', code: 3, oomKilled: false },
      { Kind: 'exited', Code: 3, Signal: null, SignalName: '', OOMKilled: false, Reason: '' },
      { ExitCode: 3, Signal: 0 },
    ],
    [
      { kind: 'signaled', signal: 11, coreDumped: true, oomKilled: false },
      { Kind: 'signaled', Code: null, Signal: 11, SignalName: 'SIGSEGV', CoreDumped: true, Reason: '' },
      { ExitCode: 139, Signal: 11 },
    ],
    [
      { kind: 'unknown', reason: 'executor_lost', detail: 'nobody was there' },
      { Kind: 'unknown', Code: null, Signal: null, OOMKilled: false, Reason: 'executor_lost' },
      { ExitCode: -1, Signal: 0 },
    ],
  ];

  it('are the truth, with Nomad’s view beside it', () => {
    for (const [result, truth, view] of ENDS) {
      const exit = exitToWire(result);
      assert.deepEqual({ ...exit, ...truth }, exit);
      const event = eventToWire(stamped(7, { type: 'Terminated', result }));
      assert.deepEqual({ ExitCode: event.ExitCode, Signal: event.Signal }, view);
      assert.deepEqual(event.Holdfast, { Seq: 7, Exit: exit });
    }
  });

  it('never give a number to a run that did not end so', () => {
    const open = runToWire(runRecord());
    assert.deepEqual([open.Outcome, open.Exit, open.EndedAt, open.LogComplete], ['open', null, null, null]);
    const failed = runToWire(
      runRecord({ outcome: { kind: 'start_failed', error: 'no such file', atMs: 5 } }),
    );
    assert.deepEqual([failed.Outcome, failed.Exit, failed.Error], ['start_failed', null, 'no such file']);
  });
});

describe('taskStateToWire', () => {
  it('names a pid only while the task runs', () => {
    const context = { pidOf: (runId: string) => (runId === 'r1' ? 77 : undefined) };
    const pid = (over: Parameters<typeof taskRecord>[0]): number | null =>
      taskStateToWire(taskRecord(over), context).Holdfast.Pid;
    assert.equal(pid({ state: 'running', runId: 'r1' }), 77);
    assert.equal(pid({ state: 'pending', runId: 'r1' }), null);
    assert.equal(pid({ state: 'running', runId: 'r2' }), null);
    assert.equal(pid({ state: 'dead', runId: undefined }), null);
  });
});

describe('reduceJobStatus', () => {
  it('follows from the allocs', () => {
    const status = (stopped: boolean, ...all: AllocRecord['clientStatus'][]): string =>
      reduceJobStatus(
        jobRecord({ stopped }),
        all.map((clientStatus) => allocRecord({ clientStatus })),
      );
    assert.equal(status(false), 'pending');
    assert.equal(status(true), 'dead');
    assert.equal(status(false, 'pending'), 'running');
    assert.equal(status(true, 'running'), 'running');
    assert.equal(status(false, 'complete', 'unknown'), 'running');
    assert.equal(status(false, 'complete', 'failed', 'lost'), 'dead');
  });
});
