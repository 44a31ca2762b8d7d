// What HCL's expressions come to: a table for each kind, and a property for the grouping of operators.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { readHcl } from '../../../src/jobspec/hcl.js';
import type { GivenValue, Inputs } from '../../../src/jobspec/inputs.js';
import { toPlain } from '../../../src/jobspec/tree.js';

const FILES = new Map([['motd', 'hello\n']]);

function inputs(given: Readonly<Record<string, string>> = {}): Inputs {
  const values = Object.entries(given).map(([name, text]): GivenValue => ({
    name,
    value: { kind: 'text', text },
    from: '-var',
  }));
  const readFile = (path: string): string => {
    const text = FILES.get(path);
    if (text === undefined) throw new Error('no such file or directory');
    return text;
  };
  return { given: values, fallback: () => undefined, readFile };
}

const HEAD = `
variable "name" { default = "web" }
variable "ports" {
  type    = map(number)
  default = { http = 80, admin = 81 }
}
locals {
  list = ["a", "b", "c"]
  things = [{ id = 1 }, { id = 2 }]
}
`;

/** Value of an expression behind the declarations above; a fault becomes its message. */
function valueOf(expression: string): unknown {
  const { tree, faults } = readHcl(`${HEAD}\nx = ${expression}\n`, inputs());
  const [fault] = faults;
  if (fault !== undefined) return `fault: ${fault.message}`;
  assert.ok(tree !== undefined);
  return (toPlain(tree) as { x: unknown }).x;
}

