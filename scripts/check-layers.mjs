// Enforces the house rule: a folder of src/ may import only itself and folders listed above it.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const ORDER = [
  'base',
  'jobspec',
  'events',
  'state',
  'executor',
  'logs',
  'stats',
  'drivers',
  'taskrunner',
  'allocrunner',
  'scheduler',
  'api',
  'agent',
];
// The CLI speaks HTTP only; the agent command is the one door from it into the daemon.
const CLI_MAY = new Set(['cli', 'base', 'jobspec', 'api/wire.ts']);
const CLI_AGENT_DOOR = new Set(['src/cli/commands/agent.ts', 'src/cli/commands/dev.ts']);

const faults = [];
for (const entry of readdirSync('src', { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
  const file = join(entry.parentPath, entry.name);
  const from = file.split('/')[1];
  for (const [, target] of readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)) {
    const path = relative('src', resolve(dirname(file), target)).replace(/\.js$/, '.ts');
    const to = path.split('/')[0];
    const allowed =
      from === 'cli'
        ? CLI_MAY.has(to) || CLI_MAY.has(path) || (to === 'agent' && CLI_AGENT_DOOR.has(file))
        : ORDER.includes(to) && ORDER.indexOf(to) <= ORDER.indexOf(from);
    if (!allowed) faults.push(`${file} imports ${path}: ${from} must not depend on ${to}`);
  }
}
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;
