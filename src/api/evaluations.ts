/** Owns the evaluations as callers read them: what the store remembers, on the wire. */
import type { StateStore } from '../state/store.js';
import { evaluationToWire } from './scheduling-to-wire.js';
import type { Evaluation } from './wire.js';

export class EvaluationLog {
  readonly #store: StateStore;

  constructor(store: StateStore) {
    this.#store = store;
  }

  /** Newest first. */
  list(filter?: { readonly jobId?: string }): readonly Evaluation[] {
    return this.#store
      .listEvaluations(filter)
      .map(({ record, ...indexes }) => evaluationToWire(record, indexes))
      .reverse();
  }
}
