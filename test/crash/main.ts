/**
 * Owns the command line of the crash tester. Ends with 0 when no promise was broken.
 *   npm run test:crash -- [--seed N] [--kills N] [--minutes N] [--part NAME]... [--keep]
 * Parts: random, failpoints, agent-calls, executor-calls; all of them when none is named.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { audit } from './audit.js';
import { Chance } from './chance.js';
import { chaosRound } from './chaos.js';
import { FAILPOINTS } from '../../src/base/failpoint.js';
import {
  atFailpoint,
  atSomeCall,
  DoomedExecutor,
  doomedAgentRound,
  doomedExecutorsRound,
  findStrace,
} from './syscalls.js';
import { workloads } from './workloads.js';
import { CrashWorld } from './world.js';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    kills: { type: 'string', default: '200' },
    minutes: { type: 'string', default: '20' },
    part: {
      type: 'string',
      multiple: true,
      default: ['random', 'failpoints', 'agent-calls', 'executor-calls'],
    },
    keep: { type: 'boolean', default: false },
  },
});

/** Kills between two audits: what one finds is then not far from its cause. */
const KILLS_AN_AUDIT = 60;
const JOBS = 12;
/** Executors are killed at the first to the last of so many calls of each kind. */
const EXECUTOR_CALLS_DEEP = 12;
/** The agent is killed at the 1st, 2nd, 5th, 10th … visit of a failpoint: so many of these. */
const FAILPOINTS_DEEP = 6;

const seed = Number(values.seed);
const kills = Number(values.kills);
const chance = new Chance(seed);
const total = { agentKills: 0, executorKills: 0, operations: 0, runs: 0, feedConnections: 0, faults: 0 };
say(`seed ${seed}`);
if (values.part.includes('random')) await randomPart();
if (values.part.includes('failpoints')) await failpointsPart();
const strace = findStrace();
if ('missing' in strace) say(`no killing at system calls: ${strace.missing}`);
else {
  if (values.part.includes('agent-calls')) await agentCallsPart(strace.path);
  if (values.part.includes('executor-calls')) await executorCallsPart(strace.path);
}
say(total.faults === 0 ? 'every promise was kept' : `${total.faults} promises were broken`);
process.exitCode = total.faults === 0 ? 0 : 1;

async function randomPart(): Promise<void> {
  const isLate = deadline();
  const begin = total.agentKills;
  while (total.agentKills - begin < kills && !isLate()) {
    const target = Math.min(KILLS_AN_AUDIT, kills - total.agentKills + begin);
    await attack('random', {}, async (world) => {
      while (world.agentKills < target && !isLate()) await chaosRound(world, chance);
    });
  }
}

/** Each failpoint in turn, at its first, second … visit. */
async function failpointsPart(): Promise<void> {
  const isLate = deadline();
  const plans = Array.from({ length: FAILPOINTS_DEEP }, (_, depth) =>
    FAILPOINTS.map((name) => ({ name, when: 1 + depth ** 2 })),
  ).flat();
  const missed = new Set<string>(FAILPOINTS);
  while (plans.length > 0 && !isLate()) {
    await attack('agent at failpoints', {}, async (world) => {
      for (const { name, when } of plans.splice(0, KILLS_AN_AUDIT / 2)) {
        if (await doomedAgentRound(world, chance, atFailpoint(name, when))) missed.delete(name);
      }
    });
  }
  if (missed.size > 0) say(`never reached: ${[...missed].join(', ')}`);
}

async function agentCallsPart(path: string): Promise<void> {
  const isLate = deadline();
  const begin = total.agentKills;
  while (total.agentKills - begin < kills && !isLate()) {
    await attack('agent at system calls', {}, async (world) => {
      while (world.agentKills < KILLS_AN_AUDIT && !isLate())
        await doomedAgentRound(world, chance, atSomeCall(chance, path));
    });
  }
}

async function executorCallsPart(path: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'hf-doomed-'));
  const doomed = new DoomedExecutor(dir, path);
  await attack('executors at system calls', { HOLDFAST_EXECUTOR: doomed.path }, async (world) => {
    doomed.plan(EXECUTOR_CALLS_DEEP);
    await doomedExecutorsRound(world, chance, doomed, deadline());
    doomed.pardon();
    world.executorKills = doomed.deaths();
  });
  if (!values.keep) rmSync(dir, { recursive: true });
}

/** A world of its own, what is done to it, and the audit. */
async function attack(
  what: string,
  env: Readonly<Record<string, string>>,
  blows: (world: CrashWorld) => Promise<void>,
): Promise<void> {
  const world = await CrashWorld.open([...workloads(JOBS / 2, 'j'), ...workloads(JOBS / 2, 'p')], env);
  let faults: readonly string[];
  try {
    for (const workload of world.workloads) await world.register(workload, 'none');
    await blows(world);
    faults = await audit(world);
  } catch (error) {
    faults = [String(error instanceof Error ? error.stack : error)];
  }
  total.agentKills += world.agentKills;
  total.executorKills += world.executorKills;
  total.operations += world.operations;
  total.runs += world.runs.size;
  total.feedConnections += world.feed.connections;
  total.faults += faults.length;
  say(`${what}: ${JSON.stringify(total)}`);
  for (const fault of faults) say(`  ✖ ${fault}`);
  if (faults.length > 0 && values.keep) {
    say(`kept: ${world.agent.dir}`);
    process.exit(1);
  }
  await world[Symbol.asyncDispose]();
}

function deadline(): () => boolean {
  const endMs = performance.now() + Number(values.minutes) * 60_000;
  return () => performance.now() > endMs;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
