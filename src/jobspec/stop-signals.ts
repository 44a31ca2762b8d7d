/** Owns `stop_signals`: how a ladder is written, and what must hold between it and the keys beside it. */
import { AgentError } from '../base/errors.js';
import { signalName, signalNumber } from '../base/signals.js';
import type { Found } from './blocks.js';
import { nameOf, type Session, type Spot } from './session.js';
import type { StopSignal } from './types.js';
import { formatDuration, readDuration } from './units.js';
import { listOfTexts, texts, type Reader } from './values.js';

/** `"SIGTERM:10s"`, or `"SIGTERM"` for a share of `kill_timeout`. */
export const stopSignals: Reader<readonly StopSignal[]> = (node, spot, session) => {
  // In Nomad's JSON an empty list means: not set.
  const list = session.dialect === 'json' ? listOfTexts(node, spot, session) : texts(node, spot, session);
  if (list === null) return null;
  const read = list.map((text) => readOne(text, spot, session));
  return read.every((one) => one !== null) ? read : null;
};

function readOne(text: string, spot: Spot, session: Session): StopSignal | null {
  const [name = '', ...wait] = text.split(':');
  const refuse = (why: string): null =>
    session.fault(
      spot,
      `${nameOf(spot)}: ${JSON.stringify(text)}: ${why}`,
      'write signals like `"SIGTERM:10s"`',
    );
  try {
    const signal = signalName(signalNumber(name));
    if (wait.length === 0) return { signal, waitMs: undefined };
    const read = readDuration(wait.join(':'));
    return read.ok ? { signal, waitMs: read.value } : refuse(read.why);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return refuse(error.message);
  }
}

/** What a ladder asks for is one thing with `kill_signal` and `kill_timeout`: they must not say something else. */
export function checkStopSignals(
  keys: {
    readonly stop_signals: Found<readonly StopSignal[]> | undefined;
    readonly kill_signal: Found<string> | undefined;
    readonly kill_timeout: Found<number> | undefined;
  },
  defaultTimeoutMs: number,
  session: Session,
): { readonly stopSignals?: readonly StopSignal[]; readonly killTimeoutMs: number } {
  const ladder = keys.stop_signals;
  if (ladder === undefined || ladder.value.length === 0) {
    return { killTimeoutMs: keys.kill_timeout?.value ?? defaultTimeoutMs };
  }
  if (keys.kill_signal !== undefined) {
    session.fault(
      keys.kill_signal.spot,
      '`kill_signal` and `stop_signals` cannot both be set',
      'remove `kill_signal`',
    );
  }
  const namedMs = ladder.value.reduce((sum, { waitMs }) => sum + (waitMs ?? 0), 0);
  const isAllNamed = ladder.value.every(({ waitMs }) => waitMs !== undefined);
  const killTimeoutMs =
    keys.kill_timeout?.value ?? (isAllNamed ? namedMs : Math.max(defaultTimeoutMs, namedMs));
  if (namedMs > killTimeoutMs) {
    const [named, most] = [namedMs, killTimeoutMs].map(formatDuration);
    session.fault(
      ladder.spot,
      `${nameOf(ladder.spot)}: the waits add up to ${named ?? ''}, which is more than the \`kill_timeout\` of ${most ?? ''}`,
      'raise `kill_timeout`, or leave it out',
    );
  }
  return { stopSignals: ladder.value, killTimeoutMs };
}
