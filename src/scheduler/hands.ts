/** Owns carrying out placements: stores what is wished of allocs, then acts on it. Decides nothing. */
import type { AllocTable } from '../allocrunner/alloc-table.js';
import type { AllocSubject } from '../allocrunner/deps.js';
import type { Clock } from '../base/clock.js';
import { AgentError, describeError } from '../base/errors.js';
import { failpoint } from '../base/failpoint.js';
import { newUuid } from '../base/ids.js';
import type { Logger } from '../base/log.js';
import type { AllocRecord, Change, DeploymentRecord, JobRecord, Moment, StateStore } from '../state/store.js';
import { newTaskRecord } from '../taskrunner/machine.js';
import { isActive } from './deployment.js';
import type { Placement } from './place.js';
import { withEvent } from './reschedule.js';

export interface HandsDeps {
  readonly clock: Clock;
  readonly bootId: string;
  readonly logger: Logger;
  readonly store: StateStore;
  readonly allocs: AllocTable;
}

type Create = Extract<Placement, { kind: 'create' }>;

/** Changes that belong to a commit, and what follows when it is stored. */
export interface Beginning {
  readonly changes: readonly Change[];
  readonly act: () => void;
}

/** Now, as a moment that can be stored. */
export function momentOf({ clock, bootId }: Pick<HandsDeps, 'clock' | 'bootId'>): Moment {
  return { wallMs: clock.wallMs(), monoMs: clock.monoMs(), bootId };
}

/** @throws AgentError not_found */
export function jobOf(store: StateStore, jobId: string): JobRecord {
  const found = store.getJob(jobId)?.record;
  if (found === undefined) throw new AgentError('not_found', `no job ${jobId}: see holdfast ps -a`);
  return found;
}

/** Every alloc that is remembered of a job. */
export function allocsOf(store: StateStore, jobId: string): readonly AllocRecord[] {
  return store.listAllocs({ jobId }).map(({ record }) => record);
}

export class Hands {
  readonly #deps: HandsDeps;

  constructor(deps: HandsDeps) {
    this.#deps = deps;
  }

  async stop(
    stops: readonly { readonly alloc: AllocRecord; readonly why: string }[],
    noShutdownDelay: boolean,
  ): Promise<void> {
    const { store, logger } = this.#deps;
    const ending = this.beginStop(stops, noShutdownDelay);
    if (ending.changes.length === 0) return;
    // A disk that refuses writes must not keep anything alive: stopping acts all the same.
    await store.commit(ending.changes, { whenRefused: 'keep' }).catch((error: unknown) => {
      logger.error({ error: describeError(error) }, 'cannot store that allocs shall stop, stopping them');
    });
    ending.act();
  }

  /** What stops allocs: to be stored, with whatever else belongs to it, and then acted on, or taken back. */
  beginStop(
    stops: readonly { readonly alloc: AllocRecord; readonly why: string }[],
    noShutdownDelay: boolean,
  ): Beginning & { readonly takeBack: () => void } {
    const stopped = stops.flatMap(({ alloc, why }) => {
      const runner = this.#deps.allocs.get(alloc.id);
      if (runner === undefined) return [];
      const before = runner.alloc;
      const wish = { desiredStatus: 'stop', desiredDescription: why, noShutdownDelay } as const;
      return [{ runner, before, alloc: runner.want(wish) }];
    });
    return {
      changes: stopped.map(({ alloc }): Change => ({ kind: 'put_alloc', alloc })),
      act: () => {
        failpoint('scheduler.before_stop');
        for (const { runner } of stopped) runner.stop();
      },
      takeBack: () => {
        for (const { runner, before } of stopped) {
          const { desiredStatus, desiredDescription, noShutdownDelay: hurry } = before;
          runner.want({ desiredStatus, desiredDescription, noShutdownDelay: hurry });
        }
      },
    };
  }

