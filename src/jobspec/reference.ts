/** Owns docs/jobspec.md: the reference of all keys, made from the tables. scripts/gen-jobspec-doc.mjs writes it. */
import type { BlockSpec, KeyDoc, Keys } from './blocks.js';
import { DEFAULT_CAPABILITIES } from './capability-names.js';
import { RESTART_DEFAULTS } from './defaults.js';
import { FUNCTIONS } from './hcl-functions.js';
import { BLOCKS } from './schema/file.js';
import { formatDuration } from './units.js';

/** The whole page, in Markdown. */
export function renderReference(): string {
  const { service } = RESTART_DEFAULTS;
  return [
    INTRODUCTION,
    renderExpressions(),
    ...BLOCKS.map(renderBlock),
    DRIVERS,
    `## What happens to a task that says nothing\n\nIt is restarted up to ${service.attempts} times in ` +
      `${formatDuration(service.intervalMs)}, ${formatDuration(service.delayMs)} apart, and is failed then; it is asked ` +
      'to stop with SIGINT and killed 5 seconds later; its output is kept in 10 files of 10 MiB for each stream.\n',
  ].join('\n');
}

const INTRODUCTION = `# Job files

<!-- Made from src/jobspec/schema/ by scripts/gen-jobspec-doc.mjs: change it there. -->

A job file describes what shall run. The language is that of Nomad; a simple file of Nomad's runs unchanged. A key or
block that holdfast has not is an error that names it with line and column. It is never ignored.

\`\`\`hcl
job "web" {
  group "site" {
    task "server" {
      driver = "raw_exec"

      config {
        command = "python3"
        args    = ["-m", "http.server", "--bind", "127.0.0.1", "8080"]
      }
    }
  }
}
\`\`\`

Check a file with \`holdfast validate FILE\`, run it with \`holdfast run FILE\`. The folder \`examples/\` has more.

## Formats

| extension | format |
|---|---|
| \`.hcl\`, \`.nomad\`, \`.nomad.hcl\` | HCL, with variables, locals, functions, template directives and the other expressions of Nomad's job files: see below |
| \`.yaml\`, \`.yml\` | The same keys. A block with a label is a map by name: \`job: { web: { group: { site: { task: { … } } } } }\`, or a list of maps with \`name\` |
| \`.json\` | Nomad's API JSON, with or without the outer \`{"Job": …}\`: CamelCase keys, durations as nanoseconds or text |

Durations are text such as \`"90s"\`, \`"1m30s"\`, \`"500ms"\` (units h, m, s, ms). Sizes are MiB, as a number or as text such
as \`"256MiB"\` and \`"2GiB"\`. Names have at most 128 bytes and no \`/\`.

Text may hold \`\${NOMAD_…}\`, \`\${env["X"]}\`, \`\${meta.x}\`, \`\${attr.x}\` and \`\${node.x}\`, which are filled in when the task
starts. For a literal \`\${\` write \`$\${\`.

Keys marked ✚ are holdfast's own; Nomad does not know them.
`;

function renderExpressions(): string {
  const functions = [...FUNCTIONS.keys(), 'can', 'try'].sort().map((name) => `\`${name}\``);
  return `${EXPRESSIONS}
Functions: ${functions.join(', ')}. The same file means the same job each time, so there is none that reads a clock or
rolls a die. \`file\` and its kin read files of at most 1 MiB, relative to the job file.
`;
}

const EXPRESSIONS = `## Variables and expressions

In HCL files:

\`\`\`hcl
variable "port" {
  type        = number
  default     = 8080
  description = "where the server listens"

  validation {
    condition     = var.port > 1024
    error_message = "an ordinary user cannot have a port up to 1024"
  }
}

locals {
  name = "web-\${var.port}"
}

job "web" {
  group "site" {
    task "server" {
      driver = "raw_exec"

      config {
        command = "python3"
        args    = ["-m", "http.server", tostring(var.port)]
      }

      env = merge({ NAME = upper(local.name) }, { for n in range(2) : "N\${n}" => n })
    }
  }
}
\`\`\`

A variable has its value from \`--var port=8081\` and \`--var-file FILE\` (\`name = value\` lines, or a JSON object; of
several the last one counts), else from \`HOLDFAST_VAR_port\` or \`NOMAD_VAR_port\` in the environment, else its default.
Text from a command line becomes the type that the variable asks for: lists and maps are written as in a job file.
Types are \`string\`, \`number\`, \`bool\`, \`any\`, \`list(…)\`, \`set(…)\`, \`map(…)\`, \`tuple([…])\` and \`object({ … })\`
with \`optional(…)\` fields. Variables without a value are told all at once.

There are \`var.x\`, \`local.x\`, \`.name\`, \`["key"]\`, \`[0]\`, \`[*]\`, \`+ - * / %\`, \`== != < <= > >=\`, \`&& || !\`,
\`a ? b : c\`, \`[for x in list : …]\`, \`{ for k, v in map : k => v }\`, and \`dynamic "BLOCK" { for_each = … content { … } }\`.
What only the start of a task can know (\`\${attr.kernel.name}\`) stays in the text until then: it can be put into other
text, but nothing can be decided by it.
`;

