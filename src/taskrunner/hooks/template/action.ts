/** Owns what is done to a task about changed templates: which of restart, signals and scripts, and the doing of it. */
import { AgentError, describeError } from '../../../base/errors.js';
import type { Template } from '../../../jobspec/types.js';
import type { WatchContext } from '../hook.js';

/** Of a script that failed the last of what it said is told: an event is a line or two. */
const MOST_TOLD_OUTPUT = 300;

/** What has to be done to the task. Kept as JSON from before a file is written until it is done. */
export interface Action {
  readonly restart: boolean;
  readonly signals: readonly string[];
  /** Of the templates whose `change_script` is to run, by their number. */
  readonly scripts: readonly number[];
}

/** A restart does what every signal and every script would. Each signal is sent once, each script run for its template. */
export function actionOf(changed: ReadonlyMap<number, Template>): Action {
  const templates = [...changed.values()];
  const signals = templates.flatMap(({ changeMode, changeSignal }) =>
    changeMode === 'signal' && changeSignal !== undefined ? [changeSignal] : [],
  );
  return {
    restart: templates.some(({ changeMode }) => changeMode === 'restart'),
    signals: [...new Set(signals)],
    scripts: [...changed].flatMap(([index, { changeMode }]) => (changeMode === 'script' ? [index] : [])),
  };
}

export function isNothing({ restart, signals, scripts }: Action): boolean {
  return !restart && signals.length === 0 && scripts.length === 0;
}

/** As it was kept; undefined when nothing was. Older agents knew no scripts. */
export function keptAction(text: string | undefined): Action | undefined {
  if (text === undefined) return undefined;
  const kept = JSON.parse(text) as Partial<Action>;
  return { restart: kept.restart ?? false, signals: kept.signals ?? [], scripts: kept.scripts ?? [] };
}

/** Does it. @returns false when the task or the agent went in the middle of it: then it is still to be done */
export async function perform(
  action: Action,
  templates: readonly Template[],
  context: WatchContext,
): Promise<boolean> {
  const { restart, sendSignal, emit } = context;
  try {
    if (action.restart) await restart('Template with change_mode restart re-rendered');
    else for (const signal of action.signals) await sendSignal(signal, 'Template re-rendered');
  } catch (error) {
    // Whatever keeps it from being told also keeps it from running on the old file for long.
    emit({ type: 'Task hook message', hook: 'template', message: describeError(error) });
  }
  if (action.restart) return true;
  for (const index of action.scripts) {
    const template = templates[index];
    if (template !== undefined && !(await runScript(template, context))) return false;
  }
  return true;
}

/** @returns false when it was cut short because the task or the agent goes */
async function runScript(template: Template, context: WatchContext): Promise<boolean> {
  const script = template.changeScript;
  if (script === undefined) return true;
  const { emit, kill, signal } = context;
  const { interpolate } = context.env();
  const command = interpolate(script.command);
  const what = `template ${template.destination}: change_script ${command}`;
  const why = await failureOf(
    context.exec(
      command,
      script.args.map((arg) => interpolate(arg)),
      { timeoutMs: script.timeoutMs, signal },
    ),
  );
  if (signal.aborted) return false;
  if (why === undefined) {
    emit({ type: 'Template', message: `${what}: exited 0`, fails: false });
  } else if (script.failOnError && why.isOfScript) {
    kill(`${what}: ${why.text}`, { type: 'Template', message: `${what}: ${why.text}`, fails: true });
  } else {
    emit({ type: 'Task hook message', hook: 'template', message: `${what}: ${why.text}` });
  }
  return true;
}

/** Why a script did not do its work. A task that is not there to run it in is no failure of the script. */
async function failureOf(
  running: ReturnType<WatchContext['exec']>,
): Promise<{ readonly text: string; readonly isOfScript: boolean } | undefined> {
  try {
    const { exitCode, output } = await running;
    if (exitCode === 0) return undefined;
    const said = output.trim().slice(-MOST_TOLD_OUTPUT);
    return { text: `exited ${exitCode}${said === '' ? '' : `: ${said}`}`, isOfScript: true };
  } catch (error) {
    const isOfScript = !(error instanceof AgentError && error.code === 'not_running');
    return { text: describeError(error), isOfScript };
  }
}
