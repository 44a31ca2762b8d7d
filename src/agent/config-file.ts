/** Owns the agent's config file: its keys, and reading and checking it. YAML, so JSON will do. */
import { readFile } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import type * as Yaml from 'yaml';
import { z } from 'zod';
import { AgentError, describeError } from '../base/errors.js';
import { loadPackage } from '../base/lazy.js';
import { LOG_LEVELS } from '../base/log.js';
import { readCapability, type Capability } from '../jobspec/capability-names.js';
import { readDuration } from '../jobspec/units.js';

const absolute = z.string().refine(isAbsolute, 'it must be an absolute path');

const capability = z.string().transform((text, context): Capability | 'all' => {
  const read = readCapability(text);
  if (typeof read !== 'object') return read;
  context.addIssue({ code: 'custom', message: read.fault });
  return z.NEVER;
});

/** Keys of the exec driver and of host volumes. */
const EXEC_KEYS = {
  chroot_env: z.record(absolute, absolute).optional(),
  allow_caps: z.array(capability).optional(),
  host_volume: z
    .record(z.string(), z.strictObject({ path: absolute, read_only: z.boolean().optional() }))
    .optional(),
};

const duration = z.string().transform((text, context) => {
  const read = readDuration(text);
  if (read.ok) return read.value;
  context.addIssue({ code: 'custom', message: `${JSON.stringify(text)} is not a duration: ${read.why}` });
  return z.NEVER;
});

/** The keys of the file. */
const fileSchema = z.strictObject({
  data_dir: z.string().optional(),
  socket: z.string().optional(),
  http: z.string().optional(),
  token: z
    .undefined({
      error:
        'a token is not kept in the clear: "holdfast token create" makes one, its hash goes into tokens_file',
    })
    .optional(),
  tokens_file: z.string().optional(),
  tls: z.strictObject({ cert: z.string(), key: z.string(), client_ca: z.string().optional() }).optional(),
  http_names: z.array(z.string()).optional(),
  socket_group: z.union([z.string().min(1), z.int().nonnegative()]).optional(),
  log_level: z.enum(LOG_LEVELS).optional(),
  max_kill_timeout: duration.optional(),
  cgroup_root: z
    .string()
    .regex(/^[A-Za-z0-9_.-]+$/, 'a cgroup name has only letters, digits, "_", "-" and "."')
    .optional(),
  gc_interval: duration.refine((ms) => ms >= 1000, 'at least 1s').optional(),
  gc_max_allocs: z.int().nonnegative().optional(),
  gc_disk_usage_threshold: z.number().min(0).max(100).optional(),
  gc_inode_usage_threshold: z.number().min(0).max(100).optional(),
  gc_alloc_age: duration.optional(),
  gc_job_age: duration.optional(),
  feed_rows: z.int().min(100, 'at least 100').optional(),
  feed_age: duration.optional(),
  feed_size: z.int().positive().optional(),
  name: z.string().optional(),
  datacenter: z.string().optional(),
  meta: z.record(z.string(), z.string()).optional(),
  user_denylist: z.array(z.string()).optional(),
  user_checked_drivers: z.array(z.string()).optional(),
  template_host_paths: z.array(z.string().startsWith('/', 'it must be absolute')).optional(),
  ...EXEC_KEYS,
});

/** What the file says; what it does not say is undefined. */
export type FileSettings = z.infer<typeof fileSchema>;

/** @throws AgentError bad_request saying which file and key, what is wrong and what would be right */
export async function readFileSettings(path: string): Promise<FileSettings> {
  let raw: unknown;
  try {
    const { parse } = loadPackage('yaml') as typeof Yaml;
    raw = parse(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new AgentError('bad_request', `cannot read the config file ${path}: ${describeError(cause)}`, {
      cause,
    });
  }
  const parsed = fileSchema.safeParse(raw ?? {});
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'file'}: ${issue.message}`);
  throw new AgentError('bad_request', `config file ${path}: ${faults.join('; ')}`);
}
