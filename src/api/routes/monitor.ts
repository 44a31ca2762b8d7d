/** Owns the route of the agent's own log, live, as Nomad's `monitor` reads it. */
import { AgentError } from '../../base/errors.js';
import { LOG_LEVELS, type LogLevel, type LogTap } from '../../base/log.js';
import { withHeartbeat } from '../heartbeat.js';
import type { Call, Route, StreamAnswer } from '../route.js';
import type { Services } from '../services.js';
import type { StreamFrame } from '../wire.js';

/** As Nomad's agents do. */
const HEARTBEAT_MS = 1_000;
const HEARTBEAT = '{}';
/** Lines that wait for a slow reader; then it loses the oldest and is told how many. */
const MOST_WAITING = 512;

export function monitorRoutes(services: Services): readonly Route[] {
  return [
    {
      kind: 'stream',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/agent/monitor',
      summary: "Tells the agent's own log from now on",
      query: ['log_level', 'log_json', 'plain'],
      open: (call) => openMonitor(services, call),
    },
  ];
}

function openMonitor({ logTap, clock }: Services, { query, signal }: Call): StreamAnswer {
  if (logTap === undefined) {
    throw new AgentError('not_found', 'this agent keeps no log: it was started by "holdfast dev"');
  }
  const level = readLevel(query.text('log_level') ?? '');
  const lines = readTap(logTap, { level, asJson: query.flag('log_json'), signal });
  if (query.flag('plain')) return { contentType: 'text/plain; charset=utf-8', body: lines };
  const body = withHeartbeat(encodeFrames(lines), { beat: HEARTBEAT, everyMs: HEARTBEAT_MS, clock });
  return { contentType: 'application/json', body };
}

/** Nomad's names, in any case; what is finer than ours is our finest. @throws AgentError bad_request */
function readLevel(asked: string): LogLevel {
  const name = asked.toLowerCase();
  if (name === '') return 'info';
  if (name === 'trace') return 'debug';
  const level = LOG_LEVELS.find((each) => each === name);
  if (level !== undefined) return level;
  throw new AgentError('bad_request', `query parameter log_level: one of ${LOG_LEVELS.join(', ')}`);
}

interface Asked {
  readonly level: LogLevel;
  readonly asJson: boolean;
  readonly signal: AbortSignal;
}

async function* readTap(
  logTap: LogTap,
  { level, asJson, signal }: Asked,
): AsyncGenerator<string, void, void> {
  const waiting: string[] = [];
  let lost = 0;
  let wake: () => void = () => undefined;
  const onAbort = (): void => {
    wake();
  };
  const tap = logTap.tap(level, (line) => {
    waiting.push(line);
    if (waiting.length > MOST_WAITING) {
      waiting.shift();
      lost += 1;
    }
    wake();
  });
  signal.addEventListener('abort', onAbort, { once: true });
  const isAborted = (): boolean => signal.aborted;
  try {
    while (!isAborted()) {
      if (lost > 0) {
        const msg = `${lost} lines are lost: the reader is too slow`;
        lost = 0;
        yield formatLine(JSON.stringify({ level: 'warn', msg }), asJson);
      }
      const line = waiting.shift();
      if (line === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      } else yield formatLine(line, asJson);
    }
  } finally {
    tap[Symbol.dispose]();
    signal.removeEventListener('abort', onAbort);
  }
}

/** `2026-01-31T12:00:00.000Z [INFO]  agent is ready: allocs=2`. */
function formatLine(json: string, asJson: boolean): string {
  const text = json.trimEnd();
  if (asJson) return `${text}\n`;
  const { level, time, msg, ...fields } = JSON.parse(text) as Record<string, unknown>;
  const told = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const head = `${typeof time === 'string' ? time : ''} [${String(level).toUpperCase()}]`
    .trimStart()
    .padEnd(33);
  return `${head} ${String(msg)}${told.length === 0 ? '' : `: ${told.join(' ')}`}\n`;
}

async function* encodeFrames(lines: AsyncGenerator<string, void, void>): AsyncGenerator<string, void, void> {
  for await (const line of lines) {
    const frame: StreamFrame = { Data: Buffer.from(line).toString('base64'), FileEvent: 'log' };
    yield JSON.stringify(frame);
  }
}
