/** Owns the reading of Procfiles: `name: command line`. */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { commandOf, FOREVER, Notes, safeName, type Imported, type ImportedGroup } from './imported.js';

export function importProcfile(text: string, file: string): Imported {
  const notes = new Notes();
  const groups: ImportedGroup[] = [];
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const found = /^([\w.-]+):\s*(\S.*)$/.exec(line.trim());
    if (found === null) {
      notes.add(JSON.stringify(line.trim()), 'this line is no "name: command": left out');
      continue;
    }
    const [, written = '', command = ''] = found;
    const name = safeName(written);
    if (/\$\{?PORT\b/.test(command)) notes.add(name, '$PORT is not set for it: give it a port in env');
    if (written === 'release')
      notes.add(name, 'a release phase runs before the others; here it is a group like them');
    const task = { name, ...commandOf(command), workDir: resolve(dirname(file)) };
    groups.push({ name, count: 1, restart: FOREVER, tasks: [task] });
  }
  if (existsSync(join(dirname(file), '.env'))) notes.add('.env', 'it is not read: write its lines into env');
  return { groups, notes: notes.all };
}
