/** Owns the options of the commands that run a daemon. */
import type { Command } from 'commander';
import { flagOf, textOf, type Options } from './command.js';

/** What of the daemon's settings the command line may say. */
interface AgentOptions {
  readonly config: string | undefined;
  readonly dataDir: string | undefined;
  readonly socket: string | undefined;
  readonly http: string | undefined;
  readonly logLevel: string | undefined;
  readonly acceptHost: boolean;
}

export function addAgentOptions(command: Command, { isTemporary = false } = {}): Command {
  command.option('--config <file>', 'config file, YAML or JSON');
  if (!isTemporary) {
    command.option(
      '--data-dir <dir>',
      'state, logs and task directories (default: /var/lib/holdfast, or for a user ~/.local/state/holdfast)',
    );
    command.option('--accept-host', 'take over a data directory that was made on another host');
  }
  return command
    .option('--socket <path>', 'unix socket of the API (default: holdfast.sock in the data directory)')
    .option('--http <host:port>', 'serve the API on TCP as well (default: not)')
    .option('--log-level <level>', 'debug, info, warn or error (default: info)');
}

export function agentOptions(options: Options): AgentOptions {
  return {
    config: textOf(options, 'config'),
    dataDir: textOf(options, 'dataDir'),
    socket: textOf(options, 'socket'),
    http: textOf(options, 'http'),
    logLevel: textOf(options, 'logLevel'),
    acceptHost: flagOf(options, 'acceptHost'),
  };
}
