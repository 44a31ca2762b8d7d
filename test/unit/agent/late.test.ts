/** What an agent loads after it has found its tasks: `import()` of a CommonJS package in a busy process may give one that was not evaluated. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const SRC = fileURLToPath(new URL('../../../src', import.meta.url));
const STATIC = /^(?:import|export)\s(?:[^;]*?\sfrom\s+)?'([^']+)'/gm;
const LATE = /\bimport\(\s*'(\.[^']+)'/g;

/** Modules that are loaded with this one, and packages by the module that names them. */
function loadedWith(entries: readonly string[]): { files: Set<string>; packages: Map<string, string> } {
  const files = new Set<string>();
  const packages = new Map<string, string>();
  const walk = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(STATIC)) {
      if (name.startsWith('.')) walk(resolve(dirname(file), name));
      else if (!name.startsWith('node:')) packages.set(name, file);
    }
  };
  entries.forEach(walk);
  return { files, packages };
}

function isCommonJs(name: string): boolean {
  const main = createRequire(import.meta.url).resolve(name);
  for (let dir = dirname(main); ; dir = dirname(dir)) {
    const packed = readdirSync(dir).includes('package.json')
      ? (JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')) as { name?: string; type?: string })
      : {};
    if (packed.name !== undefined) return packed.type !== 'module';
  }
}

describe('what is loaded late', () => {
  it('imports no CommonJS package that is not there yet', () => {
    const early = loadedWith([join(SRC, 'agent', 'main.js')]);
    const late = [...readdirSync(SRC, { recursive: true, encoding: 'utf8' })]
      .filter((name) => name.endsWith('.js') && !name.startsWith('cli'))
      .map((name) => join(SRC, name))
      .flatMap((file) =>
        [...readFileSync(file, 'utf8').matchAll(LATE)].map(([, name = '']) => resolve(dirname(file), name)),
      );
    assert.ok(late.some((file) => file.endsWith('doors.js')));
    const { packages } = loadedWith(late);
    const bad = [...packages].filter(([name]) => !early.packages.has(name) && isCommonJs(name));
    assert.deepEqual(bad, [], 'take loadPackage of base/lazy.ts');
  });
});
