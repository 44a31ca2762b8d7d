import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { isWeightHeeded } from '../../../src/executor/leaf-io.js';

const dir = mkdtempSync(join(tmpdir(), 'holdfast-disks-'));

/** Disks by name, with what their `scheduler` says. */
function disks(schedulers: Readonly<Record<string, string>>): string {
  const at = mkdtempSync(join(dir, 'block-'));
  for (const [name, text] of Object.entries(schedulers)) {
    mkdirSync(join(at, name, 'queue'), { recursive: true });
    writeFileSync(join(at, name, 'size'), '2048\n');
    writeFileSync(join(at, name, 'dev'), '254:0\n');
    writeFileSync(join(at, name, 'queue', 'scheduler'), `${text}\n`);
  }
  return at;
}

/** Weights of a group two levels below the top. @param qos what the top says of iocost; undefined = not to be seen */
function weights(file: string, qos?: string): string {
  const top = mkdtempSync(join(dir, 'cgroup-'));
  const group = join(top, 'holdfast.slice', 'one');
  mkdirSync(group, { recursive: true });
  if (qos !== undefined) writeFileSync(join(top, 'io.cost.qos'), qos);
  return join(group, file);
}

describe('weights of disks', () => {
  after(() => {
    rmSync(dir, { recursive: true });
  });
  const none = disks({ sda: 'none [mq-deadline] kyber bfq', vda: '[none] mq-deadline kyber bfq' });

  it('are heeded by a disk with the scheduler bfq, under either version', () => {
    const bfq = disks({ sda: '[none] mq-deadline bfq', sdb: 'none mq-deadline [bfq]' });
    for (const file of ['blkio.bfq.weight', 'blkio.weight', 'io.bfq.weight', 'io.weight']) {
      assert.ok(isWeightHeeded(weights(file, ''), bfq), file);
      assert.ok(!isWeightHeeded(weights(file, ''), none), file);
    }
    // Nobody's disk.
    assert.ok(!isWeightHeeded(weights('io.bfq.weight'), disks({ loop0: 'none [bfq]' })));
  });

  it('are heeded where iocost is on, which only v2 has; what cannot be seen of it is taken to be so', () => {
    const on = '8:0 enable=0 ctrl=auto\n254:0 enable=1 ctrl=user rpct=95.00\n';
    assert.ok(isWeightHeeded(weights('io.weight', on), none));
    assert.ok(!isWeightHeeded(weights('io.weight', '254:0 enable=0 ctrl=auto\n'), none));
    assert.ok(!isWeightHeeded(weights('blkio.bfq.weight', on), none));
    assert.ok(isWeightHeeded(weights('io.weight'), none));
  });
});
