/** Everything that a store says, as one plain value: two stores with equal images cannot be told apart by reading. */
import type { StateStore } from '../../src/state/store.js';

export function imageOf(store: StateStore) {
  const allocs = store.listAllocs();
  const owners = allocs.flatMap(({ record }) =>
    store.listTasks(record.id).map(({ task }) => ({ allocId: record.id, task })),
  );
  return {
    index: store.index(),
    jobs: store.listJobs().map((job) => ({ job, versions: store.listJobVersions(job.record.id) })),
    allocs: allocs.map((alloc) => ({ alloc, tasks: store.listTasks(alloc.record.id) })),
    owned: owners.map(({ allocId, task }) => ({
      runs: store.listRuns(allocId, task),
      hooks: store.listHooks(allocId, task),
      dropped: store.countDroppedEvents(allocId, task),
    })),
    deployments: store.listDeployments(),
    evaluations: store.listEvaluations(),
    events: store.listTaskEvents({}),
    feedBounds: store.feedBounds(),
    feed: store.readFeed(0, 100_000),
    quarantined: store.listQuarantined(),
  };
}
