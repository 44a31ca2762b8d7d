/** Owns the reading of archives: tar (plain or gzipped) and zip, entry by entry, handed to an Unpacker. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type * as Tar from 'tar';
import type * as Yauzl from 'yauzl';
import { AgentError, describeError } from '../../../base/errors.js';
import { loadPackage } from '../../../base/lazy.js';
import { bad, type ArchiveEntry, type Unpacker } from './unpacker.js';

export type ArchiveKind = 'tar' | 'zip';

/** @throws AgentError hook_failed, or the signal's reason */
export async function unpack(
  kind: ArchiveKind,
  file: string,
  unpacker: Unpacker,
  signal: AbortSignal,
): Promise<void> {
  try {
    await (kind === 'tar' ? unpackTar(file, unpacker, signal) : unpackZip(file, unpacker, signal));
    await unpacker.finish();
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof AgentError ? error : bad(describeError(error));
  }
}

const TAR_KINDS: Readonly<Record<string, ArchiveEntry['kind']>> = {
  File: 'file',
  OldFile: 'file',
  ContiguousFile: 'file',
  Directory: 'directory',
  SymbolicLink: 'symlink',
  Link: 'hardlink',
};

/** Finds out by itself whether it is gzipped. */
async function unpackTar(file: string, unpacker: Unpacker, signal: AbortSignal): Promise<void> {
  let work: Promise<void> = Promise.resolve();
  let failure: Error | undefined;
  const source = createReadStream(file);
  const { Parser } = loadPackage('tar') as typeof Tar;
  const parser = new Parser({
    // A broken header is an error, not a warning.
    strict: true,
    onReadEntry: (entry) => {
      work = work.then(async () => {
        try {
          if (failure === undefined) await unpacker.add(fromTar(entry));
        } catch (error) {
          failure = error instanceof Error ? error : bad(describeError(error));
          source.destroy(failure);
        }
        entry.resume();
      });
    },
  });
  try {
    // The parser is no Node stream in name, but in deed.
    await pipeline(source, parser as unknown as NodeJS.WritableStream, { signal });
  } catch (error) {
    await work;
    throw failure ?? error;
  }
  await work;
  if (failure !== undefined) throw failure;
}

function fromTar(entry: Tar.ReadEntry): ArchiveEntry {
  return {
    path: entry.path,
    kind: TAR_KINDS[entry.type] ?? 'other',
    mode: entry.mode ?? 0o644,
    target: entry.linkpath ?? '',
    content: entry,
  };
}

const FILE_KIND = 0o170000;
const ZIP_KINDS: ReadonlyMap<number, ArchiveEntry['kind']> = new Map([
  [0, 'file'],
  [0o100000, 'file'],
  [0o040000, 'directory'],
  [0o120000, 'symlink'],
]);
/** Longest path that a link may hold. */
const LONGEST_LINK = 4_096;

/** The library itself refuses absolute names, `..` and sizes that are not true. */
async function unpackZip(file: string, unpacker: Unpacker, signal: AbortSignal): Promise<void> {
  const yauzl = loadPackage('yauzl') as typeof Yauzl;
  const zip = await new Promise<Yauzl.ZipFile>((resolve, reject) => {
    yauzl.open(file, { lazyEntries: true, autoClose: false, strictFileNames: true }, (error, opened) => {
      if (error === null) resolve(opened);
      else reject(error);
    });
  });
  try {
    for (let entry = await nextEntry(zip); entry !== undefined; entry = await nextEntry(zip)) {
      signal.throwIfAborted();
      await unpacker.add(await fromZip(zip, entry));
    }
  } finally {
    zip.close();
  }
}

function nextEntry(zip: Yauzl.ZipFile): Promise<Yauzl.Entry | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      zip.removeAllListeners('entry').removeAllListeners('end').removeAllListeners('error');
      act();
    };
    zip.once('entry', (entry: Yauzl.Entry) => {
      settle(() => {
        resolve(entry);
      });
    });
    zip.once('end', () => {
      settle(() => {
        resolve(undefined);
      });
    });
    zip.once('error', (error: Error) => {
      settle(() => {
        reject(error);
      });
    });
    zip.readEntry();
  });
}

async function fromZip(zip: Yauzl.ZipFile, entry: Yauzl.Entry): Promise<ArchiveEntry> {
  const mode = entry.externalFileAttributes >>> 16;
  const isDirectory = entry.fileName.endsWith('/');
  const kind = isDirectory ? 'directory' : (ZIP_KINDS.get(mode & FILE_KIND) ?? 'other');
  const content = kind === 'file' || kind === 'symlink' ? await contentOf(zip, entry) : none();
  const target = kind === 'symlink' ? await textOf(content, entry.fileName) : '';
  return { path: entry.fileName, kind, mode: (mode & 0o777) === 0 ? 0o644 : mode, target, content };
}

function contentOf(zip: Yauzl.ZipFile, entry: Yauzl.Entry): Promise<AsyncIterable<Buffer>> {
  return new Promise((resolve, reject) => {
    zip.openReadStream(entry, (error, stream) => {
      if (error === null) resolve(stream);
      else reject(error);
    });
  });
}

async function textOf(content: AsyncIterable<Buffer | string>, name: string): Promise<string> {
  let text = '';
  for await (const piece of content) {
    text += piece.toString();
    if (text.length > LONGEST_LINK) throw bad(`the link ${name} is too long`);
  }
  return text;
}

async function* none(): AsyncGenerator<Buffer> {
  // A directory holds nothing.
}
