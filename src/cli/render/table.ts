/** Owns tables that fit the terminal: when it is narrow, columns are dropped first and then texts are cut. Pure. */
import type { Look, Tone } from '../output.js';
import { displayWidth, pad, sanitize, truncate, truncateMiddle } from './text.js';

export interface Column {
  readonly title: string;
  readonly align?: 'right';
  /** May be cut down to this many columns; undefined = never cut while the table fits otherwise. */
  readonly shortest?: number;
  /** What is too long is cut in its middle instead of at its end. */
  readonly cut?: 'middle';
  /** Wants this many columns before spare ones are shown. */
  readonly comfort?: number;
  /** Nice to have: left out when others would lack comfort. The highest first. */
  readonly spare?: number;
  /** Left out when there is no room even after cutting. The highest first; undefined = stays. */
  readonly drop?: number;
}

export interface Cell {
  readonly text: string;
  readonly tone?: Tone;
}

const GAP = '  ';

/** The lines of a table, none wider than `look.width`. Each row has a cell for every column; texts are sanitized. */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  look: Look,
): string[] {
  const texts = rows.map((row) => row.map(({ text }) => sanitize(text)));
  const natural = columns.map((column, index) =>
    Math.max(displayWidth(column.title), ...texts.map((row) => displayWidth(row[index] ?? ''))),
  );
  const kept = chooseColumns(columns, natural, look.width);
  const widths = fitWidths(columns, natural, kept, look.width);
  const line = (cells: readonly string[], tones: readonly (Tone | undefined)[]): string => {
    const painted = kept.map((index, place) => {
      const width = widths.get(index) ?? 0;
      const shorten = columns[index]?.cut === 'middle' ? truncateMiddle : truncate;
      const cut = shorten(cells[index] ?? '', width);
      // Nothing is filled up behind the last column: the line ends with its text.
      const isLast = place === kept.length - 1 && columns[index]?.align === undefined;
      const fill = isLast ? cut : pad(cut, width, columns[index]?.align ?? 'left');
      return look.paint(tones[index] ?? 'plain', fill);
    });
    return painted.join(GAP).trimEnd();
  };
  const header = line(
    columns.map(({ title }) => title),
    columns.map(() => 'dim'),
  );
  return [
    header,
    ...texts.map((row, at) =>
      line(
        row,
        (rows[at] ?? []).map(({ tone }) => tone),
      ),
    ),
  ];
}

/** Indexes of the columns that stay. */
function chooseColumns(columns: readonly Column[], natural: readonly number[], width: number): number[] {
  const least = (index: number, wanted: number | undefined): number =>
    Math.min(natural[index] ?? 0, wanted ?? Infinity);
  const all = columns.map((_, index) => index);
  const comfortable = leaveOut(
    all,
    (index) => least(index, columns[index]?.comfort ?? columns[index]?.shortest),
    (index) => columns[index]?.spare,
    width,
  );
  return leaveOut(
    comfortable,
    (index) => least(index, columns[index]?.shortest),
    (index) => columns[index]?.drop,
    width,
  );
}

/** Leaves out the columns with the highest rank until the rest fits, or none has a rank. */
function leaveOut(
  indexes: readonly number[],
  widthOf: (index: number) => number,
  rankOf: (index: number) => number | undefined,
  width: number,
): number[] {
  let kept = [...indexes];
  while (totalWidth(kept.map(widthOf)) > width) {
    const [first] = kept
      .filter((index) => rankOf(index) !== undefined)
      .sort((a, b) => (rankOf(b) ?? 0) - (rankOf(a) ?? 0));
    if (first === undefined) break;
    kept = kept.filter((index) => index !== first);
  }
  return kept;
}

/** Cuts what may be cut, the widest first; then, on a terminal too narrow for anything, whatever there is. */
function fitWidths(
  columns: readonly Column[],
  natural: readonly number[],
  kept: readonly number[],
  width: number,
): ReadonlyMap<number, number> {
  const widths = new Map(kept.map((index) => [index, natural[index] ?? 0]));
  for (const shortestOf of [(index: number) => columns[index]?.shortest ?? Infinity, () => 1]) {
    while (totalWidth([...widths.values()]) > width) {
      const [widest] = [...widths]
        .filter(([index, columnsWide]) => columnsWide > shortestOf(index))
        .sort((a, b) => b[1] - a[1]);
      if (widest === undefined) break;
      widths.set(widest[0], widest[1] - 1);
    }
  }
  return widths;
}

function totalWidth(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP.length * Math.max(0, widths.length - 1);
}
