/**
 * Owns how many of a crowd go on in one turn of the event loop. A hundred tasks that are set up in one turn hold up
 * everything else, the first of themselves included: let through a few at a time, the first are started while the others
 * are being set up, and the API goes on answering.
 */
export class Pace {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];
  #left: number;
  #immediate: NodeJS.Immediate | undefined;

  /** @param perTurn how many go on in one turn, above 0 */
  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  /** Resolves when it is the caller's turn: at once for the first ones, else in the order of the calls. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#letThrough();
    });
  }

  #letThrough(): void {
    for (; this.#left > 0; this.#left -= 1) {
      const next = this.#waiting.shift();
      if (next === undefined) break;
      next();
    }
    if (this.#left === this.#perTurn) return;
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.#left = this.#perTurn;
      this.#letThrough();
    });
  }
}
