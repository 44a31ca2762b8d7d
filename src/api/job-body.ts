/** Owns the way from a job in a request's body to a checked job, or to faults as the wire tells them. */
import { z } from 'zod';
import { AgentError } from '../base/errors.js';
import { parseJobJson, type Fault } from '../jobspec/parse.js';
import type { Job } from '../jobspec/types.js';
import type { ValidateResponse } from './wire.js';

/** A job in a body: jobspec checks it, openapi.json says what it may be. */
export const JOB_IN_BODY = z.unknown();

/** @throws AgentError job_invalid, with a line for each fault */
export function readJob(json: unknown): { readonly job: Job; readonly warnings: string } {
  const read = parseJobJson(json);
  if (!read.ok) throw new AgentError('job_invalid', read.faults.map(describeFault).join('\n'));
  return { job: read.job, warnings: read.warnings.map(describeFault).join('\n') };
}

export function validateJob(json: unknown): ValidateResponse {
  const read = parseJobJson(json);
  const faults = read.ok ? [] : read.faults.map(describeFault);
  return {
    DriverConfigValidated: true,
    ValidationErrors: faults,
    Error: faults.join('\n'),
    Warnings: read.ok ? read.warnings.map(describeFault).join('\n') : '',
  };
}

/** `Job.TaskGroups[0].Count: must be …: what to do`. */
function describeFault({ path, message, hint }: Fault): string {
  return [path, message, hint].filter((part) => part !== undefined && part !== '').join(': ');
}
