/**
 * The front of wire/: the JSON of the HTTP API and of the feed as it goes over the wire, Nomad's names and shapes, plus our
 * own facts under a `Holdfast` key. One file a family; all import it from here. The agent and the CLI both do, and the
 * CLI starts at every command: so nothing in wire/ imports what is not tiny, and what has only types is not loaded.
 * Records become these shapes in job-, alloc- and task-to-wire.ts.
 * Units as Nomad has them: `Time`, `…Time` and durations are integer nanoseconds, `…At` is RFC 3339 text.
 */
export type * from './wire/agent.js';
export type * from './wire/alloc.js';
export type * from './wire/allocated.js';
export type * from './wire/check.js';
export type * from './wire/deployment.js';
export type * from './wire/doctor.js';
export * from './wire/errors.js';
export type * from './wire/exec.js';
export type * from './wire/evaluation.js';
export * from './wire/feed.js';
export type * from './wire/frame.js';
export * from './wire/job-spec.js';
export type * from './wire/in-force.js';
export type * from './wire/job.js';
export type * from './wire/launch.js';
export type * from './wire/node.js';
export type * from './wire/plan.js';
export type * from './wire/run.js';
export type * from './wire/usage.js';
export * from './wire/values.js';
