/** The unit file keeps what the daemon relies on, and its command line is one that the CLI takes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { readAgentConfig } from '../../../src/agent/config.js';
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

test('docs/service.md gives the reason for each setting that hardens or exempts the daemon', () => {
  const page = readFileSync(new URL('../../../../docs/service.md', import.meta.url), 'utf8');
  const plain =
    /^(?:Type|NotifyAccess|Timeout.*|WatchdogSec|Exec.*|Restart.*|StateDirectory.*|Description|Documentation|Wants|After|StartLimit.*|WantedBy)$/;
  for (const name of [...settings.keys()].filter((each) => !plain.test(each)))
    assert.ok(page.includes(`\`${name}=`), name);
});

test('the example of settings is one that the agent takes, and docs/cli.md has its keys', async () => {
  const file = new URL('../../../../packaging/agent.yaml', import.meta.url);
  const config = await readAgentConfig({ config: fileURLToPath(file) }, {}, 0);
  assert.equal(config.dataDir, '/var/lib/holdfast');
  const page = readFileSync(new URL('../../../../docs/cli.md', import.meta.url), 'utf8');
  const keys = [...readFileSync(file, 'utf8').matchAll(/^#?([a-z_]+):/gm)].map(([, key]) => key);
  assert.ok(keys.length > 8);
  for (const key of keys) assert.match(page, new RegExp(`\\x60${key}\\b`), key);
});
