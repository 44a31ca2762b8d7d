/** Cgroups handed over to an ordinary user on the real file systems, as systemd or an operator does it; gone when it is disposed of. */
import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseCgroupMounts } from '../../src/executor/cgroup-roots.js';
import { removeTree } from './host-traces.js';
import { until } from './until.js';

/** Nobody. */
export const ORDINARY_UID = 65_534;

/** Command that runs what follows it as that user, with no word of where its cgroups shall be. */
export const AS_ORDINARY_USER = [
  'sh',
  '-c',
  `exec setpriv --reuid ${ORDINARY_UID} --regid ${ORDINARY_UID} --clear-groups env -u HOLDFAST_CGROUP_ROOT "$@"`,
  'sh',
];

let made = 0;

export class DelegatedCgroups implements AsyncDisposable {
  readonly name = `holdfast-test-${process.pid}-delegated-${(made += 1)}`;
  /** What was handed over, by controller; '' = the v2 tree. */
  readonly dirs: ReadonlyMap<string, string>;
  readonly #tops: readonly string[];

  /** @param controllers v1 ones, as far as they are mounted. The v2 tree comes along */
  constructor(controllers: readonly string[]) {
    const dirs = new Map<string, string>();
    const tops: string[] = [];
    for (const [controller, mount] of usableMounts()) {
      if (controller !== '' && !controllers.includes(controller)) continue;
      const top = join(mount, this.name);
      const dir = join(top, 'agent');
      mkdirSync(top);
      tops.push(top);
      mkdirSync(dir);
      for (const path of [dir, ...handedOver(controller).map((file) => join(dir, file))])
        chownSync(path, ORDINARY_UID, ORDINARY_UID);
      dirs.set(controller, dir);
    }
    this.dirs = dirs;
    this.#tops = tops;
  }

  /** Command that runs what follows it as the ordinary user, in these cgroups or a child that it makes there. */
  command(child = ''): readonly string[] {
    const moves = [...this.dirs].map(([controller, dir]) => {
      const at = join(dir, child);
      const files = handedOver(controller).map((file) => join(at, file));
      return `mkdir -p ${at} && chown ${ORDINARY_UID} ${at} ${files.join(' ')} && echo $$ > ${at}/cgroup.procs`;
    });
    const [, , script = '', name = ''] = AS_ORDINARY_USER;
    return ['sh', '-c', [...moves, script].join(' && '), name];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await until('what was handed over is removed', () => {
      for (const top of this.#tops) if (existsSync(top)) removeTree(top);
      return this.#tops.every((top) => !existsSync(top));
    });
  }
}

/** What of a group systemd gives to the user of the unit. */
function handedOver(controller: string): readonly string[] {
  return controller === ''
    ? ['cgroup.procs', 'cgroup.subtree_control', 'cgroup.threads']
    : ['cgroup.procs', 'tasks'];
}

/** Why it cannot be had here; false = it can. @param readable what the ordinary user has to read */
export function whyNotDelegated(readable: readonly string[]): string | false {
  if (process.getuid?.() !== 0) return 'handing over a cgroup needs root';
  const [command = '', ...args] = AS_ORDINARY_USER;
  const look = ['sh', '-c', 'for f; do [ -r "$f" ] || exit 1; done', 'sh', ...readable];
  if (spawnSync(command, [...args, ...look]).status !== 0) return 'an ordinary user cannot read the program';
  return usableMounts().length === 0 ? 'no cgroup can be made here' : false;
}

function usableMounts(): readonly (readonly [string, string])[] {
  const { unified, v1 } = parseCgroupMounts(readFileSync('/proc/self/mountinfo', 'utf8'));
  // Two controllers may share a hierarchy.
  const byMount = new Map([...v1].map(([controller, mount]) => [mount, controller]));
  const mounts = [
    ...(unified === undefined ? [] : [['', unified] as const]),
    ...[...byMount].map(([mount, controller]) => [controller, mount] as const),
  ];
  return mounts.filter(([, mount]) => {
    try {
      const probe = join(mount, `holdfast-test-${process.pid}-probe`);
      mkdirSync(probe);
      rmdirSync(probe);
      return true;
    } catch {
      return false;
    }
  });
}
