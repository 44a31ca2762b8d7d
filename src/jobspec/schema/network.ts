/** Owns the keys of `network` and `port`. In Nomad's JSON the ports stand in two lists, by whether their number is given. */
import { readBlock, type BlockRead, type BlockSpec, type Keys, type Repeated } from '../blocks.js';
import { BOUNDS } from '../defaults.js';
import type { Entry, MapNode, Tree } from '../tree.js';
import { oneOf, whole } from '../values.js';
import { bounds, many, one } from './key.js';

export const PORT = {
  name: 'port',
  keys: {
    static: one(whole(BOUNDS.port), {
      json: 'Value',
      type: `number (${bounds(BOUNDS.port)})`,
      default: 'one is chosen',
      doc: 'This port of the host. An allocation waits until no other has it.',
    }),
  },
  notYet: { to: 'To', host_network: 'HostNetwork', ignore_collision: 'IgnoreCollision' },
} as const satisfies BlockSpec<Keys>;

export const NETWORK = {
  name: 'network',
  keys: {
    mode: one(oneOf(['host']), {
      json: 'Mode',
      type: '`host`',
      default: 'host',
      doc: 'Tasks use the network of the host as it is.',
    }),
    port: many(PORT, {
      json: 'Ports',
      doc: 'A port by its label. Tasks find it as `NOMAD_PORT_<label>`, `NOMAD_ADDR_<label>` and `NOMAD_IP_<label>`. In JSON: `ReservedPorts` and `DynamicPorts`.',
    }),
  },
  notYet: { cni: 'CNI', dns: 'DNS', hostname: 'Hostname', mbits: 'MBits' },
  records: ['CIDR', 'Device', 'IP'],
} as const satisfies BlockSpec<Keys>;

export const network: Repeated<BlockRead<typeof NETWORK.keys>> = {
  kind: 'repeated',
  type: 'block',
  json: 'Networks',
  doc: 'Ports that an allocation of the group has to itself. One block at most.',
  read: (body, { path }, session) =>
    readBlock(NETWORK, session.dialect === 'json' ? joinPorts(body) : body, path, session),
};

/** Nomad's two lists of ports as one list of named ones. */
function joinPorts(body: MapNode): MapNode {
  const lists = body.entries.filter(({ key }) => key === 'ReservedPorts' || key === 'DynamicPorts');
  const [first] = lists;
  if (first === undefined) return body;
  const items = lists.flatMap(({ key, value }) =>
    value.kind === 'list' ? value.items.map((item) => namePort(item, key === 'DynamicPorts')) : [],
  );
  const others = body.entries.filter((entry) => !lists.includes(entry));
  const joined: Entry = { ...first, key: 'Ports', value: { kind: 'list', at: first.value.at, items } };
  return { ...body, entries: [...others, joined] };
}

function namePort(port: Tree, isDynamic: boolean): Tree {
  if (port.kind !== 'map') return port;
  const said = port.entries.filter(({ key, value }) => {
    const isDefault = key === 'HostNetwork' && value.kind === 'scalar' && value.value === 'default';
    return !isDefault && !(isDynamic && key === 'Value');
  });
  return {
    ...port,
    entries: said.map((entry) => (entry.key === 'Label' ? { ...entry, key: 'Name' } : entry)),
  };
}