const VALUES: readonly (readonly [string, unknown])[] = [
  // Template directives
  ['"%{ if true }yes%{ else }no%{ endif }"', 'yes'],
  ['"%{ if var.name == "db" }yes%{ endif }."', '.'],
  ['"%{ for x in local.list }${x},%{ endfor }"', 'a,b,c,'],
  ['"%{ for k, v in var.ports }${k}=${v} %{ endfor }"', 'admin=81 http=80 '],
  ['"a %{~ if true ~} b %{~ endif ~} c"', 'abc'],
  ['"%{ for x in local.list }%{ if x != "b" }${upper(x)}%{ endif }%{ endfor }"', 'AC'],
  ['"%{ for x in [] }never%{ endfor }"', ''],
  ['"%{ for x in local.list }${NOMAD_JOB_NAME}%{ endfor }"', '${NOMAD_JOB_NAME}'.repeat(3)],
  ['"%%{ if }"', '%{ if }'],
  ['"%{ if 1 }x%{ endif }"', 'fault: `%{ if }` needs true or false, found the number 1'],
  ['"%{ if true }x"', 'fault: this `%{ if … }` has no `%{ endif }`'],
  ['"%{ for x in local.list }x"', 'fault: this `%{ for … }` has no `%{ endfor }`'],
  ['"%{ for x in 3 }x%{ endfor }"', 'fault: expected a list or a map to go through, found the number 3'],
  ['<<-E\n    %{ for x in local.list ~}\n    - ${x}\n    %{ endfor ~}\n    end\n  E', '- a\n- b\n- c\nend\n'],
  ['<<E\n%{ if false }\nno\n%{ else }\nyes\n%{ endif }\nE', '\nyes\n\n'],
  // What is not taken has its indentation as well.
  ['<<-E\n    a\n    %{ if false }\n  b\n    %{ endif ~}\n  E', '  a\n  '],
  // Regular expressions
  ['regex("[0-9]+", "ab12cd34")', '12'],
  ['regex("(\\\\d+)-(x)?", "ab12-")', ['12', null]],
  ['regex("(?P<host>[^:]+):(?P<port>\\\\d+)", "db:5432")', { host: 'db', port: '5432' }],
  ['regex("(?i)WEB", "a web")', 'web'],
  ['regex("\\\\Aa\\\\z", "a")', 'a'],
  ['regex("\\\\@\\\\-", "a@-")', '@-'],
  ['regexall("[a-z]", "a1b2")', ['a', 'b']],
  ['regexall("x", "abc")', []],
  ['can(regex("x", "abc"))', false],
  ['regex("x", "abc")', 'fault: regex(): "x" is nowhere in "abc"'],
  ['regex("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")', 'fault: regex(): "(a+)+$" takes too long'],
  [
    '[for n in range(1000) : can(regex("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"))]',
    'fault: this makes too much: the expressions of a file may make 200000 values',
  ],
  ['regex("(", "abc")', 'fault: regex(): "(" is no regular expression: Unterminated group'],
  ['replace("a1b22", "/[0-9]+/", "#")', 'a#b#'],
  ['replace("a/b", "/", "-")', 'a-b'],
  ['replace("k=v", "/(\\\\w)=(\\\\w)/", "$2=$1")', 'v=k'],
  ['regex_replace("k=v", "(?P<k>\\\\w)=(\\\\w)", "$${k}$$2")', 'k$2'],
  // Sets and lists
  ['setintersection(["c", "a", "b"], ["b", "c"])', ['b', 'c']],
  ['setsubtract(local.list, ["b"])', ['a', 'c']],
  [
    'setproduct(["a", "b"], [1, 2])',
    [
      ['a', 1],
      ['a', 2],
      ['b', 1],
      ['b', 2],
    ],
  ],
  ['chunklist(local.list, 2)', [['a', 'b'], ['c']]],
  ['chunklist(local.list, 0)', 'fault: chunklist(): a chunk holds at least 1'],
  ['alltrue([true, 1 == 2])', false],
  ['anytrue([false, 1 == 1])', true],
  ['alltrue([])', true],
  ['strlen("häh")', 3],
  ['log(8, 2)', 3],
  ['1 + 2 * 3', 7],
  ['(1 + 2) * 3', 9],
  ['10 - 4 - 3', 3],
  ['-2 + 5', 3],
  ['7 % 4', 3],
  ['1 / 4', 0.25],
  ['"2" + 1', 3],
  ['1 == 1 && 2 > 1 || false', true],
  ['1 == "1"', false],
  ['!(1 > 2)', true],
  ['[1, 2] == [1, 2]', true],
  ['{ a = 1 } != { a = 2 }', true],
  ['true ? 1 : false ? 2 : 3', 1],
  ['false ? 1 : false ? 2 : 3', 3],
  ['true ? false ? 1 : 2 : 3', 2],
  ['var.name', 'web'],
  ['"${var.name}-${var.ports.http}"', 'web-80'],
  ['var.ports["admin"] - 1', 80],
  ['-var.ports.http + 81', 1],
  ['local.list[1]', 'b'],
  ['local.things[*].id', [1, 2]],
  ['local.things.1.id', 2],
  ['"${local.list}"', ['a', 'b', 'c']],
  ['[for x in local.list : upper(x) if x != "b"]', ['A', 'C']],
  ['[for i, x in local.list : "${i}${x}"]', ['0a', '1b', '2c']],
  ['{ for k, v in var.ports : upper(k) => v + 1 }', { ADMIN: 82, HTTP: 81 }],
  ['{ for x in ["aa", "b", "cc"] : length(x) => x... }', { 1: ['b'], 2: ['aa', 'cc'] }],
  ['{ (var.name) = 1, "${var.name}2" = 2 }', { web: 1, web2: 2 }],
  ['"a${~ var.name ~} b"', 'awebb'],
  ['"${NOMAD_TASK_DIR}/x"', '${NOMAD_TASK_DIR}/x'],
  ['"${ env["HOME"] }"', '${env["HOME"]}'],
  ['attr.kernel.name', '${attr.kernel.name}'],
  ['"$${var.name}"', '$${var.name}'],
  ['<<-E\n    ${join("\\n", local.list)}\n      z\n  E', 'a\nb\nc\n  z\n'],
  [
    '{ a = upper("x"), b = { c = concat([1], [2])[1] }, d = length("xy") > 1 ? max(1, 2) : 3 }',
    { a: 'X', b: { c: 2 }, d: 2 },
  ],
  [
    '{\n  # one, two = 3\n  a = join(",", ["${join("}", ["x"])}"]) // {\n  "b" : merge({ c = lower("D") })\n}',
    { a: 'x', b: { c: 'd' } },
  ],
  ['upper("x") == "X" && lower("X") == "x"', true],
  ['trimspace("  x ")', 'x'],
  ['trim("?!x!?", "!?")', 'x'],
  ['replace("a.b.c", ".", "-")', 'a-b-c'],
  ['split(",", "a,b")', ['a', 'b']],
  ['join("-", ["a", "b"])', 'a-b'],
  ['concat([1], [2, 3])', [1, 2, 3]],
  ['concat([[1], [2]]...)', [1, 2]],
  ['length({ a = 1 }) + length("äö") + length([1])', 4],
  ['lookup({ a = 1 }, "b", 9)', 9],
  ['merge({ a = 1 }, { a = 2, b = 3 })', { a: 2, b: 3 }],
  ['keys({ b = 1, a = 2 })', ['a', 'b']],
  ['values({ b = 1, a = 2 })', [2, 1]],
  ['contains(["a"], "a")', true],
  ['flatten([1, [2, [3]]])', [1, 2, 3]],
  ['format("%s=%d|%03d|%.1f|%q|%t|%v|%%", "a", 1, 7, 1.25, "x", true, [1])', 'a=1|007|1.3|"x"|true|[1]|%'],
  ['formatlist("%s!", ["a", "b"])', ['a!', 'b!']],
  ['jsonencode({ b = [1, null], a = "x" })', '{"a":"x","b":[1,null]}'],
  ['jsondecode("{\\"a\\": [1]}").a[0]', 1],
  ['base64decode(base64encode("hé"))', 'hé'],
  ['coalesce("", null, "x")', 'x'],
  ['min(3, 1, 2) + max(3, 1) + abs(-4)', 8],
  ['ceil(1.2) * floor(2.9)', 4],
  ['range(3)', [0, 1, 2]],
  ['range(1, 7, 3)', [1, 4]],
  ['toset(["b", "a", "b"])', ['a', 'b']],
  ['tonumber("42") + 1', 43],
  ['tostring(1.50)', '1.5'],
  ['tolist([1])', [1]],
  ['can(local.list[9])', false],
  ['try(var.ports.nope, "none")', 'none'],
  ['file("motd")', 'hello\n'],
  ['fileexists("nope")', false],
  ['substr("hello", 1, 3)', 'ell'],
  ['sha256("a")', 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'],
  ['zipmap(["a"], [1])', { a: 1 }],
  ['element(["a", "b"], 3)', 'b'],
];

const FAULTS: readonly (readonly [string, string])[] = [
  ['var.nmae', 'there is no variable `nmae`'],
  ['local.nope', 'there is no local `nope`'],
  ['1 + "x"', '`+` needs a number, found the string "x"'],
  ['"x" && true', '`&&` needs true or false, found the string "x"'],
  ['1 / 0', 'this divides by zero'],
  ['var.name ? 1 : 2', 'a condition needs true or false, found the string "web"'],
  ['uper("x")', 'there is no function uper()'],
  ['upper()', 'upper(): expected 1 argument, found 0'],
  ['upper([1])', 'upper(): expected a string, found a list'],
  ['timestamp()', 'timestamp() gives something else each time: the same file would be another job'],
  ['"${local.list} x"', 'a list cannot stand in a text: ${local.list}'],
  ['"x ${null}"', 'null cannot stand in a text: ${null}'],
  ['local.list[3]', '`[3]`: the list has 3 items'],
  ['var.ports.htp', '`.htp`: the map has no such key'],
  ['var.name.x', '`.x`: the string "web" has no parts'],
  [
    'upper("${attr.x}")',
    'upper() cannot look into the string "${attr.x}": that is only known when the task starts',
  ],
  [
    'attr.x == "y"',
    'the string "${attr.x}" is only known when the task starts: nothing can be decided by it here',
  ],
  ['foo.bar', 'nothing is called `foo` here: foo.bar'],
  ['word', '`word` needs quotes: "word"'],
  ['{ for x in ["a", "a"] : x => 1 }', 'two of them have the key "a"'],
  ['[for x in 5 : x]', 'expected a list or a map to go through, found the number 5'],
  ['file("nope")', 'file(): cannot read nope: no such file or directory'],
  ['format("%d", "x")', 'format(): %d needs a number, found the string "x"'],
  ['format("%s")', 'format(): there are 0 values, and the format asks for more'],
  ['range(100000)', 'range(): more than 10000 numbers'],
  [
    '[for a in range(1000) : [for b in range(1000) : b]]',
    'this makes too much: the expressions of a file may make 200000 values',
  ],
  ['1 +\n 2', 'an expression must stand on one line, or in brackets'],
];

describe('an expression', () => {
  for (const [expression, value] of VALUES) {
    it(expression, () => {
      assert.deepEqual(valueOf(expression), value);
    });
  }

  for (const [expression, message] of FAULTS) {
    it(`${expression} is refused`, () => {
      assert.equal(valueOf(expression), `fault: ${message}`);
    });
  }

  it('groups its operators as the brackets say that HCL would set', () => {
    type Written = { readonly full: string; readonly short: string; readonly level: number };
    const LEVELS: readonly (readonly [string, number])[] = [
      ['+', 5],
      ['-', 5],
      ['*', 6],
    ];
    const leaf = fc
      .integer({ min: 0, max: 9 })
      .map((n): Written => ({ full: `${n}`, short: `${n}`, level: 9 }));
    const { tree } = fc.letrec<{ tree: Written }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'small' },
        leaf,
        fc
          .tuple(tie('tree'), fc.constantFrom(...LEVELS), tie('tree'))
          .map(([a, [op, level], b]): Written => ({
            full: `(${a.full} ${op} ${b.full})`,
            // Brackets only where precedence, or grouping from the left, asks for them.
            short: `${a.level < level ? `(${a.short})` : a.short} ${op} ${b.level <= level ? `(${b.short})` : b.short}`,
            level,
          })),
      ),
    }));
    fc.assert(
      fc.property(tree, ({ full, short }) => {
        assert.equal(valueOf(short), valueOf(full), short);
      }),
      { numRuns: 200 },
    );
  });
});

