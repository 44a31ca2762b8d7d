/**
 * Owns `holdfast dev`: an agent on a temporary directory, told in plain text, and the end of its process. Apart from
 * main.ts so that the daemon does not load the parser of job files before it has found its tasks.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, sleep } from '../base/clock.js';
import { AgentError, describeSystemError } from '../base/errors.js';
import { silentLogger } from '../base/log.js';
import type { Inputs } from '../jobspec/inputs.js';
import { parseJobFile, renderFaults } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import { startAgent, type Agent } from './agent.js';
import type { AgentOptions } from './config.js';
import { printEvents } from './dev-output.js';
import { fail, nextSignal, readConfig } from './main.js';

/** How long `dev` waits for its tasks to end before it says which ones it leaves. */
const DEV_STOP_MS = 60_000;

/**
 * `holdfast dev`: runs `jobFile` if there is one. Stops its
 * tasks and removes everything when it ends: by a signal, when nobody reads on what it prints (a closed window, `| head`),
 * or when all jobs of the file are over.
 */
export async function runDev(
  options: AgentOptions & { readonly jobFile?: string | undefined; readonly inputs?: Inputs | undefined },
): Promise<never> {
  // Checked first: a fault in it is no reason to start anything.
  const job = options.jobFile === undefined ? undefined : await readJob(options.jobFile, options.inputs);
  const leave = new AbortController();
  const left = whenDevIsLeft();
  const temporary = await mkdtemp(join(tmpdir(), 'holdfast-dev-'));
  const config = await readConfig({ ...options, dataDir: temporary, socket: options.socket });
  let agent: Agent;
  try {
    agent = await startAgent(config, { clock: systemClock, logger: silentLogger, allowOpenTcp: true });
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    fail(error);
  }
  process.stdout.write(`holdfast dev: temporary data in ${temporary}\n`);
  process.stdout.write(`  try it: HOLDFAST_ADDR=unix://${config.socket} holdfast ps    (Ctrl-C ends it)\n`);
  printEvents(agent.store, process.stdout);
  const told = left.then((why) => {
    process.stdout.write(`holdfast dev: ${why}, stopping what runs\n`);
    leave.abort();
  });
  const code = job === undefined ? await told.then(() => 0) : await runJob(agent, job, leave.signal);
  await stopEverything(agent);
  await agent.close();
  await rm(temporary, { recursive: true, force: true });
  process.exit(code);
}

/**
 * Resolves to what ended `holdfast dev`. From now on output that nobody reads is dropped: whatever goes wrong with a
 * terminal, the tasks are stopped and the directory is removed.
 */
function whenDevIsLeft(): Promise<string> {
  return new Promise((resolve) => {
    for (const stream of [process.stdout, process.stderr]) {
      stream.removeAllListeners('error');
      stream.on('error', () => {
        resolve('nobody reads on');
      });
    }
    void nextSignal(['SIGTERM', 'SIGINT', 'SIGHUP']).then(resolve);
  });
}

/** Ends the process when the file cannot be read or has faults. */
async function readJob(path: string, inputs: Inputs | undefined): Promise<Job> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    fail(new AgentError('bad_request', `cannot read the job file ${path}: ${describeSystemError(error)}`));
  }
  const parsed = parseJobFile(text, path, inputs);
  if (parsed.ok) return parsed.job;
  process.stderr.write(renderFaults(parsed.faults, text));
  process.exit(2);
}

/** @returns the exit code */
async function runJob(agent: Agent, job: Job, leave: AbortSignal): Promise<number> {
  await agent.operations.registerJob(job, {});
  while (!leave.aborted && agent.liveAllocs() > 0) await sleep(systemClock, 100, leave);
  if (leave.aborted) return 0;
  const failed = agent.store.listAllocs().some(({ record }) => record.clientStatus === 'failed');
  process.stdout.write(`holdfast dev: job ${job.id} ${failed ? 'failed' : 'is complete'}\n`);
  return failed ? 1 : 0;
}

async function stopEverything(agent: Agent): Promise<void> {
  for (const { record } of agent.store.listJobs()) {
    if (!record.stopped) await agent.operations.stopJob(record.id, { purge: false, noShutdownDelay: false });
  }
  const deadlineMs = systemClock.monoMs() + DEV_STOP_MS;
  while (agent.liveAllocs() > 0 && systemClock.monoMs() < deadlineMs) await sleep(systemClock, 50);
  if (agent.liveAllocs() > 0) {
    process.stderr.write(`holdfast: ${agent.liveAllocs()} allocs did not end in time and are left running\n`);
  }
}
