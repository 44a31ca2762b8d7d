/**
 * Owns packages that are loaded when they are first needed. By `require`, which is done at once: `import()` of a CommonJS
 * package in a busy process has been seen to give a module that was not evaluated (Node 20).
 */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** The caller says what it is: `loadPackage('node-pty') as typeof Pty`. */
export function loadPackage(name: string): unknown {
  return require(name);
}
