/** How often models are run, and how a failure is told. */
import fc from 'fast-check';

/** Enough to find what is easy to find, quickly; HOLDFAST_MODEL_RUNS asks for more. */
export const MODEL_RUNS = Number(process.env['HOLDFAST_MODEL_RUNS'] ?? 300);

/** Checks a property over command sequences; with HOLDFAST_MODEL_SEED (and _PATH) it repeats one that failed. */
export async function checkModel<T>(property: fc.IAsyncProperty<T>): Promise<void> {
  const seed = process.env['HOLDFAST_MODEL_SEED'];
  const path = process.env['HOLDFAST_MODEL_PATH'];
  await fc.assert(property, {
    numRuns: MODEL_RUNS,
    includeErrorInReport: true,
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
  });
}
