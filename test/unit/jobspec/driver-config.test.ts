import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { AgentError } from '../../../src/base/errors.js';
import {
  checkDriverConfig,
  DRIVERS,
  parseExecConfig,
  parseMockConfig,
  parseRawExecConfig,
} from '../../../src/jobspec/driver-config.js';

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof AgentError, 'only an AgentError may be thrown');
    assert.equal(error.code, 'driver_config_invalid');
    assert.equal(error.recoverable, false, 'trying again does not mend a bad config');
    return error.message;
  }
  return assert.fail('nothing was thrown');
}

/** What a task gets that says nothing of its process. */
const PLAIN = {
  oomScoreAdj: undefined,
  rlimits: [],
  umask: undefined,
  nice: undefined,
  terminal: undefined,
  onExecutorDeath: 'adopt',
};

describe('parseRawExecConfig', () => {
  it('reads every key', () => {
    assert.deepEqual(
      parseRawExecConfig(
        {
          command: '/bin/sh',
          args: ['-c', 'true'],
          work_dir: '/tmp',
          oom_score_adj: 500,
          ulimit: [{ nofile: '1024:4096', core: 'unlimited', nproc: 50 }],
          umask: '027',
          nice: 5,
          tty: true,
          tty_size: '132x43',
          on_executor_death: 'kill',
        },
        'task "a"',
      ),
      {
        command: '/bin/sh',
        args: ['-c', 'true'],
        workDir: '/tmp',
        oomScoreAdj: 500,
        rlimits: [
          { name: 'nofile', soft: 1024, hard: 4096 },
          { name: 'core', soft: -1, hard: -1 },
          { name: 'nproc', soft: 50, hard: 50 },
        ],
        umask: 0o027,
        nice: 5,
        terminal: { columns: 132, rows: 43 },
        onExecutorDeath: 'kill',
      },
    );
  });

  it('needs only a command', () => {
    assert.deepEqual(parseRawExecConfig({ command: 'sh', args: null }, 'task "a"'), {
      command: 'sh',
      args: [],
      workDir: undefined,
      ...PLAIN,
    });
  });

  it('converts as HCL does', () => {
    const config = parseRawExecConfig({ command: 'sleep', args: [5, true, 1.5], oom_score_adj: '10' }, 'a');
    assert.deepEqual(config.args, ['5', 'true', '1.5']);
    assert.equal(config.oomScoreAdj, 10);
  });

  const BROKEN: readonly (readonly [Record<string, unknown>, string])[] = [
    [{}, '`command`: it is missing, and required'],
    [{ command: '' }, '`command`: it must not be empty'],
    [{ command: ['sh'] }, '`command`: expected a string, found a list'],
    [{ command: 'a\0b' }, '`command`: a string here cannot hold a NUL byte'],
    [{ command: 'sh', args: '-c' }, '`args`: expected a list of strings, found the string "-c"'],
    [{ command: 'sh', args: ['-c', {}] }, '`args`: item 2: expected a string, found a map'],
    [{ command: 'sh', work_dir: 'tmp' }, '`work_dir`: expected an absolute path, found the string "tmp"'],
    [
      { command: 'sh', oom_score_adj: -1 },
      '`oom_score_adj`: expected a whole number from 0 to 1000, found -1',
    ],
    [{ command: 'sh', oom_score_adj: 1.5 }, '`oom_score_adj`: expected a whole number, found the number 1.5'],
    [
      { command: 'sh', ulimit: { nofiles: 1 } },
      '`ulimit`: there is no limit "nofiles"; did you mean `nofile`?',
    ],
    [
      { command: 'sh', ulimit: { nofile: '9:1' } },
      '`ulimit`: `nofile`: the soft limit is above the hard one in the string "9:1"',
    ],
    [
      { command: 'sh', args: [[], 'x', {}], ulimit: { nofil: '1', core: '1', nproc: '10:5' } },
      '`args`: item 1: expected a string, found a list; `args`: item 3: expected a string, found a map; ' +
        '`ulimit`: there is no limit "nofil"; did you mean `nofile`?; ' +
        '`ulimit`: `nproc`: the soft limit is above the hard one in the string "10:5"',
    ],
    [{ command: 'sh', umask: '9' }, '`umask`: expected an octal mask such as "027", found the string "9"'],
    [{ command: 'sh', argz: [] }, 'driver raw_exec has no key `argz` (did you mean `args`?)'],
    [
      { command: 'sh', port_map: {} },
      'driver raw_exec has no key `port_map` (its keys are: command, args, work_dir, oom_score_adj, ulimit, umask, nice, tty, tty_size, on_executor_death)',
    ],
    [
      { command: 'sh', cgroup_v2_override: '/x' },
      '`cgroup_v2_override` of driver raw_exec is not supported by holdfast yet',
    ],
    [
      { args: 1, x: 1 },
      '`command`: it is missing, and required; `args`: expected a list of strings, found the number 1; ' +
        'driver raw_exec has no key `x` (its keys are: command, args, work_dir, oom_score_adj, ulimit, umask, nice, tty, tty_size, on_executor_death)',
    ],
  ];
  for (const [config, expected] of BROKEN) {
    it(`refuses ${JSON.stringify(config)}`, () => {
      const message = messageOf(() => parseRawExecConfig(config, 'task "a"'));
      assert.equal(message, `task "a": bad config for driver raw_exec: ${expected}`);
    });
  }
});

