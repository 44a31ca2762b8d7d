/** Checks: what answers come to, what follows from it for an alloc, and how the real ones are asked. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import {
  cutOutput,
  isGoodEnough,
  MOST_OUTPUT_BYTES,
  newCheckState,
  nextCheckState,
  type CheckResult,
  type CheckState,
} from '../../../src/allocrunner/checks/check-state.js';
import { askProbe, type ProbeAnswer, type ProbeRequest } from '../../../src/allocrunner/checks/probe.js';
import type { CheckProbe, ServiceCheck } from '../../../src/jobspec/types.js';
import { Scene, type SceneOptions } from '../../helpers/scene.js';
import { aPolicy, aTask } from '../../helpers/specs.js';

const TCP: CheckProbe = { kind: 'tcp', address: '127.0.0.1', port: '1' };

function aCheck(over: Partial<ServiceCheck> = {}): ServiceCheck {
  return {
    name: 'up',
    probe: TCP,
    intervalMs: 10_000,
    timeoutMs: 1_000,
    task: undefined,
    initialStatus: undefined,
    successBeforePassing: 0,
    failuresBeforeCritical: 0,
    onUpdate: 'require_healthy',
    restart: undefined,
    ...over,
  };
}

type Word = CheckResult['status'];
const answer = (status: Word): ProbeAnswer => ({ status, statusCode: 0, output: `said ${status}` });

/** Answers 10 s apart, from 10 s after the start on. */
function answered(check: ServiceCheck, words: readonly Word[]): { state: CheckState; restarts: number[] } {
  let state = newCheckState(check, 0);
  const restarts: number[] = [];
  for (const [index, word] of words.entries()) {
    const step = nextCheckState(check, state, { ...answer(word), atMs: 0 }, (index + 1) * 10_000);
    state = step.state;
    if (step.wantsRestart) restarts.push(index + 1);
  }
  return { state, restarts };
}

describe('nextCheckState', () => {
  const cases: readonly [string, Partial<ServiceCheck>, readonly Word[], CheckState['status']][] = [
    ['nothing is known before the first answer', {}, [], 'pending'],
    ['unless the file says so', { initialStatus: 'critical' }, [], 'failure'],
    ['one answer is enough', {}, ['success'], 'success'],
    ['one failure is enough', {}, ['success', 'failure'], 'failure'],
    ['so many successes', { successBeforePassing: 3 }, ['success', 'success'], 'pending'],
    ['so many successes in a row', { successBeforePassing: 2 }, ['success', 'failure', 'success'], 'failure'],
    ['so many failures in a row', { failuresBeforeCritical: 2 }, ['success', 'failure'], 'success'],
    ['then it fails', { failuresBeforeCritical: 2 }, ['success', 'failure', 'failure'], 'failure'],
    ['a warning is told apart', {}, ['warning'], 'warning'],
  ];
  for (const [name, over, words, status] of cases) {
    it(name, () => {
      assert.equal(answered(aCheck(over), words).state.status, status);
    });
  }

  const restart = { limit: 3, graceMs: 25_000, ignoreWarnings: false };

  it('asks for a restart once, after `limit` bad answers in a row beyond the grace', () => {
    const check = aCheck({ restart });
    assert.deepEqual(
      answered(
        check,
        Array.from({ length: 8 }, () => 'failure' as const),
      ).restarts,
      [5],
    );
    const broken = ['failure', 'failure', 'failure', 'failure', 'success', 'failure', 'failure'] as const;
    assert.deepEqual(answered(check, broken).restarts, []);
  });

  it('a warning counts, unless it is to be ignored', () => {
    const words = Array.from({ length: 5 }, () => 'warning' as const);
    assert.deepEqual(answered(aCheck({ restart }), words).restarts, [5]);
    assert.deepEqual(answered(aCheck({ restart: { ...restart, ignoreWarnings: true } }), words).restarts, []);
  });

  it('a restart is asked for exactly when `limit` bad statuses follow each other', () => {
    const words = fc.array(fc.constantFrom<Word>('success', 'failure', 'warning'), { maxLength: 30 });
    fc.assert(
      fc.property(words, fc.integer({ min: 1, max: 4 }), (list, limit) => {
        const check = aCheck({ restart: { limit, graceMs: 0, ignoreWarnings: false } });
        const { restarts, state } = answered(check, list);
        const first = list.findIndex((_, index) => {
          const row = list.slice(Math.max(0, index - limit + 1), index + 1);
          return row.length === limit && row.every((word) => word !== 'success');
        });
        assert.deepEqual(restarts, first === -1 ? [] : [first + 1]);
        assert.ok(state.results.length <= 10);
      }),
    );
  });

  it('what health asks of it', () => {
    assert.equal(isGoodEnough(aCheck(), 'warning'), false);
    assert.equal(isGoodEnough(aCheck({ onUpdate: 'ignore_warnings' }), 'warning'), true);
    assert.equal(isGoodEnough(aCheck({ onUpdate: 'ignore_warnings' }), 'pending'), false);
    assert.equal(isGoodEnough(aCheck({ onUpdate: 'ignore' }), 'failure'), true);
  });

  it('output is cut at a whole character', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 8 }), (shift) => {
        const cut = cutOutput('x'.repeat(shift) + 'ä€😀'.repeat(1_000));
        assert.ok(Buffer.byteLength(cut) <= MOST_OUTPUT_BYTES);
        assert.ok(!cut.includes('�'));
        assert.ok(Buffer.byteLength(cut) > MOST_OUTPUT_BYTES - 4);
      }),
    );
  });
});

