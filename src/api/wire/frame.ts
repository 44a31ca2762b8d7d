/** Owns the frames of streams of logs and files. */

/** One frame of a log stream that is not plain: `{}` is a heartbeat, Data is base64. */
export interface StreamFrame {
  readonly Offset?: number;
  readonly Data?: string;
  readonly File?: string;
  readonly FileEvent?: string;
}
