/** Owns the newest rows of the feed in memory, shared by all readers. */
import type { FeedRow } from '../state/store.js';
import type { WireContext } from './alloc-to-wire.js';
import { encodeRow, type EncodedRow } from './feed-rows.js';

/** Rows that go out together at most: bounds what a reader that does not read holds. */
const MOST_AT_ONCE = 256;

/** The newest rows, without a gap. */
export class RecentRows {
  readonly #limit: number;
  readonly #rows: EncodedRow[] = [];
  /** What was given since the last row came, by the index after which it begins: readers go in step. */
  readonly #given = new Map<number, readonly EncodedRow[]>();
  /** Everything after this index is in `#rows`. */
  #floor: number;
  #newest: number;

  /** @param index of the newest row before the first one pushed */
  constructor(index: number, limit: number) {
    this.#floor = index;
    this.#newest = index;
    this.#limit = limit;
  }

  push(rows: readonly FeedRow[], context: WireContext): void {
    this.#given.clear();
    for (const row of rows) {
      this.#rows.push(encodeRow(row, context));
      this.#newest = row.index;
    }
    // Half of them at once, so that dropping costs little.
    if (this.#rows.length <= this.#limit) return;
    const dropped = this.#rows.splice(0, this.#rows.length - Math.ceil(this.#limit / 2));
    this.#floor = dropped.at(-1)?.index ?? this.#floor;
  }

  /** Notes rows without keeping them, or any older ones. */
  skip(rows: readonly FeedRow[]): void {
    this.#given.clear();
    this.#newest = rows.at(-1)?.index ?? this.#newest;
    this.#floor = this.#newest;
    this.#rows.length = 0;
  }

  newest(): number {
    return this.#newest;
  }

  /**
   * The next rows after `index`, the same array for all who ask; undefined when some of them are not here any more.
   */
  after(index: number): readonly EncodedRow[] | undefined {
    if (index < this.#floor) return undefined;
    if (index >= this.#newest) return [];
    const given = this.#given.get(index);
    if (given !== undefined) return given;
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rows[middle]?.index ?? 0) > index) high = middle;
      else low = middle + 1;
    }
    const found = this.#rows.slice(low, low + MOST_AT_ONCE);
    this.#given.set(index, found);
    return found;
  }
}
