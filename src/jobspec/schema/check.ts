/** Owns the keys of `check` and `check_restart`. */
import type { BlockSpec, Keys } from '../blocks.js';
import { BOUNDS, CHECK_DEFAULTS } from '../defaults.js';
import type { MapNode, Tree } from '../tree.js';
import { CHECK_STATUSES, CHECK_TYPES, ON_UPDATE } from '../types.js';
import { formatDuration } from '../units.js';
import { bool, durationMs, filledText, oneOf, text, texts, whole, type Reader } from '../values.js';
import { block, one } from './key.js';

/** A map of lists of strings, as HTTP headers are. */
const headers: Reader<Readonly<Record<string, readonly string[]>>> = (node, spot, session) => {
  if (node.kind !== 'map') return session.wanted('a map of lists of strings', node, spot);
  const read = new Map<string, readonly string[]>();
  for (const { key, value } of bodyOf(node)) {
    const list = texts(value, { at: value.at, path: `${spot.path}.${key}` }, session);
    if (list === null) return null;
    read.set(key, list);
  }
  return Object.fromEntries(read);
};

function bodyOf(node: MapNode): readonly { readonly key: string; readonly value: Tree }[] {
  return node.entries;
}

/** A number of a port, or the label of one. */
export const portLabel: Reader<string> = (node, spot, session) =>
  node.kind === 'scalar' && typeof node.value === 'number' && session.dialect !== 'json'
    ? node.written
    : filledText(node, spot, session);

export const onUpdate = one(oneOf(ON_UPDATE), {
  json: 'OnUpdate',
  type: ON_UPDATE.map((word) => `\`${word}\``).join(', '),
  default: CHECK_DEFAULTS.onUpdate,
  doc: 'What the health of an allocation asks of it: to pass, not to fail, or nothing.',
});

export const CHECK_RESTART = {
  name: 'check_restart',
  keys: {
    limit: one(whole(BOUNDS.checkLimit), {
      json: 'Limit',
      type: 'number',
      default: '0',
      doc: 'Restart the task after so many failures in a row, by its restart policy; 0 = never.',
    }),
    grace: one(durationMs, {
      json: 'Grace',
      type: 'duration',
      default: formatDuration(CHECK_DEFAULTS.graceMs),
      doc: 'After each start of the task failures do not count for so long.',
    }),
    ignore_warnings: one(bool, {
      json: 'IgnoreWarnings',
      type: 'bool',
      default: 'false',
      doc: 'A warning is no failure.',
    }),
  },
  notYet: {},
} as const satisfies BlockSpec<Keys>;

export const checkRestart = block(CHECK_RESTART, {
  json: 'CheckRestart',
  doc: 'When failing restarts the task. On a service: for all its checks that do not say otherwise.',
});

export const CHECK = {
  name: 'check',
  keys: {
    name: one(filledText, {
      json: 'Name',
      type: 'string',
      default: 'made of service and type',
      doc: 'Name for people.',
    }),
    type: one(oneOf(CHECK_TYPES), {
      json: 'Type',
      type: '`http`, `tcp` or `script`',
      required: true,
      doc: 'Passes on: an answer from 200 to 299 (429 is a warning) · a connection · exit code 0 (1 is a warning).',
    }),
    interval: one(durationMs, {
      json: 'Interval',
      type: 'duration',
      required: true,
      doc: 'Time between two; at least 1s.',
    }),
    timeout: one(durationMs, {
      json: 'Timeout',
      type: 'duration',
      required: true,
      doc: 'What takes longer has failed; at least 1s.',
    }),
    port: one(portLabel, {
      json: 'PortLabel',
      type: 'label or number',
      default: 'of the service',
      doc: 'Where `http` and `tcp` ask.',
    }),
    protocol: one(oneOf(['http', 'https']), {
      json: 'Protocol',
      type: '`http` or `https`',
      default: CHECK_DEFAULTS.protocol,
      doc: 'For `http`.',
    }),
    path: one(text, { json: 'Path', type: 'string', default: CHECK_DEFAULTS.path, doc: 'For `http`.' }),
    method: one(filledText, {
      json: 'Method',
      type: 'string',
      default: CHECK_DEFAULTS.method,
      doc: 'For `http`.',
    }),
    header: one(headers, { json: 'Header', type: 'map of lists of strings', doc: 'For `http`.' }),
    body: one(text, { json: 'Body', type: 'string', doc: 'For `http`.' }),
    tls_skip_verify: one(bool, {
      json: 'TLSSkipVerify',
      type: 'bool',
      default: 'false',
      doc: 'For `https`: take any certificate.',
    }),
    tls_server_name: one(filledText, {
      json: 'TLSServerName',
      type: 'string',
      doc: 'For `https`: the name that the certificate must be for.',
    }),
    command: one(filledText, { json: 'Command', type: 'string', doc: 'For `script`: runs in the task.' }),
    args: one(texts, { json: 'Args', type: 'list of strings', doc: 'For `script`.' }),
    task: one(filledText, {
      json: 'TaskName',
      type: 'string',
      default: 'of the service',
      doc: 'The task that a `script` runs in, and that is restarted. Without one, all main tasks are meant.',
    }),
    initial_status: one(oneOf(CHECK_STATUSES), {
      json: 'InitialStatus',
      type: CHECK_STATUSES.map((word) => `\`${word}\``).join(', '),
      default: 'none: it is not known',
      doc: 'Counts until the first answer.',
    }),
    success_before_passing: one(whole(BOUNDS.checkLimit), {
      json: 'SuccessBeforePassing',
      type: 'number',
      default: '0',
      doc: 'So many successes in a row before it passes.',
    }),
    failures_before_critical: one(whole(BOUNDS.checkLimit), {
      json: 'FailuresBeforeCritical',
      type: 'number',
      default: '0',
      doc: 'So many failures in a row before it fails.',
    }),
    on_update: onUpdate,
    check_restart: checkRestart,
  },
  notYet: {
    address_mode: 'AddressMode',
    advertise: 'Advertise',
    expose: 'Expose',
    failures_before_warning: 'FailuresBeforeWarning',
    grpc_service: 'GRPCService',
    grpc_use_tls: 'GRPCUseTLS',
    notes: 'Notes',
  },
} as const satisfies BlockSpec<Keys>;
