/**
 * Owns how log text is written: one task's as it is, byte for byte; several tasks' in whole lines behind a prefix,
 * with escapes taken out, because one of them must not be able to spoil the lines of another.
 */
import { shortId } from '../base/ids.js';
import { lookOf, type Cli } from './cli.js';
import { LineReader, type LogPiece } from './frames.js';
import type { LogName } from './log-tail.js';
import { displayWidth, pad, sanitize } from './render/text.js';

export interface NamedLog extends LogName {
  readonly jobId: string;
}

export class LogPrinter {
  readonly #cli: Cli;
  readonly #grep: RegExp | undefined;
  readonly #isRaw: boolean;
  readonly #prefixes: Map<NamedLog, string>;
  readonly #readers = new Map<NamedLog, LineReader>();
  #hasWritten = false;

  /** @param grep only lines that match; undefined = all */
  constructor(cli: Cli, names: readonly NamedLog[], grep: RegExp | undefined) {
    this.#cli = cli;
    this.#grep = grep;
    this.#isRaw = names.length === 1 && grep === undefined && !cli.json;
    this.#prefixes = prefixesOf(names);
  }

  /** Takes a log that came up later: that of an alloc in the place of one that is over. */
  add(name: NamedLog): void {
    const width = Math.max(0, ...[...this.#prefixes.values()].map(displayWidth)) - PREFIX_END.length;
    const label = `${sanitize(name.task)} ${shortId(name.allocId)}`;
    if (width > 0) this.#prefixes.set(name, `${pad(label, width)}${PREFIX_END}`);
    else this.#cli.output.note(`holdfast: from here on of ${label}, which took its place`);
  }

  /** True once there was anything to write. */
  hasWritten(): boolean {
    return this.#hasWritten;
  }

  /** Writes a piece, or as much of it as makes whole lines. */
  async print(name: NamedLog, piece: LogPiece): Promise<void> {
    if (piece.note !== '') this.#cli.output.note(`holdfast: ${sanitize(name.task)}: ${sanitize(piece.note)}`);
    if (this.#isRaw) {
      this.#hasWritten ||= piece.data.length > 0;
      await this.#cli.output.write(piece.data);
    } else await this.printLines(name, this.#matching(this.#readerOf(name).push(piece.data)));
  }

  /** The lines of a piece that match; what is left of the last one is kept for the next piece. */
  take(name: NamedLog, piece: LogPiece): string[] {
    return this.#matching(this.#readerOf(name).push(piece.data));
  }

  /** The last line, if it has no end. */
  takeRest(name: NamedLog): string[] {
    return this.#matching(this.#readerOf(name).end());
  }

  async printLines(name: NamedLog, lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return;
    this.#hasWritten = true;
    await this.#cli.output.write(lines.map((line) => `${this.#render(name, line)}\n`).join(''));
  }

  /** Writes a last line without an end. */
  async finish(name: NamedLog): Promise<void> {
    await this.printLines(name, this.takeRest(name));
  }

  #readerOf(name: NamedLog): LineReader {
    let reader = this.#readers.get(name);
    if (reader === undefined) {
      reader = new LineReader();
      this.#readers.set(name, reader);
    }
    return reader;
  }

  #matching(lines: readonly string[]): string[] {
    const grep = this.#grep;
    return grep === undefined ? [...lines] : lines.filter((line) => grep.test(line));
  }

  #render(name: NamedLog, line: string): string {
    if (this.#cli.json) {
      const { allocId, jobId, task, stream } = name;
      return JSON.stringify({ AllocID: allocId, JobID: jobId, Task: task, Type: stream, Line: line });
    }
    const prefix = this.#prefixes.get(name) ?? '';
    return prefix === '' ? sanitize(line) : `${lookOf(this.#cli).paint('dim', prefix)}${sanitize(line)}`;
  }
}

const PREFIX_END = ' | ';

/** `server | `, or `server 7a1c9d2e | ` when there is more than one alloc; nothing for a single log. */
function prefixesOf(names: readonly NamedLog[]): Map<NamedLog, string> {
  if (names.length === 1) return new Map();
  const isOneAlloc = new Set(names.map(({ allocId }) => allocId)).size === 1;
  const labels = names.map((name) => {
    const task = sanitize(name.task);
    return isOneAlloc ? task : `${task} ${shortId(name.allocId)}`;
  });
  const width = Math.max(...labels.map(displayWidth));
  return new Map(names.map((name, at) => [name, `${pad(labels[at] ?? '', width)}${PREFIX_END}`]));
}
