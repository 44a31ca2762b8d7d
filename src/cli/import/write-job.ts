/** Owns how an imported config is written down as a job file, in HCL or YAML. */
import { stringify } from 'yaml';
import { formatDuration } from '../../jobspec/units.js';
import { restartKeys, type Imported, type ImportedGroup, type ImportedTask } from './imported.js';

/** A block of a job file: keys, and blocks below it. */
interface Block {
  readonly keys: Readonly<Record<string, Value>>;
  readonly blocks: readonly { readonly type: string; readonly label?: string; readonly block: Block }[];
}

type Value = string | number | boolean | readonly string[];

/** The job file. @param title a line for its top */
export function writeJob(imported: Imported, jobId: string, title: string, format: 'hcl' | 'yaml'): string {
  const type = typeOf(imported);
  const blocks = imported.groups.map((group) => ({
    type: 'group',
    label: group.name,
    block: groupBlock(group),
  }));
  const job: Block = { keys: { type }, blocks };
  if (format === 'yaml')
    return `# ${title}\n${stringify({ job: { [jobId]: toMap(job) } }, { lineWidth: 0 })}`;
  return `# ${title}\n${renderBlock('job', jobId, job, '')}`;
}

/** A batch task that exits with 0 is done; a service is started again. */
function typeOf({ groups }: Imported): 'batch' | 'service' {
  return groups.every(({ restart }) => restart.wish !== 'always') ? 'batch' : 'service';
}

/** Which groups would rather be in a job of the other type. */
export function notesOnType(imported: Imported): readonly string[] {
  if (typeOf(imported) === 'batch') return [];
  const odd = imported.groups.filter(({ restart }) => restart.wish !== 'always').map(({ name }) => name);
  return odd.length === 0
    ? []
    : [
        `${odd.join(', ')}: not to be started again after a good end, but a service job does that: move it to a job of its own, of type "batch"`,
      ];
}

function groupBlock({ count, restart, tasks }: ImportedGroup): Block {
  return {
    keys: count === 1 ? {} : { count },
    blocks: [
      { type: 'restart', block: { keys: restartKeys(restart), blocks: [] } },
      ...tasks.map((task) => ({ type: 'task', label: task.name, block: taskBlock(task) })),
    ],
  };
}

function taskBlock(task: ImportedTask): Block {
  const plain = (type: string, keys: Readonly<Record<string, Value | undefined>>): Block['blocks'] => {
    const set = Object.entries(keys).filter((entry): entry is [string, Value] => entry[1] !== undefined);
    return set.length === 0 ? [] : [{ type, block: { keys: Object.fromEntries(set), blocks: [] } }];
  };
  const config = {
    command: literal(task.command),
    args: task.args.length === 0 ? undefined : task.args.map(literal),
    work_dir: task.workDir === undefined ? undefined : literal(task.workDir),
    oom_score_adj: task.oomScoreAdj,
  };
  const env = Object.fromEntries(Object.entries(task.env ?? {}).map(([key, value]) => [key, literal(value)]));
  return {
    keys: {
      driver: 'raw_exec',
      ...(task.user === undefined ? {} : { user: task.user }),
      ...(task.killSignal === undefined ? {} : { kill_signal: task.killSignal }),
      ...(task.killTimeoutMs === undefined ? {} : { kill_timeout: formatDuration(task.killTimeoutMs) }),
      ...(task.keepLeftovers === true ? { leftovers: 'keep' } : {}),
    },
    blocks: [
      ...plain('lifecycle', { hook: task.hook }),
      ...plain('config', config),
      ...plain('env', env),
      ...plain('resources', { memory: task.memoryMib, cpu_percent: task.cpuPercent, pids: task.pids }),
      ...plain('logs', { max_files: task.logs?.maxFiles, max_file_size: task.logs?.maxFileMib }),
    ],
  };
}

/** `${` of a shell or another tool must not be filled in by holdfast. */
function literal(text: string): string {
  // A function, because `$$` in a replacement is one `$`.
  return text.replaceAll('${', () => '$${');
}

function toMap({ keys, blocks }: Block): Record<string, unknown> {
  const map: Record<string, unknown> = { ...keys };
  for (const { type, label, block } of blocks) {
    if (label === undefined) map[type] = toMap(block);
    else map[type] = { ...(map[type] as object | undefined), [label]: toMap(block) };
  }
  return map;
}

function renderBlock(
  type: string,
  label: string | undefined,
  { keys, blocks }: Block,
  indent: string,
): string {
  const inner = `${indent}  `;
  // A name that is no plain word needs a map: `env = { "a.b" = 1 }`.
  if (blocks.length === 0 && Object.keys(keys).some((key) => !/^[A-Za-z_][\w-]*$/.test(key))) {
    const lines = Object.entries(keys).map(([key, value]) => `${inner}${quote(key)} = ${render(value)}\n`);
    return `${indent}${type} = {\n${lines.join('')}${indent}}\n`;
  }
  const width = Math.max(0, ...Object.keys(keys).map((key) => key.length));
  const lines = Object.entries(keys).map(
    ([key, value]) => `${inner}${key.padEnd(width)} = ${render(value)}\n`,
  );
  const below = blocks.map((one) => renderBlock(one.type, one.label, one.block, inner));
  const head = label === undefined ? type : `${type} ${quote(label)}`;
  return `${indent}${head} {\n${[lines.join(''), ...below].filter((part) => part !== '').join('\n')}${indent}}\n`;
}

function render(value: Value): string {
  if (typeof value === 'string') return quote(value);
  return typeof value === 'object' ? `[${value.map(quote).join(', ')}]` : String(value);
}

function quote(text: string): string {
  // JSON's escapes are HCL's but for these.
  return JSON.stringify(text)
    .replaceAll('%{', '%%{')
    .replace(
      /(?<!\\)((?:\\\\)*)\\([bf])/g,
      (_all, slashes: string, letter: string) => `${slashes}\\u00${letter === 'b' ? '08' : '0c'}`,
    );
}
