// Builds the programs of native/ (programs.json names them and what they are made of) into native/build/Release/: statically
// with musl where `musl-gcc` is found (a third of the memory), else with node-gyp. With --sanitize instead a test build
// with AddressSanitizer and UBSan into native/build/asan/. Does nothing when they are newer than their sources.
// HOLDFAST_LIBC=glibc never uses musl.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const native = join(root, 'native');
const sanitize = process.argv.includes('--sanitize');
const out = join(native, 'build', sanitize ? 'asan' : 'Release');
/** @type {Readonly<Record<string, readonly string[]>>} program → its sources */
const programs = JSON.parse(readFileSync(join(native, 'programs.json'), 'utf8'));
const binaries = Object.keys(programs).map((name) => join(out, name));
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const isThere = (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;

/** True when the binaries are newer than everything they are made of, are of this version, and run here. */
function isFresh() {
  if (!binaries.every((binary) => existsSync(binary))) return false;
  const builtAtMs = Math.min(...binaries.map((binary) => statSync(binary).mtimeMs));
  const sources = readdirSync(native).filter((name) => /\.(c|h|gyp|json)$/.test(name));
  const inputs = [...sources.map((name) => join(native, name)), fileURLToPath(import.meta.url)];
  if (inputs.some((file) => statSync(file).mtimeMs >= builtAtMs)) return false;
  const said = spawnSync(join(out, 'holdfast-executor'), ['version'], { encoding: 'utf8' });
  return said.status === 0 && said.stdout.startsWith(`holdfast-executor ${version} `);
}

/** What has to be installed first, as one line, or undefined. */
function missing() {
  const needs = sanitize
    ? [['gcc', [process.env.CC ?? 'gcc']]]
    : [
        ['python3', [process.env.npm_config_python ?? process.env.PYTHON ?? 'python3']],
        ['make', [process.env.MAKE ?? 'make']],
        ['g++', [process.env.CXX ?? 'g++']],
      ];
  const packages = needs.filter(([, commands]) => !commands.some(isThere)).map(([name]) => name);
  if (packages.length === 0) return undefined;
  return `holdfast: cannot build the executor: ${packages.join(', ')} not found. Install with: apt-get install ${packages.join(' ')}`;
}

/** Node's own headers, when they lie beside the running node: then the build needs no network. */
function nodeDir() {
  const configured = process.env.npm_config_nodedir;
  if (configured) return configured;
  const prefix = dirname(dirname(process.execPath));
  return existsSync(join(prefix, 'include', 'node', 'node.h')) ? prefix : undefined;
}

/** Runs a command; shows its output only when it fails. */
function run(command, args) {
  const done = spawnSync(command, args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  if (done.status === 0) return true;
  process.stderr.write(done.stdout + done.stderr);
  console.error(`holdfast: the build of the executor failed (${command} ${args.join(' ')})`);
  return false;
}

/** All of them or none. @param {string} compiler @param {readonly string[]} flags */
function compile(compiler, flags) {
  mkdirSync(out, { recursive: true });
  const fresh = (/** @type {string} */ name) => join(out, `${name}.new`);
  const built = Object.entries(programs).every(([name, sources]) =>
    run(compiler, [
      '-std=gnu17',
      ...flags,
      `-DHOLDFAST_VERSION="${version}"`,
      ...sources.map((source) => join(native, source)),
      '-o',
      fresh(name),
    ]),
  );
  for (const name of Object.keys(programs)) {
    if (built) renameSync(fresh(name), join(out, name));
    else rmSync(fresh(name), { force: true });
  }
  return built;
}

const usesMusl = () =>
  process.env.HOLDFAST_LIBC !== 'glibc' &&
  spawnSync('musl-gcc', ['-dumpversion'], { stdio: 'ignore' }).status === 0;

/** Small code over fast code: the executor waits, and every page it touches is paid for once per task. */
function buildMusl() {
  const triple = spawnSync('gcc', ['-print-multiarch'], { encoding: 'utf8' }).stdout.trim();
  return compile('musl-gcc', [
    // A static program lies where it was linked to: code that could lie elsewhere would only be longer.
    ...'-Os -g0 -static -fno-pie -no-pie -flto -Wall -Wextra -Werror -fno-common'.split(' '),
    '-fstack-protector-strong',
    ...'-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables'.split(' '),
    ...'-Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack -s'.split(' '),
    // musl-gcc leaves out the kernel's headers.
    '-idirafter',
    '/usr/include',
    '-idirafter',
    `/usr/include/${triple}`,
  ]);
}

function buildRelease() {
  if (usesMusl()) {
    if (buildMusl()) return true;
    console.error("holdfast: the static build failed, building with the system's libc instead");
  }
  const gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  const dir = nodeDir();
  const where = dir === undefined ? [] : [`--nodedir=${dir}`];
  // Not `rebuild`: that would remove the test build beside it.
  return run(process.execPath, [gyp, 'configure', 'build', '--release', `--directory=${native}`, ...where]);
}

function buildSanitized() {
  const flags = '-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer';
  return compile(process.env.CC ?? 'gcc', flags.split(' '));
}

if (!isFresh()) {
  const advice = missing();
  if (advice !== undefined) {
    console.error(advice);
    process.exitCode = 1;
  } else if (!(sanitize ? buildSanitized() : buildRelease())) {
    process.exitCode = 1;
  }
}
