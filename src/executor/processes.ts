/**
 * Owns looking through /proc for the processes that belong to one run, where no cgroup or status names them. A
 * process is told by what it carries: HOLDFAST_RUN_ID in its environment, or the run id in an executor's command.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { isExhausted } from '../base/errors.js';
import { isAlive, readProcessStat, type ProcessRef } from '../base/host.js';

/** Set in the environment of every workload, so that its processes can be told even when they left their parent. */
export const RUN_ID_VARIABLE = 'HOLDFAST_RUN_ID';

/** A process with the link to its parent. */
export interface ProcessEntry extends ProcessRef {
  readonly ppid: number;
}

/** What was found of one run. */
export interface RunProcesses {
  /** Executors that start, run, or take over this run, also before they have written a status. */
  readonly executors: readonly ProcessRef[];
  /** Processes of the workload. */
  readonly workload: readonly ProcessRef[];
}

/** Looks at every process once. Costs two file reads for each: not for a hot path. */
export function findProcessesOfRun(runId: string, executorPath: string): RunProcesses {
  const executors: ProcessRef[] = [];
  const workload: ProcessRef[] = [];
  const marker = `${RUN_ID_VARIABLE}=${runId}\0`;
  const program = basename(executorPath);
  for (const pid of listPids()) {
    if (pid === process.pid) continue;
    const command = readProc(pid, 'cmdline');
    const isExecutor = command.includes(runId) && command.includes(program);
    const isWorkload = !isExecutor && hasVariable(readProc(pid, 'environ'), marker);
    if (!isExecutor && !isWorkload) continue;
    const stat = readProcessStat(pid);
    if (stat === undefined || stat.state === 'Z' || stat.state === 'X') continue;
    (isExecutor ? executors : workload).push({ pid, startTicks: stat.startTicks });
  }
  return { executors, workload };
}

/** A process that carries the mark of a run. */
export interface MarkedProcess extends ProcessRef {
  readonly runId: string;
}

/** Everything on this host that carries a mark of ours, whichever data directory it belongs to. */
export interface MarkedProcesses {
  readonly workload: readonly MarkedProcess[];
  /** Runs that have a living executor. */
  readonly executorOf: ReadonlySet<string>;
}

/** Looks at every process once. @param executorPath how executors are called in the process list */
export function findMarkedProcesses(executorPath: string): MarkedProcesses {
  const workload: MarkedProcess[] = [];
  const executorOf = new Set<string>();
  const program = basename(executorPath);
  for (const pid of listPids()) {
    if (pid === process.pid) continue;
    const stat = readProcessStat(pid);
    if (stat === undefined || stat.state === 'Z' || stat.state === 'X') continue;
    const command = readProc(pid, 'cmdline');
    if (command.includes(program)) {
      for (const [runId] of command.matchAll(RUN_ID)) executorOf.add(runId);
      continue;
    }
    const runId = markOf(readProc(pid, 'environ'));
    if (runId !== undefined) workload.push({ pid, startTicks: stat.startTicks, runId });
  }
  return { workload, executorOf };
}

/** True when exactly this process is alive and still carries its mark. */
export function isStillMarked(marked: MarkedProcess): boolean {
  return markOf(readProc(marked.pid, 'environ')) === marked.runId && isAlive(marked);
}

const RUN_ID = /\b[0-9a-f]{32}\b/g;
const MARK = new RegExp(`(?:^|\\0)${RUN_ID_VARIABLE}=([0-9a-f]{32})(?:\\0|$)`);

function markOf(environ: string): string | undefined {
  return MARK.exec(environ)?.[1];
}

/** All live processes, zombies left out. */
export function listProcesses(): readonly ProcessEntry[] {
  return listPids().flatMap((pid) => {
    const stat = readProcessStat(pid);
    if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return [];
    return [{ pid, startTicks: stat.startTicks, ppid: stat.ppid }];
  });
}

function listPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Empty when the process is gone or is not ours to look at. */
function readProc(pid: number, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch (error) {
    if (isExhausted(error)) throw error;
    return '';
  }
}

function hasVariable(environ: string, marker: string): boolean {
  return environ.startsWith(marker) || environ.includes(`\0${marker}`);
}
