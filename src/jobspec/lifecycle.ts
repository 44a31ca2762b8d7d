/** Owns the roles that tasks have in the life of their alloc. Pure. */
import type { Task } from './types.js';

export type TaskRole =
  'prestart' | 'prestart_sidecar' | 'main' | 'poststart' | 'poststart_sidecar' | 'poststop';

export function roleOf(task: Pick<Task, 'lifecycle'>): TaskRole {
  if (task.lifecycle === undefined) return 'main';
  const { hook, sidecar } = task.lifecycle;
  if (hook === 'poststop') return 'poststop';
  return sidecar ? `${hook}_sidecar` : hook;
}

export function isSidecar(role: TaskRole): boolean {
  return role === 'prestart_sidecar' || role === 'poststart_sidecar';
}
