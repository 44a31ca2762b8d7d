/** Owns a line of `events`. Pure. */
import { nsToMs, type TaskEventRow } from '../../api/wire.js';
import { shortId } from '../../base/ids.js';
import { paintNothing, type Look, type Tone } from '../output.js';
import { pad, sanitize, truncate, displayWidth, wrap } from './text.js';
import { formatTime } from './units.js';

/** Widths of the columns that names decide about; they only grow, so that a live listing stays straight. */
export interface EventWidths {
  /** undefined: all are of one job, which need not be named in each line. */
  job: number | undefined;
  task: number;
}

/** Longest type of the common ones (`Not Restarting`). */
const TYPE_COLUMNS = 14;
/** A name must not push the message off the line. */
const MOST_NAME_COLUMNS = 24;
/** Before what did not fit into the line of an event. */
const INDENT = '          ';

const TONES: ReadonlyMap<string, Tone> = new Map([
  ['Started', 'good'],
  ['Restarting', 'warn'],
  ['Restart Signaled', 'warn'],
  ['Killing', 'warn'],
  ['Driver Failure', 'bad'],
  ['Not Restarting', 'bad'],
  ['Kill Failed', 'bad'],
  ['Failed Validation', 'bad'],
  ['Supervision Lost', 'bad'],
  ['Failed Restoring Task', 'bad'],
]);

/** `14:05:09  web  7a1c9d2e/api  Started  Task started by client, pid 52110`. */
export function renderEvent(event: TaskEventRow, widths: EventWidths, look: Look): string {
  const task = `${shortId(event.AllocID)}/${truncate(sanitize(event.Task), MOST_NAME_COLUMNS)}`;
  widths.task = Math.max(widths.task, displayWidth(task));
  const owner = jobColumn(event, widths) + pad(task, widths.task);
  return renderEventLines(event, owner, look).join('\n');
}

/** An event behind its time and what it is about; one that says why something went wrong takes as many lines as it needs. */
export function renderEventLines(
  event: Pick<TaskEventRow, 'Time' | 'Type' | 'DisplayMessage'>,
  owner: string,
  look: Look,
): string[] {
  if (!isReason(event.Type)) return [renderEventLine(event, owner, look)];
  const line = renderEventLine(event, owner, { ...look, width: Infinity, paint: paintNothing });
  const [first = '', ...rest] = wrap(line, look.width, look.width - INDENT.length);
  return [paintType(first, event.Type, look), ...rest.map((more) => INDENT + more)];
}

function jobColumn({ JobID }: TaskEventRow, widths: EventWidths): string {
  if (widths.job === undefined) return '';
  const job = truncate(sanitize(JobID), MOST_NAME_COLUMNS);
  widths.job = Math.max(widths.job, displayWidth(job));
  return `${pad(job, widths.job)}  `;
}

/** Says why something went wrong: it is told in full, over as many lines as it takes. */
function isReason(type: string): boolean {
  return type === 'Terminated' || TONES.get(type) === 'bad';
}

function renderEventLine(
  event: Pick<TaskEventRow, 'Time' | 'Type' | 'DisplayMessage'>,
  owner: string,
  look: Look,
): string {
  const time = formatTime(nsToMs(event.Time), look.nowMs);
  const type = pad(sanitize(event.Type), TYPE_COLUMNS);
  const head = [time, owner, type].filter((part) => part !== '').join('  ');
  const line = truncate(`${head}  ${sanitize(event.DisplayMessage)}`, look.width).trimEnd();
  return paintType(line, event.Type, look);
}

/** Painted last, and only the word itself: what was cut off cannot break an escape sequence. */
function paintType(line: string, type: string, look: Look): string {
  const tone = TONES.get(type);
  return tone === undefined ? line : line.replace(sanitize(type), (word) => look.paint(tone, word));
}
