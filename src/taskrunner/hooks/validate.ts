/**
 * Hook: refuses what this host does not allow, before anything is fetched or made for it: users; and what does not do
 * once `${…}` is filled in: a config that the driver will not take, a name of a service. Nothing of it is stored: settings of the agent may change.
 */
import { AgentError } from '../../base/errors.js';
import type * as DriverConfig from '../../jobspec/driver-config.js';
import { whyBadServiceName } from '../../jobspec/service-rules.js';
import { HookFailure, type TaskHook } from './hook.js';

export interface UserRules {
  /** Users that tasks of the checked drivers must not run as. */
  readonly denied: readonly string[];
  /** Drivers for which that counts. */
  readonly drivers: readonly string[];
}

/** As Nomad has them: a driver that isolates must not run what it isolates as root. */
export const USUAL_USER_RULES: UserRules = { denied: ['root', 'Administrator'], drivers: ['exec'] };

export function validateHook(users: UserRules = USUAL_USER_RULES): TaskHook {
  let driverConfig: typeof DriverConfig | undefined;
  return {
    name: 'validate',
    prestart: async ({ task, group, env, config }) => {
      const { interpolate } = env();
      const user = task.user === undefined ? undefined : interpolate(task.user);
      if (user !== undefined && users.drivers.includes(task.driver) && isDenied(user, users.denied)) {
        const error = `user ${JSON.stringify(user)} is not allowed for driver ${task.driver} on this host`;
        throw invalid(error);
      }
      for (const { name } of [...(group.services ?? []), ...(task.services ?? [])]) {
        const bad = name.includes('${') ? whyBadServiceName(interpolate(name)) : undefined;
        if (bad === undefined) continue;
        throw invalid(`bad service name ${JSON.stringify(interpolate(name))}: ${bad}`);
      }
      // Late: what finds the tasks again after a start does not need it.
      driverConfig ??= await import('../../jobspec/driver-config.js');
      const { checkDriverConfig, isDriverName } = driverConfig;
      const [fault] = isDriverName(task.driver) ? checkDriverConfig(task.driver, config()) : [];
      if (fault === undefined) return undefined;
      const hint = fault.hint === undefined ? '' : `; ${fault.hint}`;
      throw new AgentError('driver_config_invalid', `config: ${fault.message}${hint}`);
    },
  };
}

function invalid(error: string): HookFailure {
  return new HookFailure({ type: 'Failed Validation', error }, error, { recoverable: false });
}

/** By name, and root by its number too. */
function isDenied(user: string, denied: readonly string[]): boolean {
  const name = user.split(':', 1)[0] ?? '';
  return denied.includes(name) || (/^0+$/.test(name) && denied.includes('root'));
}