  /**
   * What a job that nothing is known of yet begins with: to be stored in one commit with the job, and acted on only when
   * that is stored.
   */
  begin(
    job: JobRecord,
    deployment: DeploymentRecord | undefined,
    placements: readonly Placement[],
  ): Beginning {
    const made = placements
      .filter((placement) => placement.kind === 'create')
      .map((placement) => this.#create(job, deployment, placement));
    return {
      changes: made.flatMap(({ changes }) => changes),
      act: () => {
        for (const { subject } of made) this.#deps.allocs.run(subject);
      },
    };
  }

  /** Makes what is to be created and changes what is to be changed in place. @throws AgentError store_unavailable */
  async run(
    job: JobRecord,
    deployment: DeploymentRecord | undefined,
    placements: readonly Placement[],
  ): Promise<void> {
    const { store, allocs } = this.#deps;
    const made = placements
      .filter((placement) => placement.kind === 'create')
      .map((placement) => this.#create(placement.of ?? job, deployment, placement));
    const updated = placements
      .filter((placement) => placement.kind === 'update_in_place')
      .flatMap(({ alloc, group }) => {
        const runner = allocs.get(alloc.id);
        if (runner === undefined) return [];
        const wish = { jobVersion: job.version, ...deploymentOf(deployment, group.name) };
        return [{ runner, group, before: alloc, alloc: runner.want(wish) }];
      });
    const changes: Change[] = [
      ...updated.map(({ alloc }): Change => ({ kind: 'put_alloc', alloc })),
      ...made.flatMap(({ changes: own }) => own),
    ];
    try {
      if (changes.length > 0) await store.commit(changes, { whenRefused: 'reject' });
    } catch (error) {
      for (const { runner, before } of updated) runner.want({ jobVersion: before.jobVersion });
      throw error;
    }
    for (const { runner, group } of updated) runner.update(job.spec, group);
    for (const { subject } of made) allocs.run(subject);
  }

  #create(
    job: JobRecord,
    deployment: DeploymentRecord | undefined,
    { group, index, before }: Create,
  ): { readonly subject: AllocSubject; readonly changes: readonly Change[] } {
    const now = momentOf(this.#deps);
    const alloc: AllocRecord = {
      ...newAlloc(job, group.name, index, now.wallMs),
      ...deploymentOf(deployment, group.name),
      ...(before === undefined ? {} : follow(before, withEventOf(before, now, group.reschedule))),
    };
    const changes: Change[] = [
      { kind: 'put_alloc', alloc },
      ...group.tasks.map((task): Change => ({
        kind: 'put_task',
        task: newTaskRecord(alloc.id, task.name),
      })),
    ];
    if (before !== undefined) {
      const replaced: AllocRecord = {
        ...before,
        desiredStatus: 'stop',
        desiredDescription: 'alloc was rescheduled because it failed',
        nextAllocId: alloc.id,
        modifiedAtMs: now.wallMs,
      };
      changes.push({ kind: 'put_alloc', alloc: replaced });
    }
    return { subject: { alloc, job: job.spec, group, isNew: true, payload: job.payload }, changes };
  }
}

function deploymentOf(
  deployment: DeploymentRecord | undefined,
  group: string,
): Pick<AllocRecord, 'deploymentId'> {
  if (deployment === undefined || !isActive(deployment) || deployment.groups[group] === undefined) return {};
  return { deploymentId: deployment.id };
}

function withEventOf(
  before: AllocRecord,
  at: Moment,
  policy: Parameters<typeof withEvent>[0],
): ReturnType<typeof withEvent> {
  const delayMs = before.reschedule?.next?.delayMs ?? 0;
  return withEvent(policy, before.reschedule?.events ?? [], { at, previousAllocId: before.id, delayMs });
}

function follow(before: AllocRecord, events: ReturnType<typeof withEvent>): Partial<AllocRecord> {
  return { previousAllocId: before.id, reschedule: { events } };
}

function newAlloc(job: JobRecord, group: string, index: number, nowMs: number): AllocRecord {
  return {
    id: newUuid(),
    jobId: job.id,
    jobVersion: job.version,
    group,
    index,
    desiredStatus: 'run',
    desiredDescription: '',
    noShutdownDelay: false,
    clientStatus: 'pending',
    clientDescription: 'No tasks have started',
    createdAtMs: nowMs,
    modifiedAtMs: nowMs,
  };
}
