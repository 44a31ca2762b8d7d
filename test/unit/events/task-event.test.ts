/** Every type of event: how it reads, its details under Nomad's keys as docs/events.md lists them, and who says it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { describeEvent, eventDetails, type TaskEvent } from '../../../src/events/task-event.js';
import { EVENT_ORDER } from '../../helpers/event-order.js';
import { EXIT_1, signaled } from '../../helpers/scripted-driver.js';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));

interface Row {
  readonly event: TaskEvent;
  readonly text: string;
  readonly details: Readonly<Record<string, string>>;
}

/** Durations are nanoseconds in the details, and read as seconds. */
const TABLE: readonly Row[] = [
  { event: { type: 'Received' }, text: 'Task received by client', details: {} },
  {
    event: { type: 'Task Setup', message: 'Building Task Directory' },
    text: 'Building Task Directory',
    details: { message: 'Building Task Directory' },
  },
  {
    event: { type: 'Failed Validation', error: 'no such user' },
    text: 'no such user',
    details: { validation_error: 'no such user' },
  },
  {
    event: { type: 'Driver Failure', error: 'exec format error' },
    text: 'exec format error',
    details: { driver_error: 'exec format error' },
  },
  {
    event: { type: 'Driver', message: 'Limits changed' },
    text: 'Limits changed',
    details: { driver_message: 'Limits changed' },
  },
  {
    event: { type: 'Task hook failed', hook: 'template', error: 'line 1' },
    text: 'template: line 1',
    details: { hook: 'template', message: 'line 1' },
  },
  {
    event: { type: 'Task hook message', hook: 'template', message: 'it waits' },
    text: 'template: it waits',
    details: { hook: 'template', message: 'it waits' },
  },
  { event: { type: 'Downloading Artifacts' }, text: 'Client is downloading artifacts', details: {} },
  {
    event: { type: 'Failed Artifact Download', error: '404' },
    text: '404',
    details: { download_error: '404' },
  },
  {
    event: { type: 'Template', message: 'Missing: file(x)', fails: false },
    text: 'Missing: file(x)',
    details: { message: 'Missing: file(x)' },
  },
  {
    event: { type: 'Template', message: 'broken', fails: true },
    text: 'broken',
    details: { message: 'broken', fails_task: 'true' },
  },
  { event: { type: 'Started', pid: 7 }, text: 'Task started by client, pid 7', details: { pid: '7' } },
  { event: { type: 'Started', pid: undefined }, text: 'Task started by client', details: {} },
  {
    event: { type: 'Terminated', result: EXIT_1 },
    text: 'Task exited 1',
    details: { exit_kind: 'exited', exit_code: '1', signal: '0', oom_killed: 'false', exit_message: '' },
  },
  {
    event: { type: 'Terminated', result: signaled(15) },
    text: 'Task killed by SIGTERM',
    details: { exit_kind: 'signaled', exit_code: '143', signal: '15', oom_killed: 'false', exit_message: '' },
  },
  {
    event: {
      type: 'Terminated',
      result: { kind: 'unknown', reason: 'host_rebooted', detail: 'the host was rebooted' },
    },
    text: 'Task exit unknown (the host was rebooted)',
    details: {
      exit_kind: 'unknown',
      exit_code: '-1',
      signal: '0',
      oom_killed: 'false',
      exit_message: 'the host was rebooted',
    },
  },
  {
    event: { type: 'Restarting', reason: 'Restart within policy', delayMs: 15_500 },
    text: 'Task restarting in 15.5s: Restart within policy',
    details: { restart_reason: 'Restart within policy', start_delay: '15500000000' },
  },
  {
    event: { type: 'Not Restarting', reason: 'too many' },
    text: 'too many',
    details: { restart_reason: 'too many', fails_task: 'true' },
  },
  {
    event: { type: 'Restart Signaled', reason: 'asked for' },
    text: 'asked for',
    details: { restart_reason: 'asked for' },
  },
  {
    event: { type: 'Signaling', signal: 'SIGHUP', reason: 'reload' },
    text: 'Task being sent SIGHUP: reload',
    details: { task_signal: 'SIGHUP', task_signal_reason: 'reload' },
  },
  {
    event: { type: 'Waiting for Shutdown Delay', delayMs: 2_000 },
    text: 'Waiting 2s (shutdown_delay) before killing the task',
    details: { delay: '2000000000' },
  },
  { event: { type: 'Skipping Shutdown Delay' }, text: 'Skipping shutdown_delay, as asked', details: {} },
  {
    event: { type: 'Killing', signal: 'SIGTERM', timeoutMs: 5_000, reason: 'job was stopped' },
    text: 'Sent SIGTERM, waiting up to 5s before force killing: job was stopped',
    details: { signal: 'SIGTERM', kill_timeout: '5000000000', kill_reason: 'job was stopped' },
  },
  { event: { type: 'Killed', error: undefined }, text: 'Task successfully killed', details: {} },
  {
    event: { type: 'Killed', error: 'late' },
    text: 'Task killed, with an error: late',
    details: { kill_error: 'late' },
  },
  {
    event: { type: 'Kill Failed', error: 'still there', attempt: 2, retryInMs: 20_000 },
    text: 'Kill attempt 2 failed: still there; next try in 20s',
    details: { kill_error: 'still there', attempt: '2' },
  },
  {
    event: { type: 'Kill Failed', error: 'still there', attempt: 5, retryInMs: undefined },
    text: 'Kill attempt 5 failed: still there; the reaper goes on in the background',
    details: { kill_error: 'still there', attempt: '5' },
  },
  {
    event: { type: 'Sibling Task Failed', sibling: 'db' },
    text: `Task's sibling "db" failed`,
    details: { failed_sibling: 'db' },
  },
  {
    event: { type: 'Leader Task Dead', leader: 'boss' },
    text: 'Leader task "boss" of the group is dead',
    details: { leader: 'boss' },
  },
  { event: { type: 'Main Tasks Dead' }, text: 'Main tasks of the group are dead', details: {} },
  {
    event: { type: 'Alloc Unhealthy', message: 'task "a" is not running' },
    text: 'task "a" is not running',
    details: { message: 'task "a" is not running' },
  },
  {
    event: { type: 'Check Failing', check: 'up', service: 'web', output: 'refused' },
    text: 'Check "up" is failing: refused',
    details: { check: 'up', service: 'web', message: 'refused' },
  },
  {
    event: { type: 'Check Passing', check: 'up', service: 'web', output: '200' },
    text: 'Check "up" passes again',
    details: { check: 'up', service: 'web', message: '200' },
  },
  {
    event: { type: 'Exec', command: 'ls /', by: 'anna' },
    text: 'Command run in the task by anna: ls /',
    details: { command: 'ls /', by: 'anna' },
  },
  {
    event: { type: 'Supervision Lost', message: 'its executor was killed' },
    text: 'its executor was killed',
    details: { message: 'its executor was killed' },
  },
  {
    event: { type: 'Failed Restoring Task', error: 'no answer' },
    text: 'no answer',
    details: { message: 'no answer' },
  },
];

