/** Owns the agent's own log: JSON lines by pino, with child fields (alloc_id, task). Values of env never go in. */
import { pino, destination, type Logger as PinoLogger } from 'pino';

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

/** A logger whose level, and that of all its children, can be changed. */
export interface AdjustableLogger extends Logger {
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
  const threshold: Threshold = { level };
  const sink = pino(
    {
      // Ours decides what is written: pino copies a level into each child.
      level: 'debug',
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ['env', '*.env'], censor: '[hidden]' },
    },
    destination({ fd, sync: true }),
  );
  return {
    ...aboveThreshold(sink, threshold),
    setLevel: (changed) => {
      threshold.level = changed;
    },
  };
}

/** Shared by a logger and all its children. */
interface Threshold {
  level: LogLevel;
}

function aboveThreshold(sink: PinoLogger, threshold: Threshold): Logger {
  const write = (level: LogLevel) => (fields: object, message: string) => {
    if (LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(threshold.level)) sink[level](fields, message);
  };
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    child: (fields) => aboveThreshold(sink.child(fields), threshold),
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
