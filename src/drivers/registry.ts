/** Owns which drivers this agent has, by name. */
import { AgentError } from '../base/errors.js';
import type { Driver, DriverFingerprint } from './driver.js';

export class DriverRegistry {
  readonly #drivers: ReadonlyMap<string, Driver>;

  constructor(drivers: readonly Driver[]) {
    this.#drivers = new Map(drivers.map((driver) => [driver.name, driver]));
  }

  names(): readonly string[] {
    return [...this.#drivers.keys()].sort();
  }

  /** @throws AgentError driver_not_found */
  get(name: string): Driver {
    const driver = this.#drivers.get(name);
    if (driver === undefined) {
      throw new AgentError(
        'driver_not_found',
        `this host has no driver ${JSON.stringify(name)}; it has ${this.names().join(', ')}`,
      );
    }
    return driver;
  }

  /** What each driver says of itself, by name. */
  async fingerprints(): Promise<Readonly<Record<string, DriverFingerprint>>> {
    const entries = this.names().map(async (name): Promise<[string, DriverFingerprint]> => [
      name,
      await this.get(name).fingerprint(),
    ]);
    return Object.fromEntries(await Promise.all(entries));
  }
}
