/** Owns what `holdfast dev` prints: a line for each task event. */
import { describeEvent } from '../events/task-event.js';
import type { StateStore } from '../state/store.js';

/** Prints every task event that is stored from now on. Disposing ends it. */
export function printEvents(store: StateStore, out: NodeJS.WritableStream): Disposable {
  return store.onCommitted((rows) => {
    for (const { payload } of rows) {
      if (payload.topic !== 'TaskEvent') continue;
      const { atMs, task, event } = payload.event;
      // The time of the user's clock, as the CLI shows it.
      const time = new Date(atMs).toTimeString().slice(0, 8);
      out.write(`${time}  ${payload.jobId}/${task}  ${event.type}: ${describeEvent(event)}\n`);
    }
  });
}
