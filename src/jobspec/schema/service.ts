/** Owns the keys of `service`. Nothing is registered anywhere: a service is what its checks are about. */
import type { BlockSpec, Keys } from '../blocks.js';
import { filledText, oneOf, texts } from '../values.js';
import { CHECK, checkRestart, onUpdate, portLabel } from './check.js';
import { one, repeated } from './key.js';

export const SERVICE = {
  name: 'service',
  keys: {
    name: one(filledText, {
      json: 'Name',
      type: 'string',
      default: '<job>-<group>[-<task>]',
      doc: 'Name for people: letters, digits and `-`, at most 63. May hold `${…}`.',
    }),
    provider: one(oneOf(['nomad']), {
      json: 'Provider',
      type: '`nomad`',
      default: 'nomad',
      doc: 'Who runs the checks: holdfast does. Services are registered nowhere.',
    }),
    port: one(portLabel, {
      json: 'PortLabel',
      type: 'label or number',
      doc: 'Where its checks ask, unless they say otherwise: the label of a port of `network`, or a number.',
    }),
    address: one(filledText, {
      json: 'Address',
      type: 'string',
      default: '127.0.0.1',
      doc: 'Where its checks ask.',
    }),
    tags: one(texts, { json: 'Tags', type: 'list of strings', doc: 'Kept, and shown.' }),
    task: one(filledText, {
      json: 'TaskName',
      type: 'string',
      doc: 'In a group: the task that the service belongs to.',
    }),
    on_update: onUpdate,
    check_restart: checkRestart,
    check: repeated(CHECK, { json: 'Checks', doc: 'Asked again and again while the task runs.' }),
  },
  notYet: {
    address_mode: 'AddressMode',
    canary_meta: 'CanaryMeta',
    canary_tags: 'CanaryTags',
    cluster: 'Cluster',
    connect: 'Connect',
    enable_tag_override: 'EnableTagOverride',
    identity: 'Identity',
    kind: 'Kind',
    meta: 'Meta',
    tagged_addresses: 'TaggedAddresses',
    weights: 'Weights',
  },
} as const satisfies BlockSpec<Keys>;
