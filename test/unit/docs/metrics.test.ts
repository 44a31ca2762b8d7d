/** The metrics that docs/api.md lists are those that a scrape shows: names, labels and kinds, in both directions. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { asList, JOB, startApi } from '../../helpers/api-client.js';

interface Metric {
  readonly kind: string;
  readonly labels: readonly string[];
}

/** Rows `| \`name{label,label}\` | kind | … |` of the page. */
function metricsOfDocs(): ReadonlyMap<string, Metric> {
  const page = readFileSync('docs/api.md', 'utf8');
  const rows = [...page.matchAll(/^\| `(holdfast_\w+)(?:\{([\w,]*)\})?` \| (\w+) \|/gm)];
  const all = rows.map(([, name = '', labels = '', kind = '']): [string, Metric] => [
    name,
    {
      kind,
      labels: labels
        .split(',')
        .filter((label) => label !== '')
        .sort(),
    },
  ]);
  assert.equal(new Map(all).size, all.length, 'a row stands twice');
  return new Map(all);
}

function metricsIn(text: string): ReadonlyMap<string, Metric> {
  const kinds = new Map(
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', kind = '']) => [name, kind]),
  );
  const helps = new Map(
    [...text.matchAll(/^# HELP (\w+) (.+)$/gm)].map(([, name = '', help = '']) => [name, help]),
  );
  const found = new Map<string, Metric>();
  for (const [, name = '', labels = ''] of text.matchAll(/^([a-z_]+)(?:\{(.*)\})? [^ ]+$/gm)) {
    assert.ok((helps.get(name) ?? '').length > 3, `${name} has no HELP`);
    const names = [...labels.matchAll(/(\w+)="/g)].map(([, label = '']) => label).sort();
    found.set(name, { kind: kinds.get(name) ?? 'untyped', labels: names });
  }
  return found;
}

describe('metrics', () => {
  it('are those of docs/api.md, each with its labels and its kind', async () => {
    await using api = await startApi();
    await api.ask('/v1/jobs', { method: 'PUT', body: { Job: JOB } });
    const [alloc] = asList((await api.ask('/v1/allocations')).json());
    await api.operations.startTask(String(alloc?.['ID']), 'server');
    const shown = metricsIn((await api.ask('/v1/metrics?format=prometheus')).text);
    const listed = metricsOfDocs();
    const sorted = (of: ReadonlyMap<string, Metric>) => [...of].sort(([a], [b]) => (a < b ? -1 : 1));
    assert.deepEqual(sorted(shown), sorted(listed));
  });

  it('are counters only when their name says so', () => {
    for (const [name, { kind }] of metricsOfDocs()) if (kind === 'counter') assert.match(name, /_total$/);
  });
});
