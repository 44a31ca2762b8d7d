/** Owns how a plan looks on the wire. Pure. */
import type { JobPlan, PlannedAction, PlannedPlace } from '../scheduler/plan.js';
import { diffJobs } from './job-diff.js';
import {
  jobSpecToWire,
  msToNs,
  msToRfc3339,
  type GroupUpdates,
  type JobDiff,
  type PlanResponse,
} from './wire.js';

/** Words that Nomad's CLI shows beside a group. */
const UPDATE_WORDS: Readonly<Record<PlannedAction, string>> = {
  none: 'ignore',
  update_in_place: 'in-place update',
  replace: 'create/destroy update',
  create: 'create',
  stop: 'destroy',
};

export function planToWire(
  plan: JobPlan,
  options: { readonly warnings: string; readonly withDiff: boolean },
): PlanResponse {
  const groups = [...new Set(plan.places.map(({ group }) => group))];
  const placesOf = (group: string): readonly PlannedPlace[] =>
    plan.places.filter((place) => place.group === group);
  return {
    Annotations: {
      DesiredTGUpdates: Object.fromEntries(groups.map((group) => [group, countUpdates(placesOf(group))])),
    },
    Diff: options.withDiff ? diffOf(plan) : null,
    FailedTGAllocs: null,
    JobModifyIndex: plan.before?.modifyIndex ?? 0,
    NextPeriodicLaunch: msToRfc3339(plan.nextLaunchMs),
    CreatedEvals: [],
    Warnings: options.warnings,
    Holdfast: {
      Version: plan.after.version,
      Unchanged: plan.after === plan.before?.record,
      Deployment: plan.deployment.map(({ group, maxParallel, minHealthyMs, autoRevert }) => ({
        Group: group,
        MaxParallel: maxParallel,
        MinHealthyTime: msToNs(minHealthyMs),
        AutoRevert: autoRevert,
      })),
      Places: plan.places.map(({ group, index, allocId, action, why, tasks }) => ({
        Group: group,
        Index: index,
        AllocID: allocId ?? null,
        Action: action,
        Why: why,
        Tasks: tasks,
      })),
    },
  };
}

function countUpdates(places: readonly PlannedPlace[]): GroupUpdates {
  const count = (action: PlannedAction): number => places.filter((place) => place.action === action).length;
  return {
    Ignore: count('none'),
    Place: count('create'),
    Stop: count('stop'),
    InPlaceUpdate: count('update_in_place'),
    DestructiveUpdate: count('replace'),
    Migrate: 0,
    Canary: 0,
    Preemptions: 0,
  };
}

/** A stopped job is compared as well: its spec is what the user knows. */
function diffOf({ before, after, places }: JobPlan): JobDiff {
  const diff = diffJobs(
    before === undefined ? undefined : jobSpecToWire(before.record.spec),
    jobSpecToWire(after.spec),
  );
  return {
    ...diff,
    TaskGroups: diff.TaskGroups.map((group) => {
      const updates: Record<string, number> = {};
      for (const place of places) {
        if (place.group !== group.Name) continue;
        const word = UPDATE_WORDS[place.action];
        updates[word] = (updates[word] ?? 0) + 1;
      }
      return { ...group, Updates: updates };
    }),
  };
}
