/** Owns the asking: HTTP, TCP, or a command in the task. Never rejects: what goes wrong is the answer. */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { describeError } from '../../base/errors.js';
import type { ExecOptions, ExecResult } from '../../drivers/sessions.js';
import type { CheckProbe } from '../../jobspec/types.js';
import { cutOutput, MOST_OUTPUT_BYTES, type CheckResult } from './check-state.js';

/** A question with everything in it resolved. */
export interface ProbeRequest {
  readonly probe: CheckProbe;
  /** For HTTP and TCP. */
  readonly port: number;
  readonly timeoutMs: number;
  /** Aborted when the answer is not wanted any more. */
  readonly signal: AbortSignal;
  /** Runs a command in the task. */
  readonly exec: (command: string, args: readonly string[], options: ExecOptions) => Promise<ExecResult>;
}

export type ProbeAnswer = Omit<CheckResult, 'atMs'>;
export type Probe = (request: ProbeRequest) => Promise<ProbeAnswer>;

/** The real world. */
export const askProbe: Probe = async (request) => {
  try {
    const { probe } = request;
    switch (probe.kind) {
      case 'http':
        return await askHttp(probe, request);
      case 'tcp':
        return await askTcp(probe.address, request);
      case 'script':
        return await askScript(probe, request);
    }
  } catch (error) {
    return { status: 'failure', statusCode: 0, output: cutOutput(describeError(error)) };
  }
};

async function askScript(
  { command, args }: Extract<CheckProbe, { readonly kind: 'script' }>,
  { exec, timeoutMs, signal }: ProbeRequest,
): Promise<ProbeAnswer> {
  const { exitCode, output } = await exec(command, args, { timeoutMs, signal });
  const status = exitCode === 0 ? 'success' : exitCode === 1 ? 'warning' : 'failure';
  return { status, statusCode: 0, output: cutOutput(output || `exit code ${exitCode}`) };
}

function askTcp(address: string, { port, timeoutMs, signal }: ProbeRequest): Promise<ProbeAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, signal });
    socket.setTimeout(timeoutMs, () => {
      socket.destroy(new Error(`no connection to ${address}:${port} within ${timeoutMs} ms`));
    });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.destroy();
      resolve({ status: 'success', statusCode: 0, output: `connected to ${address}:${port}` });
    });
  });
}

function askHttp(
  probe: Extract<CheckProbe, { readonly kind: 'http' }>,
  { port, timeoutMs, signal }: ProbeRequest,
): Promise<ProbeAnswer> {
  return new Promise((resolve, reject) => {
    const late = new Error(`no answer from ${probe.address}:${port}${probe.path} within ${timeoutMs} ms`);
    const options = {
      host: probe.address,
      port,
      path: probe.path === '' ? '/' : probe.path,
      method: probe.method,
      headers: {
        'user-agent': 'holdfast health check',
        ...Object.fromEntries(Object.entries(probe.headers).map(([key, values]) => [key, [...values]])),
      },
      // One question, one connection: what an old one knows of the task says nothing of it now.
      agent: false,
      signal,
    };
    const onAnswer = (answer: IncomingMessage): void => {
      const code = answer.statusCode ?? 0;
      readHead(answer).then((body) => {
        resolve({ status: statusOf(code), statusCode: code, output: cutOutput(body || `HTTP ${code}`) });
      }, reject);
    };
    const asked =
      probe.protocol === 'https'
        ? httpsRequest(
            {
              ...options,
              rejectUnauthorized: !probe.skipVerify,
              ...(probe.serverName === undefined ? {} : { servername: probe.serverName }),
            },
            onAnswer,
          )
        : httpRequest(options, onAnswer);
    // Not the socket's own time-out: an answer that trickles must end as well.
    const deadline = AbortSignal.timeout(timeoutMs);
    deadline.addEventListener('abort', () => asked.destroy(late), { once: true });
    asked.once('error', reject);
    asked.end(probe.body === '' ? undefined : probe.body);
  });
}

function statusOf(code: number): ProbeAnswer['status'] {
  if (code === 429) return 'warning';
  return code >= 200 && code < 300 ? 'success' : 'failure';
}

/** As much of the body as is kept; the rest is not waited for. */
async function readHead(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer) {
    if (!Buffer.isBuffer(part)) continue;
    parts.push(part);
    length += part.length;
    if (length >= MOST_OUTPUT_BYTES) break;
  }
  return Buffer.concat(parts).toString();
}
