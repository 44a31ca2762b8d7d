/** Owns a reader of the feed that resumes after each death of the agent, and notes every gap, repeat and wrong order. */
import { request, type IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import type { TaskEvent, TaskEventRow } from '../../src/api/wire.js';
import type { TaskEventType } from '../../src/events/task-event.js';
import { EVENT_ORDER, type Place } from '../helpers/event-order.js';

interface Message {
  readonly Index?: number;
  readonly Snapshot?: unknown;
  readonly Lost?: unknown;
  readonly Events?: readonly {
    readonly Topic: string;
    readonly Index: number;
    readonly Payload: { readonly TaskEvent?: TaskEventRow };
  }[];
}

interface TaskStory {
  seq: number;
  place: Place;
  readonly events: TaskEvent[];
}

const RECONNECT_MS = 15;

export class FeedReader {
  readonly faults: string[] = [];
  /** By alloc id. */
  readonly stories = new Map<string, TaskStory>();
  index = 0;
  connections = 0;
  readonly #socket: string;
  #call: { destroy(): void } | undefined;
  #closed = false;
  readonly #done: Promise<void>;

  constructor(socket: string) {
    this.#socket = socket;
    this.#done = this.#follow();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#call?.destroy();
    await this.#done;
  }

  async #follow(): Promise<void> {
    while (!this.#closed) {
      await this.#once();
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  }

  #once(): Promise<void> {
    const from = this.index === 0 ? 'snapshot=true' : `index=${this.index}`;
    return new Promise((resolve) => {
      const call = request(
        { socketPath: this.#socket, path: `/v1/event/stream?${from}`, agent: false },
        (answer) => {
          this.connections += 1;
          void this.#read(answer).finally(resolve);
        },
      );
      call.on('error', () => {
        resolve();
      });
      call.on('close', () => {
        resolve();
      });
      this.#call = call;
      call.end();
    });
  }

  async #read(answer: IncomingMessage): Promise<void> {
    if (answer.statusCode !== 200) this.faults.push(`the feed answered ${String(answer.statusCode)}`);
    const lines = createInterface({ input: answer, crlfDelay: Infinity });
    answer.on('error', () => {
      lines.close();
    });
    try {
      for await (const line of lines) if (line !== '') this.#take(line);
    } catch {
      // Cut in the middle of a line: the agent died, and the line comes again.
    }
  }

  #take(line: string): void {
    let message: Message;
    try {
      message = JSON.parse(line) as Message;
    } catch {
      return;
    }
    if (message.Lost !== undefined) this.faults.push(`the feed says it lost something: ${line}`);
    if (message.Snapshot !== undefined) this.index = message.Index ?? 0;
    for (const event of message.Events ?? []) {
      if (event.Index !== this.index + 1) this.faults.push(`feed index ${event.Index} after ${this.index}`);
      this.index = event.Index;
      if (event.Payload.TaskEvent !== undefined) this.#story(event.Payload.TaskEvent);
    }
  }

  #story(event: TaskEventRow): void {
    const story = this.stories.get(event.AllocID) ?? { seq: 0, place: 'unborn', events: [] };
    this.stories.set(event.AllocID, story);
    const { Seq } = event.Holdfast;
    if (Seq !== story.seq + 1) this.faults.push(`${event.AllocID}: event ${Seq} after ${story.seq}`);
    const next: Place | undefined = EVENT_ORDER[event.Type as TaskEventType][story.place];
    if (next === undefined) {
      const before = story.events.slice(-6).map(({ Type }) => Type);
      this.faults.push(`${event.AllocID}: ${event.Type} while ${story.place}, after ${before.join(', ')}`);
    }
    story.seq = Seq;
    story.place = next ?? story.place;
    story.events.push(event);
  }
}
