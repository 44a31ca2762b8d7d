/**
 * Owns the API server: the route table, its listeners (a unix socket always, TCP when asked) and their end. Holds no
 * state of tasks: reads go to the store, changes to AgentOperations.
 */
import { setMaxListeners } from 'node:events';
import type { FastifyInstance } from 'fastify';
import { Scope } from '../base/scope.js';
import type { Clock } from '../base/clock.js';
import type { Logger, LogTap } from '../base/log.js';
import type { StateStore } from '../state/store.js';
import { OpenApi } from './answers.js';
import { Feed, type FeedLimits } from './feed.js';
import { sampleEvent } from './feed-stats.js';
import { EvaluationLog } from './evaluations.js';
import { tcpGuard, type GuardSettings, type TcpGuard } from './guard.js';
import { createHttpApp } from './http.js';
import { IndexWatch } from './index-watch.js';
import { createListener, type TlsSettings } from './listener.js';
import { MetricCounts } from './metric-counts.js';
import { describeRoutes } from './openapi.js';
import type { AgentOperations } from './operations.js';
import type { Route } from './route.js';
import { allocationRoutes } from './routes/allocations.js';
import { agentRoutes, evaluationRoutes, hostRoutes, nodeRoutes, searchRoutes } from './routes/cluster.js';
import { deploymentRoutes } from './routes/deployments.js';
import { feedRoutes } from './routes/feed.js';
import { fileRoutes } from './routes/files.js';
import { holdfastRoutes } from './routes/holdfast.js';
import { jobRoutes } from './routes/jobs.js';
import { gcRoutes, launchRoutes } from './routes/launches.js';
import { logRoutes } from './routes/logs.js';
import { metricRoutes } from './routes/metrics.js';
import { monitorRoutes } from './routes/monitor.js';
import type { Services } from './services.js';
import { Sockets } from './sockets.js';
import { claimSocketPath } from './unix-socket.js';
import { View } from './view.js';

/** What an answer in hand may still take when the agent leaves: systemd and people wait for it. */
const CLOSE_GRACE_MS = 2_000;

export interface ApiDeps {
  readonly store: StateStore;
  readonly operations: AgentOperations;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly logTap?: LogTap;
  readonly dataDir: string;
  readonly feedLimits?: Partial<FeedLimits>;
}

export interface ListenOptions {
  /** Path of the unix socket. */
  readonly socketPath: string;
  /** Group that may use it besides its owner; undefined = the agent's own. */
  readonly socketGid?: number;
  /** Also listen there. */
  readonly tcp?: TcpOptions;
}

export interface TcpOptions extends GuardSettings {
  readonly port: number;
  /** Undefined = plain HTTP. */
  readonly tls: TlsSettings | undefined;
}

/** What of TcpOptions can change while it listens. */
export type TcpAccess = Pick<TcpOptions, 'tokens' | 'names' | 'tls'>;

export interface ApiServer {
  /** `http://127.0.0.1:4646` when it listens on TCP. */
  readonly tcpUrl: string | undefined;
  /** New tokens and certificates for those who come from now on. @throws AgentError; the old ones stay in force */
  changeAccess(access: TcpAccess): void;
  /** Ends blocking queries, streams and feeds (1012), then the listeners. Twice is allowed. */
  close(): Promise<void>;
}

/**
 * Starts serving. The caller closes what it gets.
 * @throws AgentError already_running, bad_request (socket path), not_permitted (open TCP without a token)
 */
export async function createApiServer(deps: ApiDeps, listen: ListenOptions): Promise<ApiServer> {
  const { tcp } = listen;
  let guard = tcp === undefined ? undefined : tcpGuard(tcp);
  const scope = new Scope();
  try {
    const socket = await claimSocketPath(listen.socketPath, listen.socketGid);
    scope.add('socket path', () => {
      socket.release();
    });
    const { store, clock, logger } = deps;
    const watch = scope.own('index watch', new IndexWatch(store, clock));
    const view = new View(store, deps.operations);
    const limits = deps.feedLimits;
    const feed = scope.own(
      'feed',
      new Feed({ store, clock, view, ...(limits === undefined ? {} : { limits }) }),
    );
    const samples = deps.operations.onUsage((round) => {
      if (!feed.isNamed('Stats')) return;
      for (const sample of round) feed.tell(sampleEvent(sample, deps.operations.node()));
    });
    scope.add('samples', () => {
      samples[Symbol.dispose]();
    });
    const leaving = new AbortController();
    // One listener for each request in hand is no leak.
    setMaxListeners(0, leaving.signal);
    const counts = scope.own('metric counts', new MetricCounts(store));
    const routes = buildRoutes({ ...deps, view, evaluations: new EvaluationLog(store) }, feed, counts);
    const sockets = new Sockets({ routes, clock, logger, leaving: leaving.signal });
    let changeTls: (tls: TlsSettings) => void = () => undefined;
    const start = async (
      at: { path: string } | { host: string; port: number },
      by: () => TcpGuard | undefined,
      tls?: TlsSettings,
    ): Promise<string> => {
      const app = createHttpApp(
        { store, watch, logger, routes, leaving: leaving.signal },
        {
          guard: by,
          createServer: (handler) => {
            const listener = createListener(handler, tls);
            if (tls !== undefined)
              changeTls = (changed) => {
                listener.changeTls(changed);
              };
            return listener.server;
          },
        },
      );
      sockets.attach(app.server, by);
      scope.add('listener', () => closeListener(app, clock));
      return await app.listen(at);
    };
    await start({ path: socket.bindPath }, () => undefined);
    socket.publish();
    const tcpUrl =
      tcp === undefined ? undefined : await start({ host: tcp.host, port: tcp.port }, () => guard, tcp.tls);
    scope.add('callers', async () => {
      leaving.abort();
      await sockets.drained();
    });
    return {
      tcpUrl,
      changeAccess: (access) => {
        if (tcp === undefined) return;
        const changed = tcpGuard({ ...tcp, ...access });
        if (access.tls !== undefined && tcp.tls !== undefined) changeTls(access.tls);
        guard = changed;
      },
      close: () => scope.close(),
    };
  } catch (error) {
    await scope.close();
    throw error;
  }
}

/** Takes no more callers, lets those in hand finish, and cuts off the ones that do not take their answer. */
async function closeListener(app: FastifyInstance, clock: Clock): Promise<void> {
  const cutOff = clock.setTimer(CLOSE_GRACE_MS, () => {
    app.server.closeAllConnections();
  });
  await app.close();
  cutOff[Symbol.dispose]();
}

/** Every route there is. */
function buildRoutes(services: Services, feed: Feed, counts: MetricCounts): readonly Route[] {
  const routes: Route[] = [
    ...jobRoutes(services),
    ...allocationRoutes(services),
    ...deploymentRoutes(services),
    ...launchRoutes(services),
    ...gcRoutes(services),
    ...evaluationRoutes(services),
    ...nodeRoutes(services),
    ...hostRoutes(services),
    ...agentRoutes(services),
    ...monitorRoutes(services),
    ...searchRoutes(services),
    ...holdfastRoutes(services),
    ...logRoutes(services),
    ...fileRoutes(services),
    ...feedRoutes(feed),
    ...metricRoutes(services, { feed, counts }),
  ];
  routes.push({
    kind: 'json',
    methods: ['GET'],
    scope: 'read',
    path: '/v1/openapi.json',
    summary: 'Lists every route',
    answer: OpenApi,
    handle: () => describeRoutes(routes, services.operations.node().version),
  });
  return routes;
}
