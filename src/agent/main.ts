/** Owns the process of the daemon: signals, the end of the process, and the agent of `holdfast dev`. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, sleep } from '../base/clock.js';
import { AgentError, describeError, describeSystemError } from '../base/errors.js';
import { createLogger, silentLogger, type Logger } from '../base/log.js';
import { parseJobFile, renderFaults } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import { startAgent, type Agent } from './agent.js';
import { readAgentConfig, type AgentConfig, type AgentOptions } from './config.js';
import { printEvents } from './dev-output.js';

/** How long `dev` waits for its tasks to end before it says which ones it leaves. */
const DEV_STOP_MS = 60_000;

/**
 * `holdfast agent`: runs until SIGTERM or SIGINT, then leaves without touching a task. Ends the process.
 * SIGHUP reads the config again (only what can change while running: nothing yet but the check of the file).
 */
export async function runAgent(options: AgentOptions): Promise<never> {
  const config = await readConfig(options);
  const logger = createLogger(config.logLevel);
  dieLoudly(logger);
  let agent: Agent;
  try {
    agent = await startAgent(config, { clock: systemClock, logger });
  } catch (error) {
    logger.error({ error: describeError(error) }, 'agent cannot start');
    fail(error);
  }
  process.on('SIGHUP', () => {
    readAgentConfig(options, process.env, process.getuid?.() ?? 0).then(
      () => {
        logger.info({}, 'config is valid; what it changes takes effect at the next start of the agent');
      },
      (error: unknown) => {
        logger.error({ error: describeError(error) }, 'config is not valid, going on with the old one');
      },
    );
  });
  const signal = await nextSignal(['SIGTERM', 'SIGINT']);
  logger.info({ signal, allocs: agent.liveAllocs() }, 'agent leaves; tasks keep running');
  await agent.close();
  process.exit(0);
}

/**
 * `holdfast dev`: an agent on a temporary directory, told in plain text. Runs `jobFile` if there is one. Stops its
 * tasks and removes everything when it ends: by a signal, or when all jobs of the file are over.
 */
export async function runDev(
  options: AgentOptions & { readonly jobFile?: string | undefined },
): Promise<never> {
  // Checked first: a fault in it is no reason to start anything.
  const job = options.jobFile === undefined ? undefined : await readJob(options.jobFile);
  const temporary = await mkdtemp(join(tmpdir(), 'holdfast-dev-'));
  const config = await readConfig({ ...options, dataDir: temporary, socket: options.socket });
  let agent: Agent;
  try {
    agent = await startAgent(config, { clock: systemClock, logger: silentLogger });
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    fail(error);
  }
  process.stdout.write(`holdfast dev: temporary data in ${temporary}\n`);
  process.stdout.write(`  try it: HOLDFAST_ADDR=unix://${config.socket} holdfast ps    (Ctrl-C ends it)\n`);
  printEvents(agent.store, process.stdout);
  const leave = new AbortController();
  const signalled = nextSignal(['SIGTERM', 'SIGINT']).then((signal) => {
    process.stdout.write(`holdfast dev: ${signal}, stopping what runs\n`);
    leave.abort();
  });
  const code = job === undefined ? await signalled.then(() => 0) : await runJob(agent, job, leave.signal);
  await stopEverything(agent);
  await agent.close();
  await rm(temporary, { recursive: true, force: true });
  process.exit(code);
}

/** Ends the process when the file cannot be read or has faults. */
async function readJob(path: string): Promise<Job> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    fail(new AgentError('bad_request', `cannot read the job file ${path}: ${describeSystemError(error)}`));
  }
  const parsed = parseJobFile(text, path);
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

async function readConfig(options: AgentOptions): Promise<AgentConfig> {
  try {
    return await readAgentConfig(options, process.env, process.getuid?.() ?? 0);
  } catch (error) {
    fail(error);
  }
}

/** A fault of ours must not leave a half-dead agent: end at once, the service manager starts a new one. */
function dieLoudly(logger: Logger): void {
  for (const kind of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(kind, (error: unknown) => {
      const stack = error instanceof Error ? error.stack : undefined;
      logger.error(
        { kind, error: describeError(error), stack },
        'fault of the agent: it ends; tasks keep running',
      );
      process.exit(70);
    });
  }
}

function fail(error: unknown): never {
  process.stderr.write(`holdfast: ${describeError(error)}\n`);
  process.exit(error instanceof AgentError && error.code === 'bad_request' ? 2 : 1);
}

function nextSignal(names: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const name of names) process.on(name, resolve);
  });
}
