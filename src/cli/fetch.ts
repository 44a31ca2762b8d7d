/** Owns the reads that several commands share. */
import type { AllocListStub, JobListStub, Node, NodeListStub } from '../api/wire.js';
import type { Cli } from './cli.js';
import { CliError, EXIT } from './exit.js';
import { resolveTarget, type Known, type Target } from './target.js';

interface KnownJobs extends Known {
  readonly jobs: readonly JobListStub[];
}

/** All jobs and allocs, allocs oldest first. @throws CliError */
export async function fetchKnown(cli: Cli): Promise<KnownJobs> {
  const [jobs, allocs] = await Promise.all([
    cli.client.get<readonly JobListStub[]>('/v1/jobs'),
    cli.client.get<readonly AllocListStub[]>('/v1/allocations'),
  ]);
  return { jobs, allocs: allocs.toSorted((a, b) => a.CreateIndex - b.CreateIndex) };
}

/** @throws CliError notFound, usage (ambiguous) */
export async function fetchTarget(cli: Cli, text: string): Promise<Target> {
  return resolveTarget(text, await fetchKnown(cli));
}

/** The host. @throws CliError */
export async function fetchNode(cli: Cli): Promise<Node> {
  const [stub] = await cli.client.get<readonly NodeListStub[]>('/v1/nodes');
  if (stub === undefined)
    throw new CliError(EXIT.failed, 'the daemon knows no node: is it a holdfast daemon?');
  return cli.client.get<Node>(`/v1/node/${stub.ID}`);
}

/** A path below `/v1/job/`. */
export function jobPath(jobId: string, rest = ''): string {
  return `/v1/job/${encodeURIComponent(jobId)}${rest}`;
}

/** Does `work` on every item, at most `most` at a time, and keeps the order. */
export async function mapBounded<T, R>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  return results;
}
