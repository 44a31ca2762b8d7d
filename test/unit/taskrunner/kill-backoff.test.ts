/** How a failed kill is repeated. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { KILL_ATTEMPTS, nextKillRetry } from '../../../src/taskrunner/kill-backoff.js';

it('waits 5, 20, 80 and 120 s between five tries, then goes on as a reaper every 120 s', () => {
  assert.equal(KILL_ATTEMPTS, 5);
  assert.deepEqual([1, 2, 3, 4, 5, 6, 1_000].map(nextKillRetry), [
    { kind: 'retry', afterMs: 5_000 },
    { kind: 'retry', afterMs: 20_000 },
    { kind: 'retry', afterMs: 80_000 },
    { kind: 'retry', afterMs: 120_000 },
    { kind: 'unkillable', reapEveryMs: 120_000 },
    { kind: 'unkillable', reapEveryMs: 120_000 },
    { kind: 'unkillable', reapEveryMs: 120_000 },
  ]);
});
