/** One alloc on a scripted host, from the test's point of view: who lives, what was told, how it ended. */
import assert from 'node:assert/strict';
import type { Job, JobType, Task, TaskGroup } from '../../src/jobspec/types.js';
import type { AllocRecord, TaskRecord } from '../../src/state/store.js';
import { Rig, type RigOptions } from './rig.js';
import type { Workload } from './scripted-driver.js';
import { aGroup, aJob } from './specs.js';

export interface SceneOptions extends RigOptions {
  readonly type?: JobType;
  readonly group?: Partial<TaskGroup>;
}

/** A host with one job of one alloc that has come up. */
export class Scene {
  readonly rig: Rig;
  readonly job: Job;

  static async up(tasks: readonly Task[], options: SceneOptions = {}): Promise<Scene> {
    const scene = new Scene(tasks, options);
    await scene.rig.agent.scheduler.register(scene.job);
    await scene.rig.pass(0);
    return scene;
  }

  constructor(tasks: readonly Task[], options: SceneOptions = {}) {
    this.rig = new Rig(options);
    this.job = aJob({ type: options.type ?? 'service', groups: [aGroup({ tasks, ...options.group })] });
  }

  get allocId(): string {
    return this.rig.disk.records.listAllocs().at(-1)?.record.id ?? 'none';
  }

  get status(): string | undefined {
    return this.rig.disk.records.getAlloc(this.allocId)?.record.clientStatus;
  }

  alloc(): AllocRecord {
    const record = this.rig.disk.records.getAlloc(this.allocId)?.record;
    assert.ok(record, 'there is an alloc');
    return record;
  }

  task(name = 'main'): TaskRecord {
    return this.rig.task(this.allocId, name);
  }

  told(name = 'main'): readonly string[] {
    return this.rig.toldOf(this.allocId, name);
  }

  workload(name = 'main'): Workload {
    const run = this.rig.world.live().find((one) => one.task === name);
    assert.ok(run, `${name} lives`);
    return run;
  }

  async stop(noShutdownDelay = false): Promise<void> {
    await this.rig.agent.scheduler.stop(this.job.id, { purge: false, noShutdownDelay });
    await this.rig.pass(0);
  }

  runner(): NonNullable<ReturnType<Rig['agent']['allocs']['get']>> {
    const runner = this.rig.agent.allocs.get(this.allocId);
    assert.ok(runner, 'the alloc is live');
    return runner;
  }

  /** Nothing lives, nothing is left, nothing happened that must not. */
  over(): void {
    assert.deepEqual(this.rig.world.violations, []);
    assert.deepEqual(this.rig.world.live(), []);
    assert.deepEqual(this.rig.world.remains(), []);
    assert.deepEqual(this.rig.world.prepared(), []);
    assert.equal(this.rig.agent.allocs.liveCount(), 0);
    for (const { phase } of this.rig.disk.records.listTasks(this.allocId)) assert.equal(phase, 'complete');
  }
}
