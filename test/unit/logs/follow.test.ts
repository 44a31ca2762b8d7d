import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import { systemClock, type Clock, type Timer } from '../../../src/base/clock.js';
import type { LogOrigin } from '../../../src/logs/files.js';
import { CHUNK_BYTES, readLog, type LogChunk, type ReadLogOptions } from '../../../src/logs/follow.js';

const DEADLINE_MS = 20_000;
const FROM_START: LogOrigin = { kind: 'start', offsetBytes: 0 };

let logDir: string;
beforeEach(() => {
  logDir = mkdtempSync(join(tmpdir(), 'holdfast-logs-'));
});
afterEach(() => {
  rmSync(logDir, { recursive: true, force: true });
  assert.deepEqual(heldDescriptors(), [], 'the reader must leave no descriptor open');
});

/** Open descriptors of this process that lead into the log directory. */
function heldDescriptors(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(logDir) ? [target] : [];
    } catch {
      return [];
    }
  });
}

function put(number: number, text: string): void {
  appendFileSync(join(logDir, `web.stdout.${number}`), text);
}

function read(options: Partial<ReadLogOptions> = {}): AsyncGenerator<LogChunk, void, void> {
  const source = { logDir, task: 'web', stream: 'stdout' as const };
  return readLog(source, { from: FROM_START, follow: false, clock: systemClock, ...options });
}

async function readAll(options: Partial<ReadLogOptions> = {}): Promise<string> {
  let text = '';
  for await (const chunk of read(options)) text += chunk.data.toString();
  return text;
}

/** The next chunk of a reader that must have one soon. */
async function nextChunk(reader: AsyncGenerator<LogChunk, void, void>): Promise<LogChunk> {
  const { value, done } = await reader.next();
  assert.ok(done !== true, 'the reader ended');
  return value;
}

/** The real clock, which tells when a reader begins to wait, and can be made to leave its polls out. */
class WaitingClock implements Clock {
  readonly #options: { readonly polls: boolean };
  #waits = 0;
  #onWait: () => void = () => undefined;

