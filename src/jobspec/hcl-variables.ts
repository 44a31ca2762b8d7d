/**
 * Owns `variable`, `variables` and `locals`: which names a file declares, where their values come from, and that they
 * are what the file asks for. Every variable without a value is told, not only the first. Longer than others: what is
 * declared and what it comes to share their state.
 */
import { partsOf, type HclNode, type HclSink } from './hcl-faults.js';
import { AlreadyTold, asText, ExpressionFault, movedTo, textNode } from './hcl-made.js';
import { truthOf } from './hcl-operators.js';
import { Scope, type Names } from './hcl-scope.js';
import { convert, describeType, readType, type VariableType } from './hcl-types.js';
import type { ValueReader } from './hcl-values.js';
import type { GivenValue, Inputs } from './inputs.js';
import type { Tree } from './tree.js';
import { didYouMean } from './words.js';

/** A block at the top of the file, taken apart. */
export interface TopBlock {
  readonly key: string;
  readonly keyAt: number;
  readonly labels: readonly { readonly text: string; readonly at: number }[];
  readonly items: readonly HclNode[];
}

/** Reads text such as `["a", "b"]` for a variable that is no string. @throws ExpressionFault at 0 */
export type ReadLiteral = (text: string) => Tree;

interface Declared {
  readonly name: string;
  readonly at: number;
  readonly type: VariableType | undefined;
  readonly fallback: Tree | undefined;
  readonly checks: readonly Check[];
}

interface Check {
  readonly at: number;
  readonly condition: HclNode;
  readonly message: string;
}

interface Local {
  readonly at: number;
  readonly node: HclNode;
  state: { readonly kind: 'new' | 'reading' | 'faulty' } | { readonly kind: 'known'; readonly value: Tree };
}

const DECLARATIONS: ReadonlySet<string> = new Set(['variable', 'variables', 'locals']);
const OF_VARIABLE = ['type', 'default', 'description', 'validation', 'sensitive', 'nullable'];
const NOTHING = new Scope(new Map());

/** True for a block that declares names and is no part of the job. */
export function isDeclaration(key: string): boolean {
  return DECLARATIONS.has(key);
}

export class Declarations {
  readonly #text: string;
  readonly #sink: HclSink;
  readonly #values: ValueReader;
  readonly #inputs: Inputs;
  readonly #readLiteral: ReadLiteral;
  readonly #declared = new Map<string, Declared>();
  readonly #locals = new Map<string, Local>();
  readonly #known = new Map<string, Tree | undefined>();
  readonly #scope: Scope;

