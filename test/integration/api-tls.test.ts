/** TLS on the TCP listener, tokens from a file, and both renewed by SIGHUP: a real daemon, the real command line. */
import assert from 'node:assert/strict';
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { connect } from 'node:tls';
import { RealAgent, type Said } from '../helpers/real-agent.js';
import { until } from '../helpers/until.js';

const FIXTURES = join(process.cwd(), 'test', 'fixtures', 'tls');

/** A port that nobody has at the moment. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

/** Common name of the certificate that is shown. */
async function shownName(port: number): Promise<string> {
  const client = {
    ca: await readFile(join(FIXTURES, 'ca.pem')),
    cert: await readFile(join(FIXTURES, 'client.pem')),
    key: await readFile(join(FIXTURES, 'client.key')),
  };
  const socket = connect({ port, host: '127.0.0.1', ...client });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

describe('the API on TCP with TLS', { timeout: 120_000 }, () => {
  it('takes known certificates and tokens, by their scope, and renews both with SIGHUP', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'hf-tls-'));
    try {
      const install = async (name: string): Promise<void> => {
        await copyFile(join(FIXTURES, `${name}.pem`), join(dir, 'cert.pem'));
        await copyFile(join(FIXTURES, `${name}.key`), join(dir, 'cert.key'));
        await chmod(join(dir, 'cert.key'), 0o600);
        await chmod(join(dir, 'cert.pem'), 0o644);
      };
      await install('server');
      await copyFile(join(FIXTURES, 'ca.pem'), join(dir, 'ca.pem'));
      await chmod(join(dir, 'ca.pem'), 0o644);
      const port = await freePort();
      const config = join(dir, 'agent.yaml');
      await writeFile(
        config,
        `http: 127.0.0.1:${port}\ntokens_file: ${dir}/tokens\ntls:\n  cert: ${dir}/cert.pem\n  key: ${dir}/cert.key\n  client_ca: ${dir}/ca.pem\n`,
      );
      await writeFile(join(dir, 'tokens'), '# none yet but one\n', { mode: 0o600 });
      await using maker = await RealAgent.start();
      const create = async (scope: string): Promise<string> => {
        const made = await maker.cli(['token', 'create', '--scope', scope, '--file', join(dir, 'tokens')]);
        assert.equal(made.code, 0, made.stderr);
        return made.stdout.trim();
      };
      const reader = await create('read');
      const kept = await readFile(join(dir, 'tokens'), 'utf8');
      assert.match(kept, /^read read sha256:[0-9a-f]{64}$/m);
      assert.ok(!kept.includes(reader), 'the token itself is nowhere');

      await using agent = await RealAgent.start({ args: ['--config', config] });
      const talk = (words: readonly string[], more: Record<string, string> = {}): Promise<Said> =>
        agent.cli(words, {
          env: {
            HOLDFAST_ADDR: `https://localhost:${port}`,
            HOLDFAST_CACERT: join(FIXTURES, 'ca.pem'),
            HOLDFAST_CLIENT_CERT: join(FIXTURES, 'client.pem'),
            HOLDFAST_CLIENT_KEY: join(FIXTURES, 'client.key'),
            HOLDFAST_TOKEN: reader,
            ...more,
          },
        });
      assert.deepEqual(await talk(['ps', '--json']), { code: 0, stdout: '[]\n', stderr: '' });
      const expect = async (said: Promise<Said>, code: number, words: RegExp): Promise<void> => {
        const { code: seen, stderr } = await said;
        assert.equal(seen, code, stderr);
        assert.match(stderr, words);
      };
      await expect(talk(['ps'], { HOLDFAST_CACERT: '' }), 6, /certificate is not trusted.*--ca-cert/);
      await expect(
        talk(['ps'], { HOLDFAST_CLIENT_CERT: '', HOLDFAST_CLIENT_KEY: '' }),
        6,
        /wants a client certificate: give --client-cert/,
      );
      await expect(talk(['ps'], { HOLDFAST_TOKEN: 'guess' }), 6, /token is not known/);
      await expect(talk(['run', '--detach', '--', 'true']), 6, /the token read may read, this needs operate/);
      assert.equal(((await agent.get('/v1/jobs')) as readonly unknown[]).length, 0);

      assert.equal(await shownName(port), 'holdfast-1');
      const operator = await create('operate');
      await expect(talk(['run', '--detach', '--', 'true'], { HOLDFAST_TOKEN: operator }), 6, /not known/);
      await install('renewed');
      const hangUp = async (words: RegExp): Promise<void> => {
        const seen = agent.log().length;
        process.kill(agent.pid, 'SIGHUP');
        await until(`the log says ${String(words)}`, () => words.test(agent.log().slice(seen)));
      };
      await hangUp(/applied: tokens_file, tls/);
      assert.equal(await shownName(port), 'holdfast-2');
      const ran = await talk(['run', '--detach', '--batch', '--', 'true'], { HOLDFAST_TOKEN: operator });
      assert.equal(ran.code, 0, ran.stderr);

      await writeFile(join(dir, 'tokens'), 'ci read secret-in-the-clear\n');
      await hangUp(/config is not valid/);
      assert.doesNotMatch(agent.log(), /secret-in-the-clear/);
      assert.equal((await talk(['ps'])).code, 0, 'the old tokens are in force');
      await chmod(join(dir, 'tokens'), 0o666);
      await hangUp(/can be changed by others: chmod go-w/);
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  });

  it('does not begin without a token, and says how to make one', async () => {
    await using agent = await RealAgent.start();
    await agent.leave();
    const said = await agent.cli(['agent', '--data-dir', agent.dataDir, '--http', '127.0.0.1:0']);
    assert.equal(said.code, 1);
    assert.match(said.stderr, /without a token: make one with "holdfast token create"/);
    await agent.start();
  });
});
