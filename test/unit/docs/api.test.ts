/** docs/api.md and openapi.json tell of the same routes, and openapi.json of those that are served. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { asObject, startApi } from '../../helpers/api-client.js';
import { operationsIn } from '../../helpers/contract-world.js';

interface Operation {
  readonly summary: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly description?: string;
    readonly in: string;
  }[];
  readonly requestBody?: unknown;
  readonly 'x-holdfast-scope': string;
}

const METHODS = ['GET', 'PUT', 'POST', 'DELETE'];
/** Writes that need no body. */
const NO_BODY = /\/(stop|doctor|gc|force)$/;

/** `/v1/job/:id` for each route that the page names. */
function pathsOfDocs(): readonly string[] {
  const page = readFileSync('docs/api.md', 'utf8') + readFileSync('docs/feed.md', 'utf8');
  // Commands ask for ids.
  return [...page.replace(/```sh\n[^]*?```/g, '').matchAll(/\/v1\/[A-Za-z0-9_.:/-]+/g)]
    .map(([path]) => path.replace(/\.$/, ''))
    .filter((path) => !path.endsWith('/'));
}

describe('openapi.json', () => {
  it('has every route of docs/api.md, and the page every route of it', async () => {
    await using api = await startApi();
    const { paths } = asObject((await api.ask('/v1/openapi.json')).json());
    const served = Object.keys(asObject(paths)).map((path) => path.replace(/\{(\w+)\}/g, ':$1'));
    const told = new Set(pathsOfDocs());
    assert.deepEqual(
      served.filter((path) => !told.has(path)),
      [],
      'routes that docs/api.md does not name in full',
    );
    assert.deepEqual(
      [...told].filter((path) => !served.includes(path)),
      [],
      'routes that docs/api.md names and that are not there',
    );
  });

  it('is the table at the end of docs/api.md', async () => {
    await using api = await startApi();
    const rows = operationsIn((await api.ask('/v1/openapi.json')).json())
      .filter(({ method }) => method !== 'POST')
      .map(({ method, path, scope, query, answer }) => {
        const route = `${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`;
        const index = query.includes('index') && answer !== undefined ? 'yes' : '';
        return `| \`${route}\` | ${scope} | ${index} | ${query.includes('per_page') ? 'yes' : ''} |`;
      });
    const page = readFileSync('docs/api.md', 'utf8');
    const table = /(## All routes\n[^]*\|---\|---\|---\|---\|\n)[^]*$/.exec(page)?.[1] ?? '';
    const expected = page.slice(0, page.indexOf(table)) + table + rows.map((row) => `${row}\n`).join('');
    // HOLDFAST_WRITE_GOLDEN=1 writes it anew.
    if (process.env['HOLDFAST_WRITE_GOLDEN'] === '1') writeFileSync('docs/api.md', expected);
    else assert.equal(page, expected);
  });

  it('has exactly the methods that are served, each described', async () => {
    await using api = await startApi();
    const { paths } = asObject((await api.ask('/v1/openapi.json')).json());
    for (const [path, found] of Object.entries(asObject(paths))) {
      const operations = asObject(found) as Record<string, Operation>;
      const url = path.replace(/\{\w+\}/g, 'none');
      for (const method of METHODS) {
        const operation = operations[method.toLowerCase()];
        const where = `${method} ${path}`;
        if (operation === undefined) {
          const { status, headers } = await api.ask(url, { method });
          assert.equal(status, 405, where);
          const allowed = Object.keys(operations).map((name) => name.toUpperCase());
          assert.deepEqual(String(headers['allow']).split(', ').sort(), allowed.sort(), where);
          continue;
        }
        assert.match(operation.summary, /^[A-Z].{8,}/, where);
        assert.ok(['read', 'operate', 'exec'].includes(operation['x-holdfast-scope']), where);
        for (const { name, description, in: place } of operation.parameters) {
          assert.ok(
            place === 'path' || (description ?? '') !== '',
            `${where} ?${name}: add it to src/api/query-params.ts`,
          );
        }
        if (method === 'PUT' && !NO_BODY.test(path)) assert.ok(operation.requestBody !== undefined, where);
        if (method !== 'GET') {
          const { status, text } = await api.ask(url, { method, body: '[]' });
          assert.ok(status !== 405 && status < 500, `${where}: ${status} ${text}`);
          assert.doesNotMatch(text, /no such path/, where);
        }
      }
    }
  });
});
