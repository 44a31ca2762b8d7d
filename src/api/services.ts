/** Owns what the routes are given to work with. */
import type { Clock } from '../base/clock.js';
import type { Logger, LogTap } from '../base/log.js';
import type { StateStore } from '../state/store.js';
import type { EvaluationLog } from './evaluations.js';
import type { AgentOperations } from './operations.js';
import type { View } from './view.js';

export interface Services {
  readonly store: StateStore;
  readonly operations: AgentOperations;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Undefined where the agent keeps no log. */
  readonly logTap?: LogTap;
  readonly dataDir: string;
  readonly view: View;
  readonly evaluations: EvaluationLog;
}
