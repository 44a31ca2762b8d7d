/** Owns small drawings of a value over time. Pure. */

const LEVELS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;
const UNKNOWN = ' ';

/** The last `most` values, each as a column: from 0 to the highest of them, or to 1 when all are below. */
export function sparkline(values: readonly (number | null)[], most: number): string {
  const drawn = values.slice(-most);
  const top = Math.max(1, ...drawn.map((value) => value ?? 0));
  return drawn
    .map((value) => {
      if (value === null) return UNKNOWN;
      const level = Math.min(LEVELS.length - 1, Math.floor((value / top) * LEVELS.length));
      return LEVELS[level] ?? UNKNOWN;
    })
    .join('');
}
