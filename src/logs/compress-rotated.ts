/** Owns the choice of what is compressed: files of a log that are complete, oldest first, one at a time. */
import { compressFile } from './compressed.js';
import { LogDirectory } from './directory.js';
import { LOG_STREAMS } from './files.js';

/**
 * Compresses the rotated files of one task. The newest of each stream is the executor's and is never touched, also when the
 * task is over: its next run goes on in it.
 * @returns how many were compressed
 * @throws AgentError not_found when there is no log directory
 */
export async function compressRotated(
  log: { readonly logDir: string; readonly root: string; readonly task: string },
  signal: AbortSignal,
): Promise<number> {
  await using directory = await LogDirectory.open(log.logDir, log.root);
  let count = 0;
  for (const stream of LOG_STREAMS) {
    const files = await directory.list(log.task, stream);
    for (const file of files.slice(0, -1)) {
      if (signal.aborted) return count;
      if (!file.isCompressed && (await compressFile(directory.path, file.name, { signal }))) count += 1;
    }
  }
  return count;
}