/** A host whose checks are answered as `word` says now. */
class Asked {
  word: Word = 'success';
  readonly asked: ProbeRequest[] = [];
  readonly options: SceneOptions;

  constructor(check: ServiceCheck, over: SceneOptions = {}) {
    const services = [{ name: 'web', tags: [], checks: [check] }];
    this.options = {
      ...over,
      group: { services, ...over.group },
      probe: (request) => {
        this.asked.push(request);
        return Promise.resolve(answer(this.word));
      },
    };
  }
}

describe('checks of an alloc', () => {
  it('Tracker_NomadChecks_Healthy: healthy when tasks run and checks pass for min_healthy_time', async () => {
    const asked = new Asked(aCheck({ intervalMs: 1_000 }));
    asked.word = 'failure';
    const scene = await Scene.up([aTask()], asked.options);
    await scene.rig.pass(20_000);
    assert.equal(scene.alloc().health, undefined);
    asked.word = 'success';
    await scene.rig.pass(1_000);
    await scene.rig.pass(9_999);
    assert.equal(scene.alloc().health, undefined);
    await scene.rig.pass(1);
    assert.equal(scene.alloc().health?.healthy, true);
    assert.deepEqual(
      scene.told().filter((type) => type.startsWith('Check')),
      ['Check Failing', 'Check Passing'],
    );
  });

  it('Tracker_NomadChecks_Unhealthy: at the deadline, with the name of the check', async () => {
    const asked = new Asked(aCheck());
    asked.word = 'failure';
    const scene = await Scene.up([aTask()], asked.options);
    await scene.rig.pass(300_000);
    assert.match(scene.alloc().health?.detail ?? '', /^check "up" is not passing \(failure\)/);
    assert.ok(scene.told().includes('Alloc Unhealthy'));
  });

  it('check_restart: within the policy, which counts it, and beyond it the task has failed', async () => {
    const check = aCheck({ intervalMs: 1_000, restart: { limit: 2, graceMs: 0, ignoreWarnings: false } });
    const asked = new Asked(check);
    asked.word = 'failure';
    const restart = aPolicy({ attempts: 2, delayMs: 0 });
    const scene = await Scene.up([aTask({ restart })], asked.options);
    await scene.rig.pass(10_000);
    const cycle = ['Started', 'Check Failing', 'Restart Signaled', 'Killing', 'Terminated'];
    assert.deepEqual(scene.told(), [
      'Received',
      ...cycle,
      'Restarting',
      ...cycle,
      'Restarting',
      ...cycle,
      'Not Restarting',
    ]);
    const signaled = scene.rig.told.find(({ event }) => event.type === 'Restart Signaled');
    assert.deepEqual(signaled?.event, {
      type: 'Restart Signaled',
      reason: 'healthcheck: check "up" unhealthy',
    });
    assert.equal(scene.status, 'failed');
    scene.over();
  });

  it('a batch task that a check has ended is started again, also when it left with 0', async () => {
    const check = aCheck({ intervalMs: 1_000, restart: { limit: 1, graceMs: 0, ignoreWarnings: false } });
    const asked = new Asked(check);
    const scene = await Scene.up([aTask()], { ...asked.options, type: 'batch' });
    scene.rig.world.obeysAfterMs = 60_000;
    asked.word = 'failure';
    await scene.rig.pass(1_000);
    scene.rig.world.exit(scene.workload(), { kind: 'exited', code: 0, oomKilled: false });
    asked.word = 'success';
    await scene.rig.pass(2_000);
    assert.equal(scene.task().phase, 'running');
    assert.equal(scene.task().restartWindow?.used, 1);
  });

  it('is asked in its interval while the task runs, and not otherwise', async () => {
    const asked = new Asked(aCheck({ intervalMs: 10_000 }));
    const scene = await Scene.up([aTask({ restart: aPolicy({ delayMs: 60_000 }) })], asked.options);
    await scene.rig.pass(35_000);
    assert.equal(asked.asked.length, 4);
    scene.rig.world.exit(scene.workload(), { kind: 'exited', code: 1, oomKilled: false });
    await scene.rig.pass(50_000);
    assert.equal(asked.asked.length, 4);
    assert.equal(scene.runner().checks()[0]?.state.status, 'pending');
    await scene.rig.pass(10_000);
    assert.equal(asked.asked.length, 5);
    await scene.stop();
    await scene.rig.pass(60_000);
    assert.equal(asked.asked.length, 5);
    scene.over();
  });

  it('an agent that comes back asks anew, and does not say that it failed meanwhile', async () => {
    const asked = new Asked(aCheck());
    const scene = await Scene.up([aTask()], asked.options);
    await scene.rig.pass(5_000);
    scene.rig.kill();
    await scene.rig.start();
    await scene.rig.pass(9_999);
    assert.equal(scene.alloc().health, undefined, 'nobody saw it pass in between');
    await scene.rig.pass(1);
    assert.equal(scene.alloc().health?.healthy, true);
  });

  it('ports are put into the question', async () => {
    const probe: CheckProbe = { ...TCP, port: 'http' };
    const asked = new Asked(aCheck({ probe }), {
      group: { ports: [{ label: 'http', static: 8080 }] },
    });
    await Scene.up([aTask()], asked.options);
    assert.equal(asked.asked[0]?.port, 8080);
  });
});

