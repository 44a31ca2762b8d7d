/** Volumes of the host in a task that is shut in, under a real agent: where they can be seen, and where none is let in. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { RealAgent } from '../helpers/real-agent.js';

/** Places that are not there, and places within what the task's root is made of. */
const SEEN_AT = [
  '/data/',
  '/srv/a/b',
  '/tmp/x',
  '/alloc/data',
  '/local/x',
  '/secrets/x',
  '/run/x',
  '/device',
];
/** Below what is mounted last; by whatever way it is written. */
const HIDDEN_AT = ['/proc', '/proc/x', '/dev/../dev/shm', '/data/../dev/shm/', '/sys/fs/cgroup'];

/** Says of each destination what file it finds there. */
function jobFile(destinations: readonly string[]): string {
  const Tasks = [
    {
      Name: 't',
      Driver: 'exec',
      Config: { command: '/bin/sh', args: ['-c', `cd / && ls ${destinations.join(' ')}`] },
      VolumeMounts: destinations.map((Destination) => ({ Volume: 'v', Destination })),
    },
  ];
  const Volumes = { v: { Type: 'host', Source: 'offered' } };
  const RestartPolicy = { Attempts: 0, Mode: 'fail' };
  return JSON.stringify({
    Job: { ID: 'mounts', Type: 'batch', TaskGroups: [{ Name: 'g', Volumes, RestartPolicy, Tasks }] },
  });
}

describe('volumes of the host under an agent', { timeout: 120_000 }, () => {
  it('are seen where the job file wants them, and refused where nobody would see them', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'holdfast-volumes-'));
    try {
      writeFileSync(join(dir, 'marker'), '');
      chmodSync(dir, 0o755);
      const config = join(dir, 'agent.yaml');
      writeFileSync(config, JSON.stringify({ host_volume: { offered: { path: dir } } }));
      await using agent = await RealAgent.start({ args: ['--config', config] });
      const file = join(dir, 'mounts.json');
      writeFileSync(file, jobFile(SEEN_AT));
      const ran = await agent.cli(['run', file]);
      assert.equal(ran.code, 0, ran.stdout + ran.stderr);
      const { stdout } = await agent.cli(['logs', 'mounts']);
      assert.equal(stdout.match(/marker/g)?.length, SEEN_AT.length, stdout);
      writeFileSync(file, jobFile(HIDDEN_AT));
      for (const command of ['validate', 'run']) {
        const { code, stderr } = await agent.cli([command, file]);
        assert.notEqual(code, 0);
        assert.equal(stderr.replace(/\s+/g, ' ').match(/would be hidden/g)?.length, HIDDEN_AT.length, stderr);
      }
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  it('are named by run, ps and status when nobody offers them, not only the policy that allows no more', async () => {
    await using agent = await RealAgent.start();
    const file = join(agent.dir, 'mounts.json');
    writeFileSync(file, jobFile(['/data']));
    const ran = await agent.cli(['run', file]);
    assert.equal(ran.code, 1);
    const cause = /volumes: this agent offers no host volume "offered"/;
    assert.match(ran.stderr.replace(/\s+/g, ' '), new RegExp(`${cause.source}.*; Policy allows no restarts`));
    for (const command of [['status', 'mounts'], ['ps']]) {
      const { stdout, stderr } = await agent.cli(command);
      assert.match(stdout.replace(/\s+/g, ' ') + stderr, new RegExp(`failed: ${cause.source}`));
    }
  });
});