describe('events of a task', () => {
  for (const { event, text, details } of TABLE) {
    it(`${event.type}: ${text}`, () => {
      assert.equal(describeEvent(event), text);
      assert.deepEqual(eventDetails(event), details);
    });
  }

  it('are all in this table', () => {
    const inTable = new Set<string>(TABLE.map(({ event }) => event.type));
    assert.deepEqual([...inTable].sort(), Object.keys(EVENT_ORDER).sort());
  });

  it('have the details that docs/events.md says, no fewer and no more', () => {
    const rows = readFileSync(join(ROOT, 'docs/events.md'), 'utf8').matchAll(
      /^\| ([A-Z][\w ]+) \| [^|]+ \| ([^|]+) \|$/gm,
    );
    const documented = new Map<string, readonly string[]>();
    for (const [, type = '', cell = ''] of rows)
      documented.set(
        type,
        [...cell.matchAll(/`(\w+)`/g)].map(([, key = '']) => key).filter((key) => !EXIT_KINDS.has(key)),
      );
    for (const type of Object.keys(EVENT_ORDER)) {
      const keys = new Set(
        TABLE.filter(({ event }) => event.type === type).flatMap(({ details }) => Object.keys(details)),
      );
      assert.deepEqual([...(documented.get(type) ?? ['no row'])].sort(), [...keys].sort(), type);
    }
  });

  it('are each said by the product somewhere: none is only a word', () => {
    const speakers = ['taskrunner', 'allocrunner', 'drivers', 'executor']
      .flatMap((dir) =>
        readdirSync(join(ROOT, 'src', dir), { recursive: true, encoding: 'utf8' }).map((file) =>
          join(ROOT, 'src', dir, file),
        ),
      )
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const silent = Object.keys(EVENT_ORDER).filter((type) => !new RegExp(`[:?] '${type}'`).test(speakers));
    assert.deepEqual(silent, []);
  });
});

/** Values, not keys. */
const EXIT_KINDS = new Set(['exited', 'signaled', 'unknown']);
