/** Owns asking the daemon for a log: the last lines at once, or a stream of pieces. */
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';
import { FrameReader, LineReader, type LogPiece } from './frames.js';
import type { Params } from './http.js';

/** One stream of one task. */
export interface LogName {
  readonly allocId: string;
  readonly task: string;
  readonly stream: 'stdout' | 'stderr';
}

/** The last lines; none when the task has written nothing yet. @throws CliError */
export async function fetchTail(cli: Cli, name: LogName, lines: number): Promise<string[]> {
  const reader = new LineReader();
  const found: string[] = [];
  const never = new AbortController().signal;
  for await (const { data } of streamLog(cli, name, { lines }, never)) found.push(...reader.push(data));
  found.push(...reader.end());
  return found.slice(-lines);
}

/** The pieces of a log, as they come; none when the task has no log yet. @throws CliError */
export async function* streamLog(
  cli: Cli,
  { allocId, task, stream }: LogName,
  query: Params,
  signal: AbortSignal,
): AsyncGenerator<LogPiece, void, void> {
  const frames = new FrameReader();
  try {
    const path = `/v1/client/fs/logs/${allocId}`;
    for await (const data of cli.client.stream(path, { task, type: stream, ...query }, signal)) {
      yield* frames.push(data);
    }
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.notFound) return;
    throw error;
  }
}
