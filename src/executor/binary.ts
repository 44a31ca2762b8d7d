/** Owns the question where the executor program is. */
import { accessSync, constants } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { AgentError, describeError } from '../base/errors.js';
import { packageRoot } from '../base/package-root.js';

const BUILT = 'native/build/Release/holdfast-executor';

/**
 * Absolute path of the executor: HOLDFAST_EXECUTOR, else the one built in this package.
 * @throws AgentError executor_missing, with the cure
 */
export function findExecutor(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const named = env['HOLDFAST_EXECUTOR'];
  const path =
    named === undefined || named === ''
      ? join(packageRoot(), BUILT)
      : isAbsolute(named)
        ? named
        : resolve(named);
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
