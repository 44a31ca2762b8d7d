/** Owns what ties the checks of an alloc to its tasks: which run they ask, who says what came of it, who is restarted. */
import type { Clock } from '../../base/clock.js';
import { describeError } from '../../base/errors.js';
import type { Logger } from '../../base/log.js';
import type { TaskGroup } from '../../jobspec/types.js';
import type { TaskRunner } from '../../taskrunner/task-runner.js';
import type { TaskRunners } from '../task-runners.js';
import { AllocChecks, type KnownCheck } from './alloc-checks.js';
import type { CheckStatus } from './check-state.js';
import type { Probe } from './probe.js';

/** An event is a line or two; the whole answer is with the check. */
const MOST_TOLD_OUTPUT = 300;

export interface TaskChecksDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly allocId: string;
  readonly probe: Probe;
  readonly runners: Pick<TaskRunners, 'get' | 'named'>;
  readonly ports: () => Readonly<Record<string, number>>;
  /** The status of a check is another one. */
  readonly onStatus: () => void;
}

/** The checks of a group, asked of the tasks that these runners run. */
export function checksOfTasks(deps: TaskChecksDeps, group: TaskGroup): AllocChecks {
  const { clock, allocId, probe, ports, runners } = deps;
  return new AllocChecks(
    {
      clock,
      allocId,
      probe,
      ports,
      runOf: (task) => {
        const found = runners.get(task);
        return found?.supervision === 'yes' ? found.record.runId : undefined;
      },
      interpolate: (task, text) => runners.named(task).interpolate(text),
      exec: (task, command, args, options) => runners.named(task).exec(command, args, options),
      onStatus: (check, before) => {
        tell(runners.get(check.tasks[0] ?? ''), check, before.status);
        deps.onStatus();
      },
      onRestart: ({ check, tasks }) => {
        const reason = `healthcheck: check ${JSON.stringify(check.name)} unhealthy`;
        for (const task of tasks) {
          runners
            .named(task)
            .restart(reason, { byPolicy: true })
            .catch((error: unknown) => {
              deps.logger.debug({ task, error: describeError(error) }, 'no restart for a check, ignoring');
            });
        }
      },
    },
    group,
  );
}

/** Said when it fails that did not, and when it passes again; the first success is nothing new. */
function tell(
  runner: TaskRunner | undefined,
  { check, service, state }: KnownCheck,
  before: CheckStatus,
): void {
  const isPassing = state.status === 'success';
  if (isPassing && before === 'pending') return;
  const type = isPassing ? 'Check Passing' : 'Check Failing';
  const output = (state.results.at(-1)?.output ?? '').slice(0, MOST_TOLD_OUTPUT);
  runner?.say({ type, check: check.name, service, output });
}
