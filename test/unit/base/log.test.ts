/** The agent's log. */
import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLogger } from '../../../src/base/log.js';

test('a change of the level holds for the logger and for children made before', () => {
  const dir = mkdtempSync(join(tmpdir(), 'hf-log-'));
  const fd = openSync(join(dir, 'log'), 'w');
  try {
    const logger = createLogger('warn', fd);
    const child = logger.child({ alloc_id: 'a1' }).child({ task: 't' });
    child.info({}, 'not yet');
    logger.setLevel('debug');
    child.debug({ n: 1 }, 'now');
    logger.setLevel('error');
    child.warn({}, 'no more');
    logger.error({}, 'always');
    const lines = readFileSync(join(dir, 'log'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => {
        const said = JSON.parse(line) as Record<string, unknown>;
        return Object.fromEntries(Object.entries(said).filter(([key]) => key !== 'time'));
      });
    assert.deepEqual(lines, [
      { level: 'debug', alloc_id: 'a1', task: 't', n: 1, msg: 'now' },
      { level: 'error', msg: 'always' },
    ]);
  } finally {
    closeSync(fd);
    rmSync(dir, { recursive: true });
  }
});
