/** Owns the reading of a template: text in, nodes or a fault with its place out. Nothing is evaluated. */
import { didYouMean } from '../words.js';
import { FUNCTION_NAMES, whyNotHere } from './functions.js';
import { TemplateFault, type Command, type Expression, type Pipe, type TemplateNode } from './nodes.js';
import { cut, type Delimiters, type Piece, type Token } from './tokens.js';

const USUAL_DELIMITERS: Delimiters = { left: '{{', right: '}}' };

/** Nested blocks; the parser and the evaluator recurse. */
const DEEPEST = 50;

/** @throws TemplateFault with the offset of what is wrong */
export function parseTemplate(source: string, delimiters = USUAL_DELIMITERS): readonly TemplateNode[] {
  return new Parser(cut(source, delimiters), source.length).readAll();
}

type Ending = 'end' | 'else' | 'over';

class Parser {
  readonly #pieces: readonly Piece[];
  readonly #length: number;
  #next = 0;
  #depth = 0;
  #ranges = 0;
  readonly #scopes: Set<string>[] = [new Set(['$'])];

  constructor(pieces: readonly Piece[], length: number) {
    this.#pieces = pieces;
    this.#length = length;
  }

  readAll(): readonly TemplateNode[] {
    const { nodes, ending, reader } = this.#readList();
    if (ending !== 'over') {
      throw new TemplateFault(`there is no block for this \`${ending}\``, reader?.at ?? 0);
    }
    return nodes;
  }

