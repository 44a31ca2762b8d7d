import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { spawn as spawnPty } from 'node-pty';
import { parseJobJson } from '../../src/jobspec/parse.js';
import { CliError, EXIT } from '../../src/cli/exit.js';
import { ApiClient } from '../../src/cli/http.js';
import { displayWidth, sanitize } from '../../src/cli/render/text.js';
import { knownToken, startApi, type ApiUnderTest } from '../helpers/api-client.js';
import { CLI } from './cli-world.js';

const COLUMNS = 80;

/** Runs the CLI on a real terminal of 80×24. */
async function onTerminal(
  api: ApiUnderTest,
  env: Record<string, string>,
  ...args: string[]
): Promise<string> {
  const pty = spawnPty(process.execPath, [CLI, '--address', api.socketPath, ...args], {
    cols: COLUMNS,
    rows: 24,
    env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color', TZ: 'UTC', ...env },
  });
  let text = '';
  pty.onData((data) => {
    text += data;
  });
  const code = await new Promise<number>((resolve) => {
    pty.onExit(({ exitCode }) => {
      resolve(exitCode);
    });
  });
  assert.equal(code, 0, text);
  return text;
}

/** An agent with a job whose names and words are as long and as bad as can be. */
async function startHostile(): Promise<ApiUnderTest> {
  const api = await startApi();
  const long = 'a-rather-long-name-for-a-task-that-nobody-would-type';
  const parsed = parseJobJson({
    ID: 'orders',
    Type: 'service',
    TaskGroups: [
      {
        Name: 'api',
        Count: 3,
        Tasks: [{ Name: long, Driver: 'raw_exec', Config: { command: '/bin/true' } }],
      },
    ],
  });
  assert.ok(parsed.ok);
  await api.operations.registerJob(parsed.job, {});
  for (const { record } of api.store.listAllocs()) {
    await api.operations.startTask(record.id, long);
    await api.operations.addEvent(record.id, long, {
      type: 'Driver',
      message: `日本語 \x1b[2J ${'very '.repeat(40)}long`,
    });
    const logDir = join(api.dataDir, 'alloc', record.id, 'alloc', 'logs');
    mkdirSync(logDir, { recursive: true });
    writeFileSync(join(logDir, `${long}.stdout.0`), `${'日本語'.repeat(40)}\n\x1b[2Jcleared\n`);
  }
  return api;
}

describe('on a terminal of 80 columns', { timeout: 60_000 }, () => {
  it('no line is wider, and nothing but colours is sent to it', async () => {
    await using api = await startHostile();
    for (const command of [['ps'], ['status'], ['status', 'orders'], ['events'], ['history', 'orders']]) {
      const text = await onTerminal(api, {}, ...command);
      const lines = text.replaceAll(/\x1b\[\d*m/g, '').split('\r\n');
      assert.ok(lines.length > 3, text);
      for (const line of lines) {
        assert.equal(line, sanitize(line), `${command.join(' ')} lets control characters through`);
        assert.ok(
          displayWidth(line) <= COLUMNS,
          `${command.join(' ')}: ${displayWidth(line)} columns: ${line}`,
        );
      }
      assert.match(text, /\x1b\[\d+m/, `${command.join(' ')} has no colour`);
    }
  });

  it('NO_COLOR and --no-color are heeded', async () => {
    await using api = await startHostile();
    assert.doesNotMatch(await onTerminal(api, { NO_COLOR: '1' }, 'ps'), /\x1b/);
    assert.doesNotMatch(await onTerminal(api, {}, '--no-color', 'ps'), /\x1b/);
    assert.doesNotMatch(await onTerminal(api, {}, 'ps', '--no-color'), /\x1b/);
  });
});

describe('a disk that refuses writes', { timeout: 60_000 }, () => {
  it('is told with every answer, once a command', async () => {
    await using api = await startApi();
    const heard: string[] = [];
    const client = new ApiClient({ kind: 'unix', path: api.socketPath }, {}, (text) => heard.push(text));
    await client.get('/v1/jobs');
    assert.equal(heard.length, 0);
    Object.assign(api.store, {
      trouble: () => ({ sinceMs: 0, error: 'full', keptChanges: 1, eventsDropped: 0 }),
    });
    await client.get('/v1/jobs');
    await client.get('/v1/allocations');
    assert.match(heard.join('; '), /^the disk refuses writes: [^;]*$/);
  });
});

describe('a socket that is not for us', { timeout: 60_000 }, () => {
  it('is told apart from a daemon that is not there', async () => {
    await using api = await startApi();
    const client = new ApiClient({ kind: 'unix', path: api.socketPath }, {});
    const isCli = (exitCode: number) => (error: unknown) =>
      error instanceof CliError && error.exitCode === exitCode;
    await client.get('/v1/jobs');
    chmodSync(api.socketPath, 0);
    await asNobody(() => assert.rejects(client.get('/v1/jobs'), isCli(EXIT.notPermitted)));
    rmSync(api.socketPath);
    await assert.rejects(client.get('/v1/jobs'), isCli(EXIT.unreachable));
  });
});

/** Root may use any socket: for the time of `work` this process is nobody. */
async function asNobody(work: () => Promise<void>): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    await work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}

describe('a daemon on TCP', { timeout: 60_000 }, () => {
  it('wants a token', async () => {
    const token = 'correct horse battery';
    await using api = await startApi({ tcp: { host: '127.0.0.1', tokens: [knownToken(token)] } });
    const run = async (env: Record<string, string>): Promise<{ code: unknown; stderr: string }> => {
      const child = spawn(process.execPath, [CLI, '--address', api.server.tcpUrl ?? '', 'ps'], {
        env: { PATH: process.env['PATH'] ?? '', ...env },
      });
      let stderr = '';
      child.stderr.on('data', (data: Buffer) => {
        stderr += data.toString();
      });
      const [code] = (await once(child, 'close')) as [unknown];
      return { code, stderr };
    };
    const refused = await run({});
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /^holdfast: .*--token or HOLDFAST_TOKEN\n$/);
    assert.deepEqual(await run({ HOLDFAST_TOKEN: token }), { code: 0, stderr: '' });
  });
});

describe('the start of a command', { timeout: 60_000 }, () => {
  it('loads none of the heavy packages that it does not need', async () => {
    await using api = await startApi();
    const dir = mkdtempSync(join(tmpdir(), 'hf-cli-loaded-'));
    try {
      const child = spawn(process.execPath, [CLI, '--address', api.socketPath, 'ps'], {
        env: { PATH: process.env['PATH'] ?? '', NODE_V8_COVERAGE: dir },
        stdio: 'ignore',
      });
      assert.deepEqual(await once(child, 'close'), [0, null]);
      const loaded = readdirSync(dir)
        .map((name) => readFileSync(join(dir, name), 'utf8'))
        .join('');
      assert.match(loaded, /node_modules\/commander\//);
      const heavy = loaded.match(/node_modules\/(?:zod|fastify|pino|better-sqlite3|yaml|ws)\//g) ?? [];
      assert.deepEqual([...new Set(heavy)], []);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
