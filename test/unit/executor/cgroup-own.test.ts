import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { findSubtree, parseOwnGroups, type OwnGroups } from '../../../src/executor/cgroup-own.js';
import { Cgroups } from '../../../src/executor/cgroups.js';

const mountLine = (type: string, root: string, at: string, options: string): string =>
  `32 31 0:29 ${root} ${at} rw,relatime shared:9 - ${type} cgroup ${options}`;

describe('where an agent is', () => {
  it('is read for each hierarchy that is mounted and shows it', () => {
    const groups = [
      '9:name=systemd:/user.slice',
      '4:cpu,cpuacct:/a/b',
      '3:memory:/other',
      '0::/u/x.service',
      '',
    ];
    const mounts = [
      mountLine('cgroup', '/', '/c/cpu,cpuacct', 'rw,cpu,cpuacct'),
      mountLine('cgroup', '/', '/c/systemd', 'rw,xattr,name=systemd'),
      mountLine('cgroup', '/not-ours', '/c/memory', 'rw,memory'),
      mountLine('cgroup', '/', '/c/pids', 'rw,pids'),
      mountLine('cgroup2', '/u', '/c/unified', 'rw,nsdelegate'),
    ];
    const found = parseOwnGroups(groups.join('\n'), mounts.join('\n'));
    assert.deepEqual(
      [...found],
      [
        ['/c/cpu,cpuacct', { version: 1, dir: '/c/cpu,cpuacct/a/b' }],
        ['/c/systemd', { version: 1, dir: '/c/systemd/user.slice' }],
        ['/c/unified', { version: 2, dir: '/c/unified/x.service' }],
      ],
    );
  });

  it('is the top of its namespace, and nowhere when the paths lead out of its namespace, or the texts are garbage', () => {
    const top = { version: 2, dir: '/c' } as const;
    assert.deepEqual(parseOwnGroups('0::/', mountLine('cgroup2', '/', '/c', 'rw')).get('/c'), top);
    assert.deepEqual(parseOwnGroups('0::/x', mountLine('cgroup2', '/x', '/c', 'rw')).get('/c'), top);
    assert.equal(parseOwnGroups('0::/../x', mountLine('cgroup2', '/', '/c', 'rw')).size, 0);
    assert.equal(parseOwnGroups('0::/x', mountLine('cgroup2', '/..', '/c', 'rw')).size, 0);
    assert.equal(parseOwnGroups('0:\n\ngarbage', '1 2 3\n - cgroup2').size, 0);
  });
});

