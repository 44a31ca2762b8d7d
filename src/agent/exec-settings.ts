/** Owns the settings of the exec driver and of host volumes in the agent's config file. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import type { ExecSettings } from '../drivers/exec.js';
import type { HostVolume } from '../taskrunner/hooks/volumes.js';
import {
  CAPABILITIES,
  DEFAULT_CAPABILITIES,
  readCapability,
  type Capability,
} from '../jobspec/capability-names.js';

/** What an exec task sees of the host, as in Nomad: programs and libraries, and the names of users and hosts. */
export const DEFAULT_CHROOT_ENV: Readonly<Record<string, string>> = Object.fromEntries(
  [
    '/bin',
    '/etc',
    '/lib',
    '/lib32',
    '/lib64',
    '/run/resolvconf',
    '/run/systemd/resolve',
    '/sbin',
    '/usr',
  ].map((dir) => [dir, dir]),
);

const absolute = z.string().refine(isAbsolute, 'it must be an absolute path');

const capability = z.string().transform((text, context): Capability | 'all' => {
  const read = readCapability(text);
  if (typeof read !== 'object') return read;
  context.addIssue({ code: 'custom', message: read.fault });
  return z.NEVER;
});

/** The keys, for the schema of the file. */
export const EXEC_KEYS = {
  chroot_env: z.record(absolute, absolute).optional(),
  allow_caps: z.array(capability).optional(),
  host_volume: z
    .record(z.string(), z.strictObject({ path: absolute, read_only: z.boolean().optional() }))
    .optional(),
};

interface ExecFile {
  readonly chroot_env?: Readonly<Record<string, string>> | undefined;
  readonly allow_caps?: readonly (Capability | 'all')[] | undefined;
  readonly host_volume?:
    Readonly<Record<string, { readonly path: string; readonly read_only?: boolean | undefined }>> | undefined;
}

export function execSettings(file: ExecFile): ExecSettings {
  const caps = file.allow_caps ?? DEFAULT_CAPABILITIES;
  return {
    chrootEnv: file.chroot_env ?? DEFAULT_CHROOT_ENV,
    allowCaps: [...new Set(caps.flatMap((name) => (name === 'all' ? CAPABILITIES : [name])))],
  };
}

export function hostVolumes(file: ExecFile): Readonly<Record<string, HostVolume>> {
  return Object.fromEntries(
    Object.entries(file.host_volume ?? {}).map(([name, { path, read_only }]) => [
      name,
      { path, readOnly: read_only ?? false },
    ]),
  );
}
