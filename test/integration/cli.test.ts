import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import { CliWorld, type Ran } from './cli-world.js';

const DEADLINE_MS = 120_000;

const PAIR = `
job "pair" {
  type = "service"
  group "g" {
    task "counter" {
      driver = "raw_exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args    = ["-c", "n=0; echo oops >&2; trap 'echo hup' HUP; while true; do echo count $n; n=$((n+1)); sleep 0.05; done"]
      }
    }
    task "idle" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "printf '\\\\033[31midle here\\\\033[0m\\\\n'; exec sleep 1000"]
      }
    }
  }
}
`;

const BROKEN = `
job "broken" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        comand = "/bin/true"
      }
    }
  }
}
`;

const FAILING = `
job "failing" {
  type = "batch"
  group "g" {
    restart {
      attempts = 1
      delay    = "100ms"
      interval = "1m"
      mode     = "fail"
      jitter   = 0
    }
    task "boom" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo working; echo no luck >&2; exit 3"]
      }
    }
  }
}
`;

function isOk(ran: Ran): void {
  assert.equal(ran.code, 0, ran.stderr + ran.stdout);
}

/** A refusal is one line that starts with the name of the program. */
function isRefused(ran: Ran, code: number, pattern: RegExp): void {
  assert.equal(ran.code, code, ran.stderr + ran.stdout);
  assert.match(ran.stderr, /^holdfast: [^\n]+\n$/);
  assert.match(ran.stderr, pattern);
}

