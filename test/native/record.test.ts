/** The record of an end on a disk that fails when it is to be made durable. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FRAME, REPLY_BIT } from '../../src/executor/protocol.js';
import { canHaveHangingDisk, HangingDisk } from '../helpers/hanging-disk.js';
import { until } from '../helpers/until.js';
import { Run } from './harness.js';

describe('the record of an end', { timeout: 120_000 }, () => {
  const skip =
    (!canHaveHangingDisk() || spawnSync('strace', ['-V']).status !== 0) &&
    'a full disk that fails needs root, loop devices, mkfs.ext4 and strace';

  for (const [when, name] of [
    [1, 'file'],
    [2, 'directory'],
  ] as const) {
    it(
      `G1: is written again where it lies when the ${name} of it cannot be synced, also on a full disk`,
      { skip },
      async () => {
        await using base = new Run();
        await using disk = new HangingDisk(join(base.root, 'image'), join(base.root, 'disk'));
        await using run = await new Run({ sh: 'exec sleep 1000' }, disk.dir).started();
        const tmp = join(run.dir, 'exit.tmp');
        await until('room for the record is reserved', () => existsSync(tmp), { everyMs: 2 });
        const client = await run.client();
        const wait = client.send(FRAME.wait);
        // What is only promised to a file is given to it by `sync`, and may be less.
        const fill = 'for i in 1 2 3 4; do cat /dev/zero; sync -f "$0"; done >"$0/full" 2>&1';
        spawnSync('/bin/sh', ['-c', fill, disk.dir]);
        const seen = join(base.root, 'trace');
        const inject = ['-e', 'trace=fsync', '-e', `inject=fsync:error=EIO:when=${when}`];
        const strace = spawn('strace', ['-qq', '-o', seen, ...inject, '-p', String(run.executor.pid)], {
          stdio: 'ignore',
        });
        const left = once(strace, 'exit');
        const traced = (): boolean =>
          /^TracerPid:\s+[1-9]/m.test(readFileSync(`/proc/${run.executor.pid}/status`, 'utf8'));
        await until('the disk is bad', traced);
        execFileSync('kill', ['-9', String(run.workload.pid)]);
        assert.equal((await client.reply(wait))?.type, FRAME.wait | REPLY_BIT);
        await left;
        assert.equal((await run.exit())['signal'], '9');
        assert.ok(!readdirSync(run.dir).includes('exit.tmp'));
        const syncs = readFileSync(seen, 'utf8')
          .trim()
          .split('\n')
          .filter((line) => line.startsWith('fsync'));
        assert.deepEqual(
          syncs.map((line) => line.includes('INJECTED')),
          Array.from({ length: when + 2 }, (_, at) => at + 1 === when),
        );
      },
    );
  }
});
