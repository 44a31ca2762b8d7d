/** `logs` of a real agent over files that rotate and are compressed: nothing twice, nothing missing, in order. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { until } from '../helpers/until.js';
import { CliWorld } from './cli-world.js';

/** Lines of 64 bytes with a number each: 16384 of them fill a file of 1 MiB. */
const LINES_A_FILE = 16_384;
const BURST = 3 * LINES_A_FILE;

/** Writes a burst of lines each time it gets a SIGUSR1, the first at once; numbers go on. */
const WRITER = `n=0
burst() {
  awk -v from=$n -v to=$((n + ${BURST})) 'BEGIN { for (i = from; i < to; i++) printf "%-10d%53s\\n", i, "x" }'
  n=$((n + ${BURST}))
}
trap burst USR1
burst
while true; do sleep 0.05; done`;

const JOB = `
job "chatty" {
  group "g" {
    task "writer" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", ${JSON.stringify(WRITER).replaceAll('${', () => '$${')}]
      }
      logs {
        max_files     = 20
        max_file_size = 1
        compress      = true
      }
    }
    task "other" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo other begins; exec sleep 1000"]
      }
    }
  }
}
`;

/** The numbers of the lines; each must have all of its 64 bytes. */
function numbersIn(text: string, prefix = ''): number[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith(prefix) && line !== '')
    .map((line) => {
      const rest = line.slice(prefix.length);
      assert.match(rest, /^\d+ +x$/);
      assert.equal(rest.length, 63);
      return Number(rest.slice(0, 10));
    });
}

function assertGoesOn(numbers: readonly number[], from: number, to: number): void {
  assert.deepEqual([numbers[0], numbers.at(-1), numbers.length], [from, to, to - from + 1]);
  assert.ok(
    numbers.every((number, at) => number === from + at),
    'a line is missing, twice, or out of its order',
  );
}

describe('logs over many files', { timeout: 180_000 }, () => {
  let world: CliWorld;
  let logDir: string;
  before(async () => {
    world = new CliWorld();
    await world.startAgent();
    world.file('chatty.hcl', JOB);
    const ran = await world.cli('run', 'chatty.hcl');
    assert.equal(ran.code, 0, ran.stderr);
    const [alloc] = JSON.parse((await world.cli('ps', '--json')).stdout) as { readonly ID: string }[];
    logDir = join(world.dir, 'data', 'alloc', alloc?.ID ?? '', 'alloc', 'logs');
  });
  after(async () => {
    await world.close();
  });
  const compressed = (): string[] => readdirSync(logDir).filter((name) => name.endsWith('.gz'));
  const untilWritten = async (to: number): Promise<void> => {
    await until(
      `line ${to} is written`,
      async () => (await world.cli('logs', 'chatty/g/writer', '-n', '1')).stdout.startsWith(`${to} `),
      { timeoutMs: 60_000 },
    );
  };

  it('reads them all as one, plain and compressed', async () => {
    assert.ok(existsSync(logDir), logDir);
    await untilWritten(BURST - 1);
    await until('files are compressed', () => compressed().length >= 2, {
      timeoutMs: 90_000,
      lastSeen: () => readdirSync(logDir),
    });
    const all = await world.cli('logs', 'chatty/g/writer');
    assertGoesOn(numbersIn(all.stdout), 0, BURST - 1);
  });

  it('finds lines in compressed files, and the last ones of many', async () => {
    const found = await world.cli('logs', 'chatty/g/writer', '--grep', '^(7|16385|40000) ');
    assert.deepEqual(numbersIn(found.stdout), [7, 16_385, 40_000]);
    const last = await world.cli('logs', 'chatty/g/writer', '-n', String(LINES_A_FILE + 5));
    assertGoesOn(numbersIn(last.stdout), BURST - LINES_A_FILE - 5, BURST - 1);
    const since = await world.cli('logs', 'chatty/g/writer', '--since', '1h', '--grep', '^9 ');
    assert.deepEqual(numbersIn(since.stdout), [9]);
    assert.equal((await world.cli('logs', 'chatty/g/writer', '--since', '2999-01-01')).stdout, '');
  });

  it('follows one task and all of them while files rotate', async () => {
    const one = world.follow('logs', 'chatty/g/writer', '-f', '-n', '3');
    const both = world.follow('logs', 'chatty', '-f', '-n', '3');
    const matching = world.follow('logs', 'chatty/g/writer', '-f', '-n', '0', '--grep', '000 +x$');
    const heads = () => [one.stdout(), both.stdout()];
    await until('they have begun', () => heads().every((text) => text.includes(`${BURST - 1} `)));
    // Its beginning cannot be seen from outside: what it misses must not be what it shows.
    for (let turn = 2; turn <= 3; turn++) {
      const sent = await world.cli('signal', 'USR1', 'chatty/g/writer');
      assert.equal(sent.code, 0, sent.stderr);
      await untilWritten(turn * BURST - 1);
    }
    const end = 3 * BURST - 1;
    await until('they are at the end', () => heads().every((text) => text.includes(`${end} `)), {
      timeoutMs: 60_000,
      lastSeen: () => heads().map((text) => text.slice(-200)),
    });
    assertGoesOn(numbersIn(one.stdout()), BURST - 3, end);
    assertGoesOn(numbersIn(both.stdout(), 'writer | '), BURST - 3, end);
    assert.match(both.stdout(), /^other {2}\| other begins$/m);
    await until('the last match is shown', () => matching.stdout().includes('147000 '), {
      timeoutMs: 60_000,
      lastSeen: () => matching.stdout().slice(-200),
    });
    const matches = numbersIn(matching.stdout());
    assert.ok(
      matches.every(
        (number, at) => number % 1000 === 0 && (at === 0 || number === (matches[at - 1] ?? 0) + 1000),
      ),
    );
    for (const live of [one, both, matching]) await live.end();
  });
});
