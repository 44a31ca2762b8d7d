/** Owns the process of the daemon: signals, the end of the process, and the agent of `holdfast dev`. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, sleep } from '../base/clock.js';
import { AgentError, describeError, describeSystemError } from '../base/errors.js';
import { createLogger, silentLogger, type AdjustableLogger, type Logger } from '../base/log.js';
import { findExecutor } from '../executor/binary.js';
import type { Inputs } from '../jobspec/inputs.js';
import { parseJobFile, renderFaults } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import { startAgent, type Agent } from './agent.js';
import { readAgentConfig, type AgentConfig, type AgentOptions } from './config.js';
import { printEvents } from './dev-output.js';
import { Notifier } from './notify.js';
import { compareConfig, describeReload } from './reload.js';
import { ServiceReport, watchdogEveryMs } from './service-report.js';

/** How long `dev` waits for its tasks to end before it says which ones it leaves. */
const DEV_STOP_MS = 60_000;

/**
 * `holdfast agent`: runs until SIGTERM or SIGINT, then leaves without touching a task. Ends the process.
 * SIGHUP reads the config again, applies what can change while running, and logs what needs a restart.
 */
export async function runAgent(options: AgentOptions): Promise<never> {
  const config = await readConfig(options);
  const logger = createLogger(config.logLevel);
  dieLoudly(logger);
  const service = createServiceReport(logger);
  const hangups = new HangUps();
  let agent: Agent;
  try {
    agent = await startAgent(config, { clock: systemClock, logger, logTap: logger });
  } catch (error) {
    logger.error({ error: describeError(error) }, 'agent cannot start');
    service.failed(describeError(error));
    await service.close();
    fail(error);
  }
  const left = nextSignal(['SIGTERM', 'SIGINT']);
  service.ready({
    status: () => agent.status(),
    onChanged: (listener) => agent.store.onCommitted(listener),
    // A read of the database: a disk that only refuses writes must not cost us the agent.
    probe: () => agent.store.getHost('node_id'),
  });
  hangups.answer(reloader(options, config, { logger, agent, service }));
  const signal = await left;
  logger.info({ signal, allocs: agent.liveAllocs() }, 'agent leaves; tasks keep running');
  service.stopping();
  await agent.close();
  await service.close();
  process.exit(0);
}

/**
 * `holdfast dev`: an agent on a temporary directory, told in plain text. Runs `jobFile` if there is one. Stops its
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

/** Takes SIGHUP from its making on: one that comes while the agent starts must not end it, and is answered afterwards. */
class HangUps {
  #isWaiting = false;
  #answer = (): void => {
    this.#isWaiting = true;
  };

  constructor() {
    process.on('SIGHUP', () => {
      this.#answer();
    });
  }

  answer(answer: () => void): void {
    this.#answer = answer;
    if (this.#isWaiting) answer();
  }
}

/** Gives what reads the settings again and applies them; one reading at a time, in order. */
function reloader(
  options: AgentOptions,
  started: AgentConfig,
  { logger, agent, service }: { logger: AdjustableLogger; agent: Agent; service: ServiceReport },
): () => void {
  let inForce = started;
  const reload = async (): Promise<void> => {
    service.reloading();
    try {
      const change = compareConfig(
        inForce,
        await readAgentConfig(options, process.env, process.getuid?.() ?? 0),
      );
      // First what can be refused: then nothing is applied.
      agent.setAccess(change.inForce);
      inForce = change.inForce;
      agent.setMaxKillTimeout(inForce.maxKillTimeoutMs);
      // Told whatever the level: somebody has asked.
      logger.setLevel('info');
      logger.info({ applied: change.applied, need_restart: change.needRestart }, describeReload(change));
      logger.setLevel(inForce.logLevel);
      service.reloaded(undefined);
    } catch (error) {
      logger.error({ error: describeError(error) }, 'config is not valid, going on with the old one');
      service.reloaded(describeError(error));
    }
  };
  let last = Promise.resolve();
  return () => {
    last = last.then(reload);
  };
}

/** Speaks to the service manager, if one has started this process. */
function createServiceReport(logger: Logger): ServiceReport {
  const clock = systemClock;
  const socket = process.env['NOTIFY_SOCKET'];
  return new ServiceReport({
    clock,
    notifier: new Notifier({
      clock,
      logger,
      socket: socket === '' ? undefined : socket,
      findHelper: () => findExecutor(),
    }),
    watchdogMs: watchdogEveryMs(process.env, process.pid),
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
