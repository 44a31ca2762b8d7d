/**
 * Hook: renders the templates of a task before each start, and again while it runs when what they are made of changes;
 * then the task is restarted, signalled, or a script is run in it, as each template wishes.
 *
 * Kept are the fingerprints of what was rendered, so that the next agent sees what changed while there was none and
 * does nothing when nothing did; and what is still to be done about a change, from before the file is written until it
 * is done, so that a crash in between forgets no restart.
 */
import { sleep } from '../../base/clock.js';
import { AgentError, describeError } from '../../base/errors.js';
import type { Template } from '../../jobspec/types.js';
import type { HookContext, TaskHook, WatchContext } from './hook.js';
import { Directory, placeOf } from './place.js';
import { actionOf, isNothing, keptAction, perform, type Action } from './template/action.js';
import { parseEnvFile } from './template/env-file.js';
import { MissingInput, stampInput, type InputRules } from './template/inputs.js';
import type { Rendered } from './template/render.js';

/** How often files are looked at. A look is a few system calls for each of them. */
const POLL_MS = 1_000;
/** A fault that is there for so many looks is no file that is just being written. */
const FATAL_LOOKS = 5;
/** For files that are not there yet; then it is a failed start, and the policy decides. */
const DEADLINE_MS = 10 * 60_000;

const PENDING = 'pending';

export interface TemplateSettings {
  /** Files and directories of the host that templates may read. */
  readonly hostPaths: readonly string[];
}

export function templateHook(settings: TemplateSettings = { hostPaths: [] }): TaskHook {
  return {
    name: 'template',
    deadlinesMs: { prestart: DEADLINE_MS },
    concerns: ({ templates }) => templates !== undefined,
    prestart: async (context) => {
      const { templates } = context.task;
      if (templates === undefined) return undefined;
      let env: Readonly<Record<string, string>> = {};
      const data: Record<string, string> = {};
      const scripts = new Set(keptAction(context.data[PENDING])?.scripts);
      for (const [index, template] of templates.entries()) {
        const rendered = await renderWhenThere(template, context, rulesOf(context, settings));
        if (template.env) env = { ...env, ...(await named(template, () => parseEnvFile(rendered.text))) };
        // A start does what a restart or a signal would; what a script does it cannot know.
        if (template.changeMode === 'script' && !(await isWritten(template, rendered.text, context))) {
          scripts.add(index);
          await context.save({ ...context.data, ...pending(scripts) });
        }
        await named(template, () => write(template, rendered.text, context));
        data[String(index)] = rendered.fingerprint;
      }
      return { env, data: { ...data, ...pending(scripts) } };
    },
    watch: async (context) => {
      const { templates } = context.task;
      if (templates !== undefined) await new Watcher(templates, context, rulesOf(context, settings)).run();
    },
  };
}

/** Scripts that are to run once the task does. */
function pending(scripts: ReadonlySet<number>): Readonly<Record<string, string>> {
  if (scripts.size === 0) return {};
  const action: Action = { restart: false, signals: [], scripts: [...scripts] };
  return { [PENDING]: JSON.stringify(action) };
}

function rulesOf({ dirs }: HookContext, { hostPaths }: TemplateSettings): InputRules {
  return { dirs, hostPaths };
}

/** Waits for files that are missing. */
async function renderWhenThere(
  template: Template,
  context: HookContext,
  rules: InputRules,
): Promise<Rendered> {
  for (let missing = ''; ;) {
    try {
      const { render } = await import('./template/render.js');
      return await named(template, () => render(template, context, rules));
    } catch (error) {
      if (!(error instanceof MissingInput)) throw error;
      if (error.path !== missing) {
        missing = error.path;
        context.emit({ type: 'Template', message: `Missing: file(${missing})`, fails: false });
        context.waitFor(`file ${missing} for template ${template.destination}`);
      }
    }
    await sleep(context.clock, POLL_MS, context.signal);
    context.signal.throwIfAborted();
  }
}

/** Says which template it is. */
async function named<T>(template: Template, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof MissingInput) throw cause;
    throw new AgentError('hook_failed', `template ${template.destination}: ${describeError(cause)}`, {
      recoverable: cause instanceof AgentError && cause.recoverable,
      cause,
    });
  }
}

function destinationOf(
  template: Template,
  { hostEnv, dirs }: HookContext,
): { readonly root: string; readonly above: readonly string[]; readonly name: string } {
  const { root, names, shown } = placeOf(hostEnv().interpolate(template.destination), dirs);
  const name = names.at(-1);
  if (name === undefined) throw new AgentError('hook_failed', `${shown} is a directory, not a file`);
  return { root, above: names.slice(0, -1), name };
}

/** Writes the file when it is not like that already. */
async function write(template: Template, text: string, context: HookContext): Promise<void> {
  if (await isWritten(template, text, context)) return;
  const { root, above, name } = destinationOf(template, context);
  await using directory = await Directory.open(root, above, true);
  const { perms, uid, gid } = template;
  await directory.replaceFile(name, { mode: Number.parseInt(perms, 8), uid, gid }, async (handle) => {
    await handle.writeFile(text);
  });
}

async function isWritten(template: Template, text: string, context: HookContext): Promise<boolean> {
  const { root, above, name } = destinationOf(template, context);
  try {
    await using directory = await Directory.open(root, above, false);
    await using file = await directory.openFile(name);
    const { size, mode } = await file.stat();
    if (size !== Buffer.byteLength(text) || (mode & 0o777) !== Number.parseInt(template.perms, 8))
      return false;
    return (await file.readFile('utf8')) === text;
  } catch {
    // Whatever is there instead is replaced, or writing says why not.
    return false;
  }
}