  /** Reads up to the `end` or `else` that belongs to an open block. */
  #readList(): { nodes: TemplateNode[]; ending: Ending; reader: ActionReader | undefined } {
    const nodes: TemplateNode[] = [];
    for (let piece = this.#pieces[this.#next++]; piece !== undefined; piece = this.#pieces[this.#next++]) {
      if (piece.kind === 'text') {
        nodes.push(piece);
        continue;
      }
      const reader = new ActionReader(piece.tokens, piece.at, piece.endAt, this.#scopes);
      const word = reader.keyword();
      if (word === 'end' || word === 'else') return { nodes, ending: word, reader };
      if (word === undefined) nodes.push(this.#readPrint(reader));
      else if (word === 'break' || word === 'continue') {
        if (this.#ranges === 0) throw new TemplateFault(`\`${word}\` stands outside of a range`, reader.at);
        reader.finish();
        nodes.push({ kind: word, at: reader.at });
      } else nodes.push(this.#readBlock(word, reader));
    }
    return { nodes, ending: 'over', reader: undefined };
  }

  #readPrint(reader: ActionReader): TemplateNode {
    const pipe = reader.pipe(1);
    reader.finish();
    return { kind: 'print', at: reader.at, pipe };
  }

  #readBlock(kind: 'if' | 'with' | 'range', reader: ActionReader): TemplateNode {
    this.#depth += 1;
    if (this.#depth > DEEPEST) throw new TemplateFault(`more than ${DEEPEST} nested blocks`, reader.at);
    this.#scopes.push(new Set());
    const pipe = reader.pipe(kind === 'range' ? 2 : 1);
    reader.finish();
    if (kind === 'range') this.#ranges += 1;
    const body = this.#readList();
    if (kind === 'range') this.#ranges -= 1;
    const otherwise = body.ending === 'else' ? this.#readElse(kind, body.reader) : [];
    if (body.ending === 'over') throw new TemplateFault(`this \`${kind}\` has no \`{{ end }}\``, reader.at);
    if (body.ending === 'end') body.reader?.finish();
    this.#scopes.pop();
    this.#depth -= 1;
    return { kind, at: reader.at, pipe, body: body.nodes, otherwise };
  }

  #readElse(kind: 'if' | 'with' | 'range', reader: ActionReader | undefined): readonly TemplateNode[] {
    if (reader === undefined) return [];
    const again = reader.keyword();
    if (again === 'if' || again === 'with') {
      if (again !== kind) throw new TemplateFault(`\`else ${again}\` stands in a \`${kind}\``, reader.at);
      // It shares the `end` of the block that it stands in.
      return [this.#readBlock(again, reader)];
    }
    reader.finish();
    const rest = this.#readList();
    if (rest.ending !== 'end') {
      const at = rest.reader?.at ?? this.#length;
      throw new TemplateFault(`the \`else\` of a \`${kind}\` wants an \`{{ end }}\``, at);
    }
    rest.reader?.finish();
    return rest.nodes;
  }
}

const KEYWORDS = ['if', 'else', 'end', 'range', 'with', 'break', 'continue'] as const;
type Keyword = (typeof KEYWORDS)[number];
const NOT_HERE = ['define', 'template', 'block', 'scratch', 'executeTemplate'];

/** Reads one action. */
class ActionReader {
  readonly at: number;
  readonly #endAt: number;
  readonly #tokens: readonly Token[];
  readonly #scopes: readonly Set<string>[];
  #next = 0;

  constructor(tokens: readonly Token[], at: number, endAt: number, scopes: readonly Set<string>[]) {
    this.#tokens = tokens;
    this.at = at;
    this.#endAt = endAt;
    this.#scopes = scopes;
  }

  /** The word of a block, when the action goes on with one. */
  keyword(): Keyword | undefined {
    const token = this.#tokens[this.#next];
    if (token?.kind !== 'word') return undefined;
    if (NOT_HERE.includes(token.text)) {
      throw new TemplateFault(`\`${token.text}\` is not supported by holdfast`, token.at);
    }
    const word = KEYWORDS.find((known) => known === token.text);
    if (word !== undefined) this.#next += 1;
    return word;
  }

  finish(): void {
    const token = this.#tokens[this.#next];
    if (token !== undefined) throw new TemplateFault(`${said(token)} cannot stand here`, token.at);
  }

  /** @param most names that may be declared */
  pipe(most: number): Pipe {
    const at = this.#tokens[this.#next]?.at ?? this.#endAt;
    const { names, assigns } = this.#names(most);
    const commands: Command[] = [this.#command()];
    while (this.#takes('|')) commands.push(this.#command());
    for (const [index, command] of commands.entries()) {
      if (index > 0 && command.first.kind !== 'function') {
        throw new TemplateFault('what follows `|` must be a function', command.at);
      }
    }
    if (!assigns) for (const name of names) this.#scopes.at(-1)?.add(name);
    return { at, names, assigns, commands };
  }

  #names(most: number): { names: readonly string[]; assigns: boolean } {
    const start = this.#next;
    const names: string[] = [];
    for (;;) {
      const token = this.#tokens[this.#next];
      if (token?.kind !== 'variable' || token.text === '$') break;
      this.#next += 1;
      names.push(token.text);
      if (!this.#takes(',')) break;
    }
    const sign = this.#tokens[this.#next];
    const declares = names.length > 0 && (this.#takes(':=') || this.#takes('='));
    if (!declares) {
      this.#next = start;
      return { names: [], assigns: false };
    }
    const assigns = sign?.kind === 'sign' && sign.text === '=';
    if (names.length > most) throw new TemplateFault('too many variables', sign?.at ?? this.at);
    if (assigns) for (const name of names) this.#known(name, sign.at);
    return { names, assigns };
  }

  #command(): Command {
    const first = this.#expression();
    if (first === undefined) {
      const token = this.#tokens[this.#next];
      throw new TemplateFault(
        token === undefined ? 'a value is missing' : `${said(token)} cannot stand here`,
        token?.at ?? this.at,
      );
    }
    const rest: Expression[] = [];
    for (let more = this.#expression(); more !== undefined; more = this.#expression()) rest.push(more);
    if (rest[0] !== undefined && first.kind !== 'function') {
      throw new TemplateFault('only a function takes arguments', rest[0].at);
    }
    return { at: first.at, first, rest };
  }

  #expression(): Expression | undefined {
    const token = this.#tokens[this.#next];
    if (token === undefined) return undefined;
    const { at } = token;
    if (token.kind === 'literal') {
      this.#next += 1;
      return { kind: 'literal', at, value: token.value };
    }
    if (token.kind === 'variable') {
      this.#next += 1;
      this.#known(token.text, at);
      return { kind: 'variable', at, name: token.text, fields: this.#fields() };
    }
    if (token.kind === 'field') return { kind: 'dot', at, fields: this.#fields(true) };
    if (token.kind === 'word') {
      this.#next += 1;
      return readWord(token.text, at);
    }
    if (token.text === '.') {
      this.#next += 1;
      return { kind: 'dot', at, fields: [] };
    }
    if (token.text !== '(') return undefined;
    this.#next += 1;
    const pipe = this.pipe(0);
    if (!this.#takes(')')) throw new TemplateFault('the bracket is not closed', at);
    return { kind: 'group', at, pipe, fields: this.#fields() };
  }

  /** `.a.b` right behind what stands before; the first may stand alone. */
  #fields(alone = false): readonly string[] {
    const fields: string[] = [];
    for (;;) {
      const token = this.#tokens[this.#next];
      if (token?.kind !== 'field' || (token.spaced && !(alone && fields.length === 0))) {
        return fields;
      }
      fields.push(token.text.slice(1));
      this.#next += 1;
    }
  }

  #takes(sign: string): boolean {
    const token = this.#tokens[this.#next];
    const takes = token?.kind === 'sign' && token.text === sign;
    if (takes) this.#next += 1;
    return takes;
  }

  #known(name: string, at: number): void {
    if (!this.#scopes.some((scope) => scope.has(name))) {
      throw new TemplateFault(`there is no variable \`${name}\` here`, at);
    }
  }
}

function readWord(text: string, at: number): Expression {
  if (text === 'true' || text === 'false') return { kind: 'literal', at, value: text === 'true' };
  if (text === 'nil') return { kind: 'literal', at, value: null };
  if (FUNCTION_NAMES.has(text)) return { kind: 'function', at, name: text };
  const why = whyNotHere(text);
  if (why !== undefined) throw new TemplateFault(`\`${text}\`: ${why}`, at);
  const hint = didYouMean(text, [...FUNCTION_NAMES]);
  throw new TemplateFault(`there is no function \`${text}\`${hint === undefined ? '' : `; ${hint}`}`, at);
}

function said(token: Token): string {
  return token.kind === 'literal' ? JSON.stringify(token.value) : `\`${token.text}\``;
}
