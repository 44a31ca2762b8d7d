/** Owns what callers may ask of every list: a filter, pages, the other way round. Pure. */
import { AgentError } from '../base/errors.js';
import { parseFilter } from './filter.js';
import type { Query } from './query.js';

/** By what a list is ordered when it is paged: the token of a page is its first item's place in that order. */
export type ListOrder = 'id' | 'created';

export const LIST_QUERY = ['filter', 'per_page', 'next_token', 'reverse'];

export interface Page {
  readonly items: readonly unknown[];
  /** For `next_token`; undefined = this is the last page. */
  readonly nextToken: string | undefined;
}

interface Place {
  readonly index: number;
  readonly id: string;
}

/** @throws AgentError bad_request */
export function cutPage(items: readonly unknown[], query: Query, order: ListOrder): Page {
  const filter = query.text('filter') ?? '';
  const kept = filter === '' ? items : items.filter(parseFilter(filter));
  const perPage = query.count('per_page') ?? 0;
  const token = query.text('next_token') ?? '';
  const reverse = query.flag('reverse');
  if (perPage === 0 && token === '' && !reverse) return { items: kept, nextToken: undefined };
  const sign = reverse ? -1 : 1;
  const placed = kept
    .map((item) => ({ item, place: placeOf(item, order) }))
    .sort((a, b) => sign * comparePlaces(a.place, b.place));
  const from = token === '' ? undefined : parseToken(token, order);
  const rest =
    from === undefined ? placed : placed.filter(({ place }) => sign * comparePlaces(place, from) >= 0);
  const page = perPage === 0 ? rest : rest.slice(0, perPage);
  const next = rest[page.length];
  return {
    items: page.map(({ item }) => item),
    nextToken: next === undefined ? undefined : formatToken(next.place, order),
  };
}

function placeOf(item: unknown, order: ListOrder): Place {
  const { ID, CreateIndex } = item as { readonly ID?: unknown; readonly CreateIndex?: unknown };
  return { index: order === 'created' ? Number(CreateIndex) : 0, id: String(ID) };
}

function comparePlaces(a: Place, b: Place): number {
  if (a.index !== b.index) return a.index - b.index;
  if (a.id === b.id) return 0;
  return a.id < b.id ? -1 : 1;
}

function formatToken({ index, id }: Place, order: ListOrder): string {
  return order === 'created' ? `${index}.${id}` : id;
}

function parseToken(token: string, order: ListOrder): Place {
  if (order === 'id') return { index: 0, id: token };
  const [, index, id] = /^(\d{1,15})\.(.+)$/.exec(token) ?? [];
  if (index !== undefined && id !== undefined) return { index: Number(index), id };
  throw new AgentError('bad_request', 'query parameter next_token: give the X-Nomad-NextToken of an answer');
}
