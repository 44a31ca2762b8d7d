/** How task states become the status of their alloc. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TaskRecord } from '../../../src/state/store.js';
import { allDead, isTerminal, reduceClientStatus } from '../../../src/allocrunner/client-status.js';
import { taskRecord } from '../../helpers/records.js';

const dead = taskRecord({ state: 'dead' });
const failed = taskRecord({ state: 'dead', failed: true });
const running = taskRecord({ state: 'running' });
const pending = taskRecord({ state: 'pending' });

const TABLE: readonly (readonly [string, readonly TaskRecord[], string])[] = [
  ['a failed task wins while siblings still run', [running, failed, pending], 'failed'],
  ['failed does not count before the task is dead', [{ ...running, failed: true }, dead], 'running'],
  ['any that runs', [pending, running, dead], 'running'],
  ['any that is to start', [dead, pending], 'pending'],
  ['all dead', [dead, dead], 'complete'],
];

describe('client status', () => {
  for (const [name, tasks, status] of TABLE) {
    it(`${name}: ${status}`, () => {
      assert.equal(reduceClientStatus(tasks).status, status);
      assert.equal(reduceClientStatus(tasks.toReversed()).status, status);
    });
  }

  it('is over when all are dead', () => {
    assert.equal(allDead([dead, failed]), true);
    assert.equal(allDead([dead, running]), false);
    for (const status of ['complete', 'failed', 'lost'] as const) assert.ok(isTerminal(status));
    for (const status of ['pending', 'running', 'unknown'] as const) assert.ok(!isTerminal(status));
  });
});
