/** A history: the commands that a model is to live through, in order, and which of them it could carry out. */
import fc from '../helpers/properties.js';

/** Commands of a model `M` over a real thing `R`. */
type Command<M extends object, R> = fc.AsyncCommand<M, R>;

/** Fewer carried out commands than this make no history: it is not counted. */
export const SHORTEST_HISTORY = 50;

/** Some commands of a history cannot be carried out when their turn comes: those are passed over. */
export class History<M extends object, R> {
  readonly #commands: readonly Command<M, R>[];
  readonly #most: number;
  #carriedOut: Command<M, R>[] = [];

  /** @param most that are carried out; the rest is in stock for those that cannot be */
  constructor(commands: readonly Command<M, R>[], most: number) {
    this.#commands = commands;
    this.#most = most;
  }

  /** How many commands the last run has carried out. */
  get length(): number {
    return this.#carriedOut.length;
  }

  /** Carries out whatever can be. */
  async run(model: M, real: R): Promise<void> {
    this.#carriedOut = [];
    for (const command of this.#commands) {
      if (this.#carriedOut.length === this.#most) return;
      if (!command.check(model)) continue;
      this.#carriedOut.push(command);
      await command.run(model, real);
    }
  }

  /** What was carried out, one command a line: that is what a failure prints. */
  toString(): string {
    return this.#carriedOut.map((command) => `\n    ${command.toString()}`).join('');
  }
}

type Values<M extends object, R> = readonly fc.Value<Command<M, R>>[];

/** Commands that are made for each that is carried out. */
const STOCK = 2;

/**
 * Histories of `length` carried out commands. One that fails shrinks to fewer commands and to smaller ones: runs of commands are left out, long ones
 * first, then each command is made smaller. (fast-check's own arrays and commands either begin short or stay long.)
 */
export function arbHistory<M extends object, R>(
  commands: readonly fc.Arbitrary<Command<M, R>>[],
  length: number,
): fc.Arbitrary<History<M, R>> {
  return new HistoryArbitrary(fc.oneof(...commands), length);
}

class HistoryArbitrary<M extends object, R> extends fc.Arbitrary<History<M, R>> {
  readonly #command: fc.Arbitrary<Command<M, R>>;
  readonly #length: number;

  constructor(command: fc.Arbitrary<Command<M, R>>, length: number) {
    super();
    this.#command = command;
    this.#length = length;
  }

  override generate(random: fc.Random, biasFactor: number | undefined): fc.Value<History<M, R>> {
    const length = STOCK * this.#length;
    return this.#history(Array.from({ length }, () => this.#command.generate(random, biasFactor)));
  }

  /** Only what this has made can be shrunk. */
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- its type is named by fast-check
  override canShrinkWithoutContext(value: unknown): value is History<M, R> {
    return false;
  }

  override shrink(_value: History<M, R>, context: unknown): fc.Stream<fc.Value<History<M, R>>> {
    return fc.stream(this.#smaller(context as Values<M, R>));
  }

  *#smaller(values: Values<M, R>): IterableIterator<fc.Value<History<M, R>>> {
    for (let size = Math.ceil(values.length / 2); size > 0; size = Math.floor(size / 2)) {
      for (let from = 0; from < values.length; from += size) yield this.#history(without(values, from, size));
    }
    for (const [at, { value, context }] of values.entries()) {
      for (const smaller of this.#command.shrink(value, context))
        yield this.#history([...values.slice(0, at), smaller, ...values.slice(at + 1)]);
    }
  }

  #history(values: Values<M, R>): fc.Value<History<M, R>> {
    const commands = values.map(({ value }) => value);
    return new fc.Value(new History(commands, this.#length), values);
  }
}

function without<T>(values: readonly T[], from: number, size: number): readonly T[] {
  return [...values.slice(0, from), ...values.slice(from + size)];
}
