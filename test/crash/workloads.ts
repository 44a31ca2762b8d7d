/**
 * Owns the workloads that prove what became of them: each holds a lock that a second copy cannot get, writes down that
 * it starts, numbers its lines, and writes down the exit code that it is about to choose.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export type Kind =
  /** Ends by itself, again and again. */
  | 'short'
  /** As short, with so much output that its files are rotated. */
  | 'chatty'
  /** Runs until it is stopped, and then chooses its exit code. */
  | 'graceful'
  /** Runs until it is killed. */
  | 'stubborn'
  /** Fails until its restart policy gives up. Nobody disturbs it. */
  | 'budget';

export interface Workload {
  readonly id: string;
  readonly kind: Kind;
  readonly code: number;
  readonly lines: number;
}

/** What a task wrote down itself, by run id. */
export interface Evidence {
  readonly starts: ReadonlyMap<string, number>;
  readonly exits: ReadonlyMap<string, number>;
  /** Runs that found another copy alive. */
  readonly copies: readonly string[];
}

/** Restarts that a `budget` job may have. */
export const BUDGET = 3;
const PAD_BYTES = 8_000;
const SCRIPT = `
d=$0
exec 9>>"$d/lock"
flock -n 9 || echo "$HOLDFAST_RUN_ID" >>"$d/copies"
echo "$HOLDFAST_RUN_ID" >>"$d/starts"
pad=; [ "$3" = 0 ] || pad=$(printf "%0$3d" 0)
case $4 in
graceful) trap 'echo "$HOLDFAST_RUN_ID 7" >>"$d/exits"; exit 7' INT TERM ;;
stubborn) trap '' INT TERM ;;
esac
i=0
while [ "$i" -lt "$1" ]; do i=$((i+1)); echo "$HOLDFAST_RUN_ID $i $pad"; sleep 0.03; done
trap '' INT TERM
echo "$HOLDFAST_RUN_ID $2" >>"$d/exits"
exit "$2"
`;

/** A mixture of all kinds. */
export function workloads(count: number, prefix: string): readonly Workload[] {
  const kinds: readonly Kind[] = ['short', 'graceful', 'budget', 'chatty', 'short', 'stubborn'];
  return Array.from({ length: count }, (_, n): Workload => {
    const kind = kinds[n % kinds.length] ?? 'short';
    const endless = kind === 'graceful' || kind === 'stubborn';
    return {
      id: `${prefix}${n}-${kind}`,
      kind,
      code: kind === 'budget' ? 1 : n % 5,
      lines: endless ? 1e9 : 2 + 3 * n,
    };
  });
}

/** @param change.generation another one needs a new run @param change.priority another one does not */
export function jobOf(
  workload: Workload,
  home: string,
  change: { readonly generation: number; readonly priority: number },
): object {
  const { id, kind, code, lines } = workload;
  const dir = join(home, id);
  mkdirSync(dir, { recursive: true, mode: 0o777 });
  const pad = kind === 'chatty' ? PAD_BYTES : 0;
  const restart =
    kind === 'budget'
      ? { Attempts: BUDGET, Interval: 3600e9, Delay: 50e6, Mode: 'fail', Jitter: 0 }
      : { Attempts: 1e6, Interval: 3600e9, Delay: 0, Mode: 'delay', Jitter: 0 };
  return {
    ID: id,
    Type: kind === 'budget' ? 'batch' : 'service',
    Priority: change.priority,
    TaskGroups: [
      {
        Name: 'g',
        Count: 1,
        Tasks: [
          {
            Name: 't',
            Driver: 'raw_exec',
            Config: {
              command: '/bin/sh',
              args: ['-c', SCRIPT, dir, String(lines), String(code), String(pad), kind],
            },
            Env: { GENERATION: String(change.generation) },
            RestartPolicy: restart,
            KillTimeout: 300e6,
            LogConfig: { MaxFiles: 5, MaxFileSizeMB: 1 },
            Resources: { CPU: 20, MemoryMB: 32 },
          },
        ],
      },
    ],
  };
}

export function readEvidence(home: string, id: string): Evidence {
  const lines = (name: string): readonly string[] => {
    const path = join(home, id, name);
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
  };
  const starts = new Map<string, number>();
  for (const runId of lines('starts')) starts.set(runId, (starts.get(runId) ?? 0) + 1);
  const exits = new Map(
    lines('exits').map((line): [string, number] => {
      const [runId = '', code] = line.split(' ');
      return [runId, Number(code)];
    }),
  );
  return { starts, exits, copies: lines('copies') };
}
