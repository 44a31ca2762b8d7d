/** Owns the sheet of `node status`: what this host is, what it can do to tasks, and what is missing with its cure. Pure. */
import { rfc3339ToMs, type HostStats, type Node } from '../../api/wire.js';
import type { Look } from '../output.js';
import { describeScheduling } from './drain.js';
import { field, verdictLine, wrapped } from './status.js';
import { renderTable } from './table.js';
import { plural } from './text.js';
import { formatAge, formatPercent } from './units.js';

const GIB = 2 ** 30;

export function renderNode(node: Node, stats: HostStats, look: Look): string[] {
  const { Holdfast, Attributes } = node;
  const missing = Holdfast.Capabilities.filter(({ Available }) => !Available);
  const isWell = Holdfast.Warnings.length === 0;
  const scheduling = describeScheduling(node, look.nowMs);
  const word = scheduling === undefined ? 'ready' : node.Drain ? 'draining' : 'ineligible';
  const detail = missing.length === 0 ? 'nothing is missing' : `${missing.length} of its abilities missing`;
  const startedMs = rfc3339ToMs(Holdfast.StartedAt) ?? look.nowMs;
  const kernel = `${Attributes['kernel.name'] ?? ''} ${Attributes['kernel.version'] ?? ''}`.trim();
  return [
    verdictLine(
      node.Name,
      isWell
        ? { word, tone: missing.length === 0 && word === 'ready' ? 'good' : 'warn', detail }
        : { word: 'needs attention', tone: 'bad', detail },
      look,
    ),
    field('Node', node.ID, look),
    ...(scheduling === undefined ? [] : wrapped('Scheduling', `this host ${scheduling}`, look, 'warn')),
    field('Versions', `holdfast ${node.Version}, node ${Holdfast.NodeVersion}, ${kernel}`, look),
    field('Up', `agent ${formatAge(look.nowMs - startedMs)}, host ${formatAge(stats.Uptime * 1000)}`, look),
    field('CPU', cpuText(stats), look),
    field('Memory', ofTotal(stats.Memory.Used, stats.Memory.Total), look),
    field('Data', `${Holdfast.DataDir}, ${diskText(stats)}`, look),
    field('Socket', Holdfast.Socket, look),
    ...cgroupLines(Holdfast, look),
    ...Holdfast.Warnings.flatMap((text) => wrapped('Warning', text, look, 'bad')),
    '',
    ...capabilityLines(Holdfast.Capabilities, look),
    ...cures(missing).flatMap((cure) => wrapped('Cure', cure, look, 'warn')),
    '',
    ...driverLines(node, look),
  ];
}

/** With where they are, unless that is the top. */
function cgroupLines({ CgroupMode, CgroupsDelegated }: Node['Holdfast'], look: Look): string[] {
  return CgroupsDelegated.length === 0
    ? [field('Cgroups', CgroupMode, look)]
    : wrapped('Cgroups', `${CgroupMode}, delegated: ${CgroupsDelegated.join(', ')}`, look, 'plain');
}

/** Each cure once, with all that it is for. */
function cures(missing: readonly { readonly Name: string; readonly Cure: string }[]): readonly string[] {
  const names = new Map<string, string[]>();
  for (const { Name, Cure } of missing) names.set(Cure, [...(names.get(Cure) ?? []), Name]);
  return [...names].map(([cure, of]) => `${of.join(', ')}: ${cure}`);
}

function cpuText({ CPU }: HostStats): string {
  const busy = CPU.reduce((sum, { TotalPercent }) => sum + TotalPercent, 0) / Math.max(1, CPU.length);
  return `${plural(CPU.length, 'core')}, ${formatPercent(busy)} busy`;
}

function diskText({ AllocDirStats }: HostStats): string {
  const { Size, Used, Available } = AllocDirStats;
  return `disk ${ofTotal(Used, Size)}, ${(Available / GIB).toFixed(1)} GiB left`;
}

/** `1.2/15.6 GiB (8.0%)`. */
function ofTotal(part: number, total: number): string {
  const percent = total === 0 ? 0 : (part / total) * 100;
  return `${(part / GIB).toFixed(1)}/${(total / GIB).toFixed(1)} GiB (${formatPercent(percent)})`;
}

function capabilityLines(capabilities: Node['Holdfast']['Capabilities'], look: Look): string[] {
  return renderTable(
    [{ title: 'CAN' }, { title: '' }, { title: 'HOW', shortest: 12 }],
    capabilities.map(({ Name, Available, Detail }) => [
      { text: Name },
      Available ? { text: 'yes', tone: 'good' } : { text: 'no', tone: 'warn' },
      { text: Detail },
    ]),
    look,
  );
}

function driverLines({ Drivers }: Node, look: Look): string[] {
  return renderTable(
    [{ title: 'DRIVER' }, { title: 'HEALTH' }, { title: 'DETAIL', shortest: 12 }],
    Object.entries(Drivers).map(([name, { Healthy, Detected, HealthDescription }]) => [
      { text: name },
      Healthy
        ? { text: 'healthy', tone: 'good' }
        : { text: Detected ? 'unhealthy' : 'undetected', tone: 'bad' },
      { text: HealthDescription },
    ]),
    look,
  );
}
