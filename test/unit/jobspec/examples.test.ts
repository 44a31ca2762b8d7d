// The examples are the first thing that a newcomer runs: they must be good, and the web server must serve.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it } from 'node:test';
import { parseRawExecConfig } from '../../../src/jobspec/driver-config.js';
import { parseJobFile, renderFaults } from '../../../src/jobspec/parse.js';
import type { Job } from '../../../src/jobspec/types.js';

function readExample(name: string): Job {
  const text = readFileSync(join('examples', name), 'utf8');
  const result = parseJobFile(text, name);
  assert.ok(result.ok, result.ok ? '' : renderFaults(result.faults, text));
  assert.deepEqual(result.warnings, []);
  return result.job;
}

function configOf(job: Job) {
  return parseRawExecConfig(job.groups[0]?.tasks[0]?.config ?? {}, job.id);
}

describe('examples', () => {
  for (const name of readdirSync('examples')) it(`${name} is a good job file`, () => void readExample(name));

  it('web.hcl, web.yaml and web.json are the same job', () => {
    assert.deepEqual(readExample('web.yaml'), readExample('web.hcl'));
    assert.deepEqual(readExample('web.json'), readExample('web.hcl'));
  });

  it('web serves on 127.0.0.1, on the port it is given', { timeout: 30_000 }, async () => {
    const { command, args } = configOf(readExample('web.hcl'));
    const env = { ...process.env, PORT: '0', NOMAD_ALLOC_NAME: 'web.site[0]' };
    const server = spawn(command, [...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [line] = (await once(createInterface(server.stdout), 'line')) as [string];
      const url = /http:\/\/127\.0\.0\.1:\d+\//.exec(line)?.[0];
      assert.ok(url !== undefined, line);
      const body = await new Promise<string>((resolve, reject) => {
        get(url, (response) => {
          response.setEncoding('utf8').once('data', resolve);
        }).once('error', reject);
      });
      assert.equal(body, `Hello from web.site[0], pid ${server.pid ?? 0}\n`);
    } finally {
      const ended = once(server, 'exit');
      server.kill('SIGTERM');
      await ended;
    }
  });

  it('crashing ends with code 3', { timeout: 30_000 }, async () => {
    const { command, args } = configOf(readExample('crashing.hcl'));
    const [code] = (await once(spawn(command, [...args], { stdio: 'ignore' }), 'exit')) as [number];
    assert.equal(code, 3);
  });
});
