/** Owns the shapes of plans and of differences between jobs. */
import type { JobJson } from './job.js';

/** Body of PUT /v1/job/:id/plan. */
export interface PlanRequest {
  readonly Job: JobJson;
  /** Also tell what would change in the job. */
  readonly Diff?: boolean;
}

/** Answer to PUT /v1/job/:id/plan: what registering would do. */
export interface PlanResponse {
  /** How many places of each group are touched how. */
  readonly Annotations: { readonly DesiredTGUpdates: Readonly<Record<string, GroupUpdates>> };
  /** null unless asked for. */
  readonly Diff: JobDiff | null;
  readonly FailedTGAllocs: null;
  /** As the job is stored now; 0 = there is none. For EnforceIndex of a registration. */
  readonly JobModifyIndex: number;
  readonly NextPeriodicLaunch: string;
  readonly CreatedEvals: readonly never[];
  readonly Warnings: string;
  readonly Holdfast: {
    /** Version that the job would have. */
    readonly Version: number;
    /** The job is exactly so already. */
    readonly Unchanged: boolean;
    /** How it goes step by step; empty = there will be no deployment. */
    readonly Deployment: readonly {
      readonly Group: string;
      readonly MaxParallel: number;
      readonly MinHealthyTime: number;
      readonly AutoRevert: boolean;
    }[];
    readonly Places: readonly PlannedPlace[];
  };
}

export interface GroupUpdates {
  readonly Ignore: number;
  readonly Place: number;
  readonly Stop: number;
  readonly InPlaceUpdate: number;
  readonly DestructiveUpdate: number;
  readonly Migrate: number;
  readonly Canary: number;
  readonly Preemptions: number;
}

export type PlannedAction = 'none' | 'update_in_place' | 'replace' | 'create' | 'stop';

export interface PlannedPlace {
  readonly Group: string;
  readonly Index: number;
  /** The alloc that is there, or null. */
  readonly AllocID: string | null;
  readonly Action: PlannedAction;
  readonly Why: string;
  readonly Tasks: Readonly<Record<string, PlannedAction>>;
}

export type DiffType = 'None' | 'Added' | 'Deleted' | 'Edited';

/** One value. A name in brackets is a key of a map, or a place in a list: `Env[PORT]`, `args[0]`. */
export interface FieldDiff {
  readonly Type: DiffType;
  readonly Name: string;
  readonly Old: string;
  readonly New: string;
  readonly Annotations: null;
}

/** What differs in one object; what is the same is not there. */
export interface ObjectDiff {
  readonly Type: DiffType;
  readonly Name: string;
  readonly Fields: readonly FieldDiff[];
  readonly Objects: readonly ObjectDiff[];
}

export interface TaskDiff extends ObjectDiff {
  readonly Annotations: null;
}

export interface TaskGroupDiff extends ObjectDiff {
  readonly Tasks: readonly TaskDiff[];
  /** Words that Nomad's CLI shows: `create`, `destroy`, `in-place update`, `create/destroy update`, `ignore`. */
  readonly Updates: Readonly<Record<string, number>>;
}

export interface JobDiff {
  readonly Type: DiffType;
  readonly ID: string;
  readonly Fields: readonly FieldDiff[];
  readonly Objects: readonly ObjectDiff[];
  readonly TaskGroups: readonly TaskGroupDiff[];
}

/** Answer to PUT /v1/validate/job. */
export interface ValidateResponse {
  readonly DriverConfigValidated: boolean;
  readonly ValidationErrors: readonly string[];
  readonly Error: string;
  readonly Warnings: string;
}
