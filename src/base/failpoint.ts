/**
 * Owns the places where an agent under test is made to die: between what it stores, does and tells. Set
 * HOLDFAST_FAILPOINT=NAME:N and the agent kills itself when it comes to that place for the Nth time. Without it the
 * function does nothing.
 */

/** Each name is used at one place; docs/crash-windows.md says what the next start makes of it. */
export const FAILPOINTS = [
  /** A group of changes is about to be written. */
  'store.before_commit',
  /** It is durable; nobody has been told. */
  'store.after_commit',
  /** The feed has been told; whoever asked for the change has not. */
  'store.after_tell',
  /** A job is stored, its allocs are not. */
  'scheduler.after_job',
  /** An alloc's wish to stop is stored, and not acted upon. */
  'scheduler.before_stop',
  /** What an event means for a task is on its way to the store or there; what follows from it has not begun. */
  'task.before_act',
  /** What follows from it has begun. */
  'task.after_act',
  /** The run directory is there, empty. */
  'run.after_dir',
  /** The spec is in it; the cgroup leaf that it names is not there. */
  'run.after_spec',
  /** All is prepared; no executor has been started. */
  'run.before_spawn',
  /** The executor has said how the start went; nobody has been told. */
  'run.after_spawn',
  /** The end of a run is stored; what it left is all there. */
  'run.before_release',
  /** The spec of a run that is over is removed, the rest of its directory is not. */
  'run.half_released',
  /** A request has been carried out and not been answered. */
  'api.before_reply',
] as const;
export type Failpoint = (typeof FAILPOINTS)[number];

/** Dies here when that was asked for. */
export const failpoint: (name: Failpoint) => void = plan(process.env['HOLDFAST_FAILPOINT']);

function plan(asked: string | undefined): (name: Failpoint) => void {
  if (asked === undefined || asked === '') return () => undefined;
  const [wanted, times] = asked.split(':');
  if (!FAILPOINTS.some((name) => name === wanted) || !/^[1-9]\d*$/.test(times ?? '')) {
    throw new Error(`HOLDFAST_FAILPOINT=${asked}: expected NAME:N with one of ${FAILPOINTS.join(', ')}`);
  }
  let left = Number(times);
  return (name) => {
    if (name !== wanted) return;
    left -= 1;
    if (left === 0) process.kill(process.pid, 'SIGKILL');
  };
}
