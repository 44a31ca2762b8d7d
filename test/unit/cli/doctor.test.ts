/** The list that `holdfast doctor` prints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DoctorFinding } from '../../../src/api/wire.js';
import { paintNothing } from '../../../src/cli/output.js';
import { renderFindings } from '../../../src/cli/render/doctor.js';

const LOOK = { width: 40, paint: paintNothing, nowMs: 0 };
const found: DoctorFinding = {
  Kind: 'run_dir',
  Subject: '/data/run/ab/abcd',
  Problem: 'run directory of a run that is over',
  Advice: 'holdfast doctor --fix',
  CanFix: true,
  Outcome: 'open',
  Error: '',
};

test('nothing is said to be clean', () => {
  assert.deepEqual(renderFindings([], LOOK), ['nothing found: all is clean']);
});

test('each finding has its cure or what came of it; nothing is cut, nothing moves the cursor', () => {
  const evil = { ...found, Subject: '/data/\u001b[2Jx', CanFix: false, Advice: 'look at it' };
  const failed: DoctorFinding = { ...found, Outcome: 'failed', Error: 'something of it is alive' };
  assert.deepEqual(renderFindings([found, evil, { ...found, Outcome: 'fixed' }, failed], LOOK), [
    'found  run_dir  /data/run/ab/abcd: run directory of a run that is over',
    '       holdfast doctor --fix',
    'found  run_dir  /data/x: run directory of a run that is over',
    '       look at it',
    'fixed  run_dir  /data/run/ab/abcd: run directory of a run that is over',
    '       done',
    'stays  run_dir  /data/run/ab/abcd: run directory of a run that is over',
    '       cannot be fixed: something of it is alive',
    '4 findings, 1 fixed, "holdfast doctor --fix" cures 1',
  ]);
  assert.equal(renderFindings([{ ...found, Outcome: 'fixed' }], LOOK).at(-1), '1 finding, all fixed');
});
