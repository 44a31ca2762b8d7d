/** docs/events.md and the checker that the tests use say the same, and both know every type. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { TaskEvent } from '../../../src/events/task-event.js';
import { EVENT_ORDER, faultInHistory, type Place } from '../../helpers/event-order.js';
import { EXIT_0 } from '../../helpers/scripted-driver.js';

const PLACES: readonly Place[] = ['unborn', 'idle', 'up', 'ended', 'over'];
// dist/test/unit/taskrunner → the project
const text = readFileSync(new URL('../../../../docs/events.md', import.meta.url), 'utf8');
/** Rows of the table that begins with a header cell. */
const rowsOf = (header: string): string[][] => {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`| ${header} |`));
  const end = lines.findIndex((line, at) => at > start && !line.startsWith('|'));
  return lines.slice(start + 2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
};

describe('docs/events.md', () => {
  it('describes every type', () => {
    assert.deepEqual(
      rowsOf('type').map(([type]) => type),
      Object.keys(EVENT_ORDER),
    );
  });

  it('has the order that histories are held to', () => {
    const documented = Object.fromEntries(
      rowsOf('event').map(([type = '', ...cells]) => [
        type,
        Object.fromEntries(PLACES.flatMap((place, at) => (cells[at] ? [[place, cells[at]]] : []))),
      ]),
    );
    assert.deepEqual(documented, EVENT_ORDER);
  });
});

describe('faultInHistory', () => {
  const history = (...events: TaskEvent[]) => events.map((event, at) => ({ seq: at + 1, atMs: 0, event }));
  const started: TaskEvent = { type: 'Started', pid: 1 };
  const ended: TaskEvent = { type: 'Terminated', result: EXIT_0 };
  const restarting: TaskEvent = { type: 'Restarting', reason: '', delayMs: 0 };

  it('sees what must not be', () => {
    const received: TaskEvent = { type: 'Received' };
    assert.equal(faultInHistory(history(received, started, ended, restarting, started)), undefined);
    assert.match(faultInHistory(history(started)) ?? '', /Started while unborn/);
    assert.match(faultInHistory(history(received, started, started)) ?? '', /Started while up/);
    assert.match(faultInHistory(history(received, ended)) ?? '', /without Started/);
    assert.match(faultInHistory(history(received, restarting)) ?? '', /for no reason/);
    const gap = history(received, started).map((event) => ({ ...event, seq: event.seq * 2 - 1 }));
    assert.match(faultInHistory(gap) ?? '', /number 3/);
  });
});
