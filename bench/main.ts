/**
 * `npm run bench`: one table of ratios, holdfast against the least that could do the same on this machine, in one run.
 * Absolute figures of a shared machine say little; the ratio says what holdfast adds. `--quick` does a little of each, `--only WORD` those
 * whose name has the word in it; `--only thousand` re-attaches ten times as many tasks.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spread } from '../src/base/spare-dirs.js';
import { RealAgent } from '../test/helpers/real-agent.js';
import { measureFeed } from './feed.js';
import { Floor } from './floor.js';
import { measureBurst, measureExecStart, measureRecord, measureSize, measureStop } from './life.js';
import { measureLogs } from './logs.js';
import {
  makeDir,
  measureMemory,
  measureManyReattached,
  measureReattach,
  measureRestart,
  measureStart,
  type Row,
  type Sizes,
} from './measures.js';

const FULL: Sizes = {
  starts: 200,
  burst: 100,
  rounds: 5,
  stops: 50,
  records: 1000,
  executors: 20,
  reattached: 100,
  logBytes: 200e6,
  logRounds: 7,
  restarts: 100,
  feedEvents: 50_000,
};
const QUICK: Sizes = {
  starts: 3,
  burst: 5,
  rounds: 1,
  stops: 2,
  records: 2,
  executors: 2,
  reattached: 3,
  logBytes: 2e6,
  logRounds: 1,
  restarts: 3,
  feedEvents: 500,
};

/** It takes a minute. */
const ONLY_WHEN_ASKED = 'thousand';

const sizes = process.argv.includes('--quick') ? QUICK : FULL;
// What others have just deleted beside it is not to be measured (see src/base/spare-dirs.ts).
const place = mkdtempSync(join(tmpdir(), 'hf-bench-'));
await spread(place);
process.env['TMPDIR'] = place;
process.once('exit', () => {
  rmSync(place, { recursive: true, force: true });
});
await using agent = await RealAgent.start();
const bench = {
  agent,
  floor: new Floor(makeDir(agent.dir, 'floor')),
  sizes,
  dir: makeDir(agent.dir, 'stamps'),
};
const only = process.argv[process.argv.indexOf('--only') + 1];
const isWanted = (what: string): boolean =>
  process.argv.includes('--only') ? what.includes(only ?? '') : what !== ONLY_WHEN_ASKED;
const rows: Row[] = [];
for (const [what, measure] of [
  ['start latency', measureStart],
  ['restart latency', measureRestart],
  ['exec start latency', measureExecStart],
  ['burst of starts', measureBurst],
  ['stop latency', measureStop],
  ['record latency', measureRecord],
  ['program size', measureSize],
  ['executor memory', measureMemory],
  ['re-attach', measureReattach],
  [ONLY_WHEN_ASKED, measureManyReattached],
  ['log throughput', measureLogs],
  ['feed', measureFeed],
] as const) {
  if (!isWanted(what)) continue;
  process.stderr.write(`measuring ${what} …\n`);
  rows.push(...(await measure(bench)));
}
process.stdout.write(`${render(rows)}\n`);

/** Columns for 80 characters; `ratio` 1.0 would be the floor itself. */
function render(lines: readonly Row[]): string {
  const head = ['', 'holdfast', 'floor', 'ratio', 'floor is'];
  const table = lines.map(({ what, holdfast, floor, unit, against, isRate }) => [
    what,
    `${figure(holdfast)} ${unit}`,
    `${figure(floor)} ${unit}`,
    figure(isRate ? floor / holdfast : holdfast / floor),
    against,
  ]);
  const widths = head.map((_, column) =>
    Math.max(...[head, ...table].map((cells) => cells[column]?.length ?? 0)),
  );
  return [head, ...table]
    .map((cells) =>
      cells
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return column === 0 || column === 4 ? cell.padEnd(width) : cell.padStart(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Three digits that count. */
function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}
