/**
 * Owns the disk images of the guest: a small Debian with systemd as its first process, made once and kept in a cache
 * outside the repository, and the disk with the code under test, made anew for each run.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../src/base/package-root.js';
import { INIT, MASKED_UNITS, SHELL_UNIT } from './guest.js';

const SUITE = 'trixie';
/** What the guest needs besides a minimal Debian: systemd as a host has it, and the tools that the tests use. */
const PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'udev', 'kmod', 'procps', 'libstdc++6', 'curl'];
/** Kernel modules that must be there before the root file system is. */
const EARLY_MODULES = ['virtio_pci', 'virtio_blk', 'ext4', 'virtio_console'];
/** Room in the guest; the file is sparse. */
const ROOT_SIZE = '1500M';

/** program → Debian package */
const TOOLS: Readonly<Record<string, string>> = {
  'qemu-system-x86_64': 'qemu-system-x86',
  'qemu-img': 'qemu-utils',
  debootstrap: 'debootstrap',
  cpio: 'cpio',
  modprobe: 'kmod',
  busybox: 'busybox-static',
  xz: 'xz-utils',
  'mkfs.ext4': 'e2fsprogs',
};

/** The files that a machine is started from. */
export interface Image {
  readonly kernel: string;
  readonly initrd: string;
  /** Never written to: a machine has its own layer above it. */
  readonly root: string;
  readonly kernelVersion: string;
}

/** What is not there to run this, with the cure; undefined = all is there, after installing it where that is allowed. */
export function lacking(): string | undefined {
  if (process.arch !== 'x64') return `the guest is an x86-64 machine, this is ${process.arch}`;
  if (process.getuid?.() !== 0) return 'building the guest takes root (debootstrap, chroot): run it as root';
  const absent = (): string[] =>
    Object.keys(TOOLS).filter((tool) => spawnSync('sh', ['-c', `command -v ${tool}`]).status !== 0);
  if (absent().length === 0) return undefined;
  const wanted = absent().map((tool) => TOOLS[tool] ?? tool);
  say(`installing ${wanted.join(' ')} …`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  for (const args of [
    ['-qq', 'update'],
    ['-qq', 'install', '-y', '--no-install-recommends', ...wanted],
  ]) {
    spawnSync('apt-get', args, { env, stdio: 'ignore', timeout: 300_000 });
  }
  const still = absent();
  if (still.length === 0) return undefined;
  return `missing: ${still.join(', ')}. On Debian or Ubuntu: apt-get install -y ${still.map((tool) => TOOLS[tool]).join(' ')}`;
}

/** Gives the image, from the cache or made now (about a minute, most of it the download). Safe to interrupt. */
export function prepareImage(): Image {
  const cache =
    process.env['HOLDFAST_VM_CACHE'] ??
    join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'holdfast-vm');
  mkdirSync(cache, { recursive: true });
  const key = createHash('sha256')
    .update(JSON.stringify([SUITE, PACKAGES, EARLY_MODULES, INIT, SHELL_UNIT, MASKED_UNITS, ROOT_SIZE]))
    .update(readFileSync(new URL(import.meta.url)))
    .digest('hex')
    .slice(0, 12);
  const dir = join(cache, `${SUITE}-${key}`);
  if (!existsSync(dir)) buildImage(cache, dir);
  const kernelVersion = readFileSync(join(dir, 'kernel-version'), 'utf8').trim();
  return {
    kernel: join(dir, 'vmlinuz'),
    initrd: join(dir, 'initrd.img'),
    root: join(dir, 'root.img'),
    kernelVersion,
  };
}

