/** What an executor costs while its task only runs. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { IS_ROOT, Run } from './harness.js';

const OBSERVED_MS = 2000;
const MAX_DESCRIPTORS = 20;
const MAX_PRIVATE_KIB = 256;
const MAX_HOLDER_KIB = 64;

function number(text: string, key: string): number {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(text)?.[1]);
}

describe('an idle executor', () => {
  it('never wakes up', async () => {
    await using run = await new Run({ sh: 'sleep 1000' }).started();
    const switches = (): number => {
      const text = readFileSync(`/proc/${run.executor.pid}/status`, 'utf8');
      return number(text, 'voluntary_ctxt_switches') + number(text, 'nonvoluntary_ctxt_switches');
    };
    const client = await run.client();
    await client.statusText();
    await pause(100); // It is on its way back to sleep after that answer.
    const before = switches();
    await pause(OBSERVED_MS); // The window of observation itself, not a wait for something.
    assert.equal(switches(), before);
  });

  const skip = IS_ROOT ? false : 'only root may look into it';
  it('holds few descriptors and little memory of its own', { skip }, async () => {
    await using run = await new Run({ sh: 'seq 1 100000; sleep 1000' }).started();
    await run.logged('100000\n');
    assert.ok(readdirSync(`/proc/${run.executor.pid}/fd`).length <= MAX_DESCRIPTORS);
    const memory = readFileSync(`/proc/${run.executor.pid}/smaps_rollup`, 'utf8');
    const isSanitized = readFileSync(`/proc/${run.executor.pid}/maps`, 'utf8').includes('libasan');
    const privateKib = number(memory, 'Private_Dirty') + number(memory, 'Private_Clean');
    if (!isSanitized) assert.ok(privateKib <= MAX_PRIVATE_KIB, `${privateKib} KiB`);
  });

  it('has a holder of a terminal beside it that holds even less', { skip }, async () => {
    const terminal = { columns: 80, rows: 24 };
    await using run = await new Run({ sh: 'seq 1 100000; sleep 1000', terminal }).started();
    await run.logged('100000\n');
    const { tty_pid } = run.status();
    assert.ok(readdirSync(`/proc/${tty_pid}/fd`).length <= MAX_DESCRIPTORS);
    const memory = readFileSync(`/proc/${tty_pid}/smaps_rollup`, 'utf8');
    const isSanitized = readFileSync(`/proc/${tty_pid}/maps`, 'utf8').includes('libasan');
    const privateKib = number(memory, 'Private_Dirty') + number(memory, 'Private_Clean');
    if (!isSanitized) assert.ok(privateKib <= MAX_HOLDER_KIB, `${privateKib} KiB`);
  });
});
