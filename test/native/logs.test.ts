/** The way of a task's output into rotated files: nothing lost, nothing split, and no disk error reaches the task. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import fc from '../helpers/properties.js';
import { until } from '../helpers/until.js';
import { EXECUTOR, IS_ROOT, Run } from './harness.js';

/** Numbered lines from 1 on, of rising length. */
const numbered = (count: number): string => `seq -f "line %.0f of the output" 1 ${count}`;

function expected(count: number): string {
  return Array.from({ length: count }, (_, i) => `line ${i + 1} of the output\n`).join('');
}

describe('log files', () => {
  it('hold both streams apart, byte for byte', async () => {
    await using run = await new Run({ sh: 'printf "a\\000b\\377\\n"; printf c >&2' }).started();
    const exit = await run.exit();
    assert.equal(run.log('stdout'), 'a\0b\xff\n');
    assert.equal(run.log('stderr'), 'c');
    assert.deepEqual([exit['stdout_bytes'], exit['stderr_bytes'], exit['log_complete']], ['5', '1', '1']);
    assert.equal(statSync(join(run.logDir, 'main.stdout.0')).mode & 0o777, 0o644);
  });

  it('G29: are cut at line ends, all bytes kept', async () => {
    const count = 60_000;
    await using run = await new Run({
      sh: numbered(count),
      log: { maxBytes: 50_000, maxFiles: 1000 },
    }).started();
    await run.exit();
    const files = run.logFiles();
    assert.equal(files.join(''), expected(count));
    assert.ok(files.length > 20);
    for (const file of files) {
      assert.ok(file.length <= 50_000);
      assert.ok(file.endsWith('\n'));
    }
    assert.deepEqual(
      run.logIndexes(),
      files.map((_, i) => i),
    );
  });

  it('are full to the last line when the task writes line by line', async () => {
    const script = 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i of the output"; done';
    await using run = await new Run({ sh: script, log: { maxBytes: 10_000, maxFiles: 1000 } }).started();
    await run.exit();
    const files = run.logFiles();
    assert.equal(files.join(''), expected(3000));
    for (const file of files.slice(0, -1)) assert.ok(file.length > 10_000 - 30, `${file.length} bytes`);
  });

  it('are bounded in number, the oldest go first', async () => {
    await using run = await new Run({
      sh: numbered(20_000),
      log: { maxBytes: 20_000, maxFiles: 3 },
    }).started();
    await run.exit();
    const files = run.logFiles();
    assert.equal(files.length, 3);
    assert.ok(expected(20_000).endsWith(files.join('')));
  });

  it('go on in the highest N, and a smaller bound removes older ones', async () => {
    await using run = new Run({ sh: 'echo more', log: { maxFiles: 2 } });
    for (const n of [3, 4, 5, 6]) writeFileSync(join(run.logDir, `main.stdout.${n}`), `old ${n}\n`);
    writeFileSync(join(run.logDir, 'main.stdout.x'), '');
    writeFileSync(join(run.logDir, 'other.stdout.9'), '');
    rmSync(join(run.logDir, 'main.stdout.x'));
    await run.started();
    await run.exit();
    assert.deepEqual(run.logIndexes(), [5, 6]);
    assert.deepEqual(run.logFiles(), ['old 5\n', 'old 6\nmore\n']);
  });

  it('go on after a compressed one, and old ones go compressed or not', async () => {
    await using run = new Run({ sh: 'echo more', log: { maxFiles: 2 } });
    for (const n of [3, 4, 5]) writeFileSync(join(run.logDir, `main.stdout.${n}.gz`), 'packed');
    writeFileSync(join(run.logDir, 'main.stdout.4'), 'both, for a moment');
    writeFileSync(join(run.logDir, 'main.stdout.7.gzip'), '');
    await run.started();
    await run.exit();
    const names = readdirSync(run.logDir).filter((name) => name.startsWith('main.stdout'));
    assert.deepEqual(names.sort(), ['main.stdout.5.gz', 'main.stdout.6', 'main.stdout.7.gzip']);
  });

  it('split a line only when it is longer than half a file', async () => {
    await using run = await new Run({
      sh: 'head -c 3500 /dev/zero | tr "\\0" x; echo; head -c 30000 /dev/zero | tr "\\0" y; echo; echo end',
      log: { maxBytes: 8000, maxFiles: 100 },
    }).started();
    await run.exit();
    assert.equal(run.log(), `${'x'.repeat(3500)}\n${'y'.repeat(30_000)}\nend\n`);
    for (const file of run.logFiles()) assert.ok(file.length <= 8000);
    assert.ok(run.logFiles()[0]?.startsWith(`${'x'.repeat(3500)}\n`));
  });

  it('keep lines whole however the task cuts its writes', async () => {
    const pieces = fc.array(fc.tuple(fc.integer({ min: 0, max: 400 }), fc.boolean()), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(pieces, async (writes) => {
        const text = writes.map(
          ([length, ends]) => 'abcdefghij'.repeat(41).slice(0, length) + (ends ? '\n' : ''),
        );
        const script = text.map((part) => `printf '%s' '${part}'`).join('\n');
        await using run = await new Run({ sh: script, log: { maxBytes: 2000, maxFiles: 1000 } }).started();
        await run.exit();
        assert.equal(run.log(), text.join(''));
        const whole = text
          .join('')
          .split('\n')
          .every((line) => line.length < 1000);
        for (const file of run.logFiles().slice(0, -1)) {
          assert.ok(file.length <= 2000);
          if (whole) assert.ok(file.endsWith('\n'), 'a line was split');
        }
      }),
      { numRuns: 15 },
    );
  });
});

