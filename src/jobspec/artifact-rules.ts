/** Owns the rules of `artifact` and `dispatch_payload` between keys, and what they mean. */
import type { BlockRead, Found } from './blocks.js';
import { DEFAULTS } from './defaults.js';
import { isInterpolated, leadsOut } from './inside.js';
import type { ARTIFACT } from './schema/artifact.js';
import type { DISPATCH_PAYLOAD } from './schema/dispatch-payload.js';
import { nameOf, type Session } from './session.js';
import type { Artifact } from './types.js';
import { quote } from './words.js';

/** Length of each checksum in hex digits. */
const CHECKSUMS = { md5: 32, sha1: 40, sha256: 64, sha512: 128 } as const;

const ARCHIVE_KINDS = ['tar', 'tar.gz', 'tgz', 'zip'] as const;

const OTHER_ARCHIVES = /\.(?:t?bz2|tbz|t?xz|tzst|zst|rar|7z)$/i;

export function buildArtifact({ keys, clean }: BlockRead<typeof ARTIFACT.keys>, session: Session): Artifact {
  const artifact: Artifact = {
    source: keys.source?.value ?? '',
    destination: keys.destination?.value ?? DEFAULTS.artifactDestination.value,
    mode: keys.mode?.value ?? DEFAULTS.artifactMode.value,
    options: keys.options?.value ?? {},
    headers: keys.headers?.value ?? {},
    chown: keys.chown?.value ?? DEFAULTS.artifactChown.value,
  };
  if (!clean) return artifact;
  if (keys.source !== undefined) checkSource(keys.source, artifact, session);
  if (keys.destination !== undefined) tellOut(keys.destination, "the task's directory", session);
  if (keys.options !== undefined) checkOptions(keys.options, session);
  return artifact;
}

export function buildDispatchPayload(
  block: Found<BlockRead<typeof DISPATCH_PAYLOAD.keys>>,
  session: Session,
): { readonly file: string } | undefined {
  const { file } = block.value.keys;
  if (file === undefined) return undefined;
  tellOut(file, "the task's `local/`", session);
  return { file: file.value };
}

/** Tells of a path that leads out of where it belongs. */
export function tellOut(path: Found<string>, where: string, session: Session): void {
  if (!leadsOut(path.value)) return;
  session.fault(path.spot, `${nameOf(path.spot)}: ${quote(path.value)} leads out of ${where}`);
}

function checkSource({ value, spot }: Found<string>, artifact: Artifact, session: Session): void {
  const why = faultOfSource(value);
  if (why !== undefined) session.fault(spot, `${nameOf(spot)}: ${why.message}`, why.hint);
  const name = value.split(/[?#]/, 1)[0] ?? '';
  if (artifact.options['archive'] === undefined && OTHER_ARCHIVES.test(name)) {
    session.fault(
      spot,
      `${nameOf(spot)}: of archives, tar, tar.gz and zip can be unpacked`,
      'to fetch it as it is, write `options { archive = "false" }`',
    );
  }
}

/** Why nothing can be fetched from there; judged again when `${…}` is filled in. */
export function faultOfSource(value: string): { message: string; hint?: string } | undefined {
  if (/^[a-z0-9]+::/.test(value)) {
    return { message: `fetching by ${value.split('::', 1)[0] ?? ''} is not supported by holdfast yet` };
  }
  if (isInterpolated(value) || /^\/[^/]/.test(value)) return undefined;
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(value)?.[1]?.toLowerCase();
  if (scheme === undefined) {
    return { message: `${quote(value)} names no scheme`, hint: 'write https://…, http://… or file:///…' };
  }
  if (!['http', 'https', 'file'].includes(scheme)) {
    return { message: `fetching by ${scheme} is not supported by holdfast yet` };
  }
  if (!URL.canParse(value)) return { message: `${quote(value)} is not a URL` };
  const { searchParams, pathname } = new URL(value);
  const option = ['checksum', 'archive'].find((key) => searchParams.has(key));
  if (option !== undefined) {
    return { message: `\`${option}\` stands in the URL`, hint: `write \`options { ${option} = "…" }\`` };
  }
  if (scheme !== 'file' && pathname.includes('//')) {
    return { message: 'a part of an archive (`//`) cannot be fetched alone', hint: 'fetch it all' };
  }
  return undefined;
}

function checkOptions({ value, spot }: Found<Readonly<Record<string, string>>>, session: Session): void {
  const { checksum, archive } = value;
  if (checksum !== undefined && !isInterpolated(checksum) && readChecksum(checksum) === undefined) {
    const kinds = Object.keys(CHECKSUMS).join(', ');
    session.fault(
      spot,
      `\`checksum\`: expected a kind (${kinds}), a colon and hex digits, found ${quote(checksum)}`,
    );
  }
  if (archive !== undefined && !isInterpolated(archive) && !isArchiveOption(archive)) {
    const kinds = ['false', ...ARCHIVE_KINDS].map((kind) => `"${kind}"`).join(', ');
    session.fault(spot, `\`archive\`: expected one of ${kinds}, found ${quote(archive)}`);
  }
}

function isArchiveOption(value: string): boolean {
  return value === 'false' || value === 'true' || ARCHIVE_KINDS.some((kind) => kind === value);
}

/** `sha256:abc…` in its parts; undefined when it is none. */
export function readChecksum(
  text: string,
): { readonly kind: keyof typeof CHECKSUMS; readonly hex: string } | undefined {
  const [, kind = '', hex = ''] = /^(md5|sha1|sha256|sha512):([0-9a-fA-F]+)$/.exec(text) ?? [];
  const known = Object.entries(CHECKSUMS).find(([name, length]) => name === kind && hex.length === length);
  return known === undefined ? undefined : { kind: kind as keyof typeof CHECKSUMS, hex: hex.toLowerCase() };
}
