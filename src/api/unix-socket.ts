/** Owns the path of the unix socket: taking it over from a dead agent, its mode, and giving it back. */
import { chmodSync, chownSync, lstatSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { AgentError, describeSystemError, errnoOf } from '../base/errors.js';

/** Owner and group may speak to the agent; nobody else. */
const SOCKET_MODE = 0o660;
/** sun_path holds 108 bytes with the closing NUL; we bind under a longer name first. */
const LONGEST_PATH_BYTES = 107;
const BIND_SUFFIX = '.new';

/** A socket path that is ours while the agent runs. */
export interface SocketPath {
  /** Where to bind. Nobody finds it there. */
  readonly bindPath: string;
  /** Once bound: sets the mode and moves it to its place, in this order, so that it is never open to others. */
  publish(): void;
  /** Removes it, unless somebody else has taken the place. */
  release(): void;
}

/**
 * Makes sure that no living agent has the path.
 * @param gid group that may use it; undefined = the agent's own
 * @throws AgentError already_running when somebody answers there, bad_request when the path cannot be used
 */
export async function claimSocketPath(path: string, gid?: number): Promise<SocketPath> {
  const bindPath = `${path}${BIND_SUFFIX}`;
  if (Buffer.byteLength(bindPath) > LONGEST_PATH_BYTES) {
    throw new AgentError(
      'bad_request',
      `the socket path ${path} is too long: at most ${LONGEST_PATH_BYTES - BIND_SUFFIX.length} bytes`,
    );
  }
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isSocket()) {
    throw new AgentError('bad_request', `${path} is there and is no socket: choose another path`);
  }
  if (found !== undefined && (await isAnswered(path))) {
    throw new AgentError(
      'already_running',
      `another agent answers on ${path}: stop it first, or give this one another --socket`,
    );
  }
  rmSync(bindPath, { force: true });
  let inode: number | undefined;
  return {
    bindPath,
    publish: () => {
      if (gid !== undefined) giveToGroup(bindPath, gid);
      chmodSync(bindPath, SOCKET_MODE);
      renameSync(bindPath, path);
      inode = lstatSync(path).ino;
    },
    release: () => {
      rmSync(bindPath, { force: true });
      if (inode !== undefined && lstatSync(path, { throwIfNoEntry: false })?.ino === inode) {
        rmSync(path, { force: true });
      }
    },
  };
}

/** @throws AgentError not_permitted */
function giveToGroup(path: string, gid: number): void {
  try {
    chownSync(path, process.getuid?.() ?? 0, gid);
  } catch (cause) {
    throw new AgentError(
      'not_permitted',
      `cannot give the socket to group ${gid} (socket_group): ${describeSystemError(cause)}; the agent must be root or a member`,
      { cause },
    );
  }
}

/** True unless the kernel says that nobody listens there. */
export async function isAnswered(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', (error) => {
      const errno = errnoOf(error);
      resolve(errno !== 'ECONNREFUSED' && errno !== 'ENOENT');
    });
  });
}
