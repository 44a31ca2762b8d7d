/** The bench runs and measures; what it measures is never asserted. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const hasSupervisord = spawnSync('supervisord', ['--version']).status === 0;
const BENCH = fileURLToPath(new URL('../../bench/main.js', import.meta.url));

test('G35: npm run bench -- --quick prints a ratio for every measure', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [BENCH, '--quick']);
  const lines = stdout.trimEnd().split('\n');
  assert.match(lines[0] ?? '', /holdfast +floor +ratio/);
  const measured = lines.slice(1).map((line) => {
    const ratio = /^(.+?) {2,}[\d.]+ \S+ +[\d.]+ \S+ +([\d.]+) {2}\S/.exec(line);
    assert.ok(Number(ratio?.[2]) > 0, line);
    return ratio?.[1];
  });
  assert.deepEqual(measured, [
    // Each against a bare fork and exec, and against a shim a task.
    ...['start, p50', 'start, p99', 'start, p50', 'start, p99'],
    'killed → running, p50',
    ...(process.getuid?.() === 0 ? ['start of exec, p50'] : []),
    ...['5 tasks at once', '5 tasks at once'],
    'stop asked → gone, p50',
    'exit → on record, p50',
    'exit → on record, p99',
    'executor, text + data',
    ...(process.getuid?.() === 0 ? ['executor memory'] : []),
    ...['re-attach 3 tasks', '… and the API tells so'],
    ...['2 MB of log lines', '2 MB of log lines', ...(hasSupervisord ? ['2 MB of log lines'] : [])],
    'feed, 50 readers',
  ]);
});
