/** Owns the agent's own log: JSON lines by pino, with child fields (alloc_id, task). Values of env never go in. */
import { pino, destination, type Logger as PinoLogger } from 'pino';

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

/** Where the lines of a log can be listened to while they are written. */
export interface LogTap {
  /** @param onLine gets each line of `level` and above, also of levels that are not written; must not log itself */
  tap(level: LogLevel, onLine: (json: string) => void): Disposable;
}

/** A logger whose level, and that of all its children, can be changed. */
export interface AdjustableLogger extends Logger, LogTap {
  setLevel(level: LogLevel): void;
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * A logger that writes JSON lines to a descriptor, synchronously: a line that was logged is out even when the next
 * instruction kills the process.
 * @param fd 2 for the daemon
 */
export function createLogger(level: LogLevel, fd = 2): AdjustableLogger {
  const threshold: Threshold = { level, now: level, taps: new Set() };
  const out = destination({ fd, sync: true });
  const sink = pino(
    {
      // Ours decides what is written: pino copies a level into each child.
      level: 'debug',
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ['env', '*.env'], censor: '[hidden]' },
    },
    {
      write: (line: string) => {
        if (isAtLeast(threshold.now, threshold.level)) out.write(line);
        for (const tap of [...threshold.taps]) if (isAtLeast(threshold.now, tap.level)) tap.onLine(line);
      },
    },
  );
  return {
    ...aboveThreshold(sink, threshold),
    setLevel: (changed) => {
      threshold.level = changed;
    },
    tap: (tapLevel, onLine) => {
      const tap: Tap = { level: tapLevel, onLine };
      threshold.taps.add(tap);
      return { [Symbol.dispose]: () => threshold.taps.delete(tap) };
    },
  };
}

interface Tap {
  readonly level: LogLevel;
  readonly onLine: (json: string) => void;
}

/** Shared by a logger and all its children. */
interface Threshold {
  level: LogLevel;
  /** Of the line that is being written: writing is synchronous. */
  now: LogLevel;
  readonly taps: Set<Tap>;
}

function isAtLeast(level: LogLevel, lowest: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(lowest);
}

/** @param bound goes into each line: pino makes the text of a child's fields when it is made, and most never write */
function aboveThreshold(sink: PinoLogger, threshold: Threshold, bound: object = {}): Logger {
  const write = (level: LogLevel) => (fields: object, message: string) => {
    const isWanted =
      isAtLeast(level, threshold.level) || [...threshold.taps].some((tap) => isAtLeast(level, tap.level));
    if (!isWanted) return;
    threshold.now = level;
    sink[level]({ ...bound, ...fields }, message);
  };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => aboveThreshold(sink, threshold, { ...bound, ...fields }),
  };
}

/** Drops everything: for tests and for tools that have no log. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};
