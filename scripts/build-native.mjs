// Builds native/ into native/build/Release/holdfast-executor with node-gyp; with --sanitize instead a test build with
// AddressSanitizer and UBSan into native/build/asan/. Does nothing when the binary is newer than its sources.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const native = join(root, 'native');
const sanitize = process.argv.includes('--sanitize');
const binary = join(native, 'build', sanitize ? 'asan' : 'Release', 'holdfast-executor');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const isThere = (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;

/** True when the binary is newer than everything it is made of, is of this version, and runs here. */
function isFresh() {
  if (!existsSync(binary)) return false;
  const builtAtMs = statSync(binary).mtimeMs;
  const sources = readdirSync(native).filter((name) => /\.(c|h|gyp)$/.test(name));
  const inputs = [...sources.map((name) => join(native, name)), fileURLToPath(import.meta.url)];
  if (inputs.some((file) => statSync(file).mtimeMs >= builtAtMs)) return false;
  const said = spawnSync(binary, ['version'], { encoding: 'utf8' });
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

function buildRelease() {
  const gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  const dir = nodeDir();
  const where = dir === undefined ? [] : [`--nodedir=${dir}`];
  // Not `rebuild`: that would remove the test build beside it.
  return run(process.execPath, [gyp, 'configure', 'build', '--release', `--directory=${native}`, ...where]);
}

function buildSanitized() {
  mkdirSync(dirname(binary), { recursive: true });
  const sources = readdirSync(native).filter((name) => name.endsWith('.c'));
  const flags =
    '-std=gnu17 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer';
  const fresh = `${binary}.new`;
  const built = run(process.env.CC ?? 'gcc', [
    ...flags.split(' '),
    `-DHOLDFAST_VERSION="${version}"`,
    ...sources.map((name) => join(native, name)),
    '-o',
    fresh,
  ]);
  if (built) renameSync(fresh, binary);
  return built;
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