/** Looks after the templates of one run. */
class Watcher {
  readonly #templates: readonly Template[];
  readonly #context: WatchContext;
  readonly #rules: InputRules;
  readonly #stamps = new Map<number, ReadonlyMap<string, string>>();
  readonly #faults = new Map<number, { readonly text: string; readonly looks: number }>();
  #data: Readonly<Record<string, string>>;
  /** The trouble that was told last. */
  #told = '';

  constructor(templates: readonly Template[], context: WatchContext, rules: InputRules) {
    this.#templates = templates;
    this.#context = context;
    this.#rules = rules;
    this.#data = context.data;
  }

  /** Until the signal aborts, or the task cannot go on, or there is nothing to look at. */
  async run(): Promise<void> {
    const { signal, clock } = this.#context;
    const left = keptAction(this.#data[PENDING]);
    if (left !== undefined) await this.#act(left);
    for (;;) {
      const changed = new Map<number, Rendered>();
      for (const [index, template] of this.#templates.entries()) {
        if (signal.aborted) return;
        const rendered = template.once ? undefined : await this.#look(index, template);
        if (rendered !== undefined) changed.set(index, rendered);
      }
      if (signal.aborted) return;
      if (changed.size > 0) await this.#tryApply(changed);
      // Variables and facts do not change while an agent runs.
      if ([...this.#stamps.values()].every((files) => files.size === 0) && this.#faults.size === 0) return;
      await sleep(clock, POLL_MS, signal);
    }
  }

  /** @returns what came out, when it is made of something else than what was rendered last */
  async #look(index: number, template: Template): Promise<Rendered | undefined> {
    try {
      if (await this.#isUnchanged(index)) return undefined;
      const { render } = await import('./template/render.js');
      const rendered = await render(template, this.#context, this.#rules);
      if (template.env) parseEnvFile(rendered.text);
      this.#faults.delete(index);
      this.#stamps.set(index, rendered.files);
      return rendered.fingerprint === this.#data[String(index)] ? undefined : rendered;
    } catch (error) {
      this.#onFault(index, template, error);
      return undefined;
    }
  }

  async #isUnchanged(index: number): Promise<boolean> {
    const stamps = this.#stamps.get(index);
    if (stamps === undefined || this.#faults.has(index)) return false;
    for (const [path, stamp] of stamps) {
      if ((await stampInput(path, this.#rules)) !== stamp) return false;
    }
    return true;
  }

  /** A file that is gone may come back. Anything else that stays is the end: the task runs on what nobody can renew. */
  #onFault(index: number, template: Template, error: unknown): void {
    const text = describeError(error);
    const looks = (this.#faults.get(index)?.looks ?? 0) + 1;
    this.#faults.set(index, { text, looks });
    const { emit, kill } = this.#context;
    const message = `template ${template.destination}: ${text}`;
    if (error instanceof MissingInput) {
      if (looks === 1) emit({ type: 'Template', message: `Missing: file(${error.path})`, fails: false });
    } else if (looks === FATAL_LOOKS) {
      kill(message, { type: 'Template', message, fails: true });
    }
  }

  /** A disk that is full, a link in the way: told once, and tried again with the next look. */
  async #tryApply(changed: ReadonlyMap<number, Rendered>): Promise<void> {
    const before = this.#data;
    try {
      await this.#apply(changed);
    } catch (error) {
      if (this.#context.signal.aborted) return;
      this.#data = before;
      for (const index of changed.keys()) this.#stamps.delete(index);
      const message = describeError(error);
      if (message === this.#told) return;
      this.#told = message;
      this.#context.emit({ type: 'Task hook message', hook: 'template', message });
    }
  }

  async #apply(changed: ReadonlyMap<number, Rendered>): Promise<void> {
    const { save, emit, clock, signal } = this.#context;
    const differing = new Map<number, { readonly template: Template; readonly text: string }>();
    let data = this.#data;
    for (const [index, { text, fingerprint }] of changed) {
      const template = this.#templates[index];
      data = { ...data, [String(index)]: fingerprint };
      if (template !== undefined && !(await isWritten(template, text, this.#context))) {
        differing.set(index, { template, text });
      }
    }
    const templates = [...differing.values()].map(({ template }) => template);
    const action = actionOf(new Map([...differing].map(([index, { template }]) => [index, template])));
    this.#data = isNothing(action) ? data : { ...data, [PENDING]: JSON.stringify(action) };
    await save(this.#data);
    for (const { template, text } of differing.values()) {
      await named(template, () => write(template, text, this.#context));
    }
    if (templates.length === 0) return;
    this.#told = '';
    const names = templates.map(({ destination }) => destination).join(', ');
    emit({ type: 'Template', message: `Rendered anew: ${names}`, fails: false });
    if (isNothing(action)) return;
    await sleep(clock, clock.roll() * Math.max(...templates.map(({ splayMs }) => splayMs)), signal);
    if (!signal.aborted) await this.#act(action);
  }

  async #act(action: Action): Promise<void> {
    if (!(await perform(action, this.#templates, this.#context))) return;
    this.#data = Object.fromEntries(Object.entries(this.#data).filter(([key]) => key !== PENDING));
    // After a restart the next start has its own word about what was rendered.
    if (!action.restart) await this.#context.save(this.#data);
  }
}
