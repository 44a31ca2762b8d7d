/** The agent's own log, over HTTP. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { StreamFrame } from '../../src/api/wire.js';
import { createLogger } from '../../src/base/log.js';
import { startApi, type ApiUnderTest } from '../helpers/api-client.js';
import { until } from '../helpers/until.js';

interface Reader {
  text(): string;
  readonly reply: IncomingMessage;
}

async function open(api: ApiUnderTest, query: string): Promise<Reader> {
  const call = get({ socketPath: api.socketPath, path: `/v1/agent/monitor?${query}` });
  call.on('error', () => undefined);
  const [reply] = (await once(call, 'response')) as [IncomingMessage];
  let text = '';
  reply.on('data', (part: Buffer) => (text += part.toString()));
  reply.on('error', () => undefined);
  return { text: () => text, reply };
}

describe('the monitor', () => {
  it('tells lines of its level, whatever the level of the log', async () => {
    const path = join(tmpdir(), `hf-log-${process.pid}`);
    const fd = openSync(path, 'w');
    try {
      const logger = createLogger('warn', fd);
      await using api = await startApi({ logTap: logger });
      const plain = await open(api, 'plain=true&log_level=DEBUG');
      const json = await open(api, 'plain=true&log_json=true');
      const frames = await open(api, '');
      logger.debug({ a: 1 }, 'fine');
      const child = logger.child({ task: 'web' });
      child.info({ env: { SECRET: 'x' }, n: 2 }, 'middle');
      child.error({}, 'bad');
      await until(
        'all have all',
        () =>
          [plain, json].every((reader) => reader.text().includes('bad')) &&
          frames.text().split('Data').length > 2,
      );
      assert.match(
        plain.text(),
        /^\S+Z \[DEBUG\] +fine: a=1\n\S+Z \[INFO\] +middle: task=web .*n=2\n\S+Z \[ERROR\] +bad: task=web\n$/,
      );
      assert.doesNotMatch(plain.text(), /SECRET/);
      const lines = json
        .text()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { msg: string });
      assert.deepEqual(
        lines.map(({ msg }) => msg),
        ['middle', 'bad'],
      );
      await until('a heartbeat', () => frames.text().includes('{}'));
      const told = frames
        .text()
        .replaceAll('{}', '')
        .split(/(?<=\})(?=\{)/)
        .map((frame) => JSON.parse(frame) as StreamFrame);
      assert.deepEqual(
        told.map(({ FileEvent }) => FileEvent),
        ['log', 'log'],
      );
      assert.match(Buffer.from(told[1]?.Data ?? '', 'base64').toString(), /bad: task=web\n$/);
      const written = readFileSync(path, 'utf8');
      assert.match(written, /"msg":"bad"/);
      assert.doesNotMatch(written, /middle|fine/, 'what is only listened to is not written');
      assert.equal((await api.ask('/v1/agent/monitor?log_level=loud')).status, 400);
    } finally {
      closeSync(fd);
      rmSync(path);
    }
  });

  it('tells a slow reader what it lost, and holds little for it', async () => {
    const fd = openSync('/dev/null', 'w');
    const logger = createLogger('error', fd);
    await using api = await startApi({ logTap: logger });
    const reader = await open(api, 'plain=true');
    for (let line = 0; line < 2000; line++) logger.info({ line }, 'much');
    await until('the last line', () => reader.text().includes('line=1999'));
    assert.match(reader.text(), /\[WARN\] +1\d\d\d lines are lost: the reader is too slow\n/);
    reader.reply.destroy();
    closeSync(fd);
  });
});
