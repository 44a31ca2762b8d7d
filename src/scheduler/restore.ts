/** Owns the taking up of what the agent before has left: its allocs, and the deadlines that went on without it. */
import type { AllocSubject } from '../allocrunner/deps.js';
import { describeError } from '../base/errors.js';
import type { AllocRecord, Change } from '../state/store.js';
import { graceAfterAbsence, isActive } from './deployment.js';
import { momentOf, type HandsDeps } from './hands.js';
import { rebased } from './reschedule.js';

/** Runs every alloc that was not over when the agent ended. */
export function resumeAllocs(deps: HandsDeps): void {
  const { store, allocs } = deps;
  for (const { record: alloc } of store.listAllocs()) {
    const tasks = store.listTasks(alloc.id);
    const over = tasks.length > 0 && tasks.every((task) => task.phase === 'complete');
    const subject = over ? undefined : subjectOf(deps, alloc);
    if (subject !== undefined) allocs.run(subject);
  }
}

/** Deadlines that passed while no agent was there to see what is well, and those that an earlier boot has set. */
export async function moveDeadlines(deps: HandsDeps): Promise<void> {
  const { store, logger } = deps;
  const now = momentOf(deps);
  const changes = store.listDeployments().flatMap(({ record }): Change[] => {
    const job = store.getJob(record.jobId)?.record.spec;
    if (!isActive(record) || job === undefined) return [];
    return [{ kind: 'put_deployment', deployment: graceAfterAbsence(record, job, now) }];
  });
  for (const { record: alloc } of store.listAllocs()) {
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
function subjectOf({ store, logger }: HandsDeps, alloc: AllocRecord): AllocSubject | undefined {
  const job = store.getJobVersion(alloc.jobId, alloc.jobVersion)?.record.spec;
  const group = job?.groups.find((candidate) => candidate.name === alloc.group);
  if (job === undefined || group === undefined) {
    logger.error(
      { alloc_id: alloc.id, job_id: alloc.jobId, version: alloc.jobVersion },
      'the job version of an alloc is missing: its processes, if any, are not supervised',
    );
    return undefined;
  }
  return { alloc, job, group };
}