describe('askProbe', () => {
  const ask = (probe: CheckProbe, port: number, timeoutMs = 2_000): Promise<ProbeAnswer> =>
    askProbe({
      probe,
      port,
      timeoutMs,
      signal: new AbortController().signal,
      exec: (command, args) =>
        command === 'fails'
          ? Promise.reject(new Error('cannot run it'))
          : Promise.resolve({ exitCode: Number(args[0]), output: 'x'.repeat(9_000) }),
    });
  const http: Extract<CheckProbe, { kind: 'http' }> = {
    kind: 'http',
    address: '127.0.0.1',
    port: 'http',
    protocol: 'http',
    path: '/200',
    method: 'GET',
    headers: { 'X-Test': ['a', 'b'] },
    body: '',
    skipVerify: false,
    serverName: undefined,
  };

  it('HTTP: the code decides, the answer is kept, and what never answers has failed', async () => {
    const server = createServer((request, response) => {
      const code = Number(request.url?.slice(1));
      if (code === 0) return;
      response.writeHead(code).end(`${request.method ?? ''} ${String(request.headers['x-test'])}`);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const path = (code: number): CheckProbe => ({ ...http, path: `/${code}` });
    try {
      assert.deepEqual(await ask(http, port), { status: 'success', statusCode: 200, output: 'GET a, b' });
      assert.equal((await ask(path(429), port)).status, 'warning');
      assert.equal((await ask(path(302), port)).status, 'failure');
      assert.equal((await ask(path(500), port)).statusCode, 500);
      const late = await ask(path(0), port, 50);
      assert.equal(late.status, 'failure');
      assert.match(late.output, /no answer .* within 50 ms/);
      assert.equal((await ask({ kind: 'tcp', address: '127.0.0.1', port: 'x' }, port)).status, 'success');
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
    const refused = await ask(http, port);
    assert.equal(refused.status, 'failure');
    assert.match(refused.output, /ECONNREFUSED/);
    assert.equal((await ask({ kind: 'tcp', address: '127.0.0.1', port: 'x' }, port)).status, 'failure');
  });

  it('a command: 0 passes, 1 warns, all else fails; no more is kept than allowed', async () => {
    const script = (code: string, command = 'x'): CheckProbe => ({ kind: 'script', command, args: [code] });
    assert.equal((await ask(script('0'), 0)).status, 'success');
    assert.equal((await ask(script('0'), 0)).output.length, MOST_OUTPUT_BYTES);
    assert.equal((await ask(script('1'), 0)).status, 'warning');
    assert.equal((await ask(script('2'), 0)).status, 'failure');
    assert.deepEqual(await ask(script('0', 'fails'), 0), {
      status: 'failure',
      statusCode: 0,
      output: 'cannot run it',
    });
  });
});
