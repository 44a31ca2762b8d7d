/** Owns the guess at what somebody meant who misspelt a name. */

/** Longer words are not compared: the cost grows with the product of the lengths, and nobody misspells these. */
const LONGEST = 64;

/**
 * The candidate closest to `word`, or undefined when none is close enough to be meant: at most a third of its letters
 * (and never more than 3) may differ. Case and `-`/`_` do not count. Of equally close ones the first wins.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > LONGEST) return undefined;
  const folded = fold(word);
  let best: string | undefined;
  let bestDistance = Infinity;
  for (const candidate of candidates) {
    const other = fold(candidate);
    const limit = Math.min(3, Math.max(1, Math.floor(Math.max(folded.length, other.length) / 3)));
    const distance = editDistance(folded, other);
    if (distance <= limit && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function fold(word: string): string {
  return word.toLowerCase().replaceAll('-', '_');
}

/** Fewest insertions, deletions, replacements and swaps of neighbours between two words (Damerau-Levenshtein). */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
