/** The unit file keeps what the daemon relies on, and its command line is one that the CLI takes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Command } from 'commander';
import { addAgentOptions } from '../../../src/cli/agent-options.js';

const text = readFileSync(new URL('../../../../packaging/holdfast.service', import.meta.url), 'utf8');
const settings = new Map(
  text
    .split('\n')
    .filter((line) => /^[A-Z][A-Za-z]*=/.test(line))
    .map((line): [string, string] => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
);

test('every line of the unit is a section, a setting, a comment or empty', () => {
  for (const line of text.split('\n')) assert.match(line, /^(?:|#.*|\[\w+\]|[A-Z][A-Za-z]*=.+)$/);
});

test('stopping or restarting the unit ends nothing but the daemon', () => {
  assert.equal(settings.get('KillMode'), 'process');
  assert.equal(settings.get('Delegate'), 'yes');
  assert.equal(settings.get('Restart'), 'always');
});

test('the helper may speak for the daemon, and the watchdog leaves room for two beats', () => {
  assert.equal(settings.get('Type'), 'notify');
  assert.equal(settings.get('NotifyAccess'), 'all');
  assert.ok(Number(settings.get('WatchdogSec')) >= 2);
});

test('nothing restricts what tasks inherit', () => {
  const inherited =
    /^(?:Protect|Private|Restrict|SystemCall|ReadOnly|Inaccessible|NoNewPrivileges|Capability|Memory|Lock|Device)/;
  assert.deepEqual(
    [...settings.keys()].filter((name) => inherited.test(name)),
    [],
  );
});

test('ExecStart is a command line that the CLI takes', () => {
  const [, script, name, ...args] = (settings.get('ExecStart') ?? '').split(' ');
  assert.match(script ?? '', /\/dist\/src\/cli\/main\.js$/);
  assert.equal(name, 'agent');
  const command = addAgentOptions(new Command()).exitOverride();
  command.parse(args, { from: 'user' });
  assert.deepEqual(command.args, []);
});
