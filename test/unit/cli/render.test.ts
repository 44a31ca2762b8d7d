import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { paintAnsi } from '../../../src/cli/output.js';
import { renderEvent } from '../../../src/cli/render/events.js';
import { renderHistory } from '../../../src/cli/render/history.js';
import { renderPs, type PsRow } from '../../../src/cli/render/ps.js';
import { renderPsFrame } from '../../../src/cli/render/ps-frame.js';
import { renderHost, type HostData } from '../../../src/cli/render/host.js';
import { renderStatus } from '../../../src/cli/render/status.js';
import { displayWidth } from '../../../src/cli/render/text.js';
import type { Look } from '../../../src/cli/output.js';
import {
  alloc,
  backoffRow,
  event,
  exited,
  failedRow,
  job,
  look,
  node,
  NOW_MS,
  row,
  runningRow,
  runRecord,
  signaled,
  taskState,
  unknownExit,
} from './samples.js';

const ROWS = [runningRow(), backoffRow(), failedRow()];

const EVENTS = [
  event({ Time: (NOW_MS - 53_000) * 1e6 }),
  event({ Type: 'Terminated', DisplayMessage: 'Task exited 3' }),
  event({
    Type: 'Restarting',
    DisplayMessage: 'Task restarting in 24.4s: exited 3; restart 2 of 3 within 30m, as its policy says',
  }),
];

const RUNS = [
  runRecord(1, { Exit: exited(137) }),
  runRecord(2, { Exit: signaled(9, 'SIGKILL', true), MemoryLimitHits: 3 }),
  runRecord(3, { Exit: unknownExit(), RanFor: null, Usage: null, LogComplete: false }),
  runRecord(4, {
    Outcome: 'start_failed',
    StartedAt: null,
    EndedAt: null,
    RanFor: null,
    Exit: null,
    Usage: null,
    Error: 'exec /opt/x: no such file or directory',
  }),
  runRecord(5, { Outcome: 'open', EndedAt: null, RanFor: null, Exit: null, Usage: null }),
];

const LOGS = [
  {
    task: 'sender',
    stream: 'stderr' as const,
    lines: ['FATAL: \x1b[31mallocation\x1b[0m failed', 'x'.repeat(150)],
  },
];

const JOBS = [stub(), stub({ ID: 'nightly', Type: 'batch' }), stub({ ID: 'old', Stop: true })];

/** A job as it stands in the list. */
function stub(own: Partial<HostData['jobs'][number]> = {}): HostData['jobs'][number] {
  const { ID, Type, Stop, Status, SubmitTime } = job();
  return { ID, Type, Stop, Status, SubmitTime, ...own };
}

function ps(at: Look): string[] {
  return renderPs({ rows: ROWS, hiddenAllocs: 2 }, at);
}

function status(at: Look): string[] {
  const rows = [runningRow(), backoffRow()];
  return renderStatus({ target: 'orders', job: job(), rows, events: EVENTS, logs: LOGS }, at);
}

function host(at: Look): string[] {
  const warnings = ['the disk refuses writes: 3 changes wait'];
  return renderHost({ node: node(warnings), jobs: JOBS, rows: ROWS }, at);
}

function history(at: Look): string[] {
  return renderHistory(RUNS, at);
}

function events(at: Look): string[] {
  const widths = { job: 0, task: 0 };
  return EVENTS.map((each) => renderEvent(each, widths, at));
}

