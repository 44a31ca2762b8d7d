/** docs/crash-windows.md names every failpoint, and no other. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FAILPOINTS } from '../../../src/base/failpoint.js';
import { packageRoot } from '../../../src/base/package-root.js';

describe('failpoints', () => {
  it('each stands in a window of docs/crash-windows.md, and each that stands there is one', () => {
    const page = readFileSync(join(packageRoot(), 'docs', 'crash-windows.md'), 'utf8');
    const named = new Set(
      [...page.matchAll(/`((?:store|scheduler|task|run|api)\.[a-z_]+)`/g)].map(([, name]) => name),
    );
    assert.deepEqual([...named].sort(), [...FAILPOINTS].sort());
  });
});
