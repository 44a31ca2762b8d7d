/** Owns which names a job, group or task may have: they become parts of paths, cgroup names, targets and log lines. */
import type { LabelledBody } from './blocks.js';
import { LONGEST_NAME } from './defaults.js';
import type { Session } from './session.js';

/** Names of directories that stand beside a task's own in the directory of its alloc. */
const TAKEN = new Set(['alloc', '.', '..']);

/** Tells what is wrong with the label of a block. */
export function checkName(
  what: 'job' | 'group' | 'task',
  { label, labelSpot }: LabelledBody,
  session: Session,
): void {
  const why = badName(what, label);
  if (why !== undefined) session.fault(labelSpot, `bad ${what} name ${shown(label)}: ${why}`);
}

function badName(what: 'job' | 'group' | 'task', name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (Buffer.byteLength(name) > LONGEST_NAME) return `it is longer than ${LONGEST_NAME} bytes`;
  if (name.includes('/')) return 'a name cannot hold `/`';
  if (/\p{Cc}|\p{Cs}|[\u2028\u2029]/u.test(name)) return 'a name cannot hold control characters';
  if (what === 'job' && /\s/.test(name)) return 'a job name cannot hold spaces';
  if (what === 'task' && TAKEN.has(name)) return 'this name is taken by a directory of holdfast';
  return undefined;
}

function shown(name: string): string {
  return JSON.stringify(name.length > 40 ? `${name.slice(0, 39)}…` : name);
}
