/** Owns the settings of the exec driver and of host volumes: what they are when the config file says nothing. */
import type { ExecSettings } from '../drivers/exec.js';
import type { HostVolume } from '../taskrunner/hooks/volumes.js';
import { CAPABILITIES, DEFAULT_CAPABILITIES, type Capability } from '../jobspec/capability-names.js';

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