describe('the command line, with a real agent', { timeout: DEADLINE_MS }, () => {
  const world = new CliWorld();

  before(async () => {
    isRefused(await world.cli('ps'), 5, /no daemon at unix:.*start one with "holdfast agent"/);
    await world.startAgent();
    isOk(await world.cli('run', world.file('pair.hcl', PAIR)));
  });
  after(async () => {
    await world.close();
  });

  it('run is idempotent, and tells what it did', async () => {
    const again = await world.cli('run', world.file('pair.hcl', PAIR));
    isOk(again);
    assert.match(again.stdout, /job pair unchanged, version 0/);
    assert.match(again.stdout, /job pair is healthy: 2 tasks running/);
    isRefused(await world.cli('run', 'pair.hcl', '--check-index', '0'), 1, /pair/);
  });

  it('run shows what happens until a batch job is complete', async () => {
    const ran = await world.cli(
      'run',
      '--batch',
      '--name',
      'once',
      '-e',
      'WORD=hello',
      '--',
      'sh',
      '-c',
      'echo $WORD $PWD',
    );
    isOk(ran);
    assert.match(ran.stdout, / {2}[0-9a-f]{8}\/once\s+Started/);
    assert.match(ran.stdout, /Terminated\s+Task exited 0\n/);
    assert.match(ran.stdout, /job once is complete\n$/);
    const logs = await world.cli('logs', 'once');
    assert.equal(logs.stdout, `hello ${world.dir}\n`);
    const shown = await world.cli('ps');
    assert.doesNotMatch(shown.stdout, /once\/once/);
    assert.match((await world.cli('ps', '-a')).stdout, /once\/once\/once\s+[0-9a-f]{8}\s+complete/);
  });

  it('run says why a job failed, with its last words', async () => {
    const ran = await world.cli('run', world.file('failing.hcl', FAILING));
    assert.equal(ran.code, 1, ran.stdout);
    assert.match(ran.stdout, /Restarting/);
    assert.match(ran.stdout, /last lines of stderr of boom:\n {2}no luck\n/);
    assert.match(
      ran.stderr,
      /^holdfast: job failing failed: failing\.g\[0\] [0-9a-f]{8} task boom: exited 3; [^\n]+\n$/,
    );
    const { stdout } = await world.cli('ps');
    assert.match(stdout.split('\n')[1] ?? '', /failing\/g\/boom\s+[0-9a-f]{8}\s+failed: exited 3/);
    assert.match((await world.cli('status', 'failing')).stdout, /^● failing {2}failed {2}1 task: 1 failed\n/);
    const history = (await world.cli('history', 'failing')).stdout.trimEnd().split('\n');
    assert.equal(history.length, 3);
    for (const line of history.slice(1)) assert.match(line, /exit 3/);
  });

  it('refuses a wrong job file with the place of the fault', async () => {
    const path = world.file('broken.hcl', BROKEN);
    for (const command of ['run', 'validate']) {
      const ran = await world.cli(command, path);
      assert.equal(ran.code, 2);
      assert.match(ran.stderr, /broken\.hcl:7:9/);
      assert.match(ran.stderr, /command/);
    }
    isRefused(await world.cli('validate', 'nowhere.hcl'), 2, /cannot read the job file nowhere\.hcl/);
    isOk(await world.cli('validate', 'pair.hcl'));
  });

  it('validate --json tells programs the same, and a valid file says what is worth knowing', async () => {
    const broken = await world.cli('validate', world.file('broken.hcl', BROKEN), '--json');
    assert.equal(broken.code, 2);
    assert.equal(broken.stderr, '');
    const told = JSON.parse(broken.stdout) as {
      readonly Valid: boolean;
      readonly JobID: string | null;
      readonly Faults: readonly { readonly Line: number; readonly Column: number }[];
    };
    assert.deepEqual([told.Valid, told.JobID], [false, null]);
    assert.ok(told.Faults.some(({ Line, Column }) => Line === 7 && Column === 9));
    const slow = `job "slow" {
  group "g" {
    task "t" {
      driver       = "mock_driver"
      kill_timeout = "45s"
    }
  }
}
`;
    const file = world.file('slow.hcl', slow);
    const valid = await world.cli('validate', file, '--json');
    assert.equal(valid.code, 0, valid.stderr);
    const { Valid, JobID, Warnings } = JSON.parse(valid.stdout) as {
      readonly Valid: boolean;
      readonly JobID: string;
      readonly Warnings: readonly { readonly Path: string }[];
    };
    assert.deepEqual([Valid, JobID, Warnings.length], [true, 'slow', 1]);
    const read = await world.cli('validate', file);
    assert.equal(read.code, 0);
    assert.match(read.stderr, /it is valid; worth knowing:\n.*slow\.hcl:5:\d+/);
  });

  it('status says all there is to say', async () => {
    const { stdout } = await world.cli('status', 'pair');
    assert.match(stdout, /^● pair {2}running {2}2 tasks: 2 running\n/);
    assert.match(stdout, /\n {4}counter {2}running, pid \d+, up \d+/);
    assert.match(stdout, /\n {2}Events\n/);
    assert.match(stdout, /\n {4}counter out \| count \d+\n/);
    assert.match(stdout, /\n {4}idle out \| idle here\n/);
    const host = await world.cli('status');
    assert.match(host.stdout, /\npair {2,}service {2,}running/);
  });

  it('gives JSON to programs', async () => {
    const rows = JSON.parse((await world.cli('ps', '--json')).stdout) as { JobID: string }[];
    assert.ok(rows.some(({ JobID }) => JobID === 'pair'));
    const status = JSON.parse((await world.cli('status', 'pair', '--json')).stdout) as {
      Job: { ID: string };
    };
    assert.equal(status.Job.ID, 'pair');
    const task = JSON.parse((await world.cli('inspect', 'pair/g/idle')).stdout) as { Driver: string };
    assert.equal(task.Driver, 'raw_exec');
    const events = (await world.cli('events', 'pair', '--json')).stdout.trimEnd().split('\n');
    for (const line of events) assert.equal((JSON.parse(line) as { JobID: string }).JobID, 'pair');
    const runs = JSON.parse((await world.cli('history', 'pair', '--json')).stdout) as unknown[];
    assert.equal(runs.length, 2);
    const [line = ''] = (await world.cli('logs', 'pair/g/counter', '-n', '1', '--json')).stdout.split('\n');
    assert.match((JSON.parse(line) as { Line: string }).Line, /^count \d+$/);
  });

  it('logs are raw for one task, and prefixed lines for several', async () => {
    assert.equal((await world.cli('logs', 'pair/g/idle')).stdout, '\x1b[31midle here\x1b[0m\n');
    assert.match(
      (await world.cli('logs', 'pair', '-n', '1')).stdout,
      /^counter \| count \d+\nidle {4}\| idle here\n$/,
    );
    assert.equal((await world.cli('logs', 'pair/g/counter', '--stderr')).stdout, 'oops\n');
    const grep = await world.cli('logs', 'pair/g/counter', '--grep', '^count [35]$');
    assert.equal(grep.stdout, 'count 3\ncount 5\n');
    assert.equal(
      (await world.cli('logs', 'pair/g/counter', '--grep', '^count [357]$', '-n', '2')).stdout,
      'count 5\ncount 7\n',
    );
    assert.equal((await world.cli('logs', 'pair/g/counter', '--since', '2000-01-01', '-n', '0')).stdout, '');
    isRefused(await world.cli('logs', 'pair', '--grep', '('), 2, /--grep/);
    isRefused(await world.cli('logs', 'pair', '-n', 'x'), 2, /--lines/);
  });

  it('following goes on, without gap or repeat, when the daemon is killed and started again', async () => {
    const logs = world.follow('logs', 'pair/g/counter', '-f', '-n', '3');
    const events = world.follow('events', '-f', '--since', '1s');
    await until('lines come', () => logs.stdout().split('\n').length > 8);
    await world.killAgent('SIGKILL');
    await until('both notice', () => [logs, events].every((live) => live.stderr().includes('went away')));
    const before = logs.stdout().length;
    await world.startAgent();
    await until('lines come again', () => logs.stdout().length > before + 100, {
      lastSeen: () => logs.stderr(),
    });
    isOk(await world.cli('signal', 'hup', 'pair/g/counter'));
    await until('the event comes', () => /pair.*Signaling/.test(events.stdout()), {
      lastSeen: () => events.stdout(),
    });
    const numbers = logs
      .stdout()
      .split('\n')
      .slice(0, -1)
      .filter((line) => line !== 'hup')
      .map((line) => Number(/^count (\d+)$/.exec(line)?.[1]));
    const [first = NaN] = numbers;
    assert.deepEqual(
      numbers,
      numbers.map((_, at) => first + at),
    );
    await logs.end();
    await events.end();
  });

  it('finds targets, and guesses what was meant', async () => {
    isRefused(await world.cli('status', 'pairs'), 4, /did you mean "pair"\?/);
    isRefused(await world.cli('logs', 'pair/g/idel'), 4, /did you mean "idle"\?/);
    isRefused(await world.cli('inspect', 'nothing-like-it'), 4, /holdfast ps -a/);
    const rows = JSON.parse((await world.cli('ps', '--json')).stdout) as { ID: string; JobID: string }[];
    const id = rows.find(({ JobID }) => JobID === 'pair')?.ID ?? '';
    assert.match((await world.cli('status', id.slice(0, 6))).stdout, /pair\.g\[0\]/);
  });

  it('restart and signal reach running tasks only', async () => {
    const pidOf = async (): Promise<string | undefined> =>
      /counter {2}running, pid (\d+)/.exec((await world.cli('status', 'pair')).stdout)?.[1];
    const before = await pidOf();
    isOk(await world.cli('restart', 'pair/g/counter'));
    await until('it has a new pid', async () => {
      const now = await pidOf();
      return now !== undefined && now !== before;
    });
    isRefused(await world.cli('signal', 'NOPE', 'pair'), 2, /unknown signal "NOPE"/);
    isRefused(await world.cli('restart', 'once'), 3, /no task of "once" is running/);
  });

  it('stop waits for the end and shows who is left; purge forgets', async () => {
    isOk(
      await world.cli(
        'run',
        '--name',
        'stubborn',
        '--',
        'sh',
        '-c',
        'trap "" INT; while true; do sleep 1; done',
      ),
    );
    isRefused(await world.cli('stop', 'stubborn/stubborn'), 2, /cannot be stopped alone/);
    const stopped = await world.cli('stop', 'stubborn');
    isOk(stopped);
    assert.match(stopped.stdout, /Killing\s+Sent SIGINT, waiting up to 5s/);
    assert.match(
      stopped.stderr,
      /after \d+s still there: stubborn\.stubborn\[0\] [0-9a-f]{8}: stubborn pid \d+ \(stopping\)/,
    );
    assert.match(stopped.stdout, /stopped stubborn\n$/);
    assert.match((await world.cli('history', 'stubborn')).stdout, /SIGKILL/);
    isRefused(await world.cli('stop', 'stubborn'), 3, /is running/);
    isOk(await world.cli('purge', 'stubborn'));
    isRefused(await world.cli('purge', 'stubborn'), 4, /stubborn/);
  });

  it('refuses wrong usage in one line', async () => {
    isRefused(await world.cli('psx'), 2, /unknown command "psx": did you mean "holdfast ps"\?/);
    isRefused(await world.cli('logs'), 2, /give TARGET: job, job\/group/);
    isRefused(await world.cli('run'), 2, /give a job file/);
    isRefused(await world.cli('run', 'a.hcl', 'b.hcl'), 2, /one job file at a time/);
    isRefused(await world.cli('run', 'a.hcl', '-m', '5'), 2, /--memory goes with/);
    isRefused(await world.cli('ps', '--address', 'ftp://x'), 2, /is none/);
    isOk(await world.cli('help'));
    isOk(await world.cli('ps', '--help'));
    assert.match((await world.cli('version')).stdout, /^holdfast \d+\.\d+\.\d+ \(daemon \d+\.\d+\.\d+\)\n$/);
  });
});
