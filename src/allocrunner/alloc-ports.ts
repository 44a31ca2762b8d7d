/** Owns the taking of an alloc's ports: chosen once, stored before anything starts, kept to its end in its record. */
import type { Clock } from '../base/clock.js';
import { describeError } from '../base/errors.js';
import type { Logger } from '../base/log.js';
import type { Port } from '../jobspec/types.js';
import type { AllocRecord } from '../state/store.js';
import { choosePorts } from './ports.js';

/** How soon ports that others have, or that could not be stored, are asked for again. */
export const PORT_RETRY_MS = 1_000;

export interface AllocPortsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Who has a port, in words; without this alloc. */
  readonly holders: () => ReadonlyMap<number, string>;
  /** Notes the ports in the alloc's record; undefined takes them out again. */
  readonly note: (ports: AllocRecord['ports']) => void;
  /** Stores the alloc's record as it is now. @throws AgentError when the store refuses it */
  readonly store: () => Promise<unknown>;
  /** Tells the tasks what is waited for. */
  readonly hold: (why: string) => void;
  /** The ports are stored: look again now. */
  readonly onTaken: () => void;
  /** They could not be stored: look again after PORT_RETRY_MS. */
  readonly onRefused: () => void;
}

export class AllocPorts {
  readonly #deps: AllocPortsDeps;
  /** They are on their way to the store. */
  #takes = false;

  constructor(deps: AllocPortsDeps) {
    this.#deps = deps;
  }

  /**
   * Takes what is wanted when the alloc has none yet. May be called again and again.
   * @returns whether they are stored: before that nothing starts
   */
  has(wanted: readonly Port[], had: AllocRecord['ports']): boolean {
    if (this.#takes) return false;
    if (wanted.length === 0 || had !== undefined) return true;
    const choice = choosePorts(wanted, this.#deps.holders(), this.#deps.clock.roll());
    if (choice.kind === 'taken') {
      this.#deps.hold(choice.why);
      return false;
    }
    this.#takes = true;
    this.#deps.note(choice.ports);
    this.#deps.store().then(
      () => {
        this.#takes = false;
        this.#deps.onTaken();
      },
      (error: unknown) => {
        this.#takes = false;
        this.#deps.note(undefined);
        this.#deps.logger.warn(
          { error: describeError(error) },
          'cannot store the ports of an alloc, trying again',
        );
        this.#deps.onRefused();
      },
    );
    return false;
  }
}
