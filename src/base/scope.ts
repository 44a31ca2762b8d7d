/** Owns the closing of things: a Scope closes what it was given, in reverse order, each exactly once. */

type Closer = () => void | Promise<void>;

/** Use as `await using scope = new Scope()`, or keep one as a field and call `close()`. */
export class Scope implements AsyncDisposable {
  readonly #closers: { readonly name: string; readonly close: Closer }[] = [];
  #closed: Promise<void> | undefined;

  /** Gives `close` to this scope. After the scope was closed, `close` runs at once. */
  add(name: string, close: Closer): void {
    if (this.#closed === undefined) this.#closers.push({ name, close });
    else void Promise.resolve(close());
  }

  /** Gives a disposable to this scope and hands it back. */
  own<T extends Disposable | AsyncDisposable>(name: string, resource: T): T {
    this.add(name, async () => {
      if (Symbol.asyncDispose in resource) await resource[Symbol.asyncDispose]();
      else resource[Symbol.dispose]();
    });
    return resource;
  }

  /** Closes everything, last given first. One that fails does not stop the others. @throws AggregateError */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll();
    return this.#closed;
  }

  async #closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (let next = this.#closers.pop(); next !== undefined; next = this.#closers.pop()) {
      try {
        await next.close();
      } catch (cause) {
        failures.push(new Error(`closing ${next.name} failed`, { cause }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, 'closing a scope failed');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
