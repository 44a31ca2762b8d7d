// Owns `npm run demo`: the main promise, shown and checked. A real daemon runs examples/demo.hcl; it is killed with SIGKILL and
// started again; each claim at the end is a check that can fail. Everything is made in one temporary directory and is
// gone afterwards, also after Ctrl-C. Exit code 0 only when every check held.
import { existsSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DemoAgent, identityOf, readLines } from './demo-agent.mjs';
import { prepareOrExit, ROOT } from './prepare.mjs';

const JOB_FILE = join(ROOT, 'examples', 'demo.hcl');
const WIDTH = 80;
const color = process.stdout.isTTY === true && (process.env.NO_COLOR ?? '') === '';
const paint = (code, text) => (color ? `\x1b[${code}m${text}\x1b[0m` : text);
const bold = (text) => paint('1', text);
const dim = (text) => paint('2', text);

process.chdir(ROOT);
await prepareOrExit();

let interrupted = false;
let agent;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (interrupted) return;
    interrupted = true;
    console.log('\ninterrupted: stopping the tasks and cleaning up …');
    agent?.abort();
  });
}
// A terminal that went away must not keep us from cleaning up.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const startedMs = performance.now();
const checks = [];
agent = new DemoAgent();
try {
  await tellTheStory();
} catch (error) {
  // What an interruption makes fail is not news.
  if (!interrupted)
    check('the demo came to its end', false, error instanceof Error ? error.message : String(error));
}
const leftovers = await agent.close();
if (interrupted) {
  for (const leftover of leftovers) console.log(leftover);
  process.exit(130);
}
check('nothing is left behind', leftovers.length === 0, leftovers[0] ?? 'no process, cgroup or file');
process.exitCode = report() ? 0 : 1;

async function tellTheStory() {
  console.log(bold('holdfast: the daemon that may die'));
  console.log(dim(`Everything happens in ${agent.dir} and is removed at the end.`));

  heading(1, 'A daemon is started and runs examples/demo.hcl');
  const firstPid = await agent.start();
  console.log(`The daemon is process ${firstPid}.`);
  await show(['run', relative(ROOT, JOB_FILE)]);
  const before = await agent.untilRunning(['server', 'ticker', 'fickle']);
  await show(['ps']);
  const url = await agent.serverUrl();
  const firstAnswer = await curl(url);
  const identities = Object.fromEntries(
    Object.entries(before).map(([task, { pid }]) => [task, identityOf(pid)]),
  );
  await agent.until('the counter has written', () => tickerLines(before).length >= 20);

  heading(2, 'The daemon is killed');
  console.log(command(`kill -9 ${firstPid}`));
  await agent.kill();
  const linesAtDeath = tickerLines(before).length;
  const psWithoutDaemon = await show(['ps']);
  console.log('No daemon. The tasks do not know:');
  const secondAnswer = await curl(url);
  const fickleRun = agent.runDir(before.fickle.runId);
  writeFileSync(join(agent.allocDir(before.fickle.allocId), 'data', 'fail'), '');
  const cueAtMs = Date.now();
  await agent.until('fickle has ended', () => existsSync(join(fickleRun, 'exit')));
  const endedByMs = Date.now();
  console.log('Now "fickle" fails on purpose, with exit code 3. Nobody is there to see it.');
  await agent.until('the counter goes on', () => tickerLines(before).length >= linesAtDeath + 20);
  const linesWithoutDaemon = tickerLines(before).length - linesAtDeath;
  console.log(`Meanwhile "ticker" has written ${linesWithoutDaemon} more lines into its log.`);

  heading(3, 'The daemon is started again');
  const secondPid = await agent.start();
  console.log(`The new daemon is process ${secondPid}.`);
  const restartAtMs = Date.now();
  const after = await agent.untilRunning(['server', 'ticker', 'fickle']);
  await show(['ps']);
  await show(['history', 'demo/demo/fickle']);
  await show(['logs', 'demo/demo/ticker', '-n', '3']);
  const thirdAnswer = await curl(url);
  const lines = tickerLines(after);
  await agent.until('the log still grows', () => tickerLines(after).length >= lines.length + 5);

  const starts = await agent.countStarted();
  const [missedRun] = await agent.runs(before.fickle.allocId, 'fickle');
  const endedAtMs = Date.parse(missedRun?.EndedAt ?? '');
  const same = (task) =>
    after[task].pid === before[task].pid && identityOf(after[task].pid) === identities[task];
  const asked = (answer) => Number(/asked (\d+)/.exec(answer)?.[1]);
  const gap = lines.findIndex((line, index) => line !== `line ${index + 1}`);
  check(
    'the daemon really was away',
    psWithoutDaemon === 5 && secondPid !== firstPid,
    `process ${firstPid} was killed, "ps" found nobody`,
  );
  check(
    'the same processes run',
    same('server') && same('ticker'),
    `pids ${after.server.pid} and ${after.ticker.pid}, same start times`,
  );
  check(
    'the web service never stopped',
    asked(firstAnswer) === 1 && asked(secondAnswer) === 2 && asked(thirdAnswer) === 3,
    'answered before, meanwhile and after',
  );
  check(
    'no line was lost or repeated',
    gap < 0 && linesWithoutDaemon >= 20,
    gap < 0
      ? `1 to ${lines.length}, ${linesWithoutDaemon} of them without a daemon`
      : `line ${gap + 1}: "${lines[gap]}"`,
  );
  check(
    'nothing was started twice',
    starts.server === 1 && starts.ticker === 1 && starts.fickle === 2,
    `server ${starts.server}, ticker ${starts.ticker}, fickle ${starts.fickle} (1 restart)`,
  );
  check(
    'an exit nobody saw is known',
    missedRun?.Exit?.Text === 'exited 3' && endedAtMs >= cueAtMs && endedAtMs <= endedByMs,
    `${missedRun?.Exit?.Text ?? 'no exit'} at ${clockTime(endedAtMs)}, back at ${clockTime(restartAtMs)}`,
  );
  check(
    'and followed by its policy',
    after.fickle.pid !== before.fickle.pid && after.fickle.restarts === 1,
    `fickle was restarted once, as ${after.fickle.pid}`,
  );
}

