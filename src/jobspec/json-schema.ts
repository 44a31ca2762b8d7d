/**
 * Owns the JSON Schemas of a job, made from the tables in schema/: of a file in YAML, and of Nomad's JSON as the body of
 * an HTTP request.
 */
import type { BlockSpec, Key, Keys, Many, Repeated } from './blocks.js';
import { driverSchemas } from './driver-config.js';
import { FILE } from './schema/file.js';
import { JOB } from './schema/job.js';
import { TASK } from './schema/task.js';
import { jsonValueOf, shapeOf, type Schema } from './shapes.js';

/** For editors: `# yaml-language-server: $schema=…` at the top of a job file. */
export function jobFileSchema(): Schema {
  const writer = new SchemaWriter({ isJson: false, definitionsAt: '#/$defs' });
  const file = writer.block(FILE);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'holdfast job file',
    ...file,
    $defs: writer.definitions(),
  };
}

/**
 * A job in Nomad's JSON, as it is sent to be registered.
 * @param at where the schema will stand in its document: `#/components/schemas/JobBody`
 */
export function jobBodySchema(at: string): Schema {
  const writer = new SchemaWriter({ isJson: true, definitionsAt: `${at}/$defs` });
  const job = writer.block(JOB) as { properties: Schema };
  return {
    ...job,
    description: 'A job. A key that is null or "" is not set.',
    properties: { ...job.properties, ID: { type: 'string', minLength: 1, description: 'Id of the job.' } },
    required: ['ID'],
    $defs: writer.definitions(),
  };
}

/** What programs write for a key that they do not set. */
const UNSET: Schema = { enum: [null, ''] };

class SchemaWriter {
  readonly #definitions = new Map<string, Schema>();
  readonly #begun = new Set<string>();
  /** Nomad's keys, instead of those of HCL and YAML. */
  readonly #isJson: boolean;
  readonly #definitionsAt: string;

  constructor({ isJson, definitionsAt }: { readonly isJson: boolean; readonly definitionsAt: string }) {
    this.#isJson = isJson;
    this.#definitionsAt = definitionsAt;
  }

  definitions(): Schema {
    return Object.fromEntries([...this.#definitions].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Schema of the keys of a block. */
  block(spec: BlockSpec<Keys>): Schema {
    const keys = Object.entries(spec.keys)
      .map(([name, key]) => [this.#isJson ? key.json : name, key] as const)
      .filter(([name]) => name !== '');
    const required = keys.filter(([, key]) => key.required === true).map(([name]) => name);
    const isTask = spec.name === TASK.name;
    return {
      type: 'object',
      properties: {
        ...Object.fromEntries(keys.map(([name, key]) => [name, this.#key(key)])),
        ...(this.#isJson ? beside(spec) : {}),
      },
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
      ...(isTask ? { allOf: configOfDrivers(this.#isJson) } : {}),
    };
  }

  #key(key: Key<unknown> | Many<unknown> | Repeated<unknown>): Schema {
    const shape = shapeOf(key.read);
    const value: Schema =
      shape === undefined
        ? shapeOfWords(key.type)
        : shape.kind === 'block'
          ? this.#reference(shape.spec)
          : this.#isJson
            ? jsonValueOf(shape.schema)
            : shape.schema;
    const words = {
      description: key.doc + (key.default === undefined ? '' : ` Default: ${key.default}`),
    };
    if (this.#isJson) {
      if (key.kind === 'one') return { anyOf: [value, UNSET], ...words };
      const items = key.kind === 'many' ? this.#named(shape, value) : value;
      return { anyOf: [{ type: 'array', items }, { type: 'null' }], ...words };
    }
    if (key.kind === 'one') return { ...value, ...words };
    if (key.kind === 'repeated') return { anyOf: [value, { type: 'array', items: value }], ...words };
    const byName = { type: 'object', additionalProperties: value };
    return { anyOf: [byName, { type: 'array', items: this.#named(shape, value) }], ...words };
  }

  /** A block in a list has its label as `name`. */
  #named(shape: ReturnType<typeof shapeOf>, value: Schema): Schema {
    if (shape?.kind !== 'block') return value;
    const key = `${shape.spec.name} in a list`;
    const name = this.#isJson ? 'Name' : 'name';
    if (!this.#begun.has(key)) {
      this.#begun.add(key);
      const schema = this.block(shape.spec) as { properties: Schema; required?: string[] };
      this.#definitions.set(key, {
        ...schema,
        properties: { [name]: { type: 'string' }, ...schema.properties },
        required: [name, ...(schema.required ?? [])],
      });
    }
    return { $ref: `${this.#definitionsAt}/${key.replaceAll(' ', '%20')}` };
  }

  #reference(spec: BlockSpec<Keys>): Schema {
    if (!this.#begun.has(spec.name)) {
      this.#begun.add(spec.name);
      this.#definitions.set(spec.name, this.block(spec));
    }
    return { $ref: `${this.#definitionsAt}/${spec.name}` };
  }
}

/** A reader of its own, whose shape nobody has noted: what the words of its type say. */
function shapeOfWords(type: string): Schema {
  if (/^(?:list|lists) /.test(type)) return { type: 'array' };
  return /^(?:map|block)/.test(type) ? { type: 'object' } : {};
}

/** Keys of Nomad's JSON that may stand in a block and do nothing. */
function beside({ notYet, records = [] }: BlockSpec<Keys>): Schema {
  const keys = Object.values(notYet).filter((name) => name !== '');
  return {
    ...Object.fromEntries(keys.map((name) => [name, { description: 'Not supported: must be empty.' }])),
    ...Object.fromEntries(
      records.map((name) => [name, { description: 'What servers note; not looked at.' }]),
    ),
  };
}

/** What `config` holds depends on the driver. */
function configOfDrivers(isJson: boolean): Schema[] {
  const [driverKey, configKey] = isJson ? ['Driver', 'Config'] : ['driver', 'config'];
  return Object.entries(driverSchemas()).map(([driver, config]) => ({
    if: { properties: { [driverKey]: { const: driver } }, required: [driverKey] },
    then: { properties: { [configKey]: isJson ? { anyOf: [config, { type: 'null' }] } : config } },
  }));
}
