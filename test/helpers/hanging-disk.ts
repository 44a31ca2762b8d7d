/** A disk that hangs on demand: an ext4 of its own, frozen. What waits for it cannot even be killed. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './until.js';

/** Should the test itself be held up by what it has frozen. */
const THAW_SECONDS = 60;
const DISK_BYTES = 16 << 20;

/** An ext4 in a file. While it is frozen nobody may write to it, this process least of all. */
export class HangingDisk implements AsyncDisposable {
  readonly dir: string;
  #watchdog: ChildProcess | undefined;

  /** @param dir where it is mounted */
  constructor(image: string, dir: string, sectorBytes = 512) {
    this.dir = dir;
    mkdirSync(dir, { recursive: true });
    writeFileSync(image, '');
    truncateSync(image, DISK_BYTES);
    execFileSync('mkfs.ext4', ['-q', '-b', '4096', image]);
    const attach = ['--find', '--show', '--sector-size', String(sectorBytes), image];
    const device = execFileSync('losetup', attach, { encoding: 'utf8' }).trim();
    try {
      execFileSync('mount', [device, this.dir]);
    } finally {
      // It goes with the mount.
      execFileSync('losetup', ['--detach', device]);
    }
  }

  freeze(): void {
    const thaw = `sleep ${THAW_SECONDS}; exec fsfreeze -u "$0"`;
    // A group of its own: it outlives whatever ends this process, and its sleep goes with it.
    this.#watchdog = spawn('/bin/sh', ['-c', thaw, this.dir], { stdio: 'ignore', detached: true });
    execFileSync('fsfreeze', ['-f', this.dir]);
  }

  thaw(): void {
    const pid = this.#watchdog?.pid;
    if (pid === undefined) return;
    execFileSync('fsfreeze', ['-u', this.dir]);
    process.kill(-pid, 'SIGKILL');
    this.#watchdog = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await until('the disk is no longer in use', () => {
      try {
        execFileSync('umount', [this.dir], { stdio: 'ignore' });
        return true;
      } catch {
        return false;
      }
    });
  }
}

/** Whether this machine lets us have one. */
export function canHaveHangingDisk(): boolean {
  if (process.getuid?.() !== 0 || !existsSync('/dev/loop-control')) return false;
  return ['/usr/sbin', '/sbin'].some((dir) =>
    ['mkfs.ext4', 'losetup', 'fsfreeze'].every((name) => existsSync(join(dir, name))),
  );
}

/** Whether a thread of it waits in the kernel where no signal reaches it. */
export function hangs(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).some((tid) =>
    / D /.test(readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8').slice(-400)),
  );
}
