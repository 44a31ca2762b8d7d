/** What the pages point to is there. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));

const pages = ['', 'docs', 'docs/adr', 'native', 'test', 'packaging'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(ROOT, folder, name)),
);

describe('pages', () => {
  for (const page of pages) {
    const text = readFileSync(page, 'utf8');

    it(`${relative(ROOT, page)}: links lead somewhere`, () => {
      const links = [...text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(([, target = '']) => target);
      const broken = links.filter(
        (target) => !/^[a-z]+:/.test(target) && !existsSync(join(dirname(page), target)),
      );
      assert.deepEqual(broken, []);
    });

    it(`${relative(ROOT, page)}: files of ours that it names exist`, () => {
      const named = [
        ...text.matchAll(/`((?:src|native|test|bench|scripts|docs|examples|packaging)\/[\w./-]*)`/g),
      ];
      const missing = named.map(([, path = '']) => path).filter((path) => !existsSync(join(ROOT, path)));
      assert.deepEqual(missing, []);
    });
  }
});

describe('packaging/holdfast.service', () => {
  it('starts the program that package.json calls holdfast, and never kills tasks', () => {
    const unit = readFileSync(join(ROOT, 'packaging/holdfast.service'), 'utf8');
    const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      bin: { holdfast: string };
    };
    assert.match(unit, new RegExp(`^ExecStart=.*/${bin.holdfast.replaceAll('.', '\\.')} agent`, 'm'));
    assert.match(unit, /^KillMode=process$/m);
    assert.match(unit, /^Delegate=yes$/m);
  });
});
