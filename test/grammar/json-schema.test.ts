import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createGrammar, createGrammarWork } from '../../src/grammar/grammar.ts';
import { jsonSchemaToGrammar, jsonSchemaWork } from '../../src/grammar/json-schema.ts';
import type { JsonSchema } from '../../src/grammar/json-schema.ts';
import { parseGbnf } from '../../src/grammar/parse.ts';
import { type Work } from '../../src/slices.ts';
import { createRandom } from '../../src/sample/random.ts';
import { processorMs } from '../support.ts';
import { byteVocabulary } from './helpers.ts';
import { DEFS, randomSchema } from './random-schemas.ts';
import { validate } from './validate.ts';
import { walk } from './walk.ts';

const seed = 20240914;
const vocabulary = byteVocabulary([
  '{"',
  '":',
  '": ',
  ', "',
  '"}',
  '"]',
  '},',
  'the',
  ' a',
  'true',
  'false',
  'null',
  '12',
  '\n  ',
  'é',
  '\\u00',
  '\\n',
  '0.',
  '-1',
  'name',
  Uint8Array.of(0xf0, 0x9f),
]);
const utf8 = new TextEncoder();

function reader(schema: JsonSchema): (text: string) => boolean {
  const grammar = createGrammar(jsonSchemaToGrammar(schema), vocabulary);
  return (text) => {
    grammar.reset();
    for (const byte of utf8.encode(text)) {
      if (!grammar.allows(byte)) return false;
      grammar.accept(byte);
    }
    return grammar.isComplete();
  };
}

