/** Owns the question where the executor program is. Its launcher lies beside it, and only the executor calls that. */
import { accessSync, constants } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { AgentError, describeError } from '../base/errors.js';
import { packageRoot } from '../base/package-root.js';

const BUILT = 'native/build/Release/holdfast-executor';
const LAUNCHER = 'holdfast-launcher';

/**
 * Absolute path of the executor: HOLDFAST_EXECUTOR, else the one built in this package.
 * @throws AgentError executor_missing, with the cure
 */
export function findExecutor(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const named = env['HOLDFAST_EXECUTOR'];
  if (named !== undefined && named !== '') return usable(isAbsolute(named) ? named : resolve(named));
  const built = usable(join(packageRoot(), BUILT));
  usable(join(dirname(built), LAUNCHER));
  return built;
}

function usable(path: string): string {
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch (cause) {
    throw new AgentError(
      'executor_missing',
      `cannot use the executor ${path}: ${describeError(cause)}; build it with \`npm run build:native\``,
      { cause },
    );
  }
}
