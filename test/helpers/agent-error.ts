/** Checks of errors by their code. */
import { AgentError, type ErrorCode } from '../../src/base/errors.js';

/** For assert.rejects: an AgentError of this code. */
export function isAgentError(code: ErrorCode): (error: unknown) => boolean {
  return (error) => {
    if (error instanceof AgentError && error.code === code) return true;
    throw error;
  };
}
