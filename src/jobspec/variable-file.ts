/** Owns files of values for variables (`-var-file`): HCL with `name = value` lines, or a JSON object. */
import { readHcl } from './hcl.js';
import type { GivenValue } from './inputs.js';
import { readJson } from './json.js';
import { toFaults, type Fault } from './parse.js';
import { LineIndex } from './tree.js';

export type VariableFile =
  | { readonly ok: true; readonly given: readonly GivenValue[] }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** Reads the values. @param fileName as it shall stand in faults; `.json` is JSON, all else HCL */
export function readVariableFile(text: string, fileName: string): VariableFile {
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const lines = new LineIndex(source);
  const { tree, faults } = fileName.toLowerCase().endsWith('.json') ? readJson(source) : readHcl(source);
  const found = faults.map(({ at, message, hint }) => ({ at, path: '', message, hint }));
  for (const { key, keyAt, labels } of tree?.entries ?? []) {
    if (labels === undefined) continue;
    const message = `a file of variables holds \`name = value\` lines, not blocks: \`${key}\``;
    found.push({ at: keyAt, path: key, message, hint: undefined });
  }
  if (found.length > 0 || tree === undefined) return { ok: false, faults: toFaults(found, fileName, lines) };
  const given = tree.entries.map(({ key, keyAt, value }): GivenValue => {
    const { line, column } = lines.place(keyAt);
    return { name: key, value: { kind: 'tree', tree: value }, from: `${fileName}:${line}:${column}` };
  });
  return { ok: true, given };
}
