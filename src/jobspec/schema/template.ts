/** Owns the keys of `template`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, DEFAULTS } from '../defaults.js';
import { formatDuration } from '../units.js';
import { CHANGE_MODES } from '../types.js';
import { bool, durationMs, filledText, oneOf, signal, text, texts, whole } from '../values.js';
import { block, one } from './key.js';

export const CHANGE_SCRIPT = {
  name: 'change_script',
  keys: {
    command: one(filledText, {
      json: 'Command',
      type: 'string',
      required: true,
      doc: 'Runs in the task, as its user, in what isolates it.',
    }),
    args: one(texts, { json: 'Args', type: 'list of strings', doc: 'Its arguments.' }),
    timeout: one(durationMs, {
      json: 'Timeout',
      type: 'duration',
      default: formatDuration(DEFAULTS.changeScriptTimeoutMs.value),
      doc: 'After so long all of it is killed, and it has failed.',
    }),
    fail_on_error: one(bool, {
      json: 'FailOnError',
      type: 'bool',
      default: String(DEFAULTS.changeScriptFailOnError.value),
      doc: 'A script that fails (any exit code but 0) ends the task as failed. Without it the failure is an event.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;

export const TEMPLATE = {
  name: 'template',
  keys: {
    data: one(text, {
      json: 'EmbeddedTmpl',
      type: 'string',
      doc: 'The template itself, most often a heredoc. This or `source`.',
    }),
    source: one(filledText, {
      json: 'SourcePath',
      type: 'string',
      doc: "A file that holds it, within the task's directory (an artifact, for example) or below a `template_host_paths` of the agent.",
    }),
    destination: one(filledText, {
      json: 'DestPath',
      type: 'string',
      required: true,
      doc: "The file to write, within the task's directory (or the alloc's, as `alloc/…`).",
    }),
    perms: one(text, {
      json: 'Perms',
      type: 'string (octal)',
      default: DEFAULTS.templatePerms.value,
      doc: 'Mode of the file.',
    }),
    uid: one(whole(BOUNDS.fileOwner), {
      json: 'Uid',
      type: 'number',
      doc: 'Its owner; without it (or -1), the user of the agent.',
    }),
    gid: one(whole(BOUNDS.fileOwner), { json: 'Gid', type: 'number', doc: 'Its group, as `uid`.' }),
    change_mode: one(oneOf(CHANGE_MODES), {
      json: 'ChangeMode',
      type: '`noop`, `restart`, `signal` or `script`',
      default: DEFAULTS.changeMode.value,
      doc: 'What follows for the running task when the file changes.',
    }),
    change_signal: one(signal, {
      json: 'ChangeSignal',
      type: 'signal',
      doc: 'With `change_mode = "signal"`: which one.',
    }),
    change_script: block(CHANGE_SCRIPT, {
      json: 'ChangeScript',
      doc: 'With `change_mode = "script"`: what runs in the task.',
    }),
    splay: one(durationMs, {
      json: 'Splay',
      type: 'duration',
      default: formatDuration(DEFAULTS.splayMs.value),
      doc: 'What follows a change waits a random part of this, so that not all do it at once.',
    }),
    env: one(bool, {
      json: 'Envvars',
      type: 'bool',
      default: String(DEFAULTS.templateEnv.value),
      doc: "The file holds lines `KEY=value`, which join the task's environment.",
    }),
    error_on_missing_key: one(bool, {
      json: 'ErrMissingKey',
      type: 'bool',
      default: String(DEFAULTS.errorOnMissingKey.value),
      doc: 'A key that a map has not is an error, instead of `<no value>` in the file.',
    }),
    once: one(bool, {
      json: 'Once',
      type: 'bool',
      default: String(DEFAULTS.templateOnce.value),
      doc: 'Render it before a start and do not watch what it was made of.',
    }),
    left_delimiter: one(filledText, {
      json: 'LeftDelim',
      type: 'string',
      default: DEFAULTS.leftDelimiter.value,
      doc: 'What opens an action.',
    }),
    right_delimiter: one(filledText, {
      json: 'RightDelim',
      type: 'string',
      default: DEFAULTS.rightDelimiter.value,
      doc: 'What closes it.',
    }),
  },
  notYet: { vault_grace: 'VaultGrace', wait: 'Wait' },
} as const satisfies BlockSpec<Keys>;
