/**
 * A process of its own that opens a store and does what it is told, a JSON line each: `node store-child.js <state.db>`.
 * It answers each line with one. It ends when its input does.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { AgentError } from '../../src/base/errors.js';
import { systemClock } from '../../src/base/clock.js';
import { silentLogger } from '../../src/base/log.js';
import { openSqliteStore } from '../../src/state/sqlite-store.js';
import type { StateStore, WhenRefused } from '../../src/state/store.js';
import { addEvent, BOOT, putAlloc, putJob, putTask } from './records.js';

/** What the child may be asked. */
export type Ask =
  | { readonly ask: 'open' }
  | { readonly ask: 'close' }
  /** Stores what events need. */
  | { readonly ask: 'ground' }
  | {
      readonly ask: 'commit';
      readonly seq: number;
      readonly bytes: number;
      readonly whenRefused: WhenRefused;
    }
  | { readonly ask: 'look' }
  /** Commits events one after the other for ever, and answers with each one's number once it is stored. */
  | { readonly ask: 'write_for_ever' };

export type Answer =
  | { readonly did: 'opened' | 'closed' | 'stored' | 'kept'; readonly seq?: number }
  | { readonly did: 'failed'; readonly code: string; readonly message: string; readonly recoverable: boolean }
  | {
      readonly did: 'looked';
      readonly seqs: readonly number[];
      readonly kept: number;
      readonly trouble: string;
    };

let store: StateStore | undefined;

function opened(): StateStore {
  if (store === undefined) throw new AgentError('store_unavailable', 'not open');
  return store;
}

function answer(what: Answer): void {
  writeSync(1, `${JSON.stringify(what)}\n`);
}

async function act(ask: Ask): Promise<void> {
  switch (ask.ask) {
    case 'open': {
      const path = process.argv[2] ?? '';
      store = openSqliteStore({ path, clock: systemClock, logger: silentLogger, bootId: BOOT });
      answer({ did: 'opened' });
      return;
    }
    case 'close':
      await opened().close();
      answer({ did: 'closed' });
      return;
    case 'ground':
      answer({ did: await opened().commit([putJob(), putAlloc(), putTask()]) });
      return;
    case 'commit': {
      const event = addEvent(ask.seq, { type: 'Driver', message: 'm'.repeat(ask.bytes) });
      answer({ did: await opened().commit([event], { whenRefused: ask.whenRefused }), seq: ask.seq });
      return;
    }
    case 'look':
      answer({
        did: 'looked',
        seqs: opened()
          .listTaskEvents({})
          .map(({ seq }) => seq),
        kept: opened().keptChanges(),
        trouble: opened().trouble()?.error ?? '',
      });
      return;
    case 'write_for_ever':
      for (let seq = 1; ; seq++) {
        answer({ did: await opened().commit([addEvent(seq), putTask({ lastEventSeq: seq })]), seq });
      }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    await act(JSON.parse(line) as Ask);
  } catch (error) {
    const known = error instanceof AgentError;
    answer({
      did: 'failed',
      code: known ? error.code : 'unknown',
      message: String(error),
      recoverable: known && error.recoverable,
    });
  }
}
