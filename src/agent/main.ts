/** Owns the process of the daemon: signals and the end of the process. */
import { systemClock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import { createLogger, type AdjustableLogger, type Logger } from '../base/log.js';
import { findExecutor } from '../executor/binary.js';
import { startAgent, type Agent } from './agent.js';
import { readAgentConfig, type AgentConfig, type AgentOptions } from './config.js';
import { Notifier } from './notify.js';
import { compareConfig, describeReload } from './reload.js';
import { ServiceReport, watchdogEveryMs } from './service-report.js';

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

/** Ends the process when they are not valid. */
export async function readConfig(options: AgentOptions): Promise<AgentConfig> {
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

/** Says why on stderr and ends the process. */
export function fail(error: unknown): never {
  process.stderr.write(`holdfast: ${describeError(error)}\n`);
  process.exit(error instanceof AgentError && error.code === 'bad_request' ? 2 : 1);
}

/** The first of these signals that comes. */
export function nextSignal(names: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const name of names) process.on(name, resolve);
  });
}
