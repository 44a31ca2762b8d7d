/** What the API answers when it cannot do what is asked, and that it goes on serving. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { JOB, startApi, type ApiUnderTest } from '../helpers/api-client.js';

describe('errors', () => {
  let api: ApiUnderTest;
  let allocId: string;

  before(async () => {
    api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    allocId = String(api.store.listAllocs()[0]?.record.id);
  });
  after(async () => {
    await api[Symbol.asyncDispose]();
  });

  const expectError = async (
    path: string,
    expected: { status: number; code: string; says: RegExp },
    ask: { method?: string; body?: unknown } = {},
  ): Promise<void> => {
    const text = await api.ask(path, ask);
    assert.equal(text.status, expected.status, `${path}: ${text.text}`);
    assert.match(text.text, expected.says);
    assert.match(String(text.headers['content-type']), /^text\/plain/);
    const json = await api.ask(path, { ...ask, headers: { accept: 'application/json' } });
    assert.equal(json.status, expected.status);
    assert.deepEqual(json.json(), { Code: expected.code, Message: text.text });
  };

  it('names what is not there', async () => {
    await expectError('/v1/job/nobody', { status: 404, code: 'not_found', says: /job "nobody" not found/ });
    await expectError('/v1/allocation/00000000', {
      status: 404,
      code: 'not_found',
      says: /alloc "00000000"/,
    });
    await expectError('/v1/allocation/no-id', { status: 404, code: 'not_found', says: /not found/ });
    await expectError('/v1/nothing', { status: 404, code: 'not_found', says: /no such path/ });
    await expectError(`/v1/evaluation/${allocId}`, { status: 404, code: 'not_found', says: /evaluation/ });
  });

  it('refuses bad bodies and keeps serving', async () => {
    const put = (body: unknown) => ({ method: 'PUT', body });
    const bad = (says: RegExp) => ({ status: 400, code: 'bad_request', says });
    await expectError('/v1/jobs', bad(/not JSON/), put('{"Job":'));
    await expectError('/v1/jobs', bad(/Job is missing/), put({}));
    await expectError('/v1/jobs', bad(/Job is missing/), put(undefined));
    await expectError('/v1/jobs', bad(/body: /), put([1]));
    await expectError('/v1/jobs', bad(/EnforceIndex/), put({ Job: JOB, EnforceIndex: 'yes' }));
    await expectError(
      '/v1/jobs',
      { status: 400, code: 'job_invalid', says: /ID/ },
      put({ Job: { Name: 'x' } }),
    );
    const signal = `/v1/client/allocation/${allocId}/signal`;
    await expectError(signal, bad(/Signal/), put({}));
    await expectError(
      signal,
      { status: 400, code: 'signal_unknown', says: /SIGFOO/ },
      put({ Signal: 'SIGFOO' }),
    );
    await expectError(
      `/v1/client/allocation/${allocId}/restart`,
      bad(/not both/),
      put({ TaskName: 'server', AllTasks: true }),
    );
    const huge = await api.ask('/v1/jobs', put(' '.repeat(3 * 2 ** 20)));
    assert.equal(huge.status, 413);
    assert.equal((await api.ask('/v1/regions')).status, 200);
  });

  it('says which methods a path has', async () => {
    const reply = await api.ask('/v1/job/web', { method: 'PUT', body: {} });
    assert.equal(reply.status, 405);
    assert.equal(reply.headers['allow'], 'GET, DELETE');
    assert.equal((await api.ask('/v1/feed')).status, 426);
  });

  it('survives what is no HTTP at all', async () => {
    const socket = connect(api.socketPath);
    socket.on('error', () => undefined);
    socket.end('\u0000\u0001 rubbish\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    assert.equal((await api.ask('/v1/regions')).status, 200);
  });

  it('tells bad query parameters by name', async () => {
    const bad = (says: RegExp) => ({ status: 400, code: 'bad_request', says });
    await expectError('/v1/jobs?index=x', bad(/index/));
    await expectError('/v1/jobs?index=1&wait=5', bad(/wait.*unit/));
    await expectError('/v1/event/stream?topic=Weather', bad(/Weather/));
    await expectError('/v1/event/stream?index=999999', bad(/ahead/));
    await expectError('/v1/job/web?purge=perhaps', bad(/purge/), { method: 'DELETE' });
  });
});