function buildImage(cache: string, dir: string): void {
  const work = mkdtempSync(join(cache, 'making-'));
  try {
    const root = join(work, 'root');
    bootstrap(cache, root);
    const kernelVersion = unpackKernel(root, work);
    writeFileSync(join(work, 'kernel-version'), kernelVersion);
    makeInitrd(root, work, kernelVersion);
    configureGuest(root);
    makeExt4(join(work, 'root.img'), ROOT_SIZE, root);
    rmSync(root, { recursive: true });
    // Another copy may have been faster; either result will do.
    if (!existsSync(dir)) renameSync(work, dir);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  for (const name of readdirSync(cache)) {
    const isOld = name.startsWith(`${SUITE}-`) && join(cache, name) !== dir && !name.endsWith('.tar');
    if (isOld) rmSync(join(cache, name), { recursive: true, force: true });
  }
}

/** The packages, and the kernel's, which is not installed but lies in /boot.deb. Kept as a tar file of its own. */
function bootstrap(cache: string, root: string): void {
  const key = createHash('sha256').update(PACKAGES.join(' ')).digest('hex').slice(0, 12);
  const base = join(cache, `${SUITE}-base-${key}.tar`);
  if (!existsSync(base)) {
    say(`making a Debian guest (${SUITE}) in ${cache} …`);
    run('debootstrap', ['--variant=minbase', `--include=${PACKAGES.join(',')}`, SUITE, root, mirror()], 600);
    const download =
      'cd / && apt-get -qq download $(apt-cache depends linux-image-cloud-amd64 | sed -n "s/.*Depends: //p" | head -1)' +
      ' && mv linux-image-*.deb boot.deb';
    run('chroot', [root, 'sh', '-c', download], 300);
    for (const path of ['var/cache/apt/archives', 'var/lib/apt/lists', 'usr/share/doc', 'usr/share/man']) {
      rmSync(join(root, path), { recursive: true, force: true });
    }
    rmSync(join(root, 'usr/share/locale'), { recursive: true, force: true });
    run('tar', ['-C', root, '-cf', `${base}.${process.pid}`, '.'], 120);
    renameSync(`${base}.${process.pid}`, base);
    return;
  }
  mkdirSync(root);
  run('tar', ['-C', root, '-xf', base], 120);
}

/** @returns its version */
function unpackKernel(root: string, work: string): string {
  const unpacked = join(work, 'kernel');
  run('dpkg', ['-x', join(root, 'boot.deb'), unpacked], 120);
  rmSync(join(root, 'boot.deb'));
  const modules = [join(unpacked, 'usr/lib/modules'), join(unpacked, 'lib/modules')].find(existsSync);
  const version = modules === undefined ? undefined : readdirSync(modules)[0];
  if (modules === undefined || version === undefined) throw new Error('the kernel package has no modules');
  mkdirSync(join(root, 'usr/lib/modules'), { recursive: true });
  cpSync(join(modules, version), join(root, 'usr/lib/modules', version), { recursive: true });
  run('depmod', ['-b', join(root, 'usr'), version], 60);
  renameSync(join(unpacked, 'boot', `vmlinuz-${version}`), join(work, 'vmlinuz'));
  rmSync(unpacked, { recursive: true });
  return version;
}

/** A first root of a few modules and a shell: mounts the disks and hands over to systemd. */
function makeInitrd(root: string, work: string, kernelVersion: string): void {
  const dir = join(work, 'initrd');
  for (const name of ['bin', 'proc', 'sys', 'dev', 'root', 'modules']) {
    mkdirSync(join(dir, name), { recursive: true });
  }
  cpSync(realpathSync(whereIs('busybox')), join(dir, 'bin/busybox'));
  for (const applet of ['sh', 'mount', 'umount', 'insmod', 'switch_root', 'sleep', 'cat', 'mkdir']) {
    symlinkSync('busybox', join(dir, 'bin', applet));
  }
  const order: string[] = [];
  for (const module of EARLY_MODULES) {
    const listed = run('modprobe', ['-d', root, '-S', kernelVersion, '--show-depends', module], 30);
    for (const line of listed.split('\n')) {
      const path = /^insmod (\S+)/.exec(line)?.[1];
      if (path === undefined) continue;
      const name = path.slice(path.lastIndexOf('/') + 1).replace(/\.(xz|zst|gz)$/, '');
      if (order.includes(name)) continue;
      order.push(name);
      const unpack = path.endsWith('.xz') ? 'xz -dc' : path.endsWith('.zst') ? 'zstd -dc' : 'cat';
      run('sh', ['-c', `${unpack} "$0" > "$1"`, path, join(dir, 'modules', name)], 30);
    }
  }
  writeFileSync(join(dir, 'modules/order'), `${order.join('\n')}\n`);
  writeFileSync(join(dir, 'init'), INIT, { mode: 0o755 });
  run('sh', ['-c', `cd "$0" && find . | cpio -o -H newc | gzip -1 > ../initrd.img`, dir], 60);
  rmSync(dir, { recursive: true });
}

/** Boots fast, keeps its journal, and gives a root shell on a virtio port. */
function configureGuest(root: string): void {
  const etc = join(root, 'etc');
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(etc, path)), { recursive: true });
    writeFileSync(join(etc, path), text);
  };
  put('hostname', 'guest\n');
  put('hosts', '127.0.0.1 localhost guest\n');
  put('machine-id', '0123456789abcdef0123456789abcdef\n');
  put('fstab', '');
  put(
    'systemd/journald.conf.d/test.conf',
    '[Journal]\nStorage=persistent\nSyncIntervalSec=1s\nRateLimitBurst=0\n',
  );
  put('systemd/system/test-shell.service', SHELL_UNIT);
  mkdirSync(join(root, 'var/log/journal'), { recursive: true });
  mkdirSync(join(root, 'var/lib/holdfast'), { recursive: true });
  mkdirSync(join(root, 'mnt/code'), { recursive: true });
  const wants = join(etc, 'systemd/system/multi-user.target.wants');
  mkdirSync(wants, { recursive: true });
  symlinkSync('../test-shell.service', join(wants, 'test-shell.service'));
  for (const unit of MASKED_UNITS) {
    rmSync(join(etc, 'systemd/system', unit), { force: true });
    symlinkSync('/dev/null', join(etc, 'systemd/system', unit));
  }
  symlinkSync('/usr/lib/systemd/system/multi-user.target', join(etc, 'systemd/system/default.target'));
  symlinkSync('/mnt/code/node', join(root, 'usr/bin/node'));
  // Marks the image as configured: without them the first boot takes seconds longer.
  for (const stamp of ['etc/.updated', 'var/.updated']) writeFileSync(join(root, stamp), '');
}