describe('at 120 columns', () => {
  it('ps shows every column, failed ones first', () => {
    assert.deepEqual(ps(look(120)), [
      'JOB/GROUP/TASK      ALLOC     STATUS                                        RESTARTS   AGE    PID   CPU   MEM/LIMIT',
      'nightly/dump/pg     c0ffee12  failed: killed by SIGKILL (OOM killed)               0  3d2h      -     -           -',
      'orders/mail/sender  90be11f0  backoff, retry in 12s (2/3 used; exited 3)  4 (8s ago)    1h      -     -           -',
      'orders/api/server   7a1c9d2e  running                                     2 (3d ago)  3d2h  41230  4.1%  88/256 MiB',
      '2 allocs that ended or stopped not shown: holdfast ps -a',
    ]);
  });
  it('status says the verdict first, then why', () => {
    assert.deepEqual(status(look(120)), [
      '● orders  backoff  2 tasks: 1 backing off, 1 running',
      '  Why      orders/mail/sender backoff, retry in 12s (2/3 used; exited 3)',
      '  Job      service, version 7, running, submitted 2h ago',
      '  Alloc    7a1c9d2e  orders.api[0]  running, created 3d2h ago',
      '    server  running, pid 41230, up 3d, 2 restarts, cpu 4.1%, mem 88/256 MiB',
      '  Alloc    90be11f0  orders.mail[0]  running, created 1h ago',
      '    sender  backoff, retry in 12s (2/3 used; exited 3), 4 restarts',
      '  Events',
      '    13:59:19  sender  Started         Task started by client, pid 52110',
      '    13:59:59  sender  Terminated      Task exited 3',
      '    13:59:59  sender  Restarting      Task restarting in 24.4s: exited 3; restart 2 of 3 within 30m, as its policy says',
      '  Log',
      '    sender err | FATAL: allocation failed',
      '    sender err | xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
    ]);
  });
  it('status of the host names what needs attention', () => {
    assert.deepEqual(host(look(120)), [
      '● w12  needs attention  3 tasks: 1 failed, 1 backing off, 1 running',
      '  Warning  the disk refuses writes: 3 changes wait',
      '  Why      nightly/dump/pg failed: killed by SIGKILL (OOM killed)',
      '           orders/mail/sender backoff, retry in 12s (2/3 used; exited 3)',
      '  Daemon   holdfast 0.1.0, up 41d, data in /var/lib/holdfast',
      '',
      'JOB      TYPE     STATUS   TASKS                              SUBMITTED',
      'nightly  batch    failed   1 task: 1 failed                      2h ago',
      'orders   service  backoff  2 tasks: 1 backing off, 1 running     2h ago',
      'old      service  stopped  -                                     2h ago',
    ]);
  });
  it('history tells a signal from a code', () => {
    assert.deepEqual(history(look(120)), [
      'ALLOC     TASK    #  WHEN                    RAN FOR  EXIT             PEAK MEM',
      '90be11f0  sender  1  2026-11-21 13:01:12         41s  exit 137          256 MiB',
      '90be11f0  sender  2  2026-11-21 13:02:12         41s  SIGKILL           256 MiB',
      '    OOM killed; memory limit hit 3 times',
      '90be11f0  sender  3  2026-11-21 13:03:12           -  unknown                 -',
      '    exit unknown (host rebooted); end of log may be missing',
      '90be11f0  sender  4  2026-11-21 13:04:12           -  could not start         -',
      '    exec /opt/x: no such file or directory',
      '90be11f0  sender  5  2026-11-21 13:05:12  55m so far  running                 -',
    ]);
  });
  it('events keep their columns', () => {
    assert.deepEqual(events(look(120)), [
      '13:59:19  orders  90be11f0/sender  Started         Task started by client, pid 52110',
      '13:59:59  orders  90be11f0/sender  Terminated      Task exited 3',
      '13:59:59  orders  90be11f0/sender  Restarting      Task restarting in 24.4s: exited 3; restart 2 of 3 within 30m, as it…',
    ]);
  });
});

describe('at 80 columns', () => {
  it('ps gives up figures and ids before reasons', () => {
    assert.deepEqual(ps(look(80)), [
      'JOB/GROUP/TASK      STATUS                                        RESTARTS   AGE',
      'nightly/dump/pg     failed: killed by SIGKILL (OOM killed)               0  3d2h',
      'orders/mail/sender  backoff, retry in 12s (2/3 used; exited 3)  4 (8s ago)    1h',
      'orders/api/server   running                                     2 (3d ago)  3d2h',
      '2 allocs that ended or stopped not shown: holdfast ps -a',
    ]);
  });
  it('status', () => {
    assert.deepEqual(status(look(80)), [
      '● orders  backoff  2 tasks: 1 backing off, 1 running',
      '  Why      orders/mail/sender backoff, retry in 12s (2/3 used; exited 3)',
      '  Job      service, version 7, running, submitted 2h ago',
      '  Alloc    7a1c9d2e  orders.api[0]  running, created 3d2h ago',
      '    server  running, pid 41230, up 3d, 2 restarts, cpu 4.1%, mem 88/256 MiB',
      '  Alloc    90be11f0  orders.mail[0]  running, created 1h ago',
      '    sender  backoff, retry in 12s (2/3 used; exited 3), 4 restarts',
      '  Events',
      '    13:59:19  sender  Started         Task started by client, pid 52110',
      '    13:59:59  sender  Terminated      Task exited 3',
      '    13:59:59  sender  Restarting      Task restarting in 24.4s: exited 3; resta…',
      '  Log',
      '    sender err | FATAL: allocation failed',
      '    sender err | xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
    ]);
  });
  it('status of the host', () => {
    assert.deepEqual(host(look(80)), [
      '● w12  needs attention  3 tasks: 1 failed, 1 backing off, 1 running',
      '  Warning  the disk refuses writes: 3 changes wait',
      '  Why      nightly/dump/pg failed: killed by SIGKILL (OOM killed)',
      '           orders/mail/sender backoff, retry in 12s (2/3 used; exited 3)',
      '  Daemon   holdfast 0.1.0, up 41d, data in /var/lib/holdfast',
      '',
      'JOB      TYPE     STATUS   TASKS                              SUBMITTED',
      'nightly  batch    failed   1 task: 1 failed                      2h ago',
      'orders   service  backoff  2 tasks: 1 backing off, 1 running     2h ago',
      'old      service  stopped  -                                     2h ago',
    ]);
  });
  it('history', () => {
    assert.deepEqual(history(look(80)), [
      'ALLOC     TASK    #  WHEN                    RAN FOR  EXIT             PEAK MEM',
      '90be11f0  sender  1  2026-11-21 13:01:12         41s  exit 137          256 MiB',
      '90be11f0  sender  2  2026-11-21 13:02:12         41s  SIGKILL           256 MiB',
      '    OOM killed; memory limit hit 3 times',
      '90be11f0  sender  3  2026-11-21 13:03:12           -  unknown                 -',
      '    exit unknown (host rebooted); end of log may be missing',
      '90be11f0  sender  4  2026-11-21 13:04:12           -  could not start         -',
      '    exec /opt/x: no such file or directory',
      '90be11f0  sender  5  2026-11-21 13:05:12  55m so far  running                 -',
    ]);
  });
  it('events', () => {
    assert.deepEqual(events(look(80)), [
      '13:59:19  orders  90be11f0/sender  Started         Task started by client, pid …',
      '13:59:59  orders  90be11f0/sender  Terminated      Task exited 3',
      '13:59:59  orders  90be11f0/sender  Restarting      Task restarting in 24.4s: ex…',
    ]);
  });
});

