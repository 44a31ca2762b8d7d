/**
 * The composition root: builds the real parts, restores what was running, then opens the doors (doors.ts), and closes all
 * of it again in reverse order. Nothing here decides anything about tasks.
 */
import { AllocTable } from '../allocrunner/alloc-table.js';
import type { AgentOperations } from '../api/operations.js';
import { sleep, type Clock } from '../base/clock.js';
import { readBootId } from '../base/host.js';
import type { Logger, LogTap } from '../base/log.js';
import { Pace } from '../base/pace.js';
import { Scope } from '../base/scope.js';
import { SpareDirs } from '../base/spare-dirs.js';
import { VERSION } from '../base/version.js';
import { probeIsolation } from '../executor/host-isolation.js';
import { findExecutor } from '../executor/binary.js';
import { Cgroups } from '../executor/cgroups.js';
import { Launcher } from '../executor/launcher.js';
import { Drainer } from '../scheduler/drainer.js';
import { Scheduler } from '../scheduler/scheduler.js';
import { openSqliteStore } from '../state/sqlite-store.js';
import type { StateStore } from '../state/store.js';
import { artifactHook } from '../taskrunner/hooks/artifact.js';
import { dispatchPayloadHook } from '../taskrunner/hooks/dispatch-payload.js';
import { furnishAlloc, taskDirHook } from '../taskrunner/hooks/task-dir.js';
import { templateHook } from '../taskrunner/hooks/template.js';
import { volumesHook } from '../taskrunner/hooks/volumes.js';
import { validateHook } from '../taskrunner/hooks/validate.js';
import type { AgentConfig } from './config.js';
import { DataDir } from './data-dir.js';
import { createDrivers } from './drivers.js';
import { bindToHost, readMachineMark } from './host-binding.js';
import { gatherNodeFacts, interpolationFacts, readNodeId } from './node.js';
import { statusLine } from './status-line.js';

/** How long the doors stay shut for the sake of the tasks: most are found in a few milliseconds each. */
const LOOK_FIRST_MS = 1_000;
/** So many tasks are set up in one turn of the event loop. */
const SET_UP_IN_A_TURN = 25;

/** A running agent. */
export interface Agent {
  readonly store: StateStore;
  readonly operations: AgentOperations;
  readonly tcpUrl: string | undefined;
  /** Allocs that are not over. */
  liveAllocs(): number;
  /** How its tasks are, in one line. */
  status(): string;
  /** Caps every kill_timeout from now on; a stop that is under way keeps its deadline. */
  setMaxKillTimeout(ms: number): void;
  /** New tokens, names and certificates for the TCP listener. @throws AgentError; the old ones stay in force */
  setAccess(config: AgentConfig): void;
  /** Leaves: closes doors and store; every task goes on. Twice is allowed. */
  close(): Promise<void>;
}

/**
 * Starts an agent on `config.dataDir`. The caller closes it.
 * @throws AgentError store_locked (another agent has it), schema_too_new, store_corrupt, wrong_host, already_running (socket), …
 */
