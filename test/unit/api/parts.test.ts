/** The small parts of the API: who may speak, what a query says, which events a reader wants, what is remembered. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { z } from 'zod';
import { FeedFilter } from '../../../src/api/feed-request.js';
import { RecentRows } from '../../../src/api/feed-recent.js';
import { decideRefusal, tcpGuard } from '../../../src/api/guard.js';
import { withHeartbeat } from '../../../src/api/heartbeat.js';
import { pickByPrefix } from '../../../src/api/lookup.js';
import { parseBody, Query } from '../../../src/api/query.js';
import { pathPattern } from '../../../src/api/route.js';
import { AgentError } from '../../../src/base/errors.js';
import { SCOPES } from '../../../src/base/tokens.js';
import type { FeedRow } from '../../../src/state/store.js';
import { knownToken } from '../../helpers/api-client.js';
import { FakeClock } from '../../helpers/fake-clock.js';
import { jobRecord } from '../../helpers/records.js';

describe('guard', () => {
  const BASE = { tokens: [], names: ['worker-7'], allowOpen: true };
  const LOCAL = tcpGuard({ ...BASE, host: '127.0.0.1' });
  const WIDE = tcpGuard({ ...BASE, host: '0.0.0.0', tokens: [knownToken('secret', 'operate')] });
  const CASES = [
    [LOCAL, { host: '127.0.0.1:4646' }, true],
    [LOCAL, { host: 'LocalHost:4646' }, true],
    [LOCAL, { host: '[::1]:4646' }, true],
    [LOCAL, { host: '[::1]' }, true],
    [LOCAL, {}, false],
    [LOCAL, { host: 'rebound.example:4646' }, false],
    [LOCAL, { host: '127.0.0.1.rebound.example' }, false],
    [LOCAL, { host: '10.0.0.7:4646' }, false],
    [LOCAL, { host: 'localhost:4646', origin: 'http://localhost:4646' }, true],
    [LOCAL, { host: 'localhost:4646', origin: 'http://localhost:9999' }, false],
    [LOCAL, { host: 'localhost:4646', origin: 'null' }, false],
    [WIDE, { host: 'worker-7:4646' }, false],
    [WIDE, { host: 'worker-7:4646', authorization: 'Bearer secret' }, true],
    [WIDE, { host: '10.0.0.7:4646', authorization: 'Bearer secret' }, true],
    [WIDE, { host: '[fd00::7]:4646', authorization: 'Bearer secret' }, true],
    [WIDE, { host: 'rebound.example:4646', authorization: 'Bearer secret' }, false],
    [WIDE, { host: 'worker-7:4646', authorization: 'bearer secret' }, true],
    [WIDE, { host: 'worker-7:4646', authorization: 'Basic secret' }, false],
    [WIDE, { host: 'worker-7:4646', authorization: 'Bearer secrets' }, false],
    [WIDE, { host: 'worker-7:4646', 'x-nomad-token': 'secret', origin: 'http://evil.example' }, false],
  ] as const;

  it('lets in whom it should', () => {
    for (const [guard, headers, passes] of CASES) {
      assert.equal(decideRefusal(guard, headers, 'operate') === undefined, passes, JSON.stringify(headers));
    }
  });

  it('asks for what the route asks for', () => {
    for (const [at, held] of SCOPES.entries()) {
      const guard = tcpGuard({ ...BASE, host: '0.0.0.0', tokens: [knownToken('secret', held)] });
      for (const [needed, scope] of SCOPES.entries()) {
        const refusal = decideRefusal(guard, { host: '10.0.0.1', 'x-nomad-token': 'secret' }, scope);
        assert.equal(refusal === undefined, at >= needed, `${held} for ${scope}`);
      }
    }
  });

  it('does not open the host to the network without a token', () => {
    for (const host of ['0.0.0.0', '::', '10.0.0.1']) {
      assert.throws(() => tcpGuard({ ...BASE, host }), { code: 'not_permitted' });
    }
    assert.throws(() => tcpGuard({ ...BASE, host: '127.0.0.1', allowOpen: false }), {
      code: 'not_permitted',
    });
  });
});

describe('query', () => {
  it('reads what tools send', () => {
    const query = new Query('/v1/x?a=1&a=2&flag&no=false&wait=60000ms&n=12&empty=&t=2025-01-31T12:00:00Z');
    assert.deepEqual(query.all('a'), ['1', '2']);
    assert.deepEqual([query.flag('flag'), query.flag('no'), query.flag('none')], [true, false, false]);
    assert.deepEqual([query.durationMs('wait'), query.durationMs('empty')], [60_000, undefined]);
    assert.deepEqual([query.count('n'), query.count('none')], [12, undefined]);
    assert.equal(query.timeMs('t'), Date.UTC(2025, 0, 31, 12));
  });

  it('names the parameter that does not fit', () => {
    const query = new Query('/?a=-1&b=1e400&c=maybe&d=1.5&e=99999999999999999999');
    for (const name of ['a', 'b', 'd', 'e'])
      assert.throws(() => query.count(name), new RegExp(`parameter ${name}:`));
    assert.throws(() => query.flag('c'), { code: 'bad_request' });
    assert.throws(() => query.durationMs('c'), { code: 'bad_request' });
    assert.throws(() => query.timeMs('c'), { code: 'bad_request' });
  });

  it('never throws anything else, whatever the text', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (name, value) => {
        const query = new Query(`/?${name}=${value}`);
        for (const read of ['flag', 'count', 'durationMs', 'timeMs'] as const) {
          try {
            query[read](name);
          } catch (error) {
            assert.ok(error instanceof AgentError && error.code === 'bad_request', String(error));
          }
        }
      }),
    );
  });

  it('names the field of a body that does not fit', () => {
    const schema = z.object({ a: z.object({ b: z.number() }).optional() });
    assert.deepEqual(parseBody(schema, undefined), {});
    assert.throws(() => parseBody(schema, { a: { b: 'x' } }), /body: a\.b: /);
    assert.throws(() => parseBody(schema, 'text'), /^AgentError: body: /);
  });
});

describe('prefixes of ids', () => {
  const ids = ['aaaa1111-1', 'aaaa1111-2', 'bbbb0000-1'];
  const pick = (prefix: string): string => pickByPrefix('thing', prefix, ids, (id) => id);

  it('must be long enough, known and unique', () => {
    assert.equal(pick('bbbb'), 'bbbb0000-1');
    assert.equal(pick('aaaa1111-2'), 'aaaa1111-2');
    assert.throws(() => pick('bbb'), { code: 'bad_request' });
    assert.throws(() => pick('b-b-b'), { code: 'bad_request' });
    assert.throws(() => pick('cccc'), { code: 'not_found' });
    assert.throws(() => pick('web'), { code: 'not_found' });
    assert.throws(() => pick('aaaa'), /could be aaaa1111-1, aaaa1111-2: give more digits/);
  });
});

describe('feed filter', () => {
  const wants = (asked: readonly string[], topic: string, ...keys: string[]): boolean =>
    new FeedFilter(asked).wants(topic, keys);

  it('takes all, whole topics, and single keys', () => {
    assert.equal(wants([], 'Job', 'web'), true);
    assert.equal(wants(['*'], 'Job', 'web'), true);
    assert.equal(wants(['*:web'], 'Allocation', 'a1', 'web'), true);
    assert.equal(wants(['*:web'], 'Allocation', 'a1', 'db'), false);
    assert.equal(wants(['Job'], 'Job', 'web'), true);
    assert.equal(wants(['Job:'], 'Job', 'web'), true);
    assert.equal(wants(['Job:*'], 'Allocation', 'a1'), false);
    assert.equal(wants(['Job:db', 'Job:web'], 'Job', 'web'), true);
    assert.equal(wants(['Job:a:b'], 'Job', 'a:b'), true);
    assert.throws(() => wants(['job'], 'Job'), { code: 'bad_request' });
    assert.throws(() => wants(Array(101).fill('Job'), 'Job'), { code: 'bad_request' });
  });
});

describe('recent rows', () => {
  const context = { nodeId: 'n', nodeName: 'n', pidOf: () => undefined };
  const row = (index: number): FeedRow => ({
    index,
    atMs: 1,
    key: 'web',
    payload: { topic: 'Job', type: 'JobRegistered', job: jobRecord() },
  });

  it('give exactly what is after an index, or say that they cannot', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.boolean()), { maxLength: 30 }),
        (limit, pushes) => {
          const rows = new RecentRows(5, limit);
          let newest = 5;
          for (const [count, kept] of pushes) {
            const next = Array.from({ length: count }, () => row((newest += 1)));
            if (kept) rows.push(next, context);
            else rows.skip(next);
            assert.equal(rows.newest(), newest);
            for (let at = 0; at <= newest + 1; at++) {
              const found = rows.after(at);
              if (found === undefined) continue;
              assert.deepEqual(
                found.map(({ index }) => index),
                Array.from({ length: Math.max(0, newest - at) }, (_, i) => at + 1 + i),
              );
              assert.ok(found.length <= limit + 1);
            }
            assert.deepEqual(rows.after(newest), []);
          }
        },
      ),
    );
  });
});

describe('withHeartbeat', () => {
  it('beats only into silence, and passes on values, ends and faults', async () => {
    const clock = new FakeClock();
    async function* source(): AsyncGenerator<string, void, void> {
      yield 'a';
      await new Promise<void>((resolve) => clock.setTimer(25, resolve));
      yield 'b';
      throw new Error('broken');
    }
    const out = withHeartbeat(source(), { beat: '{}', everyMs: 10, clock });
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const value of out) seen.push(value);
    })();
    const failed = assert.rejects(reading, /broken/);
    await clock.advance(30);
    await failed;
    assert.deepEqual(seen, ['a', '{}', '{}', 'b']);
    assert.deepEqual(clock.pendingMs(), [], 'no timer is left');
  });
});

describe('path patterns', () => {
  it('match whole paths', () => {
    const pattern = pathPattern('/v1/job/:id/summary');
    assert.ok(pattern.test('/v1/job/a%2Fb/summary'));
    assert.ok(!pattern.test('/v1/job/summary'));
    assert.ok(!pattern.test('/v1/job/a/summary/x'));
    assert.ok(!pathPattern('/v1/openapi.json').test('/v1/openapi-json'));
  });
});
