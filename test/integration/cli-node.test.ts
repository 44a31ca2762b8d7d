/** `holdfast node status` against a real agent on this host. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { HostStats, Node } from '../../src/api/wire.js';
import { CliWorld } from './cli-world.js';

describe('holdfast node status', { timeout: 120_000 }, () => {
  const world = new CliWorld();
  before(async () => {
    await world.startAgent();
  });
  after(async () => {
    await world.close();
  });

  it('tells what this host is and can', async () => {
    const { code, stdout, stderr } = await world.cli('node', 'status', '--json');
    assert.equal(code, 0, stderr);
    const { Node: node, Stats: stats } = JSON.parse(stdout) as { Node: Node; Stats: HostStats };
    const { Holdfast } = node;
    assert.equal(Holdfast.Socket, world.socket);
    const abilities = new Map(Holdfast.Capabilities.map(({ Name, Available }) => [Name, Available]));
    assert.equal(abilities.get('run as another user'), process.getuid?.() === 0);
    assert.equal(abilities.get('kill whole trees'), Holdfast.CgroupMode !== 'none');
    assert.equal(node.Drivers['raw_exec']?.Healthy, true);
    assert.ok(stats.CPU.length > 0 && stats.Uptime > 0);
    assert.ok(stats.Memory.Total > stats.Memory.Used && stats.Memory.Used > 0);
    assert.ok(stats.AllocDirStats.Size > 0 && world.dir.startsWith(stats.AllocDirStats.Mountpoint));
    const sheet = await world.cli('node', 'status');
    assert.match(sheet.stdout, /^● .*/);
    assert.match(sheet.stdout, /^CAN +HOW$/m);
    assert.match(sheet.stdout, /^raw_exec +healthy/m);
    const lines = sheet.stdout.split('\n');
    for (const { Name, Cure } of Holdfast.Capabilities) {
      assert.ok(sheet.stdout.includes(Name), Name);
      if (Cure === '') continue;
      assert.equal(lines.filter((line) => line.endsWith(`: ${Cure}`)).length, 1, `once: ${Cure}`);
    }
  });

  it('another word is wrong usage', async () => {
    const { code, stderr } = await world.cli('node', 'drian');
    assert.equal(code, 2);
    assert.match(stderr, /there are "holdfast node status", "node drain" and "node eligibility"/);
  });
});
