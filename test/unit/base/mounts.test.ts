import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { mountsWithin, parseMountPoints } from '../../../src/base/mounts.js';

describe('mounts', () => {
  it('are read as the kernel writes them, spaces and all', () => {
    const text = [
      '22 1 8:1 / / rw,relatime - ext4 /dev/root rw',
      '30 22 0:5 / /srv/a\\040b rw,nosuid shared:7 - tmpfs none rw',
      '31 30 0:6 /x /srv/a\\040b/\\134c rw - tmpfs none rw',
      '',
    ].join('\n');
    assert.deepEqual(parseMountPoints(text), ['/', '/srv/a b', '/srv/a b/\\c']);
  });

  it('are only those on the directory or below it, the last first', () => {
    const within = mountsWithin('/proc');
    assert.equal(within.at(-1), '/proc');
    assert.ok(within.every((point) => point === '/proc' || point.startsWith('/proc/')));
  });
});
