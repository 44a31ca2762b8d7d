/** `holdfast dev`: whatever ends it, its tasks and its directory are gone. */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import { CLI, removeCgroups } from './cli-world.js';

const DEADLINE_MS = 60_000;
let homes = 0;

interface Dev {
  readonly child: ChildProcess;
  text(): string;
  /** @returns the exit code */
  ended(): Promise<number | null>;
}

/** A directory that stands for the temporary one of the host. Close it. */
class Home {
  readonly dir = mkdtempSync(join(tmpdir(), 'hf-dev-'));
  readonly #cgroupRoot = `holdfast-test-dev-${process.pid}-${(homes += 1)}.slice`;

  dev(script: string, type: 'batch' | 'service' = 'service', restarts = 0): Dev {
    const file = join(this.dir, 'job.hcl');
    writeFileSync(
      file,
      `job "try" {
         type = "${type}"
         group "g" {
           restart {
             attempts = ${restarts}
             delay    = "100ms"
           }
           task "t" {
             driver = "raw_exec"
             config {
               command = "/bin/sh"
               args    = ["-c", ${JSON.stringify(script)}]
             }
           }
         }
       }`,
    );
    const child = spawn(process.execPath, [CLI, 'dev', file], {
      env: {
        PATH: process.env['PATH'] ?? '/usr/bin:/bin',
        HOME: this.dir,
        TMPDIR: this.dir,
        HOLDFAST_CGROUP_ROOT: this.#cgroupRoot,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data: Buffer) => {
        text += data.toString();
      });
    }
    const over = once(child, 'exit') as Promise<[number | null]>;
    return {
      child,
      text: () => text,
      ended: async () => {
        const timer = setTimeout(() => child.kill('SIGKILL'), DEADLINE_MS);
        const [code] = await over;
        clearTimeout(timer);
        return code;
      },
    };
  }

  /** What `dev` has left of its directory. */
  left(): readonly string[] {
    return readdirSync(this.dir).filter((name) => name.startsWith('holdfast-dev-'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeCgroups(this.#cgroupRoot);
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The pid of the task, once it runs. */
async function startedPid(dev: Dev): Promise<number> {
  return await until(
    'the task is started',
    () => Number(/, pid (\d+)/.exec(dev.text())?.[1] ?? 0) || undefined,
    {
      timeoutMs: DEADLINE_MS,
      lastSeen: () => dev.text(),
    },
  );
}

describe('holdfast dev', { timeout: 180_000 }, () => {
  it('ends with its job, and says how it went', async () => {
    await using home = new Home();
    const good = home.dev('echo fine', 'batch');
    assert.equal(await good.ended(), 0, good.text());
    assert.match(good.text(), /job try is complete/);
    const bad = home.dev('exit 3', 'batch');
    assert.equal(await bad.ended(), 1, bad.text());
    assert.match(bad.text(), /Terminated: Task exited 3\n[^]*job try failed/);
    assert.deepEqual(home.left(), []);
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    it(`stops its tasks and removes everything on ${signal}`, async () => {
      await using home = new Home();
      const dev = home.dev('exec sleep 1000');
      const pid = await startedPid(dev);
      dev.child.kill(signal);
      assert.equal(await dev.ended(), 0, dev.text());
      assert.equal(isAlive(pid), false);
      assert.deepEqual(home.left(), []);
    });
  }

  it('does the same when nobody reads on: a closed window, | head', async () => {
    await using home = new Home();
    const dev = home.dev('sleep 1; exit 3', 'service', 100);
    const pid = await startedPid(dev);
    dev.child.stdout?.destroy();
    dev.child.stderr?.destroy();
    // What the task does next is a line that cannot be written.
    assert.equal(await dev.ended(), 0, dev.text());
    assert.equal(isAlive(pid), false);
    assert.deepEqual(home.left(), []);
  });
});