describe('parseExecConfig', () => {
  it('reads every key', () => {
    const all = {
      command: '/bin/true',
      args: ['x'],
      work_dir: '/srv',
      pid_mode: 'host',
      ipc_mode: 'private',
      network_mode: 'none',
      cap_add: ['CAP_NET_BIND_SERVICE'],
      cap_drop: ['all'],
      no_new_privs: false,
      seccomp: 'unconfined',
    };
    assert.deepEqual(parseExecConfig(all, 'a'), {
      command: '/bin/true',
      args: ['x'],
      workDir: '/srv',
      pidMode: 'host',
      ipcMode: 'private',
      networkMode: 'none',
      capAdd: ['net_bind_service'],
      capDrop: ['all'],
      noNewPrivs: false,
      seccomp: false,
      ...PLAIN,
    });
  });

  it('refuses a mode that does not exist', () => {
    assert.match(
      messageOf(() => parseExecConfig({ command: 'x', pid_mode: 'shared' }, 'a')),
      /`pid_mode`: expected "private" or "host", found the string "shared"$/,
    );
  });
});

describe('capabilities', () => {
  it('are checked by name, with the nearest one that there is', () => {
    assert.match(
      messageOf(() => parseExecConfig({ command: 'x', cap_add: ['CAP_NET_ADMN'] }, 'a')),
      /`cap_add`: there is no capability "CAP_NET_ADMN"; did you mean `net_admin`\?$/,
    );
  });

  it('are told of all at once', () => {
    assert.match(
      messageOf(() => parseExecConfig({ command: 'x', cap_add: ['NO_SUCH', 'kill', 7] }, 'a')),
      /`cap_add`: there is no capability "NO_SUCH"; `cap_add`: expected the name of a capability, found the number 7$/,
    );
  });
});

describe('parseMockConfig', () => {
  it('does nothing and succeeds when nothing is scripted', () => {
    assert.deepEqual(parseMockConfig({}, 'a'), {
      startError: undefined,
      startErrorRecoverable: false,
      startBlockForMs: 0,
      killAfterMs: 0,
      runForMs: 0,
      exitCode: 0,
      exitSignal: undefined,
      exitErrMsg: undefined,
      signalError: undefined,
      stdout: { text: '', repeat: 0, everyMs: 0 },
      stderr: { text: '', repeat: 0, everyMs: 0 },
    });
  });

  it('reads every key, durations in ms', () => {
    const script = {
      start_error: 'no',
      start_error_recoverable: 'true',
      start_block_for: '1s',
      kill_after: '1m30s',
      run_for: '250ms',
      exit_code: '3',
      exit_signal: 'SIGKILL',
      exit_err_msg: 'gone',
      signal_error: 'deaf',
      stdout_string: 'hello\n',
      stdout_repeat: 2,
      stdout_repeat_duration: '0.5s',
      stderr_string: 'oh\n',
      stderr_repeat: 1,
      stderr_repeat_duration: 0,
    };
    assert.deepEqual(parseMockConfig(script, 'a'), {
      startError: 'no',
      startErrorRecoverable: true,
      startBlockForMs: 1000,
      killAfterMs: 90_000,
      runForMs: 250,
      exitCode: 3,
      exitSignal: 9,
      exitErrMsg: 'gone',
      signalError: 'deaf',
      stdout: { text: 'hello\n', repeat: 2, everyMs: 500 },
      stderr: { text: 'oh\n', repeat: 1, everyMs: 0 },
    });
  });

  it('takes Nomad’s number for a signal, 0 for none', () => {
    assert.equal(parseMockConfig({ exit_signal: 15 }, 'a').exitSignal, 15);
    assert.equal(parseMockConfig({ exit_signal: 0 }, 'a').exitSignal, undefined);
  });

  it('names each fault', () => {
    const message = messageOf(() =>
      parseMockConfig({ run_for: '5', exit_signal: 'SIGFOO', exit_code: 256, run_of: '1s' }, 'task "m"'),
    );
    assert.equal(
      message,
      'task "m": bad config for driver mock_driver: `run_for`: bad duration "5": it has no unit: use units h, m, s and ms, ' +
        'such as "1m30s"; `exit_code`: expected a whole number from 0 to 255, found 256; `exit_signal`: unknown signal "SIGFOO": ' +
        'use a name such as SIGTERM, or a number; driver mock_driver has no key `run_of` (did you mean `run_for`?)',
    );
  });
});

describe('checkDriverConfig', () => {
  it('leaves to the start what interpolation has still to fill in', () => {
    assert.deepEqual(
      checkDriverConfig('raw_exec', { command: '${env["X"]}', work_dir: '${NOMAD_TASK_DIR}/x' }),
      [],
    );
    assert.deepEqual(
      checkDriverConfig('mock_driver', { run_for: '${meta.time}', exit_code: '${meta.code}' }),
      [],
    );
    assert.equal(checkDriverConfig('raw_exec', { command: 'x', '${a}': 1 }).length, 1);
  });

  it('never throws, and agrees with the parser wherever nothing is interpolated', () => {
    const value = fc.oneof(
      fc.constantFrom('5s', 'sh', '/bin/sh', 3, -1, 1.5, true, null, 'SIGTERM'),
      fc.jsonValue(),
    );
    const keys = ['command', 'args', 'work_dir', 'oom_score_adj', 'run_for', 'exit_code', 'exit_signal', 'x'];
    const config = fc.dictionary(fc.constantFrom(...keys), value);
    fc.assert(
      fc.property(config, (written) => {
        const parsers = { raw_exec: parseRawExecConfig, exec: parseExecConfig, mock_driver: parseMockConfig };
        for (const driver of DRIVERS) {
          const clean = checkDriverConfig(driver, written).length === 0;
          if (clean) parsers[driver](written, 'a');
          else if (!JSON.stringify(written).includes('${')) messageOf(() => parsers[driver](written, 'a'));
        }
      }),
    );
  });
});
