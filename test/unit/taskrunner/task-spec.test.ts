import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Task } from '../../../src/jobspec/types.js';
import { TaskSpec } from '../../../src/taskrunner/task-spec.js';
import { taskRecord } from '../../helpers/records.js';
import { aGroup, aJob, aTask } from '../../helpers/specs.js';

const DIRS = {
  allocDir: '/a/alloc',
  taskDir: '/a/t',
  localDir: '/a/t/l',
  secretsDir: '/a/t/s',
  logDir: '/a/l',
};
const INSIDE = { allocDir: '/alloc', localDir: '/local', secretsDir: '/secrets' };

/** A spec, with what it asks for in places where a test can change it. */
class SpecWorld {
  hookEnv: readonly Readonly<Record<string, string>>[] = [];
  ports: Readonly<Record<string, number>> = {};
  readonly spec: TaskSpec;

  constructor(task: Task) {
    this.spec = new TaskSpec(
      {
        driver: { taskPaths: INSIDE },
        agentEnv: {},
        nodeFacts: { 'attr.cpu.arch': 'amd64' },
        ports: () => this.ports,
      },
      { env: () => this.hookEnv, mounts: () => [] },
      {
        job: aJob(),
        group: aGroup(),
        task,
        allocId: 'alloc-id',
        allocIndex: 0,
        dirs: DIRS,
        record: taskRecord(),
      },
    );
  }

  /** What a run is given of it. */
  given(): readonly [string | undefined, unknown] {
    const { env, config } = this.spec.forRun('run');
    return [env['X'], config['command']];
  }
}

describe('what a run gets of its task', () => {
  const task = aTask({
    env: { X: 'from ${env["Y"]} ${NOMAD_PORT_web}' },
    config: { command: '${env["X"]}' },
  });

  it('is made once, however often it is asked for', () => {
    const { spec } = new SpecWorld(task);
    assert.equal(spec.env(), spec.env());
    assert.equal(spec.config(), spec.config());
    assert.equal(spec.forRun('a').config, spec.forRun('b').config);
  });

  it('is made anew when hooks give something else, ports are others, or the task is changed', () => {
    const world = new SpecWorld(task);
    assert.deepEqual(world.given(), ['from  ${NOMAD_PORT_web}', 'from  ${NOMAD_PORT_web}']);
    world.hookEnv = [{ Y: 'hook' }];
    assert.deepEqual(world.given(), ['from hook ${NOMAD_PORT_web}', 'from hook ${NOMAD_PORT_web}']);
    world.hookEnv = [{ Y: 'another' }];
    assert.deepEqual(world.given(), ['from another ${NOMAD_PORT_web}', 'from another ${NOMAD_PORT_web}']);
    world.ports = { web: 8080 };
    assert.deepEqual(world.given(), ['from another 8080', 'from another 8080']);
    world.hookEnv = [];
    assert.deepEqual(world.given(), ['from  8080', 'from  8080']);
    world.spec.update(aJob(), aGroup(), aTask({ env: { X: 'new' }, config: { command: '${env["X"]}' } }));
    assert.deepEqual(world.given(), ['new', 'new']);
  });

  it('names the paths that the task sees, and to who asks for them those of the host', () => {
    const { spec } = new SpecWorld(task);
    const paths = () => [spec.env(), spec.env(DIRS), spec.env()].map(({ env }) => env['NOMAD_TASK_DIR']);
    assert.deepEqual(paths(), ['/local', '/a/t/l', '/local']);
  });
});
