/** How often models are run, from which seed, and how a run and its failure are told. */
import assert from 'node:assert/strict';
import path from 'node:path';
import type { TestContext } from 'node:test';
import fc from '../helpers/properties.js';
import { SHORTEST_HISTORY } from './history.js';

/** Histories that a model lives through; HOLDFAST_MODEL_RUNS asks for more. */
export const MODEL_RUNS = Number(process.env['HOLDFAST_MODEL_RUNS'] ?? 1000);

/** So that everybody's tests do the same; HOLDFAST_MODEL_SEED asks for another one, or for a `random` one. */
const FIXED_SEED = 20_240_817;

/** Of the histories that this process has counted. */
const counted = { histories: 0, commands: 0, shortest: Infinity };

/** Counts a history that has held. One that came out too short is not one of those that were asked for. */
export function countHistory(history: { readonly length: number }): void {
  fc.pre(history.length >= SHORTEST_HISTORY);
  counted.histories += 1;
  counted.commands += history.length;
  counted.shortest = Math.min(counted.shortest, history.length);
}

/**
 * Checks a property over histories; a failure says how to see it again. To be called before the first test of its file:
 * once there is one, node:test follows every promise, and all takes a quarter longer.
 * @returns tells a test what came of it
 */
export async function checkModel<T>(property: fc.IAsyncProperty<T>): Promise<(test: TestContext) => void> {
  const seed = seedOfRun();
  const at = process.env['HOLDFAST_MODEL_PATH'];
  const details = await fc.check(property, {
    numRuns: MODEL_RUNS,
    seed,
    includeErrorInReport: true,
    ...(at === undefined ? {} : { path: at, endOnFailure: true }),
  });
  if (details.failed) {
    const report = await fc.asyncDefaultReportMessage(details);
    const again = `HOLDFAST_MODEL_SEED=${seed} HOLDFAST_MODEL_PATH=${details.counterexamplePath ?? ''}`;
    const file = path.relative(process.cwd(), process.argv[1] ?? '');
    return () => assert.fail(`${report}\n\nAgain: ${again} node --test ${file}`);
  }
  const { histories, commands, shortest } = counted;
  return (test) => {
    test.diagnostic(
      `seed ${seed}: ${histories} histories, ${commands} commands, the shortest has ${shortest}`,
    );
    if (at === undefined) assert.equal(histories, MODEL_RUNS);
    assert.ok(shortest >= SHORTEST_HISTORY);
  };
}

function seedOfRun(): number {
  const asked = process.env['HOLDFAST_MODEL_SEED'];
  if (asked === 'random') return Math.floor(Math.random() * 2 ** 31);
  return asked === undefined ? FIXED_SEED : Number(asked);
}