describe("each keyword's values", () => {
  const cases: [schema: JsonSchema, yes: string[], no: string[]][] = [
    [
      { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'null' } }, required: ['b'] },
      ['{"a":1,"b":null}', '{ "b": null }', '{"b":null\n}'],
      ['{}', '{"a":1}', '{"b":null,"a":1}', '{"b":null,"c":1}', '{"a":1,,"b":null}'],
    ],
    [
      { type: 'object', properties: { a: {}, b: {}, c: {} } },
      ['{}', '{"a":1}', '{"c":1}', '{"a":[{"x":"y"}],"c":1}', '{"a":1,"b":2,"c":3}'],
      ['{,"a":1}', '{"b":1,"a":1}', '{"a":1,}', '{"d":1}'],
    ],
    [
      { type: 'object', properties: { ab: { type: 'null' }, a: { type: 'null' } }, additionalProperties: { type: 'integer' } },
      ['{"ab":null,"a":null,"x":1}', '{"abc":1,"b":2}', '{"":3}', '{"\\n":1}'],
      ['{"ab":1}', '{"a":1}', '{"x":null}', '{"\\u0061":1}', '{"x":1,"a":1}'],
    ],
    [{ type: 'object', additionalProperties: { type: 'boolean' } }, ['{}', '{"q":true,"r":false}'], ['{"q":1}']],
    [{ type: 'object', additionalProperties: false }, ['{}', '{ }'], ['{"a":1}']],
    [
      { type: 'object', properties: { 'q"\n€': { type: 'null' } }, required: ['q"\n€', 'z'] },
      ['{"q\\"\\n€":null,"z":[1]}'],
      ['{"q\\"\\n€":null}'],
    ],
    [{ type: 'object' }, ['{}', '{"a":{"b":[1,"x",null,true]}}'], ['[]', '{"a"}', '{"a":01}']],
    [{ properties: { a: false, b: true } }, ['{}', '{"b":"x"}'], ['{"a":1}']],
    [{ type: 'array', items: { type: 'integer' } }, ['[]', '[1]', '[ 1, 2 ]'], ['[1,]', '["a"]', '[,1]']],
    [
      { type: 'array', items: { type: 'null' }, minItems: 2, maxItems: 3 },
      ['[null,null]', '[null,null,null]'],
      ['[null]', '[null,null,null,null]', '[]'],
    ],
    [{ type: 'array', items: {}, maxItems: 0 }, ['[]'], ['[1]']],
    [{ type: 'array', items: { type: 'null' }, maxItems: 1 }, ['[]', '[null]'], ['[null,null]']],
    [
      { prefixItems: [{ type: 'null' }, { type: 'boolean' }], items: { type: 'integer' }, minItems: 1, maxItems: 4 },
      ['[null]', '[null,true]', '[null,true,1,2]'],
      ['[]', '[true]', '[null,true,1,2,3]', '[null,1]'],
    ],
    [{ prefixItems: [{ type: 'null' }, { type: 'boolean' }], items: false }, ['[]', '[null,true]'], ['[null,true,1]']],
    [{ items: [{ type: 'null' }], additionalItems: { type: 'boolean' } }, ['[null,true,false]', '[]'], ['[true]', '[null,null]']],
    [{ prefixItems: [{ type: 'null' }], minItems: 3 }, ['[null,1,"x"]', '[null,1,{},[]]'], ['[null,1]']],
    [{ prefixItems: [true, true], maxItems: 1 }, ['[]', '[3]'], ['[3,4]']],
    [{ type: 'string', minLength: 2, maxLength: 3 }, ['"ab"', '"\u{1f600}é\\u00e9"', '"\\n\\""'], ['"a"', '"abcd"', '"\\ud83d\\ude00"']],
    [{ type: 'string', minLength: 1 }, ['"abcdefghijkl"'], ['""']],
    [{ type: 'string', minLength: 0 }, ['""', '"abc"'], ['a']],
    [{ type: 'string', maxLength: 0 }, ['""'], ['"a"']],
    [{ enum: ['a b', 1, null, { x: [1] }, 'é"'] }, ['"a b"', '1', 'null', '{"x":[1]}', '"é\\""'], ['"a"', '2', '{"x":[1,1]}']],
    [{ enum: ['2024-02-03', '', 'x'], format: 'date' }, ['"2024-02-03"'], ['""', '"x"']],
    [{ const: 'x' }, ['"x"'], ['"y"', 'x']],
    [{ type: 'string', enum: ['a', 1] }, ['"a"'], ['1']],
    [{ enum: [1, 5, 9], minimum: 3, exclusiveMaximum: 9 }, ['5'], ['1', '9']],
    [{ type: ['string', 'null'], maxLength: 1 }, ['"a"', 'null', '""'], ['"ab"', '1']],
    [{ type: 'integer', nullable: true }, ['1', 'null'], ['"a"']],
    [{ type: ['integer', 'number'] }, ['1', '1.5', '-0.25e10', '1E-5'], ['.5', '01', '1.', '+1', '--1']],
    [{ type: 'integer' }, ['0', '-5', '123456'], ['1.0', '1e2', '007']],
    [{ type: 'boolean' }, ['true', 'false'], ['null', 'True']],
    [true, ['1', '"a"', '{"a":[]}', 'null'], ['', 'a']],
    [{ anyOf: [{ type: 'integer' }, { type: 'string', maxLength: 1 }] }, ['12', '"a"'], ['"ab"', 'null']],
    [{ oneOf: [{ type: 'integer' }, { type: 'null' }], title: 'x' }, ['12', 'null'], ['"ab"']],
    [{ type: 'integer', anyOf: [{ minimum: 5, maximum: 6 }, { const: 1 }, { const: 'a' }] }, ['5', '6', '1'], ['4', '7', '"a"']],
    [
      { allOf: [{ properties: { a: { type: 'number' } }, required: ['a'] }, { properties: { a: { minimum: 3 }, b: { type: 'null' } } }] },
      ['{"a":3.5}', '{"a":4,"b":null}'],
      ['{"a":2}', '{}'],
    ],
    [{ allOf: [{ type: ['integer', 'string'] }, { type: ['number', 'null'] }] }, ['1'], ['1.5', '"a"', 'null']],
    [
      { allOf: [{ properties: { a: {} }, additionalProperties: { type: 'null' } }, { properties: { b: {} } }] },
      ['{"a":1,"b":null}', '{"b":null}'],
      ['{"b":1}'],
    ],
    [{ allOf: [{ minLength: 1 }, { maxLength: 2 }, { type: 'string' }] }, ['"a"', '"ab"'], ['""', '"abc"']],
    [
      { allOf: [{ prefixItems: [{ type: 'integer' }] }, { items: { minimum: 3, type: 'number' }, maxItems: 2 }] },
      ['[3]', '[]', '[4,3.5]'],
      ['[2]', '[3.5]'],
    ],
    [{ allOf: [{ enum: [1, 2, 3] }, { enum: [3, 2, 5] }] }, ['2', '3'], ['1', '5']],
    [
      {
        $defs: {
          node: {
            type: 'object',
            properties: { v: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
            required: ['v', 'next'],
          },
        },
        $ref: '#/$defs/node',
      },
      ['{"v":1,"next":{"v":2,"next":null}}'],
      ['{"v":1}', '{"v":1,"next":{}}'],
    ],
    [{ type: 'object', properties: { child: { $ref: '#' } } }, ['{}', '{"child":{"child":{}}}'], ['{"child":1}']],
    [{ definitions: { 'a/b~c': { type: 'null' } }, type: 'array', items: { $ref: '#/definitions/a~1b~0c' } }, ['[null]'], ['[1]']],
    [{ $defs: { n: { type: 'integer' } }, properties: { a: { $ref: '#/$defs/n', minimum: 10 } } }, ['{"a":10}'], ['{"a":9}']],
    [{ format: 'date' }, ['"2024-02-28"', '"1999-12-31"'], ['"2024-02-30"', '"2024-13-01"', '"24-01-01"', '"2023-04-31"']],
    [{ type: 'string', format: 'time' }, ['"23:59:59Z"', '"00:00:00.125+05:30"'], ['"24:00:00Z"', '"12:00:00"', '"12:60:00Z"']],
    [{ type: 'string', format: 'date-time' }, ['"2024-01-31T10:00:00Z"'], ['"2024-01-31 10:00:00Z"']],
    [{ type: 'string', format: 'uuid' }, ['"123e4567-e89b-12d3-a456-426614174000"'], ['"123e4567"']],
    [{ type: 'string', format: 'ipv4' }, ['"255.0.10.199"'], ['"256.0.0.1"', '"1.2.3"', '"01.2.3.4"']],
    [{ type: 'string', format: 'email' }, ['"a.b@c-d.org"'], ['"a@"', '"@b.org"']],
    [{ type: 'integer', format: 'int64', multipleOf: undefined, 'x-order': 1, description: 'd' }, ['7'], ['"7"']],
  ];
  for (const [schema, yes, no] of cases) {
    test(JSON.stringify(schema).slice(0, 110), () => {
      const accepts = reader(schema);
      for (const text of yes) {
        expect(accepts(text), `should take ${text} by\n${jsonSchemaToGrammar(schema)}`).toBe(true);
        expect(validate(schema as Parameters<typeof validate>[0], JSON.parse(text))).toBe(undefined);
      }
      for (const text of no) expect(accepts(text), `should refuse ${text} by\n${jsonSchemaToGrammar(schema)}`).toBe(false);
    });
  }

  test('json_object', () => {
    const random = createRandom(seed);
    const grammar = createGrammar(jsonSchemaToGrammar({ type: 'object' }), vocabulary);
    for (let i = 0; i < 30; i++) {
      const { text } = walk(grammar, vocabulary, random.next);
      expect(typeof JSON.parse(text), text).toBe('object');
      expect(text.startsWith('{')).toBe(true);
    }
  });
});

