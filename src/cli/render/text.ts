/**
 * Owns text that a terminal can be trusted with: names and log lines come from strangers, so control characters and
 * escape sequences are taken out, and widths are counted in columns, not in letters.
 */
import { stripVTControlCharacters } from 'node:util';

const ASCII_ONLY = /^[\x20-\x7e]*$/;
/** C0, C1 and DEL, line and paragraph separators, and the marks that turn the direction of writing. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
const ZERO_WIDTH = /^[\p{M}\p{Cf}\u1160-\u11ff]$/u;
/** East Asian wide and full-width blocks (Unicode UAX #11, W and F), and the emoji that terminals draw wide. */
const WIDE =
  /^(?:[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1b000}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation})$/u;

const ELLIPSIS = '…';

/** One line without anything that could move the cursor, colour or turn what follows. Tabs become spaces. */
export function sanitize(text: string): string {
  if (ASCII_ONLY.test(text)) return text;
  return stripVTControlCharacters(text).replaceAll('\t', '  ').replace(UNSAFE, '\u00b7');
}

/** Columns that a sanitized text takes. */
export function displayWidth(text: string): number {
  if (ASCII_ONLY.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

function characterWidth(character: string): 0 | 1 | 2 {
  if (ZERO_WIDTH.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** The text, cut to `width` columns with an ellipsis if it is longer. */
export function truncate(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  return width <= 0 ? '' : beginning(text, width - 1) + ELLIPSIS;
}

/** The same with the ellipsis in its middle: for names, whose ends tell them apart as much as their beginnings do. */
export function truncateMiddle(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  if (width < 4) return truncate(text, width);
  const tail = ending(text, Math.floor((width - 1) / 2));
  return beginning(text, width - 1 - displayWidth(tail)) + ELLIPSIS + tail;
}

function ending(text: string, width: number): string {
  const characters = Array.from(text);
  let used = 0;
  let from = characters.length;
  while (from > 0) {
    used += characterWidth(characters[from - 1] ?? '');
    if (used > width) break;
    from -= 1;
  }
  return characters.slice(from).join('');
}

/** As much of the text as fits into `width` columns. */
function beginning(text: string, width: number): string {
  let kept = '';
  let used = 0;
  for (const character of text) {
    used += characterWidth(character);
    if (used > width) break;
    kept += character;
  }
  return kept;
}

/**
 * The text in lines, broken between words where that can be.
 * @param first columns of the first line
 * @param others columns of the others
 */
export function wrap(text: string, first: number, others = first): string[] {
  const lines: string[] = [];
  let rest = text;
  for (let width = first; displayWidth(rest) > width && width > 1; width = others) {
    const fitting = beginning(rest, width);
    const space = rest.charAt(fitting.length) === ' ' ? fitting.length : fitting.lastIndexOf(' ');
    const end = space > 0 ? space : fitting.length;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).replace(/^ +/, '');
  }
  return [...lines, rest];
}

/** The text filled up with spaces to `width` columns. */
export function pad(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const fill = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + fill : fill + text;
}

/** `1 task`, `2 tasks`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A word as a shell reads it back. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
