/** Owns reading of what callers send: query parameters and bodies. What does not fit is bad_request, by its name. */
import type { z } from 'zod';
import { AgentError } from '../base/errors.js';
import { readDuration } from '../jobspec/units.js';

const YES = new Set(['', '1', 't', 'true']);
const NO = new Set(['0', 'f', 'false']);

/** The query of one request. Parameters that nobody asks for are ignored, as Nomad does: its tools send many. */
export class Query {
  readonly #params: URLSearchParams;

  /** @param url path and query as they came */
  constructor(url: string) {
    const mark = url.indexOf('?');
    this.#params = new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
  }

  /** First value; undefined when it is not there. */
  text(name: string): string | undefined {
    return this.#params.get(name) ?? undefined;
  }

  all(name: string): readonly string[] {
    return this.#params.getAll(name);
  }

  /** True for `?name`, `?name=true`, `?name=1`; false when it is not there. @throws AgentError bad_request */
  flag(name: string): boolean {
    const text = this.#params.get(name)?.toLowerCase();
    if (text === undefined || NO.has(text)) return false;
    if (YES.has(text)) return true;
    throw new AgentError(
      'bad_request',
      `query parameter ${name}: true or false, not ${JSON.stringify(text)}`,
    );
  }

  /** A whole number from 0; undefined when it is not there or empty. @throws AgentError bad_request */
  count(name: string): number | undefined {
    const text = this.#params.get(name);
    if (text === null || text === '') return undefined;
    const value = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
    throw new AgentError(
      'bad_request',
      `query parameter ${name}: a whole number, not ${JSON.stringify(text.slice(0, 40))}`,
    );
  }

  /** A duration such as `60s`; undefined when it is not there or empty. @throws AgentError bad_request */
  durationMs(name: string): number | undefined {
    const text = this.#params.get(name);
    if (text === null || text === '') return undefined;
    const read = readDuration(text);
    if (read.ok) return read.value;
    throw new AgentError('bad_request', `query parameter ${name}: ${read.why}`);
  }

  /** A moment, RFC 3339 or milliseconds since 1970, as wall ms. @throws AgentError bad_request */
  timeMs(name: string): number | undefined {
    const text = this.#params.get(name);
    if (text === null || text === '') return undefined;
    const value = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
    if (Number.isFinite(value)) return value;
    throw new AgentError(
      'bad_request',
      `query parameter ${name}: a time such as 2025-01-31T12:00:00Z, not ${JSON.stringify(text.slice(0, 40))}`,
    );
  }
}

/** Checks a body; none at all counts as `{}`. @throws AgentError bad_request naming the first field at fault */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const checked = schema.safeParse(body ?? {});
  if (checked.success) return checked.data;
  const [issue] = checked.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? 'body' : `body: ${issue.path.join('.')}`;
  throw new AgentError('bad_request', `${where}: ${issue?.message ?? 'is malformed'}`);
}
