import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { Cores, formatCores, parseCores, readOwnCores } from '../../../src/executor/cores.js';

const made: string[] = [];

/** Directories that stand for groups: of v2, of four cores, with two leaves. The kernel would refuse what is wrong. */
function tree(version: 1 | 2): { readonly root: string; readonly read: (path: string) => string } {
  const root = mkdtempSync(join(tmpdir(), 'holdfast-cores-'));
  made.push(root);
  writeFileSync(join(root, version === 1 ? 'cpuset.cpus' : 'cpuset.cpus.effective'), '0-3\n');
  writeFileSync(join(root, version === 1 ? 'cpuset.mems' : 'cpuset.mems.effective'), '0\n');
  for (const name of ['executors', 'a', 'b']) {
    mkdirSync(join(root, name));
    for (const file of ['cpuset.cpus', 'cpuset.mems']) writeFileSync(join(root, name, file), '\n');
    writeFileSync(join(root, name, 'cgroup.max.depth'), 'max\n');
  }
  return { root, read: (path) => readFileSync(join(root, path), 'utf8').trim() };
}

describe('cores of a task', () => {
  after(() => {
    for (const dir of made) rmSync(dir, { recursive: true });
  });

  it('are read and written as the kernel does', () => {
    assert.deepEqual(parseCores('0-2,5\n'), [0, 1, 2, 5]);
    assert.deepEqual(parseCores(''), []);
    assert.equal(formatCores([5, 0, 10]), '0,5,10');
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat({ max: 500 })), (cores) => {
        assert.deepEqual(
          parseCores(formatCores(cores)),
          [...cores].sort((a, b) => a - b),
        );
      }),
    );
  });

  it('v2: are its own, what has none is kept off, and gets them back', () => {
    const { root, read } = tree(2);
    const cores = new Cores(root, 2, 'executors');
    assert.equal(cores.othersTasks, undefined);
    assert.equal(cores.reserve('a', 2), undefined);
    assert.deepEqual([read('a/cpuset.cpus'), read('a/cpuset.mems')], ['2,3', '0']);
    assert.deepEqual([read('b/cpuset.cpus'), read('b/cpuset.mems')], ['0,1', '']);
    assert.equal(read('executors/cpuset.cpus'), '');
    // Another agent, or the same one after its death, sees it.
    const later = new Cores(root, 2, 'executors');
    assert.equal(later.reserve('b', 1), undefined);
    assert.equal(read('b/cpuset.cpus'), '1');
    assert.deepEqual(later.reserve('a', 3), {
      why: '3 cores are asked for, and 2 are free: tasks have the others for themselves',
      isPassing: true,
    });
    assert.equal(read('a/cpuset.cpus'), '2,3');
    assert.equal(later.reserve('a', 1), undefined);
    assert.equal(read('a/cpuset.cpus'), '2');
    // What gives its own back is as wide as all others, and may have some again.
    assert.equal(later.reserve('a', 0), undefined);
    assert.deepEqual([read('a/cpuset.cpus'), read('b/cpuset.cpus')], ['0,2,3', '1']);
    assert.equal(readOwnCores(join(root, 'a'), 2), undefined);
    assert.equal(new Cores(root, 2, 'executors').reserve('a', 0), undefined);
    assert.equal(later.reserve('a', 1), undefined);
    assert.deepEqual([read('a/cpuset.cpus'), readOwnCores(join(root, 'a'), 2)], ['3', '3']);
    mkdirSync(join(root, 'c'));
    for (const file of ['cpuset.cpus', 'cpuset.mems']) writeFileSync(join(root, 'c', file), '\n');
    later.keepOff('c');
    assert.equal(read('c/cpuset.cpus'), '0,2');
    for (const name of ['a', 'b']) rmSync(join(root, name), { recursive: true });
    later.settleAfterEnd();
    // The kernel refuses to take a set from who has one.
    assert.equal(read('c/cpuset.cpus'), '0,1,2,3');
  });

  it('v1: are those of a leaf of its own; the executors, and all others with them, have the rest', () => {
    const { root, read } = tree(1);
    rmSync(join(root, 'a'), { recursive: true });
    rmSync(join(root, 'b'), { recursive: true });
    const cores = new Cores(root, 1, 'executors');
    assert.equal(cores.othersTasks, join(root, 'executors/tasks'));
    assert.deepEqual([read('executors/cpuset.cpus'), read('executors/cpuset.mems')], ['0-3', '0']);
    mkdirSync(join(root, 'a'));
    for (const file of ['cpuset.cpus', 'cpuset.mems']) writeFileSync(join(root, 'a', file), '\n');
    assert.equal(cores.reserve('a', 3), undefined);
    assert.deepEqual([read('a/cpuset.cpus'), read('a/cpuset.mems')], ['1,2,3', '0']);
    assert.equal(read('executors/cpuset.cpus'), '0');
    rmSync(join(root, 'a'), { recursive: true });
    cores.settleAfterEnd();
    assert.equal(read('executors/cpuset.cpus'), '0,1,2,3');
  });

  it('are never all there are', () => {
    const { root, read } = tree(2);
    const cores = new Cores(root, 2, 'executors');
    assert.deepEqual(cores.reserve('a', 4), {
      why: '4 cores are asked for, and of the 4 of this host 3 can be had: one stays for all others',
      isPassing: false,
    });
    assert.deepEqual([read('a/cpuset.cpus'), read('b/cpuset.cpus')], ['', '']);
    assert.equal(cores.reserve('a', 3), undefined);
    assert.equal(cores.reserve('b', 1)?.isPassing, true);
  });
});
