/** Owns the random part: operations and blows in an order that a seed decides. */
import type { Chance } from './chance.js';
import { pause, type CrashWorld } from './world.js';

/** What one round may do to a job. `budget` jobs are only ever registered. */
function operate(world: CrashWorld, chance: Chance): void {
  const workload = chance.oneOf(world.workloads);
  if (workload === undefined) return;
  if (workload.kind === 'budget') {
    void world.register(workload, 'none');
    return;
  }
  const roll = chance.next();
  if (roll < 0.25) void world.register(workload, 'none');
  else if (roll < 0.4) void world.register(workload, 'in_place');
  else if (roll < 0.6) void world.register(workload, 'replacing');
  else if (roll < 0.72) void world.stop(workload, false);
  else if (roll < 0.8) void world.stop(workload, workload.id.startsWith('p'));
  else if (roll < 0.95) void world.restart(workload);
  else void world.signal(workload);
}

/** Any moment: at once, within some ms, or when things are quiet. */
function moment(chance: Chance): number {
  const roll = chance.next();
  if (roll < 0.2) return 0;
  if (roll < 0.6) return chance.next() * 8;
  return chance.next() * (roll < 0.85 ? 60 : 350);
}

/** One blow and what leads to it. Afterwards an agent is there again. */
export async function chaosRound(world: CrashWorld, chance: Chance): Promise<void> {
  await world.look();
  for (let n = chance.below(4); n > 0; n--) {
    operate(world, chance);
    if (chance.happens(0.3)) await pause(chance.next() * 10);
  }
  if (chance.happens(0.3)) world.killExecutor((runs) => chance.oneOf(runs));
  await pause(moment(chance));
  if (chance.happens(0.3)) world.killExecutor((runs) => chance.oneOf(runs));
  if (chance.happens(0.1)) await world.agent.leave();
  else await world.killAgent();
  if (chance.happens(0.15)) world.killExecutor((runs) => chance.oneOf(runs));
  await pause(chance.happens(0.6) ? 0 : chance.next() * 200);
  world.agent.launch();
  // During its own start, again and again.
  while (chance.happens(0.5)) {
    await pause(50 + chance.next() * 700);
    await world.killAgent();
    world.agent.launch();
  }
  await world.agent.ready();
}
