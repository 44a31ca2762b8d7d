/** Owns the taking up of what the agent before has left: its allocs, and the deadlines that went on without it. */
import type { AllocSubject } from '../allocrunner/deps.js';
import { describeError } from '../base/errors.js';
import type { AllocRecord, Change, JobRecord } from '../state/store.js';
import { graceAfterAbsence, isActive } from './deployment.js';
import { momentOf, type HandsDeps } from './hands.js';
import { rebased } from './reschedule.js';

/** Runs every alloc that was not over when the agent ended. @returns all that are known */
export function resumeAllocs(deps: HandsDeps): readonly AllocRecord[] {
  const { store, allocs } = deps;
  const known = store.listAllocs().map(({ record }) => record);
  const versions = new Map<string, JobRecord | undefined>();
  // Many allocs are of the same version: each is read once.
  const versionOf = ({ jobId, jobVersion }: AllocRecord): JobRecord | undefined => {
    const key = `${jobVersion} ${jobId}`;
    if (!versions.has(key)) versions.set(key, store.getJobVersion(jobId, jobVersion)?.record);
    return versions.get(key);
  };
  for (const alloc of known) {
    const records = store.listTasks(alloc.id);
    const over = records.length > 0 && records.every((task) => task.phase === 'complete');
    const subject = over ? undefined : subjectOf(deps, alloc, versionOf(alloc));
    if (subject !== undefined) allocs.run({ ...subject, records });
  }
  return known;
}

/** Deadlines that passed while no agent was there to see what is well, and those that an earlier boot has set. */
export async function moveDeadlines(deps: HandsDeps, allocs: readonly AllocRecord[]): Promise<void> {
  const { store, logger } = deps;
  const now = momentOf(deps);
  const changes = store.listDeployments().flatMap(({ record }): Change[] => {
    const job = isActive(record) ? store.getJob(record.jobId)?.record.spec : undefined;
    if (job === undefined) return [];
    return [{ kind: 'put_deployment', deployment: graceAfterAbsence(record, job, now) }];
  });
  for (const alloc of allocs) {
    const { reschedule: tracker } = alloc;
    const next = tracker?.next;
    if (tracker === undefined || next === undefined || next.at.bootId === now.bootId) continue;
    const reschedule = { ...tracker, next: { ...next, at: rebased(next.at, next.delayMs, now) } };
    changes.push({ kind: 'put_alloc', alloc: { ...alloc, reschedule } });
  }
  if (changes.length === 0) return;
  await store.commit(changes, { whenRefused: 'keep' }).catch((error: unknown) => {
    logger.warn({ error: describeError(error) }, 'cannot move the deadlines of deployments, ignoring');
  });
}

/** An alloc with the spec of its own version; undefined (and logged) when that is not known any more. */
function subjectOf(
  { logger }: HandsDeps,
  alloc: AllocRecord,
  version: JobRecord | undefined,
): AllocSubject | undefined {
  const group = version?.spec.groups.find((candidate) => candidate.name === alloc.group);
  if (version === undefined || group === undefined) {
    logger.error(
      { alloc_id: alloc.id, job_id: alloc.jobId, version: alloc.jobVersion },
      'the job version of an alloc is missing: its processes, if any, are not supervised',
    );
    return undefined;
  }
  return { alloc, job: version.spec, group, payload: version.payload };
}
