/** Owns what the validator says about a task's driver and its config block; the schemas are in driver-config.ts. */
import type { Found } from './blocks.js';
import {
  checkDriverConfig,
  DRIVERS,
  isDriverName,
  type ConfigFault,
  type DriverName,
} from './driver-config.js';
import { down, type Session, type Spot } from './session.js';
import { toPlain, type MapNode, type Tree } from './tree.js';
import { didYouMean, quote } from './words.js';

const THERE_IS = `there are ${DRIVERS.slice(0, -1).join(', ')} and ${DRIVERS.at(-1) ?? ''}`;

/** The driver whose schema the config block must follow; undefined when there is no such driver. */
export function checkDriver({ value, spot }: Found<string>, session: Session): DriverName | undefined {
  if (isDriverName(value)) return value;
  session.fault(spot, `there is no driver ${quote(value)}`, didYouMean(value, DRIVERS) ?? THERE_IS);
  return undefined;
}

/** Tells the faults of a config block at the keys and values they are about. */
export function checkConfig(
  driver: DriverName,
  config: MapNode | undefined,
  place: Spot,
  session: Session,
): void {
  const plain = config === undefined ? {} : (toPlain(config) as Record<string, unknown>);
  for (const { key, part, kind, message, hint } of checkDriverConfig(driver, plain)) {
    const entry = config?.entries.find((candidate) => candidate.key === key);
    if (entry === undefined || kind === 'missing') {
      const needs = config === undefined ? `driver ${driver} needs a \`config\` block: ` : '';
      session.fault(place, needs + message, hint);
    } else {
      const whole = { at: kind === 'unknown' ? entry.keyAt : entry.value.at, path: down(place.path, key) };
      const spot = part === undefined ? whole : partOf(entry.value, whole.path, { part, kind });
      session.fault(spot ?? { ...whole, at: entry.value.at }, message, hint);
    }
  }
}

/** Where a part of a value stands: an item of a list, or a name in a block, which may be the one item of a list. */
function partOf(
  value: Tree,
  path: string,
  { part, kind }: Required<Pick<ConfigFault, 'part' | 'kind'>>,
): Spot | undefined {
  if (typeof part === 'number') {
    const item = value.kind === 'list' ? value.items[part] : undefined;
    return item && { at: item.at, path: `${path}[${part}]` };
  }
  const block = value.kind === 'list' ? value.items[0] : value;
  const entry = block?.kind === 'map' ? block.entries.find(({ key }) => key === part) : undefined;
  return entry && { at: kind === 'unknown' ? entry.keyAt : entry.value.at, path: down(path, part) };
}
