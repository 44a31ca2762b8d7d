/** Owns the making of this agent's drivers. */
import { cpus } from 'node:os';
import type { Clock } from '../base/clock.js';
import type { Logger } from '../base/log.js';
import type { MakeDir } from '../base/spare-dirs.js';
import type { Pace } from '../base/pace.js';
import { ExecDriver, type ExecSettings } from '../drivers/exec.js';
import { MockDriver, MockWorld } from '../drivers/mock.js';
import { RawExecDriver } from '../drivers/raw-exec.js';
import { DriverRegistry } from '../drivers/registry.js';
import type { Cgroups } from '../executor/cgroups.js';
import type { HostIsolation } from '../executor/host-isolation.js';
import type { Launcher } from '../executor/launcher.js';
import { ProcessTable } from '../stats/process-table.js';
import { hostCpuMhz } from './node.js';

export function createDrivers(options: {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Of all set-ups of this agent. */
  readonly pace: Pace;
  readonly bootId: string;
  readonly runsDir: string;
  /** How run directories are made. */
  readonly makeDir: MakeDir;
  readonly cgroups: Cgroups;
  readonly executorPath: string;
  readonly launcher: Launcher;
  readonly isolation: HostIsolation;
  readonly exec: ExecSettings;
}): DriverRegistry {
  const { clock, logger, bootId, runsDir } = options;
  const processors = cpus();
  const common = {
    clock,
    bootId,
    log: logger,
    runsDir,
    makeDir: options.makeDir,
    cgroups: options.cgroups,
    executorPath: options.executorPath,
    launcher: options.launcher,
    pace: options.pace,
    table: new ProcessTable(clock),
    hostCpus: { mhz: hostCpuMhz(processors), cores: processors.length },
  };
  return new DriverRegistry([
    new RawExecDriver(common),
    new ExecDriver({ ...common, host: options.isolation, settings: options.exec }),
    new MockDriver({ clock, bootId, world: new MockWorld() }),
  ]);
}
