/** The commands of docs/api.md, "By hand", as they stand there, against a real agent. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { RealAgent } from '../helpers/real-agent.js';

/** What each must say, in their order. */
const SAYS: readonly RegExp[] = [
  /"ok":true/,
  /"EvalID":"[\da-f-]{36}"/,
  /"ID": "hello"/,
  /^x-nomad-index: \d+\r\n$/i,
  /"Status":"(running|pending)"/,
  /"JobID":"hello"/,
  /^\{"Index":\d+,"Snapshot":\{/,
  /^\{"Code":"not_found","Message":/,
  /^holdfast_client_tasks\{state="running"\} [01]$/m,
  /"JobModifyIndex":\d+/,
];

const hasCurl = spawnSync('curl', ['--version']).status === 0;

describe('docs/api.md by hand', { timeout: 60_000 }, () => {
  it('works as it is written', { skip: hasCurl ? false : 'there is no curl on this machine' }, async () => {
    const page = readFileSync('docs/api.md', 'utf8');
    const [, block = ''] = /## By hand\n[^]*?```sh\n([^]*?)```/.exec(page) ?? [];
    const lines = block.trim().split('\n');
    assert.equal(lines.length, SAYS.length);
    await using agent = await RealAgent.start();
    for (const [at, line] of lines.entries()) {
      const { status, stdout, stderr } = spawnSync('sh', ['-c', line], {
        env: { PATH: process.env['PATH'], S: agent.socket },
        encoding: 'utf8',
        timeout: 20_000,
      });
      assert.equal(status, 0, `${line}\n${stdout}${stderr}`);
      assert.match(stdout, SAYS[at] ?? /never/, line);
    }
  });
});