describe('a subtree that was handed over', () => {
  let mount = '';
  beforeEach(() => (mount = mkdtempSync(join(tmpdir(), 'holdfast-cgroup-'))));
  afterEach(() => {
    rmSync(mount, { recursive: true });
  });

  /** Makes a group as it looks to one who may write to it. */
  function group(path: string, files: Readonly<Record<string, string>> = {}): string {
    const dir = join(mount, path);
    mkdirSync(dir, { recursive: true });
    for (const [file, text] of Object.entries({ 'cgroup.procs': '', 'cgroup.subtree_control': '', ...files }))
      writeFileSync(join(dir, file), text);
    return dir;
  }
  const subtree = (dir: string): string | undefined => findSubtree(mount, dir, 2);

  it('is the unit, in whichever child of it the agent is started', () => {
    group('system.slice');
    const unit = group('system.slice/x.service');
    assert.equal(subtree(unit), unit);
    for (const child of ['holdfast-agent', 'another', 'another/deeper'])
      assert.equal(subtree(group(`system.slice/x.service/${child}`)), unit);
    // One whose manager runs as the same user: that is not ours.
    for (const path of ['user@1.service', 'user@1.service/app.slice']) group(path);
    const scope = group('user@1.service/app.slice/run-1.scope');
    assert.equal(subtree(scope), scope);
  });

  it('is the highest group that may be written to, where systemd has no hand in it', () => {
    mkdirSync(join(mount, 'box'));
    const top = group('box/mine');
    assert.equal(subtree(group('box/mine/agent')), top);
    group('');
    group('box');
    assert.equal(subtree(group('box/mine/agent')), mount);
  });

  it('is not left out of the leaf of a task, by an agent that is a task itself', () => {
    group('x.service');
    for (const root of ['holdfast.slice', 'named']) {
      group(`x.service/${root}`);
      group(`x.service/${root}/executors`);
      const leaf = group(`x.service/${root}/12345678.task.abcdef01`);
      assert.equal(subtree(leaf), leaf);
    }
  });

  it('is none where one of its files may not be written', () => {
    assert.equal(subtree(join(mount, 'nowhere')), undefined);
    const dir = join(mount, 'x.service');
    mkdirSync(dir);
    writeFileSync(join(dir, 'cgroup.procs'), '');
    assert.equal(subtree(dir), undefined);
    assert.equal(findSubtree(mount, dir, 1), dir);
  });

  /** Cgroups of an agent that is in `dir`, of which `top` is its own, where nothing can be made at the top. */
  function open(top: string, dir: string): Cgroups {
    writeFileSync(join(mount, 'holdfast.slice'), 'in the way');
    writeFileSync(join(mount, 'cgroup.procs'), '');
    const own: OwnGroups = new Map([[mount, { version: 2, dir, subtree: top }]]);
    return Cgroups.open({ root: undefined, mounts: { unified: mount, v1: new Map() }, own });
  }

  it('G27: holds our root, and the agent goes out of the way of controllers', () => {
    const pid = String(process.pid);
    const top = group('x.scope', {
      'cgroup.controllers': 'cpu memory hugetlb',
      'cgroup.procs': `${pid}\n`,
    });
    const cgroups = open(top, top);
    assert.equal(cgroups.mode, 'v2');
    assert.deepEqual(cgroups.delegated, [top]);
    assert.deepEqual(cgroups.leafOf('leaf'), { unified: join(top, 'holdfast.slice/leaf'), v1: [] });
    assert.deepEqual(cgroups.executorProcs, [join(top, 'holdfast.slice/executors/cgroup.procs')]);
    assert.equal(readFileSync(join(top, 'holdfast-agent/cgroup.procs'), 'utf8'), pid);
  });

  it('lets the agent be where it is when that helps nobody, and says who is in the way', () => {
    const files = { 'cgroup.controllers': 'memory', 'cgroup.procs': `1\n${process.pid}\n` };
    const shared = group('x.scope', files);
    const cgroups = open(shared, shared);
    assert.ok(
      cgroups.missing.some((text) => /not only the agent is in .*x\.scope, but also pid 1$/.test(text)),
    );
    assert.equal(existsSync(join(shared, 'holdfast-agent')), false);
    const below = group('y.service', { ...files, 'cgroup.procs': '' });
    const child = group('y.service/holdfast-agent');
    assert.deepEqual(open(below, child).delegated, [below]);
    assert.equal(readFileSync(join(child, 'cgroup.procs'), 'utf8'), '');
    // systemd could not start it again beside tasks that run on.
    const service = group('w.service', { ...files, 'cgroup.procs': `${process.pid}\n` });
    assert.ok(
      open(service, service).missing.some((text) => text.includes('DelegateSubgroup=holdfast-agent')),
    );
    assert.equal(existsSync(join(service, 'holdfast-agent')), false);
    assert.equal(readFileSync(join(service, 'cgroup.subtree_control'), 'utf8'), '');
    const without = group('z.scope', {
      'cgroup.controllers': 'hugetlb',
      'cgroup.procs': `${process.pid}\n`,
    });
    open(without, without);
    assert.equal(existsSync(join(without, 'holdfast-agent')), false);
  });

  it('is not looked for when the config names a root', () => {
    const top = group('x.service');
    const own: OwnGroups = new Map([[mount, { version: 2, dir: top, subtree: top }]]);
    const named = Cgroups.open({ root: 'own.slice', mounts: { unified: mount, v1: new Map() }, own });
    assert.deepEqual(named.delegated, []);
    assert.equal(named.leafOf('leaf').unified, join(mount, 'own.slice/leaf'));
  });
});
