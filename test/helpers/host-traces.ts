/** What an agent leaves to be seen from outside: the status of its runs, and its cgroups. */
import { existsSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessRef } from '../../src/base/host.js';

/** The processes that a run's own status names. */
export function readStatus(runDir: string): {
  executor: ProcessRef | undefined;
  workload: ProcessRef | undefined;
} {
  const path = join(runDir, 'status');
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const number = (key: string): number | undefined => {
    const found = new RegExp(`^${key}=(\\d+)$`, 'm').exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  };
  const ref = (pid: number | undefined, startTicks: number | undefined): ProcessRef | undefined =>
    pid === undefined || startTicks === undefined ? undefined : { pid, startTicks };
  return {
    executor: ref(number('executor_pid'), number('executor_start')),
    workload: ref(number('pid'), number('pid_start')),
  };
}

/** Where a cgroup of that name is, in all mounted hierarchies. */
export function cgroupRoots(name: string): readonly string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => join(line.split(' ')[4] ?? '', name))
    .filter((path) => existsSync(path));
}

/** Removes a cgroup with those below it, as far as nothing runs in them. */
export function removeTree(dir: string): void {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(join(dir, entry.name));
  }
  try {
    rmdirSync(dir);
  } catch {
    // Something is in it still: the leak check of the run will name it.
  }
}
