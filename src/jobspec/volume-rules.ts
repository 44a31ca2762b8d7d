/** Owns the rules of `volume` and `volume_mount` between keys, and what they mean. */
import type { BlockRead, Found } from './blocks.js';
import type { Labelled } from './schema/key.js';
import type { VOLUME, VOLUME_MOUNT } from './schema/volume.js';
import type { Session } from './session.js';
import type { GroupVolume, VolumeMount } from './types.js';
import { quote, suggest } from './words.js';

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
  for (const { keys } of mounts) {
    const { volume, destination } = keys;
    if (destination !== undefined && !/^\/[^/]/.test(destination.value)) {
      session.fault(
        destination.spot,
        `expected an absolute path other than "/", found ${quote(destination.value)}`,
      );
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
