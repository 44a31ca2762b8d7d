/**
 * What all routes of a kind have in common, route by route with a real agent: indexes and blocking, prefixes, pages,
 * errors as text and as JSON.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { asList, asObject, type Answer } from '../helpers/api-client.js';
import { assertAnswer, SHOP, startContractWorld, type ContractWorld } from '../helpers/contract-world.js';

/** Nothing changes what these tell of: an evaluation is over when it is made. */
const OVER = new Set(['/v1/evaluation/{id}']);
/** Nomad answers these for a job that is not there with an empty list. */
const NEVER_MISSING = new Set(['/v1/job/{id}/allocations', '/v1/job/{id}/evaluations']);
const LONG_WAIT = '20s';

describe('manners of the API, with a real agent', { timeout: 120_000 }, () => {
  let world: ContractWorld;

  before(async () => {
    world = await startContractWorld();
  });
  after(async () => {
    await world[Symbol.asyncDispose]();
  });

  const ask = (path: string, headers: Record<string, string> = {}): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const call = request({ socketPath: world.agent.socket, path, headers, agent: false }, (reply) => {
        let text = '';
        reply.setEncoding('utf8').on('data', (part: string) => (text += part));
        reply.on('end', () => {
          const json = (): unknown => JSON.parse(text);
          resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text, json });
        });
      });
      call.on('error', reject);
      call.end();
    });
  const withQuery = (url: string, query: string): string => `${url}${url.includes('?') ? '&' : '?'}${query}`;
  const readsWith = (query: string): readonly string[] =>
    world.operations
      .filter((each) => each.method === 'GET' && each.answer !== undefined && each.query.includes(query))
      .map(({ path }) => path);
  const indexOf = ({ headers }: Answer): number => Number(headers['x-nomad-index']);

  it('every route that blocks has an index, waits for it, and answers when something has changed', async () => {
    const paths = readsWith('index');
    assert.ok(paths.length >= 20, paths.join(' '));
    const { agent, ids } = world;
    const put = (path: string, body: unknown) => agent.request('PUT', path, body);
    const setEligible = async (word: string): Promise<void> => {
      await put(`/v1/node/${ids.node}/eligibility`, { Eligibility: word });
    };
    // Nothing has ever changed of a new node.
    await setEligible('ineligible');
    const waiting: { path: string; index: number; answer: Promise<Answer> }[] = [];
    for (const path of paths) {
      const url = world.url(path);
      const index = indexOf(await ask(url));
      assert.ok(index >= 1, path);
      const old = await ask(withQuery(url, `index=1&wait=${LONG_WAIT}`));
      assert.equal(old.status, 200, `${path}: news since 1 is told at once`);
      const began = performance.now();
      const late = await ask(withQuery(url, `index=${index}&wait=60ms`));
      assert.equal(late.status, 200, path);
      assert.ok(performance.now() - began >= 50, `${path} does not wait`);
      waiting.push({ path, index, answer: ask(withQuery(url, `index=${index}&wait=${LONG_WAIT}`)) });
    }
    const began = performance.now();
    const settled = waiting.filter(({ path }) => !OVER.has(path)).map(({ answer }) => answer);
    await agent.register({ ...SHOP, Meta: { version: 'newer' } });
    await put(`/v1/deployment/pause/${ids.deployment}`, { Pause: true });
    const [slow] = asList(await agent.get('/v1/job/slow/allocations'));
    await put(`/v1/client/allocation/${String(slow?.['ID'])}/restart`, { TaskName: 'main' });
    await setEligible('eligible');
    await Promise.all(settled);
    assert.ok(performance.now() - began < 15_000, 'some of them were told only because their wait was over');
    for (const { path, index, answer } of waiting) {
      if (OVER.has(path)) continue;
      const told = await answer;
      assert.equal(told.status, 200, `${path}: ${told.text}`);
      assert.ok(indexOf(told) > index, `${path}: ${indexOf(told)} after ${index}`);
    }
  });

  it('every list by prefix has what begins so, and nothing else', async () => {
    const paths = readsWith('prefix');
    assert.deepEqual([...paths].sort(), [
      '/v1/allocations',
      '/v1/deployments',
      '/v1/evaluations',
      '/v1/jobs',
      '/v1/nodes',
    ]);
    for (const path of paths) {
      const all = asList((await ask(path)).json()).map(({ ID }) => String(ID));
      // An odd number of characters too.
      const prefix = all[0]?.slice(0, 3) ?? '';
      const found = asList((await ask(`${path}?prefix=${prefix}`)).json()).map(({ ID }) => String(ID));
      assert.deepEqual(
        found,
        all.filter((id) => id.startsWith(prefix)),
        path,
      );
      assert.deepEqual((await ask(`${path}?prefix=zzzz`)).json(), [], path);
    }
  });

  /** All ids of a list, a page of one at a time; undefined when it goes on after `most`. */
  const inPages = async (url: string, most: number): Promise<unknown[] | undefined> => {
    const seen: unknown[] = [];
    let token: string | undefined = '';
    while (token !== undefined) {
      const page = await ask(withQuery(url, `per_page=1&next_token=${encodeURIComponent(token)}`));
      assert.equal(page.status, 200, page.text);
      const ids = asList(page.json()).map(({ ID }) => ID);
      assert.ok(ids.length <= 1);
      seen.push(...ids);
      if (seen.length > most) return undefined;
      const next = page.headers['x-nomad-nexttoken'];
      token = typeof next === 'string' ? next : undefined;
    }
    return seen;
  };

  it('every list is the same in pages, in both directions, and is picked from by a filter', async () => {
    for (const path of readsWith('per_page')) {
      const url = world.url(path);
      for (const order of ['reverse=false', 'reverse=true']) {
        const ordered = withQuery(url, order);
        const atOnce = async (): Promise<unknown[]> =>
          asList((await ask(withQuery(ordered, 'per_page=1000'))).json()).map(({ ID }) => ID);
        // The world goes on: pages can only be held against a list that was the same before and after them.
        let whole = await atOnce();
        let seen = await inPages(ordered, whole.length);
        for (let tries = 1; tries < 50; tries += 1) {
          const now = await atOnce();
          if (isDeepStrictEqual(now, whole)) break;
          whole = now;
          seen = await inPages(ordered, whole.length);
        }
        assert.deepEqual(seen, whole, `${path} ${order}`);
      }
      const [first] = asList((await ask(url)).json());
      const filter = encodeURIComponent(`ID == ${JSON.stringify(first?.['ID'])}`);
      assert.equal(asList((await ask(withQuery(url, `filter=${filter}`))).json()).length, 1, path);
      assert.equal((await ask(withQuery(url, 'per_page=x'))).status, 400, path);
    }
  });

  it('every read of what is not there is a 404, and every bad parameter a 400, as text and as JSON', async () => {
    const refused = async (path: string, status: number, code: string): Promise<void> => {
      const text = await ask(path);
      assert.equal(text.status, status, `${path}: ${text.text}`);
      assert.match(String(text.headers['content-type']), /^text\/plain/);
      assert.match(text.text, /^[^\n{]+$/, path);
      const json = await ask(path, { accept: 'application/json' });
      assert.equal(json.status, status);
      assert.match(String(json.headers['content-type']), /^application\/json/);
      assertAnswer('Error', json.json(), path);
      assert.deepEqual(asObject(json.json()), { Code: code, Message: text.text });
    };
    for (const { method, path, isSocket, answer } of world.operations) {
      if (method !== 'GET' || isSocket || path.endsWith('/gc')) continue;
      const isMissing = path.includes('{id}') && !NEVER_MISSING.has(path);
      if (isMissing) {
        const query = world.url(path).replace(/^[^?]*/, '');
        await refused(path.replace('{id}', '00000000') + query, 404, 'not_found');
      }
      if (answer !== undefined) await refused(withQuery(world.url(path), 'index=x'), 400, 'bad_request');
    }
  });
});
