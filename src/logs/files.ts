/**
 * Owns the names and the order of a task's rotated log files, and where in them a read begins. Pure: it touches no
 * file. The files of one stream are one text, cut into pieces: `<task>.stdout.0`, `<task>.stdout.1`, …, of which the
 * oldest disappear while new ones are made.
 */

export const LOG_STREAMS = ['stdout', 'stderr'] as const;
export type LogStream = (typeof LOG_STREAMS)[number];

/** One rotated file. A higher number is newer, and is made only when the one before it is complete. */
export interface LogFile {
  /** As the executor has called it; a compressed one is there under `<name>.gz`. */
  readonly name: string;
  readonly number: number;
  readonly isCompressed: boolean;
}

/** A rotated file as it was found. */
export interface FoundLogFile extends LogFile {
  /** Of the text, compressed or not. */
  readonly sizeBytes: number;
  /** Wall time of its last write. */
  readonly modifiedAtMs: number;
}

/** A place in the text. It may lie in a file that is gone by now: reading then begins with the next one. */
export interface LogPosition {
  readonly fileNumber: number;
  readonly offsetBytes: number;
}

/** Where to begin, over all files of the stream. */
export type LogOrigin =
  /** This many bytes after the beginning of the oldest file. */
  | { readonly kind: 'start'; readonly offsetBytes: number }
  /** This many bytes before the end. */
  | { readonly kind: 'end'; readonly offsetBytes: number }
  /** At the last `count` lines; an unfinished last line is a line. */
  | { readonly kind: 'lines'; readonly count: number }
  /** At the oldest file that was written to at this time or later. As fine as the files are, and no finer. */
  | { readonly kind: 'since'; readonly atMs: number }
  /** At a place that a reader has reached before; if its file is gone, at the next one that is left. */
  | { readonly kind: 'position'; readonly at: LogPosition };

/** Numbers with more digits are not ours: they could not be counted exactly. */
const MOST_DIGITS = 15;

export function logFileName(task: string, stream: LogStream, number: number): string {
  return `${task}.${stream}.${number}`;
}

/** The number of a file of this stream; undefined for any other name. */
export function parseLogFileName(name: string, task: string, stream: LogStream): number | undefined {
  const prefix = `${task}.${stream}.`;
  if (!name.startsWith(prefix)) return undefined;
  const digits = name.slice(prefix.length);
  return /^(?:0|[1-9]\d*)$/.test(digits) && digits.length <= MOST_DIGITS ? Number(digits) : undefined;
}

export const COMPRESSED_SUFFIX = '.gz';

/**
 * The files of one stream among the names of a directory, oldest first. One that is there both ways, because it is being
 * compressed, counts once.
 */
export function selectLogFiles(names: readonly string[], task: string, stream: LogStream): LogFile[] {
  const found = new Map<number, LogFile>();
  for (const there of names) {
    const isCompressed = there.endsWith(COMPRESSED_SUFFIX);
    const name = isCompressed ? there.slice(0, -COMPRESSED_SUFFIX.length) : there;
    const number = parseLogFileName(name, task, stream);
    if (number === undefined || (isCompressed && found.has(number))) continue;
    found.set(number, { name, number, isCompressed });
  }
  return [...found.values()].sort((a, b) => a.number - b.number);
}

/** True when a number is missing between the first and the last. */
export function hasGap(files: readonly LogFile[]): boolean {
  const [first, last] = [files.at(0), files.at(-1)];
  return first !== undefined && last !== undefined && last.number - first.number >= files.length;
}

/** The end of the text as it was found. */
export function endOf(files: readonly FoundLogFile[]): LogPosition {
  const last = files.at(-1);
  return last === undefined
    ? { fileNumber: 0, offsetBytes: 0 }
    : { fileNumber: last.number, offsetBytes: last.sizeBytes };
}

/** The place `offsetBytes` after the beginning; beyond the end means the end. */
export function fromStart(files: readonly FoundLogFile[], offsetBytes: number): LogPosition {
  let leftBytes = offsetBytes;
  for (const file of files) {
    if (leftBytes < file.sizeBytes) return { fileNumber: file.number, offsetBytes: leftBytes };
    leftBytes -= file.sizeBytes;
  }
  return endOf(files);
}

/** The place `offsetBytes` before the end; before the beginning means the beginning. */
export function fromEnd(files: readonly FoundLogFile[], offsetBytes: number): LogPosition {
  let leftBytes = offsetBytes;
  for (const file of files.toReversed()) {
    if (leftBytes <= file.sizeBytes) {
      return { fileNumber: file.number, offsetBytes: file.sizeBytes - leftBytes };
    }
    leftBytes -= file.sizeBytes;
  }
  return fromStart(files, 0);
}

/** The beginning of the oldest file written to at `atMs` or later; the end when there is none. */
export function fromTime(files: readonly FoundLogFile[], atMs: number): LogPosition {
  const first = files.find((file) => file.modifiedAtMs >= atMs);
  return first === undefined ? endOf(files) : { fileNumber: first.number, offsetBytes: 0 };
}

const NEWLINE = 0x0a;

/** Finds the beginning of the last lines in a text that is handed in from its end, block by block. */
export class LineTail {
  /** Line ends still to be passed; the wanted text begins after the last of them. */
  #breaksLeft: number;
  #atVeryEnd = true;

  /** @param count lines wanted, 1 or more */
  constructor(count: number) {
    this.#breaksLeft = count;
  }

  /**
   * Takes the block that ends where the one before began.
   * @returns the offset within `block` at which the wanted lines begin; undefined = they begin further back
   */
  takeBlock(block: Uint8Array): number | undefined {
    let from = block.length - 1;
    if (this.#atVeryEnd && block.length > 0) {
      this.#atVeryEnd = false;
      // The newline that ends the last line begins no new one.
      if (block[from] === NEWLINE) from -= 1;
    }
    while (from >= 0) {
      const at = block.lastIndexOf(NEWLINE, from);
      if (at === -1) return undefined;
      this.#breaksLeft -= 1;
      if (this.#breaksLeft === 0) return at + 1;
      from = at - 1;
    }
    return undefined;
  }
}
