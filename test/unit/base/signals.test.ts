/** Signal names and numbers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '../../../src/base/errors.js';
import { signalName, signalNumber } from '../../../src/base/signals.js';

describe('signals', () => {
  const good: readonly (readonly [string, number])[] = [
    ['SIGTERM', 15],
    ['term', 15],
    [' SIGKILL ', 9],
    ['15', 15],
    ['64', 64],
    ['SIGRTMIN', 34],
    ['SIGRTMIN+3', 37],
    ['rtmax-1', 63],
    ['SIGRTMAX', 64],
  ];
  for (const [text, number] of good) {
    it(`${JSON.stringify(text)} is ${number}`, () => {
      assert.equal(signalNumber(text), number);
    });
  }

  for (const text of [
    '',
    'SIG',
    '0',
    '65',
    '-9',
    '9.5',
    'SIGNOPE',
    'SIGRTMIN+31',
    'SIGRTMIN-1',
    'SIGRTMAX+1',
  ]) {
    it(`${JSON.stringify(text)} is an error, never a substitute`, () => {
      assert.throws(
        () => signalNumber(text),
        (error: unknown) => error instanceof AgentError && error.code === 'signal_unknown',
      );
    });
  }

  it('names every number so that it can be read again', () => {
    for (let number = 1; number <= 31; number++) assert.equal(signalNumber(signalName(number)), number);
    for (let number = 34; number <= 64; number++) assert.equal(signalNumber(signalName(number)), number);
    assert.equal(signalName(15), 'SIGTERM');
    assert.equal(signalName(36), 'SIGRTMIN+2');
    assert.equal(signalName(99), 'signal 99');
  });
});
