/**
 * Hook: fetches the artifacts of a task, one after the other. What is fetched and unpacked lies in a directory of ours,
 * beside those of the tasks, until it is whole; then it is moved to its place. An artifact counts as fetched once that is
 * stored; so a crash, whenever it comes, leaves nothing half done that is believed to be done.
 */
import { createHash } from 'node:crypto';
import { chmod, lchown, mkdir, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AgentError, describeError, describeSystemError, errnoOf, isRecoverable } from '../../base/errors.js';
import { lookUpUser } from '../../base/users.js';
import { faultOfSource, readChecksum } from '../../jobspec/artifact-rules.js';
import type { Artifact } from '../../jobspec/types.js';
import { unpack, type ArchiveKind } from './artifact/archives.js';
import { fetchFile } from './artifact/fetch.js';
import { USUAL_ARTIFACT_LIMITS, type ArtifactLimits } from './artifact/limits.js';
import { bad, Unpacker } from './artifact/unpacker.js';
import { runBounded } from './bounded.js';
import { HookFailure, type HookContext, type TaskHook } from './hook.js';
import { Directory, placeOf, type Place } from './place.js';

/** Every artifact has its own bound; this one is for what nobody thought of. */
const DEADLINE_MS = 24 * 3_600_000;

/** People run what they fetch; what must not be run by others can be put into `secrets/`. */
const FILE_MODE = 0o755;

export function artifactHook(limits: ArtifactLimits = USUAL_ARTIFACT_LIMITS): TaskHook {
  return {
    name: 'artifacts',
    deadlinesMs: { prestart: DEADLINE_MS },
    concerns: ({ artifacts }) => artifacts !== undefined,
    prestart: async (context) => {
      const { task, emit, save } = context;
      if (task.artifacts === undefined) return undefined;
      let data = context.data;
      const open = task.artifacts
        .map((artifact) => resolved(artifact, context))
        .filter((artifact) => data[keyOf(artifact)] === undefined);
      if (open.length > 0) emit({ type: 'Downloading Artifacts' });
      for (const artifact of open) {
        await fetchOne(artifact, context, limits);
        data = { ...data, [keyOf(artifact)]: shown(artifact) };
        await save(data);
      }
      return { data, done: 'always' };
    },
  };
}

