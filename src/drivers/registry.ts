/** Owns which drivers this agent has, by name. */
import type { Driver, DriverFingerprint } from './driver.js';
import { MissingDriver } from './missing.js';

export class DriverRegistry {
  readonly #drivers: ReadonlyMap<string, Driver>;

  constructor(drivers: readonly Driver[]) {
    this.#drivers = new Map(drivers.map((driver) => [driver.name, driver]));
  }

  names(): readonly string[] {
    return [...this.#drivers.keys()].sort();
  }

  /** The driver of that name, or one that says that it is missing. */
  get(name: string): Driver {
    return this.#drivers.get(name) ?? new MissingDriver(name, this.names());
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