/** A disk with this clone as it would be installed, and the Node.js that runs this. @returns its path */
export function makeCodeDisk(dir: string): string {
  const from = packageRoot();
  const tree = join(dir, 'code');
  const holdfast = join(tree, 'holdfast');
  mkdirSync(join(holdfast, 'native/build/Release'), { recursive: true });
  for (const path of ['package.json', 'README.md', 'packaging', 'examples', 'dist/src']) {
    cpSync(join(from, path), join(holdfast, path), { recursive: true });
  }
  for (const program of ['holdfast-executor', 'holdfast-launcher']) {
    const path = join('native/build/Release', program);
    cpSync(join(from, path), join(holdfast, path));
  }
  copyPackages(from, holdfast);
  cpSync(realpathSync(process.execPath), join(tree, 'node'));
  chmodSync(join(tree, 'node'), 0o755);
  const disk = join(dir, 'code.img');
  makeExt4(disk, '700M', tree);
  rmSync(tree, { recursive: true });
  return disk;
}

/** The packages that holdfast runs with, without what they were compiled from. */
function copyPackages(from: string, to: string): void {
  const lock = JSON.parse(readFileSync(join(from, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean; readonly optional?: boolean }>>;
  };
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (path === '' || dev === true || !existsSync(join(from, path))) continue;
    cpSync(realpathSync(join(from, path)), join(to, path), {
      recursive: true,
      filter: (source) =>
        !/\/(better-sqlite3|node-pty)\/(deps|src|prebuilds|third_party|build\/Release\/obj)/.test(source),
    });
  }
}

/** An empty disk for the data directory, so that it can be filled and made read-only on its own. */
export function makeDataDisk(dir: string): string {
  const disk = join(dir, 'data.img');
  makeExt4(disk, '300M', undefined);
  return disk;
}

function makeExt4(path: string, size: string, tree: string | undefined): void {
  writeFileSync(path, '');
  truncateSync(path, Number(size.slice(0, -1)) * 1024 * 1024);
  run(
    'mkfs.ext4',
    ['-q', '-F', '-O', '^metadata_csum_seed', ...(tree === undefined ? [] : ['-d', tree]), path],
    120,
  );
}

function mirror(): string {
  const named = process.env['HOLDFAST_VM_MIRROR'];
  if (named !== undefined && named !== '') return named;
  const known = spawnSync('apt-get', ['indextargets', '--format', '$(REPO_URI)'], { encoding: 'utf8' });
  const uris = known.status === 0 ? known.stdout.split('\n') : [];
  return uris.find((uri) => /debian\/?$/.test(uri)) ?? 'http://deb.debian.org/debian';
}

function whereIs(program: string): string {
  const found = run('sh', ['-c', `command -v ${program}`], 10).trim();
  return lstatSync(found).isSymbolicLink() ? realpathSync(found) : found;
}

/** @returns stdout @throws Error with what it said */
function run(command: string, args: readonly string[], seconds: number): string {
  const done = spawnSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: seconds * 1000,
    maxBuffer: 64 * 1024 * 1024,
    env: { ...process.env, LC_ALL: 'C' },
  });
  if (done.status === 0) return done.stdout;
  const said = `${done.stdout}${done.stderr}`.slice(-2_000);
  throw new Error(
    `${command} ${args.join(' ')} failed (${done.status ?? done.signal ?? done.error?.message}):\n${said}`,
  );
}

function say(text: string): void {
  process.stderr.write(`holdfast: ${text}\n`);
}
