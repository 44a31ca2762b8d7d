/**
 * Owns what a spec says of a task's isolation and of the attributes of its process, and the fields it is written in;
 * native/README.md is the contract. Decides nothing: which task gets what is the driver's.
 */
import { intField, readInt, stringField, type Field } from './tlv.js';

/** Namespaces a task can have of its own, with their bits in the spec. `mount` is its root as well. */
export const NAMESPACE_BITS = { mount: 1, pid: 2, ipc: 4, uts: 8, cgroup: 16, net: 32, user: 64 } as const;
export type NamespaceName = keyof typeof NAMESPACE_BITS;

const PRIVILEGE_BITS = { caps: 1, noNewPrivs: 2, seccomp: 4 } as const;

/** `optional`: left out without a source · `link`: a link stays a link · `own`: given to the task's user. */
export type MountOption = 'ro' | 'optional' | 'link' | 'own';

/** Something of the host, bound into the task's root. */
export interface SpecMount {
  readonly source: string;
  /** Absolute, in the task's root. */
  readonly target: string;
  readonly options: readonly MountOption[];
}

export interface SpecIsolation {
  readonly namespaces: readonly NamespaceName[];
  /** In this order; later ones may lie on earlier ones. */
  readonly mounts: readonly SpecMount[];
  /** Directories, in the task's root, where a program without a slash is looked for. */
  readonly search: readonly string[];
  /** Undefined = capabilities are not touched. */
  readonly capabilities: SpecCapabilities | undefined;
  readonly noNewPrivs: boolean;
  readonly seccomp: boolean;
}

/** Sets of capabilities, as numbers whose bits they are: the highest one is far below what a number holds exactly. */
export interface SpecCapabilities {
  /** Nothing beyond it can ever be had; root has all of it. */
  readonly bounding: number;
  /** What anybody but root has. */
  readonly ambient: number;
}

/** One limit of setrlimit(2); -1 = unlimited. */
export interface SpecRlimit {
  readonly name: string;
  readonly soft: number;
  readonly hard: number;
}

/** What a process would inherit from the agent, and does not. */
export interface SpecAttributes {
  readonly rlimits: readonly SpecRlimit[];
  readonly umask: number;
  /** Undefined = 0, as far as it can be had. */
  readonly nice: number | undefined;
}

export const DEFAULT_UMASK = 0o022;

const TAG = {
  isolate: 40,
  mountSource: 41,
  mountTarget: 42,
  mountOptions: 43,
  search: 44,
  privileges: 45,
  capsBounding: 46,
  capsAmbient: 47,
  rlimit: 48,
  umask: 49,
  nice: 50,
} as const;

/** The fields of both; each may be absent. Strings are checked for NUL by the caller's `text`. */
export function isolationFields(
  isolation: SpecIsolation | undefined,
  attributes: SpecAttributes | undefined,
  text: (value: string, tag: number) => Field = (value, tag) => stringField(tag, value),
): Field[] {
  const fields: Field[] = [];
  if (isolation !== undefined) {
    const { namespaces, mounts, capabilities, noNewPrivs, seccomp } = isolation;
    const bits = namespaces.reduce((sum, name) => sum + NAMESPACE_BITS[name], 0);
    fields.push(intField(TAG.isolate, bits));
    for (const { source, target, options } of mounts) {
      fields.push(
        text(source, TAG.mountSource),
        text(target, TAG.mountTarget),
        text(options.join(','), TAG.mountOptions),
      );
    }
    for (const dir of isolation.search) fields.push(text(dir, TAG.search));
    const privileges =
      (capabilities === undefined ? 0 : PRIVILEGE_BITS.caps) +
      (noNewPrivs ? PRIVILEGE_BITS.noNewPrivs : 0) +
      (seccomp ? PRIVILEGE_BITS.seccomp : 0);
    fields.push(intField(TAG.privileges, privileges));
    if (capabilities !== undefined) {
      fields.push(
        intField(TAG.capsBounding, capabilities.bounding),
        intField(TAG.capsAmbient, capabilities.ambient),
      );
    }
  }
  if (attributes !== undefined) {
    for (const { name, soft, hard } of attributes.rlimits)
      fields.push(text(`${name} ${soft} ${hard}`, TAG.rlimit));
    fields.push(intField(TAG.umask, attributes.umask));
    if (attributes.nice !== undefined) fields.push(intField(TAG.nice, attributes.nice));
  }
  return fields;
}

/** What the fields of a spec say of isolation; undefined for a spec that asks for none, as those of older agents. */
export function readIsolation(fields: readonly Field[]): SpecIsolation | undefined {
  if (!has(fields, TAG.isolate)) return undefined;
  const bits = readInt(fields, TAG.isolate);
  const privileges = readInt(fields, TAG.privileges);
  const [sources, targets, options] = [TAG.mountSource, TAG.mountTarget, TAG.mountOptions].map((tag) =>
    texts(fields, tag),
  );
  return {
    namespaces: Object.entries(NAMESPACE_BITS).flatMap(([name, bit]) =>
      (bits & bit) === 0 ? [] : [name as NamespaceName],
    ),
    mounts: (sources ?? []).map((source, at) => ({
      source,
      target: targets?.[at] ?? '',
      options: (options?.[at] ?? '').split(',').filter(isMountOption),
    })),
    search: texts(fields, TAG.search),
    capabilities:
      (privileges & PRIVILEGE_BITS.caps) === 0
        ? undefined
        : { bounding: readInt(fields, TAG.capsBounding), ambient: readInt(fields, TAG.capsAmbient) },
    noNewPrivs: (privileges & PRIVILEGE_BITS.noNewPrivs) !== 0,
    seccomp: (privileges & PRIVILEGE_BITS.seccomp) !== 0,
  };
}

/** Undefined for a spec without them. */
export function readAttributes(fields: readonly Field[]): SpecAttributes | undefined {
  if (!has(fields, TAG.umask)) return undefined;
  return {
    rlimits: texts(fields, TAG.rlimit).map((line) => {
      const [name = '', soft, hard] = line.split(' ');
      return { name, soft: Number(soft), hard: Number(hard) };
    }),
    umask: readInt(fields, TAG.umask),
    nice: has(fields, TAG.nice) ? readInt(fields, TAG.nice) : undefined,
  };
}

function has(fields: readonly Field[], tag: number): boolean {
  return fields.some((field) => field.tag === tag);
}

function texts(fields: readonly Field[], tag: number): string[] {
  return fields.filter((field) => field.tag === tag).map((field) => field.value.toString('utf8'));
}

function isMountOption(text: string): text is MountOption {
  return text === 'ro' || text === 'optional' || text === 'link' || text === 'own';
}
