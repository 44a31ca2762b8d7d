/** Owns what a template is made of once it is read. Positions are offsets in the template's text. */

export type Expression =
  | { readonly kind: 'literal'; readonly at: number; readonly value: string | number | boolean | null }
  /** `.`, `.a.b`; `$x`, `$x.a`; `(…)`, `(…).a`. */
  | { readonly kind: 'dot'; readonly at: number; readonly fields: readonly string[] }
  | {
      readonly kind: 'variable';
      readonly at: number;
      readonly name: string;
      readonly fields: readonly string[];
    }
  | { readonly kind: 'group'; readonly at: number; readonly pipe: Pipe; readonly fields: readonly string[] }
  | { readonly kind: 'function'; readonly at: number; readonly name: string };

/** A value, or a function with its arguments. */
export interface Command {
  readonly at: number;
  readonly first: Expression;
  readonly rest: readonly Expression[];
}

/** Commands, each given the value of the one before as its last argument. */
export interface Pipe {
  readonly at: number;
  /** `$x :=` declares, `$x =` assigns; a range may have two. */
  readonly names: readonly string[];
  readonly assigns: boolean;
  readonly commands: readonly Command[];
}

export type TemplateNode =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly at: number; readonly pipe: Pipe }
  | {
      readonly kind: 'if' | 'with' | 'range';
      readonly at: number;
      readonly pipe: Pipe;
      readonly body: readonly TemplateNode[];
      readonly otherwise: readonly TemplateNode[];
    }
  | { readonly kind: 'break' | 'continue'; readonly at: number };

/** What is wrong with a template, at an offset of its text. */
export class TemplateFault extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}
