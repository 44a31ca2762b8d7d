/**
 * Owns the evaluation of a template: nodes and inputs in, text out. Bounded in steps and in what it makes, because it
 * runs in the daemon, where nothing else happens meanwhile.
 */
import { callFunction, FunctionFault, type TemplateInputs } from './functions.js';
import { TemplateFault, type Command, type Expression, type Pipe, type TemplateNode } from './nodes.js';
import { isList, isMap, isTrue, keyOf, LONGEST_TEXT, nameOfKind, print, type Value } from './values.js';

/** About a tenth of a second. */
const MOST_STEPS = 200_000;

export interface EvaluateOptions {
  readonly inputs: TemplateInputs;
  /** A key that a map has not is a fault, instead of `<no value>`. */
  readonly errorOnMissingKey: boolean;
}

/** @throws TemplateFault, and what the inputs throw */
export function evaluate(nodes: readonly TemplateNode[], options: EvaluateOptions): string {
  const run = new Evaluation(options);
  run.list(nodes, {});
  return run.out.join('');
}

/** How a list of nodes ended. */
type Flow = 'on' | 'break' | 'continue';

interface Variable {
  readonly name: string;
  value: Value;
}

class Evaluation {
  readonly out: string[] = [];
  readonly #options: EvaluateOptions;
  #length = 0;
  #steps = 0;
  #variables: Variable[] = [{ name: '$', value: {} }];

  constructor(options: EvaluateOptions) {
    this.#options = options;
  }

  list(nodes: readonly TemplateNode[], dot: Value): Flow {
    for (const node of nodes) {
      const flow = this.#node(node, dot);
      if (flow !== 'on') return flow;
    }
    return 'on';
  }

  #node(node: TemplateNode, dot: Value): Flow {
    this.#step('at' in node ? node.at : 0);
    switch (node.kind) {
      case 'text':
        this.#write(node.text, 0);
        return 'on';
      case 'print': {
        const value = this.#pipe(node.pipe, dot);
        if (node.pipe.names.length === 0) this.#write(print(value), node.at);
        return 'on';
      }
      case 'break':
      case 'continue':
        return node.kind;
      case 'if':
      case 'with':
      case 'range':
        return this.#scoped(() => (node.kind === 'range' ? this.#range(node, dot) : this.#choose(node, dot)));
    }
  }

  #choose(node: Extract<TemplateNode, { readonly body: unknown }>, dot: Value): Flow {
    const value = this.#pipe(node.pipe, dot);
    if (!isTrue(value)) return this.list(node.otherwise, dot);
    return this.list(node.body, node.kind === 'with' ? value : dot);
  }

  #range(node: Extract<TemplateNode, { readonly body: unknown }>, dot: Value): Flow {
    const value = this.#pipe({ ...node.pipe, names: [] }, dot);
    const items = itemsOf(value, node.at);
    if (items.length === 0) return this.list(node.otherwise, dot);
    for (const [key, item] of items) {
      const flow = this.#scoped(() => {
        const { names, assigns } = node.pipe;
        const [first, second] = names;
        if (second !== undefined && first !== undefined) this.#set(first, key, assigns);
        const name = second ?? first;
        if (name !== undefined) this.#set(name, item, assigns);
        this.#step(node.at);
        return this.list(node.body, item);
      });
      if (flow === 'break') break;
    }
    return 'on';
  }

  #scoped<T>(work: () => T): T {
    const depth = this.#variables.length;
    try {
      return work();
    } finally {
      this.#variables.length = depth;
    }
  }

  #set(name: string, value: Value, assigns: boolean): void {
    const known = assigns ? this.#variables.findLast((variable) => variable.name === name) : undefined;
    if (known === undefined) this.#variables.push({ name, value });
    else known.value = value;
  }

  #pipe(pipe: Pipe, dot: Value): Value {
    let value: Value;
    for (const [index, command] of pipe.commands.entries()) {
      value = this.#command(command, dot, index === 0 ? [] : [value]);
    }
    for (const name of pipe.names) this.#set(name, value, pipe.assigns);
    return value;
  }

  #command({ first, rest, at }: Command, dot: Value, piped: readonly Value[]): Value {
    this.#step(at);
    if (first.kind !== 'function') return this.#value(first, dot);
    const args: Value[] = [];
    for (const expression of rest) {
      const value = this.#value(expression, dot);
      if (first.name === 'and' && !isTrue(value)) return value;
      if (first.name === 'or' && isTrue(value)) return value;
      args.push(value);
    }
    // What is done to a long text takes its time.
    for (const value of [...args, ...piped]) {
      if (typeof value === 'string') this.#step(at, value.length >> 10);
    }
    try {
      return callFunction(first.name, [...args, ...piped], this.#options.inputs);
    } catch (error) {
      if (error instanceof FunctionFault) throw new TemplateFault(`\`${first.name}\`: ${error.message}`, at);
      throw error;
    }
  }

  #value(expression: Expression, dot: Value): Value {
    this.#step(expression.at);
    switch (expression.kind) {
      case 'literal':
        return expression.value;
      case 'dot':
        return this.#fields(dot, expression.fields, expression.at);
      case 'variable': {
        const { name, fields, at } = expression;
        return this.#fields(this.#variables.findLast((one) => one.name === name)?.value, fields, at);
      }
      case 'group':
        return this.#fields(this.#pipe(expression.pipe, dot), expression.fields, expression.at);
      case 'function':
        return this.#command({ at: expression.at, first: expression, rest: [] }, dot, []);
    }
  }

  #fields(value: Value, fields: readonly string[], at: number): Value {
    let now = value;
    for (const field of fields) {
      if (now === undefined || now === null) {
        if (this.#options.errorOnMissingKey) throw new TemplateFault(`\`.${field}\` of nothing`, at);
        return undefined;
      }
      if (!isMap(now)) throw new TemplateFault(`${nameOfKind(now)} has no \`.${field}\``, at);
      now = keyOf(now, field);
      if (now === undefined && this.#options.errorOnMissingKey) {
        throw new TemplateFault(`the map has no entry for \`${field}\``, at);
      }
    }
    return now;
  }

  #write(text: string, at: number): void {
    this.#length += text.length;
    if (this.#length > LONGEST_TEXT) throw new TemplateFault(`more than ${LONGEST_TEXT} bytes come out`, at);
    this.out.push(text);
  }

  #step(at: number, weight = 1): void {
    this.#steps += weight;
    if (this.#steps > MOST_STEPS) throw new TemplateFault('the template does not come to an end', at);
  }
}

function itemsOf(value: Value, at: number): readonly (readonly [Value, Value])[] {
  if (isList(value)) return value.map((item, key) => [key, item]);
  if (isMap(value)) {
    return Object.keys(value)
      .sort()
      .map((key) => [key, value[key]]);
  }
  if (value === undefined || value === null) return [];
  throw new TemplateFault(`a range goes over a list or a map, found ${nameOfKind(value)}`, at);
}
