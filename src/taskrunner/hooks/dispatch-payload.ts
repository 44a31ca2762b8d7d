/** Hook: writes what the job was dispatched with into the task's `local/`. Done once: the payload never changes. */
import { AgentError } from '../../base/errors.js';
import type { TaskHook } from './hook.js';
import { Directory, placeOf } from './place.js';

export const dispatchPayloadHook: TaskHook = {
  name: 'dispatch_payload',
  concerns: ({ dispatchPayload }) => dispatchPayload !== undefined,
  prestart: async ({ task, dirs, payload }) => {
    // Nothing to remember: a record would be a commit that each start waits for.
    if (task.dispatchPayload === undefined || payload === undefined) return undefined;
    const { names, shown } = placeOf(task.dispatchPayload.file, { ...dirs, taskDir: dirs.localDir });
    const name = names.at(-1);
    if (name === undefined) throw new AgentError('hook_failed', `dispatch_payload: ${shown} names no file`);
    await using directory = await Directory.open(dirs.localDir, names.slice(0, -1), true);
    await directory.replaceFile(name, { mode: 0o644 }, async (handle) => {
      await handle.writeFile(payload);
    });
    return { done: 'always' };
  },
};
