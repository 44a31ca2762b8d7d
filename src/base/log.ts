/** Owns the agent's own log: JSON lines by pino, with child fields (alloc_id, task). Values of env never go in. */
import { pino, destination } from 'pino';

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * A logger that writes JSON lines to a descriptor, synchronously: a line that was logged is out even when the next
 * instruction kills the process.
 * @param fd 2 for the daemon
 */
export function createLogger(level: LogLevel, fd = 2): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: ['env', '*.env'], censor: '[hidden]' },
    },
    destination({ fd, sync: true }),
  );
}

/** Drops everything: for tests and for tools that have no log. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLogger,
};