describe('a screen of ps -w', () => {
  const data = { rows: [runningRow(), failedRow(), backoffRow()], hiddenAllocs: 0 };
  it('begins with the time and how all is', () => {
    const [head, title, ...rest] = renderPsFrame(data, 24, look(80));
    assert.match(head ?? '', /^\d\d:\d\d:12 {2}3 tasks: 1 failed, 1 backing off, 1 running$/);
    assert.match(title ?? '', /^JOB/);
    assert.equal(rest.length, 3);
  });
  it('counts what has no room, and never fills more lines than there are', () => {
    const lines = renderPsFrame(data, 4, look(80));
    assert.equal(lines.length, 4);
    assert.match(lines[2] ?? '', /^nightly.*failed/, 'the worst is what stays');
    assert.equal(lines[3], '2 lines more: holdfast ps');
  });
});

describe('every rendering', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.constantFrom('日本語のサービス名', '\x1b[2J\x1b]0;title\x07', 'a\r\nb', '👩‍👩‍👧 team', '\u202eabc', 'é́́'),
  );

  it('stays within the width, on one line each, and lets no control character through', () => {
    fc.assert(
      fc.property(hostile, hostile, fc.integer({ min: 20, max: 140 }), (name, text, width) => {
        const own = { JobID: name, TaskGroup: name, Name: name, DesiredDescription: text };
        const state = taskState('waiting', {}, { PhaseDetail: text });
        const rows: PsRow[] = [row({ alloc: alloc('abcd1234', own), task: name, state })];
        const rowEvent = event({ JobID: name, Task: name, DisplayMessage: text, Type: text });
        const widths = { job: 0, task: 0 };
        const at = look(width);
        const logs = [{ task: name, stream: 'stdout' as const, lines: [text] }];
        const data = { target: name, job: job({ ID: name }), rows, events: [rowEvent], logs };
        const lines = [
          ...renderPs({ rows, hiddenAllocs: 1 }, at),
          ...renderStatus(data, at),
          ...renderHost({ node: node([text]), jobs: [stub({ ID: name })], rows }, at),
          ...renderHistory([runRecord(1, { Task: name, Error: text })], at),
          renderEvent(rowEvent, widths, at),
          ...renderEvent({ ...rowEvent, Type: 'Terminated' }, widths, at).split('\n'),
        ];
        for (const line of lines) {
          assert.ok(displayWidth(line) <= width, `${displayWidth(line)} > ${width}: ${JSON.stringify(line)}`);
          assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u);
        }
      }),
    );
  });

  it('differs with colour by the colours only', () => {
    for (const render of [ps, status, host, history, events]) {
      const colored = render({ ...look(100), paint: paintAnsi }).join('\n');
      assert.equal(colored.replaceAll(/\x1b\[\d*m/g, ''), render(look(100)).join('\n'));
      assert.notEqual(colored, render(look(100)).join('\n'));
    }
  });

  it('is not cut when the output is no terminal', () => {
    assert.ok(status(look(Infinity)).some((line) => line.includes('x'.repeat(150))));
  });
});

describe('ps', () => {
  it('says what to do when there is nothing', () => {
    assert.deepEqual(renderPs({ rows: [], hiddenAllocs: 0 }, look(80)), [
      'nothing runs here: holdfast run FILE starts a job',
    ]);
    assert.deepEqual(renderPs({ rows: [], hiddenAllocs: 1 }, look(80)), [
      'nothing runs now',
      '1 alloc that ended or stopped not shown: holdfast ps -a',
    ]);
  });
});
