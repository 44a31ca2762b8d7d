/** What a job's newest version means for its allocs: the table, and the rule that a place never holds two. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import type { Job, Task, TaskGroup } from '../../../src/jobspec/types.js';
import { place, type Placement } from '../../../src/scheduler/place.js';
import type { AllocRecord } from '../../../src/state/store.js';
import { allocRecord, jobRecord } from '../../helpers/records.js';
import { aGroup, aJob, aPolicy, aTask } from '../../helpers/specs.js';

const plain = aTask();
const spec = (count: number, over: { task?: Task; job?: Partial<Job> } = {}): Job =>
  aJob({ groups: [aGroup({ name: 'g', count, tasks: [over.task ?? plain] })], ...over.job });

interface Situation {
  readonly name: string;
  /** By version; the last is the newest. */
  readonly versions: readonly Job[];
  readonly stopped?: boolean;
  readonly allocs?: readonly (Partial<AllocRecord> & { readonly live?: boolean })[];
  readonly retryFailed?: boolean;
  /** `create 0`, `stop a`, `update a`. */
  readonly expected: readonly string[];
}

const live = { id: 'a', group: 'g', clientStatus: 'running', live: true } as const;
const over = { id: 'a', group: 'g', clientStatus: 'complete', live: false } as const;

const TABLE: readonly Situation[] = [
  { name: 'a new job', versions: [spec(2)], expected: ['create 0', 'create 1'] },
  { name: 'count 0', versions: [spec(0)], expected: [] },
  { name: 'nothing to do', versions: [spec(1)], allocs: [live], expected: [] },
  {
    name: 'count up: what runs is told of its version',
    versions: [spec(1), spec(3)],
    allocs: [live],
    expected: ['update a', 'create 1', 'create 2'],
  },
  {
    name: 'count down',
    versions: [spec(2), spec(1)],
    allocs: [live, { ...live, id: 'b', index: 1 }],
    expected: ['stop b', 'update a'],
  },
  {
    name: 'a new run is needed: the old one is stopped first',
    versions: [spec(1), spec(1, { task: aTask({ env: { X: '1' } }) })],
    allocs: [live],
    expected: ['stop a'],
  },
  {
    name: 'and its place is filled when it is over',
    versions: [spec(1), spec(1, { task: aTask({ env: { X: '1' } }) })],
    allocs: [{ ...over, desiredStatus: 'stop' }],
    expected: ['create 0'],
  },
  {
    name: 'the clock was set back: the newest alloc is the one that was made last',
    versions: [spec(1), spec(1, { task: aTask({ env: { X: '1' } }) })],
    allocs: [
      { ...over, desiredStatus: 'stop', createdAtMs: 2_000_000 },
      { ...over, id: 'b', jobVersion: 1, createdAtMs: 1_000_000 },
    ],
    expected: [],
  },
  {
    name: 'one that nobody supervises may run: no second one beside it, whatever is registered',
    versions: [spec(1), spec(1, { task: aTask({ env: { X: '1' } }) })],
    allocs: [{ ...live, live: false }],
    expected: [],
  },
  {
    name: 'an alloc that stops is waited for',
    versions: [spec(1)],
    allocs: [{ ...live, desiredStatus: 'stop' }],
    expected: [],
  },
  { name: 'job stopped', versions: [spec(1)], stopped: true, allocs: [live], expected: ['stop a'] },
  {
    name: 'group gone',
    versions: [spec(1), aJob({ groups: [aGroup({ name: 'h' })] })],
    allocs: [live],
    expected: ['stop a', 'create 0'],
  },
  { name: 'complete stays complete', versions: [spec(1)], allocs: [over], retryFailed: true, expected: [] },
  {
    name: 'complete of an older version runs again',
    versions: [spec(1), spec(1, { task: aTask({ env: { X: '1' } }) })],
    allocs: [over],
    expected: ['create 0'],
  },
  {
    name: 'stopped by request: its place is filled',
    versions: [spec(1)],
    allocs: [{ ...over, desiredStatus: 'stop' }],
    expected: ['create 0'],
  },
  {
    name: 'failed: whether it is rescheduled is asked',
    versions: [spec(1)],
    allocs: [{ ...over, clientStatus: 'failed' }],
    expected: ['consider a'],
  },
  {
    name: 'failed, and the user asks for the job again',
    versions: [spec(1)],
    allocs: [{ ...over, clientStatus: 'failed' }],
    retryFailed: true,
    expected: ['create 0'],
  },
  {
    name: 'lost is replaced',
    versions: [spec(1)],
    allocs: [{ ...over, clientStatus: 'lost' }],
    expected: ['create 0'],
  },
  {
    name: 'neither over nor live is left to the operator',
    versions: [spec(1)],
    allocs: [{ ...over, clientStatus: 'running' }],
    retryFailed: true,
    expected: [],
  },
  {
    name: 'only the newest alloc of a place counts',
    versions: [spec(1)],
    allocs: [
      { ...over, id: 'b', clientStatus: 'failed', createdAtMs: 1 },
      { ...over, id: 'a', clientStatus: 'complete', createdAtMs: 2 },
    ],
    retryFailed: true,
    expected: [],
  },
];

function decide(situation: Situation): readonly Placement[] {
  const version = situation.versions.length - 1;
  const newest = situation.versions[version] ?? spec(0);
  return place({
    job: jobRecord({ version, spec: newest, stopped: situation.stopped ?? false }),
    allocs: (situation.allocs ?? []).map((alloc) => allocRecord({ jobVersion: 0, ...alloc })),
    isLive: (id) => (situation.allocs ?? []).some((alloc) => alloc.id === id && alloc.live === true),
    specOf: (wanted) => situation.versions[wanted],
    retryFailed: situation.retryFailed ?? false,
  });
}

