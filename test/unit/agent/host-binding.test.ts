/** A data directory stays with its host. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bindToHost, readMachineMark } from '../../../src/agent/host-binding.js';
import { AgentError } from '../../../src/base/errors.js';
import { silentLogger } from '../../../src/base/log.js';
import { openMemoryStore } from '../../../src/state/memory-store.js';
import { FakeClock } from '../../helpers/fake-clock.js';

const isWrongHost = (error: unknown): boolean =>
  error instanceof AgentError && error.code === 'wrong_host' && error.message.includes('--accept-host');

test('a fresh store is tied to its host, another host is refused until it is told to take over', async () => {
  const store = openMemoryStore({ clock: new FakeClock() });
  const bind = (mark: string | undefined, accept = false): Promise<void> =>
    bindToHost(store, silentLogger, { mark, accept, dataDir: '/data' });
  await bind('a');
  await bind('a');
  await assert.rejects(bind('b'), isWrongHost);
  await assert.rejects(bind('b'), isWrongHost, 'a refusal changes nothing');
  // Without a machine id nothing can be told.
  await bind(undefined);
  await bind('b', true);
  await bind('b');
  await assert.rejects(bind('a'), isWrongHost);
  await store.close();
});

test('the mark comes from a well-formed machine id only, and does not show it', () => {
  const dir = mkdtempSync(join(tmpdir(), 'hf-mark-'));
  const path = join(dir, 'machine-id');
  const markOf = (text: string): string | undefined => {
    writeFileSync(path, text);
    return readMachineMark(path);
  };
  try {
    assert.equal(readMachineMark(path), undefined);
    const id = '0123456789abcdef0123456789abcdef';
    const mark = markOf(`${id}\n`);
    assert.match(mark ?? '', /^[0-9a-f]{64}$/);
    assert.ok(!(mark ?? '').includes(id));
    assert.equal(markOf(id), mark);
    assert.notEqual(markOf(id.replace('0', '1')), mark);
    for (const none of ['', 'uninitialized\n', `${id}ff`, id.toUpperCase()])
      assert.equal(markOf(none), undefined, none);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