/** Shows a command of the CLI with its output. @param {string[]} args @returns {Promise<number | null>} its exit code */
async function show(args) {
  console.log(command(`holdfast ${args.join(' ')}`));
  return agent.cli(args);
}

/** @param {string} url */
async function curl(url) {
  console.log(command(`curl ${url}`));
  const answer = await (await fetch(url, { signal: AbortSignal.timeout(5000) })).text();
  console.log(answer.trimEnd());
  return answer;
}

/** Lines that the counter has written, read from its log files. */
function tickerLines(tasks) {
  return readLines(agent.allocDir(tasks.ticker.allocId), 'ticker');
}

function check(claim, held, fact) {
  checks.push({ claim, held, fact });
}

function report() {
  const all = checks.every(({ held }) => held);
  console.log(`\n${bold('What this shows')}\n`);
  const column = Math.max(...checks.map(({ claim }) => claim.length));
  for (const { claim, held, fact } of checks) {
    const mark = held ? paint('32', '✓') : paint('31', '✗');
    console.log(
      `  ${mark} ${claim.padEnd(column)}  ${wrap(fact, WIDTH - column - 6).join(`\n${' '.repeat(column + 6)}`)}`,
    );
  }
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
  console.log(all ? `\nAll of it held, in ${seconds} seconds.` : `\n${paint('31', 'Not all of it held.')}`);
  return all;
}

/** @param {string} text @param {number} width */
function wrap(text, width) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1];
    if (last !== '' && last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return lines;
}

function heading(number, text) {
  console.log(`\n${bold(`${number}. ${text}`)}\n`);
}

function command(text) {
  return bold(`$ ${text}`);
}

function clockTime(atMs) {
  return Number.isNaN(atMs) ? 'no time' : new Date(atMs).toISOString().slice(11, 21);
}
