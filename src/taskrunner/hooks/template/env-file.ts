/** Owns the reading of `KEY=value` lines, which an `env` template makes. Pure. */
import { AgentError } from '../../../base/errors.js';

/**
 * Empty lines and lines with `#` are passed over; `export ` in front and quotes around a value are allowed. In double
 * quotes `\n`, `\t`, `\"` and `\\` mean what they do elsewhere.
 * @throws AgentError hook_failed naming the line
 */
export function parseEnvFile(text: string): Readonly<Record<string, string>> {
  const env: [string, string][] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const bare = line.trim();
    if (bare === '' || bare.startsWith('#')) continue;
    const match = /^(?:export\s+)?([^\s=]+)\s*=\s*(.*)$/s.exec(bare);
    const [, key = '', value = ''] = match ?? [];
    const read = match === null || bare.includes('\0') ? undefined : valueOf(value);
    if (read === undefined) {
      throw new AgentError('hook_failed', `line ${index + 1} of what came out is not KEY=value`);
    }
    env.push([key, read]);
  }
  return Object.fromEntries(env);
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', $: '$' };

function valueOf(written: string): string | undefined {
  const single = /^'([^']*)'\s*(?:#.*)?$/.exec(written);
  if (single !== null) return single[1];
  const double = /^"((?:[^"\\]|\\.)*)"\s*(?:#.*)?$/.exec(written);
  if (double !== null) {
    return (double[1] ?? '').replace(/\\(.)/g, (whole, sign: string) => ESCAPES[sign] ?? whole);
  }
  if (/^['"]/.test(written)) return undefined;
  return written.replace(/\s+#.*$/, '');
}
