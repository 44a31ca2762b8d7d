// Owns `npm test`: prepares the clone, checks the sources, runs the tests, and looks for what they left behind.
//   npm test                      everything
//   npm test -- restart docs      only test files with one of these words in their path; no source checks
// The runner's closing lines come last on stdout; the exit code says whether all of it was well.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { findLeaks, orphanedTestCgroups } from './leaks.mjs';
import { filesBelow, prepareOrExit, ROOT } from './prepare.mjs';

const words = process.argv.slice(2);
process.chdir(ROOT);
await prepareOrExit();

const faults = [];
if (words.length === 0) {
  for (const check of ['check:layers', 'check:format', 'lint']) {
    if (!runCheck(check)) faults.push(`npm run ${check} failed`);
  }
}
const files = filesBelow(join(ROOT, 'dist', 'test'), /\.test\.js$/).filter(
  (file) => words.length === 0 || words.some((word) => relative(ROOT, file).includes(word)),
);
if (files.length === 0) {
  console.error(`no test file matches: ${words.join(' ')}`);
  process.exit(1);
}
const verdict = await runTests(files);
faults.push(...verdict.faults);

for (const fault of faults) console.log(`✖ ${fault}`);
if (faults.length === 0) console.log(`✔ ${files.length} test files, nothing left behind`);
process.stdout.write(verdict.closing);
process.exitCode = faults.length === 0 ? 0 : 1;

/** Runs one script of package.json; its output is shown only when it fails. @param {string} script */
function runCheck(script) {
  console.log(`▶ ${script}`);
  const done = spawnSync('npm', ['run', '--silent', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (done.status !== 0) process.stdout.write(done.stdout + done.stderr);
  return done.status === 0;
}

/**
 * Runs the files in one runner. All they make lies below one directory with a name of its own, which is also how their
 * processes are found afterwards: several runs on one machine do not see each other.
 * @param {string[]} files
 */
async function runTests(files) {
  const home = mkdtempSync(join(tmpdir(), 'holdfast-test-run-'));
  const scratch = join(home, 'tmp');
  mkdirSync(scratch);
  // Tests may start processes as other users.
  chmodSync(home, 0o755);
  chmodSync(scratch, 0o1777);
  const paths = {
    log: join(home, 'spec.log'),
    tap: join(home, 'tap.log'),
    events: join(home, 'events.jsonl'),
  };
  const marker = home.slice(home.lastIndexOf('/') + 1);
  console.log(`▶ ${files.length} test files; log: ${paths.log}`);
  const args = [
    '--test',
    // Integration tests mostly wait: one more than there are cores.
    `--test-concurrency=${availableParallelism() + 1}`,
    // Every wait in a test has its own deadline; this one is for what was forgotten. It counts for a whole file.
    '--test-timeout=300000',
    ...reporter('spec', paths.log),
    ...reporter('tap', paths.tap),
    ...reporter(join(ROOT, 'scripts', 'test-events.mjs'), paths.events),
    ...files,
  ];
  const env = { ...process.env, TMPDIR: scratch, HOLDFAST_TEST_RUN: marker };
  const orphansBefore = new Set(orphanedTestCgroups());
  const code = await runToEnd(process.execPath, args, env, openSync(join(home, 'runner.log'), 'w'));
  const log = readFileSync(paths.log, 'utf8');
  const orphans = orphanedTestCgroups().filter((path) => !orphansBefore.has(path));
  const faults = [
    ...judgeSkips(paths.events),
    ...(await findLeaks(marker, scratch)),
    ...orphans.map((path) => `left behind: cgroup ${path}`),
  ];
  if (code !== 0) {
    faults.unshift(`tests failed (${code})`);
    const list = log.lastIndexOf('✖ failing tests:');
    process.stdout.write(list < 0 ? log : log.slice(list));
    process.stdout.write(readFileSync(join(home, 'runner.log'), 'utf8'));
  }
  const closing = /(?:\n# [^\n]*)*$/.exec(readFileSync(paths.tap, 'utf8').trimEnd())?.[0].trimStart();
  if (faults.length === 0) rmSync(home, { recursive: true });
  else console.log(`the whole log: ${paths.log}`);
  return { faults, closing: `${closing ?? '# no tests ran'}\n` };
}

/** @param {string} name @param {string} destination */
function reporter(name, destination) {
  return [`--test-reporter=${name}`, `--test-reporter-destination=${destination}`];
}

/** @returns {Promise<number | string>} exit status or signal; Ctrl-C reaches the runner as well, which ends its tests */
function runToEnd(command, args, env, log) {
  const child = spawn(command, args, { env, stdio: ['ignore', log, log] });
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(signal ?? status ?? 1));
  });
}

/** A skip is a fault unless test/allowed-skips.json has its name, with the reason. @param {string} path */
function judgeSkips(path) {
  const allowed = JSON.parse(readFileSync(join(ROOT, 'test', 'allowed-skips.json'), 'utf8'));
  const tests = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return tests
    .filter(({ skip, todo, name }) => (skip !== undefined && !(name in allowed)) || todo !== undefined)
    .map(
      ({ name, file, skip, todo }) =>
        `not allowed to be skipped: "${name}" in ${relative(ROOT, file)} (${JSON.stringify(skip ?? todo)})`,
    );
}
