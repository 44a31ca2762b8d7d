/**
 * Owns the look at what a started workload really got: namespaces, user, privileges, attributes, mounts, limits. From
 * /proc and the cgroup files, never from what was asked for. Reads only; what cannot be seen is undefined.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isOf, readProcessStat, type ProcessRef } from '../base/host.js';
import type { CgroupLeaf } from './cgroup-leaf.js';
import { NAMESPACE_FILES } from './host-isolation.js';
import type { InForce, ProcessInForce } from './in-force-record.js';
import { NAMESPACE_BITS, type NamespaceName } from './isolation.js';
import { readLimits } from './leaf-limits.js';

/** Where the look is kept in the state of a driver. */
export const IN_FORCE_KEY = 'inForce';

/** Looks at a workload. Some dozen small reads: once for each start. */
export function lookAtWorkload(workload: ProcessRef | undefined, leaf: CgroupLeaf | undefined): InForce {
  const seen = workload === undefined ? undefined : lookAtProcess(workload);
  return { ...(seen === undefined ? {} : { process: seen }), ...lookAtLeaf(leaf) };
}

/** What changes while it runs. */
export function lookAtLeaf(leaf: CgroupLeaf | undefined): Pick<InForce, 'cgroups' | 'limits'> {
  if (leaf === undefined) return { cgroups: [], limits: {} };
  const dirs = [...(leaf.unified === undefined ? [] : [leaf.unified]), ...leaf.v1];
  // Undefined does not survive JSON: the same is to be seen before it is stored and after.
  const limits = Object.entries(readLimits(leaf)).filter(([, value]) => value !== undefined);
  return { cgroups: dirs, limits: Object.fromEntries(limits) };
}

function lookAtProcess(workload: ProcessRef): ProcessInForce | undefined {
  const dir = `/proc/${workload.pid}`;
  try {
    const namespaces = ownNamespaces(dir);
    const status = parseStatus(readFileSync(`${dir}/status`, 'utf8'));
    const oomScoreAdj = Number(readFileSync(`${dir}/oom_score_adj`, 'utf8'));
    const rlimits = rlimitsOf(readFileSync(`${dir}/limits`, 'utf8'));
    const mounts = mountsOf(readFileSync(`${dir}/mountinfo`, 'utf8'));
    // Last: all of it is of this process, and not of a later one with its number.
    const stat = readProcessStat(workload.pid);
    if (stat === undefined || !isOf(stat, workload)) return undefined;
    const facts = { namespaces, ...status, oomScoreAdj, nice: stat.nice, rlimits, mounts };
    return holdsNoNumber(facts) ? undefined : facts;
  } catch {
    // Gone, or not ours to look at. Whatever it is, the workload runs: its start must not look like a failure.
    return undefined;
  }
}

/** A number that could not be read would not come back from the store. */
function holdsNoNumber(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(holdsNoNumber);
  return Number.isNaN(value);
}

function ownNamespaces(dir: string): NamespaceName[] {
  agentsNamespaces ??= readNamespaces('/proc/self');
  return [...agentsNamespaces].flatMap(([name, id]) =>
    readlinkSync(`${dir}/ns/${NAMESPACE_FILES[name]}`) === id ? [] : [name],
  );
}

/** Those that this kernel has, by what they are called; the agent never leaves its own. */
let agentsNamespaces: ReadonlyMap<NamespaceName, string> | undefined;

function readNamespaces(dir: string): ReadonlyMap<NamespaceName, string> {
  const there = new Set(readdirSync(`${dir}/ns`));
  const names = Object.keys(NAMESPACE_BITS) as NamespaceName[];
  return new Map(
    names
      .filter((name) => there.has(NAMESPACE_FILES[name]))
      .map((name) => [name, readlinkSync(`${dir}/ns/${NAMESPACE_FILES[name]}`)]),
  );
}

/** Reads /proc/PID/status. Pure. */
export function parseStatus(
  text: string,
): Pick<ProcessInForce, 'uid' | 'gid' | 'groups' | 'capabilities' | 'noNewPrivs' | 'seccomp' | 'umask'> {
  const fields = new Map(
    text.split('\n').map((line) => {
      const at = line.indexOf(':');
      return [line.slice(0, at), line.slice(at + 1).trim()] as const;
    }),
  );
  const field = (name: string): string => fields.get(name) ?? '';
  const set = (name: string): string => field(name).replace(/^0+(?=.)/, '');
  const words = (name: string): number[] => field(name).split(/\s+/).filter(Boolean).map(Number);
  return {
    uid: words('Uid')[1] ?? -1,
    gid: words('Gid')[1] ?? -1,
    groups: words('Groups'),
    capabilities: {
      effective: set('CapEff'),
      permitted: set('CapPrm'),
      inheritable: set('CapInh'),
      bounding: set('CapBnd'),
      ambient: set('CapAmb'),
    },
    noNewPrivs: field('NoNewPrivs') === '1',
    seccomp: (['off', 'strict', 'filter'] as const)[Number(field('Seccomp'))] ?? 'off',
    umask: field('Umask'),
  };
}

/** Names in /proc/PID/limits → the job file's. */
const RLIMITS: Readonly<Record<string, string>> = {
  'Max cpu time': 'cpu',
  'Max file size': 'fsize',
  'Max data size': 'data',
  'Max stack size': 'stack',
  'Max core file size': 'core',
  'Max resident set': 'rss',
  'Max processes': 'nproc',
  'Max open files': 'nofile',
  'Max locked memory': 'memlock',
  'Max address space': 'as',
  'Max file locks': 'locks',
  'Max pending signals': 'sigpending',
  'Max msgqueue size': 'msgqueue',
  'Max nice priority': 'nice',
  'Max realtime priority': 'rtprio',
  'Max realtime timeout': 'rttime',
};

/** Reads /proc/PID/limits. Pure. */
export function parseRlimits(text: string): ProcessInForce['rlimits'] {
  return text.split('\n').flatMap((line) => {
    const found = /^(Max [a-z ]+?) {2,}(\S+) +(\S+)/.exec(line);
    const name = RLIMITS[found?.[1] ?? ''];
    const value = (word: string | undefined): number | null => (word === 'unlimited' ? null : Number(word));
    return name === undefined ? [] : [{ name, soft: value(found?.[2]), hard: value(found?.[3]) }];
  });
}

/** Counts /proc/PID/mountinfo. Pure. */
export function countMounts(text: string): { readonly total: number; readonly readOnly: number } {
  const options = text.split('\n').flatMap((line) => line.split(' ')[5] ?? []);
  return {
    total: options.length,
    readOnly: options.filter((option) => option.split(',').includes('ro')).length,
  };
}

/** Most workloads have the same as the one before, to the letter: then it is not read again, nor kept twice. */
function unlessSame<T>(read: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly made: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, made: read(text) };
    return last.made;
  };
}

const rlimitsOf = unlessSame(parseRlimits);
const mountsOf = unlessSame(countMounts);