describe('numbers within bounds', () => {
  test('integers: every one of -130 .. 1300 against ranges', () => {
    const random = createRandom(seed);
    const int = (): number => Math.floor((random.next() - 0.2) * 10 ** (1 + Math.floor(random.next() * 3)));
    for (let round = 0; round < 60; round++) {
      const [low, high] = [int(), int()].sort((a, b) => a - b);
      const kind = round % 4;
      const schema: Record<string, unknown> = { type: 'integer' };
      if (kind !== 1) schema[round % 8 === 4 ? 'exclusiveMinimum' : 'minimum'] = kind === 3 ? low - 0.5 : low;
      if (kind !== 2) schema[round % 8 === 0 ? 'exclusiveMaximum' : 'maximum'] = kind === 3 ? high + 0.5 : high;
      if ((schema.minimum ?? Number(schema.exclusiveMinimum) + 1) > (schema.maximum ?? Number(schema.exclusiveMaximum) - 1)) continue;
      const accepts = reader(schema);
      for (let n = -130; n <= 1300; n += n < 130 ? 1 : 7)
        expect(accepts(String(n)), `seed ${seed}, ${n} by ${JSON.stringify(schema)}`).toBe(validate(schema, n) === undefined);
    }
    expect(reader({ type: 'integer', minimum: 10 })('123456789012')).toBe(true);
    expect(reader({ type: 'integer', maximum: 1e18 })('1000000000000000000')).toBe(true);
    expect(reader({ type: 'integer', exclusiveMinimum: 0 })('0')).toBe(false);
  });

  test('decimals with up to three places against ranges', () => {
    const random = createRandom(seed + 1);
    const value = (): number =>
      Number(((random.next() - 0.4) * 10 ** Math.floor(random.next() * 3)).toFixed(Math.floor(random.next() * 4)));
    for (let round = 0; round < 80; round++) {
      const [low, high] = [value(), value()].sort((a, b) => a - b);
      const schema: Record<string, unknown> = { type: 'number' };
      if (round % 3 !== 1) schema[round % 5 === 0 ? 'exclusiveMinimum' : 'minimum'] = low;
      if (round % 3 !== 2) schema[round % 7 === 0 ? 'exclusiveMaximum' : 'maximum'] = high;
      if (low === high) continue;
      const accepts = reader(schema);
      const by = `by ${JSON.stringify(schema)}\n${jsonSchemaToGrammar(schema)}`;
      const probes = [
        low,
        high,
        0,
        1,
        -1,
        ...Array.from({ length: 150 }, () => (random.next() < 0.5 ? value() : low + random.next() * (high - low))),
      ];
      for (const probe of probes) {
        for (const text of [probe.toFixed(3), probe.toFixed(0), String(Number(probe.toFixed(2)))]) {
          // valid like 0, but never written
          if (Number(text) === 0 && text.startsWith('-')) continue;
          expect(accepts(text), `seed ${seed + 1}, ${text} ${by}`).toBe(validate(schema, Number(text)) === undefined);
        }
      }
    }
  });

  test('texts of random walks keep hard bounds', () => {
    const random = createRandom(seed + 2);
    const bounds: Record<string, number>[] = [
      { minimum: 0.1, maximum: 0.30000000000000004 },
      { exclusiveMinimum: 0, exclusiveMaximum: 1 },
      { minimum: 1e-12, maximum: 1e-11 },
      { minimum: -1e21, maximum: -1e20 },
      { exclusiveMinimum: 0.1, maximum: 0.2 },
      { minimum: 999999999999999 },
      { maximum: -0.5 },
      { minimum: 5, maximum: 5 },
      { minimum: -0.001, maximum: 0.001 },
      { minimum: 1e20 },
      { exclusiveMaximum: 5e-324, minimum: -1 },
    ];
    for (const range of bounds) {
      for (const type of ['number', 'integer']) {
        const schema = { type, ...range };
        let gbnf: string;
        try {
          gbnf = jsonSchemaToGrammar(schema);
        } catch (error) {
          expect(error, JSON.stringify(schema)).toMatchObject({
            code: 'ERR_GRAMMAR',
            message: expect.stringContaining('no value satisfies'),
          });
          expect(type).toBe('integer');
          continue;
        }
        const grammar = createGrammar(gbnf, vocabulary);
        for (let i = 0; i < 40; i++) {
          const { text } = walk(grammar, vocabulary, random.next, 30);
          expect(validate(schema, JSON.parse(text)), `${text} by ${JSON.stringify(schema)}`).toBe(undefined);
        }
      }
    }
  });
});

