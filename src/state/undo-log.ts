/** Owns undoing in memory: what a disk's rollback does for rows. Writers note how to take a step back. */

export class UndoLog {
  readonly #steps: (() => void)[] = [];
  #depth = 0;

  /** Runs `work`; when it throws, every step noted meanwhile is taken back, newest first. May be nested. */
  transact<T>(work: () => T): T {
    const mark = this.#steps.length;
    this.#depth += 1;
    try {
      return work();
    } catch (error) {
      while (this.#steps.length > mark) this.#steps.pop()?.();
      throw error;
    } finally {
      this.#depth -= 1;
      if (this.#depth === 0) this.#steps.length = 0;
    }
  }

  /** Notes how to take one step back. */
  note(takeBack: () => void): void {
    this.#steps.push(takeBack);
  }

  /** Sets a key; a new one goes to the end, an old one keeps its place. */
  set<K, V>(map: Map<K, V>, key: K, value: V): void {
    const old = map.get(key);
    this.note(() => {
      if (old === undefined) map.delete(key);
      else map.set(key, old);
    });
    map.set(key, value);
  }

  /** @returns whether there was such a key */
  delete<K, V>(map: Map<K, V>, key: K): boolean {
    if (!map.has(key)) return false;
    const before = [...map];
    // All of it, because setting the one key again would move it to the end.
    this.note(() => {
      map.clear();
      for (const [oldKey, value] of before) map.set(oldKey, value);
    });
    return map.delete(key);
  }
}
