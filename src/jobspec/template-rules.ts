/** Owns the rules of `template` between keys, among them that the template itself can be read. */
import { tellOut } from './artifact-rules.js';
import type { BlockRead, Found } from './blocks.js';
import { DEFAULTS } from './defaults.js';
import type { CHANGE_SCRIPT, TEMPLATE } from './schema/template.js';
import { nameOf, type Session, type Spot } from './session.js';
import { TemplateFault } from './template/nodes.js';
import { parseTemplate } from './template/parse.js';
import { LineIndex } from './tree.js';
import type { ChangeScript, Template } from './types.js';
import { quote } from './words.js';

export function buildTemplate(read: BlockRead<typeof TEMPLATE.keys>, session: Session): Template {
  const { keys } = read;
  const template: Template = {
    ...(keys.data === undefined ? {} : { data: keys.data.value }),
    ...(keys.source === undefined ? {} : { source: keys.source.value }),
    destination: keys.destination?.value ?? '',
    perms: keys.perms?.value ?? DEFAULTS.templatePerms.value,
    ...ownerOf('uid', keys.uid),
    ...ownerOf('gid', keys.gid),
    changeMode: keys.change_mode?.value ?? DEFAULTS.changeMode.value,
    ...(keys.change_signal === undefined ? {} : { changeSignal: keys.change_signal.value }),
    ...(keys.change_script === undefined ? {} : { changeScript: scriptOf(keys.change_script.value) }),
    splayMs: keys.splay?.value ?? DEFAULTS.splayMs.value,
    env: keys.env?.value ?? DEFAULTS.templateEnv.value,
    errorOnMissingKey: keys.error_on_missing_key?.value ?? DEFAULTS.errorOnMissingKey.value,
    once: keys.once?.value ?? DEFAULTS.templateOnce.value,
    leftDelimiter: keys.left_delimiter?.value ?? DEFAULTS.leftDelimiter.value,
    rightDelimiter: keys.right_delimiter?.value ?? DEFAULTS.rightDelimiter.value,
  };
  if (read.clean) check(template, read, { at: read.at, path: read.path }, session);
  return template;
}

function scriptOf({ keys }: BlockRead<typeof CHANGE_SCRIPT.keys>): ChangeScript {
  return {
    command: keys.command?.value ?? '',
    args: keys.args?.value ?? [],
    timeoutMs: keys.timeout?.value ?? DEFAULTS.changeScriptTimeoutMs.value,
    failOnError: keys.fail_on_error?.value ?? DEFAULTS.changeScriptFailOnError.value,
  };
}

function ownerOf(
  key: 'uid' | 'gid',
  found: Found<number> | undefined,
): Partial<Record<'uid' | 'gid', number>> {
  // -1 is how Nomad says "not set".
  return found === undefined || found.value === -1 ? {} : { [key]: found.value };
}

function check(
  template: Template,
  read: BlockRead<typeof TEMPLATE.keys>,
  place: Spot,
  session: Session,
): void {
  const { keys } = read;
  if (template.data === undefined && template.source === undefined) {
    session.fault(place, 'block `template` needs `data` or `source`');
  }
  if (keys.data !== undefined && keys.source !== undefined) {
    session.fault(keys.source.spot, '`data` and `source` cannot stand together');
  }
  if (keys.destination !== undefined) tellOut(keys.destination, "the task's directory", session);
  if (keys.perms !== undefined && !/^0?[0-7]{3}$/.test(keys.perms.value)) {
    const found = quote(keys.perms.value);
    session.fault(
      keys.perms.spot,
      `${nameOf(keys.perms.spot)}: expected a mode such as "0644", found ${found}`,
    );
  }
  checkChange(template, read, place, session);
  if (keys.data !== undefined) checkText(keys.data, template, session);
}

function checkChange(
  { changeMode, changeSignal, changeScript, env }: Template,
  { keys }: BlockRead<typeof TEMPLATE.keys>,
  place: Spot,
  session: Session,
): void {
  const spot = keys.change_mode?.spot ?? place;
  if (changeMode === 'script' && changeScript === undefined) {
    session.fault(spot, '`change_mode` "script" needs a block `change_script`');
  }
  if (changeMode !== 'script' && keys.change_script !== undefined) {
    session.fault(keys.change_script.spot, '`change_script` needs `change_mode = "script"`');
  }
  if (changeMode === 'signal' && changeSignal === undefined) {
    session.fault(spot, '`change_mode` "signal" needs `change_signal`');
  }
  if (changeMode !== 'signal' && keys.change_signal !== undefined) {
    session.fault(keys.change_signal.spot, '`change_signal` needs `change_mode = "signal"`');
  }
  if (changeMode === 'signal' && env) {
    session.fault(
      spot,
      '`env` and `change_mode` "signal" do not go together: a signal changes no environment',
    );
  }
}

function checkText({ value, spot }: Found<string>, template: Template, session: Session): void {
  try {
    parseTemplate(value, { left: template.leftDelimiter, right: template.rightDelimiter });
  } catch (error) {
    if (!(error instanceof TemplateFault)) throw error;
    const exact = session.within(spot, value, error.at);
    const { line, column } = new LineIndex(value).place(error.at);
    const where = exact === undefined ? `line ${line}, column ${column} of the template: ` : '';
    session.fault(exact ?? spot, `${where}${error.message}`);
  }
}
