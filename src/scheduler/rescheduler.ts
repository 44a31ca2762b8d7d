/**
 * Owns the rescheduling of failed allocs: plans when new ones take their places, and closes what was planned. What is
 * decided is in reschedule.ts.
 */
import { newUuid } from '../base/ids.js';
import type { AllocRecord, Change, EvaluationRecord, JobRecord } from '../state/store.js';
import type { Deployments } from './deployments.js';
import { evaluationOf } from './evaluation.js';
import { allocsOf, momentOf, type HandsDeps } from './hands.js';
import { wantedGroups, type Placement } from './place.js';
import { decideReschedule, leftMs, momentAfter } from './reschedule.js';

export class Rescheduler {
  readonly #deps: HandsDeps;
  readonly #deployments: Deployments;

  constructor(deps: HandsDeps, deployments: Deployments) {
    this.#deps = deps;
    this.#deployments = deployments;
  }

  /** Decides about allocs that have just failed. */
  async plan(job: JobRecord, placements: readonly Placement[]): Promise<void> {
    const { store, logger } = this.#deps;
    const now = momentOf(this.#deps);
    const changes = placements.flatMap((placement): Change[] => {
      if (placement.kind !== 'consider_reschedule') return [];
      const { alloc, group } = placement;
      const events = alloc.reschedule?.events ?? [];
      const decision = decideReschedule(group.reschedule, events, now);
      const plan = (reschedule: AllocRecord['reschedule'] & object): Change => ({
        kind: 'put_alloc',
        alloc: { ...alloc, reschedule, modifiedAtMs: now.wallMs },
      });
      if (decision.kind === 'never') {
        // A group that asks for nothing has nothing to be said of.
        return group.reschedule === undefined ? [] : [plan({ events, gaveUp: decision.why })];
      }
      const { delayMs } = decision;
      const at = momentAfter(now, delayMs);
      const evalId = newUuid();
      logger.info({ alloc_id: alloc.id, job_id: job.id, in_ms: delayMs }, 'a failed alloc is rescheduled');
      const evaluation: EvaluationRecord = {
        ...evaluationOf(job, {
          id: evalId,
          triggeredBy: 'alloc-failure',
          jobModifyIndex: store.getJob(job.id)?.modifyIndex ?? 0,
          beganAfter: store.index(),
          nowMs: now.wallMs,
        }),
        status: 'pending',
        description: 'created for delayed rescheduling',
        waitUntilMs: at.wallMs,
      };
      return [plan({ events, next: { at, delayMs, evalId } }), { kind: 'put_evaluation', evaluation }];
    });
    if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
  }

  /** Closes the evaluations of failed allocs that have a successor by now, or shall have none any more. */
  async settle(job: JobRecord): Promise<void> {
    const { store, clock } = this.#deps;
    const pending = store
      .listEvaluations({ jobId: job.id })
      .filter(({ record }) => record.status === 'pending');
    if (pending.length === 0) return;
    const waiting = new Map(
      this.#waiting(job).map((alloc) => [alloc.reschedule?.next?.evalId ?? '', alloc] as const),
    );
    const allocs = allocsOf(store, job.id);
    const nowMs = clock.wallMs();
    const changes = pending.flatMap(({ record }): Change[] => {
      if (waiting.has(record.id)) return [];
      const alloc = allocs.find(({ reschedule }) => reschedule?.next?.evalId === record.id);
      const status = alloc?.nextAllocId === undefined ? 'canceled' : 'complete';
      const evaluation: EvaluationRecord = { ...record, status, modifiedAtMs: nowMs };
      const settled: Change = { kind: 'put_evaluation', evaluation };
      if (alloc === undefined || status === 'complete') return [settled];
      const reschedule = { events: alloc.reschedule?.events ?? [] };
      return [settled, { kind: 'put_alloc', alloc: { ...alloc, reschedule, modifiedAtMs: nowMs } }];
    });
    if (changes.length > 0) await store.commit(changes, { whenRefused: 'keep' });
  }

  /** Failed allocs in whose places new ones shall be made when it is time. */
  #waiting(job: JobRecord): readonly AllocRecord[] {
    const newest = new Map<string, AllocRecord>();
    for (const alloc of allocsOf(this.#deps.store, job.id))
      newest.set(`${alloc.group}/${alloc.index}`, alloc);
    const groups = wantedGroups(job);
    const isFailed = this.#deployments.newest(job)?.status === 'failed';
    const kept = isFailed ? this.#deployments.stableBefore(job)?.version : undefined;
    return [...newest.values()].filter(
      (alloc) =>
        alloc.reschedule?.next !== undefined &&
        alloc.desiredStatus === 'run' &&
        (alloc.jobVersion === job.version || alloc.jobVersion === kept) &&
        groups.some(({ name, count }) => name === alloc.group && alloc.index < count),
    );
  }

  /** In how long the place of a failed alloc is filled; undefined = not planned. */
  dueInMs(alloc: AllocRecord): number | undefined {
    const next = alloc.reschedule?.next;
    return next === undefined ? undefined : leftMs(next.at, next.delayMs, momentOf(this.#deps));
  }

  /** In how long each of the job's failed allocs that waits is due. */
  waitsMs(job: JobRecord): readonly number[] {
    return this.#waiting(job).flatMap((alloc) => this.dueInMs(alloc) ?? []);
  }
}
