// Owns `npm run bench`: prepares the clone and runs bench/main.ts.
import { prepareOrExit } from './prepare.mjs';

await prepareOrExit();
await import('../dist/bench/main.js');
