/** Owns how the tests speak to the holdfast in the guest: its API by curl, its unit by systemctl. */
import { AgentApi } from '../helpers/agent-api.js';
import { until } from '../helpers/until.js';
import type { Machine } from './machine.js';

const DATA_DIR = '/var/lib/holdfast';
/** The guest is slow, and shares this machine with others. */
const PATIENCE_MS = 90_000;

export class GuestHost extends AgentApi {
  readonly machine: Machine;

  constructor(machine: Machine) {
    super({ timeoutMs: PATIENCE_MS, everyMs: 300 });
    this.machine = machine;
  }

  override async request(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; text: string }> {
    const text = body === undefined ? '' : Buffer.from(JSON.stringify(body)).toString('base64');
    const feed = text === '' ? '' : `echo ${text} | base64 -d | `;
    const data = text === '' ? '' : '--data-binary @- -H content-type:application/json';
    const said = await this.machine.sh(
      `${feed}curl -sg -m 60 -w '\\n%{http_code}' -X ${method} ${data} --unix-socket ${DATA_DIR}/holdfast.sock 'http://h${path}'`,
    );
    const at = said.text.trimEnd().lastIndexOf('\n');
    return { status: Number(said.text.slice(at + 1)), text: said.text.slice(0, Math.max(at, 0)) };
  }

  async purge(job: string): Promise<void> {
    await this.request('DELETE', `/v1/job/${job}?purge=true`);
    await until(
      `${job} is purged`,
      async () => (await this.request('GET', `/v1/job/${job}`)).status === 404,
      { timeoutMs: PATIENCE_MS, everyMs: 300 },
    );
  }

  /** Pid and start time of every running task: what must not change. */
  async identities(): Promise<readonly string[]> {
    const running = (await this.tasks()).filter(({ state }) => state.State === 'running');
    const pids = running.map(({ state }) => state.Holdfast.Pid);
    const stats = await this.machine.out(
      `cut -d' ' -f1,22 ${pids.map((pid) => `/proc/${pid}/stat`).join(' ')}`,
    );
    return stats.split('\n').sort();
  }

  /** One property of the unit, as systemd says it. */
  async unit(property: string): Promise<string> {
    return await this.machine.out(`systemctl show -P ${property} holdfast`);
  }

  /** Waits until the daemon answers. */
  async answers(): Promise<void> {
    await until(
      'the daemon answers',
      async () => [200, 500].includes((await this.request('GET', '/v1/agent/health')).status),
      { timeoutMs: PATIENCE_MS, everyMs: 300 },
    );
  }

  /** What a task wrote down with each of its starts. */
  async starts(allocId: string): Promise<number> {
    return Number(await this.machine.out(`wc -l < ${DATA_DIR}/alloc/${allocId}/alloc/data/starts`));
  }
}

/** A job of one task in shell. */
export function shellJob(
  id: string,
  script: string,
  more: {
    readonly count?: number;
    readonly type?: 'service' | 'batch';
    readonly restart?: object;
    readonly resources?: object;
    readonly driver?: 'raw_exec' | 'exec';
    readonly killTimeout?: number;
    readonly config?: object;
  } = {},
): object {
  return {
    ID: id,
    Type: more.type ?? 'service',
    TaskGroups: [
      {
        Name: 'group',
        Count: more.count ?? 1,
        Tasks: [
          {
            Name: 'task',
            Driver: more.driver ?? 'raw_exec',
            Config: { command: '/bin/sh', args: ['-c', script], ...more.config },
            KillSignal: 'SIGTERM',
            KillTimeout: more.killTimeout ?? 5e9,
            RestartPolicy: more.restart ?? { Attempts: 0, Mode: 'fail' },
            Resources: { CPU: 50, MemoryMB: 32, ...more.resources },
          },
        ],
      },
    ],
  };
}

/** Counts its starts, numbers its lines, and stays. */
export const STEADY =
  'echo $$ >> "$NOMAD_ALLOC_DIR/data/starts"; n=0; while :; do n=$((n+1)); echo "line $n"; sleep 1; done';
