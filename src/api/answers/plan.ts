/** Owns the schemas of what would come of a job: plans with their differences, and faults. */
import { z } from 'zod';
import type { ObjectDiff as ObjectDiffJson, PlanResponse, ValidateResponse } from '../wire.js';
import { count, flag, named, nanoseconds, noList, nothing, text, time } from './values.js';

const Action = z.enum(['none', 'update_in_place', 'replace', 'create', 'stop']);
const DiffType = z.enum(['None', 'Added', 'Deleted', 'Edited']);
const FieldDiff = z.object({ Type: DiffType, Name: text, Old: text, New: text, Annotations: nothing });

export const ObjectDiff: z.ZodType<ObjectDiffJson> = named(
  'ObjectDiff',
  z.object({
    Type: DiffType,
    Name: text,
    Fields: z.array(FieldDiff),
    get Objects(): z.ZodType<readonly ObjectDiffJson[]> {
      return z.array(ObjectDiff);
    },
  }),
);

const objectParts = { Fields: z.array(FieldDiff), Objects: z.array(ObjectDiff) };
const TaskDiff = z.object({ Type: DiffType, Name: text, ...objectParts, Annotations: nothing });

const JobDiff = z.object({
  Type: DiffType,
  ID: text,
  ...objectParts,
  TaskGroups: z.array(
    z.object({
      Type: DiffType,
      Name: text,
      ...objectParts,
      Tasks: z.array(TaskDiff),
      Updates: z.record(z.string(), count),
    }),
  ),
});

const GroupUpdates = z.object({
  Ignore: count,
  Place: count,
  Stop: count,
  InPlaceUpdate: count,
  DestructiveUpdate: count,
  Migrate: count,
  Canary: count,
  Preemptions: count,
});

export const Plan = named(
  'Plan',
  z.object({
    Annotations: z.object({ DesiredTGUpdates: z.record(z.string(), GroupUpdates) }),
    Diff: JobDiff.nullable(),
    FailedTGAllocs: nothing,
    JobModifyIndex: count,
    NextPeriodicLaunch: time,
    CreatedEvals: noList,
    Warnings: text,
    Holdfast: z.object({
      Version: count,
      Unchanged: flag,
      Deployment: z.array(
        z.object({ Group: text, MaxParallel: count, MinHealthyTime: nanoseconds, AutoRevert: flag }),
      ),
      Places: z.array(
        z.object({
          Group: text,
          Index: count,
          AllocID: text.nullable(),
          Action,
          Why: text,
          Tasks: z.record(z.string(), Action),
        }),
      ),
    }),
  }),
) satisfies z.ZodType<PlanResponse>;

export const Validation = named(
  'Validation',
  z.object({
    DriverConfigValidated: flag,
    ValidationErrors: z.array(text),
    Error: text,
    Warnings: text,
  }),
) satisfies z.ZodType<ValidateResponse>;
