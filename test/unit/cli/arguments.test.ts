import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chooseAddress, describeAddress, parseAddress } from '../../../src/cli/address.js';
import { adHocJob } from '../../../src/cli/ad-hoc.js';
import { CliError, EXIT, exitCodeOf } from '../../../src/cli/exit.js';
import { withQuery } from '../../../src/cli/http.js';
import { parseSince } from '../../../src/cli/when.js';
import { ERROR_CODES } from '../../../src/base/errors.js';
import { DAY, HOUR, MINUTE, NOW_MS } from './samples.js';

const NO_WISHES = {
  name: undefined,
  memory: undefined,
  env: [],
  user: undefined,
  isBatch: false,
  cwd: '/srv/app',
};

function isUsage(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof CliError && error.exitCode === EXIT.usage && pattern.test(error.message);
}

describe('an address', () => {
  it('is a socket or a host', () => {
    for (const text of ['unix:///run/h.sock', '/run/h.sock', 'unix:/run/h.sock']) {
      assert.deepEqual(parseAddress(text), { kind: 'unix', path: '/run/h.sock' }, text);
    }
    assert.deepEqual(parseAddress('http://127.0.0.1:4646'), {
      kind: 'tcp',
      host: '127.0.0.1',
      port: 4646,
      tls: false,
    });
    assert.deepEqual(parseAddress('host:80'), { kind: 'tcp', host: 'host', port: 80, tls: false });
    assert.deepEqual(parseAddress('http://host'), { kind: 'tcp', host: 'host', port: 4646, tls: false });
    assert.equal(describeAddress(parseAddress('http://[::1]:4646')), 'http://[::1]:4646');
    assert.equal(describeAddress(parseAddress('https://host')), 'https://host:4646');
    for (const text of ['ftp://x', 'a b', '']) {
      assert.throws(() => parseAddress(text), isUsage(/is none/), text);
    }
  });

  it('is the option, else the environment, else the local socket', () => {
    const env = { HOLDFAST_ADDR: '/env.sock', XDG_STATE_HOME: '/nowhere/state' };
    assert.equal(describeAddress(chooseAddress('/given.sock', env, 1000)), 'unix:///given.sock');
    assert.equal(describeAddress(chooseAddress(undefined, env, 1000)), 'unix:///env.sock');
    assert.equal(describeAddress(chooseAddress(undefined, {}, 0)), 'unix:///var/lib/holdfast/holdfast.sock');
  });
});

describe('--since', () => {
  it('is an age, a time of day, or a date', () => {
    assert.equal(parseSince('10m', NOW_MS), NOW_MS - 10 * MINUTE);
    assert.equal(parseSince('1h30m', NOW_MS), NOW_MS - 90 * MINUTE);
    assert.equal(parseSince('7d', NOW_MS), NOW_MS - 7 * DAY);
    assert.equal(parseSince('1d12h', NOW_MS), NOW_MS - 36 * HOUR);
    assert.equal(parseSince('14:00', NOW_MS), NOW_MS - 12_000);
    assert.equal(parseSince('14:01', NOW_MS), NOW_MS - 12_000 + MINUTE - DAY);
    assert.equal(parseSince('2026-11-21T14:00:00Z', NOW_MS), NOW_MS - 12_000);
    for (const text of ['', '10', 'yesterday', '10x', '-5m', '7dx']) {
      assert.throws(() => parseSince(text, NOW_MS), isUsage(/give an age such as/), text);
    }
  });
});

describe('an ad hoc job', () => {
  it('has one task that runs the command where the user is', () => {
    const job = adHocJob(['./bin/serve', '--port', '80'], {
      ...NO_WISHES,
      memory: '256m',
      env: ['A=1', 'B=x=y'],
      user: 'app',
    });
    assert.deepEqual(job, {
      ID: 'serve',
      Name: 'serve',
      Type: 'service',
      TaskGroups: [
        {
          Name: 'serve',
          Count: 1,
          Tasks: [
            {
              Name: 'serve',
              Driver: 'raw_exec',
              Config: { command: '/srv/app/bin/serve', args: ['--port', '80'], work_dir: '/srv/app' },
              Env: { A: '1', B: 'x=y' },
              User: 'app',
              Resources: { MemoryMB: 256 },
            },
          ],
        },
      ],
    });
    assert.equal(adHocJob(['node'], { ...NO_WISHES, name: 'api', isBatch: true }).Type, 'batch');
    assert.equal(adHocJob(['my tool!'], NO_WISHES).ID, 'my-tool-');
  });

  it('is refused with what would be right', () => {
    assert.throws(() => adHocJob([], NO_WISHES), isUsage(/give a command/));
    assert.throws(() => adHocJob(['x'], { ...NO_WISHES, env: ['A'] }), isUsage(/KEY=value/));
    assert.throws(() => adHocJob(['x'], { ...NO_WISHES, memory: 'much' }), isUsage(/--memory "much"/));
    assert.throws(() => adHocJob(['x'], { ...NO_WISHES, memory: '0' }), isUsage(/above 0/));
    assert.throws(() => adHocJob(['///'], NO_WISHES), isUsage(/--name/));
    for (const name of ['', 'a/b', 'a b']) {
      assert.throws(() => adHocJob(['x'], { ...NO_WISHES, name }), isUsage(/a name cannot/));
    }
  });
});

describe('exit codes', () => {
  it('are those of the contract, for every error of the daemon', () => {
    const codes = new Map(ERROR_CODES.map((code) => [code, exitCodeOf(code)]));
    assert.equal(codes.get('not_found'), 4);
    assert.equal(codes.get('not_running'), 3);
    assert.equal(codes.get('not_permitted'), 6);
    assert.equal(codes.get('job_invalid'), 2);
    assert.equal(codes.get('agent_leaving'), 5);
    assert.equal(codes.get('conflict'), 1);
    for (const code of codes.values()) assert.notEqual(code, EXIT.ok);
  });
});

describe('a query', () => {
  it('leaves out what is not asked for', () => {
    assert.equal(withQuery('/v1/x', {}), '/v1/x');
    assert.equal(
      withQuery('/v1/x', { a: undefined, b: false, c: true, d: 0, e: 'ä&=' }),
      '/v1/x?c=true&d=0&e=%C3%A4%26%3D',
    );
  });
});