describe('the tail', () => {
  it('G31: of a task that writes 1 MB and exits is complete, a hundred times', async () => {
    for (let round = 0; round < 100; round++) {
      await using run = await new Run({ sh: 'head -c 1000000 /dev/zero' }).started();
      const exit = await run.exit();
      assert.deepEqual(
        [exit['log_complete'], exit['stdout_bytes'], exit['stdout_dropped']],
        ['1', '1000000', '0'],
      );
      assert.equal(statSync(join(run.logDir, 'main.stdout.0')).size, 1_000_000);
    }
  });
});

/** Attaching takes ptrace, which some hosts allow to parents only; an executor cannot be looked into by its own user. */
const NO_STRACE =
  IS_ROOT && spawnSync('strace', ['-V']).status === 0 ? false : 'attaching strace needs root and strace';
const IS_STATIC = !readFileSync(EXECUTOR, 'latin1').includes('ld-linux');
/** `echo first; seq 1 60000`. */
const WRITTEN_BYTES =
  'first\n'.length + Array.from({ length: 60_000 }, (_, at) => `${at + 1}\n`).join('').length;

/** Lets system calls of the executor fail, or take long, while something is done. */
async function withDisk(run: Run, inject: string, work: () => Promise<void>): Promise<void> {
  const pid = run.status()['executor_pid'] ?? '';
  const strace = spawn('strace', ['-f', '-qq', '-e', `inject=${inject}`, '-p', pid], { stdio: 'ignore' });
  const left = once(strace, 'exit');
  try {
    const traced = (): boolean => /^TracerPid:\s+[1-9]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    await until('the disk is bad', traced);
    await work();
  } finally {
    strace.kill('SIGINT');
    await left;
  }
}

