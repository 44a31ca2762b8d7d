/** The ring of recent events: the documented cases, and the rule. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { appendBounded, RECENT_EVENTS } from '../../../src/events/ring.js';
import type { StampedTaskEvent } from '../../../src/events/task-event.js';

const stamped = (seq: number): StampedTaskEvent => ({ seq, atMs: 1000 + seq, event: { type: 'Received' } });
const seqs = (events: readonly StampedTaskEvent[]): number[] => events.map(({ seq }) => seq);

describe('appendBounded', () => {
  const cases = [
    { name: 'the first event', before: 0, capacity: 3, after: [1], dropped: 0 },
    { name: 'the one that fills the ring', before: 2, capacity: 3, after: [1, 2, 3], dropped: 0 },
    { name: 'one more drops the oldest', before: 3, capacity: 3, after: [2, 3, 4], dropped: 1 },
    { name: 'a ring that has shrunk drops all it must', before: 5, capacity: 2, after: [5, 6], dropped: 4 },
    { name: 'no room at all', before: 0, capacity: 0, after: [], dropped: 1 },
  ];
  for (const { name, before, capacity, after, dropped } of cases) {
    it(name, () => {
      const recent = Array.from({ length: before }, (_, n) => stamped(n + 1));
      const result = appendBounded(recent, stamped(before + 1), capacity);
      assert.deepEqual(seqs(result.recent), after);
      assert.equal(result.dropped, dropped);
      assert.equal(recent.length, before, 'the given list is left alone');
    });
  }

  it('holds ten, as Nomad shows them', () => {
    assert.equal(RECENT_EVENTS, 10);
  });

  it('holds the newest events and counts every one that it does not hold', () => {
    fc.assert(
      fc.property(fc.nat(40), fc.integer({ min: 1, max: 12 }), (events, capacity) => {
        let recent: readonly StampedTaskEvent[] = [];
        let dropped = 0;
        for (let seq = 1; seq <= events; seq++) {
          const next = appendBounded(recent, stamped(seq), capacity);
          recent = next.recent;
          dropped += next.dropped;
        }
        assert.equal(recent.length + dropped, events);
        assert.equal(recent.length, Math.min(events, capacity));
        assert.deepEqual(
          seqs(recent),
          Array.from(recent, (_, n) => dropped + n + 1),
        );
      }),
    );
  });
});