export async function startAgent(
  config: AgentConfig,
  deps: {
    readonly clock: Clock;
    readonly logger: Logger;
    /** For GET /v1/agent/monitor. */
    readonly logTap?: LogTap;
    /** `holdfast dev`: TCP on loopback may do without a token. */
    readonly allowOpenTcp?: boolean;
  },
): Promise<Agent> {
  const { clock, logger } = deps;
  const scope = new Scope();
  try {
    const bootId = readBootId();
    const dataDir = new DataDir(config.dataDir);
    await dataDir.make();
    const store = openSqliteStore({
      path: dataDir.stateDb,
      clock,
      logger,
      bootId,
      limits: config.feed,
    });
    scope.add('store', () => store.close());
    await bindToHost(store, logger, {
      mark: readMachineMark(),
      accept: config.acceptHost,
      dataDir: config.dataDir,
    });
    const runDirs = scope.own('spare run directories', await SpareDirs.open(dataDir.spares('run'), clock));
    const allocDirs = scope.own(
      'spare alloc directories',
      await SpareDirs.open(dataDir.spares('alloc'), clock, furnishAlloc),
    );
    const executorPath = findExecutor();
    const cgroups = Cgroups.open({ root: config.cgroupRoot });
    const launcher = scope.own(
      'launcher',
      new Launcher({ clock, logger, executorPath, admit: (pid) => cgroups.admitLauncher(pid) }),
    );
    const isolation = probeIsolation(executorPath, process.getuid?.() ?? 0);
    const pace = new Pace(SET_UP_IN_A_TURN);
    const drivers = createDrivers({
      pace,
      isolation,
      exec: config.exec,
      clock,
      logger,
      bootId,
      runsDir: dataDir.runDir,
      makeDir: runDirs.make,
      cgroups,
      executorPath,
      launcher,
    });
    const node = gatherNodeFacts({
      nodeId: await readNodeId(store),
      config,
      version: VERSION,
      bootId,
      startedAtMs: clock.wallMs(),
      drivers: await drivers.fingerprints(),
      isolation,
      cgroups,
    });
    let { maxKillTimeoutMs } = config;
    const allocs = new AllocTable({
      clock,
      bootId,
      logger,
      store,
      driver: (name) => drivers.get(name),
      hooks: [
        validateHook({ denied: config.deniedUsers, drivers: config.checkedDrivers }),
        taskDirHook(pace, allocDirs.make),
        volumesHook(config.hostVolumes),
        dispatchPayloadHook,
        artifactHook(),
        templateHook({ hostPaths: config.templateHostPaths }),
      ],
      maxKillTimeoutMs: () => maxKillTimeoutMs,
      agentEnv: process.env,
      nodeFacts: interpolationFacts(node, config),
      taskDirs: (allocId, task) => dataDir.taskDirs(allocId, task),
    });
    scope.add('tasks', () => allocs.shutdown());
    const scheduler: Scheduler = new Scheduler({
      clock,
      bootId,
      logger,
      store,
      allocs,
      removeAllocDir: (allocId) => dataDir.removeAlloc(allocId),
      mayPlace: () => drainer.scheduling.eligible,
    });
    const drainer: Drainer = new Drainer({
      clock,
      logger,
      bootId,
      store,
      allocs,
      stopAlloc: (id, noShutdownDelay) => scheduler.stopAlloc(id, noShutdownDelay, 'node is draining'),
      reconsiderAll: () => {
        scheduler.reconsiderAll();
      },
    });
    scope.add('drain', () => {
      drainer[Symbol.dispose]();
    });
    allocs.onEnded(() => void drainer.step());
    const bootOf = (runId: string): string | undefined => store.getRun(runId)?.bootId;
    await scheduler.restore();
    await lookFirst(allocs, clock, logger);
    await scheduler.start();
    void drainer.step();
    // Only now is loaded what finding the tasks again does not need: it takes longer than finding them.
    const { openDoors } = await import('./doors.js');
    const doors = await openDoors(scope, {
      ...deps,
      config,
      dataDir,
      store,
      bootId,
      bootOf,
      executorPath,
      cgroups,
      node,
      allocs,
      scheduler,
      drainer,
    });
    logger.info(
      { version: VERSION, data_dir: config.dataDir, socket: config.socket, allocs: allocs.liveCount() },
      'agent is ready',
    );
    return {
      store,
      operations: doors.operations,
      tcpUrl: doors.tcpUrl,
      liveAllocs: () => allocs.liveCount(),
      status: () =>
        statusLine(allocs.liveIds().flatMap((id) => store.listTasks(id).map(({ phase }) => phase))),
      setMaxKillTimeout: (ms) => {
        maxKillTimeoutMs = ms;
      },
      setAccess: doors.setAccess,
      close: () => scope.close(),
    };
  } catch (error) {
    await scope.close();
    throw error;
  }
}

/** Finds out about the tasks before anything else is done; what takes long is left to itself. */
async function lookFirst(allocs: AllocTable, clock: Clock, logger: Logger): Promise<void> {
  if (allocs.liveCount() === 0) return;
  const fromMs = clock.monoMs();
  const known = new AbortController();
  const all = allocs.known().then(() => {
    logger.info(
      { allocs: allocs.liveCount(), took_ms: Math.round(clock.monoMs() - fromMs) },
      'tasks are supervised',
    );
    known.abort();
  });
  await Promise.race([all, sleep(clock, LOOK_FIRST_MS, known.signal)]);
}
