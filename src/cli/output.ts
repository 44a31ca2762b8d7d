/** Owns what the CLI writes: stdout for results, stderr for one-line errors and notes, colour or not, and the width. */

/** Paints a text; without colour it gives it back as it is. */
export type Tone = 'plain' | 'bold' | 'dim' | 'good' | 'warn' | 'bad';
export type Paint = (tone: Tone, text: string) => string;

const SGR: Readonly<Record<Exclude<Tone, 'plain'>, string>> = {
  bold: '1',
  dim: '2',
  good: '32',
  warn: '33',
  bad: '31',
};

export const paintNothing: Paint = (_tone, text) => text;
export const paintAnsi: Paint = (tone, text) =>
  tone === 'plain' || text === '' ? text : `\x1b[${SGR[tone]}m${text}\x1b[0m`;

/** What a rendering depends on besides its data. */
export interface Look {
  /** Columns that a line may have; Infinity when the output is no terminal. */
  readonly width: number;
  readonly paint: Paint;
  /** Wall time for ages. */
  readonly nowMs: number;
}

/** The two streams of a command. */
export interface Output {
  readonly isTerminal: boolean;
  readonly color: boolean;
  /** Columns of the terminal; Infinity when there is none. */
  width(): number;
  /** Lines of the terminal; Infinity when there is none. */
  height(): number;
  /** Writes as it is. Resolves when more may be written. */
  write(text: string | Buffer): Promise<void>;
  /** One line on stderr. */
  note(line: string): void;
}

/** The process's own streams. @param noColor --no-color was given */
export function processOutput(noColor: boolean): Output {
  const { stdout, stderr, env } = process;
  const isTerminal = stdout.isTTY;
  const color = isTerminal && !noColor && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  return {
    isTerminal,
    color,
    width: () => (isTerminal ? stdout.columns : Infinity),
    height: () => (isTerminal ? stdout.rows : Infinity),
    write: async (text) => {
      if (stdout.write(text)) return;
      await new Promise<void>((resolve) => stdout.once('drain', resolve));
    },
    note: (line) => {
      stderr.write(`${line}\n`);
    },
  };
}
