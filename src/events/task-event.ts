/** Owns the events of a task: what may be said, with which facts, and how it reads. Types are Nomad's words. */
import { signalName } from '../base/signals.js';
import { nomadExitCode, type ExitResult } from './exit-result.js';

/** One thing that happened to a task. */
export type TaskEvent =
  | { readonly type: 'Received' }
  | { readonly type: 'Task Setup'; readonly message: string }
  | { readonly type: 'Failed Validation'; readonly error: string }
  | { readonly type: 'Driver Failure'; readonly error: string }
  | { readonly type: 'Driver'; readonly message: string }
  | { readonly type: 'Task hook failed'; readonly hook: string; readonly error: string }
  | { readonly type: 'Task hook message'; readonly hook: string; readonly message: string }
  | { readonly type: 'Downloading Artifacts' }
  | { readonly type: 'Failed Artifact Download'; readonly error: string }
  /** What became of a template; `fails` when the task cannot go on without it. */
  | { readonly type: 'Template'; readonly message: string; readonly fails: boolean }
  | { readonly type: 'Started'; readonly pid: number | undefined }
  | { readonly type: 'Terminated'; readonly result: ExitResult }
  | { readonly type: 'Restarting'; readonly reason: string; readonly delayMs: number }
  | { readonly type: 'Not Restarting'; readonly reason: string }
  | { readonly type: 'Restart Signaled'; readonly reason: string }
  | { readonly type: 'Signaling'; readonly signal: string; readonly reason: string }
  | { readonly type: 'Waiting for Shutdown Delay'; readonly delayMs: number }
  | { readonly type: 'Skipping Shutdown Delay' }
  | { readonly type: 'Killing'; readonly signal: string; readonly timeoutMs: number; readonly reason: string }
  | { readonly type: 'Killed'; readonly error: string | undefined }
  | {
      readonly type: 'Kill Failed';
      readonly error: string;
      readonly attempt: number;
      readonly retryInMs: number | undefined;
    }
  | { readonly type: 'Sibling Task Failed'; readonly sibling: string }
  | { readonly type: 'Leader Task Dead'; readonly leader: string }
  | { readonly type: 'Main Tasks Dead' }
  | { readonly type: 'Alloc Unhealthy'; readonly message: string }
  | {
      readonly type: 'Check Failing' | 'Check Passing';
      readonly check: string;
      readonly service: string;
      /** What was answered. */
      readonly output: string;
    }
  | { readonly type: 'Exec'; readonly command: string; readonly by: string }
  | { readonly type: 'Supervision Lost'; readonly message: string }
  | { readonly type: 'Failed Restoring Task'; readonly error: string };

export type TaskEventType = TaskEvent['type'];

/** An event with its place in the task's history. `seq` counts from 1 and has no gap but what the bound dropped. */
export interface StampedTaskEvent {
  readonly seq: number;
  readonly atMs: number;
  readonly event: TaskEvent;
}

/** Events of these types make the task count as failed, for good. */
export function failsTask(event: TaskEvent): boolean {
  if (event.type === 'Template') return event.fails;
  return event.type === 'Not Restarting';
}

/** How an end reads for people: `exited 3`, `killed by SIGKILL (OOM)`, `unknown (host rebooted)`. */
export function describeExit(result: ExitResult): string {
  switch (result.kind) {
    case 'exited':
      return `exited ${result.code}${result.oomKilled ? ' (a process was OOM killed)' : ''}`;
    case 'signaled': {
      const notes = [result.oomKilled ? 'OOM killed' : '', result.coreDumped ? 'core dumped' : ''].filter(
        Boolean,
      );
      return `killed by ${signalName(result.signal)}${notes.length > 0 ? ` (${notes.join(', ')})` : ''}`;
    }
    case 'unknown':
      return `exit unknown (${result.detail})`;
  }
}

