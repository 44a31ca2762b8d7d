/** Owns the words for a host that takes nothing new. Pure. */
import { rfc3339ToMs, type NodeSchedulingJson } from '../../api/wire.js';
import { formatAge } from './units.js';

/** One line, or undefined for a host that takes whatever comes. */
export function describeScheduling(
  node: Pick<NodeSchedulingJson, 'Drain' | 'SchedulingEligibility'> & Partial<NodeSchedulingJson>,
  nowMs: number,
): string | undefined {
  if (node.SchedulingEligibility === 'eligible') return undefined;
  if (!node.Drain) {
    return 'takes nothing new: it was drained, or made ineligible; "holdfast node eligibility --enable" undoes it';
  }
  const dueMs = rfc3339ToMs(node.DrainStrategy?.ForceDeadline ?? '');
  const until =
    dueMs === undefined
      ? ''
      : dueMs <= nowMs
        ? ', its deadline has passed'
        : `, what is left in ${formatAge(dueMs - nowMs)} is stopped whatever it is`;
  return `is draining${until}; "holdfast drain --disable" ends it`;
}