const DRIVERS = `## config

\`raw_exec\` runs a program of this host as it is.

| key | type | default | meaning |
|---|---|---|---|
| \`command\` | string | required | Absolute path, or a name that is looked up in the task's PATH |
| \`args\` | list of strings | \`[]\` | Arguments. No shell reads them |
| \`work_dir\` | string | the task's directory | Working directory, absolute |
| \`oom_score_adj\` | number (0…1000) | \`0\` | Higher = killed earlier when the host runs out of memory. Never inherited from the agent |
| \`ulimit\` ✚ | block | see below | Limits of setrlimit(2), each \`"SOFT:HARD"\`, one number for both, or \`"unlimited"\`: \`ulimit { nofile = "1024:4096" }\`. One that cannot be set is a failed start |
| \`on_executor_death\` ✚ | \`adopt\` or \`kill\` | \`"adopt"\` | What happens when the executor of the task is killed: another one takes over and the task does not notice, or the task ends with it |
| \`umask\` ✚ | octal text | \`"022"\` | Mode bits that new files do not get |
| \`nice\` ✚ | number (-20…19) | \`0\` | Higher = others go first |
| \`tty\` ✚ | bool | \`false\` | The task runs on a terminal of its own, which is its input and output and controls it. All it writes is logged as stdout, a line end as it was written; nobody types anything. \`TERM\` is \`xterm\` unless \`env\` says otherwise. It outlives the agent and the executor, and costs one more small process |
| \`tty_size\` ✚ | text | \`"80x24"\` | Columns and rows of that terminal |

Without \`ulimit\` a task may have 1024 open files, and raise that to 524288 or to what the agent may have; it writes no core
files until it raises that limit itself. Its other limits are those that systemd gives services, however the agent was started;
an agent without CAP_SYS_RESOURCE can give none that is above what it has itself.

\`exec\` runs a program shut in, and takes the same keys. The task has a root of its own, made of parts of the host and copied
from nowhere: \`/bin /etc /lib /lib32 /lib64 /sbin /usr /run/resolvconf /run/systemd/resolve\`, read-only (\`chroot_env\` in the agent's
configuration names others); its directories are \`/alloc\` (with \`/alloc/logs\` read-only), \`/local\`, \`/secrets\` and \`/tmp\`; \`/dev\` holds
what every program needs, parts of \`/proc\` and \`/sys\` are hidden or read-only. \`work_dir\` is \`/\` unless it is set. A program without a slash is
looked for in \`/local\`, then on the task's PATH. The task runs as \`nobody\` unless it names a \`user\`; when the agent is not root, as the agent's user,
in a user namespace. A limit in \`resources\` that this host cannot keep is a failed start.

| key | type | default | meaning |
|---|---|---|---|
| \`pid_mode\` | \`private\` or \`host\` | \`private\` | Whether it sees only its own processes. Private: when it ends, all of them end |
| \`ipc_mode\` | \`private\` or \`host\` | \`private\` | Whether it has shared memory and message queues of its own |
| \`network_mode\` ✚ | \`host\` or \`none\` | \`host\` | \`none\`: a loopback of its own, and nothing else |
| \`cap_add\` | list of capabilities | \`[]\` | Capabilities it has beyond the set below, among those of \`allow_caps\` in the agent's configuration; \`all\` = all of those. Anybody but root holds only what is named here |
| \`cap_drop\` | list of capabilities | \`[]\` | Taken from the set below; \`all\` = all. What is added wins |
| \`no_new_privs\` ✚ | bool | \`true\` | Programs with set-uid or file capabilities give it nothing |
| \`seccomp\` ✚ | \`default\` or \`unconfined\` | \`default\` | Whether system calls that change the host or reach beyond the task are refused with EPERM |

The set is Nomad's: \`${DEFAULT_CAPABILITIES.join(' ')}\`.

\`mock_driver\` runs nothing; it plays a script.

| key | type | default | meaning |
|---|---|---|---|
| \`run_for\` | duration | \`0s\` | The run ends by itself after this long |
| \`exit_code\` | number (0…255) | \`0\` | Its exit code |
| \`exit_signal\` | signal | none | The run ends by this signal instead |
| \`exit_err_msg\` | string | none | How the run ended is not known, for this reason |
| \`start_error\` | string | none | Starting fails with this text |
| \`start_error_recoverable\` | bool | \`false\` | Trying to start again may help |
| \`start_block_for\` | duration | \`0s\` | Starting takes this long |
| \`kill_after\` | duration | \`0s\` | It takes this long to obey the kill signal |
| \`signal_error\` | string | none | Sending it a signal fails with this text |
| \`stdout_string\` | string | none | Text written to stdout |
| \`stdout_repeat\` | number | \`0\` | How many times more |
| \`stdout_repeat_duration\` | duration | \`0s\` | Time between two of them |
| \`stderr_string\`, \`stderr_repeat\`, \`stderr_repeat_duration\` | | | The same for stderr |
`;

function renderBlock(spec: BlockSpec<Keys>): string {
  const rows = Object.entries(spec.keys).map(([name, key]) => renderKey(name, key));
  const lacking = Object.keys(spec.notYet)
    .map((name) => `\`${name}\``)
    .join(', ');
  return `## ${spec.name}

| key | in JSON | type | default | meaning |
|---|---|---|---|---|
${rows.join('\n')}
${lacking === '' ? '' : `\nOf Nomad's, not supported yet: ${lacking}.\n`}`;
}

function renderKey(name: string, key: KeyDoc): string {
  const fallback =
    key.required === true ? 'required' : key.default === undefined ? 'none' : `\`${key.default}\``;
  const json = key.json === '' ? '' : `\`${key.json}\``;
  const cells = [
    `\`${name}\`${key.ours === true ? ' ✚' : ''}`,
    json,
    key.type,
    fallback,
    key.doc.replace(/\.$/, ''),
  ];
  return `| ${cells.join(' | ')} |`;
}
