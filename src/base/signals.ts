/** Owns signal names and numbers of Linux. An unknown name is an error, never a substitute. */
import { constants } from 'node:os';
import { AgentError } from './errors.js';

/** First and last real-time signal that glibc and musl leave to programs. */
const SIGRTMIN = 34;
const SIGRTMAX = 64;

const NUMBERS = new Map<string, number>(Object.entries(constants.signals));
const NAMES = new Map<number, string>();
for (const [name, number] of NUMBERS) if (!NAMES.has(number)) NAMES.set(number, name);

/**
 * Number of a signal given as `SIGTERM`, `term`, `15` or `SIGRTMIN+3`.
 * @throws AgentError signal_unknown
 */
export function signalNumber(text: string): number {
  const upper = text.trim().toUpperCase();
  if (/^\d+$/.test(upper)) {
    const number = Number(upper);
    if (number >= 1 && number <= SIGRTMAX) return number;
  }
  const name = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  const realTime = /^SIGRT(MIN|MAX)(?:([+-])(\d+))?$/.exec(name);
  if (realTime !== null) {
    const base = realTime[1] === 'MIN' ? SIGRTMIN : SIGRTMAX;
    const number = base + (realTime[2] === '-' ? -1 : 1) * Number(realTime[3] ?? 0);
    if (number >= SIGRTMIN && number <= SIGRTMAX) return number;
  }
  const number = NUMBERS.get(name);
  if (number === undefined) {
    throw new AgentError(
      'signal_unknown',
      `unknown signal ${JSON.stringify(text)}: use a name such as SIGTERM, or a number`,
    );
  }
  return number;
}

/** Name of a signal for display: `SIGTERM`, `SIGRTMIN+3`. */
export function signalName(number: number): string {
  const name = NAMES.get(number);
  if (name !== undefined) return name;
  if (number >= SIGRTMIN && number <= SIGRTMAX)
    return number === SIGRTMIN ? 'SIGRTMIN' : `SIGRTMIN+${number - SIGRTMIN}`;
  return `signal ${number}`;
}
