/** Hook: finds the directories of the host that the task's volumes stand for. The driver mounts them. */
import { statSync } from 'node:fs';
import { AgentError, describeError } from '../../base/errors.js';
import type { TaskMount } from '../../drivers/driver.js';
import type { TaskHook } from './hook.js';

/** A directory of the host that job files may ask for by its name. */
export interface HostVolume {
  readonly path: string;
  readonly readOnly: boolean;
}

/** @param offered the volumes of the agent's configuration, by name */
export function volumesHook(offered: Readonly<Record<string, HostVolume>>): TaskHook {
  return {
    name: 'volumes',
    concerns: ({ volumeMounts = [] }) => volumeMounts.length > 0,
    prestart: ({ task, group }) => {
      const mounts = (task.volumeMounts ?? []).map(({ volume, destination, readOnly }): TaskMount => {
        const asked = group.volumes?.[volume];
        const host = asked === undefined ? undefined : offered[asked.source];
        if (asked === undefined || host === undefined) throw unknownVolume(asked?.source ?? volume, offered);
        check(asked.source, host.path);
        return {
          source: host.path,
          target: destination,
          readOnly: host.readOnly || asked.readOnly || readOnly,
        };
      });
      return Promise.resolve(mounts.length === 0 ? undefined : { mounts });
    },
  };
}

function unknownVolume(name: string, offered: Readonly<Record<string, HostVolume>>): AgentError {
  const names = Object.keys(offered);
  const there = names.length === 0 ? 'it offers none' : `it offers ${names.join(', ')}`;
  return new AgentError(
    'start_failed',
    `this agent offers no host volume ${JSON.stringify(name)}: ${there}; add it under host_volume in its configuration`,
  );
}

function check(name: string, path: string): void {
  try {
    statSync(path);
  } catch (cause) {
    throw new AgentError('start_failed', `host volume ${name}: ${describeError(cause)}`, { cause });
  }
}
