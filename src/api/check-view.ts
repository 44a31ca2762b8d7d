/** Owns the way from the checks of an alloc to the wire. Pure. */
import type { KnownCheck } from '../allocrunner/checks/alloc-checks.js';
import type { AllocRecord } from '../state/store.js';
import { msToNs, type CheckView } from './wire.js';

export function checksToWire(
  checks: readonly KnownCheck[],
  alloc: Pick<AllocRecord, 'jobId' | 'group' | 'index'>,
): Readonly<Record<string, CheckView>> {
  return Object.fromEntries(checks.map((check) => [check.id, checkToWire(check, alloc)]));
}

function checkToWire(
  { id, service, check, state }: KnownCheck,
  alloc: Pick<AllocRecord, 'jobId' | 'group' | 'index'>,
): CheckView {
  const newest = state.results.at(-1);
  return {
    ID: id,
    Mode: check.onUpdate === 'ignore' ? 'readiness' : 'healthiness',
    Status: state.status === 'warning' ? 'failure' : state.status,
    StatusCode: newest?.statusCode ?? 0,
    Output: newest?.output ?? '',
    Timestamp: Math.floor((newest?.atMs ?? 0) / 1000),
    Group: `${alloc.jobId}.${alloc.group}[${alloc.index}]`,
    Task: check.task ?? '',
    Service: service,
    Check: check.name,
    Holdfast: {
      Status: state.status,
      Interval: msToNs(check.intervalMs),
      Results: state.results.map(({ status, statusCode, output, atMs }) => ({
        Status: status,
        StatusCode: statusCode,
        Output: output,
        Time: msToNs(atMs),
      })),
    },
  };
}
