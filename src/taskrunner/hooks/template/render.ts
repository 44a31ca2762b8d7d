/** Owns the rendering of one template: what it asks for is looked up, noted, and part of its fingerprint. */
import { createHash } from 'node:crypto';
import { AgentError } from '../../../base/errors.js';
import type { Template } from '../../../jobspec/types.js';
import { evaluate } from '../../../jobspec/template/evaluate.js';
import { TemplateFault } from '../../../jobspec/template/nodes.js';
import { parseTemplate } from '../../../jobspec/template/parse.js';
import { LineIndex } from '../../../jobspec/tree.js';
import type { HookContext } from '../hook.js';
import { readInput, type InputFile, type InputRules } from './inputs.js';

/** Different files that one template may read. */
const MOST_FILES = 100;

export interface Rendered {
  readonly text: string;
  /** Of the template and all it was made of: while it stays, nothing has to be rendered. */
  readonly fingerprint: string;
  /** Stamps of the files it was made of. */
  readonly files: ReadonlyMap<string, string>;
}

/** The template asks for a file that was not read yet: it is read, and the template evaluated from its beginning. */
class NeedsFile extends Error {
  readonly path: string;

  constructor(path: string) {
    super(path);
    this.path = path;
  }
}

/** @throws MissingInput; AgentError hook_failed with the place in the template, recoverable when files are to blame */
export async function render(
  template: Template,
  context: Pick<HookContext, 'env' | 'hostEnv' | 'clock'>,
  rules: InputRules,
): Promise<Rendered> {
  const files = new Map<string, InputFile>();
  const source = template.source === undefined ? undefined : context.hostEnv().interpolate(template.source);
  if (source !== undefined) files.set(source, await readInput(source, rules));
  const text = source === undefined ? (template.data ?? '') : (files.get(source)?.text ?? '');
  const { env, interpolate } = context.env();
  const asked = new Map<string, string | undefined>();
  const look = (name: string): string | undefined => {
    const value = Object.hasOwn(env, name) ? env[name] : factOf(name, interpolate);
    asked.set(name, value);
    return value;
  };
  const inputs = {
    env: look,
    file: (path: string): string => {
      const known = files.get(path);
      if (known === undefined) throw new NeedsFile(path);
      return known.text;
    },
    nowMs: () => context.clock.wallMs(),
  };
  try {
    const nodes = parseTemplate(text, { left: template.leftDelimiter, right: template.rightDelimiter });
    for (;;) {
      try {
        const { errorOnMissingKey } = template;
        const out = evaluate(nodes, { inputs, errorOnMissingKey });
        return { text: out, fingerprint: fingerprint(text, asked, files), files: stampsOf(files) };
      } catch (error) {
        if (!(error instanceof NeedsFile)) throw error;
        if (files.size >= MOST_FILES) throw new AgentError('hook_failed', `more than ${MOST_FILES} files`);
        files.set(error.path, await readInput(error.path, rules));
      }
    }
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    const { line, column } = new LineIndex(text).place(error.at);
    throw new AgentError('hook_failed', `line ${line}, column ${column}: ${error.message}`, {
      recoverable: files.size > 0,
    });
  }
}

/** `attr.…`, `node.…`, `meta.…`; undefined when the node has none of that name. */
function factOf(name: string, interpolate: (text: string) => string): string | undefined {
  if (!/^[\w.-]+$/.test(name)) return undefined;
  const asked = `\${${name}}`;
  const value = interpolate(asked);
  return value === asked ? undefined : value;
}

function fingerprint(
  text: string,
  asked: ReadonlyMap<string, string | undefined>,
  files: ReadonlyMap<string, InputFile>,
): string {
  const variables = [...asked].sort(([a], [b]) => (a < b ? -1 : 1));
  const contents = [...files].map(([path, file]) => [path, file.text]).sort();
  return createHash('sha256')
    .update(JSON.stringify([text, variables.map(([name, value]) => [name, value ?? null]), contents]))
    .digest('hex');
}

function stampsOf(files: ReadonlyMap<string, InputFile>): ReadonlyMap<string, string> {
  return new Map([...files].map(([path, { stamp }]) => [path, stamp]));
}
