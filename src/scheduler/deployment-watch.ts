/** Owns the hearing of how allocs in deployments are: when that has changed, the deployment may go on, or has failed. */
import type { FeedRow, StateStore } from '../state/store.js';
import { isActive } from './deployment.js';

/** Listens from now on. @param onNews a job with an active deployment is to be looked at again */
export function watchDeployments(store: StateStore, onNews: (jobId: string) => void): void {
  /** By alloc. */
  const lastHeard = new Map<string, string>();
  const hear = ({ payload }: FeedRow): void => {
    if (payload.topic !== 'Allocation') return;
    if (payload.type === 'AllocationPurged') {
      lastHeard.delete(payload.allocId);
      return;
    }
    const { id, jobId, deploymentId, health, clientStatus } = payload.alloc;
    if (deploymentId === undefined) return;
    const heard = `${deploymentId} ${String(health?.healthy)} ${clientStatus}`;
    if (lastHeard.get(id) === heard) return;
    lastHeard.set(id, heard);
    const deployment = store.getDeployment(deploymentId)?.record;
    if (deployment !== undefined && isActive(deployment)) onNews(jobId);
  };
  store.onCommitted((rows) => {
    for (const row of rows) hear(row);
  });
}
