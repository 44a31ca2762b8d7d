/** Owns the text inside HCL strings and heredocs: escapes, indentation, and which `${…}` are left for the run time. */

export type TextResult =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly at: number; readonly message: string; readonly hint?: string };

const ESCAPES = new Map(Object.entries({ n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' }));

/** The text of a quoted string's literal piece. `$${` stays for the run time to undo, as does every `${…}`. */
export function unescapeQuoted(source: string, at: number): TextResult {
  let text = '';
  for (let index = 0; index < source.length; index++) {
    const character = source[index] ?? '';
    // The grammar lets a quote begin the text of a label: `""x"`.
    if (character === '"') return { ok: false, at: at + index, message: 'unexpected `"`' };
    if (character !== '\\') {
      text += character;
      continue;
    }
    const found = /\\(?:u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/uy;
    found.lastIndex = index;
    const [all = '\\', short, long, letter = ''] = found.exec(source) ?? [];
    const point = short ?? long;
    const escaped = point === undefined ? ESCAPES.get(letter) : codePoint(parseInt(point, 16));
    if (escaped === undefined) {
      const message = `bad escape \`${all}\` in a string`;
      return {
        ok: false,
        at: at + index,
        message,
        hint: 'HCL has \\n \\r \\t \\" \\\\ \\uXXXX and \\UXXXXXXXX',
      };
    }
    text += escaped;
    index += all.length - 1;
  }
  return { ok: true, text: undoPercent(text) };
}

function codePoint(value: number): string | undefined {
  return value <= 0x10ffff && !(value >= 0xd800 && value <= 0xdfff) ? String.fromCodePoint(value) : undefined;
}

/** `%%{` is HCL's way to write `%{`, which has no meaning at run time. */
export function undoPercent(text: string): string {
  return text.replaceAll('%%{', '%{');
}

/** A variable, followed by `.name`s and `["keys"]`: all that the run time can look up. */
const REFERENCE = /^[A-Za-z_][\w-]*(?:\.[\w-]+|\[[ \t]*"[^"\\${}\n]*"[ \t]*\])*$/;

/** The root of what only the run time can look up: `attr` of `attr.kernel.name`; undefined when it is anything else. */
export function isRunTimeReference(source: string): string | undefined {
  if (/^(?:true|false|null)$/.test(source)) return undefined;
  return REFERENCE.test(source) ? /^[\w-]+/.exec(source)?.[0] : undefined;
}

/** How to keep `${` from being read by holdfast, e.g. in a shell script. */
export const DOLLARS = 'for a literal `${` write `$${`';

export function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ');
  return line.length > 40 ? `${line.slice(0, 39)}…` : line;
}

/** Stands for what is filled in while the indentation is taken off. No file with a NUL in it is read. */
const STAND_IN = '\0';

/**
 * The literal texts of a `<<-` heredoc, something being filled in between each two, without the smallest indentation of
 * their lines.
 */
export function dedentAll(texts: readonly string[]): readonly string[] {
  return dedent(texts.join(STAND_IN)).split(STAND_IN);
}

/** Without the white space at its beginning, up to the end of the line: what `~}` takes. HCL looks no further. */
export function trimLineStart(text: string): string {
  const end = text.indexOf('\n') + 1 || text.length;
  return text.slice(0, end).trimStart() + text.slice(end);
}

/** Without the white space at the end of its last line, the line's own end among it: what `%{~` and `${~` take. */
export function trimLineEnd(text: string): string {
  const begin = text.lastIndexOf('\n', text.length - 2) + 1;
  return text.slice(0, begin) + text.slice(begin).trimEnd();
}

/** Lines of nothing but white space neither count nor change, as in HCL. */
function dedent(text: string): string {
  const lines = text.split('\n');
  const indents = lines.filter((line) => line.trim() !== '').map(indentOf);
  const cut = indents.reduce((least, indent) => Math.min(least, indent), Infinity);
  return lines.map((line) => (line.trim() === '' ? line : line.slice(cut))).join('\n');
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}
