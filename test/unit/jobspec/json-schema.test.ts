// The JSON Schema of job files takes every valid YAML file of the corpus, and refuses what the validator refuses too.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { exampleJob } from '../../../src/cli/example-job.js';
import { jobFileSchema } from '../../../src/jobspec/json-schema.js';

type Node = Readonly<Record<string, unknown>>;

const schema = jobFileSchema();

const CHECKED = new Set(
  '$schema $ref $defs title description examples type properties required additionalProperties items minItems anyOf allOf if then enum const pattern minimum maximum default minLength'.split(
    ' ',
  ),
);

/** Why a value does not fit, as paths; as much of JSON Schema as ours uses. */
function check(value: unknown, node: Node, path: string): string[] {
  for (const word of Object.keys(node))
    assert.ok(CHECKED.has(word), `${path}: this test does not know ${word}`);
  if (value === null) return [];
  const faults: string[] = [];
  const fail = (what: string): void => void faults.push(`${path}: ${what}`);
  if (typeof node['$ref'] === 'string') {
    const name = decodeURIComponent(node['$ref'].replace('#/$defs/', ''));
    const target = (schema['$defs'] as Record<string, Node>)[name];
    assert.ok(target !== undefined, `there is no ${name}`);
    faults.push(...check(value, target, path));
  }
  const types = node['type'] === undefined ? undefined : [node['type']].flat();
  const actual = Array.isArray(value) ? 'array' : typeof value;
  const isOf = (type: unknown): boolean => type === actual || (type === 'integer' && Number.isInteger(value));
  if (types?.some(isOf) === false) fail(`is ${actual}, not ${types.map(String).join(' or ')}`);
  if (Array.isArray(node['enum']) && !node['enum'].includes(value)) fail('is none of the enum');
  if ('const' in node && node['const'] !== value) fail('is not the constant');
  if (
    typeof value === 'string' &&
    typeof node['pattern'] === 'string' &&
    !new RegExp(node['pattern'], 'u').test(value)
  )
    fail('does not match');
  if (
    typeof value === 'number' &&
    (value < Number(node['minimum'] ?? -Infinity) || value > Number(node['maximum'] ?? Infinity))
  )
    fail('is out of bounds');
  if (Array.isArray(value) && node['items'] !== undefined)
    value.forEach((item, index) => faults.push(...check(item, node['items'] as Node, `${path}[${index}]`)));
  if (actual === 'object') {
    const map = value as Record<string, unknown>;
    const properties = (node['properties'] ?? {}) as Record<string, Node>;
    for (const name of (node['required'] ?? []) as string[]) if (!(name in map)) fail(`lacks ${name}`);
    for (const [key, item] of Object.entries(map)) {
      const own = properties[key];
      const rest = node['additionalProperties'];
      if (own !== undefined) faults.push(...check(item, own, `${path}.${key}`));
      else if (rest === false) fail(`has no key ${key}`);
      else if (typeof rest === 'object') faults.push(...check(item, rest as Node, `${path}.${key}`));
    }
  }
  if (Array.isArray(node['anyOf'])) {
    const tries = (node['anyOf'] as Node[]).map((one) => check(value, one, path));
    if (!tries.some((one) => one.length === 0)) faults.push(...(tries[0] ?? []));
  }
  for (const one of (node['allOf'] ?? []) as Node[]) faults.push(...check(value, one, path));
  if (node['if'] !== undefined && check(value, node['if'] as Node, path).length === 0)
    faults.push(...check(value, node['then'] as Node, path));
  return faults;
}

const FOLDER = 'test/fixtures/jobspec/valid';

describe('the JSON Schema of job files', () => {
  const files = readdirSync(FOLDER).filter((name) => /\.ya?ml$/.test(name));

  for (const name of files) {
    it(`takes ${name}`, () => {
      const value: unknown = parse(readFileSync(join(FOLDER, name), 'utf8'), { version: '1.2' });
      assert.deepEqual(check(value, schema, ''), []);
    });
  }

  it('takes the example of init', () => {
    assert.ok(files.length >= 5);
    assert.deepEqual(check(parse(exampleJob('x.yaml') ?? ''), schema, ''), []);
  });

  it('refuses what the validator refuses', () => {
    const job = (task: unknown): unknown => ({ job: { j: { group: { g: { task: { t: task } } } } } });
    const faults = (task: unknown): readonly string[] =>
      check(job(task), schema, '').map((fault) => fault.replace(/^.*: /, ''));
    assert.deepEqual(faults({ driver: 'mock_driver' }), []);
    assert.deepEqual(faults({}), ['lacks driver']);
    assert.deepEqual(faults({ driver: 'raw_exec', config: { command: 'x', arsg: [] } }), ['has no key arsg']);
    assert.deepEqual(faults({ driver: 'raw_exec', config: {} }), ['lacks command']);
    assert.deepEqual(faults({ driver: 'mock_driver', kill_timeout: '5 parsecs' }), ['does not match']);
    assert.deepEqual(faults({ driver: 'mock_driver', enviroment: {} }), ['has no key enviroment']);
    assert.deepEqual(faults({ driver: 'mock_driver', leftovers: 'eat' }), ['is none of the enum']);
  });
});
