/** Owns where things are by default, for the agent and for those who look for it. */
import { homedir } from 'node:os';
import { join } from 'node:path';

type Env = Readonly<Record<string, string | undefined>>;

/** `/var/lib/holdfast` for root; `$XDG_STATE_HOME/holdfast` (default `~/.local/state/holdfast`) for everybody else. */
export function defaultDataDir(env: Env, uid: number): string {
  if (uid === 0) return '/var/lib/holdfast';
  const state = env['XDG_STATE_HOME'];
  const base = state !== undefined && state.startsWith('/') ? state : join(homedir(), '.local', 'state');
  return join(base, 'holdfast');
}

/** The agent's unix socket. */
export function socketPath(dataDir: string): string {
  return join(dataDir, 'holdfast.sock');
}
