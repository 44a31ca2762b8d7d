// Owns the way from a fresh clone to something that runs: prerequisites, packages, the native part, TypeScript.
// The other commands call `prepare()` first. It says nothing when there is nothing to do, may be interrupted at any
// point and run by several processes at once, and fetches nothing but packages from the package registry.
//
// How it stays safe: each step leaves a stamp, the hash of all that went in, as its last act, and removes an old stamp
// as its first. A step without its stamp is done again. Steps run under a flock(2) that their children share: the kernel
// drops it with the last of them, however they end.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
} from 'node:fs';
import {
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { release } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

const OLDEST_NODE = [20, 19];
/** cgroup.kill and pidfd as the executor uses them. */
const OLDEST_KERNEL = [5, 15];

const INSTALL_STAMP = join(ROOT, 'node_modules', '.holdfast-installed');
const NATIVE_STAMP = join(ROOT, 'native', 'build', '.holdfast-built');
const COMPILE_STAMP = join(ROOT, 'dist', '.holdfast-compiled');
const COMPILED_FOLDERS = ['src', 'test', 'bench'];

/** A failure that is told to the user as one line, without a stack. */
export class PrepareError extends Error {
  name = 'PrepareError';
  /** @param {string} message @param {number} exitCode */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Brings this clone to the state in which dist/ and the native executor are up to date.
 * @throws PrepareError
 */
export async function prepare() {
  const lacking = missingPrerequisites();
  if (lacking.length > 0) throw new PrepareError(lacking.join('\n'));
  if (pendingSteps().length === 0) return;
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  const lock = openSync(join(ROOT, 'dist', '.prepare.lock'), 'a');
  try {
    if (!takeLock(lock, ['--nonblock'])) {
      tell('another copy is preparing this clone, waiting for it …');
      if (!takeLock(lock, [])) throw new PrepareError('', 130);
    }
    await performSteps(lock);
  } finally {
    closeSync(lock);
  }
}

/** Locks what `fd` has open: the lock stays with it, and with every child it is passed to, until the last is gone. */
function takeLock(fd, options) {
  return spawnSync('flock', [...options, '3'], { stdio: ['ignore', 'ignore', 'inherit', fd] }).status === 0;
}

/** `prepare()` for the scripts of package.json: what is wrong is told on stderr, and the process ends. */
export async function prepareOrExit() {
  try {
    await prepare();
  } catch (error) {
    if (!(error instanceof PrepareError)) throw error;
    if (error.message !== '') console.error(error.message);
    process.exit(error.exitCode);
  }
}

// ---------------------------------------------------------------------------------------------------- prerequisites

/** One line for each thing that is missing, with the cure. Empty = all there. */
function missingPrerequisites() {
  if (process.platform !== 'linux') {
    return [`holdfast runs on Linux only: this is ${process.platform}. Use a Linux host, VM or container.`];
  }
  const lines = [];
  if (older(process.versions.node, OLDEST_NODE)) {
    lines.push(
      `holdfast needs Node.js ${OLDEST_NODE.join('.')} or later: this is ${process.versions.node}. ` +
        'Install the Debian package `nodejs` of that version, or one from https://nodejs.org.',
    );
  }
  if (older(release(), OLDEST_KERNEL)) {
    lines.push(
      `holdfast needs Linux ${OLDEST_KERNEL.join('.')} or later: this is ${release()}. Upgrade the kernel.`,
    );
  }
  // command → Debian package
  const tools = { python3: 'python3', make: 'make', 'g++': 'g++', flock: 'util-linux' };
  const absent = Object.keys(tools).filter((tool) => !onPath(tool));
  if (absent.length > 0) {
    const packages = absent.map((tool) => tools[tool]).join(' ');
    lines.push(`holdfast needs ${absent.join(', ')}. On Debian or Ubuntu: apt-get install -y ${packages}`);
  }
  return lines;
}

/** @param {string} version @param {number[]} least */
function older(version, least) {
  const [major = 0, minor = 0] = version.split('.').map((part) => parseInt(part, 10));
  return major < least[0] || (major === least[0] && minor < least[1]);
}

/** @param {string} command */
export function onPath(command) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

// ------------------------------------------------------------------------------------------------------------ steps

function pendingSteps() {
  return [install, buildNative, compile].filter((step) => !step.done());
}

const PROGRAMS = ['holdfast-executor', 'holdfast-launcher'].map((name) =>
  join(ROOT, 'native', 'build', 'Release', name),
);

const install = {
  stamp: INSTALL_STAMP,
  inputs: () =>
    hash([join(ROOT, 'package-lock.json')], `node-abi ${process.versions.modules} ${process.arch}`),
  /** A symlink is somebody else's installation: it is used as it is. */
  done: () => isSymlink(join(ROOT, 'node_modules')) || stamped(INSTALL_STAMP, install.inputs()),
  async perform(lock) {
    tell('installing packages (two of them are compiled: a minute or two) …');
    const npm = process.env.npm_execpath;
    const known = npm?.endsWith('.js') === true;
    if (!known && !onPath('npm')) {
      throw new PrepareError('holdfast needs npm. On Debian or Ubuntu: apt-get install -y npm');
    }
    const args = [...(known ? [npm] : []), 'ci', '--include=dev', '--loglevel=error'];
    await must('npm ci', known ? process.execPath : 'npm', args, lock);
  },
};

const buildNative = {
  stamp: NATIVE_STAMP,
  inputs: () => {
    const sources = filesBelow(join(ROOT, 'native'), /\.(c|h|gyp)$|\/programs\.json$/);
    const version = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;
    return hash([...sources, join(ROOT, 'scripts', 'build-native.mjs')], version);
  },
  done: () => PROGRAMS.every((path) => existsSync(path)) && stamped(NATIVE_STAMP, buildNative.inputs()),
  async perform(lock) {
    tell('building the executor (native/) …');
    await must('building native/', process.execPath, [join(ROOT, 'scripts', 'build-native.mjs')], lock);
  },
};

const compile = {
  stamp: COMPILE_STAMP,
  inputs: () => hash([...sources(), join(ROOT, 'tsconfig.json'), join(ROOT, 'package-lock.json')]),
  done: () => misplacedOutputs().length === 0 && stamped(COMPILE_STAMP, compile.inputs()),
  async perform(lock) {
    tell('compiling TypeScript …');
    for (const { kind, path } of misplacedOutputs()) {
      if (kind === 'stale') rmSync(path);
      // The compiler trusts its own record of what it has written, not the disk.
      else rmSync(join(ROOT, 'dist', '.tsbuildinfo'), { force: true });
    }
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    await must('compiling TypeScript', process.execPath, [tsc, '-p', ROOT], lock);
    // The compiler makes nothing executable; people link to this one.
    chmodSync(join(ROOT, 'dist', 'src', 'cli', 'main.js'), 0o755);
  },
};

/** Does what is left to do. Only under the lock. */
async function performSteps(lock) {
  // Asked anew before each step: who held the lock before may have done it, and one step may undo the next.
  for (const step of [install, buildNative, compile]) {
    if (step.done()) continue;
    rmSync(step.stamp, { force: true });
    const inputs = step.inputs();
    await step.perform(lock);
    mkdirSync(dirname(step.stamp), { recursive: true });
    writeFileSync(`${step.stamp}.new`, inputs);
    renameSync(`${step.stamp}.new`, step.stamp);
  }
}

/** For what compiles C and C++: headers from this Node's own installation, and nothing built elsewhere. */
function buildEnvironment() {
  const env = { ...process.env };
  const prefix = dirname(dirname(realpathSync(process.execPath)));
  if (existsSync(join(prefix, 'include', 'node', 'node.h'))) env.npm_config_nodedir ??= prefix;
  env.npm_config_build_from_source ??= 'true';
  return env;
}

// ---------------------------------------------------------------------------------------------------------- helpers

function sources() {
  return COMPILED_FOLDERS.flatMap((folder) => filesBelow(join(ROOT, folder), /\.ts$/));
}

/** Sources that have no output, and outputs that have no source any more (a test that was removed must not run). */
function misplacedOutputs() {
  const expected = new Set(sources().map((source) => `dist${source.slice(ROOT.length, -3)}.js`));
  const found = COMPILED_FOLDERS.flatMap((folder) => filesBelow(join(ROOT, 'dist', folder), /\.js$/));
  const present = new Set(found.map((path) => path.slice(ROOT.length + 1)));
  return [
    ...[...present]
      .filter((path) => !expected.has(path))
      .map((path) => ({ kind: 'stale', path: join(ROOT, path) })),
    ...[...expected]
      .filter((path) => !present.has(path))
      .map((path) => ({ kind: 'missing', path: join(ROOT, path) })),
  ];
}

/** @param {string} folder @param {RegExp} pattern @returns {string[]} sorted paths */
export function filesBelow(folder, pattern) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(
      (entry) => entry.isFile() && pattern.test(entry.name) && !entry.parentPath.includes('native/build'),
    )
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** @param {string[]} files @param {string} more anything else the result depends on */
function hash(files, more = '') {
  const sum = createHash('sha256').update(more);
  for (const file of files) {
    const size = statSync(file, { throwIfNoEntry: false })?.size;
    sum.update(`\n${file.slice(ROOT.length)} ${size}\n`);
    if (size !== undefined) sum.update(readFileSync(file));
  }
  return sum.digest('hex');
}

/** @param {string} path */
function isSymlink(path) {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

/** @param {string} stamp @param {string} inputs */
function stamped(stamp, inputs) {
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === inputs;
}

/** @param {string} text */
function tell(text) {
  console.error(`holdfast: ${text}`);
}

/**
 * Runs one child to its end. Its output goes to stderr: stdout belongs to the command that asked for the preparation.
 * @param {string} what for the message @param {string} command @param {string[]} args
 * @param {number} lock passed on, so that the lock is held for as long as the child lives
 * @throws PrepareError
 */
async function must(what, command, args, lock) {
  const child = spawn(command, args, { cwd: ROOT, env: buildEnvironment(), stdio: ['ignore', 2, 2, lock] });
  // Ctrl-C reaches the child as well (same process group); a SIGTERM is for us alone and is passed on.
  const interrupted = [];
  const onInterrupt = (signal) => interrupted.push(signal);
  const onTerm = (signal) => {
    interrupted.push(signal);
    child.kill(signal);
  };
  process.on('SIGINT', onInterrupt).on('SIGHUP', onInterrupt).on('SIGTERM', onTerm);
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(signal ?? status));
  });
  process.off('SIGINT', onInterrupt).off('SIGHUP', onInterrupt).off('SIGTERM', onTerm);
  if (interrupted.length > 0) {
    throw new PrepareError(`holdfast: interrupted during ${what}; run the command again to go on.`, 130);
  }
  if (code !== 0) throw new PrepareError(`holdfast: ${what} failed (${code}); its output is above.`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await prepareOrExit();
