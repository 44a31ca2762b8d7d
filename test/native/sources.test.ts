/**
 * What tools find in the executor's sources: the compiler's analyzer, made-up input under sanitizers, and this folder's
 * own tests once more with a build that stops at the first misuse of memory.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const HERE = fileURLToPath(new URL('./', import.meta.url));
const ASAN = join(ROOT, 'native', 'build', 'asan', 'holdfast-executor');

interface Done {
  readonly status: number | null;
  readonly output: string;
}

function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Done> {
  return new Promise((resolve, reject) => {
    // A test runner below a test runner would report to it instead of running.
    const child = spawn(command, args, {
      cwd: ROOT,
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
    }
    child.on('error', reject);
    child.on('close', (status) => {
      resolve({ status, output });
    });
  });
}

describe('sources of the executor', () => {
  it('gcc -fanalyzer finds nothing', async () => {
    const sources = readdirSync(join(ROOT, 'native')).filter((name) => name.endsWith('.c'));
    assert.ok(sources.length > 10);
    for (const name of sources) {
      const args = [
        '-std=gnu17',
        '-O1',
        '-fanalyzer',
        '-Werror',
        '-DHOLDFAST_VERSION="0"',
        '-c',
        '-o',
        '/dev/null',
      ];
      const { status, output } = await run('gcc', [...args, join(ROOT, 'native', name)]);
      assert.equal(status, 0, `${name}: ${output}`);
    }
  });

  it('G36: made-up input does not break the parsers of the spec and of frames', async () => {
    const { status, output } = await run(process.execPath, [
      join(ROOT, 'scripts', 'fuzz.mjs'),
      '--seconds',
      '5',
    ]);
    assert.equal(status, 0, output);
    assert.match(output, /fuzz spec: \d{3,} inputs/);
    assert.match(output, /fuzz frames: \d{3,} inputs/);
  });

  it('G36: the tests of this folder pass with AddressSanitizer and UBSan', async () => {
    const built = await run(process.execPath, [join(ROOT, 'scripts', 'build-native.mjs'), '--sanitize']);
    assert.equal(built.status, 0, built.output);
    const files = readdirSync(HERE).filter(
      (name) => name.endsWith('.test.js') && name !== basename(fileURLToPath(import.meta.url)),
    );
    assert.ok(files.length > 5);
    const { status, output } = await run(
      process.execPath,
      ['--test', '--test-reporter=tap', ...files.map((name) => join(HERE, name))],
      { HOLDFAST_EXECUTOR: ASAN },
    );
    const faults = output
      .split('\n')
      .filter((line) => /^\s*not ok|ERROR: AddressSanitizer|runtime error/.test(line));
    assert.equal(status, 0, `${faults.join('\n')}\n${output.slice(-4000)}`);
  });
});