  constructor(options: { readonly polls: boolean }) {
    this.#options = options;
  }
  wallMs = (): number => systemClock.wallMs();
  monoMs = (): number => systemClock.monoMs();
  roll = (): number => systemClock.roll();
  setTimer(delayMs: number, fire: () => void): Timer {
    // Shorter timers only gather what comes at once.
    const isPoll = delayMs >= 100;
    if (isPoll) {
      this.#waits += 1;
      this.#onWait();
    }
    return systemClock.setTimer(isPoll && !this.#options.polls ? 3_600_000 : delayMs, fire);
  }
  /** Resolves once the reader has begun to wait for the `count`th time. */
  async untilWaiting(count: number): Promise<void> {
    while (this.#waits < count) {
      await new Promise<void>((resolve) => {
        this.#onWait = resolve;
      });
    }
  }
}

describe('reading a log without following', () => {
  it('joins the files, and says where each piece comes from', async () => {
    put(9, 'nine\n');
    put(10, 'ten\n');
    put(11, '');
    const chunks = [];
    for await (const chunk of read({ from: { kind: 'start', offsetBytes: 2 } })) chunks.push(chunk);
    assert.deepEqual(
      chunks.map(({ file, offset, data }) => [file, offset, data.toString()]),
      [
        ['web.stdout.9', 2, 'ne\n'],
        ['web.stdout.10', 0, 'ten\n'],
      ],
    );
  });

  it('begins at the last lines, also when they lie in several files and blocks', async () => {
    const long = 'x'.repeat(CHUNK_BYTES + 10);
    put(0, 'one\ntwo\n');
    put(1, `${long}\n`);
    put(2, 'four\nfive');
    assert.equal(await readAll({ from: { kind: 'lines', count: 1 } }), 'five');
    assert.equal(await readAll({ from: { kind: 'lines', count: 2 } }), 'four\nfive');
    assert.equal(await readAll({ from: { kind: 'lines', count: 3 } }), `${long}\nfour\nfive`);
    assert.equal(await readAll({ from: { kind: 'lines', count: 4 } }), `two\n${long}\nfour\nfive`);
    assert.equal(await readAll({ from: { kind: 'lines', count: 99 } }), `one\ntwo\n${long}\nfour\nfive`);
    assert.equal(await readAll({ from: { kind: 'lines', count: 0 } }), '');
    assert.equal(await readAll({ from: { kind: 'end', offsetBytes: 6 } }), '\nfive'.padStart(6, 'r'));
  });

  it('begins at the first file written to since a time', async () => {
    put(0, 'old\n');
    put(1, 'new\n');
    utimesSync(join(logDir, 'web.stdout.0'), 1000, 1000);
    assert.equal(await readAll({ from: { kind: 'since', atMs: 2_000_000 } }), 'new\n');
  });

  it('goes on at a place that was reached before, or behind it when the file is gone', async () => {
    put(1, 'one\n');
    put(2, 'two\n');
    const at = (fileNumber: number, offsetBytes: number): LogOrigin => ({
      kind: 'position',
      at: { fileNumber, offsetBytes },
    });
    assert.equal(await readAll({ from: at(1, 2) }), 'e\ntwo\n');
    assert.equal(await readAll({ from: at(0, 99) }), 'one\ntwo\n');
    assert.equal(await readAll({ from: at(2, 4) }), '');
    const reader = read({ from: at(0, 99) });
    assert.equal((await nextChunk(reader)).filesLost, 1);
    await reader.return();
  });

  it('ends at the end as it was, although the writer goes on', async () => {
    put(0, 'before\n');
    const reader = read();
    const first = await nextChunk(reader);
    put(0, 'after\n');
    put(1, 'after\n');
    assert.equal(first.data.toString(), 'before\n');
    assert.deepEqual(await reader.next(), { value: undefined, done: true });
  });

  it('gives nothing for a task without output, and not_found without a directory', async () => {
    assert.equal(await readAll(), '');
    rmSync(logDir, { recursive: true });
    await assert.rejects(readAll(), (error) => error instanceof AgentError && error.code === 'not_found');
  });
});

describe('a log directory that a task has tampered with', () => {
  it('gives no file but regular ones of its own', async () => {
    const outside = `${logDir}-outside`;
    writeFileSync(outside, 'secret\n');
    try {
      symlinkSync(outside, join(logDir, 'web.stdout.0'));
      put(1, 'mine\n');
      execFileSync('mkfifo', [join(logDir, 'web.stdout.2')]);
      mkdirSync(join(logDir, 'web.stdout.3'));
      assert.equal(await readAll(), 'mine\n');
    } finally {
      rmSync(outside);
    }
  });

  it('is not followed when it is a symlink, and is kept when it is swapped for one', async () => {
    const elsewhere = `${logDir}-elsewhere`;
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, 'web.stdout.1'), 'secret\n');
    const moved = `${logDir}-moved`;
    try {
      put(0, 'a'.repeat(CHUNK_BYTES));
      put(0, 'end\n');
      const reader = read();
      await nextChunk(reader);
      renameSync(logDir, moved);
      symlinkSync(elsewhere, logDir);
      assert.equal((await nextChunk(reader)).data.toString(), 'end\n');
      assert.deepEqual(await reader.next(), { value: undefined, done: true });
      await assert.rejects(readAll(), (error) => error instanceof AgentError && error.code === 'not_found');
    } finally {
      rmSync(elsewhere, { recursive: true });
      rmSync(moved, { recursive: true, force: true });
    }
  });
});

