/** What fuzzed requests are made of, and how they are sent. */
import { request } from 'node:http';
import fc from './properties.js';
import { asObject, JOB } from './api-client.js';

/** These wait for something to happen. */
const BLOCKS = new Set(['index', 'wait', 'follow']);

export interface Answered {
  readonly status: number;
  readonly text: string;
}

export interface FuzzedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The status, and the body unless it has no end. */
export function send(socketPath: string, asked: FuzzedRequest): Promise<Answered> {
  const { method, path, headers, body } = asked;
  const length = method === 'GET' ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise<Answered>((resolve, reject) => {
    const call = request(
      { socketPath, method, path, headers: { ...headers, ...length }, agent: false },
      (reply) => {
        const status = reply.statusCode ?? 0;
        let text = '';
        reply.on('data', (part: Buffer) => (text += part.toString()));
        reply.on('end', () => {
          resolve({ status, text });
        });
        reply.on('error', () => {
          resolve({ status, text });
        });
        // It has no end that could be waited for.
        if (/stream|monitor/.test(path)) setTimeout(() => call.destroy(), 5);
      },
    );
    call.on('error', (error: NodeJS.ErrnoException) => {
      // Cut off before it had sent everything: refused in the plainest way.
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve({ status: 400, text: error.code });
      else reject(error);
    });
    if (method === 'GET') call.end();
    else call.end(body);
  });
}

export interface FuzzedRoute {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
}

/** Every route of openapi.json. */
export function routesIn(document: unknown): readonly FuzzedRoute[] {
  return Object.entries(asObject(asObject(document)['paths'])).flatMap(([path, operations]) =>
    Object.entries(asObject(operations)).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      query: (asObject(operation)['parameters'] as { name: string; in: string }[])
        .filter((each) => each.in === 'query' && !BLOCKS.has(each.name))
        .map(({ name }) => name),
    })),
  );
}

/** The path of a request: `part` in the place of ids, `values` for the first query parameters. */
export function pathOf(route: FuzzedRoute, part: string, values: readonly string[]): string {
  const query = route.query
    .flatMap((name, at) =>
      values[at] === undefined ? [] : [`${name}=${encodeURIComponent(toWellFormed(values[at]))}`],
    )
    .join('&');
  const raw = /^[\x21-\x7e]*$/.test(part)
    ? part.replace(/[?#]/g, '')
    : encodeURIComponent(toWellFormed(part));
  return `${route.path.replace(/\{\w+\}/g, raw)}?${query}`;
}

function toWellFormed(text: string): string {
  return Buffer.from(text).toString();
}

export const anyPart = fc.oneof(
  fc.constantFrom('web', '0de00000', '..', '%2e%2e', '%', '%ff', 'a'.repeat(2000)),
  fc.string(),
);

export const anyValues = fc.array(fc.string(), { maxLength: 4 });

export const anyHeaders = fc.dictionary(
  fc.constantFrom(
    'accept',
    'content-type',
    'x-nomad-token',
    'origin',
    'transfer-encoding-x',
    'expect-x',
    'authorization',
  ),
  fc.string({ unit: 'grapheme-ascii' }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
);

/** JSON that looks a bit like what is expected. */
export const anyBody = fc.oneof(
  fc.string(),
  fc.json(),
  fc
    .record(
      {
        Job: fc.oneof(
          fc.jsonValue(),
          fc.record(
            {
              ID: fc.oneof(fc.string(), fc.constant('web'), fc.jsonValue()),
              Type: fc.oneof(fc.constantFrom('service', 'batch', 'system'), fc.jsonValue()),
              TaskGroups: fc.oneof(fc.constant(JOB.TaskGroups), fc.jsonValue()),
              Datacenters: fc.jsonValue(),
            },
            { requiredKeys: [] },
          ),
        ),
        Signal: fc.jsonValue(),
        Task: fc.jsonValue(),
        TaskName: fc.jsonValue(),
        Prefix: fc.jsonValue(),
        EnforceIndex: fc.jsonValue(),
        JobModifyIndex: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value)),
);