  constructor(
    text: string,
    sink: HclSink,
    values: ValueReader,
    around: { readonly inputs: Inputs; readonly readLiteral: ReadLiteral },
  ) {
    this.#text = text;
    this.#sink = sink;
    this.#values = values;
    this.#inputs = around.inputs;
    this.#readLiteral = around.readLiteral;
    const variables: Names = {
      what: 'variable',
      names: () => [...this.#declared.keys()],
      read: (name) => this.#known.get(name) ?? alreadyTold(),
    };
    const locals: Names = {
      what: 'local',
      names: () => [...this.#locals.keys()],
      read: (name) => this.#readLocal(name),
    };
    this.#scope = new Scope(
      new Map([
        ['var', variables],
        ['local', locals],
      ]),
    );
  }

  /** Takes one block; all of them before `settle`. */
  declare(block: TopBlock): void {
    this.#values.hasWorkedOut = true;
    if (block.key === 'variable') this.#variable(block);
    else {
      const [label] = block.labels;
      if (label !== undefined) this.#fault(label.at, `block \`${block.key}\` has no label`);
      for (const { name, at, value } of this.#attributes(block, undefined)) {
        if (block.key === 'variables') this.#plainVariable(name, at, value);
        else this.#local(name, at, value);
      }
    }
  }

  /** Works out every value, and tells what is wrong with them. */
  settle(): Scope {
    for (const declared of this.#declared.values()) this.#known.set(declared.name, this.#valueOf(declared));
    for (const { name, from } of this.#inputs.given) {
      if (this.#declared.has(name)) continue;
      const hint = didYouMean(name, this.#declared.keys());
      this.#fault(0, `${from}: the job file has no variable \`${name}\``, hint);
    }
    for (const declared of this.#declared.values()) this.#check(declared);
    // A local that nobody uses is read too: what is wrong with it is wrong.
    for (const name of this.#locals.keys()) this.#noting(() => this.#readLocal(name));
    return this.#scope;
  }

  // --------------------------------------------------------------------------------------------------- declaring

  #variable({ keyAt, labels, items }: TopBlock): void {
    const [label, extra] = labels;
    if (label === undefined || extra !== undefined) {
      this.#fault(
        extra?.at ?? keyAt,
        'block `variable` needs one label, its name',
        'write `variable "name" { … }`',
      );
      return;
    }
    const block = { key: 'variable', keyAt, labels, items };
    const attributes = this.#attributes(block, OF_VARIABLE);
    const find = (name: string): HclNode | undefined => attributes.find((one) => one.name === name)?.value;
    const typeNode = find('type');
    const defaultNode = find('default');
    const type =
      typeNode === undefined
        ? undefined
        : this.#noting(() => readType(typeNode, this.#text, this.#values.objects));
    const fallback =
      defaultNode === undefined
        ? undefined
        : this.#noting(() => this.#default(defaultNode, type, label.text));
    const isFaulty =
      (typeNode !== undefined && type === undefined) || (defaultNode !== undefined && fallback === undefined);
    const checks = items.flatMap((item) => (item.name === 'Block' ? (this.#validation(item) ?? []) : []));
    if (!this.#isNew(label.text, label.at, this.#declared.get(label.text)?.at, 'variable')) return;
    this.#declared.set(label.text, { name: label.text, at: keyAt, type, fallback, checks });
    // Its own fault was told; that it has no value is no news then.
    if (isFaulty) this.#known.set(label.text, undefined);
  }

  #default(node: HclNode, type: VariableType | undefined, name: string): Tree {
    const value = this.#values.value(node, { scope: NOTHING, depth: 0 });
    return type === undefined ? value : convert(value, type, `the default of variable \`${name}\``);
  }

  #plainVariable(name: string, at: number, node: HclNode): void {
    const fallback = this.#noting(() => this.#default(node, undefined, name));
    if (!this.#isNew(name, at, this.#declared.get(name)?.at, 'variable')) return;
    this.#declared.set(name, { name, at, type: undefined, fallback, checks: [] });
    if (fallback === undefined) this.#known.set(name, undefined);
  }

  #local(name: string, at: number, node: HclNode): void {
    if (!this.#isNew(name, at, this.#locals.get(name)?.at, 'local')) return;
    this.#locals.set(name, { at, node, state: { kind: 'new' } });
  }

  #isNew(name: string, at: number, first: number | undefined, what: string): boolean {
    if (first === undefined) return true;
    this.#fault(at, `there is a ${what} \`${name}\` already`, 'give this one another name');
    return false;
  }

  #validation(block: HclNode): Check | undefined {
    const parts = partsOf(block);
    const type = parts[0];
    const key = type === undefined ? '' : this.#text.slice(type.from, type.to).trim();
    if (key !== 'validation') {
      this.#fault(block.from, `block \`variable\` has no block \`${key}\``, didYouMean(key, ['validation']));
      return undefined;
    }
    const items = partsOf(parts.find((part) => part.name === 'Body'));
    const inner = { key: 'validation', keyAt: block.from, labels: [], items };
    const attributes = this.#attributes(inner, ['condition', 'error_message']);
    const condition = attributes.find(({ name }) => name === 'condition')?.value;
    const message = attributes.find(({ name }) => name === 'error_message')?.value;
    if (condition === undefined || message === undefined) {
      this.#fault(block.from, 'block `validation` needs `condition` and `error_message`');
      return undefined;
    }
    const text = asText(this.#values.read(message, NOTHING, 0)) ?? 'it is not valid';
    return { at: block.from, condition, message: text };
  }

  #attributes(
    { key, items }: TopBlock,
    allowed: readonly string[] | undefined,
  ): { readonly name: string; readonly at: number; readonly value: HclNode }[] {
    return items.flatMap((item) => {
      if (item.name === 'Block' && key === 'variable') return [];
      const [nameNode, assign, value] = partsOf(item);
      if (nameNode?.name !== 'Identifier' || assign?.name !== 'AssignOp' || value?.name !== 'Expression') {
        this.#fault(item.from, `block \`${key}\` holds \`name = value\` and nothing else`);
        return [];
      }
      const name = this.#text.slice(nameNode.from, nameNode.to);
      this.#sink.requireOneLine([nameNode, assign, value], `the value of \`${name}\` must begin on its line`);
      if (allowed?.includes(name) === false) {
        this.#fault(nameNode.from, `block \`${key}\` has no key \`${name}\``, didYouMean(name, allowed));
        return [];
      }
      return [{ name, at: nameNode.from, value }];
    });
  }

  // ------------------------------------------------------------------------------------------------------ values

  #valueOf(declared: Declared): Tree | undefined {
    const { name, at, fallback } = declared;
    const given = this.#inputs.given.findLast((one) => one.name === name) ?? this.#inputs.fallback(name);
    if (given !== undefined) return this.#noting(() => this.#takeGiven(declared, given));
    if (fallback !== undefined || this.#known.has(name)) return fallback;
    this.#fault(
      at,
      `variable \`${name}\` has no value, and no default`,
      `give it: -var ${name}=VALUE, -var-file FILE, or HOLDFAST_VAR_${name} in the environment`,
    );
    return undefined;
  }

  #takeGiven({ name, at, type, fallback }: Declared, { value, from }: GivenValue): Tree {
    const wanted = type ?? kindOf(fallback);
    const where = `${from}: variable \`${name}\``;
    if (value.kind === 'tree') return convert(movedTo(value.tree, at), wanted, where);
    const isPlain = ['any', 'string', 'number', 'bool'].includes(wanted.kind);
    if (isPlain) return convert(textNode(at, value.text), wanted, where);
    let read: Tree;
    try {
      read = this.#readLiteral(value.text);
    } catch (error) {
      if (!(error instanceof ExpressionFault)) throw error;
      const hint = 'write it as in a job file, such as \'["a", "b"]\' or \'{ a = "b" }\'';
      throw new ExpressionFault(at, `${where}: expected ${describeType(wanted)}: ${error.message}`, hint);
    }
    return convert(movedTo(read, at), wanted, where);
  }

  #check({ name, checks }: Declared): void {
    if (this.#known.get(name) === undefined) return;
    for (const { at, condition, message } of checks) {
      this.#noting(() => {
        const value = this.#values.value(condition, { scope: this.#scope, depth: 0 });
        if (truthOf(value, 'the `condition` of a `validation`')) return;
        throw new ExpressionFault(at, `variable \`${name}\`: ${message}`);
      });
    }
  }

  #readLocal(name: string): Tree {
    const local = this.#locals.get(name);
    if (local === undefined || local.state.kind === 'faulty') return alreadyTold();
    if (local.state.kind === 'known') return local.state.value;
    if (local.state.kind === 'reading') {
      throw new ExpressionFault(local.at, `local \`${name}\` needs its own value`);
    }
    local.state = { kind: 'reading' };
    try {
      const value = this.#values.value(local.node, { scope: this.#scope, depth: 0 });
      local.state = { kind: 'known', value };
      return value;
    } catch (error) {
      local.state = { kind: 'faulty' };
      this.#values.note(error);
      return alreadyTold();
    }
  }

  #noting<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      this.#values.note(error);
      return undefined;
    }
  }

  #fault(at: number, message: string, hint?: string): void {
    this.#sink.tell({ at, message, ...(hint === undefined ? {} : { hint }) });
  }
}

function alreadyTold(): never {
  throw new AlreadyTold();
}

/** Without a type, a variable is what its default is. */
function kindOf(fallback: Tree | undefined): VariableType {
  if (fallback?.kind === 'list') return { kind: 'list', of: { kind: 'any' } };
  if (fallback?.kind === 'map') return { kind: 'map', of: { kind: 'any' } };
  if (fallback === undefined || fallback.value === null) return { kind: 'any' };
  return {
    kind:
      typeof fallback.value === 'number' ? 'number' : typeof fallback.value === 'boolean' ? 'bool' : 'string',
  };
}
