/** Owns what names mean in an expression: `var.x`, `local.x`, what a `for` or a `dynamic` block names, the rest. */
import { ExpressionFault } from './hcl-made.js';
import type { Tree } from './tree.js';
import { suggest } from './words.js';

/** The values behind `var.` or `local.`. */
export interface Names {
  /** `variable`, `local`. */
  readonly what: string;
  readonly names: () => readonly string[];
  /** The value of a name that there is. @throws ExpressionFault, AlreadyTold */
  readonly read: (name: string) => Tree;
}

export class Scope {
  readonly #families: ReadonlyMap<string, Names>;
  readonly #own: ReadonlyMap<string, Tree>;

  constructor(families: ReadonlyMap<string, Names>, own: ReadonlyMap<string, Tree> = new Map()) {
    this.#families = families;
    this.#own = own;
  }

  /** The same scope with names of its own, such as those of a `for`. */
  with(own: Iterable<readonly [string, Tree]>): Scope {
    return new Scope(this.#families, new Map([...this.#own, ...own]));
  }

  /** Value of a name of a `for` or a `dynamic` block. */
  own(name: string): Tree | undefined {
    return this.#own.get(name);
  }

  /** True for `var` and `local`: they are filled in before there is a job. */
  isFamily(root: string): boolean {
    return this.#families.has(root);
  }

  /** True for a name whose value is known here. */
  knows(root: string): boolean {
    return this.#own.has(root) || this.#families.has(root);
  }

  /** @throws ExpressionFault, AlreadyTold */
  readFamily(root: string, name: string, at: number): Tree {
    const family = this.#families.get(root);
    if (family?.names().includes(name) === true) return family.read(name);
    const what = family?.what ?? root;
    const names = (family?.names() ?? []).map((known) => `${root}.${known}`);
    const hint =
      names.length === 0
        ? `declare it: ${root === 'var' ? `\`variable "${name}" { … }\`` : `\`locals { ${name} = … }\``}`
        : suggest(`${root}.${name}`, names, 'there are');
    throw new ExpressionFault(at, `there is no ${what} \`${name}\``, hint);
  }
}

/** What the run time fills in: `${attr.kernel.name}`, `${NOMAD_PORT_http}`. */
export function isRunTimeName(root: string): boolean {
  return /^(?:NOMAD_\w+|HOLDFAST_\w+|attr|env|meta|node|device|unique)$/.test(root);
}
