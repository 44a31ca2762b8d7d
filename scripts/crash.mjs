// Owns `npm run test:crash`: prepares the clone and runs test/crash/main.ts, which says what it takes.
import { prepareOrExit } from './prepare.mjs';

await prepareOrExit();
await import('../dist/test/crash/main.js');
