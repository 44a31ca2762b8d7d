/** Owns what is said on the topic `Stats`: what a running task uses. It passes: nothing of it is stored or numbered. */
import type { UsageSample } from '../stats/history.js';
import type { NodeFacts } from './operations.js';
import { sampleToWire } from './usage-view.js';
import { msToNs, type PassingEvent } from './wire.js';

export function sampleEvent({ allocId, jobId, task, usage }: UsageSample, node: NodeFacts): PassingEvent {
  return {
    Topic: 'Stats',
    Type: 'TaskUsage',
    Key: `${allocId}/${task}`,
    FilterKeys: [allocId, jobId],
    Namespace: 'default',
    Time: msToNs(usage.atMs),
    Payload: { Stats: sampleToWire(usage, node) },
  };
}
