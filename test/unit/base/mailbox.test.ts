/** One actor's queue: in order, one at a time, nothing lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { Mailbox } from '../../../src/base/mailbox.js';

const noFault = (fault: unknown): void => {
  throw fault;
};
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('mailbox', () => {
  it('never runs the handler within post', () => {
    const seen: number[] = [];
    const box = new Mailbox<number>((message) => void seen.push(message), noFault);
    box.post(1);
    assert.deepEqual(seen, []);
    return box.idle().then(() => {
      assert.deepEqual(seen, [1]);
    });
  });

  it('takes a message posted by the handler, and one posted just as it falls idle', async () => {
    const seen: number[] = [];
    const box: Mailbox<number> = new Mailbox<number>((message) => {
      seen.push(message);
      if (message === 1) box.post(2);
    }, noFault);
    box.post(1);
    await box.idle();
    box.post(3);
    void box.idle().then(() => {
      box.post(4);
    });
    await turn();
    await box.idle();
    assert.deepEqual(seen, [1, 2, 3, 4]);
  });

  it('handles one message to its end before the next, however long each takes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ turns: fc.nat(2), pause: fc.nat(2) }), { maxLength: 20 }),
        async (messages) => {
          let busy = 0;
          const order: number[] = [];
          const box = new Mailbox<{ n: number; turns: number }>(async ({ n, turns }) => {
            busy += 1;
            assert.equal(busy, 1);
            for (let left = turns; left > 0; left--) await turn();
            order.push(n);
            busy -= 1;
          }, noFault);
          for (const [n, { turns, pause }] of messages.entries()) {
            box.post({ n, turns });
            for (let left = pause; left > 0; left--) await turn();
          }
          await box.idle();
          assert.deepEqual(
            order,
            messages.map((_, n) => n),
          );
        },
      ),
      { numRuns: 30 },
    );
  });

  it('goes on after a handler that throws, telling whoever wants to know', async () => {
    const faults: unknown[] = [];
    const seen: number[] = [];
    const box = new Mailbox<number>(
      (message) => {
        if (message === 1) throw new Error('one');
        seen.push(message);
      },
      (fault, message) => faults.push([message, (fault as Error).message]),
    );
    box.post(1);
    box.post(2);
    await box.idle();
    assert.deepEqual(faults, [[1, 'one']]);
    assert.deepEqual(seen, [2]);
  });

  it('finishes the message in hand after close and takes no other', async () => {
    const seen: string[] = [];
    const box = new Mailbox<string>(async (message) => {
      await turn();
      seen.push(message);
    }, noFault);
    box.post('in hand');
    box.post('waiting');
    await turn();
    box.close();
    box.post('late');
    await box.idle();
    await turn();
    assert.deepEqual(seen, ['in hand']);
  });
});
