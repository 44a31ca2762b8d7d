/** The file `status` through its changes: whole for every reader at any moment, and no file is made for them after the first two. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isAlive, readProcessStat } from '../../src/base/host.js';
import { until } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, parseLines, Run, TOLD } from './harness.js';
import { Held } from './hold.js';

const SIGUSR1 = 10;
const LONG_MS = 60_000;
const DEAF = 'trap "" USR1; echo ready; while :; do sleep 0.01; done';
const NO_STRACE = IS_ROOT && spawnSync('strace', ['-V']).status === 0 ? false : 'needs root and strace';

/** Which files the two are: a number may be given anew, with its time of birth it is one file's. */
function files(run: Run): string[] {
  return ['status', 'status.tmp']
    .map((name) => statSync(join(run.dir, name), { bigint: true }))
    .map(({ ino, birthtimeNs }) => `${String(ino)} of ${String(birthtimeNs)}`);
}

/** The text of `status`, which is whole: as its first and its last line have it, and with no other after it. */
function wholeText(text: string): string {
  assert.match(text, /^holdfast_status=1\n([a-z_0-9]+=.*\n)+$/);
  const keys = text.split('\n').map((line) => line.slice(0, line.indexOf('=')));
  assert.equal(new Set(keys).size, keys.length);
  return text;
}

function status(run: Run): string {
  return wholeText(readFileSync(join(run.dir, 'status'), 'utf8'));
}

async function assertLeavesNone(run: Run): Promise<void> {
  const { executor } = run;
  await run.stop(0, 0);
  await run.exit();
  await until('the executor is gone', () => !isAlive(executor));
  assert.deepEqual(readdirSync(run.dir).sort(), ['exit', 'lock', 'spec', 'status']);
}

describe('the status file', () => {
  it('is one of two that take turns from before GO on', async () => {
    await using run = new Run({ sh: DEAF });
    using held = new Held(run);
    await held.ready();
    const [first, second] = files(run);
    await held.go();
    assert.deepEqual(await held.report, { status: TOLD.ok, stderr: '' });
    assert.equal(parseLines(status(run))['state'], 'running');
    // Two changes: `starting`, `running`.
    assert.deepEqual(files(run), [first, second]);
    await run.logged('ready');
    await run.stop(SIGUSR1, LONG_MS);
    assert.equal(parseLines(status(run))['state'], 'stopping');
    assert.deepEqual(files(run), [second, first]);
    await assertLeavesNone(run);
  });

  it('is the text of its time for who has it open, however often it changes meanwhile', async () => {
    await using run = await new Run({ sh: DEAF }).started();
    await run.logged('ready');
    const was = status(run);
    const fd = openSync(join(run.dir, 'status'), 'r');
    try {
      for (let n = 0; n < 3; n++) {
        await run.stop(SIGUSR1, LONG_MS);
        assert.equal(parseLines(status(run))['state'], 'stopping');
      }
      const buffer = Buffer.alloc(4096);
      assert.equal(buffer.toString('utf8', 0, readSync(fd, buffer, 0, buffer.length, 0)), was);
    } finally {
      closeSync(fd);
    }
    await assertLeavesNone(run);
  });

  it(
    'holds up nobody who opens it, also when its executor is stopped right after a change',
    { skip: NO_STRACE },
    async () => {
      await using run = await new Run({ sh: DEAF }).started();
      await run.logged('ready');
      const { pid } = run.executor;
      const inject = 'inject=renameat2:signal=SIGSTOP:when=1';
      const trace = spawn('strace', ['-qq', '-e', 'trace=renameat2', '-e', inject, '-p', String(pid)], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let said = '';
      trace.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
      try {
        await until('it is watched', () =>
          /^TracerPid:\t[1-9]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')),
        );
        const asked = run.stop(SIGUSR1, LONG_MS);
        await until('it stops', () => said.includes('stopped by SIGSTOP'), { lastSeen: () => said });
        trace.kill('SIGTERM');
        await once(trace, 'close');
        await until('it is stopped', () => readProcessStat(pid)?.state === 'T');
        // Where somebody would have to wait for it, this is refused (EWOULDBLOCK).
        const fd = openSync(join(run.dir, 'status'), constants.O_RDONLY | constants.O_NONBLOCK);
        closeSync(fd);
        assert.equal(parseLines(status(run))['state'], 'stopping');
        process.kill(pid, 'SIGCONT');
        await asked;
      } finally {
        trace.kill('SIGKILL');
        process.kill(pid, 'SIGCONT');
      }
      await assertLeavesNone(run);
    },
  );

  const leftovers: readonly (readonly [string, (path: string, elsewhere: string) => void])[] = [
    ['nothing', () => undefined],
    [
      'half a text',
      (path) => {
        writeFileSync(path, 'holdfast_status=1\nrun_');
      },
    ],
    [
      'far more than a text',
      (path) => {
        writeFileSync(path, 'x'.repeat(100_000));
      },
    ],
    [
      'a link to elsewhere',
      (path, elsewhere) => {
        symlinkSync(elsewhere, path);
      },
    ],
  ];
  for (const [name, leave] of leftovers) {
    it(`is whole whatever its executor has left beside it: ${name}`, async () => {
      await using run = await new Run({ sh: DEAF }).started();
      await run.logged('ready');
      await run.killExecutor();
      const elsewhere = join(run.root, 'elsewhere');
      writeFileSync(elsewhere, 'precious');
      rmSync(join(run.dir, 'status.tmp'), { force: true });
      leave(join(run.dir, 'status.tmp'), elsewhere);
      assert.equal((await run.adopt()).status, TOLD.ok);
      assert.equal(parseLines(status(run))['adopted'], '1');
      await run.stop(SIGUSR1, LONG_MS);
      assert.equal(parseLines(status(run))['state'], 'stopping');
      assert.equal(readFileSync(elsewhere, 'utf8'), 'precious');
      await assertLeavesNone(run);
    });
  }

  for (const [what, call, about] of [
    ['swap files', 'renameat2', ''],
    ['lease files', 'fcntl', 'status.tmp'],
  ] as const) {
    it(`is replaced where the file system cannot ${what}`, { skip: NO_STRACE }, async () => {
      await using run = new Run({ sh: DEAF });
      const trace = join(run.root, 'trace');
      const prefix = [
        '-D',
        '-f',
        '-qq',
        '-o',
        trace,
        '-e',
        `inject=${call}:error=EINVAL`,
        '-P',
        join(run.dir, about),
      ];
      spawnSync('strace', [...prefix, EXECUTOR, 'run', run.dir], { stdio: 'ignore', timeout: 20_000 });
      assert.ok(readFileSync(trace, 'utf8').includes('INJECTED'));
      assert.equal(parseLines(status(run))['state'], 'running');
      await run.logged('ready');
      await run.stop(SIGUSR1, LONG_MS);
      assert.equal(parseLines(status(run))['state'], 'stopping');
      await assertLeavesNone(run);
    });
  }
});
