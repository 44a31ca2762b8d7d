/** Owns the bounds of fetching. Nomad's defaults, where it has them. */
export interface ArtifactLimits {
  /** Of one download. */
  readonly maxBytes: number;
  /** Of what one archive holds, unpacked. */
  readonly maxUnpackedBytes: number;
  readonly maxFiles: number;
  /** For one artifact, from the first byte asked for to the last one in its place. */
  readonly timeoutMs: number;
  /** For the next piece of a download. */
  readonly idleMs: number;
  readonly maxRedirects: number;
}

const GIB = 1024 ** 3;

export const USUAL_ARTIFACT_LIMITS: ArtifactLimits = {
  maxBytes: 100 * GIB,
  maxUnpackedBytes: 100 * GIB,
  maxFiles: 4_096,
  timeoutMs: 30 * 60_000,
  // Nomad has none: a server that says nothing any more then holds the task for half an hour.
  idleMs: 60_000,
  maxRedirects: 10,
};
