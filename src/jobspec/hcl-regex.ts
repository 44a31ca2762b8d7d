/**
 * Owns the functions that take a regular expression. Job files write those of Go (RE2); those of JavaScript mean the same but
 * for the way names and flags are written, which is turned here.
 */
import { createContext, Script, type Context } from 'node:vm';
import { list, spec, text, type Call, type FunctionSpec } from './hcl-call.js';
import { mapNode, nullNode, textNode } from './hcl-made.js';
import type { Tree } from './tree.js';

/** Nobody writes that much into a job file. */
const LONGEST_SUBJECT = 64 * 1024;
/** `(a+)+$` may look at a short text for ever, and the daemon reads job files too: far more than any good one takes. */
const LONGEST_MS = 500;
const MATCH = new Script('[...subject.matchAll(pattern)]');
let context: Context | undefined;

/** @throws ExpressionFault when it is none */
function patternOf(call: Call, written: string): RegExp {
  const [, letters = '', rest = ''] = /^(?:\(\?([imsU]+)\))?([^]*)$/.exec(written) ?? [];
  const flags = `dgu${['i', 'm', 's'].filter((letter) => letters.includes(letter)).join('')}`;
  const source = rest
    .replaceAll('(?P<', '(?<')
    .replace(/\\([^])/g, (all, letter: string) => turned(letter) ?? all);
  try {
    return new RegExp(source, flags);
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^.*: /, '') : String(error);
    return call.fail(`${JSON.stringify(written)} is no regular expression: ${why}`);
  }
}

/** What JavaScript writes otherwise; undefined = the same. */
function turned(letter: string): string | undefined {
  if (letter === 'A') return '(?<![^])';
  if (letter === 'z') return '(?![^])';
  if (letter === '-') return '\\x2d';
  // A mark that means nothing may have a backslash in RE2.
  return /[\w^$\\.*+?()[\]{}|/]/.test(letter) ? undefined : letter;
}

function matchesIn(call: Call, pattern: RegExp, subject: string): readonly RegExpExecArray[] {
  if (subject.length > LONGEST_SUBJECT) call.fail('the text is longer than 64 KiB');
  call.budget.spend(1, call.at);
  context ??= createContext();
  Object.assign(context, { subject, pattern });
  let found: readonly RegExpExecArray[];
  try {
    // Only a script of its own can be interrupted.
    found = [...(MATCH.runInContext(context, { timeout: LONGEST_MS }) as readonly RegExpExecArray[])];
  } catch (error) {
    // An error of its context is no Error of ours.
    const isLate = typeof error === 'object' && error !== null && 'code' in error;
    if (!isLate || error.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    call.budget.exhaust();
    return call.fail(`${JSON.stringify(pattern.source)} takes too long`, 'no repetition within a repetition');
  }
  call.budget.spend(found.length, call.at);
  return found;
}

/** The whole of a match, or its groups: a map when they have names, else a list. */
function matchNode(call: Call, match: RegExpExecArray): Tree {
  const node = (value: string | undefined): Tree =>
    value === undefined ? nullNode(call.at) : textNode(call.at, value);
  if (match.groups !== undefined)
    return mapNode(
      call.at,
      new Map(Object.entries(match.groups).map(([name, value]) => [name, node(value)])),
    );
  const [whole, ...groups] = match;
  return groups.length === 0 ? node(whole) : list(call, groups.map(node));
}

/** Replaces each match; `$1`, `${1}`, `$name` and `${name}` stand for its groups, `$$` for a `$`. */
export function replacePattern(
  call: Call,
  { subject, pattern, by }: { readonly subject: string; readonly pattern: string; readonly by: string },
): Tree {
  let made = '';
  let at = 0;
  for (const match of matchesIn(call, patternOf(call, pattern), subject)) {
    made += subject.slice(at, match.index) + expand(match, by);
    at = match.index + match[0].length;
  }
  return text(call, made + subject.slice(at));
}

function expand(match: RegExpExecArray, by: string): string {
  // In a job file `${` is written `$${`.
  return by
    .replaceAll('$${', '${')
    .replace(/\$(?:\$|(\w+)|\{(\w+)\})/g, (all, bare?: string, braced?: string) => {
      const name = bare ?? braced;
      if (name === undefined) return all.slice(1);
      return (/^\d+$/.test(name) ? match[Number(name)] : match.groups?.[name]) ?? '';
    });
}

export const REGEX_FUNCTIONS: readonly (readonly [string, FunctionSpec])[] = [
  [
    'regex',
    spec(2, 2, (call) => {
      const [pattern, subject] = [call.knownText(0), call.knownText(1)];
      const [first] = matchesIn(call, patternOf(call, pattern), subject);
      return first === undefined
        ? call.fail(
            `${JSON.stringify(pattern)} is nowhere in ${JSON.stringify(subject.slice(0, 60))}`,
            'can(regex(…)) asks',
          )
        : matchNode(call, first);
    }),
  ],
  [
    'regexall',
    spec(2, 2, (call) =>
      list(
        call,
        matchesIn(call, patternOf(call, call.knownText(0)), call.knownText(1)).map((match) =>
          matchNode(call, match),
        ),
      ),
    ),
  ],
  [
    'regex_replace',
    spec(3, 3, (call) =>
      replacePattern(call, { subject: call.knownText(0), pattern: call.knownText(1), by: call.textOf(2) }),
    ),
  ],
];
