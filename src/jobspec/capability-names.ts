/** Owns the names and numbers of Linux capabilities (capabilities(7)), and Nomad's default set. Pure. */
import { didYouMean } from './words.js';

/** By their number. */
export const CAPABILITIES = [
  'chown',
  'dac_override',
  'dac_read_search',
  'fowner',
  'fsetid',
  'kill',
  'setgid',
  'setuid',
  'setpcap',
  'linux_immutable',
  'net_bind_service',
  'net_broadcast',
  'net_admin',
  'net_raw',
  'ipc_lock',
  'ipc_owner',
  'sys_module',
  'sys_rawio',
  'sys_chroot',
  'sys_ptrace',
  'sys_pacct',
  'sys_admin',
  'sys_boot',
  'sys_nice',
  'sys_resource',
  'sys_time',
  'sys_tty_config',
  'mknod',
  'lease',
  'audit_write',
  'audit_control',
  'setfcap',
  'mac_override',
  'mac_admin',
  'syslog',
  'wake_alarm',
  'block_suspend',
  'audit_read',
  'perfmon',
  'bpf',
  'checkpoint_restore',
] as const;

export type Capability = (typeof CAPABILITIES)[number];

/** What Nomad's exec driver leaves a task, and what a job file may add, unless the agent is configured otherwise. */
export const DEFAULT_CAPABILITIES: readonly Capability[] = [
  'audit_write',
  'chown',
  'dac_override',
  'fowner',
  'fsetid',
  'kill',
  'mknod',
  'net_bind_service',
  'setfcap',
  'setgid',
  'setpcap',
  'setuid',
  'sys_chroot',
];

/** One name as people write it, `CAP_NET_ADMIN` or `net_admin`; `all` stands for every one. */
export function readCapability(text: string): Capability | 'all' | { readonly fault: string } {
  const name = text.toLowerCase().replace(/^cap_/, '');
  if (name === 'all') return 'all';
  const known = CAPABILITIES.find((candidate) => candidate === name);
  if (known !== undefined) return known;
  const hint = didYouMean(name, CAPABILITIES);
  return {
    fault: `there is no capability ${JSON.stringify(text)}${hint === undefined ? '' : `; ${hint}`}`,
  };
}

/** The set as the kernel writes it. Numbers are exact: the highest bit is far below 2^53. */
export function capabilityMask(names: Iterable<Capability>): number {
  return [...new Set(names)].reduce((mask, name) => mask + 2 ** CAPABILITIES.indexOf(name), 0);
}

/** The names in a mask, such as the hexadecimal ones of /proc/<pid>/status. */
export function capabilityNames(mask: bigint): Capability[] {
  return CAPABILITIES.filter((_, bit) => ((mask >> BigInt(bit)) & 1n) === 1n);
}
