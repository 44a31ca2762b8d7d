/**
 * Owns what this host and this user can do to shut a task in. It is tried, not guessed: by a process that enters the
 * namespaces and ends.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { NAMESPACE_BITS, type NamespaceName } from './isolation.js';

export interface HostIsolation {
  /** Namespaces that the kernel has and that can be entered. */
  readonly namespaces: ReadonlySet<NamespaceName>;
  /** Tasks are shut in by means of a user namespace: the agent is not root. */
  readonly userNamespace: boolean;
  readonly seccomp: boolean;
  /** Why no task can be shut in; undefined = it can. */
  readonly fault: { readonly problem: string; readonly cure: string } | undefined;
}

/** How the kernel files name the namespaces. */
export const NAMESPACE_FILES: Readonly<Record<NamespaceName, string>> = {
  mount: 'mnt',
  pid: 'pid',
  ipc: 'ipc',
  uts: 'uts',
  cgroup: 'cgroup',
  net: 'net',
  user: 'user',
};
/** A process that only enters namespaces takes milliseconds. */
const PROBE_WITHIN_MS = 5_000;

/** Asks the kernel, by the executor's own probe. @param uid of the agent */
export function probeIsolation(executorPath: string, uid: number): HostIsolation {
  const names = Object.keys(NAMESPACE_BITS) as NamespaceName[];
  const namespaces = new Set(names.filter((name) => existsSync(`/proc/self/ns/${NAMESPACE_FILES[name]}`)));
  const userNamespace = uid !== 0;
  const seccomp = existsSync('/proc/sys/kernel/seccomp/actions_avail');
  const said = spawnSync(executorPath, ['probe', userNamespace ? 'user' : 'root'], {
    encoding: 'utf8',
    timeout: PROBE_WITHIN_MS,
  });
  const fault =
    said.status === 0
      ? undefined
      : {
          problem: said.stderr.trim().replace(/^holdfast-executor: /, '') || 'its probe gave no answer',
          cure: cureOf(uid),
        };
  return { namespaces, userNamespace, seccomp, fault };
}

/** What an operator can do about namespaces that are refused. */
function cureOf(uid: number): string {
  if (uid === 0)
    return 'give the agent CAP_SYS_ADMIN: in a container, start that privileged, or use raw_exec';
  const limits: readonly (readonly [string, string, string])[] = [
    ['/proc/sys/kernel/unprivileged_userns_clone', '0', 'sysctl kernel.unprivileged_userns_clone=1'],
    [
      '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
      '1',
      'sysctl kernel.apparmor_restrict_unprivileged_userns=0',
    ],
    ['/proc/sys/user/max_user_namespaces', '0', 'sysctl user.max_user_namespaces=10000'],
  ];
  for (const [file, bad, cure] of limits)
    if (readText(file) === bad) return `as root: ${cure}, or run the agent as root`;
  return 'run the agent as root, or allow user namespaces to ordinary users';
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