describe('following a log', () => {
  for (const how of ['a watch', 'a look from time to time'] as const) {
    it(`gives what is appended, told by ${how}`, { timeout: DEADLINE_MS }, async () => {
      const abort = new AbortController();
      const clock = new WaitingClock({ polls: how !== 'a watch' });
      const reader = read({
        follow: true,
        signal: abort.signal,
        clock,
        ...(how === 'a watch' ? {} : { watch: () => undefined }),
      });
      // No file is there yet: the first one is awaited like any other.
      const first = nextChunk(reader);
      await clock.untilWaiting(1);
      put(0, 'one\n');
      assert.equal((await first).data.toString(), 'one\n');
      const second = nextChunk(reader);
      await clock.untilWaiting(2);
      put(0, 'two\n');
      assert.equal((await second).data.toString(), 'two\n');
      put(1, 'three\n');
      const third = await nextChunk(reader);
      assert.deepEqual([third.file, third.offset, third.filesLost], ['web.stdout.1', 0, 0]);
      const last = reader.next();
      abort.abort();
      assert.deepEqual(await last, { value: undefined, done: true });
    });
  }

  it('reads to the end and stops once the task is over', { timeout: DEADLINE_MS }, async () => {
    put(0, 'one\n');
    const complete = new AbortController();
    const reader = read({ follow: true, complete: complete.signal });
    await nextChunk(reader);
    const rest = readRest(reader);
    put(0, 'two\n');
    put(1, 'three\n');
    complete.abort();
    assert.equal(await rest, 'two\nthree\n');
  });

  it('ends when the directory is removed', { timeout: DEADLINE_MS }, async () => {
    put(0, 'one\n');
    const reader = read({ follow: true });
    await nextChunk(reader);
    const end = reader.next();
    rmSync(logDir, { recursive: true });
    assert.deepEqual(await end, { value: undefined, done: true });
  });

  it('still reads files that were removed after it saw them', { timeout: DEADLINE_MS }, async () => {
    put(0, 'a'.repeat(CHUNK_BYTES));
    put(0, 'b\n');
    put(1, 'c\n');
    const complete = new AbortController();
    const reader = read({ follow: true, complete: complete.signal });
    await nextChunk(reader);
    rmSync(join(logDir, 'web.stdout.0'));
    rmSync(join(logDir, 'web.stdout.1'));
    put(2, 'd\n');
    complete.abort();
    assert.equal(await readRest(reader), 'b\nc\nd\n');
  });

  it('says how many files were removed before it could see them', { timeout: DEADLINE_MS }, async () => {
    put(0, 'a\n');
    const complete = new AbortController();
    const reader = read({ follow: true, complete: complete.signal, watch: () => undefined });
    await nextChunk(reader);
    put(3, 'd\n');
    complete.abort();
    const chunk = await nextChunk(reader);
    assert.deepEqual([chunk.file, chunk.filesLost], ['web.stdout.3', 2]);
    await reader.return();
  });

  it('begins anew in a file that was emptied', { timeout: DEADLINE_MS }, async () => {
    put(0, 'a long line\n');
    const reader = read({ follow: true });
    await nextChunk(reader);
    const next = nextChunk(reader);
    truncateSync(join(logDir, 'web.stdout.0'), 0);
    put(0, 'new\n');
    const chunk = await next;
    assert.deepEqual([chunk.offset, chunk.data.toString()], [0, 'new\n']);
    await reader.return();
  });

  it(
    'misses and repeats no line of a writer that rotates and removes',
    { timeout: DEADLINE_MS },
    async () => {
      const total = 30_000;
      const maxBytes = 8 * 1024;
      // Two complete files are about 1300 lines: the writer removes what the reader has just read, or still reads.
      const child = fork(
        new URL('./rotating-writer.js', import.meta.url),
        [logDir, String(total), String(maxBytes), '3', '1200'],
        { execArgv: [] },
      );
      const closed = once(child, 'close');
      await once(child, 'message');
      const complete = new AbortController();
      child.once('disconnect', () => {
        complete.abort();
      });
      let expected = 0;
      let pending = '';
      let files = 0;
      let previous: LogChunk | undefined;
      for await (const chunk of read({ follow: true, complete: complete.signal })) {
        assert.equal(chunk.filesLost, 0);
        if (previous?.file === chunk.file) assert.equal(chunk.offset, previous.offset + previous.data.length);
        else files += 1;
        previous = chunk;
        const lines = (pending + chunk.data.toString()).split('\n');
        pending = lines.pop() ?? '';
        for (const line of lines) {
          assert.equal(line, `line ${expected}`);
          expected += 1;
        }
        // It may be gone by the time that it is told.
        if (child.connected) child.send(expected, () => undefined);
      }
      assert.equal(expected, total);
      assert.ok(files > 30, `only ${files} files were seen`);
      assert.ok(readdirSync(logDir).length <= 3);
      await closed;
    },
  );
});

async function readRest(reader: AsyncGenerator<LogChunk, void, void>): Promise<string> {
  let text = '';
  for await (const chunk of reader) text += chunk.data.toString();
  return text;
}