describe('variables', () => {
  const read = (text: string, given: Readonly<Record<string, string>> = {}): unknown => {
    const { tree, faults } = readHcl(text, inputs(given));
    return tree === undefined ? faults.map(({ message }) => message) : toPlain(tree);
  };

  it('take the type that they ask for', () => {
    const text = `
variable "n" { type = number }
variable "b" { type = bool }
variable "l" { type = list(string) }
variable "o" { type = object({ a = number, b = optional(string) }) }
x = [var.n + 1, !var.b, var.l, var.o]
`;
    const given = { n: '41', b: 'false', l: '["a", "b"]', o: '{ a = "7" }' };
    assert.deepEqual(read(text, given), { x: [42, true, ['a', 'b'], { a: 7, b: null }] });
    assert.deepEqual(read(text, { n: 'x', b: 'y', l: 'z', o: '{}' }), [
      '-var: variable `n`: expected a number, found the string "x"',
      '-var: variable `b`: expected true or false, found the string "y"',
      '-var: variable `l`: expected list(string): `z` needs quotes: "z"',
      '-var: variable `o` lacks `a` (number)',
    ]);
  });

  it('without a value are all told at once', () => {
    assert.deepEqual(read('variable "a" {}\nvariable "b" { type = string }\nx = var.a\n'), [
      'variable `a` has no value, and no default',
      'variable `b` has no value, and no default',
    ]);
  });

  it('are checked by their validation', () => {
    const text = `
variable "n" {
  type = number
  validation {
    condition     = var.n > 0 && var.n < 10
    error_message = "from 1 to 9"
  }
}
x = var.n
`;
    assert.deepEqual(read(text, { n: '5' }), { x: 5 });
    assert.deepEqual(read(text, { n: '50' }), ['variable `n`: from 1 to 9']);
  });

  it('that nobody declared are told, those of the environment are not', () => {
    assert.deepEqual(read('variable "port" { default = 1 }\nx = 1\n', { prot: '2' }), [
      '-var: the job file has no variable `prot`',
    ]);
  });

  it('may not go round in circles', () => {
    assert.deepEqual(read('locals {\n a = local.b\n b = local.a\n}\nx = local.a\n'), [
      'local `a` needs its own value',
    ]);
  });

  it('cannot make a file grow without end', () => {
    const lines = Array.from({ length: 40 }, (_, n) => `a${n + 1} = "\${local.a${n}}\${local.a${n}}"`);
    const [message] = read(`locals {\na0 = "0123456789"\n${lines.join('\n')}\n}\nx = 1\n`) as string[];
    assert.match(message ?? '', /this makes too much/);
  });
});

describe('a dynamic block', () => {
  it('stands once for each', () => {
    const text = `
dynamic "group" {
  for_each = { a = 1, b = 2 }
  iterator = it
  labels   = ["g-\${it.key}"]
  content {
    count = it.value
  }
}
`;
    const { tree, faults } = readHcl(text, inputs());
    assert.deepEqual(faults, []);
    assert.deepEqual(tree === undefined ? undefined : toPlain(tree), {
      group: { 'g-a': [{ count: 1 }], 'g-b': [{ count: 2 }] },
    });
  });
});
