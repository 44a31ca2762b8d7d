/**
 * Owns what an agent opens once it has looked for its tasks: the API, and what works beside the tasks. agent.ts loads it
 * then: nothing in here may be needed for finding a task again.
 */
import { join } from 'node:path';
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { AgentOperations, NodeFacts } from '../api/operations.js';
import { createApiServer, type TcpAccess } from '../api/server.js';
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger, LogTap } from '../base/log.js';
import type { Scope } from '../base/scope.js';
import { VERSION } from '../base/version.js';
import type { Cgroups } from '../executor/cgroups.js';
import { isBeingSetUp } from '../executor/launch.js';
import { sweepRunDirs } from '../executor/sweep.js';
import { Collector } from '../scheduler/collector.js';
import type { Drainer } from '../scheduler/drainer.js';
import type { Scheduler } from '../scheduler/scheduler.js';
import type { StateStore } from '../state/store.js';
import { HostSampler } from '../stats/host.js';
// Loaded now and not when the first task needs it: an upgrade may have replaced the files by then.
import '../taskrunner/hooks/template/render.js';
import type { AgentConfig } from './config.js';
import { readDiskUse, type DataDir } from './data-dir.js';
import { Doctor } from './doctor.js';
import { LogCompressor } from './log-compressor.js';
import { createOperations } from './operations.js';
import { UsageWatch } from './usage-watch.js';

/** The parts of an agent that is looking after its tasks. */
export interface Inside {
  readonly config: AgentConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly logTap?: LogTap;
  readonly allowOpenTcp?: boolean;
  readonly dataDir: DataDir;
  readonly store: StateStore;
  readonly bootId: string;
  /** Boot in which a run was meant to start. */
  readonly bootOf: (runId: string) => string | undefined;
  readonly executorPath: string;
  readonly cgroups: Cgroups;
  readonly node: NodeFacts;
  readonly allocs: AllocTable;
  readonly scheduler: Scheduler;
  readonly drainer: Drainer;
}

export interface Doors {
  readonly operations: AgentOperations;
  readonly tcpUrl: string | undefined;
  /** See Agent.setAccess. */
  readonly setAccess: (config: AgentConfig) => void;
}

/**
 * Opens them; `scope` closes them.
 * @throws AgentError already_running (socket), bad_request, not_permitted
 */
export async function openDoors(scope: Scope, inside: Inside): Promise<Doors> {
  const { config, clock, logger, dataDir, store, allocs, scheduler, drainer, node } = inside;
  const collector = scope.own(
    'collector',
    new Collector({
      clock,
      logger,
      store,
      allocs,
      limits: config.gc,
      diskUse: () => readDiskUse(config.dataDir),
      removeAllocDir: (allocId) => dataDir.removeAlloc(allocId),
      exclusively: (work) => scheduler.exclusively(work),
    }),
  );
  const usage = scope.own('usage watch', new UsageWatch({ clock, logger, allocs }));
  const compressor = scope.own(
    'log compressor',
    new LogCompressor({
      clock,
      logger,
      store,
      logDirOf: (allocId, task) => ({
        logDir: dataDir.taskDirs(allocId, task).logDir,
        root: join(dataDir.allocDir, allocId),
      }),
    }),
  );
  let strays: readonly string[] = [];
  const operations = createOperations({
    usage,
    store,
    scheduler,
    drainer,
    allocs,
    node,
    collector,
    doctor: new Doctor({ ...inside, socket: config.socket, version: VERSION }),
    host: new HostSampler(clock, config.dataDir),
    warnings: () => [...warnings(store), ...strays],
  });
  const server = await createApiServer(
    { store, operations, clock, logger, dataDir: config.dataDir, ...tapOf(inside) },
    {
      socketPath: config.socket,
      ...(config.socketGid === undefined ? {} : { socketGid: config.socketGid }),
      ...(config.http === undefined
        ? {}
        : {
            tcp: { ...config.http, ...accessOf(config, node.name), allowOpen: inside.allowOpenTcp ?? false },
          }),
    },
  );
  scope.add('api', () => server.close());
  // After the doors: whoever waits for an answer goes first.
  collector.start();
  usage.start();
  compressor.start();
  // Nobody waits for this: what is left over is in nobody's way.
  void sweep(inside).then((found) => {
    strays = found;
  });
  return {
    operations,
    tcpUrl: server.tcpUrl,
    setAccess: (changed) => {
      server.changeAccess(accessOf(changed, node.name));
    },
  };
}

/** Removes what runs that are over have left. @returns what is alive of them, for people */
async function sweep({ clock, bootId, bootOf, dataDir, store, logger }: Inside): Promise<readonly string[]> {
  const isOpen = (runId: string): boolean => {
    const run = store.getRun(runId);
    return isBeingSetUp(runId) || (run !== undefined && run.outcome === undefined);
  };
  try {
    const { removed, alive } = await sweepRunDirs({ clock, bootId, bootOf, runsDir: dataDir.runDir }, isOpen);
    if (removed > 0 || alive.length > 0) logger.info({ removed, alive }, 'swept the run directories');
    return alive.map((dir) => `something of a run that is over is alive, see ${dir}/status`);
  } catch (error) {
    logger.warn({ error: describeError(error) }, 'cannot sweep the run directories, ignoring');
    return [];
  }
}

/** Who may use the TCP listener, and by which names. */
function accessOf({ tokens, tls, httpNames }: AgentConfig, nodeName: string): TcpAccess {
  return { tokens, tls, names: [nodeName, ...httpNames] };
}

function tapOf({ logTap }: { readonly logTap?: LogTap }): { readonly logTap?: LogTap } {
  return logTap === undefined ? {} : { logTap };
}

/** What an operator must know of, worst first. */
function warnings(store: StateStore): readonly string[] {
  const found: string[] = [];
  const kept = store.keptChanges();
  if (kept > 0) {
    found.push(
      `the disk refuses writes: ${kept} changes wait in memory; tasks run on, nothing new is started`,
    );
  }
  const quarantined = store.listQuarantined();
  if (quarantined.length > 0) {
    found.push(`${quarantined.length} stored rows could not be read and were moved aside (table quarantine)`);
  }
  return found;
}
