// Owns `npm run test:vm`: prepares the clone and runs test/vm/main.ts, which says what it takes. Ctrl-C is safe.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { prepareOrExit, ROOT } from './prepare.mjs';

await prepareOrExit();
const child = spawn(
  process.execPath,
  ['--test-reporter=spec', join(ROOT, 'dist', 'test', 'vm', 'main.js'), ...process.argv.slice(2)],
  { stdio: 'inherit' },
);
// Ctrl-C reaches the child as well (same process group); a SIGTERM is for us alone and is passed on.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
