/** The language of templates: what comes out, what is refused where, and that nothing runs away. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from '../../helpers/properties.js';
import { evaluate } from '../../../src/jobspec/template/evaluate.js';
import { TemplateFault } from '../../../src/jobspec/template/nodes.js';
import { parseTemplate } from '../../../src/jobspec/template/parse.js';

const ENV: Readonly<Record<string, string>> = {
  NAME: 'web',
  EMPTY: '',
  NOMAD_META_rack: 'r7',
  'attr.os': 'linux',
};

function render(text: string, errorOnMissingKey = false): string {
  const inputs = {
    env: (name: string) => ENV[name],
    file: (path: string) => (path === 'json' ? '{"a":{"b":[1,2]},"z":true}' : `<${path}>`),
    nowMs: () => Date.UTC(2026, 0, 2, 3, 4, 5),
  };
  return evaluate(parseTemplate(text), { inputs, errorOnMissingKey });
}

function faultOf(text: string, errorOnMissingKey = false): string {
  try {
    render(text, errorOnMissingKey);
  } catch (error) {
    assert.ok(error instanceof TemplateFault, String(error));
    return `${error.at}: ${error.message}`;
  }
  return 'none';
}

describe('what comes out', () => {
  const table: readonly (readonly [string, string])[] = [
    ['plain { text } %', 'plain { text } %'],
    ['{{ env "NAME" }}', 'web'],
    ['{{ env "NONE" }}|{{ envOrDefault "NONE" "x" }}|{{ envOrDefault "EMPTY" "x" }}', '|x|'],
    ['{{ meta "rack" }} {{ attr "os" }}', 'r7 linux'],
    ['{{ env "NAME" | toUpper | printf "%s-%05d" "a" }}', 'a-%!d(WEB)'],
    [
      '{{ printf "%5s|%-5s|%03d|%.2f|%q|%t|%x|%%" "a" "b" 7 1.5 "q" true 255 }}',
      '    a|b    |007|1.50|"q"|true|ff|%',
    ],
    ['a {{- " b " -}} c', 'a b c'],
    ['a\n{{- /* gone */ -}}\n  b', 'ab'],
    ['{{ if eq (env "NAME") "web" "api" }}yes{{ else }}no{{ end }}', 'yes'],
    ['{{ if env "EMPTY" }}1{{ else if env "NAME" }}2{{ else }}3{{ end }}', '2'],
    ['{{ with env "NONE" }}{{ . }}{{ else }}none{{ end }}', 'none'],
    ['{{ with $x := env "NAME" }}{{ $x }}{{ . }}{{ end }}', 'webweb'],
    [
      '{{ range $i, $x := split "," "a,b,c" }}{{ if eq $x "c" }}{{ break }}{{ end }}{{ $i }}{{ $x }};{{ end }}',
      '0a;1b;',
    ],
    ['{{ range loop 5 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ . }}{{ end }}', '0234'],
    ['{{ range split "," "" }}x{{ else }}empty{{ end }}', 'empty'],
    [
      '{{ with file "json" | parseJSON }}{{ .a.b }} {{ index .a.b 1 }} {{ .z }} {{ .none }}{{ end }}',
      '[1 2] 2 true <no value>',
    ],
    ['{{ range $k, $v := parseJSON "{\\"b\\":1,\\"a\\":2}" }}{{ $k }}={{ $v }} {{ end }}', 'a=2 b=1 '],
    ['{{ $n := 1 }}{{ range loop 3 }}{{ $n = add $n 1 }}{{ end }}{{ $n }}', '4'],
    ['{{ 7 | divide 2 }} {{ 7.0 | multiply 2 }} {{ subtract 2 5 }} {{ modulo 4 7 }}', '3 14 3 3'],
    ['{{ "aGk=" | base64Decode }} {{ "hi" | base64Encode }} {{ sha256Hex "" | len }}', 'hi aGk= 64'],
    [
      '{{ "a-b" | replaceAll "-" "_" }} {{ join "+" (split "," "x,y") }} {{ trimSpace "  t " }}.',
      'a_b x+y t.',
    ],
    ['{{ contains "b" (split "," "a,b") }} {{ in "abc" "z" }} {{ not true }}', 'true false false'],
    ['{{ toJSON (parseJSON "{\\"b\\":[1],\\"a\\":null}") }}', '{"a":null,"b":[1]}'],
    ['{{ timestamp }} {{ timestamp "unix" }}', '2026-01-02T03:04:05Z 1767323045'],
    ['{{ and true (env "NAME") }} {{ or "" "x" }} {{ and false (mustEnv "NONE") }}', 'web x false'],
    ['{{ `raw "x"` }} {{ print 1 "a" nil }} {{ len "äb" }}', 'raw "x" 1a<nil> 3'],
    ['{{ (file "json" | parseJSON).a.b | len }}', '2'],
    ['{{ sprig_default "d" (env "NONE") }} {{ indent 2 "a\\nb" }}', 'd   a\n  b'],
    [
      '{{ trimPrefix "v" "v1" }}{{ trimSuffix ".x" "a.x" }}{{ trim "\\"" "\\"q\\"" }}{{ toTitle "ab cd" }}',
      '1aqAb Cd',
    ],
  ];
  for (const [text, out] of table)
    it(text, () => {
      assert.equal(render(text), out);
    });
});

