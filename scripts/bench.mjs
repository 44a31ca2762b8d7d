// Owns `npm run bench`: prepares the clone and runs bench/main.ts. package.json starts it without threads beside it that compile or collect garbage:
// they would take a CPU from what is measured.
import { prepareOrExit } from './prepare.mjs';

await prepareOrExit();
await import('../dist/bench/main.js');
