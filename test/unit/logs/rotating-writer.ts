/**
 * A program that writes numbered lines into rotated files as the executor does: a file is complete before the next
 * one is made, and the oldest are removed. Run as `rotating-writer DIR LINES MAX_BYTES MAX_FILES WINDOW`; it never
 * gets more than WINDOW lines ahead of the last line number sent to it over IPC.
 */
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const [dir = '', lines = '0', maxBytes = '0', maxFiles = '0', window = '0'] = process.argv.slice(2);
let acknowledged = 0;
let number = 0;
let fd = openSync(join(dir, 'web.stdout.0'), 'a');
let size = 0;
let next = 0;

function write(text: string): void {
  if (size + text.length > Number(maxBytes)) {
    closeSync(fd);
    number += 1;
    size = 0;
    fd = openSync(join(dir, `web.stdout.${number}`), 'a');
    rmSync(join(dir, `web.stdout.${number - Number(maxFiles)}`), { force: true });
  }
  writeSync(fd, text);
  size += text.length;
}

function advance(): void {
  const limit = Math.min(Number(lines), acknowledged + Number(window));
  for (; next < limit; next += 1) write(`line ${next}\n`);
  if (next < Number(lines)) return;
  closeSync(fd);
  process.disconnect();
}

process.on('message', (message) => {
  acknowledged = Number(message);
  advance();
});
process.send?.('ready');
advance();
