/** Owns `holdfast dispatch`. */
import { readFile } from 'node:fs/promises';
import type { DispatchRequest, DispatchResponse } from '../../api/wire.js';
import { describeSystemError } from '../../base/errors.js';
import { writeJson } from '../cli.js';
import { addExamples, addJson, flagOf, listOf, textOf, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { jobPath } from '../fetch.js';
import { sanitize } from '../render/text.js';

export function define({ command, run }: Definition): void {
  addJson(command)
    .argument('<job>', 'a job with a `parameterized` block')
    .argument('[payload]', 'file with the payload, or - for standard input')
    .option('-m, --meta <key=value>', 'meta of this run, may be repeated', collect)
    .option('--id <token>', 'the same token again makes no second job')
    .option('--detach', 'do not watch it');
  addExamples(command, [
    ['holdfast dispatch -m input=a.wav convert', 'run it once, and watch it'],
    ['tar c . | holdfast dispatch build -', 'with a payload'],
  ]);
  run(async (cli, options, [jobId = '', file]) => {
    const payload = file === undefined ? undefined : (await readPayload(file)).toString('base64');
    const token = textOf(options, 'id');
    const body: DispatchRequest = {
      Meta: Object.fromEntries(listOf(options, 'meta').map(readMeta)),
      ...(payload === undefined ? {} : { Payload: payload }),
      ...(token === undefined ? {} : { IdempotencyToken: token }),
    };
    const path = jobPath(jobId, '/dispatch');
    const { value } = await cli.client.ask<DispatchResponse>(path, { method: 'PUT', body });
    if (cli.json) {
      await writeJson(cli, value);
      return EXIT.ok;
    }
    await cli.output.write(`dispatched ${sanitize(value.DispatchedJobID)}\n`);
    if (flagOf(options, 'detach')) return EXIT.ok;
    const { watchRollout } = await import('../rollout-watch.js');
    return watchRollout(cli, value.DispatchedJobID, value.EvalCreateIndex - 1);
  });
}

function collect(value: string, all: readonly string[] = []): string[] {
  return [...all, value];
}

function readMeta(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new CliError(EXIT.usage, `--meta ${JSON.stringify(text)}: write KEY=VALUE`);
}

async function readPayload(file: string): Promise<Buffer> {
  try {
    if (file !== '-') return await readFile(file);
    const parts: Buffer[] = [];
    for await (const part of process.stdin) parts.push(Buffer.from(part as Uint8Array));
    return Buffer.concat(parts);
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read the payload ${file}: ${describeSystemError(error)}`);
  }
}
