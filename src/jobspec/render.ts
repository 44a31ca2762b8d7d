/** Owns how faults read on a terminal: place, message, the line with a caret, what to do. At most 80 columns. */
import type { Fault } from './parse.js';

const WIDTH = 80;

/** Line numbers of up to five digits; longer ones shift their line. */
const GUTTER = 5;

/**
 * Text for people, with a line end after each line and an empty line between faults.
 * @param text the job file, to quote from; undefined = nothing is quoted
 */
export function renderFaults(faults: readonly Fault[], text: string | undefined): string {
  const lines = text?.replace(/^\uFEFF/, '').split(/\r?\n/) ?? [];
  return faults.map((fault) => renderFault(fault, lines)).join('\n');
}

function renderFault(fault: Fault, lines: readonly string[]): string {
  const { file, line, column, path, message, hint } = fault;
  const place =
    line === undefined ? [file, path].filter(Boolean).join(': ') : `${file}:${line}:${column ?? 1}`;
  const out = wrap(`${place}: ${message}`, '    ');
  const quoted = line === undefined ? undefined : lines[line - 1];
  if (quoted !== undefined && quoted.trim() !== '') out.push(...quoteLine(quoted, line ?? 1, column ?? 1));
  if (hint !== undefined) out.push(...wrap(`    hint: ${hint}`, '          '));
  return out.map((one) => `${one.trimEnd()}\n`).join('');
}

/** Breaks at spaces; a word longer than the width is cut. */
function wrap(text: string, indent: string): string[] {
  const out: string[] = [];
  let rest = Array.from(text);
  for (let lead = ''; rest.length > 0; lead = indent) {
    const room = WIDTH - lead.length;
    if (rest.length <= room) {
      out.push(lead + rest.join(''));
      break;
    }
    const space = rest.slice(0, room + 1).lastIndexOf(' ');
    const cut = space > room / 3 ? space : room;
    out.push(lead + rest.slice(0, cut).join(''));
    rest = rest.slice(rest[cut] === ' ' ? cut + 1 : cut);
  }
  return out;
}

/** The line, or the part of it around the column, and a caret under the column. */
function quoteLine(source: string, line: number, column: number): string[] {
  // One cell for each character, so that the caret stands right.
  const cells = Array.from(source, (character) => (/\p{Cc}/u.test(character) ? ' ' : character));
  const head = `${String(line).padStart(GUTTER)} | `;
  const room = WIDTH - head.length;
  let at = Math.min(column - 1, cells.length);
  let shown = cells;
  if (cells.length > room) {
    const from = Math.max(0, Math.min(at - Math.floor(room / 2), cells.length - room + 2));
    shown = cells.slice(from, from + room - 2);
    if (from > 0) shown = ['…', ...shown];
    if (from + room - 2 < cells.length) shown = [...shown, '…'];
    at = at - from + (from > 0 ? 1 : 0);
  }
  return [head + shown.join(''), `${' '.repeat(head.length - 2)}| ${' '.repeat(at)}^`];
}
