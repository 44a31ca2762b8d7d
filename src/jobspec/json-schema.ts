/** Owns the JSON Schema of a job file in YAML (and in JSON with the same keys), made from the tables in schema/. */
import type { BlockSpec, Key, Keys, Many, Repeated } from './blocks.js';
import { driverSchemas } from './driver-config.js';
import { FILE } from './schema/file.js';
import { TASK } from './schema/task.js';
import { shapeOf, type Schema } from './shapes.js';

/** For editors: `# yaml-language-server: $schema=…` at the top of a job file. */
export function jobFileSchema(): Schema {
  const writer = new SchemaWriter();
  const file = writer.block(FILE);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'holdfast job file',
    ...file,
    $defs: writer.definitions(),
  };
}

class SchemaWriter {
  readonly #definitions = new Map<string, Schema>();
  readonly #begun = new Set<string>();

  definitions(): Schema {
    return Object.fromEntries([...this.#definitions].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Schema of the keys of a block. */
  block(spec: BlockSpec<Keys>): Schema {
    const keys = Object.entries(spec.keys);
    const required = keys.filter(([, key]) => key.required === true).map(([name]) => name);
    const isTask = spec.name === TASK.name;
    return {
      type: 'object',
      properties: Object.fromEntries(keys.map(([name, key]) => [name, this.#key(key)])),
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
      ...(isTask ? { allOf: configOfDrivers() } : {}),
    };
  }

  #key(key: Key<unknown> | Many<unknown> | Repeated<unknown>): Schema {
    const shape = shapeOf(key.read);
    const value: Schema =
      shape === undefined
        ? shapeOfWords(key.type)
        : shape.kind === 'value'
          ? shape.schema
          : this.#reference(shape.spec);
    const words = {
      description: key.doc + (key.default === undefined ? '' : ` Default: ${key.default}`),
    };
    if (key.kind === 'one') return { ...value, ...words };
    if (key.kind === 'repeated') return { anyOf: [value, { type: 'array', items: value }], ...words };
    const byName = { type: 'object', additionalProperties: value };
    return { anyOf: [byName, { type: 'array', items: this.#named(shape, value) }], ...words };
  }

  /** A block in a list has its label as `name`. */
  #named(shape: ReturnType<typeof shapeOf>, value: Schema): Schema {
    if (shape?.kind !== 'block') return value;
    const key = `${shape.spec.name} in a list`;
    if (!this.#begun.has(key)) {
      this.#begun.add(key);
      const schema = this.block(shape.spec) as { properties: Schema; required?: string[] };
      this.#definitions.set(key, {
        ...schema,
        properties: { name: { type: 'string' }, ...schema.properties },
        required: ['name', ...(schema.required ?? [])],
      });
    }
    return { $ref: `#/$defs/${key.replaceAll(' ', '%20')}` };
  }

  #reference(spec: BlockSpec<Keys>): Schema {
    if (!this.#begun.has(spec.name)) {
      this.#begun.add(spec.name);
      this.#definitions.set(spec.name, this.block(spec));
    }
    return { $ref: `#/$defs/${spec.name}` };
  }
}

/** A reader of its own, whose shape nobody has noted: what the words of its type say. */
function shapeOfWords(type: string): Schema {
  if (/^(?:list|lists) /.test(type)) return { type: 'array' };
  return /^(?:map|block)/.test(type) ? { type: 'object' } : {};
}

/** What `config` holds depends on the driver. */
function configOfDrivers(): Schema[] {
  return Object.entries(driverSchemas()).map(([driver, config]) => ({
    if: { properties: { driver: { const: driver } }, required: ['driver'] },
    then: { properties: { config } },
  }));
}