function resolved(artifact: Artifact, { hostEnv }: HookContext): Artifact {
  const { interpolate } = hostEnv();
  const all = (map: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
    Object.fromEntries(Object.entries(map).map(([key, value]) => [key, interpolate(value)]));
  return {
    ...artifact,
    source: interpolate(artifact.source),
    destination: interpolate(artifact.destination),
    options: all(artifact.options),
    headers: all(artifact.headers),
  };
}

/** What makes it another artifact: not what is needed to be let in. */
function keyOf({ source, destination, mode, options }: Artifact): string {
  return createHash('sha256')
    .update(JSON.stringify([source, destination, mode, options]))
    .digest('hex');
}

/** For people: no login, no query. */
function shown({ source }: Artifact): string {
  if (!URL.canParse(source)) return source;
  const { protocol, host, pathname } = new URL(source);
  return `${protocol}//${host}${pathname}`;
}

async function fetchOne(artifact: Artifact, context: HookContext, limits: ArtifactLimits): Promise<void> {
  const name = shown(artifact);
  context.waitFor(`artifact ${name}`);
  const staging = join(dirname(context.dirs.taskDir), `.fetch-${context.task.name}`);
  try {
    const bounds = {
      clock: context.clock,
      name: 'it',
      limitMs: limits.timeoutMs,
      outer: context.signal,
      onSlow: () => undefined,
    };
    await runBounded(bounds, async ({ signal }) => {
      await rm(staging, { recursive: true, force: true });
      await mkdir(staging, { mode: 0o700 });
      await place(artifact, { context, limits, staging, signal });
    });
  } catch (error) {
    context.signal.throwIfAborted();
    const isOfHost = !(error instanceof AgentError) && errnoOf(error) !== undefined;
    const text = `${name}: ${isOfHost ? describeSystemError(error) : describeError(error)}`;
    throw new HookFailure({ type: 'Failed Artifact Download', error: text }, text, {
      // A full disk may have room later.
      recoverable: isRecoverable(error) || isOfHost,
      cause: error,
    });
  } finally {
    await rm(staging, { recursive: true, force: true }).catch(() => undefined);
  }
}

interface Work {
  readonly context: HookContext;
  readonly limits: ArtifactLimits;
  /** A directory that no task can reach. */
  readonly staging: string;
  readonly signal: AbortSignal;
}

async function place(artifact: Artifact, { context, limits, staging, signal }: Work): Promise<void> {
  const fault = faultOfSource(artifact.source);
  if (fault !== undefined) throw new AgentError('hook_failed', fault.message);
  const target = placeOf(artifact.destination, context.dirs);
  const kind = archiveOf(artifact);
  const file = join(staging, 'download');
  const checksum = artifact.options['checksum'];
  await fetchFile({
    source: artifact.source,
    headers: artifact.headers,
    checksum: checksum === undefined ? undefined : wanted(checksum),
    into: file,
    limits,
    clock: context.clock,
    signal,
  });
  const tree = join(staging, 'tree');
  if (kind === undefined) await chmod(file, FILE_MODE);
  else {
    await mkdir(tree);
    await unpack(kind, file, new Unpacker(tree, limits), signal);
  }
  if (artifact.chown) await giveAway(kind === undefined ? file : tree, context);
  signal.throwIfAborted();
  if (artifact.mode === 'file') await putFile(kind === undefined ? file : await onlyFile(tree), target);
  else if (kind === undefined) await putFile(file, inside(target, nameOf(artifact)));
  else {
    await using directory = await Directory.open(target.root, target.names, true);
    for (const name of await readdir(tree)) await directory.take(join(tree, name), name);
  }
}

function wanted(text: string): NonNullable<ReturnType<typeof readChecksum>> {
  const checksum = readChecksum(text);
  if (checksum === undefined)
    throw new AgentError('hook_failed', `${JSON.stringify(text)} is not a checksum`);
  return checksum;
}

/** What has to be unpacked, and how. @throws AgentError hook_failed */
function archiveOf({ source, mode, options }: Artifact): ArchiveKind | undefined {
  const option = options['archive'];
  const path = URL.canParse(source) ? new URL(source).pathname : source;
  const name = option === undefined || option === 'true' ? path : `.${option}`;
  const kind = /\.(?:tar|tar\.gz|tgz)$/i.test(name) ? 'tar' : /\.zip$/i.test(name) ? 'zip' : undefined;
  if (kind === undefined && (mode === 'dir' || option === 'true')) {
    const wish = mode === 'dir' ? 'mode "dir"' : 'option archive = "true"';
    throw new AgentError(
      'hook_failed',
      `${wish} wants an archive (tar, tar.gz, zip): name its kind in \`archive\``,
    );
  }
  return kind;
}

function nameOf({ source }: Artifact): string {
  const path = URL.canParse(source) ? new URL(source).pathname : source;
  let name = basename(path);
  try {
    name = decodeURIComponent(name);
  } catch {
    // Then it is meant as it is written.
  }
  if (name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name)) return name;
  throw new AgentError(
    'hook_failed',
    'the source names no file: use mode "file" and name it in `destination`',
  );
}

function inside(place: Place, name: string): Place {
  return { ...place, names: [...place.names, name] };
}

async function putFile(file: string, { root, names, shown: path }: Place): Promise<void> {
  const name = names.at(-1);
  if (name === undefined) throw new AgentError('hook_failed', `${path} is a directory, not a file`);
  await using directory = await Directory.open(root, names.slice(0, -1), true);
  await directory.take(file, name);
}

async function onlyFile(tree: string): Promise<string> {
  const entries = await readdir(tree, { recursive: true, withFileTypes: true });
  const [only, ...more] = entries.filter((entry) => !entry.isDirectory());
  if (only?.isFile() !== true || more.length > 0) {
    throw bad('mode "file" wants an archive that holds one file');
  }
  return join(only.parentPath, only.name);
}

async function giveAway(path: string, { task, env }: HookContext): Promise<void> {
  if (task.user === undefined) throw new AgentError('hook_failed', '`chown` needs the `user` of the task');
  const { uid, gid } = await lookUpUser(env().interpolate(task.user));
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOTDIR') return [];
    throw error;
  });
  for (const entry of entries) await lchown(join(entry.parentPath, entry.name), uid, gid);
  await lchown(path, uid, gid);
}
