/** How often models are run, and how a run and its failure are told. */
import type { TestContext } from 'node:test';
import fc from '../helpers/properties.js';

/** Enough to find what is easy to find, quickly; HOLDFAST_MODEL_RUNS asks for more. */
export const MODEL_RUNS = Number(process.env['HOLDFAST_MODEL_RUNS'] ?? 1000);

/** Commands that were carried out by all models of this process. */
export const tally = { commands: 0 };

/** Checks a property over command sequences; HOLDFAST_MODEL_SEED repeats one that failed. */
export async function checkModel<T>(test: TestContext, property: fc.IAsyncProperty<T>): Promise<void> {
  const seed = Number(process.env['HOLDFAST_MODEL_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  await fc.assert(property, { numRuns: MODEL_RUNS, seed, includeErrorInReport: true });
  test.diagnostic(`seed ${seed}: ${MODEL_RUNS} histories, ${tally.commands} commands`);
}
