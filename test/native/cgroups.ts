/** Cgroups of a test's own, for those that run the executor alone. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../helpers/until.js';

/** Where a hierarchy is mounted, if it can be used. */
function usable(type: string, option: string): string | undefined {
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '));
  const [, at] =
    mounts.find(([, , kind, options]) => kind === type && options?.split(',').includes(option)) ?? [];
  if (at === undefined) return undefined;
  try {
    const probe = join(at, `holdfast-native-test-${process.pid}`);
    mkdirSync(probe);
    rmdirSync(probe);
    return at;
  } catch {
    return undefined;
  }
}

export const V2 = usable('cgroup2', 'rw');
export const V1_MEMORY = usable('cgroup', 'memory');
export const V1_CPUACCT = usable('cgroup', 'cpuacct');
/** For tests that cannot do without it. */
export const needs = (mount: string | undefined, what: string): { skip: string | false } => ({
  skip: mount === undefined ? `no ${what} hierarchy that we may write to` : false,
});

let made = 0;
/** A cgroup for one test; whoever disposes of it must have ended all its processes. */
export class Cgroup implements AsyncDisposable {
  readonly dir: string;
  readonly name: string;

  /** @param parent where a hierarchy is mounted, or a cgroup */
  constructor(parent = '', name = `holdfast-native-test-${process.pid}-${made++}`) {
    this.name = name;
    this.dir = join(parent, name);
    mkdirSync(this.dir);
  }
  pids(): number[] {
    const text = readFileSync(join(this.dir, 'cgroup.procs'), 'utf8');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map(Number);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    if (!existsSync(this.dir)) return;
    if (existsSync(join(this.dir, 'cgroup.kill'))) writeFileSync(join(this.dir, 'cgroup.kill'), '1');
    await until('the cgroup is empty', () => this.pids().length === 0);
    rmdirSync(this.dir);
  }
}
