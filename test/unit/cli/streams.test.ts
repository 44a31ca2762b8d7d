import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { FrameReader, LineReader } from '../../../src/cli/frames.js';
import { judgeRollout } from '../../../src/cli/rollout.js';
import { alloc, exited, taskEvent, taskState } from './samples.js';

describe('frames of a log', () => {
  it('are found however the bytes are cut, with any name and any data', () => {
    const frame = fc.record({ File: fc.string({ unit: 'grapheme' }), text: fc.string() });
    fc.assert(
      fc.property(fc.array(frame), fc.integer({ min: 1, max: 9 }), (frames, size) => {
        const stream = Buffer.from(
          frames
            .map(({ File, text }) =>
              JSON.stringify({
                Offset: 7,
                Data: Buffer.from(text).toString('base64'),
                File: `alloc/logs/${File}`,
              }),
            )
            .join('{}'),
        );
        const reader = new FrameReader();
        const pieces = [];
        for (let at = 0; at < stream.length; at += size)
          pieces.push(...reader.push(stream.subarray(at, at + size)));
        assert.deepEqual(
          pieces.map(({ file, endBytes, data }) => [file, endBytes, data.toString()]),
          frames.map(({ File, text }) => [File.slice(File.lastIndexOf('/') + 1), 7, text]),
        );
      }),
    );
  });
});

describe('lines of a log', () => {
  it('are whole, and the last one may have no end', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('a', 'é', '\n', '日'), { maxLength: 30 }),
        fc.integer({ min: 1, max: 4 }),
        (parts, size) => {
          const text = parts.join('');
          const bytes = Buffer.from(text);
          const reader = new LineReader();
          const lines = [];
          for (let at = 0; at < bytes.length; at += size)
            lines.push(...reader.push(bytes.subarray(at, at + size)));
          lines.push(...reader.end());
          const expected = text.split('\n');
          if (expected.at(-1) === '') expected.pop();
          assert.deepEqual(lines, expected);
        },
      ),
    );
  });
});

describe('a rollout', () => {
  const service = { Type: 'service', TaskGroups: [{ Name: 'api', Count: 2 }] };
  const up = (id: string, run: string): ReturnType<typeof alloc> =>
    alloc(id, { TaskStates: { server: taskState('running', {}, { RunID: run }) } });

  it('waits until every place is filled and runs', () => {
    assert.equal(judgeRollout(service, []).kind, 'waiting');
    assert.equal(judgeRollout(service, [up('a', 'r1')]).kind, 'waiting');
    const pending = alloc('b', { ClientStatus: 'pending' });
    assert.equal(judgeRollout(service, [up('a', 'r1'), pending]).kind, 'waiting');
    const backoff = alloc('b', { TaskStates: { server: taskState('backoff') } });
    assert.equal(judgeRollout(service, [up('a', 'r1'), backoff]).kind, 'waiting');
    const old = { ...up('c', 'r0'), DesiredStatus: 'stop' as const };
    assert.equal(judgeRollout(service, [up('a', 'r1'), old]).kind, 'waiting');
  });

  it('tells one set of runs from another', () => {
    assert.deepEqual(judgeRollout(service, [up('a', 'r1'), up('b', 'r2')]), {
      kind: 'running',
      runs: 'r1 r2',
    });
    assert.deepEqual(judgeRollout(service, [up('a', 'r1'), up('b', 'r3')]), {
      kind: 'running',
      runs: 'r1 r3',
    });
  });

  it('of a batch job is over when all is complete, not before', () => {
    const batch = { Type: 'batch', TaskGroups: [{ Name: 'api', Count: 1 }] };
    assert.equal(judgeRollout(batch, [up('a', 'r1')]).kind, 'waiting');
    assert.equal(judgeRollout(batch, [alloc('a', { ClientStatus: 'complete' })]).kind, 'complete');
  });

  it('fails with the first alloc that failed, and says why', () => {
    const last = taskEvent({ Type: 'Not Restarting', FailsTask: true, DisplayMessage: 'no restarts left' });
    const server = taskState('dead', { Failed: true, Events: [last] }, { LastExit: exited(3) });
    const failed = alloc('b', { ClientStatus: 'failed', TaskStates: { server } });
    const verdict = judgeRollout(service, [up('a', 'r1'), failed]);
    assert.ok(verdict.kind === 'failed');
    assert.deepEqual([verdict.task, verdict.reason], ['server', 'exited 3; no restarts left']);
    const again = { ...up('c', 'r3'), Name: failed.Name, CreateTime: failed.CreateTime + 1e6 };
    assert.equal(judgeRollout(service, [failed, again]).kind, 'waiting', 'what has been replaced is no news');
    const stopped = { ...failed, DesiredStatus: 'stop' as const };
    assert.equal(judgeRollout(service, [up('a', 'r1'), stopped]).kind, 'waiting');
  });
});
