/**
 * Owns the evaluations of this agent's life. Stand-alone, a change is carried out when its call returns, so each is
 * complete when it is made; it exists for tools that follow one. Not durable: an older id is simply not found.
 */
import type { Clock } from '../base/clock.js';
import { msToNs, type Evaluation } from './wire.js';

/** Enough for whoever still follows one; an evaluation is asked for within seconds. */
export const MOST_EVALUATIONS = 1000;

export interface EvaluationFacts {
  readonly id: string;
  readonly triggeredBy: Evaluation['TriggeredBy'];
  readonly jobId: string;
  readonly jobType: string;
  readonly jobModifyIndex: number;
  readonly priority: number;
  /** Store index when the change began and when it was done. */
  readonly beganAfter: number;
  readonly index: number;
}

export class EvaluationLog {
  readonly #clock: Clock;
  readonly #byId = new Map<string, Evaluation>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Remembers a change that was carried out. An empty id (nothing to follow) is ignored. */
  add(facts: EvaluationFacts): void {
    if (facts.id === '') return;
    const time = msToNs(this.#clock.wallMs());
    this.#byId.set(facts.id, {
      ID: facts.id,
      Priority: facts.priority,
      Type: facts.jobType,
      TriggeredBy: facts.triggeredBy,
      Namespace: 'default',
      JobID: facts.jobId,
      JobModifyIndex: facts.jobModifyIndex,
      NodeID: '',
      DeploymentID: '',
      Status: 'complete',
      StatusDescription: '',
      Wait: 0,
      NextEval: '',
      PreviousEval: '',
      BlockedEval: '',
      RelatedEvals: [],
      FailedTGAllocs: null,
      CreateIndex: facts.beganAfter + 1,
      ModifyIndex: facts.index,
      CreateTime: time,
      ModifyTime: time,
    });
    const [oldest] = this.#byId.keys();
    if (this.#byId.size > MOST_EVALUATIONS && oldest !== undefined) this.#byId.delete(oldest);
  }

  /** Newest first. */
  list(): readonly Evaluation[] {
    return [...this.#byId.values()].reverse();
  }
}