/** One sentence for people. */
export function describeEvent(event: TaskEvent): string {
  switch (event.type) {
    case 'Received':
      return 'Task received by client';
    case 'Task Setup':
    case 'Driver':
    case 'Supervision Lost':
    case 'Alloc Unhealthy':
    case 'Template':
      return event.message;
    case 'Downloading Artifacts':
      return 'Client is downloading artifacts';
    case 'Failed Artifact Download':
    case 'Failed Validation':
    case 'Driver Failure':
    case 'Failed Restoring Task':
      return event.error;
    case 'Task hook failed':
      return `${event.hook}: ${event.error}`;
    case 'Task hook message':
      return `${event.hook}: ${event.message}`;
    case 'Started':
      return event.pid === undefined ? 'Task started by client' : `Task started by client, pid ${event.pid}`;
    case 'Exec':
      return `Command run in the task by ${event.by}: ${event.command}`;
    case 'Terminated':
      return `Task ${describeExit(event.result)}`;
    case 'Restarting':
      return `Task restarting in ${seconds(event.delayMs)}: ${event.reason}`;
    case 'Not Restarting':
    case 'Restart Signaled':
      return event.reason;
    case 'Signaling':
      return `Task being sent ${event.signal}${event.reason === '' ? '' : `: ${event.reason}`}`;
    case 'Waiting for Shutdown Delay':
      return `Waiting ${seconds(event.delayMs)} (shutdown_delay) before killing the task`;
    case 'Skipping Shutdown Delay':
      return 'Skipping shutdown_delay, as asked';
    case 'Killing':
      return `Sent ${event.signal}, waiting up to ${seconds(event.timeoutMs)} before force killing: ${event.reason}`;
    case 'Killed':
      return event.error === undefined
        ? 'Task successfully killed'
        : `Task killed, with an error: ${event.error}`;
    case 'Kill Failed':
      return (
        `Kill attempt ${event.attempt} failed: ${event.error}; ` +
        (event.retryInMs === undefined
          ? 'the reaper goes on in the background'
          : `next try in ${seconds(event.retryInMs)}`)
      );
    case 'Check Failing':
      return `Check ${JSON.stringify(event.check)} is failing: ${event.output}`;
    case 'Check Passing':
      return `Check ${JSON.stringify(event.check)} passes again`;
    case 'Leader Task Dead':
      return `Leader task ${JSON.stringify(event.leader)} of the group is dead`;
    case 'Main Tasks Dead':
      return 'Main tasks of the group are dead';
    case 'Sibling Task Failed':
      return `Task's sibling ${JSON.stringify(event.sibling)} failed`;
  }
}

/** The facts of an event as strings, under Nomad's detail keys. */
export function eventDetails(event: TaskEvent): Readonly<Record<string, string>> {
  const fails = failsTask(event) ? { fails_task: 'true' } : {};
  switch (event.type) {
    case 'Received':
    case 'Skipping Shutdown Delay':
    case 'Downloading Artifacts':
      return {};
    case 'Task Setup':
    case 'Supervision Lost':
    case 'Alloc Unhealthy':
      return { message: event.message };
    case 'Check Failing':
    case 'Check Passing':
      return { check: event.check, service: event.service, message: event.output };
    case 'Driver':
      return { driver_message: event.message };
    case 'Failed Validation':
      return { validation_error: event.error };
    case 'Driver Failure':
      return { driver_error: event.error };
    case 'Failed Artifact Download':
      return { download_error: event.error };
    case 'Template':
      return { message: event.message, ...fails };
    case 'Task hook message':
      return { message: event.message, hook: event.hook };
    case 'Failed Restoring Task':
      return { message: event.error };
    case 'Task hook failed':
      return { message: event.error, hook: event.hook };
    case 'Started':
      return event.pid === undefined ? {} : { pid: String(event.pid) };
    case 'Exec':
      return { command: event.command, by: event.by };
    case 'Terminated': {
      const { exitCode, signal } = nomadExitCode(event.result);
      const oomKilled = event.result.kind !== 'unknown' && event.result.oomKilled;
      return {
        exit_code: String(exitCode),
        signal: String(signal),
        oom_killed: String(oomKilled),
        exit_kind: event.result.kind,
        exit_message: event.result.kind === 'unknown' ? event.result.detail : '',
      };
    }
    case 'Restarting':
      return { restart_reason: event.reason, start_delay: nanoseconds(event.delayMs) };
    case 'Not Restarting':
      return { restart_reason: event.reason, ...fails };
    case 'Restart Signaled':
      return { restart_reason: event.reason };
    case 'Signaling':
      return { task_signal: event.signal, task_signal_reason: event.reason };
    case 'Waiting for Shutdown Delay':
      return { delay: nanoseconds(event.delayMs) };
    case 'Killing':
      return { kill_timeout: nanoseconds(event.timeoutMs), kill_reason: event.reason, signal: event.signal };
    case 'Killed':
      return event.error === undefined ? {} : { kill_error: event.error };
    case 'Kill Failed':
      return { kill_error: event.error, attempt: String(event.attempt) };
    case 'Leader Task Dead':
      return { leader: event.leader };
    case 'Main Tasks Dead':
      return {};
    case 'Sibling Task Failed':
      return { failed_sibling: event.sibling };
  }
}

function seconds(ms: number): string {
  return `${Number((ms / 1000).toFixed(1))}s`;
}

function nanoseconds(ms: number): string {
  return String(Math.round(ms * 1e6));
}
