/** Owns the frames of streams of logs and files. */

/** One frame of a log stream that is not plain: `{}` is a heartbeat, Data is base64. */
export interface StreamFrame {
  readonly Offset?: number;
  readonly Data?: string;
  readonly File?: string;
  readonly FileEvent?: string;
}

/** GET /v1/client/fs/{ls,stat}/:id. */
export interface AllocFileInfo {
  readonly Name: string;
  readonly IsDir: boolean;
  readonly Size: number;
  /** As Go writes a mode: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`. */
  readonly FileMode: string;
  readonly ModTime: string;
  /** Of a file, by its first bytes, and only in an answer to stat; else ''. */
  readonly ContentType: string;
}