describe('what is refused, at its place', () => {
  const table: readonly (readonly [string, string])[] = [
    ['{{ foo }}', '3: there is no function `foo`'],
    ['{{ toUper "x" }}', '3: there is no function `toUper`; did you mean `toUpper`?'],
    ['x {{ key "a" }}', '5: `key`: it asks Consul, and holdfast speaks to none'],
    ['{{ regexMatch "a" "b" }}', '3: `regexMatch`: regular expressions are not supported in templates'],
    ['{{ if true }}', '0: this `if` has no `{{ end }}`'],
    ['a{{ end }}', '1: there is no block for this `end`'],
    ['{{ else }}', '0: there is no block for this `else`'],
    ['{{ if 1 }}{{ else }}{{ else }}{{ end }}', '20: the `else` of a `if` wants an `{{ end }}`'],
    ['{{ "x }}', '3: the text has no closing quote'],
    ['{{ 1 ', '0: the action has no closing }}'],
    ['{{ }}', '0: a value is missing'],
    ['{{ $x }}', '3: there is no variable `$x` here'],
    ['{{ if 1 }}{{ $x := 1 }}{{ end }}{{ $x }}', '35: there is no variable `$x` here'],
    ['{{ break }}', '0: `break` stands outside of a range'],
    ['{{ "a" "b" }}', '7: only a function takes arguments'],
    ['{{ "a" | "b" }}', '9: what follows `|` must be a function'],
    ['{{ (env "a" }}', '3: the bracket is not closed'],
    ['{{ define "x" }}{{ end }}', '3: `define` is not supported by holdfast'],
    ['{{ env }}', '3: `env`: it wants 1 arguments, found 0'],
    ['{{ add 1 "2" }}', '3: `add`: it wants a number, found a text'],
    ['{{ eq 1 "1" }}', '3: `eq`: a number cannot be compared with a text'],
    ['{{ mustEnv "NONE" }}', '3: `mustEnv`: there is no variable NONE'],
    ['{{ divide 0 1 }}', '3: `divide`: the result is not a number'],
    ['{{ index (split "," "a") 3 }}', '3: `index`: there is no item 3'],
    ['{{ (env "NAME").x }}', '3: a text has no `.x`'],
    ['{{ range 5 }}{{ end }}', '0: a range goes over a list or a map, found a number'],
  ];
  for (const [text, fault] of table)
    it(text, () => {
      assert.equal(faultOf(text), fault);
    });

  it('a missing key, when that is wished', () => {
    assert.equal(
      faultOf('{{ with parseJSON "{\\"a\\":1}" }}{{ .b }}{{ end }}', true),
      '35: the map has no entry for `b`',
    );
  });
});

describe('nothing runs away', () => {
  const bombs: readonly (readonly [string, RegExp])[] = [
    ['{{ range loop 9999 }}{{ range loop 9999 }}x{{ end }}{{ end }}', /does not come to an end/],
    ['{{ $x := "0123456789" }}{{ range loop 100 }}{{ $x = print $x $x }}{{ end }}', /too long/],
    [
      '{{ $x := "0123456789" }}{{ range loop 18 }}{{ $x = print $x $x }}{{ end }}{{ range loop 100 }}{{ $x }}{{ end }}',
      /bytes come out/,
    ],
    [
      '{{ $x := "a" }}{{ range loop 22 }}{{ $x = print $x $x }}{{ end }}{{ range loop 9999 }}{{ $y := sha256Hex $x }}{{ end }}',
      /does not come to an end/,
    ],
    ['{{ loop 99999999 }}', /more than 10000 rounds/],
    ['{{ if 1 }}'.repeat(60), /nested blocks/],
  ];
  for (const [text, fault] of bombs)
    it(text.slice(0, 70), () => {
      assert.match(faultOf(text), fault);
    });

  it('any text is read or refused', () => {
    const part = fc.constantFrom(
      '{{',
      '}}',
      '{{-',
      '-}}',
      ' ',
      '"',
      '`',
      '$x',
      ':=',
      '|',
      '(',
      ')',
      '.',
      'env',
      'if',
      'else',
      'end',
      'range',
      '1',
      '/*',
      '*/',
      'a',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
        faultOf(parts.join(''));
      }),
    );
  });
});
