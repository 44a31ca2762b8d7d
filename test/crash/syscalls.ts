/**
 * Owns killing at a system call: strace sends SIGKILL as the Nth call of a kind is entered, so that everything before it
 * has happened and it has not. For the agent each of its lives gets one such plan; for executors each launch gets one.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Failpoint } from '../../src/base/failpoint.js';
import { findExecutor } from '../../src/executor/binary.js';
import type { Chance } from './chance.js';
import { pause, type CrashWorld } from './world.js';

/** Calls by which something becomes durable, visible or alive. */
const AGENT_CALLS = [
  ...['fdatasync', 'pwrite64', 'rename', 'mkdir', 'rmdir', 'unlink', 'connect', 'clone', 'clone3', 'openat'],
];
const EXECUTOR_CALLS = [
  ...[
    'openat',
    'renameat',
    'renameat2',
    'write',
    'clone3',
    'fsync',
    'flock',
    'mknodat',
    'bind',
    'waitid',
    'unlinkat',
    'read',
    'tee',
    'pwrite64',
  ],
  ...['close', 'epoll_wait', 'epoll_ctl', 'setsid', 'fallocate', 'execve'],
];

/** @returns the path of a strace that can do it, or why there is none */
export function findStrace(): { readonly path: string } | { readonly missing: string } {
  for (const path of ['/usr/bin/strace', '/usr/local/bin/strace', '/bin/strace']) {
    const said = spawnSync(path, [
      '-f',
      '-o',
      '/dev/null',
      '-e',
      'inject=sync:signal=KILL:when=1',
      '/bin/true',
    ]);
    if (said.error !== undefined) continue;
    if (said.status === 0) return { path };
    return { missing: `${path} cannot trace here: ${said.stderr.toString().trim()}` };
  }
  return { missing: 'strace is not installed' };
}

/**
 * An executor program that dies at a planned moment: it takes the next plan, if there is one, and is the real executor
 * under strace; or the real executor alone. Its name is the real one's, by which its processes are told. The child that becomes
 * the task is let go when it goes on as the launcher: deaths on the way from there are in test/native/isolate.test.ts.
 */
export class DoomedExecutor {
  readonly path: string;
  readonly #plans: string;
  readonly #logs: string;

  constructor(dir: string, strace: string) {
    const home = join(dir, 'doomed');
    this.path = join(home, 'holdfast-executor');
    this.#plans = join(home, 'plans');
    this.#logs = join(home, 'logs');
    for (const path of [home, this.#plans, this.#logs, join(home, 'taken')])
      mkdirSync(path, { recursive: true });
    const real = findExecutor();
    writeFileSync(
      this.path,
      `#!/bin/sh
case $1 in version | launch | notify) exec ${real} "$@" ;; esac
for plan in ${this.#plans}/*; do
  name=\${plan##*/}
  /bin/mv "$plan" ${home}/taken/ 2>/dev/null || continue
  call=\${name#*-}; when=\${call#*-}; call=\${call%%-*}
  exec ${strace} -D -f -b execve -o ${this.#logs}/$name -e trace=$call -e inject=$call:signal=KILL:when=$when ${real} "$@"
done
exec ${real} "$@"
`,
    );
    chmodSync(this.path, 0o755);
  }

  /** Plans a death at the first to the `most`th call of each kind. */
  plan(most: number): void {
    let order = 1000;
    for (let when = 1; when <= most; when++)
      for (const call of EXECUTOR_CALLS) writeFileSync(join(this.#plans, `${order++}-${call}-${when}`), '');
  }

  /** Deaths that are still planned. */
  left(): number {
    return readdirSync(this.#plans).length;
  }

  /** From now on nobody dies. */
  pardon(): void {
    for (const name of readdirSync(this.#plans)) rmSync(join(this.#plans, name), { force: true });
  }

  /** Processes that strace has killed. */
  deaths(): number {
    return readdirSync(this.#logs).filter((name) =>
      readFileSync(join(this.#logs, name), 'utf8').includes('killed by SIGKILL'),
    ).length;
  }
}

/** Jobs start, end and are restarted until every planned death has had its launch. */
export async function doomedExecutorsRound(
  world: CrashWorld,
  chance: Chance,
  doomed: DoomedExecutor,
  isLate: () => boolean,
): Promise<void> {
  world.executorsAreDoomed = true;
  while (doomed.left() > 0 && !isLate()) {
    await world.look();
    for (const workload of world.workloads) {
      if (workload.kind === 'budget' || chance.happens(0.7)) continue;
      if (chance.happens(0.5)) await world.restart(workload);
      else await world.register(workload, chance.happens(0.5) ? 'replacing' : 'none');
    }
    await pause(200);
  }
}

/** A command that runs the agent until its Nth call of some kind. */
export function atSomeCall(chance: Chance, strace: string): readonly string[] {
  const call = chance.oneOf(AGENT_CALLS) ?? 'pwrite64';
  const when = 1 + Math.floor(chance.next() ** 2 * (call === 'openat' ? 250 : 60));
  return [
    ...[strace, '-D', '-f', '-b', 'execve', '-o', '/dev/null'],
    ...['-e', `trace=${call}`, '-e', `inject=${call}:signal=KILL:when=${when}`],
  ];
}

/** A command that runs the agent until it comes to a failpoint for the Nth time. */
export function atFailpoint(name: Failpoint, when: number): readonly string[] {
  return ['/usr/bin/env', `HOLDFAST_FAILPOINT=${name}:${when}`];
}

/**
 * One life of the agent, which ends where `prefix` makes it, or soon.
 * @returns true when it ended by itself
 */
export async function doomedAgentRound(
  world: CrashWorld,
  chance: Chance,
  prefix: readonly string[],
): Promise<boolean> {
  await world.killAgent();
  world.agent.launch(prefix);
  const up = await world.agent.ready().then(
    () => true,
    () => false,
  );
  if (up) {
    await world.look();
    // One of them always is, so that jobs, stops and starts are all met with in each life.
    const [first] = world.workloads;
    if (first !== undefined) await world.register(first, 'replacing');
    for (const workload of world.workloads) {
      if (!world.agent.isUp()) break;
      if (workload.kind === 'budget' || chance.happens(0.6)) continue;
      if (chance.happens(0.4)) await world.restart(workload);
      else await world.register(workload, chance.happens(0.5) ? 'replacing' : 'in_place');
      await pause(chance.next() * 30);
    }
  }
  const health = await world.agent.request('GET', '/v1/agent/health').catch(() => undefined);
  const died = health === undefined;
  await world.killAgent();
  world.agent.launch();
  await world.agent.ready();
  return died;
}
