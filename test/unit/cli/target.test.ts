import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CliError, EXIT, type ExitCode } from '../../../src/cli/exit.js';
import { currentAllocs, resolveTarget, taskNames, type Known } from '../../../src/cli/target.js';
import { alloc, taskState } from './samples.js';

const STATES = { server: taskState('running'), sidecar: taskState('running') };

const KNOWN: Known = {
  jobs: [{ ID: 'orders' }, { ID: 'team/orders' }, { ID: 'beef' }],
  allocs: [
    alloc('7a1c9d2e', { TaskStates: STATES }),
    alloc('7a1cffff', { TaskGroup: 'mail', TaskStates: { sender: taskState('running') } }),
    alloc('beef0001', { JobID: 'team/orders', TaskStates: STATES }),
  ],
};

function resolved(text: string): string {
  const { kind, jobId, group, task, allocs } = resolveTarget(text, KNOWN);
  return [kind, jobId, group ?? '-', task ?? '-', allocs.length].join(' ');
}

function refused(text: string): { code: ExitCode; message: string } {
  try {
    resolveTarget(text, KNOWN);
  } catch (error) {
    assert.ok(error instanceof CliError);
    return { code: error.exitCode, message: error.message };
  }
  return assert.fail(`${text} was found`);
}

describe('a target', () => {
  it('is a job, a part of it, or an alloc', () => {
    assert.equal(resolved('orders'), 'job orders - - 2');
    assert.equal(resolved('orders/api'), 'group orders api - 1');
    assert.equal(resolved('orders/api/sidecar'), 'task orders api sidecar 1');
    assert.equal(resolved('7a1c9'), 'alloc orders api - 1');
    assert.equal(resolved('7A1C9D2E'), 'alloc orders api - 1');
    assert.equal(resolved('7a1c9/sidecar'), 'alloc-task orders api sidecar 1');
  });

  it('may be a job with slashes in its id', () => {
    assert.equal(resolved('team/orders'), 'job team/orders - - 1');
    assert.equal(resolved('team/orders/api/server'), 'task team/orders api server 1');
  });

  it('is a job rather than an alloc when it could be both', () => {
    assert.equal(resolved('beef'), 'job beef - - 0');
    assert.equal(resolved('beef0'), 'alloc team/orders api - 1');
  });

  it('is refused when several are meant, with their names', () => {
    const { code, message } = refused('7a1c');
    assert.equal(code, EXIT.usage);
    assert.match(message, /7a1c9d2e.*orders\.api\[0\].*7a1cffff.*orders\.mail\[0\].*give more digits/);
  });

  it('is guessed when it is misspelt', () => {
    assert.deepEqual(refused('order').code, EXIT.notFound);
    assert.match(refused('order').message, /did you mean "orders"\?/);
    assert.match(refused('orders/app').message, /no group "app": did you mean "api"\?/);
    assert.match(refused('orders/api/servr').message, /no task "servr": did you mean "server"\?/);
    assert.match(refused('orders/api/zzzzzzz').message, /it has server, sidecar/);
    assert.match(refused('7a1c9/nothing').message, /alloc 7a1c9 has no task "nothing"/);
  });

  it('is unknown when nothing is like it, and 3 digits are no id', () => {
    for (const text of ['zzzzzz', '7a1', 'dead', 'a/b/c/d', '']) {
      assert.equal(refused(text).code, EXIT.notFound, text);
      assert.match(refused(text).message, /holdfast ps -a|did you mean/);
    }
  });

  it('of one task names that task only', () => {
    const target = resolveTarget('orders/api/sidecar', KNOWN);
    assert.deepEqual(
      target.allocs.map((each) => taskNames(target, each)),
      [['sidecar']],
    );
  });
});

describe('the current allocs', () => {
  it('are the newest of each place, and older ones that are not over', () => {
    const replaced = alloc('aaaa', { ClientStatus: 'failed', CreateIndex: 1 });
    const stopping = alloc('bbbb', { DesiredStatus: 'stop', CreateIndex: 2 });
    const newest = alloc('cccc', { ClientStatus: 'complete', CreateIndex: 3 });
    const other = alloc('dddd', { Name: 'orders.api[1]', ClientStatus: 'failed', CreateIndex: 1 });
    assert.deepEqual(currentAllocs([replaced, stopping, newest, other]), [stopping, newest, other]);
  });
});
