/**
 * Owns one virtual machine: starts it, runs commands in it over a virtio port, stops its time, cuts its power. Its own
 * processors are emulated, so everything in it takes ten to thirty times as long as here.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { until } from '../helpers/until.js';
import type { Image } from './image.js';

const BOOT_MS = 150_000;
const COMMAND_MS = 90_000;

/** What a command in the guest came to. */
export interface Done {
  readonly code: number;
  /** stdout and stderr together. */
  readonly text: string;
}

export class Machine implements AsyncDisposable {
  readonly #dir: string;
  readonly #image: Image;
  readonly #disks: readonly string[];
  #process: ChildProcess | undefined;
  #shell: Socket | undefined;
  #said = '';
  #commands = 0;

  /** @param dir for its layer over the root disk, its sockets and its console @param disks the further ones, raw */
  constructor(dir: string, image: Image, disks: readonly string[]) {
    this.#dir = dir;
    this.#image = image;
    this.#disks = disks;
    const made = spawnSync(
      'qemu-img',
      ['create', '-q', '-f', 'qcow2', '-b', image.root, '-F', 'raw', this.#path('root.qcow2')],
      { encoding: 'utf8' },
    );
    assert.equal(made.status, 0, made.stderr);
  }

  /** Switches it on, and waits for its shell. */
  async boot(): Promise<void> {
    for (const name of ['shell', 'monitor']) rmSync(this.#path(name), { force: true });
    const drive = (file: string, format: string): string[] => [
      '-drive',
      `file=${file},if=virtio,format=${format},cache=writeback`,
    ];
    const args = [
      // qemu's emulation crashes now and then with cmpxchg16b, 57-bit addresses, or a thread for each processor.
      ...['-accel', 'tcg,thread=single,tb-size=256', '-cpu', 'max,-cx16,-la57', '-machine', 'q35'],
      ...['-m', '1024', '-smp', '2', '-display', 'none', '-no-reboot', '-nodefaults'],
      ...['-kernel', this.#image.kernel, '-initrd', this.#image.initrd, '-append'],
      'console=ttyS0 panic=-1 quiet mitigations=off systemd.show_status=0 net.ifnames=0',
      ...drive(this.#path('root.qcow2'), 'qcow2'),
      ...this.#disks.flatMap((disk) => drive(disk, 'raw')),
      ...['-device', 'virtio-rng-pci', '-serial', `file:${this.#path('console.log')}`],
      ...['-device', 'virtio-serial-pci', '-device', 'virtserialport,chardev=shell,name=shell'],
      ...['-chardev', `socket,id=shell,path=${this.#path('shell')},server=on,wait=off`],
      ...['-qmp', `unix:${this.#path('monitor')},server=on,wait=off`],
    ];
    const log = openSync(this.#path('qemu.log'), 'a');
    // It goes with this program, however that ends.
    const command = ['--pdeathsig', 'KILL', 'qemu-system-x86_64', ...args];
    const child = spawn('setpriv', command, { stdio: ['ignore', log, log] });
    closeSync(log);
    this.#process = child;
    await until('qemu opens its sockets', () => existsSync(this.#path('shell')), {
      timeoutMs: COMMAND_MS,
      lastSeen: () => this.#console(),
    });
    this.#said = '';
    const shell = createConnection(this.#path('shell'));
    shell.setEncoding('utf8').on('data', (chunk: string) => (this.#said += chunk));
    shell.on('error', () => undefined);
    this.#shell = shell;
    await this.#wait(/GUEST-READY\r?\n/, 'the guest gives a shell', BOOT_MS);
  }

  /** Runs a command in the guest's shell. Fails when it does not end in time, not when it fails. */
  async sh(command: string, timeoutMs = COMMAND_MS): Promise<Done> {
    const mark = `@@${(this.#commands += 1)}`;
    this.#shell?.write(`{ ${command}\n} 2>&1 </dev/null; echo "${mark}:$?@@"\n`);
    const [before, code] = await this.#wait(new RegExp(`${mark}:(\\d+)@@\\r?\\n`), command, timeoutMs);
    return { code: Number(code), text: before.replaceAll('\r', '') };
  }

  /** Runs a command that must succeed. @returns what it said, without the last line break */
  async out(command: string, timeoutMs = COMMAND_MS): Promise<string> {
    const { code, text } = await this.sh(command, timeoutMs);
    assert.equal(code, 0, `${command}\n${text}`);
    return text.trimEnd();
  }

  /** Starts writing a command and waits for nothing; the machine is to be cut or will reboot. */
  send(command: string): void {
    this.#shell?.write(`${command}\n`);
  }

  /** All that the shell has said since the last command ended. */
  get said(): string {
    return this.#said;
  }

  /** Cuts the power: what the guest has not sent to its disks is gone. */
  async cut(): Promise<void> {
    await this.#end((child) => child.kill('SIGKILL'));
  }

  /** Waits until the machine has switched itself off (a reboot ends it as well: boot it again). */
  async left(timeoutMs = 90_000): Promise<void> {
    const child = this.#process;
    await until('the guest switches off', () => child?.exitCode !== null || child.signalCode !== null, {
      timeoutMs,
      lastSeen: () => this.#console(),
    });
    await this.#end(() => undefined);
  }

  /** Lets no time pass in the guest for a while, as a laptop that is closed: its clocks go on when it wakes. */
  async sleep(ms: number): Promise<void> {
    await this.#monitor('stop');
    await new Promise((resolve) => setTimeout(resolve, ms));
    await this.#monitor('cont');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
  }

  async #end(act: (child: ChildProcess) => void): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      act(child);
      await ended;
    }
    this.#shell?.destroy();
    this.#shell = undefined;
  }

  async #monitor(execute: string): Promise<void> {
    const socket = createConnection(this.#path('monitor'));
    let heard = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => (heard += chunk));
    try {
      await until('the monitor greets', () => heard.includes('"QMP"'));
      for (const command of ['qmp_capabilities', execute]) {
        heard = '';
        socket.write(`${JSON.stringify({ execute: command })}\n`);
        await until(`the monitor does ${command}`, () => heard.includes('"return"'), {
          lastSeen: () => heard,
        });
      }
    } finally {
      socket.destroy();
    }
  }

  /** @returns what came before the pattern, and its first group */
  async #wait(pattern: RegExp, what: string, timeoutMs: number): Promise<readonly [string, string]> {
    const child = this.#process;
    return await until(
      what,
      () => {
        const match = pattern.exec(this.#said);
        if (match === null) {
          assert.ok(
            child?.exitCode === null && child.signalCode === null,
            `the machine ended (${child?.exitCode ?? child?.signalCode}) while waiting for: ${what}\n${this.#console()}`,
          );
          return undefined;
        }
        const before = this.#said.slice(0, match.index);
        this.#said = this.#said.slice(match.index + match[0].length);
        return [before, match[1] ?? ''] as const;
      },
      { timeoutMs, everyMs: 20, lastSeen: () => `${this.#said.slice(-1_000)}\nconsole: ${this.#console()}` },
    );
  }

  #console(): string {
    const read = (name: string): string =>
      existsSync(this.#path(name)) ? readFileSync(this.#path(name), 'utf8').slice(-1_500) : '';
    return read('qemu.log') + read('console.log');
  }

  #path(name: string): string {
    return join(this.#dir, name);
  }
}