function inWords(placement: Placement): string {
  if (placement.kind === 'create') return `create ${placement.index}`;
  const words = { stop: 'stop', update_in_place: 'update', consider_reschedule: 'consider' } as const;
  return `${words[placement.kind]} ${placement.alloc.id}`;
}

describe('place', () => {
  for (const situation of TABLE) {
    it(`${situation.name}: ${situation.expected.join(', ') || 'nothing'}`, () => {
      assert.deepEqual(decide(situation).map(inWords), situation.expected);
    });
  }

  const withGroup = (over: Partial<TaskGroup>): Job => ({
    ...spec(1),
    groups: spec(1).groups.map((group) => ({ ...group, ...over })),
  });
  const inPlace: readonly (readonly [string, Job])[] = [
    ['services', withGroup({ services: [{ name: 's', tags: [], checks: [] }] })],
    ['times of the group', withGroup({ shutdownDelayMs: 5_000, maxRunMs: 60_000 })],
    ['restart policy', spec(1, { task: aTask({ restart: aPolicy({ attempts: 9 }) }) })],
    ['kill timeout', spec(1, { task: aTask({ killTimeoutMs: 1 }) })],
    ['resources', spec(1, { task: aTask({ resources: { ...plain.resources, memoryMib: 65 } }) })],
    ['kill signal', spec(1, { task: aTask({ killSignal: 'SIGQUIT' }) })],
    ['shutdown delay', spec(1, { task: aTask({ shutdownDelayMs: 1 }) })],
    ['priority', spec(1, { job: { priority: 90 } })],
    ['another group', aJob({ groups: [...spec(1).groups, aGroup({ name: 'h', count: 0 })] })],
  ];
  for (const [what, newer] of inPlace) {
    it(`${what} is changed in place`, () => {
      const placements = decide({ name: '', versions: [spec(1), newer], allocs: [live], expected: [] });
      assert.deepEqual(placements.map(inWords), ['update a']);
    });
  }

  const newRun: readonly (readonly [string, Job])[] = [
    ['config', spec(1, { task: aTask({ config: { command: '/bin/true' } }) })],
    ['driver', spec(1, { task: aTask({ driver: 'exec' }) })],
    ['user', spec(1, { task: aTask({ user: 'nobody' }) })],
    ['task name', spec(1, { task: aTask({ name: 'other' }) })],
    ['job type, which decides about restarts', spec(1, { job: { type: 'batch' } })],
    ['job meta, which tasks see', spec(1, { job: { meta: { a: '1' } } })],
    ['job name, which tasks see', spec(1, { job: { name: 'other' } })],
  ];
  for (const [what, newer] of newRun) {
    it(`${what} needs a new run`, () => {
      const placements = decide({ name: '', versions: [spec(1), newer], allocs: [live], expected: [] });
      assert.deepEqual(placements.map(inWords), ['stop a']);
    });
  }

  it('never fills a place twice, and comes to rest', () => {
    const wishes = fc.array(
      fc.record({
        count: fc.nat(4),
        env: fc.constantFrom('1', '2'),
        stopped: fc.boolean(),
        ends: fc.array(fc.nat(9), { maxLength: 4 }),
      }),
      { minLength: 1, maxLength: 12 },
    );
    fc.assert(
      fc.property(wishes, (history) => {
        const versions: Job[] = [];
        const allocs: (AllocRecord & { live: boolean })[] = [];
        const evaluate = (stopped: boolean): number => {
          const version = versions.length - 1;
          const placements = place({
            job: jobRecord({ version, spec: versions[version] ?? spec(0), stopped }),
            allocs,
            isLive: (id) => allocs.some((alloc) => alloc.id === id && alloc.live),
            specOf: (wanted) => versions[wanted],
            retryFailed: false,
          });
          for (const placement of placements) {
            if (placement.kind === 'create') {
              const { index } = placement;
              const record = allocRecord({ id: `a${allocs.length}`, group: 'g', index, jobVersion: version });
              allocs.push({ ...record, createdAtMs: allocs.length, live: true });
              continue;
            }
            const at = allocs.findIndex(({ id }) => id === placement.alloc.id);
            const change =
              placement.kind === 'stop' ? { desiredStatus: 'stop' as const } : { jobVersion: version };
            const before = allocs[at];
            if (before !== undefined) allocs[at] = { ...before, ...change };
          }
          for (const alloc of allocs.filter((one) => one.live)) {
            const here = allocs.filter((one) => one.live && one.index === alloc.index);
            assert.equal(here.length, 1, `place ${alloc.index} holds one`);
          }
          return placements.length;
        };
        const end = (alloc: AllocRecord & { live: boolean }): void => {
          allocs[allocs.indexOf(alloc)] = { ...alloc, live: false, clientStatus: 'complete' };
        };
        for (const { count, env, stopped, ends } of history) {
          versions.push(spec(count, { task: aTask({ env: { X: env } }) }));
          evaluate(stopped);
          for (const pick of ends) {
            const alloc = allocs[pick];
            if (alloc?.live === true) end(alloc);
            evaluate(stopped);
          }
        }
        const last = history.at(-1);
        for (let round = 0; round < 10; round++) {
          for (const alloc of allocs.filter((one) => one.live && one.desiredStatus === 'stop')) end(alloc);
          if (evaluate(last?.stopped ?? false) === 0) break;
          assert.ok(round < 9, 'comes to rest');
        }
        const running = allocs.filter((one) => one.live);
        if (last?.stopped === true) assert.deepEqual(running, []);
        for (const alloc of running) {
          assert.ok(alloc.index < (last?.count ?? 0));
          assert.equal(alloc.jobVersion, versions.length - 1);
        }
      }),
    );
  });
});
