/** Owns a line of `events`. Pure. */
import { nsToMs, type TaskEventRow } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import type { Look, Tone } from '../output.js';
import { pad, sanitize, truncate, displayWidth } from './text.js';
import { formatTime } from './units.js';

/** Widths of the columns that names decide about; they only grow, so that a live listing stays straight. */
export interface EventWidths {
  job: number;
  task: number;
}

/** Longest type of the common ones (`Not Restarting`). */
const TYPE_COLUMNS = 14;
/** A name must not push the message off the line. */
const MOST_NAME_COLUMNS = 24;

const TONES: ReadonlyMap<string, Tone> = new Map([
  ['Started', 'good'],
  ['Restarting', 'warn'],
  ['Restart Signaled', 'warn'],
  ['Killing', 'warn'],
  ['Setup Failure', 'bad'],
  ['Driver Failure', 'bad'],
  ['Not Restarting', 'bad'],
  ['Kill Failed', 'bad'],
  ['Failed Validation', 'bad'],
  ['Supervision Lost', 'bad'],
  ['Failed Restoring Task', 'bad'],
]);

/** `14:05:09  web  7a1c9d2e/api  Started  Task started by client, pid 52110`. */
export function renderEvent(event: TaskEventRow, widths: EventWidths, look: Look): string {
  const job = truncate(sanitize(event.JobID), MOST_NAME_COLUMNS);
  const task = `${shortId(event.AllocID)}/${truncate(sanitize(event.Task), MOST_NAME_COLUMNS)}`;
  widths.job = Math.max(widths.job, displayWidth(job));
  widths.task = Math.max(widths.task, displayWidth(task));
  const owner = `${pad(job, widths.job)}  ${pad(task, widths.task)}`;
  return renderEventLine(event, owner, look);
}

/** An event behind its time and what it is about. */
export function renderEventLine(
  event: Pick<TaskEventRow, 'Time' | 'Type' | 'DisplayMessage'>,
  owner: string,
  look: Look,
): string {
  const time = formatTime(nsToMs(event.Time), look.nowMs);
  const type = pad(sanitize(event.Type), TYPE_COLUMNS);
  const head = [time, owner, type].filter((part) => part !== '').join('  ');
  const line = truncate(`${head}  ${sanitize(event.DisplayMessage)}`, look.width).trimEnd();
  const tone = TONES.get(event.Type);
  // Painted last, and only the word itself: what was cut off cannot break an escape sequence.
  return tone === undefined ? line : line.replace(type.trimEnd(), (word) => look.paint(tone, word));
}
