import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { diffJobs } from '../../../src/api/job-diff.js';
import { jobSpecToWire, type JobDiff } from '../../../src/api/wire.js';
import type { Job, Task } from '../../../src/jobspec/types.js';
import { aGroup, aJob, aTask } from '../../helpers/specs.js';

const job = (over: Partial<Task> = {}, more: Partial<Job> = {}): Job =>
  aJob({ groups: [aGroup({ tasks: [aTask(over)] })], ...more });
const diff = (before: Job | undefined, after: Job): JobDiff =>
  diffJobs(before === undefined ? undefined : jobSpecToWire(before), jobSpecToWire(after));
const taskOf = (found: JobDiff) => found.TaskGroups[0]?.Tasks[0];

describe('job diff', () => {
  it('says None when nothing differs', () => {
    assert.deepEqual(diff(job(), job()), {
      Type: 'None',
      ID: 'job',
      Fields: [],
      Objects: [],
      TaskGroups: [],
    });
  });

  it('tells every kind of value by its name, old and new', () => {
    const before = job({
      env: { GONE: 'x', PORT: '80', SAME: 's' },
      config: { command: '/a', args: ['-v', 'one'] },
      killTimeoutMs: 5_000,
    });
    const after = job({
      env: { EMPTY: '', PORT: '81', SAME: 's' },
      config: { command: '/a', args: ['-v', 'two', 'three'] },
      killTimeoutMs: 6_000,
    });
    const found = diff(before, after);
    assert.equal(found.Type, 'Edited');
    const edited = { Type: 'Edited', Annotations: null };
    assert.deepEqual(taskOf(found)?.Fields, [
      { Type: 'Added', Annotations: null, Name: 'Env[EMPTY]', Old: '', New: '' },
      { Type: 'Deleted', Annotations: null, Name: 'Env[GONE]', Old: 'x', New: '' },
      { ...edited, Name: 'Env[PORT]', Old: '80', New: '81' },
      { ...edited, Name: 'KillTimeout', Old: '5000000000', New: '6000000000' },
    ]);
    assert.deepEqual(taskOf(found)?.Objects, [
      {
        Type: 'Edited',
        Name: 'Config',
        Fields: [
          { ...edited, Name: 'args[1]', Old: 'one', New: 'two' },
          { Type: 'Added', Annotations: null, Name: 'args[2]', Old: '', New: 'three' },
        ],
        Objects: [],
      },
    ]);
  });

  it('tells of the job, its groups and its tasks apart', () => {
    const found = diff(
      aJob({ groups: [aGroup({ name: 'a' }), aGroup({ name: 'b' })] }),
      aJob({ priority: 60, groups: [aGroup({ name: 'a', count: 3 }), aGroup({ name: 'c' })] }),
    );
    assert.deepEqual(
      found.Fields.map(({ Name, Old, New }) => [Name, Old, New]),
      [['Priority', '50', '60']],
    );
    assert.deepEqual(
      found.TaskGroups.map(({ Name, Type }) => `${Type} ${Name}`),
      ['Edited a', 'Deleted b', 'Added c'],
    );
    assert.deepEqual(
      found.TaskGroups[0]?.Fields.map(({ Name, New }) => [Name, New]),
      [['Count', '3']],
    );
  });

  it('of a job that is new: all of it is added', () => {
    const found = diff(undefined, job({ env: { A: '1' } }));
    assert.equal(found.Type, 'Added');
    assert.equal(found.TaskGroups[0]?.Type, 'Added');
    assert.ok(taskOf(found)?.Fields.every(({ Type, Old }) => Type === 'Added' && Old === ''));
  });
});
