// Writes docs/jobspec.md from the tables of the job file's keys. Run it after `npm run build:ts`.
import { writeFileSync } from 'node:fs';
import { renderReference } from '../dist/src/jobspec/reference.js';

writeFileSync(new URL('../docs/jobspec.md', import.meta.url), renderReference());
