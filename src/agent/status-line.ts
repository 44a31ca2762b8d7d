/** Owns the line that sums up the tasks of this host for the service manager. Pure. */
import type { TaskPhase } from '../state/store.js';

/** In the order in which they are told; what is over is not counted. */
const WORDS = ['running', 'starting', 'backing off', 'stopping'] as const;

/** `12 tasks running, 1 backing off`. */
export function statusLine(phases: Iterable<TaskPhase>): string {
  const counts = new Map<string, number>();
  for (const phase of phases) {
    const word = wordFor(phase);
    if (word !== undefined) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const parts = WORDS.flatMap((word) => {
    const count = counts.get(word);
    return count === undefined ? [] : [{ count, word }];
  });
  if (parts.length === 0) return 'no tasks';
  return parts
    .map(({ count, word }, at) =>
      at > 0 ? `${count} ${word}` : `${count} task${count === 1 ? '' : 's'} ${word}`,
    )
    .join(', ');
}

function wordFor(phase: TaskPhase): (typeof WORDS)[number] | undefined {
  switch (phase) {
    case 'running':
      return 'running';
    case 'waiting':
    case 'prestart':
    case 'starting':
      return 'starting';
    case 'backoff':
      return 'backing off';
    case 'stopping':
    case 'unkillable':
      return 'stopping';
    case 'exited':
    case 'dead':
    case 'complete':
      return undefined;
  }
}