describe('a pattern with const and enum', () => {
  test('leaves the values that match', () => {
    const accepts = reader({ enum: ['ab', 'b', 'a\n"', 5], pattern: '^a.|\n"$' });
    expect(['ab', 'b', 'a\n"', 5].map((value) => accepts(JSON.stringify(value)))).toEqual([true, false, true, true]);
    expect(() => jsonSchemaToGrammar({ const: 'a', pattern: '(' })).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR' }));
  });
  // A server compiles its clients' schemas. This one would block it for hours.
  test('takes no time exponential in the value', () => {
    const start = processorMs();
    expect(() => jsonSchemaToGrammar({ const: `${'a'.repeat(60)}!`, pattern: '^(a+)+$' })).toThrow(/no value satisfies/);
    expect(processorMs() - start).toBeLessThan(2000);
  });
});

/** Runs work to its end. Returns its result and the number of pauses. */
function run<T>(work: Work<T>): [T, number] {
  for (let pauses = 0; ; pauses++) {
    const { done, value } = work.next();
    if (done) return [value, pauses];
  }
}

const numbers = (n: number, of: (i: number) => unknown = (i) => i): unknown[] => Array.from({ length: n }, (_, i) => of(i));

describe('large schemas', () => {
  test('take time linear in their length', () => {
    const entry = (i: number): object => ({
      type: 'object',
      properties: { a: { type: 'string' }, [`b${i}`]: { type: 'array', items: { type: 'integer' } } },
      required: ['a'],
    });
    const properties = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`property_${i}`, entry(i)]));
    const start = processorMs();
    parseGbnf(jsonSchemaToGrammar({ type: 'object', properties, required: Object.keys(properties) }), () => undefined, 0);
    expect(processorMs() - start).toBeLessThan(3000);
  });
  test('an object of many optional properties, and a list of many optional items, nest no groups', () => {
    const names = Array.from({ length: 500 }, (_, i) => `p${i}`);
    const accepts = reader({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'integer' }])) });
    for (const chosen of [[], [0], [499], [0, 250, 499], names.map((_, i) => i)])
      expect(accepts(JSON.stringify(Object.fromEntries(chosen.map((i) => [names[i], i]))))).toBe(true);
    expect(accepts('{"p1": 1, "p0": 0}')).toBe(false);
    const items = reader({ type: 'array', prefixItems: names.map(() => ({ type: 'integer' })) });
    for (const length of [0, 1, 300, 500]) expect(items(JSON.stringify(new Array(length).fill(1)))).toBe(true);
    expect(items(JSON.stringify(new Array(501).fill(1)))).toBe(false);
  });
  test("errors for limits use the schema's words", () => {
    const refs = (n: number): Record<string, unknown> => ({
      $defs: Object.fromEntries(
        Array.from({ length: n }, (_, i) => [`d${i}`, i + 1 < n ? { $ref: `#/$defs/d${i + 1}`, title: 'x' } : { type: 'null' }]),
      ),
      $ref: '#/$defs/d0',
    });
    const error = (schema: Record<string, unknown>): unknown => {
      try {
        return jsonSchemaToGrammar(schema, { strict: true });
      } catch (thrown) {
        return [(thrown as { code: string }).code, (thrown as Error).message];
      }
    };
    expect(error(refs(20_000))).toEqual(['ERR_GRAMMAR', expect.stringMatching(/^schema #\/\$.*fewer references/)]);
    expect(error(refs(5000))).toEqual(['ERR_GRAMMAR', expect.stringMatching(/^schema #\/\$.*fewer references/)]);
    expect(typeof error(refs(90))).toBe('string');
    expect(error({ const: 'x'.repeat(5_000_000) })).toEqual(['ERR_GRAMMAR', expect.stringMatching(/^schema #: the texts/)]);
    expect(error({ enum: Array.from({ length: 210_000 }, (_, i) => i) })).toEqual([
      'ERR_GRAMMAR',
      expect.stringMatching(/^schema #: the schema has/),
    ]);
    expect(error({ pattern: '('.repeat(20_000) + ')'.repeat(20_000) })).toEqual([
      'ERR_GRAMMAR',
      expect.stringMatching(/it has 40000 characters/),
    ]);
  });
  test('are compiled with pauses; grammars too', () => {
    const schema = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`p${i}`, { type: 'string' }])),
    };
    const [gbnf, pauses] = run(jsonSchemaWork(schema));
    const [, more] = run(createGrammarWork(gbnf, vocabulary));
    expect([pauses > 4000, more > 10_000]).toEqual([true, true]);
  });
  test('values of a large enum are found without comparing each with all others', () => {
    const start = processorMs();
    const [gbnf, pauses] = run(jsonSchemaWork({ type: 'array', const: numbers(9000, (i) => 8999 - i), items: { enum: numbers(9000) } }));
    expect(gbnf).toContain('::= "8999"');
    expect(pauses).toBeGreaterThan(200);
    expect(processorMs() - start).toBeLessThan(5000);
    expect(jsonSchemaToGrammar({ allOf: [{ enum: numbers(20_000) }, { enum: numbers(20_000, (i) => 19_999 + i) }] })).toBe(
      'root ::= "19999"\n',
    );
    const accepts = reader({ allOf: [{ enum: [{ a: 1, b: [2] }, 3] }, { enum: [{ b: [2], a: 1 }] }] });
    expect(['{"a":1,"b":[2]}', '3', '{"a":1}'].map(accepts)).toEqual([true, false, false]);
  });
  test('the repetition of properties, required names and values by combinations is bounded', () => {
    const ways = numbers(1900, (i) => ({ minLength: i })) as Record<string, unknown>[];
    const names = numbers(2000, (i) => `p${i}`) as string[];
    for (const many of [{ properties: Object.fromEntries(names.map((name) => [name, true])) }, { required: names }, { enum: names }])
      expect(() => jsonSchemaToGrammar({ allOf: [many, { anyOf: ways }] }, { strict: true })).toThrow(/more than 500 alternatives/);
  });
  test('names that others must differ from are bounded, and schemas that double are known by their places', () => {
    const open = (name: string): JsonSchema => ({ type: 'object', properties: { [name]: true }, additionalProperties: true });
    expect(() => jsonSchemaToGrammar(open('a'.repeat(200_000)))).toThrow(/too many states together/);
    expect(jsonSchemaToGrammar(open('a'.repeat(900)))).toContain('root ::=');
    const many = Object.fromEntries(numbers(300, (i) => [`${i}${'a'.repeat(900)}`, true]) as [string, boolean][]);
    expect(() => jsonSchemaToGrammar({ type: 'object', properties: many, additionalProperties: true })).toThrow(/too many states together/);
    const list = { type: 'array', items: { $ref: '#/$defs/a' } };
    const doubling = {
      $defs: { a: { anyOf: [list, { ...list, minItems: 0 }] } },
      ...list,
      const: JSON.parse('['.repeat(60) + '0' + ']'.repeat(60)) as unknown,
    };
    expect(() => jsonSchemaToGrammar(doubling)).toThrow(/no value satisfies/);
    const $defs = Object.fromEntries(
      Array.from({ length: 40 }, (_, i) => [
        `d${i}`,
        i === 39 ? { type: 'string' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
      ]),
    );
    expect(jsonSchemaToGrammar({ $ref: '#/$defs/d0', $defs })).toBe(jsonSchemaToGrammar({ type: 'string' }));
  });
  test('a long value is compared with a pattern in a single pass, however many readings the pattern has', () => {
    const start = processorMs();
    for (const pattern of ['^(a?){3000}(a|b)*$', '^[a-c]+$', '^(a|aa)+$'])
      expect(jsonSchemaToGrammar({ type: 'string', const: 'a'.repeat(20_000), pattern })).toContain('aaa');
    expect(processorMs() - start).toBeLessThan(5000);
  });
  test('patterns of many schemas are compared within a limit of time', () => {
    const oneOf = numbers(100, (i) => ({ type: 'string', pattern: `a{0,50}b${i}` }));
    const start = processorMs();
    expect(() => jsonSchemaToGrammar({ oneOf }, { strict: true })).toThrow(/too many states/);
    expect(processorMs() - start).toBeLessThan(10_000);
  });
  test('one long rule is read and compiled with pauses; names and classes are bounded', () => {
    const bodies = [`"${'a'.repeat(50_000)}"`, '[ab] '.repeat(30_000), '# x\n'.repeat(30_000), '"a" | '.repeat(15_000), '"a"{50000}'];
    for (const body of [...bodies, '("a" "b"){50000}', '("a" "b"){0,30000}', '""{50000}', '[acegikmoqsuwy]{50000}', '[āăą]{50000}'])
      expect(run(createGrammarWork(`root ::= (${body} "b")`, vocabulary))[1], body.slice(0, 20)).toBeGreaterThan(15);
    expect(() => createGrammar(`root ::= [${'ab'.repeat(20_000)}]`, vocabulary)).toThrow(/at most 10000 characters and ranges/);
    expect(() => createGrammar(`root ::= ${'a'.repeat(5000)}`, vocabulary)).toThrow(/a name of at most 1000 characters/);
  });
  test('copies are made and searched with a pause after every thousand; empty copies count too', () => {
    const item = { type: 'object', properties: { a: { type: 'string' } } };
    for (const [copies, schema] of [
      [90_000, { type: 'array', items: item, minItems: 90_000 }],
      [45_000, { type: 'array', items: item, maxItems: 45_000 }],
      [90_000, { type: 'string', minLength: 90_000 }],
      [90_000, { type: 'string', pattern: '^([a-cx-z]b|c){90000}$' }],
    ] as const) {
      const [, pauses] = run(createGrammarWork(jsonSchemaToGrammar(schema), vocabulary));
      expect(pauses, JSON.stringify(schema)).toBeGreaterThan(copies / 1000);
    }
    expect(() => createGrammar(`root ::= ${'""{40000} '.repeat(3)}`, vocabulary)).toThrow(/larger than 100000 nodes/);
  });
});

describe('patterns', () => {
  const patterns = [
    '^[a-c]+$',
    '^a.c$',
    'b',
    '^(foo|ba[rz])?$',
    '^\\d{2,3}-\\w*$',
    '^[^"\\\\]*$',
    '^\\u0041\\x42\\t?\\/$',
    'a$|^b',
    '^(?:ab)+?c{0,2}$',
    '^\\S+\\s\\D$',
    '^[\\d_-]+$',
    '^[\\]"\\n]$',
    '',
    '^$',
    '^\\u{1F600}é$',
    '^(?<x>a)\\.$',
    `^${'('.repeat(90)}a${')'.repeat(90)}$`,
    `^${Array.from({ length: 200 }, (_, i) => `(?<name${i}>a)`).join('')}$`,
  ];
  const pieces = [
    'a',
    'b',
    'c',
    'foo',
    'bar',
    'baz',
    '12',
    '3',
    '-',
    '_',
    'A',
    'B',
    '\t',
    '/',
    '"',
    '\\',
    ' ',
    '\n',
    ']',
    'é',
    '\u{1f600}',
    '.',
  ];
  for (const pattern of patterns) {
    test(pattern, () => {
      const schema = { type: 'string', pattern };
      const accepts = reader(schema);
      const gbnf = jsonSchemaToGrammar(schema);
      const expression = new RegExp(pattern, 'u');
      const random = createRandom(seed);
      for (let i = 0; i < 150; i++) {
        const text = Array.from({ length: Math.floor(random.next() * 5) }, () => pieces[Math.floor(random.next() * pieces.length)]).join(
          '',
        );
        expect(accepts(JSON.stringify(text)), `seed ${seed}, ${JSON.stringify(text)} by ${pattern}\n${gbnf}`).toBe(expression.test(text));
      }
      const grammar = createGrammar(gbnf, vocabulary);
      for (let i = 0; i < 10; i++) {
        const { text } = walk(grammar, vocabulary, random.next, 20);
        expect(validate(schema, JSON.parse(text)), text).toBe(undefined);
      }
    });
  }
});

describe('refusals name the keyword and the place', () => {
  const cases: [schema: unknown, message: RegExp][] = [
    [{ type: 'array', uniqueItems: true }, /#\/uniqueItems/],
    [{ type: 'text' }, /#\/type: found "text"/],
    [{ anyOf: [] }, /#\/anyOf: found an empty list; expected a list/],
    [{ $ref: '#/%zz' }, /#\/\$ref: "#\/%zz" does not exist/],
    [{ minItems: -1 }, /#\/minItems: found -1; expected an integer that is not negative/],
    [{ minItems: 1e308 }, /#\/minItems: found 1e\+308; expected at most 2147483647/],
    [{ $ref: 'http://elsewhere/x' }, /#\/\$ref: .*this document/],
    [{ $ref: '#/$defs/x' }, /#\/\$ref: "#\/\$defs\/x" does not exist/],
    [{ $ref: '#' }, /back to itself/],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { anyOf: [{ $ref: '#/$defs/a' }, { type: 'null' }] } }, $ref: '#/$defs/a' }, /back to itself/],
    [{ type: 'string', format: 'hostname' }, /#\/format: "hostname"/],
    [{ type: 'string', pattern: '(a' }, /not a regular expression/],
    [{ type: 'string', pattern: `${'('.repeat(101)}a${')'.repeat(101)}` }, /more than 100 nested groups/],
    [{ type: 'string', pattern: `${'('.repeat(1900)}a${')'.repeat(1900)}` }, /more than 100 nested groups|not a regular expression/],
    [{ type: 'string', pattern: '(a)'.repeat(20_000) }, /it has 60000 characters; expected at most 10000/],
    [{ type: 'string', pattern: '\\bx' }, /\\b at character 1/],
    [{ type: 'string', minLength: -1 }, /#\/minLength: found -1/],
    [{ minimum: 'x' }, /#\/minimum: found "x"/],
    [false, /no value satisfies/],
    [{ type: 'string', pattern: 'a^' }, /no value satisfies/],
    [{ type: 'integer', minimum: 5, maximum: 4 }, /no value satisfies/],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, /no value satisfies/],
    [{ enum: [] }, /no value satisfies/],
    [{ type: 'object', properties: { a: false }, required: ['a'] }, /no value satisfies/],
    [{ type: 'array', minItems: 3, maxItems: 2 }, /no value satisfies/],
    [{ type: 'array', prefixItems: [true], items: false, minItems: 2 }, /no value satisfies/],
    [{ type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] }, /no value satisfies/],
    [
      {
        type: 'object',
        maxProperties: 1,
        not: { propertyNames: { pattern: 'a' } },
        allOf: [{ not: { propertyNames: { maxLength: 1 } } }, { propertyNames: { enum: ['b', 'bc'] } }],
      },
      /no value satisfies/,
    ],
    [7, /found 7; expected true, false or an object/],
    [null, /found null/],
    [{ properties: { a: [1] } }, /#\/properties\/a: found \[1\]; expected true, false or an object/],
  ];
  for (const [schema, message] of cases) {
    test(JSON.stringify(schema).slice(0, 100), () => {
      expect(() => jsonSchemaToGrammar(schema as JsonSchema, { strict: true })).toThrow(
        expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringMatching(message) }),
      );
    });
  }

  test('a schema that contains itself, and one nested too deep', () => {
    const loop: Record<string, unknown> = { type: 'array' };
    loop.items = loop;
    let deep: Record<string, unknown> = { type: 'null' };
    for (let i = 0; i < 5000; i++) deep = { allOf: [deep] };
    for (const schema of [loop, deep])
      expect(() => jsonSchemaToGrammar(schema)).toThrow(
        expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining('nested more than 200') }),
      );
  });
});

describe('200 random schemas', () => {
  test('texts of random walks along the masks parse and validate', () => {
    let satisfiable = 0;
    fc.assert(
      fc.property(randomSchema, fc.integer({ min: 0, max: 2 ** 31 }), (body, walkSeed) => {
        const schema = { ...body, $defs: DEFS };
        let gbnf: string;
        try {
          gbnf = jsonSchemaToGrammar(schema);
        } catch (error) {
          // random objects may contradict each other, and random strings have different patterns
          expect(error).toMatchObject({
            code: 'ERR_GRAMMAR',
            message: expect.stringMatching(/no value satisfies|at once|are combined|expand to/),
          });
          return;
        }
        satisfiable++;
        const grammar = createGrammar(gbnf, vocabulary);
        const random = createRandom(walkSeed);
        for (let i = 0; i < 3; i++) {
          const { text } = walk(grammar, vocabulary, random.next);
          expect(validate(schema, JSON.parse(text)), `${text}\nby ${JSON.stringify(schema)}\n${gbnf}`).toBe(undefined);
        }
      }),
      { numRuns: 200, seed },
    );
    expect(satisfiable).toBeGreaterThan(150);
  });
});
