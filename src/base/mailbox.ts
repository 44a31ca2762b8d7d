/**
 * Owns one actor's queue: messages are handled one at a time, in order, each to completion before the next.
 * It holds no policy; the handler must not throw (what it throws goes to `onFault`, and the queue goes on).
 */
export class Mailbox<Message> {
  readonly #handle: (message: Message) => void | Promise<void>;
  readonly #onFault: (fault: unknown, message: Message) => void;
  readonly #queue: Message[] = [];
  #running = false;
  #closed = false;
  #idle: Promise<void> = Promise.resolve();

  constructor(
    handle: (message: Message) => void | Promise<void>,
    onFault: (fault: unknown, message: Message) => void,
  ) {
    this.#handle = handle;
    this.#onFault = onFault;
  }

  /** Queues a message. After `close` it is dropped. Never runs the handler within the call. */
  post(message: Message): void {
    if (this.#closed) return;
    this.#queue.push(message);
    if (this.#running) return;
    this.#running = true;
    this.#idle = this.#drain();
  }

  /** Drops what is queued and takes no more. The message being handled finishes: await `idle()`. */
  close(): void {
    this.#closed = true;
    this.#queue.length = 0;
  }

  /** True when no message waits; one may be being handled. */
  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Resolves when the queue is empty and no message is being handled. */
  idle(): Promise<void> {
    return this.#idle;
  }

  async #drain(): Promise<void> {
    await Promise.resolve();
    for (let message = this.#queue.shift(); message !== undefined; message = this.#queue.shift()) {
      try {
        await this.#handle(message);
      } catch (fault) {
        this.#onFault(fault, message);
      }
    }
    this.#running = false;
  }
}
