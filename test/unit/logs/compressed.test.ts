/** Compressed log files: readers do not notice, and a kill at any step neither loses a line nor doubles one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';

import fc from '../../helpers/properties.js';
import { systemClock } from '../../../src/base/clock.js';
import { compressRotated } from '../../../src/logs/compress-rotated.js';
import { compressFile, type CompressStep } from '../../../src/logs/compressed.js';
import type { LogOrigin } from '../../../src/logs/files.js';
import { readLog } from '../../../src/logs/follow.js';

const NEVER = new AbortController().signal;
const START: LogOrigin = { kind: 'start', offsetBytes: 0 };
const STEPS: readonly CompressStep[] = ['written', 'renamed', 'removed'];

let logDir: string;
beforeEach(() => {
  logDir = mkdtempSync(join(tmpdir(), 'holdfast-gz-'));
});
afterEach(() => {
  rmSync(logDir, { recursive: true, force: true });
});

const fileName = (number: number): string => `web.stdout.${number}`;
const put = (number: number, text: string): void => {
  appendFileSync(join(logDir, fileName(number)), text);
};
const names = (): string[] => readdirSync(logDir).sort();
const compressAll = (): Promise<number> => compressRotated({ logDir, root: logDir, task: 'web' }, NEVER);

async function readAll(from: LogOrigin = START): Promise<string> {
  const text: Buffer[] = [];
  const source = { logDir, task: 'web', stream: 'stdout' as const };
  for await (const { data } of readLog(source, { from, follow: false, clock: systemClock })) text.push(data);
  return Buffer.concat(text).toString();
}

describe('compressRotated', () => {
  it('takes all but the newest, and keeps times and modes', async () => {
    for (const n of [0, 1, 2]) put(n, `text ${n}\n`);
    utimesSync(join(logDir, fileName(0)), 1000, 1000);
    writeFileSync(join(logDir, 'web.stderr.0'), 'alone');
    writeFileSync(join(logDir, 'other.stdout.0'), 'not ours');
    assert.equal(await compressAll(), 2);
    assert.deepEqual(names(), [
      'other.stdout.0',
      'web.stderr.0',
      'web.stdout.0.gz',
      'web.stdout.1.gz',
      'web.stdout.2',
    ]);
    assert.equal(gunzipSync(readFileSync(join(logDir, 'web.stdout.0.gz'))).toString(), 'text 0\n');
    assert.equal(await compressAll(), 0);
    assert.equal(await readAll(), 'text 0\ntext 1\ntext 2\n');
    assert.equal(await readAll({ kind: 'since', atMs: 2_000_000 }), 'text 1\ntext 2\n');
  });

  it('never follows a link, and leaves what is no file', async () => {
    const outside = join(logDir, 'outside');
    writeFileSync(outside, 'secret');
    symlinkSync(outside, join(logDir, fileName(0)));
    symlinkSync(outside, join(logDir, `${fileName(1)}.gz.tmp`));
    put(1, 'one\n');
    put(2, 'two\n');
    assert.equal(await compressAll(), 1);
    assert.equal(readFileSync(outside, 'utf8'), 'secret');
    assert.deepEqual(names(), ['outside', 'web.stdout.0', 'web.stdout.1.gz', 'web.stdout.2']);
  });

  it('leaves nothing of a file that was removed meanwhile because it is old', async () => {
    put(0, 'old\n');
    put(1, 'new\n');
    const onStep = (step: CompressStep): void => {
      if (step === 'renamed') rmSync(join(logDir, fileName(0)));
    };
    await compressFile(logDir, fileName(0), { signal: NEVER, onStep });
    assert.deepEqual(names(), ['web.stdout.1']);
  });

  it('gives up when it is told to, and leaves the file', async () => {
    put(0, 'x'.repeat(5_000_000));
    const stop = new AbortController();
    stop.abort();
    await assert.rejects(compressFile(logDir, fileName(0), { signal: stop.signal }));
    assert.deepEqual(names(), ['web.stdout.0']);
  });
});

describe('a reader of compressed files', () => {
  it('gets what was written, whatever was rotated, compressed or removed', async () => {
    const act = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({
          kind: fc.constant('write' as const),
          lines: fc.integer({ min: 0, max: 3000 }),
        }),
      },
      { weight: 3, arbitrary: fc.constant({ kind: 'rotate' as const }) },
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant('compress' as const), which: fc.nat({ max: 20 }) }),
      },
      { weight: 1, arbitrary: fc.constant({ kind: 'remove' as const }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(act, { maxLength: 25 }),
        fc.nat(500),
        fc.nat(20_000),
        async (acts, count, offsetBytes) => {
          for (const name of names()) rmSync(join(logDir, name));
          const texts = [''];
          let oldest = 0;
          let line = 0;
          put(0, '');
          for (const did of acts) {
            const newest = texts.length - 1;
            if (did.kind === 'write') {
              const text = Array.from({ length: did.lines }, () => `line ${(line += 1)}\n`).join('');
              texts[newest] = (texts[newest] ?? '') + text;
              put(newest, text);
            } else if (did.kind === 'rotate') {
              texts.push('');
              put(newest + 1, '');
            } else if (did.kind === 'compress') {
              const which = oldest + (did.which % texts.length);
              if (which < newest) await compressFile(logDir, fileName(which), { signal: NEVER });
            } else if (oldest < newest) {
              rmSync(join(logDir, fileName(oldest)), { force: true });
              rmSync(join(logDir, `${fileName(oldest)}.gz`), { force: true });
              oldest += 1;
            }
          }
          const expected = texts.slice(oldest).join('');
          assert.equal(await readAll(), expected);
          assert.equal(await readAll({ kind: 'start', offsetBytes }), expected.slice(offsetBytes));
          assert.equal(
            await readAll({ kind: 'end', offsetBytes }),
            expected.slice(-offsetBytes || expected.length),
          );
          const lines = expected.split('\n').slice(0, -1);
          const tail = count === 0 ? [] : lines.slice(-count);
          assert.equal(await readAll({ kind: 'lines', count }), tail.map((text) => `${text}\n`).join(''));
          const at = { fileNumber: oldest, offsetBytes: Math.min(offsetBytes, texts[oldest]?.length ?? 0) };
          assert.equal(await readAll({ kind: 'position', at }), expected.slice(at.offsetBytes));
        },
      ),
      { numRuns: 40 },
    );
  });

  it('that follows misses nothing when files are compressed behind and before it', async () => {
    const stop = new AbortController();
    const source = { logDir, task: 'web', stream: 'stdout' as const };
    put(0, 'file 0\n');
    let text = '';
    const reading = (async () => {
      const options = { from: START, follow: true, clock: systemClock, complete: stop.signal };
      for await (const { data } of readLog(source, options)) text += data.toString();
    })();
    let expected = 'file 0\n';
    for (let n = 1; n < 60; n++) {
      const more = `file ${n}\n`.repeat(2000);
      put(n, more);
      expected += more;
      await compressAll();
    }
    stop.abort();
    await reading;
    assert.equal(text, expected);
  });

  it('gets what can be read of a damaged one, and goes on', async () => {
    writeFileSync(join(logDir, `${fileName(0)}.gz`), gzipSync('x'.repeat(1000)).subarray(0, 20));
    writeFileSync(join(logDir, `${fileName(1)}.gz`), 'no gzip at all');
    put(2, 'end\n');
    assert.match(await readAll(), /^x*end\n$/);
  });
});

describe('a kill during a compression', () => {
  for (const step of STEPS) {
    it(`after it was ${step} loses and doubles nothing, and the next one finishes it`, async () => {
      const text = Array.from({ length: 5000 }, (_, i) => `line ${i}\n`).join('');
      put(0, text);
      put(1, 'end\n');
      const module = new URL('../../../src/logs/compressed.js', import.meta.url).href;
      const script = `import { compressFile } from ${JSON.stringify(module)};
        const onStep = (step) => { if (step === ${JSON.stringify(step)}) process.kill(process.pid, 'SIGKILL'); };
        await compressFile(${JSON.stringify(logDir)}, 'web.stdout.0', { signal: new AbortController().signal, onStep });`;
      const { signal } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
        timeout: 20_000,
      });
      assert.equal(signal, 'SIGKILL');
      assert.equal(existsSync(join(logDir, 'web.stdout.0')), step !== 'removed');
      assert.equal(await readAll(), `${text}end\n`);
      await compressAll();
      assert.deepEqual(names(), ['web.stdout.0.gz', 'web.stdout.1']);
      assert.equal(await readAll(), `${text}end\n`);
    });
  }
});
