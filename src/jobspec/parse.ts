/**
 * Owns the way from untrusted text, or an HTTP body, to a Job: picks the format, reads it, validates it. Throws on
 * nothing that a user can write; whatever is wrong comes back as faults, all of them, with their places.
 */
import { readHcl } from './hcl.js';
import { NO_INPUTS, type Inputs } from './inputs.js';
import { readJson } from './json.js';
import { homesOf } from './schema/file.js';
import { Session, type Dialect, type Finding } from './session.js';
import { DEEPEST, fromPlain, LineIndex, type ReadText } from './tree.js';
import type { Job } from './types.js';
import { validateFile } from './validate.js';
import { readYaml } from './yaml.js';

/** One thing that is wrong (or, as a warning, worth knowing). */
export interface Fault {
  readonly file: string;
  /** Counts from 1; undefined for an HTTP body, which has no lines. */
  readonly line: number | undefined;
  /** Counts from 1, in characters. */
  readonly column: number | undefined;
  /** The way down to it, as written: `job["a"].group["b"].count`, `Job.TaskGroups[0].Count`; '' = the file. */
  readonly path: string;
  /** One line, no full stop. */
  readonly message: string;
  /** What to do about it. */
  readonly hint?: string;
}

export type JobResult =
  | { readonly ok: true; readonly job: Job; readonly warnings: readonly Fault[] }
  | { readonly ok: false; readonly faults: readonly Fault[] };

export { renderFaults } from './render.js';

/** Largest job file, in UTF-16 units; Nomad's servers take 1 MB of source too. */
const LARGEST = 1024 * 1024;

const FORMATS: Readonly<
  Record<string, { dialect: Dialect; read: (text: string, inputs: Inputs) => ReadText }>
> = {
  hcl: { dialect: 'hcl', read: readHcl },
  nomad: { dialect: 'hcl', read: readHcl },
  json: { dialect: 'json', read: readJson },
  yaml: { dialect: 'yaml', read: readYaml },
  yml: { dialect: 'yaml', read: readYaml },
};

/**
 * Reads a job file; its extension names the format.
 * @param fileName as it shall stand in faults; not opened
 * @param inputs values of its variables, and the files it may read
 */
export function parseJobFile(text: string, fileName: string, inputs: Inputs = NO_INPUTS): JobResult {
  const atStart = { at: 0, path: '' };
  const extension = /\.([^./]+)$/.exec(fileName)?.[1]?.toLowerCase() ?? '';
  const format = Object.hasOwn(FORMATS, extension) ? FORMATS[extension] : undefined;
  // A byte order mark is no part of the text, and no column.
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const lines = new LineIndex(source);
  const fail = (findings: readonly Finding[]): JobResult => ({
    ok: false,
    faults: toFaults(findings, fileName, lines),
  });
  if (format === undefined) {
    const hint = 'name it .hcl, .nomad, .json, .yaml or .yml';
    return fail([{ ...atStart, message: 'the extension of this file names no format', hint }]);
  }
  if (source.length > LARGEST) {
    return fail([{ ...atStart, message: 'the file is larger than 1 MiB', hint: undefined }]);
  }
  const nul = source.indexOf('\0');
  if (nul !== -1)
    return fail([{ ...atStart, at: nul, message: 'the file is not text: it holds a NUL', hint: undefined }]);
  const [given] = inputs.given;
  if (given !== undefined && format.dialect !== 'hcl') {
    const message = `${given.from}: only an HCL job file has variables`;
    return fail([{ ...atStart, message, hint: undefined }]);
  }
  const session = new Session(format.dialect, homesOf(format.dialect), lines);
  const { tree, faults } = readSafely(() => format.read(source, inputs));
  for (const { at, message, hint } of faults) session.fault({ at, path: '' }, message, hint);
  const job = tree === undefined ? undefined : validateFile(tree, session);
  if (job === undefined || session.faults.length > 0) return fail(session.faults);
  return { ok: true, job, warnings: toFaults(session.warnings, fileName, lines) };
}

/** Nesting that our readers bound is read by the libraries first, and they recurse. */
function readSafely(read: () => ReadText): ReadText {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { tree: undefined, faults: [{ at: 0, message: `more than ${DEEPEST} levels of nesting` }] };
  }
}

/**
 * Reads a job in Nomad's JSON that was parsed already: the body of an HTTP request, with or without the outer
 * `{"Job": …}`. Faults have a path and no lines.
 */
export function parseJobJson(value: unknown): JobResult {
  const session = new Session('json', homesOf('json'), undefined);
  const tree = fromPlain(value);
  const top = { at: 0, path: '' };
  if (tree === undefined) session.fault(top, `more than ${DEEPEST} levels of nesting`);
  else if (tree.kind !== 'map') session.fault(top, 'a job must be a JSON object');
  const job = tree?.kind === 'map' ? validateFile(tree, session) : undefined;
  if (job === undefined || session.faults.length > 0) {
    return { ok: false, faults: toFaults(session.faults, BODY, undefined) };
  }
  return { ok: true, job, warnings: toFaults(session.warnings, BODY, undefined) };
}

/** Stands for the file name in faults of a body. */
const BODY = 'body';

/** In the order of the text; at the same place, and in a body, in the order found. */
export function toFaults(findings: readonly Finding[], file: string, lines: LineIndex | undefined): Fault[] {
  const sorted = lines === undefined ? findings : [...findings].sort((a, b) => a.at - b.at);
  return sorted.map(({ at, path, message, hint }) => {
    const place = lines?.place(at);
    const words = { message: onOneLine(message), ...(hint === undefined ? {} : { hint: onOneLine(hint) }) };
    return { file, line: place?.line, column: place?.column, path, ...words };
  });
}

/** What is quoted from a file that is broken may go on over the end of its line. */
function onOneLine(words: string): string {
  return words.replace(/\s*[\r\n]\s*/g, ' ');
}
