/** Owns the messages of a session's websocket: Nomad's, lower case, and two keys of ours (`signal`, `error`). */
import type { ErrorBody } from './errors.js';

/** From the caller. `{}` is a heartbeat. Data is base64. */
export interface ExecInput {
  readonly stdin?: { readonly data?: string; readonly close?: boolean };
  readonly tty_size?: { readonly height: number; readonly width: number };
}

/** To the caller. `{}` is a heartbeat. */
export interface ExecOutput {
  readonly stdout?: { readonly data?: string; readonly close?: boolean };
  readonly stderr?: { readonly data?: string; readonly close?: boolean };
  /** With `result`, the last message. */
  readonly exited?: true;
  readonly result?: {
    /** 128 + n when signal n ended the command. */
    readonly exit_code: number;
    readonly signal?: number;
  };
  /** Why the socket is closed next. */
  readonly error?: ErrorBody;
}
