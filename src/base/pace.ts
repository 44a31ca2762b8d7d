/**
 * Owns how many of a crowd go on in one turn of the event loop. A hundred tasks that are set up in one turn hold up
 * everything else, the first of themselves included: let through a few at a time, the first are started while the others
 * are being set up, and the API goes on answering. What is left to do for those that run comes after the crowd.
 */

/** Who comes after the crowd waits so many turns at most. */
const MOST_TURNS = 20;

export class Pace {
  readonly #perTurn: number;
  readonly #crowd: (() => void)[] = [];
  readonly #after: { readonly go: () => void; readonly sinceTurn: number }[] = [];
  #left: number;
  #turn = 0;
  #immediate: NodeJS.Immediate | undefined;

  /** @param perTurn how many go on in one turn, above 0 */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  /** Resolves when it is the caller's turn: at once for the first ones, else in the order of the calls. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#crowd.push(resolve);
      this.#letThrough();
    });
  }

  /** The same for what can wait: when nobody waits for `turn`, or after a while. At once when there is no crowd. */
  after(): Promise<void> {
    return new Promise((resolve) => {
      this.#after.push({ go: resolve, sinceTurn: this.#turn });
      this.#letThrough();
    });
  }

  #letThrough(): void {
    for (; this.#left > 0; this.#left -= 1) {
      const next = this.#next();
      if (next === undefined) break;
      next();
    }
    if (this.#left === this.#perTurn) return;
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.#left = this.#perTurn;
      this.#turn += 1;
      this.#letThrough();
    });
  }

  #next(): (() => void) | undefined {
    const [oldest] = this.#after;
    if (oldest !== undefined && this.#turn - oldest.sinceTurn >= MOST_TURNS) return this.#after.shift()?.go;
    return this.#crowd.shift() ?? this.#after.shift()?.go;
  }
}
