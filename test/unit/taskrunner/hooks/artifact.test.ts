/** Artifacts: where they end up, what is checked, what is refused, and what an attacker's archive cannot do. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as tar from 'tar';
import type { Artifact } from '../../../../src/jobspec/types.js';
import { artifactHook } from '../../../../src/taskrunner/hooks/artifact.js';
import { USUAL_ARTIFACT_LIMITS } from '../../../../src/taskrunner/hooks/artifact/limits.js';
import { HookFailure } from '../../../../src/taskrunner/hooks/hook.js';
import { HookWorld } from '../../../helpers/hook-world.js';
import { tarOf, zipOf } from '../../../helpers/archives.js';

const scratch = mkdtempSync(join(tmpdir(), 'hf-artifact-'));
const answers = new Map<
  string,
  (response: ServerResponse, headers: NodeJS.Dict<string | string[]>) => void
>();
let server: Server;
let base = '';

before(async () => {
  server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '');
    if (answer === undefined) response.writeHead(404).end();
    else answer(response, request.headers);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(() => {
  server.closeAllConnections();
  server.close();
  rmSync(scratch, { recursive: true });
});

function anArtifact(over: Partial<Artifact>): Artifact {
  return { source: '', destination: 'local/', mode: 'any', options: {}, headers: {}, chown: false, ...over };
}

function serve(path: string, body: Buffer | string): string {
  answers.set(path, (response) => response.end(body));
  return base + path;
}

const SMALL = {
  ...USUAL_ARTIFACT_LIMITS,
  maxBytes: 10_000,
  maxUnpackedBytes: 5_000,
  maxFiles: 20,
  idleMs: 300,
};

async function run(world: HookWorld, artifacts: readonly Artifact[], limits = SMALL): Promise<void> {
  await artifactHook(limits).prestart?.(world.context({ artifacts }));
}

async function failure(world: HookWorld, artifact: Partial<Artifact>, limits = SMALL): Promise<HookFailure> {
  const before = tree(world.dir);
  try {
    await run(world, [anArtifact(artifact)], limits);
  } catch (error) {
    assert.ok(error instanceof HookFailure);
    assert.equal(error.event.type, 'Failed Artifact Download');
    assert.deepEqual(tree(world.dir), before, 'nothing is left of it');
    return error;
  }
  throw new Error('it was fetched');
}

function tree(dir: string): readonly string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort();
}

describe('where artifacts go', () => {
  it('a file keeps its name in the destination; interpolated, with headers, once', async () => {
    using world = new HookWorld();
    let asked = 0;
    answers.set('/tool', (response, headers) => {
      asked += 1;
      response.end(`for ${String(headers['x-task'])}`);
    });
    const artifact = anArtifact({
      source: `${base}/\${NOMAD_META_what}`,
      destination: '${NOMAD_TASK_DIR}/bin',
      headers: { 'X-Task': '${NOMAD_TASK_NAME}' },
    });
    const context = world.context({ artifacts: [artifact], meta: { what: 'tool' } });
    assert.equal((await artifactHook(SMALL).prestart?.(context))?.done, 'always');
    const path = join(world.dirs.localDir, 'bin', 'tool');
    assert.equal(readFileSync(path, 'utf8'), 'for main');
    assert.equal(statSync(path).mode & 0o777, 0o755);
    assert.deepEqual(world.events, [{ type: 'Downloading Artifacts' }]);
    assert.deepEqual(world.waits, [`artifact ${base}/tool`]);
    await artifactHook(SMALL).prestart?.(world.context({ artifacts: [artifact], meta: { what: 'tool' } }));
    assert.equal(asked, 1);
  });

  it('what was fetched before a later one failed is not fetched again', async () => {
    using world = new HookWorld();
    let asked = 0;
    answers.set('/good', (response) => {
      asked += 1;
      response.end('x');
    });
    const artifacts = [anArtifact({ source: `${base}/good` }), anArtifact({ source: `${base}/later` })];
    await assert.rejects(run(world, artifacts), /later: the server answers 404 Not Found/);
    serve('/later', 'y');
    await run(world, artifacts);
    assert.equal(asked, 1);
    assert.deepEqual(tree(world.dirs.localDir), ['good', 'later']);
  });

  for (const [name, make] of [
    ['site.tar', (dir: string) => tarOf([{ path: 'a/b', body: dir }])],
    ['site.tar.gz', (dir: string) => gzipSync(tarOf([{ path: 'a/b', body: dir }]))],
    ['site.tgz', (dir: string) => gzipSync(tarOf([{ path: './a/b', body: dir }]))],
    ['site.zip', (dir: string) => zipOf([{ path: 'a/b', body: dir }])],
  ] as const) {
    it(`${name} is unpacked into the destination and joins what is there`, async () => {
      using world = new HookWorld();
      mkdirSync(join(world.dirs.localDir, 'a'));
      writeFileSync(join(world.dirs.localDir, 'a', 'old'), '');
      const source = serve(`/${name}`, make('body'));
      await run(world, [anArtifact({ source })]);
      assert.equal(readFileSync(join(world.dirs.localDir, 'a/b'), 'utf8'), 'body');
      assert.deepEqual(tree(world.dirs.localDir), ['a', 'a/b', 'a/old']);
      assert.deepEqual(
        tree(world.dir).filter((path) => path.includes('.fetch')),
        [],
      );
    });
  }

  it('what the tar program of everybody makes', async () => {
    using world = new HookWorld();
    mkdirSync(join(scratch, 'src/bin'), { recursive: true });
    writeFileSync(join(scratch, 'src/bin/run'), '#!/bin/sh\n', { mode: 0o755 });
    symlinkSync('bin/run', join(scratch, 'src/start'));
    linkSync(join(scratch, 'src/bin/run'), join(scratch, 'src/again'));
    await tar.c({ gzip: true, file: join(scratch, 'real.tar.gz'), cwd: join(scratch, 'src') }, ['.']);
    await run(world, [anArtifact({ source: `file://${scratch}/real.tar.gz`, destination: 'alloc/data' })]);
    const data = join(world.dirs.allocDir, 'data');
    assert.equal(readFileSync(join(data, 'start'), 'utf8'), '#!/bin/sh\n');
    assert.equal(readFileSync(join(data, 'again'), 'utf8'), '#!/bin/sh\n');
    assert.equal(statSync(join(data, 'bin/run')).mode & 0o777, 0o755);
  });

  it('options and modes: archive = false, mode file with and without an archive, mode dir', async () => {
    using world = new HookWorld();
    const source = serve('/one.zip', zipOf([{ path: 'dir/only', body: 'inner' }]));
    const plain = serve('/plain', tarOf([{ path: 'x', body: 'y' }]));
    await run(world, [
      anArtifact({ source, options: { archive: 'false' } }),
      anArtifact({ source, mode: 'file', destination: 'local/inner' }),
      anArtifact({ source, mode: 'file', destination: 'local/raw', options: { archive: 'false' } }),
      anArtifact({ source: plain, mode: 'dir', destination: 'local/d', options: { archive: 'tar' } }),
    ]);
    assert.deepEqual(tree(world.dirs.localDir), ['d', 'd/x', 'inner', 'one.zip', 'raw']);
    assert.equal(readFileSync(join(world.dirs.localDir, 'inner'), 'utf8'), 'inner');
  });
});

describe('what is checked and refused', () => {
  const body = 'content';
  const sum = (kind: string): string => `${kind}:${createHash(kind).update(body).digest('hex')}`;

  for (const kind of ['md5', 'sha1', 'sha256', 'sha512']) {
    it(`checksum ${kind}`, async () => {
      using world = new HookWorld();
      const source = serve('/sum', body);
      await run(world, [anArtifact({ source, options: { checksum: sum(kind) } })]);
      const wrong = sum(kind).replace(/.$/, (digit) => (digit === '0' ? '1' : '0'));
      using other = new HookWorld();
      const error = await failure(other, { source, options: { checksum: wrong } });
      assert.match(error.message, new RegExp(`its ${kind} is .*, wanted `));
      assert.equal(error.recoverable, true);
    });
  }

  const faults: readonly (readonly [string, () => Partial<Artifact>, RegExp, boolean])[] = [
    ['404', () => ({ source: `${base}/none` }), /answers 404/, true],
    [
      '503',
      () => {
        answers.set('/busy', (response) => response.writeHead(503).end());
        return { source: `${base}/busy` };
      },
      /answers 503/,
      true,
    ],
    ['nobody there', () => ({ source: 'http://127.0.0.1:65000/x' }), /ECONNREFUSED/, true],
    [
      'a server that goes silent',
      () => {
        answers.set('/slow', (response) => {
          response.writeHead(200);
          response.write('x');
        });
        return { source: `${base}/slow` };
      },
      /nothing for 0.3s/,
      true,
    ],
    [
      'a server that breaks off',
      () => {
        answers.set('/cut', (response) => {
          response.writeHead(200, { 'content-length': '100' });
          response.write('x', () => response.destroy());
        });
        return { source: `${base}/cut` };
      },
      /broke off|closed/,
      true,
    ],
    [
      'redirected in a circle',
      () => {
        answers.set('/circle', (response) => response.writeHead(302, { location: '/circle' }).end());
        return { source: `${base}/circle` };
      },
      /more than 10 times/,
      true,
    ],
    [
      'redirected to a file',
      () => {
        answers.set('/local', (response) =>
          response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
        );
        return { source: `${base}/local` };
      },
      /redirected to file:/,
      true,
    ],
    ['too large', () => ({ source: serve('/large', Buffer.alloc(20_000)) }), /larger than 10000/, true],
    ['a directory', () => ({ source: '/etc' }), /not a regular file/, true],
    ['a device', () => ({ source: 'file:///dev/zero' }), /not a regular file/, true],
    [
      'mode dir without an archive',
      () => ({ source: '/etc/passwd', mode: 'dir' }),
      /wants an archive/,
      false,
    ],
    [
      'out of the directory',
      () => ({ source: '/etc/passwd', destination: '${env["UP"]}/x' }),
      /leads out/,
      false,
    ],
    ['a foreign scheme', () => ({ source: '${env["BAD"]}' }), /fetching by ftp/, false],
    ['a damaged archive', () => ({ source: serve('/bad.tar.gz', gzipSync('no tar')) }), /bad archive/, true],
    [
      'a cut archive',
      () => ({ source: serve('/cut.zip', zipOf([{ path: 'a', body }]).subarray(0, 30)) }),
      /bad archive/,
      true,
    ],
  ];
  for (const [name, make, text, recoverable] of faults) {
    it(name, async () => {
      using world = new HookWorld();
      const artifact = anArtifact(make());
      const context = world.context({ artifacts: [artifact], env: { UP: '../..', BAD: 'ftp://x' } });
      await assert.rejects(
        async () => artifactHook(SMALL).prestart?.(context),
        (error) => {
          assert.ok(error instanceof HookFailure);
          assert.match(error.message, text);
          assert.equal(error.recoverable, recoverable);
          return true;
        },
      );
      assert.deepEqual(tree(world.dirs.localDir), []);
    });
  }

  it('headers of the job and logins are for the host they were meant for', async () => {
    using world = new HookWorld();
    const seen: (string | string[] | undefined)[] = [];
    answers.set('/target', (response, headers) => {
      seen.push(headers['x-secret'], headers['authorization']);
      response.end('x');
    });
    answers.set('/away', (response, headers) => {
      seen.push(headers['x-secret'], headers['authorization']);
      response.writeHead(302, { location: `${base.replace('127.0.0.1', 'localhost')}/target` }).end();
    });
    const source = `${base.replace('http://', 'http://user:pass@')}/away`;
    await run(world, [
      anArtifact({ source, headers: { 'X-Secret': 's' }, mode: 'file', destination: 'local/x' }),
    ]);
    assert.deepEqual(seen, [
      's',
      `Basic ${Buffer.from('user:pass').toString('base64')}`,
      undefined,
      undefined,
    ]);
    assert.ok(!world.waits.join().includes('pass'));
  });

  it('is given up at once when the task shall end', async () => {
    using world = new HookWorld();
    const abort = new AbortController();
    answers.set('/for-ever', (response) => {
      response.writeHead(200);
      response.write('x', () => {
        abort.abort(new Error('killed'));
      });
    });
    const context = world.context(
      { artifacts: [anArtifact({ source: `${base}/for-ever` })] },
      { signal: abort.signal },
    );
    const work = artifactHook({ ...SMALL, idleMs: 60_000 }).prestart?.(context);
    await assert.rejects(async () => work, /killed/);
    assert.deepEqual(tree(world.dirs.localDir), []);
  });
});

describe('archives that mean harm', () => {
  const outside = join(scratch, 'outside');
  const hostile: readonly (readonly [string, () => Buffer, RegExp])[] = [
    ['..', () => tarOf([{ path: '../../x', body: '' }]), /leads out/],
    ['.. in the middle', () => tarOf([{ path: 'a/../../x', body: '' }]), /leads out/],
    ['an absolute path', () => tarOf([{ path: outside, body: '' }]), /absolute/],
    ['a link out', () => tarOf([{ path: 'l', link: '../../../etc' }]), /leads out/],
    ['an absolute link', () => tarOf([{ path: 'l', link: '/etc/passwd' }]), /leads out/],
    [
      'through a link',
      () =>
        tarOf([
          { path: 'l', link: outside },
          { path: 'l/x', body: 'x' },
        ]),
      /no directory/,
    ],
    [
      'through a link within',
      () =>
        tarOf([
          { path: 'd', dir: true },
          { path: 'l', link: 'd' },
          { path: 'l/x', body: '' },
        ]),
      /no directory/,
    ],
    [
      'a link out by another link',
      () =>
        tarOf([
          { path: 'a/b', dir: true },
          { path: 'a/b/up', link: '../..' },
          { path: 'out', link: 'a/b/up/..' },
        ]),
      /leads out/,
    ],
    [
      'a link that a later artifact could turn',
      () => tarOf([{ path: 'l', link: 'not/there/../../..' }]),
      /leads out/,
    ],
    [
      'links in a circle',
      () =>
        tarOf([
          { path: 'a', link: 'b' },
          { path: 'b', link: 'a' },
        ]),
      /leads out/,
    ],
    ['a hard link out', () => tarOf([{ path: 'h', hard: '/etc/passwd' }]), /absolute|no file/],
    ['a hard link up', () => tarOf([{ path: 'h', hard: '../../x' }]), /leads out/],
    [
      'a hard link to a link',
      () =>
        tarOf([
          { path: 'l', link: 'x' },
          { path: 'h', hard: 'l' },
        ]),
      /no file/,
    ],
    ['a device', () => tarOf([{ path: 'null', type: '3' }]), /neither a file/],
    ['a pipe', () => tarOf([{ path: 'fifo', type: '6' }]), /neither a file/],
    [
      'too many files',
      () => tarOf(Array.from({ length: 30 }, (_, at) => ({ path: `f${at}`, body: '' }))),
      /more than 20 files/,
    ],
    [
      'too many bytes',
      () => gzipSync(tarOf([{ path: 'bomb', body: Buffer.alloc(100_000) }])),
      /more than 5000 bytes/,
    ],
  ];
  for (const [name, make, text] of hostile) {
    it(`tar: ${name}`, async () => {
      using world = new HookWorld();
      const kind = name === 'too many bytes' ? 'tgz' : 'tar';
      const error = await failure(
        world,
        { source: serve(`/x.${kind}`, make()) },
        { ...SMALL, maxBytes: 1e6 },
      );
      assert.match(error.message, text);
      assert.ok(!existsSync(outside));
    });
  }

  for (const [name, entries, text] of [
    ['..', [{ path: '../x', body: '' }], /\.\.|relative/],
    ['an absolute path', [{ path: '/tmp/x', body: '' }], /absolute/],
    ['a link out', [{ path: 'l', link: '../../etc' }], /leads out/],
    ['too many bytes', [{ path: 'bomb', body: Buffer.alloc(100_000) }], /more than 5000 bytes/],
  ] as const) {
    it(`zip: ${name}`, async () => {
      using world = new HookWorld();
      const error = await failure(
        world,
        { source: serve('/x.zip', zipOf(entries)) },
        { ...SMALL, maxBytes: 1e6 },
      );
      assert.match(error.message, text);
    });
  }

  it('set-user-id bits are not kept', async () => {
    using world = new HookWorld();
    await run(world, [
      anArtifact({ source: serve('/s.tar', tarOf([{ path: 's', body: '', mode: 0o4755 }])) }),
    ]);
    assert.equal(lstatSync(join(world.dirs.localDir, 's')).mode & 0o7777, 0o755);
  });

  it('a link that the task or an earlier artifact left in the way is not followed', async () => {
    using world = new HookWorld();
    mkdirSync(outside, { recursive: true });
    symlinkSync(outside, join(world.dirs.localDir, 'd'));
    const source = serve('/f', 'x');
    await failure(world, { source, destination: 'local/d' });
    await failure(world, { source: serve('/d.tar', tarOf([{ path: 'd/f', body: '' }])) });
    assert.deepEqual(tree(outside), []);
    symlinkSync(join(outside, 'victim'), join(world.dirs.localDir, 'f'));
    await run(world, [anArtifact({ source })]);
    assert.ok(lstatSync(join(world.dirs.localDir, 'f')).isFile(), 'the link itself is replaced');
    assert.deepEqual(tree(outside), []);
    rmSync(outside, { recursive: true });
  });
});
