/** Owns one screen of `ps -w`: the time and how all is on top, then the table, and a count of what has no room. Pure. */
import type { Look } from '../output.js';
import { renderPs, type PsData } from './ps.js';
import { plural, truncate } from './text.js';
import { formatTime } from './units.js';
import { decideVerdict } from './verdict.js';

/** @param height lines there are; two more than the table's title at least are used */
export function renderPsFrame(data: PsData, height: number, look: Look): string[] {
  const dim = (text: string): string => look.paint('dim', truncate(text, look.width));
  const head = dim(`${formatTime(look.nowMs, look.nowMs)}  ${decideVerdict(data.rows, look.nowMs).detail}`);
  const lines = renderPs(data, look);
  const room = Math.max(2, height - 1);
  if (lines.length <= room) return [head, ...lines];
  const kept = lines.slice(0, room - 1);
  return [head, ...kept, dim(`${plural(lines.length - kept.length, 'line')} more: holdfast ps`)];
}
