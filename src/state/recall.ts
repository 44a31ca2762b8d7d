/**
 * Owns what is remembered of rows, so that a commit need not read what the one before it has written. It is never more
 * than a copy: all of it is forgotten when a transaction is undone, when a row is moved to quarantine and when another
 * program has written (sqlite-sql.ts), and the rows are read again.
 */

/** Values by key, the newest `most` of them. */
export class Recall<V> {
  readonly #values = new Map<string, V>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  /** What is known by `key`; when nothing is, what `read` gives is remembered. */
  getOr(key: string, read: () => V): V {
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    const value = read();
    this.set(key, value);
    return value;
  }

  set(key: string, value: V): void {
    this.#values.set(key, value);
    if (this.#values.size <= this.#most) return;
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest);
      return;
    }
  }

  delete(key: string): void {
    this.#values.delete(key);
  }

  clear(): void {
    this.#values.clear();
  }
}
