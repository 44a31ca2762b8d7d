/** Artifacts, templates and payloads of a real agent: what a task finds, what follows a change, and SIGKILL in between. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { tarOf } from '../helpers/archives.js';
import { RealAgent } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const answers = new Map<string, (response: ServerResponse) => void>();
let server: Server;
let base = '';

before(async () => {
  server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '');
    if (answer === undefined) response.writeHead(404).end();
    else answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(() => {
  server.closeAllConnections();
  server.close();
});

function aJob(id: string, task: object, type = 'service'): object {
  return {
    ID: id,
    Type: type,
    TaskGroups: [
      {
        Name: 'g',
        RestartPolicy: { Attempts: 0, Mode: 'fail', Interval: 60e9, Delay: 0 },
        Tasks: [{ Name: 't', Driver: 'raw_exec', ...task }],
      },
    ],
  };
}

const shell = (script: string): object => ({ command: '/bin/sh', args: ['-c', script] });

describe('a real agent', () => {
  it('fetches, renders and starts; renders anew, signals and restarts', async () => {
    await using agent = await RealAgent.start();
    answers.set('/app.tgz', (response) => {
      response.end(
        gzipSync(tarOf([{ path: 'bin/greet', body: '#!/bin/sh\necho hello $WHO\n', mode: 0o755 }])),
      );
    });
    const input = join(agent.dir, 'input');
    writeFileSync(input, 'one');
    const script = 'trap "echo hup" HUP; local/bin/greet; cat local/conf; while :; do sleep 0.1; done';
    const config = join(agent.dir, 'agent.yaml');
    writeFileSync(config, JSON.stringify({ template_host_paths: [input] }));
    await agent.leave();
    await agent.start(['--config', config]);
    await agent.register(
      aJob('app', {
        Config: shell(script),
        Artifacts: [{ GetterSource: `${base}/app.tgz` }],
        Templates: [
          { EmbeddedTmpl: 'WHO={{ env "NOMAD_TASK_NAME" }}', DestPath: 'secrets/env', Envvars: true },
          {
            EmbeddedTmpl: `{{ file "${input}" }}\n`,
            DestPath: 'local/conf',
            ChangeMode: 'signal',
            ChangeSignal: 'SIGHUP',
            Splay: 0,
          },
          { SourcePath: 'alloc/data/tpl', DestPath: 'local/late', Splay: 0 },
        ],
      }),
    );
    const [task] = await agent.untilTasks('app', 'it waits for the file', ([one]) =>
      /waiting on file alloc\/data\/tpl/.test(one?.state.Holdfast.PhaseDetail ?? ''),
    );
    assert.ok(task);
    const { allocId } = task;
    const said = await agent.cli(['status', 'app']);
    assert.match(said.stdout, /prestart: waiting on file alloc\/data\/tpl for template local\/late \(\d+s\)/);
    const tpl = join(agent.dataDir, 'alloc', allocId, 'alloc/data/tpl');
    writeFileSync(tpl, 'first');
    await until('it runs', () => agent.output(allocId, 't').includes('hello t\none'));

    writeFileSync(input, 'two');
    await until('it is signalled', () => agent.output(allocId, 't').includes('hup'));
    await agent.kill();
    await agent.start(['--config', config]);
    await agent.untilTasks('app', 'running', ([one]) => one?.state.State === 'running');
    assert.equal((await agent.runs(allocId, 't')).length, 1, 'unchanged templates restart nothing');

    await agent.kill();
    writeFileSync(tpl, 'second');
    await agent.start(['--config', config]);
    await until('it is restarted', async () => (await agent.runs(allocId, 't')).length === 2);
    await until('with the new file', () => agent.output(allocId, 't').endsWith('hello t\ntwo\n'));
    const types = (await agent.events('app')).map(({ Type }) => Type);
    assert.equal(types.filter((type) => type === 'Downloading Artifacts').length, 1);
    assert.equal(types.filter((type) => type === 'Restart Signaled').length, 1);
    assert.equal(readFileSync(join(agent.dataDir, 'alloc', allocId, 't/local/late'), 'utf8'), 'second');
  });

  it('killed in the middle of a download: nothing half done counts, the next agent fetches it whole', async () => {
    await using agent = await RealAgent.start();
    let asked = 0;
    answers.set('/big', (response) => {
      asked += 1;
      response.writeHead(200, { 'content-length': '10' });
      if (asked === 1) response.write('half');
      else response.end('0123456789');
    });
    await agent.register(
      aJob('big', { Config: shell('cat local/big'), Artifacts: [{ GetterSource: `${base}/big` }] }, 'batch'),
    );
    await until('it is being fetched', () => asked === 1);
    const [task] = await agent.tasks('big');
    assert.ok(task);
    await agent.untilTasks('big', 'it says so', ([one]) =>
      /waiting on artifact http.*\/big/.test(one?.state.Holdfast.PhaseDetail ?? ''),
    );
    await agent.kill();
    await agent.start();
    await agent.untilTasks('big', 'done', ([one]) => one?.state.State === 'dead');
    assert.equal(agent.output(task.allocId, 't'), '0123456789');
  });

  it('what cannot be had fails the task in words; a stop does not wait for a download', async () => {
    await using agent = await RealAgent.start();
    answers.set('/sum', (response) => response.end('x'));
    answers.set('/slow', (response) => response.writeHead(200).write('x'));
    const checksum = `md5:${'0'.repeat(32)}`;
    await agent.register(
      aJob('sum', {
        Config: shell(':'),
        Artifacts: [{ GetterSource: `${base}/sum`, GetterOptions: { checksum } }],
      }),
    );
    await agent.untilTasks('sum', 'failed', ([one]) => one?.state.Failed === true);
    const said = await agent.cli(['status', 'sum']);
    assert.match(said.stdout, /its md5 is 9dd4e461268c8034f5c8564e155c67a6, wanted 0000/);
    await agent.register(aJob('slow', { Config: shell(':'), Artifacts: [{ GetterSource: `${base}/slow` }] }));
    await agent.untilTasks('slow', 'fetching', ([one]) =>
      /artifact/.test(one?.state.Holdfast.PhaseDetail ?? ''),
    );
    const stopped = await agent.cli(['stop', 'slow']);
    assert.equal(stopped.code, 0);
    const types = (await agent.events('slow')).map(({ Type }) => Type);
    assert.deepEqual(types, ['Received', 'Task Setup', 'Downloading Artifacts', 'Killed']);
  });
});
