/** What a task finds in its environment, and what `${…}` stands for. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import {
  buildTaskEnv,
  INHERITED_VARIABLES,
  interpolateDeep,
  type TaskEnvInput,
} from '../../../src/taskrunner/task-env.js';
import { aGroup, aJob, aTask } from '../../helpers/specs.js';

function input(over: Partial<TaskEnvInput> = {}): TaskEnvInput {
  return {
    job: aJob({ id: 'web', meta: { owner: 'job', 'log-level': 'info' } }),
    group: aGroup({ name: 'front', meta: { owner: 'group' } }),
    task: aTask({ name: 'server', meta: { owner: 'task' } }),
    allocId: 'a1b2c3d4-0000-4000-8000-000000000000',
    allocIndex: 2,
    paths: { allocDir: '/d/alloc', localDir: '/d/server/local', secretsDir: '/d/server/secrets' },
    agentEnv: { PATH: '/agent/bin', HOME: '/root', AWS_SECRET_ACCESS_KEY: 'hush', HOLDFAST_TOKEN: 'hush' },
    node: { 'attr.kernel.name': 'linux', 'meta.rack': 'r1', 'node.datacenter': 'dc1' },
    hookEnv: [],
    cgroup: undefined,
    ...over,
  };
}
const withEnv = (
  env: Record<string, string>,
  over: Partial<TaskEnvInput> = {},
): Readonly<Record<string, string>> => buildTaskEnv(input({ task: aTask({ env }), ...over })).env;

describe('task environment', () => {
  it('gives Nomad’s variables', () => {
    const { env } = buildTaskEnv(
      input({
        cgroup: '/holdfast.slice/x',
        task: aTask({ name: 'server', resources: { ...aTask().resources, memoryMaxMib: 128 } }),
      }),
    );
    const expected = {
      NOMAD_ALLOC_DIR: '/d/alloc',
      NOMAD_TASK_DIR: '/d/server/local',
      NOMAD_SECRETS_DIR: '/d/server/secrets',
      NOMAD_ALLOC_ID: 'a1b2c3d4-0000-4000-8000-000000000000',
      NOMAD_SHORT_ALLOC_ID: 'a1b2c3d4',
      NOMAD_ALLOC_NAME: 'web.front[2]',
      NOMAD_ALLOC_INDEX: '2',
      NOMAD_TASK_NAME: 'server',
      NOMAD_GROUP_NAME: 'front',
      NOMAD_JOB_ID: 'web',
      NOMAD_JOB_NAME: 'job',
      NOMAD_NAMESPACE: 'default',
      NOMAD_REGION: 'global',
      NOMAD_DC: 'dc1',
      NOMAD_CPU_LIMIT: '100',
      NOMAD_MEMORY_LIMIT: '64',
      NOMAD_MEMORY_MAX_LIMIT: '128',
      NOMAD_PARENT_CGROUP: '/holdfast.slice/x',
    };
    for (const [name, value] of Object.entries(expected)) assert.equal(env[name], value, name);
  });

  it('takes nothing of the agent but the allow-list', () => {
    const agentEnv = Object.fromEntries(
      [...INHERITED_VARIABLES, 'LD_PRELOAD', 'NODE_OPTIONS', 'HOLDFAST_TOKEN', 'NOMAD_ALLOC_ID'].map(
        (name) => [name, `agent ${name}`],
      ),
    );
    const { env } = buildTaskEnv(input({ agentEnv }));
    const fromAgent = Object.keys(env).filter((name) => env[name]?.startsWith('agent '));
    assert.deepEqual(fromAgent.sort(), [...INHERITED_VARIABLES].sort());
  });

  it('has a PATH even when the agent has none', () => {
    assert.match(buildTaskEnv(input({ agentEnv: {} })).env['PATH'] ?? '', /\/usr\/bin/);
  });

  it('lets hooks win over the job file, it over NOMAD_*, all over what is inherited', () => {
    const agentEnv = { HOME: 'agent', LANG: 'agent', TZ: 'agent' };
    const hookEnv = [
      { HOME: 'hook 1', LANG: 'hook 1', NOMAD_DC: 'hook 1' },
      { HOME: 'hook 2', NOMAD_DC: 'hook 2' },
    ];
    const env = withEnv({ NOMAD_DC: 'file', NOMAD_REGION: 'file' }, { agentEnv, hookEnv });
    assert.deepEqual(
      [env['TZ'], env['LANG'], env['HOME'], env['NOMAD_DC'], env['NOMAD_REGION']],
      ['agent', 'hook 1', 'hook 2', 'hook 2', 'file'],
    );
  });

  it('gives meta under its name and in capitals, the nearest level winning', () => {
    const { env } = buildTaskEnv(input());
    assert.equal(env['NOMAD_META_owner'], 'task');
    assert.equal(env['NOMAD_META_OWNER'], 'task');
    assert.equal(env['NOMAD_META_log_level'], 'info');
    assert.equal(env['NOMAD_META_LOG_LEVEL'], 'info');
  });

  const cases: readonly (readonly [string, string, string])[] = [
    ['a NOMAD variable', '${NOMAD_TASK_NAME}', 'main'],
    ['spaces within', '${ NOMAD_DC }', 'dc1'],
    ['an attribute', 'on ${attr.kernel.name}!', 'on linux!'],
    ['node meta and facts', '${meta.rack}/${node.datacenter}', 'r1/dc1'],
    ['env of the inherited kind', '${env["HOME"]}', '/root'],
    ['env that is not set', '<${env["NOPE"]}>', '<>'],
    ['what is unknown', '${attr.nope} ${HOME} ${x}', '${attr.nope} ${HOME} ${x}'],
    ['what every object has', '${constructor} ${NOMAD_} ${toString}', '${constructor} ${NOMAD_} ${toString}'],
    ['env that every object has', '<${env["constructor"]}>', '<>'],
    ['an escaped one', '$${NOMAD_DC} ${NOMAD_DC}', '${NOMAD_DC} dc1'],
    ['shell syntax', '$HOME $(id) ${', '$HOME $(id) ${'],
  ];
  for (const [name, text, expected] of cases) {
    it(`resolves ${name}: ${text}`, () => {
      assert.equal(withEnv({ X: text })['X'], expected);
    });
  }

  it('keeps what it put in as it is: values are not resolved a second time', () => {
    const node = { 'meta.evil': '${attr.kernel.name} $& $1 $${x}', 'attr.kernel.name': 'linux' };
    assert.equal(withEnv({ X: '${meta.evil}' }, { node })['X'], '${attr.kernel.name} $& $1 $${x}');
  });

  it('lets config name what the job file’s env sets, but env values not each other', () => {
    const { env, interpolate } = buildTaskEnv(input({ task: aTask({ env: { A: 'a', B: '${env["A"]}' } }) }));
    assert.equal(env['B'], '');
    assert.equal(interpolate('${env["A"]}'), 'a');
  });

  it('resolves strings at any depth and nothing else', () => {
    const { interpolate } = buildTaskEnv(input());
    const value = { args: ['${NOMAD_DC}', 1, true, null], deep: { '${NOMAD_DC}': ['${NOMAD_DC}'] } };
    assert.deepEqual(interpolateDeep(value, interpolate), {
      args: ['dc1', 1, true, null],
      deep: { '${NOMAD_DC}': ['dc1'] },
    });
  });

  it('leaves any text without ${ as it is', () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes('${')),
        (text) => {
          assert.equal(withEnv({ X: text })['X'], text);
        },
      ),
    );
  });
});
