/** Owns `holdfast doctor`: looks twice, so that work in progress is no finding, and cures what it is told to. */
import type { Finding, TreatedFinding } from '../api/operations.js';
import { sleep } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import { examine, type Diagnosis } from './doctor-checks.js';
import type { DoctorDeps } from './doctor-questions.js';

/** Starting and cleaning up one run takes far less. */
const SECOND_LOOK_MS = 1_000;

export class Doctor {
  readonly #deps: DoctorDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: DoctorDeps) {
    this.#deps = deps;
  }

  /** One after the other: a second cure must not meet the first. */
  run(options: { readonly fix: boolean }): Promise<readonly TreatedFinding[]> {
    const result = this.#last.then(() => this.#run(options.fix));
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #run(fix: boolean): Promise<readonly TreatedFinding[]> {
    const treated: TreatedFinding[] = [];
    for (const { finding, cure } of await this.#diagnose()) {
      const canFix = cure !== undefined;
      if (!fix || cure === undefined) {
        treated.push({ ...finding, canFix, outcome: { kind: 'open' } });
        continue;
      }
      const failure = await cure().catch(describeError);
      const outcome =
        failure === undefined ? { kind: 'fixed' as const } : { kind: 'failed' as const, why: failure };
      treated.push({ ...finding, canFix, outcome });
    }
    return treated;
  }

  async #diagnose(): Promise<readonly Diagnosis[]> {
    const first = new Set((await examine(this.#deps)).map(({ finding }) => keyOf(finding)));
    if (first.size === 0) return [];
    await sleep(this.#deps.clock, SECOND_LOOK_MS);
    return (await examine(this.#deps)).filter(({ finding }) => first.has(keyOf(finding)));
  }
}

function keyOf({ kind, subject }: Finding): string {
  return `${kind} ${subject}`;
}
