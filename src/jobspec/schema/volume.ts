/** Owns the keys of `volume` (of a group) and `volume_mount` (of a task). */
import type { BlockSpec, Keys } from '../blocks.js';
import { bool, filledText, oneOf } from '../values.js';
import { one } from './key.js';

export const VOLUME = {
  name: 'volume',
  keys: {
    type: one(oneOf(['host']), {
      json: 'Type',
      type: '`host`',
      required: true,
      doc: 'A directory that the agent offers under `host_volume` in its configuration.',
    }),
    source: one(filledText, {
      json: 'Source',
      type: 'string',
      required: true,
      doc: 'Its name there.',
    }),
    read_only: one(bool, {
      json: 'ReadOnly',
      type: 'bool',
      default: 'false',
      doc: 'No task may write to it. What the agent offers read-only is so in any case.',
    }),
  },
  notYet: {
    access_mode: 'AccessMode',
    attachment_mode: 'AttachmentMode',
    mount_options: 'MountOptions',
    per_alloc: 'PerAlloc',
    sticky: 'Sticky',
  },
  records: ['Name'],
} as const satisfies BlockSpec<Keys>;

export const VOLUME_MOUNT = {
  name: 'volume_mount',
  keys: {
    volume: one(filledText, {
      json: 'Volume',
      type: 'string',
      required: true,
      doc: "Label of one of the group's `volume` blocks.",
    }),
    destination: one(filledText, {
      json: 'Destination',
      type: 'string',
      required: true,
      doc: 'Where the task sees it, absolute, outside of `/dev`, `/proc` and `/sys`: a task has its own there. Only a driver with a root of its own (`exec`) can mount.',
    }),
    read_only: one(bool, {
      json: 'ReadOnly',
      type: 'bool',
      default: 'false',
      doc: 'This task may not write to it.',
    }),
  },
  notYet: { propagation_mode: 'PropagationMode', selinux_label: 'SELinuxLabel' },
} as const satisfies BlockSpec<Keys>;