describe('trouble with the disk', () => {
  /** A run that writes numbered lines. */
  async function chatty(): Promise<Run> {
    const run = new Run({ sh: 'i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.002; done' });
    await run.started();
    await run.logged('line 5\n');
    return run;
  }

  /** Waits until the executor has dropped something. */
  async function dropping(run: Run): Promise<void> {
    const client = await run.client();
    await until('bytes are dropped', async () => Number((await client.statusText())['stdout_dropped']) > 0);
  }

  it('a log directory that goes and comes back is used again', async () => {
    await using run = await chatty();
    rmSync(run.logDir, { recursive: true });
    await dropping(run);
    mkdirSync(run.logDir);
    await until('the log is back', () => run.logIndexes().length > 0 && run.log().includes('line '));
    assert.match(run.log(), /^\[holdfast: \d+ bytes dropped: No such file or directory\]\nline \d+\n/);
    await run.stop(0, 0);
    const exit = await run.exit();
    assert.equal(exit['signal'], '9');
    const marker = /(\d+) bytes dropped/.exec(run.log());
    assert.equal(exit['stdout_dropped'], marker?.[1]);
  });

  it('a log directory that is replaced by a link is not followed', async () => {
    await using run = await chatty();
    const elsewhere = join(run.root, 'elsewhere');
    mkdirSync(elsewhere);
    rmSync(run.logDir, { recursive: true });
    symlinkSync(elsewhere, run.logDir);
    await dropping(run);
    await run.stop(0, 0);
    assert.ok(Number((await run.exit())['stdout_dropped']) > 0);
    assert.deepEqual(readdirSync(elsewhere), []);
  });

  it('G24: nothing is ever written elsewhere while directory and links are swapped as fast as can be', async () => {
    await using run = await chatty();
    const elsewhere = join(run.root, 'elsewhere');
    const aside = join(run.root, 'aside');
    mkdirSync(elsewhere);
    for (let round = 0; round < 300; round++) {
      renameSync(run.logDir, aside);
      symlinkSync(elsewhere, run.logDir);
      const file = join(aside, `main.stdout.${round % 3}`);
      // By a rename: between a removal and a new link the executor may make the file anew.
      symlinkSync(join(elsewhere, 'target'), join(run.root, 'planted'));
      renameSync(join(run.root, 'planted'), file);
      // The pace of the disturbance, not a wait for something.
      if (round % 10 === 0) await pause(3);
      rmSync(run.logDir);
      renameSync(aside, run.logDir);
      rmSync(join(run.logDir, `main.stdout.${round % 3}`), { force: true });
    }
    await until('the log goes on', () => run.logIndexes().length > 0 && run.log().includes('line '));
    await run.stop(0, 0);
    await run.exit();
    assert.deepEqual(readdirSync(elsewhere), []);
  });

  it('a log file that was removed is made anew', async () => {
    await using run = await chatty();
    rmSync(join(run.logDir, 'main.stdout.0'));
    await until('the log is back', () => run.logIndexes().length > 0 && run.log().includes('line '));
    await run.stop(0, 0);
    assert.equal((await run.exit())['stdout_dropped'], '0');
  });

  it('a link in the place of a log file is stepped over', async () => {
    await using run = new Run({ sh: 'echo text' });
    const target = join(run.root, 'target');
    writeFileSync(target, 'precious\n');
    symlinkSync(target, join(run.logDir, 'main.stdout.0'));
    await run.started();
    await run.exit();
    renameSync(join(run.logDir, 'main.stdout.0'), join(run.root, 'link'));
    assert.deepEqual(run.logFiles(), ['text\n']);
    assert.equal(statSync(target).size, 9);
  });

  it('what the writer notes is taken away from it: the output goes on', async () => {
    await using run = await chatty();
    const client = await run.client();
    const written = async (): Promise<number> => Number((await client.statusText())['stdout_bytes']);
    // As a disk that fails under a mapping: touching it is a SIGBUS.
    for (let round = 0; round < 20; round++) {
      truncateSync(join(run.dir, 'pumped'), 0);
      const before = await written();
      await until('the log goes on', async () => (await written()) > before);
    }
    await run.stop(0, 0);
    const exit = await run.exit();
    assert.deepEqual([exit['signal'], exit['log_complete'], exit['stdout_dropped']], ['9', '1', '0']);
    assert.ok(run.log().startsWith('line 1\nline 2\n') && run.log().length === Number(exit['stdout_bytes']));
  });

  it('G30: a limit of file size does not end the executor, nor the task', async () => {
    await using run = new Run({ sh: 'seq 1 50000; exit 8' });
    const limited = 'ulimit -f 64; exec "$0" run "$1"';
    execFileSync('/bin/sh', ['-c', limited, EXECUTOR, run.dir]);
    const exit = await run.exit();
    assert.equal(exit['code'], '8');
    assert.equal(Number(exit['stdout_bytes']) - Number(exit['stdout_dropped']), run.log().length);
    assert.ok(run.log().startsWith('1\n2\n3\n') && run.log().length < 100_000);
  });

  it(
    'G30: a full disk drops, counts and says so; the task goes on and its end is on record',
    { skip: IS_ROOT ? false : 'needs root to mount a tmpfs' },
    async () => {
      const base = new Run();
      const disk = join(base.root, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'holdfast-test', disk]);
      try {
        await using run = new Run(
          {
            sh: 'seq 1 60000; : > written; while [ ! -e go ]; do sleep 0.01; done; echo last; exit 9',
            cwd: base.root,
            log: { maxBytes: 1_000_000 },
          },
          disk,
        );
        await run.started();
        await until('the task has written all', () => existsSync(join(base.root, 'written')));
        truncateSync(join(run.logDir, 'main.stdout.0'), 1000);
        writeFileSync(join(base.root, 'go'), '');
        const exit = await run.exit();
        assert.equal(exit['code'], '9');
        assert.ok(Number(exit['stdout_dropped']) > 100_000);
        const log = run.log();
        assert.ok(log.startsWith('1\n2\n3\n'));
        assert.match(log, /\n\[holdfast: \d+ bytes dropped: No space left on device\]\n/);
        assert.ok(log.endsWith('\nlast\n'));
      } finally {
        execFileSync('umount', ['-l', disk]);
        await base[Symbol.asyncDispose]();
      }
    },
  );

  it(
    'G30: a disk that fails (EIO) drops, counts and says so; the task goes on and its end is on record',
    { skip: NO_STRACE },
    async () => {
      const waitFor = (file: string): string => `while [ ! -e ${file} ]; do sleep 0.01; done`;
      await using base = new Run();
      await using run = await new Run({
        cwd: base.root,
        sh: `echo first; ${waitFor('one')}; seq 1 60000; : > written; ${waitFor('two')}; echo last; exit 9`,
      }).started();
      await until('the first line is there', () => run.log() === 'first\n');
      await withDisk(run, 'pwrite64:error=EIO', async () => {
        const client = await run.client();
        writeFileSync(join(base.root, 'one'), '');
        await until('the task has written all', () => existsSync(join(base.root, 'written')));
        // What is still in the pipe is dropped as well before the disk gets well again.
        await until('all was taken', async () => {
          const status = await client.statusText();
          return Number(status['stdout_bytes']) === WRITTEN_BYTES;
        });
      });
      writeFileSync(join(base.root, 'two'), '');
      const exit = await run.exit();
      assert.equal(exit['code'], '9');
      assert.equal(Number(exit['stdout_dropped']), WRITTEN_BYTES - 'first\n'.length);
      assert.match(run.log(), /^first\n\[holdfast: \d+ bytes dropped: (Input\/output|I\/O) error\]\nlast\n$/);
    },
  );

  it(
    'a thread for the logs that cannot be had is asked for again, and nothing is lost',
    { skip: NO_STRACE || (!IS_STATIC && 'the threads of this libc are made as its processes are') },
    async () => {
      await using run = new Run({ sh: 'seq 1 60000; echo end' });
      const trace = join(run.root, 'trace');
      const inject = ['-e', 'trace=clone', '-e', 'inject=clone:error=EAGAIN:when=1'];
      spawnSync('strace', ['-D', '-f', '-qq', '-o', trace, ...inject, EXECUTOR, 'run', run.dir]);
      await run.logged('end\n');
      assert.equal((await run.exit())['stdout_dropped'], '0');
      assert.equal(run.log().length, WRITTEN_BYTES - 'first\n'.length + 'end\n'.length);
      assert.match(readFileSync(trace, 'utf8'), /CLONE_THREAD.* EAGAIN .*INJECTED/);
    },
  );

  it(
    'G30: a slow disk slows down what the task writes, and neither a stop nor the record of its end',
    { skip: NO_STRACE },
    async () => {
      // No faster than that: what rotates away before the disk is slow could not be counted.
      await using run = await new Run({ sh: 'echo first; while :; do echo line; done' }).started();
      await until('the first line is there', () => run.log().startsWith('first\n'));
      await withDisk(run, 'pwrite64:delay_enter=100000', async () => {
        const client = await run.client();
        assert.equal((await client.statusText())['state'], 'running');
        await run.stop(0, 0);
        const exit = await run.exit();
        assert.deepEqual([exit['signal'], exit['log_complete'], exit['stdout_dropped']], ['9', '1', '0']);
        assert.equal(String(run.log().length), exit['stdout_bytes']);
      });
    },
  );

  it(
    'G30: a disk that is slow to make files is no disk that does not answer',
    { skip: NO_STRACE },
    async () => {
      await using base = new Run();
      await using run = await new Run({
        cwd: base.root,
        sh: 'echo first; until [ -e one ]; do sleep 0.01; done; seq 1 20000; echo end',
        log: { maxBytes: 1000, maxFiles: 1000 },
      }).started();
      await until('the first line is there', () => run.log() === 'first\n');
      // One chunk goes into more than thirty.
      await withDisk(run, 'openat:delay_enter=60000', async () => {
        writeFileSync(join(base.root, 'one'), '');
        const exit = await run.exit();
        assert.deepEqual([exit['stdout_dropped'], exit['log_complete']], ['0', '1']);
      });
      assert.ok(run.log().endsWith('\nend\n'));
    },
  );
});
