/** Owns what happens to tasks whose driver this host does not have: new ones fail, running ones are never let go. */
import { AgentError } from '../base/errors.js';
import type { Driver, DriverFingerprint, DriverHandle, Recovered } from './driver.js';

export class MissingDriver implements Driver {
  readonly defaultKillSignal = 'SIGTERM';
  readonly name: string;
  readonly #known: readonly string[];

  constructor(name: string, known: readonly string[]) {
    this.name = name;
    this.#known = known;
  }

  fingerprint(): Promise<DriverFingerprint> {
    return Promise.resolve({ health: 'undetected', description: this.#text(), attributes: {} });
  }

  start(): Promise<DriverHandle> {
    return Promise.reject(new AgentError('driver_not_found', this.#text()));
  }

  /** It may be running: an agent that has the driver will know. */
  recover(): Promise<Recovered> {
    return Promise.resolve({ kind: 'unreachable', detail: this.#text() });
  }

  #text(): string {
    return `this host has no driver ${JSON.stringify(this.name)}; it has ${this.#known.join(', ')}`;
  }
}
