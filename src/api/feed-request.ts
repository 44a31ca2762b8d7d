/** Owns what a reader of the feed asks for: topics and keys, where to begin. Pure. */
import { AgentError } from '../base/errors.js';
import type { Query } from './query.js';
import { FEED_TOPICS } from './wire.js';

/** Topics of Nomad's that a tool may name and that never have an event here. */
const SILENT_TOPICS = ['Service'];
const KNOWN_TOPICS = new Set<string>([...FEED_TOPICS, ...SILENT_TOPICS]);
/** More `topic=` than any reader needs; each costs a look-up per event. */
const MOST_TOPICS = 100;

/** Which events a reader wants. */
export class FeedFilter {
  /** Keys by topic; undefined = all topics. A key `*` stands for all. */
  readonly #keys: ReadonlyMap<string, ReadonlySet<string>> | undefined;

  /** @param asked values of `topic=`; none = everything. @throws AgentError bad_request */
  constructor(asked: readonly string[]) {
    if (asked.length > MOST_TOPICS) {
      throw new AgentError('bad_request', `at most ${MOST_TOPICS} topics in one request`);
    }
    const keys = new Map<string, Set<string>>();
    for (const each of asked) {
      const colon = each.indexOf(':');
      const topic = colon < 0 ? each : each.slice(0, colon);
      const key = colon < 0 ? '*' : each.slice(colon + 1);
      if (topic !== '*' && !KNOWN_TOPICS.has(topic)) {
        throw new AgentError(
          'bad_request',
          `unknown topic ${JSON.stringify(topic.slice(0, 40))}: use ${FEED_TOPICS.join(', ')} or *`,
        );
      }
      keys.set(topic, (keys.get(topic) ?? new Set()).add(key === '' ? '*' : key));
    }
    this.#keys = keys.size === 0 ? undefined : keys;
  }

  /** True when every event that is kept is wanted. */
  get wantsAll(): boolean {
    return this.#keys === undefined || this.#keys.get('*')?.has('*') === true;
  }

  /** True when the topic itself was asked for: some are told only then. */
  names(topic: string): boolean {
    return this.#keys?.has(topic) === true;
  }

  /** @param keys the event's key and its filter keys */
  wants(topic: string, keys: readonly string[]): boolean {
    if (this.#keys === undefined) return true;
    for (const wanted of [this.#keys.get(topic), this.#keys.get('*')]) {
      if (wanted !== undefined && (wanted.has('*') || keys.some((key) => wanted.has(key)))) return true;
    }
    return false;
  }
}

export interface FeedRequest {
  readonly filter: FeedFilter;
  /** Begin with the whole state. */
  readonly snapshot: boolean;
  /** Resume after this index; undefined = from now on. Without meaning when `snapshot`. */
  readonly after: number | undefined;
}

/** @throws AgentError bad_request */
export function parseFeedRequest(query: Query): FeedRequest {
  return {
    filter: new FeedFilter(query.all('topic')),
    snapshot: query.flag('snapshot'),
    after: query.count('index'),
  };
}
