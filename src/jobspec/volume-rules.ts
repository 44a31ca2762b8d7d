/** Owns the rules of `volume` and `volume_mount` between keys, and what they mean. */
import { posix } from 'node:path';
import type { BlockRead, Found } from './blocks.js';
import type { Labelled } from './schema/key.js';
import type { VOLUME, VOLUME_MOUNT } from './schema/volume.js';
import type { Session } from './session.js';
import type { GroupVolume, VolumeMount } from './types.js';
import { quote, suggest } from './words.js';

/** What an exec task has of its own: mounted after its volumes, upon whatever is there or below (native/rootfs.c). */
const OWN_MOUNTS = ['/dev', '/proc', '/sys'] as const;

/** The volumes of a group by their labels; undefined = none. */
export function buildVolumes(
  volumes: readonly Labelled<typeof VOLUME.keys>[],
): Readonly<Record<string, GroupVolume>> | undefined {
  if (volumes.length === 0) return undefined;
  return Object.fromEntries(
    volumes.map(({ label, read: { keys } }) => [
      label,
      { source: keys.source?.value ?? '', readOnly: keys.read_only?.value ?? false },
    ]),
  );
}

/** @param around.volumes labels of the group's volumes */
export function buildVolumeMounts(
  mounts: readonly BlockRead<typeof VOLUME_MOUNT.keys>[],
  around: { readonly volumes: readonly string[]; readonly driver: Found<string> | undefined },
  session: Session,
): readonly VolumeMount[] | undefined {
  if (mounts.length === 0) return undefined;
  for (const [index, { keys }] of mounts.entries()) {
    const { volume, destination } = keys;
    if (destination !== undefined) {
      const later = mounts.slice(index + 1).flatMap((mount) => mount.keys.destination?.value ?? []);
      checkDestination(destination, { driver: around.driver, later }, session);
    }
    if (volume === undefined) continue;
    if (!around.volumes.includes(volume.value)) {
      const hint =
        suggest(volume.value, around.volumes, 'the group has') ?? 'add `volume "name" { … }` to the group';
      session.fault(volume.spot, `the group has no volume ${quote(volume.value)}`, hint);
    }
    if (around.driver?.value === 'raw_exec') {
      session.fault(
        volume.spot,
        'driver raw_exec cannot mount: its tasks see the files of the host as they are',
        'use driver `exec`, or the path on the host',
      );
    }
  }
  return mounts.map(({ keys }) => ({
    volume: keys.volume?.value ?? '',
    destination: keys.destination?.value ?? '',
    readOnly: keys.read_only?.value ?? false,
  }));
}

/** A volume that something is mounted upon cannot be seen, and what the task writes there is not in it. */
function checkDestination(
  { value, spot }: Found<string>,
  { driver, later }: { readonly driver: Found<string> | undefined; readonly later: readonly string[] },
  session: Session,
): void {
  if (!/^\/[^/]/.test(value) || pathOf(value) === '/') {
    session.fault(spot, `expected an absolute path other than "/", found ${quote(value)}`);
    return;
  }
  if (driver?.value !== 'exec') return;
  const own = OWN_MOUNTS.find((top) => isWithin(value, top));
  const other = later.find((path) => isWithin(value, path));
  const hidden = `a volume at ${quote(value)} would be hidden`;
  if (own !== undefined) {
    const hint = `choose a destination outside of ${OWN_MOUNTS.join(', ')}, such as "/data"`;
    session.fault(spot, `${hidden}: a task has its own ${own}, mounted after its volumes`, hint);
  } else if (other !== undefined) {
    const hint = isWithin(other, value)
      ? 'choose another destination for one of them'
      : 'write its block after that one';
    session.fault(spot, `${hidden} by the one at ${quote(other)}, mounted after it`, hint);
  }
}

/** Without `..`, `.`, and slashes that say nothing. */
function pathOf(text: string): string {
  return posix.resolve('/', text);
}

/** True when a path is that directory, or below it. */
function isWithin(path: string, dir: string): boolean {
  return `${pathOf(path)}/`.startsWith(`${pathOf(dir)}/`);
}
