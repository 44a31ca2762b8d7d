/** What a SIGHUP may change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAgentConfig, type AgentConfig } from '../../../src/agent/config.js';
import { compareConfig, describeReload } from '../../../src/agent/reload.js';

const base = await readAgentConfig({ dataDir: '/nowhere' }, {}, 0);

/** A value that differs, for every setting there is. */
const OTHER: Required<AgentConfig> = {
  dataDir: '/elsewhere',
  socket: '/elsewhere/s',
  http: { host: '127.0.0.1', port: 1 },
  tokens: [{ name: 'ci', scope: 'read', sha256: '00'.repeat(32) }],
  tls: { cert: 'c', key: 'k', clientCa: undefined },
  httpNames: ['worker-7.example'],
  socketGid: 7,
  logLevel: 'debug',
  maxKillTimeoutMs: 5,
  cgroupRoot: 'other.slice',
  nodeName: 'other',
  datacenter: 'dc9',
  meta: { rack: '7' },
  feed: { feedRows: 1, feedAgeMs: 1, feedBytes: 1 },
  gc: {
    intervalMs: 1,
    maxAllocs: 1,
    allocAgeMs: 1,
    jobAgeMs: 1,
    diskUsedPercent: 1,
    inodesUsedPercent: 1,
  },
  exec: { chrootEnv: {}, allowCaps: [] },
  hostVolumes: { data: { path: '/srv', readOnly: true } },
  acceptHost: true,
  deniedUsers: ['root', 'daemon'],
  checkedDrivers: ['raw_exec'],
  templateHostPaths: ['/etc/app'],
};

test('each setting is either applied at once or said to need a restart, and told by its name', () => {
  const live = new Map([
    ['logLevel', 'log_level'],
    ['maxKillTimeoutMs', 'max_kill_timeout'],
    ['tokens', 'tokens_file'],
    ['httpNames', 'http_names'],
  ]);
  for (const [key, value] of Object.entries(OTHER)) {
    const change = compareConfig(base, { ...base, [key]: value });
    const name = live.get(key);
    if (name === undefined) {
      assert.deepEqual(change.inForce, base, key);
      assert.deepEqual([change.applied.length, change.needRestart.length], [0, 1], key);
    } else {
      assert.deepEqual(change.inForce, { ...base, [key]: value }, key);
      assert.deepEqual([change.applied, change.needRestart], [[name], []], key);
    }
  }
});

test('what needs a restart is told again at each reading, what was applied is not', () => {
  const wanted = { ...base, logLevel: 'debug', datacenter: 'dc9' } as const;
  const first = compareConfig(base, wanted);
  assert.equal(
    describeReload(first),
    'config is read again; applied: log_level; needs a restart of the agent: datacenter',
  );
  assert.equal(
    describeReload(compareConfig(first.inForce, wanted)),
    'config is read again; needs a restart of the agent: datacenter',
  );
  assert.equal(describeReload(compareConfig(base, base)), 'config is read again: nothing has changed');
});
