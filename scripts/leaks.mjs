// Owns the search for what a test run, the demo or the bench left on this host. Each of them puts all it makes below a
// directory with a name of its own and hands that name to its processes, so that copies running side by side are told
// apart: a process, cgroup or mount is ours when the name is in its environment, path or root.
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Executors end a moment after the record of their workload is durable: the only wait here, and a bounded one. */
const GRACE_MS = 3000;

/**
 * What is left of the run `marker`, as one line each.
 * @param {string} marker part of the environment or the paths of everything that the run made
 * @param {string} scratch directory that must be empty
 */
export async function findLeaks(marker, scratch) {
  const deadlineMs = performance.now() + GRACE_MS;
  for (;;) {
    const leaks = [...processes(marker), ...mounts(marker), ...cgroups(marker), ...files(scratch)];
    if (leaks.length === 0 || performance.now() > deadlineMs) return leaks;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/**
 * Living processes of the run, without this one. Known by their environment; executors, who have none, by their files.
 * @param {string} marker @returns {{pid: number, command: string}[]}
 */
export function processesOf(marker) {
  const found = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const command = read(`/proc/${name}/cmdline`).replaceAll('\0', ' ').trim();
    const traces = command.includes('holdfast-executor')
      ? [command, ...openFiles(name)]
      : [read(`/proc/${name}/environ`)];
    if (traces.some((trace) => trace.includes(marker))) found.push({ pid: Number(name), command });
  }
  return found;
}

function processes(marker) {
  return processesOf(marker).map(({ pid, command }) => `left behind: process ${pid} (${command})`);
}

function mounts(marker) {
  return read('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => line.includes(marker))
    .map((line) => `left behind: mount ${line.split(' ')[4]}`);
}

/** Groups at the top of every hierarchy whose name holds the marker. @param {string} marker @returns {string[]} */
export function cgroupsOf(marker) {
  const roots = read('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(' ')[4]);
  return roots.flatMap((root) =>
    list(root)
      .filter((entry) => entry.isDirectory() && entry.name.includes(marker))
      .map((entry) => join(root, entry.name)),
  );
}

/**
 * Groups that a test named after its own process (`holdfast-test-…<pid>-…`), and that outlived it. A run that looks for
 * them before and after knows which ones are new.
 */
export function orphanedTestCgroups() {
  return cgroupsOf('holdfast-test-').filter((path) => {
    const pid = /holdfast-test-(?:[a-z]+-)?(\d+)-/.exec(path)?.[1];
    return pid !== undefined && !existsSync(`/proc/${pid}`);
  });
}

function cgroups(marker) {
  return cgroupsOf(marker).map((path) => `left behind: cgroup ${path}`);
}

function files(scratch) {
  return list(scratch).map((entry) => `left behind: ${join(scratch, entry.name)}`);
}

function openFiles(pid) {
  return list(`/proc/${pid}/fd`).map(({ name }) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${name}`);
    } catch {
      return '';
    }
  });
}

/** Empty for what is gone or not ours to read. */
function read(path) {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

function list(folder) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}
