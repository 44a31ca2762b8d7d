/** A task on a terminal whose full log files are compressed: the agent is killed, and no line is missing or there twice. */
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const LINES = 200_000;
const JOB = `job "noisy" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "sh"
        args    = ["-c", "test -t 1 && seq -f 'line %.0f' 1 ${LINES}; exec sleep 1000"]
        tty     = true
      }
      logs {
        max_files     = 10
        max_file_size = 1
        compress      = true
      }
    }
  }
}`;

describe('a noisy task on a terminal', () => {
  it('outlives the agent, and all it wrote is read through compressed files', async () => {
    await using agent = await RealAgent.start();
    const file = join(agent.dir, 'noisy.hcl');
    writeFileSync(file, JOB);
    const said = await agent.cli(['run', file]);
    assert.equal(said.code, 0, said.stdout + said.stderr);
    const [before] = await agent.untilTasks('noisy', 'runs', ([task]) => task?.state.State === 'running');
    assert.ok(before !== undefined);
    await agent.kill();
    await agent.start();
    const [after] = await agent.untilTasks('noisy', 'runs', ([task]) => task?.state.State === 'running');
    assert.equal(after?.state.Holdfast.Pid, before.state.Holdfast.Pid);
    const logs = join(agent.dataDir, 'alloc', before.allocId, 'alloc', 'logs');
    const names = (): string[] => readdirSync(logs).filter((name) => name.startsWith('t.stdout'));
    await until(
      'full files are compressed',
      () => names().filter((name) => name.endsWith('.gz')).length >= 2,
      {
        timeoutMs: 30_000,
        lastSeen: names,
      },
    );
    const { stdout } = await agent.cli(['logs', '-n', '150000', 'noisy']);
    const lines = stdout.trimEnd().split('\n');
    assert.equal(lines.length, 150_000);
    for (const [index, line] of lines.entries()) assert.equal(line, `line ${LINES - 150_000 + index + 1}`);
    await agent.cli(['stop', 'noisy']);
  });
});
