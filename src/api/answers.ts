/** The front of answers/: the schema of everything that a route answers with, by the name that openapi.json gives it. */
export * from './answers/alloc.js';
export * from './answers/host.js';
export * from './answers/job.js';
export * from './answers/plan.js';
export { ANSWER_SCHEMAS } from './answers/values.js';
