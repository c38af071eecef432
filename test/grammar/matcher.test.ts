import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createMatcher, type Matcher, type MatcherState } from '../../src/grammar/matcher.ts';
import { createRandom } from '../../src/sample/random.ts';

const strictly = (schema: object | boolean): Matcher => createMatcher({ schema, strict: true });
const json = (value: unknown): string => JSON.stringify(value);

/** Values that a schema takes and refuses, by the specification. */
type Case = readonly [schema: object | boolean, yes: readonly unknown[], no: readonly unknown[]];

function hold(cases: readonly Case[]): void {
  for (const [schema, yes, no] of cases) {
    test(json(schema).slice(0, 110), () => {
      const matcher = strictly(schema);
      for (const value of yes) expect(matcher.accepts(json(value)), `should take ${json(value)}`).toBe(true);
      for (const value of no) expect(matcher.accepts(json(value)), `should refuse ${json(value)}`).toBe(false);
    });
  }
}

describe('objects', () => {
  hold([
    [{ properties: { a: { type: 'integer' } }, required: ['b'] }, [{ b: 1, a: 2 }, { c: 0, b: {} }, 7, 'x'], [{ a: 1 }, { b: 1, a: 'x' }]],
    [
      { properties: { ab: { type: 'null' }, a: { const: 1 } }, additionalProperties: false },
      [{}, { a: 1, ab: null }],
      [{ abc: 1 }, { ab: 1 }, { '': 1 }],
    ],
    [
      { patternProperties: { '^x': { type: 'integer' }, y$: { minimum: 3 } } },
      [{ x: 1, y: 3, z: 'a' }, { xy: 3 }],
      [{ x: 'a' }, { xy: 2 }, { xy: 3.5 }],
    ],
    [
      { properties: { foo: true }, patternProperties: { '^v': { type: 'string' } }, additionalProperties: { type: 'null' } },
      [{ foo: 1, va: 'a', n: null }],
      [{ va: 1 }, { n: 1 }],
    ],
    [{ minProperties: 1, maxProperties: 2 }, [{ a: 1 }, { a: 1, b: 2 }, []], [{}, { a: 1, b: 2, c: 3 }]],
    [
      { required: ['a'], maxProperties: 2, properties: { b: true } },
      [{ b: 1, a: 2 }, { a: 1 }],
      [
        { b: 1, c: 2 },
        { b: 1, c: 2, a: 3 },
      ],
    ],
    [{ propertyNames: { pattern: '^[a-z]+$', maxLength: 3 } }, [{ abc: 1 }, {}], [{ abcd: 1 }, { A: 1 }]],
    [{ dependentRequired: { a: ['b', 'c'] } }, [{ a: 1, b: 1, c: 1 }, { c: 1, b: 1, a: 1 }, { b: 1 }], [{ a: 1, b: 1 }, { a: 1 }]],
    [
      { dependentSchemas: { a: { properties: { b: { type: 'integer' } } } } },
      [{ a: 1, b: 2 }, { b: 'x' }],
      [
        { a: 1, b: 'x' },
        { b: 'x', a: 1 },
      ],
    ],
    [{ dependencies: { a: ['b'], c: { required: ['d'] } } }, [{ a: 1, b: 1 }, { c: 1, d: 1 }, {}], [{ a: 1 }, { c: 1 }]],
    [
      { allOf: [{ properties: { a: { minimum: 2 } }, additionalProperties: { type: 'integer' } }, { properties: { b: { maximum: 5 } } }] },
      [{ a: 2.5, b: 4 }],
      [{ b: 4.5 }, { a: 1 }],
    ],
    [{ properties: { 'a"\n€\\': { type: 'null' } }, additionalProperties: false }, [{ 'a"\n€\\': null }], [{ 'a"\n€': null }]],
  ]);
});

describe('arrays', () => {
  hold([
    [{ items: { type: 'integer' }, minItems: 1 }, [[1], [1, 2], 'x'], [[], ['a'], [1, 'a']]],
    [
      { prefixItems: [{ type: 'null' }, { type: 'integer' }], items: { type: 'string' } },
      [[], [null], [null, 1, 'a']],
      [[1], [null, 1, 2]],
    ],
    [{ items: [{ type: 'null' }], additionalItems: false }, [[], [null]], [[null, 1]]],
    [{ contains: { const: 5 } }, [[5], [1, 'x', 5, 5]], [[], [1, 2]]],
    [
      { contains: { type: 'integer' }, minContains: 2, maxContains: 3 },
      [
        [1, 'a', 2],
        [1, 2, 3],
      ],
      [[1], [1, 2, 3, 4], ['a']],
    ],
    [
      { items: { enum: ['a', 'b', 3] }, uniqueItems: true },
      [[], ['a', 3, 'b']],
      [
        ['a', 'a'],
        [3, 'b', 3],
      ],
    ],
    [{ uniqueItems: true, maxItems: 1 }, [[], ['x']], [['x', 'y']]],
    [
      { minItems: 2, maxItems: 3 },
      [
        [1, 2],
        [1, 2, 3],
      ],
      [[1], [1, 2, 3, 4]],
    ],
  ]);
});

describe('strings', () => {
  hold([
    [{ type: 'string', pattern: '^[a-z]+$', minLength: 2, maxLength: 3 }, ['ab', 'abc'], ['a', 'abcd', 'a1']],
    [{ allOf: [{ pattern: 'a' }, { pattern: 'b$' }, { pattern: '^[^x]*$' }] }, ['ab', 'aab', 7], ['a', 'b', 'axb']],
    [{ pattern: '^(?!foo)[a-z]*(?=bar)' }, ['xbar', 'bar'], ['foobar', 'x']],
    [{ pattern: '(^a$)|(^b)' }, ['a', 'bx'], ['ab', 'xb']],
    [{ pattern: '^\\-\\@x{2}$' }, ['-@xx'], ['-@x']],
    [{ type: 'string', maxLength: 2 }, ['\u{1f600}é', '\n"', '\u007f'], ['abc']],
    [{ not: { pattern: '^a' } }, ['b', ''], ['a', 'ab', 5, {}]],
    [{ enum: ['a', 'bc', 'd"'], minLength: 2 }, ['bc', 'd"'], ['a', 'x']],
    [{ type: 'string', not: { enum: ['a', 'abc'] } }, ['', 'ab', 'abcd'], ['a', 'abc', 5]],
    [{ format: 'date' }, ['2024-02-29', '2000-02-29', '1999-12-31'], ['2023-02-29', '1900-02-29', '2024-13-01', '2024-04-31']],
    [
      { format: 'date-time' },
      ['2024-01-31T10:00:00Z', '2024-02-29T23:59:59.123456+05:30', '1998-12-31T23:59:60Z'],
      ['2024-01-31 10:00:00Z', '2024-01-31T24:00:00Z', '2024-01-31T10:00:00'],
    ],
    [{ format: 'time' }, ['08:30:06Z', '23:59:60Z', '15:59:60-08:00'], ['08:30:06', '22:59:60Z', '23:59:60+01:00']],
    [{ format: 'duration' }, ['P4DT12H30M5S', 'P2W', 'PT1M'], ['PT1D', 'P', 'P1D2H', 'PT']],
    [
      { format: 'email' },
      ["o'reilly+tag@example.museum", 'a.b@c-d.org', '"joe bloggs"@example.com'],
      ['a@', '.a@b.c', 'a..b@c.de', 'a b@c.de', '@b.c'],
    ],
    [{ format: 'uri' }, ['http://a.b/c?d=e#f', 'urn:isbn:1', 'ldap://[2001:db8::7]/c=GB'], ['//a/b', 'a b', 'http://a b', 'http://a/\\']],
    [{ format: 'uri-reference' }, ['/a', 'a?b', '#c', ''], ['\\a', 'a b']],
    [{ format: 'ipv4' }, ['255.0.10.199'], ['256.0.0.1', '1.2.3', '01.2.3.4']],
    [
      { format: 'ipv6' },
      ['::1', '2001:db8::ff00:42:8329', '::ffff:1.2.3.4', '1:2:3:4:5:6:7:8', '1::'],
      ['12345::', '1::2::3', '1:2:3:4:5:6:7', ':::'],
    ],
    [{ format: 'uuid' }, ['123e4567-e89b-12d3-a456-426614174000'], ['123e4567', '123e4567e89b12d3a456426614174000']],
    [{ format: 'json-pointer' }, ['/a~1b', ''], ['a', '/~2']],
    [{ format: 'no-such-format' }, ['anything'], []],
    [{ format: 'uuid', pattern: '^0' }, ['023e4567-e89b-12d3-a456-426614174000'], ['123e4567-e89b-12d3-a456-426614174000']],
  ]);

  test('anchors anywhere, repeated groups with anchors, and properties of characters', () => {
    const patterns = ['x?^a', 'a*^b', '(^a|b)+c$', '(a$|b)*', '^(a$|b)*$', '(^|,)x', '^(?:(^|,)x)*$', '(a|$)+b?', 'a$b?', '^(?:a$|^b){2}$'];
    patterns.push(
      '(?:a|^){2}b',
      '(?:(?:^a)?b$)+',
      '(?!^a)b',
      '\\p{L}+$',
      '^\\p{Lu}\\P{L}',
      '[\\p{Script=Greek}\\d]$',
      '^\\u{61}$',
      '(?:^foo|b$)*x',
    );
    const texts = ['', 'foo', 'foox', 'é', 'É1', 'λ', '9', '\u{1d49c}'];
    for (let i = 0; i < texts.length && texts.length < 700; i++) for (const c of 'abx,') texts.push(texts[i] + c);
    for (const pattern of patterns) {
      const { accepts } = strictly({ type: 'string', pattern });
      const expression = new RegExp(pattern, 'u');
      for (const text of texts) expect(accepts(json(text)), `${pattern} in ${json(text)}`).toBe(expression.test(text));
    }
  });

  test('escapes that JSON allows for free characters', () => {
    for (const text of ['"\\u00e9"', '"\\/"', '"\\n"', '"é"'])
      expect(strictly({ type: 'string', maxLength: 1 }).accepts(text), text).toBe(true);
    expect(strictly({ type: 'string' }).accepts('"\u0001"')).toBe(false);
    expect(strictly({ type: 'string' }).accepts('"\\ud800"')).toBe(false);
  });
});

describe('numbers', () => {
  hold([
    [{ type: 'integer' }, [0, -5, 123456, 1e21, 1e300], [1.5, 1e-7, '1']],
    [{ type: 'number' }, [0, -0.5, 1e21, 1.5e-300, 0.8444218515250481, 12345678.123456789], [null]],
    [{ minimum: 0, maximum: 1 }, [0, 1, 0.8444218515250481, 1e-7, 0.000001234567890123], [-1e-7, 1.0000001, 2]],
    [{ exclusiveMinimum: 0 }, [1e-300, 5e22, 0.1], [0, -1, -1e-9]],
    [{ minimum: 2, exclusiveMinimum: true }, [2.5, 3], [2]],
    [{ maximum: 1.7976931348623157e308 }, [1, 1e300, -1e300], []],
    [{ exclusiveMaximum: 1e26 }, [1e25, 9e24, -1e30], [1e26, 2e27]],
    [{ multipleOf: 0.01 }, [1.25, 19.99, 0, 3], [0.001, 1.255]],
    [{ multipleOf: 7, minimum: 8 }, [14, 21, 700], [7, 15]],
    [{ not: { multipleOf: 2 } }, [1, 2.5], [2, 4, 'a']],
    [{ allOf: [{ multipleOf: 4 }, { multipleOf: 6 }, { not: { multipleOf: 9 } }] }, [12, 24, 60], [4, 6, 36]],
    [{ multipleOf: 12, not: { multipleOf: 4 } }, ['a'].slice(1), [12, 6]],
    [{ minimum: 950, maximum: 12345, type: 'integer' }, [950, 999, 1000, 9999, 12345], [949, 12346, 1]],
    [{ not: { type: 'integer' } }, [1.5, 'a', null], [1, -3]],
    [{ not: { enum: [1, 2.5, 'a', null] } }, [2, 2.51, 'b', false], [1, 2.5, 'a', null]],
    [{ enum: [1, 5, 9], minimum: 3, exclusiveMaximum: 9 }, [5], [1, 9, 6]],
  ]);
  test('a spelling of an excluded number', () => {
    for (const text of ['1', '1.0', '1.00', '1e0']) expect(strictly({ not: { const: 1 } }).accepts(text), text).toBe(false);
  });
});

describe('combinations', () => {
  const person = { type: 'object', properties: { kind: { const: 'p' }, age: { type: 'integer' } }, required: ['kind'] };
  const thing = { type: 'object', properties: { kind: { const: 't' }, size: { type: 'number' } }, required: ['kind'] };
  hold([
    [{ anyOf: [{ type: 'integer' }, { minLength: 2 }] }, [1, 1.5, 'ab', null], ['a']],
    [{ oneOf: [{ type: 'integer' }, { minimum: 2 }] }, [1, 2.5, 'x'.length], [3, 1.5]],
    [{ oneOf: [{ required: ['a'] }, { required: ['b'] }] }, [{ a: 1 }, { b: 1, c: 2 }], [{ a: 1, b: 2 }, { b: 2, a: 1 }, {}, 5]],
    [
      { oneOf: [person, thing] },
      [
        { kind: 'p', age: 1, size: 'x' },
        { size: 1.5, kind: 't' },
      ],
      [{ kind: 'p', age: 'x' }, { kind: 'q' }],
    ],
    [{ not: { required: ['a'] } }, [{ b: 1 }], [{ a: 1 }, 5]],
    [{ not: { properties: { a: { type: 'string' } }, required: ['a'] } }, [{ a: 1 }, {}], [{ a: 'x' }, 5].slice(0, 1)],
    [{ not: { anyOf: [{ type: 'string' }, { type: 'object' }] } }, [1, [], null], ['a', {}]],
    [{ not: { additionalProperties: { type: 'string' } } }, [{ a: 1 }, { a: 'x', b: 2 }], [{ a: 'x' }, {}, 7]],
    [{ not: { items: { type: 'integer' } } }, [['a'], [1, 'a']], [[1], [], 7]],
    [{ not: { contains: { const: 1 } } }, [[], [2]], [[1], [2, 1], 7]],
    [
      { if: { properties: { a: { const: 1 } }, required: ['a'] }, then: { required: ['b'] }, else: { required: ['c'] } },
      [{ a: 1, b: 2 }, { c: 1 }, { a: 2, c: 1 }],
      [{ a: 1 }, { a: 1, c: 1 }, { a: 2 }],
    ],
    [{ const: { a: [1, { b: null }] } }, [{ a: [1, { b: null }] }], [{ a: [1, {}] }, { a: [1, { b: null }], c: 1 }]],
    [{ enum: [{ a: 1, b: 2 }, [1], 'x', true] }, [{ b: 2, a: 1 }, [1], 'x', true], [{ a: 1 }, [1, 1], false]],
    [{ $ref: '#/$defs/n', minimum: 5, $defs: { n: { type: 'integer' } } }, [5], [4, 5.5]],
    [
      { $schema: 'http://json-schema.org/draft-07/schema#', $ref: '#/definitions/n', minimum: 5, definitions: { n: { type: 'integer' } } },
      [4],
      [5.5],
    ],
    [
      {
        $defs: { n: { $id: 'other.json', $anchor: 'here', type: 'null' } },
        items: { anyOf: [{ $ref: 'other.json' }, { $ref: 'other.json#here' }] },
      },
      [[null]],
      [[1]],
    ],
    [{ $id: 'https://a.b/root.json', definitions: { n: { type: 'null' } }, items: { $ref: 'root.json#/definitions/n' } }, [[null]], [[1]]],
    [
      { properties: { child: { $ref: '#' }, v: { type: 'integer' } }, additionalProperties: false },
      [{ child: { child: { v: 1 } } }],
      [{ child: { child: { v: 'x' } } }],
    ],
    // The outermost schema with the anchor is meant: here the document itself.
    [
      {
        $id: 'https://a.b/strict',
        $dynamicAnchor: 'node',
        $ref: 'tree',
        required: ['v'],
        $defs: {
          tree: { $id: 'https://a.b/tree', $dynamicAnchor: 'node', properties: { children: { items: { $dynamicRef: '#node' } } } },
        },
      },
      [{ v: 1, children: [{ v: 2 }] }],
      [{ v: 1, children: [{}] }],
    ],
    [{ items: { $dynamicRef: '#n' }, $defs: { a: { $dynamicAnchor: 'n', type: 'null' } } }, [[null]], [[1]]],
    [
      { $recursiveAnchor: true, properties: { next: { $recursiveRef: '#' } }, maxProperties: 1 },
      [{ next: {} }],
      [{ next: { a: 1, b: 2 } }],
    ],
    [{ type: ['string', 'integer'], nullable: true }, ['a', 1, null], [1.5, true]],
    [{ id: 'x', self: { vendor: 'v' }, readonly: true, links: [], javaType: 'T', _note: 1, 'x-y': { not: {} }, type: 'null' }, [null], [1]],
    [false, [], [1, null, {}]],
  ]);
});

describe('properties and items that no other schema evaluates', () => {
  const has = (name: string, schema: object = {}): object => ({ properties: { [name]: schema }, required: [name] });
  hold([
    [
      { properties: { a: true }, allOf: [{ properties: { b: true } }], unevaluatedProperties: false },
      [{ a: 1, b: 2 }, {}, 7],
      [{ c: 1 }, { a: 1, c: 1 }],
    ],
    [{ anyOf: [has('a'), has('b')], unevaluatedProperties: false }, [{ a: 1 }, { b: 1 }, { a: 1, b: 2 }], [{ a: 1, c: 1 }, {}]],
    [
      { oneOf: [has('a'), { $ref: '#/$defs/b' }], unevaluatedProperties: { type: 'null' }, $defs: { b: has('b') } },
      [{ a: 1 }, { b: 1, c: null }],
      [
        { a: 1, b: 2 },
        { a: 1, c: 1 },
      ],
    ],
    [
      { if: has('a', { const: 1 }), then: { properties: { b: true } }, unevaluatedProperties: false },
      [{ a: 1, b: 2 }, {}],
      [{ a: 2 }, { b: 1 }],
    ],
    [{ not: { not: { properties: { a: true } } }, unevaluatedProperties: false }, [{}], [{ a: 1 }]],
    [{ patternProperties: { '^x': true }, unevaluatedProperties: { type: 'integer' } }, [{ x: 'a', y: 1 }], [{ y: 'a' }]],
    [
      { prefixItems: [true], allOf: [{ prefixItems: [true, { type: 'null' }] }], unevaluatedItems: false },
      [[1], [1, null], 'x'],
      [[1, null, 2]],
    ],
    [{ items: { type: 'integer' }, unevaluatedItems: false }, [[1, 2]], [['a']]],
  ]);
});

describe('keywords that are held only in part', () => {
  const cases: [schema: object, pointer: string, keyword: string][] = [
    [{ properties: { a: { type: 'array', uniqueItems: true } } }, '/properties/a', 'uniqueItems'],
    [{ items: { format: 'regex' } }, '/items', 'format'],
    [{ contains: { const: 1 }, unevaluatedItems: false }, '', 'unevaluatedItems'],
    [{ not: { unevaluatedProperties: false } }, '/not', 'unevaluatedProperties'],
    [{ pattern: '(a)\\1' }, '', 'pattern'],
    // RegExp accepts these only without the flag u, with another meaning.
    ...['\\u{', '\\u{}', '\\u{zz}', '\\-\\u{110000}', 'a\\c', '\\061'].map((pattern): [object, string, string] => [
      { pattern },
      '',
      'pattern',
    ]),
    [{ $ref: 'https://elsewhere.example/x' }, '', '$ref'],
    [{ properties: { 'a/b': { required: true } } }, '/properties/a~1b', 'required'],
    [{ type: 'any' }, '', 'type'],
  ];
  for (const [schema, pointer, keyword] of cases) {
    test(json(schema), () => {
      expect(createMatcher({ schema }).relaxed).toEqual([{ pointer, keyword }]);
      const place = `#${pointer}/${keyword}`.replaceAll(/[$/]/g, '\\$&');
      expect(() => strictly(schema)).toThrow(
        expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringMatching(new RegExp(`${place}: .*expected`)) }),
      );
    });
  }
  test('the rest of the schema is held', () => {
    const { accepts } = createMatcher({ schema: { type: 'array', uniqueItems: true, items: { type: 'integer' } } });
    expect([accepts('[1,1]'), accepts('["a"]')]).toEqual([true, false]);
  });
});

/** Writes a random text that the matcher takes. At last it closes what it can. */
function randomText({ start }: Matcher, random: () => number): string | undefined {
  let state: MatcherState = start;
  const bytes: number[] = [];
  for (let i = 0; i < 3000; i++) {
    if (state.complete && (i > 30 || random() < 0.5)) return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes));
    const next = state.next().filter((byte) => byte !== 9 && byte !== 10 && byte !== 13 && byte !== 32);
    const ends = ['"', '}', ']', '0', ':'].map((c) => c.charCodeAt(0)).filter((byte) => next.includes(byte));
    const all = next.length > 0 ? next : state.next();
    const byte = ends.length > 0 && (i > 30 || random() < 0.3) ? ends[0] : all[Math.floor(random() * all.length)];
    expect(byte, `after ${new TextDecoder().decode(Uint8Array.from(bytes))}`).toBeDefined();
    bytes.push(byte);
    state = state.step(byte)!;
  }
  return undefined;
}

describe("zod's types", () => {
  const types: Record<string, z.ZodType> = {
    string: z.string().min(2).max(5),
    regex: z
      .string()
      .regex(/^[a-c]+$/)
      .min(2),
    email: z.email(),
    uuid: z.uuid(),
    url: z.url(),
    datetime: z.iso.datetime(),
    date: z.iso.date(),
    time: z.iso.time(),
    duration: z.iso.duration(),
    ipv4: z.ipv4(),
    ipv6: z.ipv6(),
    base64: z.base64(),
    base64url: z.base64url(),
    emoji: z.string().startsWith('a').endsWith('c').includes('b'),
    int: z.int(),
    number: z.number().min(0).lt(1),
    multiple: z.number().multipleOf(5),
    boolean: z.boolean(),
    null: z.null(),
    literal: z.literal(['a', 1, true, null]),
    enum: z.enum(['x', 'yy']),
    array: z.array(z.int()).min(1).max(3),
    tuple: z.tuple([z.string(), z.int()]),
    rest: z.tuple([z.string()], z.int()),
    object: z.object({ a: z.int(), b: z.string().optional() }),
    strict: z.strictObject({ a: z.int() }),
    loose: z.looseObject({ a: z.int() }),
    catchall: z.object({ a: z.int() }).catchall(z.boolean()),
    record: z.record(z.string(), z.int()),
    keys: z.record(z.string().regex(/^k[0-9]$/), z.int()),
    named: z.record(z.enum(['a', 'b']), z.int()),
    partial: z.partialRecord(z.enum(['a', 'b']), z.int()),
    union: z.union([z.int(), z.string().max(1)]),
    discriminated: z.discriminatedUnion('t', [z.object({ t: z.literal('a'), x: z.int() }), z.object({ t: z.literal('b'), y: z.string() })]),
    intersection: z.intersection(z.object({ a: z.int() }), z.object({ b: z.string() })),
    nullable: z.object({ a: z.string().nullable() }),
    default: z.object({ a: z.int().default(3) }),
    readonly: z.array(z.int()).readonly(),
    any: z.any(),
  };
  /** Values of all kinds, so that each type takes some and refuses many. */
  const values: unknown[] = [
    ...[null, true, false, 0, 1, 5, 0.5, 0.999, -3, 2.5, 1e21, 'a', 'aa', 'abc', 'x', 'yy', 'abcabc', '', 'YWJj', 'YWI=', 'a-_'],
    ...['a@b.co', "o'x+y@example.org", 'a@b', '123e4567-e89b-12d3-a456-426614174000', 'https://a.example/b?c=d', 'nothing'],
    ...[
      '2024-02-29T10:00:00Z',
      '2024-02-29T10:00:00.5Z',
      '2023-02-29',
      '2024-02-29',
      '10:00:00',
      '25:00:00',
      'P1DT2H',
      'P',
      '1.2.3.4',
      '::1',
      '1:2',
    ],
    ...[[], [1], [1, 2, 3], [1, 2, 3, 4], ['a', 1], ['a'], ['a', 1, 2], ['a', 'b']],
    ...[
      {},
      { a: 1 },
      { a: 1, b: 'x' },
      { b: 'x', a: 1 },
      { a: 1, c: true },
      { a: 'x' },
      { a: null },
      { a: 1, b: 2 },
      { k1: 1 },
      { k1: 'x' },
      { kk: 1 },
    ],
    ...[{ t: 'a', x: 1 }, { x: 1, t: 'a' }, { t: 'b', x: 1 }, { t: 'b', y: 'z' }, { t: 'c' }],
  ];
  for (const [name, type] of Object.entries(types)) {
    test(name, () => {
      const schema = z.toJSONSchema(type, { io: 'input' });
      const matcher = strictly(schema);
      for (const value of values) {
        const taken = type.safeParse(value).success;
        // zod's url and email are checked by code that the schema does not have.
        if (name !== 'url') expect(matcher.accepts(json(value)), `${json(value)} by ${json(schema)}`).toBe(taken);
      }
      const random = createRandom(7);
      for (let i = 0; i < 10; i++) {
        const text = randomText(matcher, random.next);
        if (text !== undefined && name !== 'url') expect(type.safeParse(JSON.parse(text)).success, `${text} by ${json(schema)}`).toBe(true);
      }
    });
  }
});

describe('states', () => {
  const { start } = createMatcher({ grammar: 'root ::= "ab" [0-9]+ "é"?' });
  test('are immutable, and read bytes and texts', () => {
    const after = start.read('ab1')!;
    expect([start.complete, after.complete, after.finished]).toEqual([false, true, false]);
    expect(after.read('é')!.finished).toBe(true);
    expect(after.step(0xc3)!.step(0xa9)!.complete).toBe(true);
    expect(start.read('b')).toBe(undefined);
    expect(start.read('ab1')!.complete).toBe(true);
    expect(start.next()).toEqual(['a'.charCodeAt(0)]);
  });
  test('options are checked', () => {
    expect(() => createMatcher({} as object)).toThrow(/neither; expected a schema or a grammar/);
    expect(() => createMatcher({ schema: {}, grammar: 'root ::= "a"' })).toThrow(/both/);
    expect(() => createMatcher({ schema: [] })).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR' }));
    expect(() => createMatcher({ grammar: 'root ::= x' })).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR' }));
  });
});

describe('hostile schemas end in time', () => {
  const many = (n: number, of: (i: number) => unknown): unknown[] => Array.from({ length: n }, (_, i) => of(i));
  const cases: Record<string, object> = {
    'references that double': {
      $ref: '#/$defs/d0',
      $defs: Object.fromEntries(
        many(40, (i) => [
          `d${i}`,
          i === 39 ? { type: 'string' } : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
        ]) as [string, unknown][],
      ),
    },
    'alternatives that multiply': {
      allOf: many(12, (i) => ({ anyOf: [{ required: [`a${i}`] }, { type: 'null' }, { required: [`b${i}`] }] })),
    },
    'a pattern with endless readings': { type: 'string', pattern: '^(a+)+$', const: `${'a'.repeat(60)}!` },
    'patterns that multiply': { allOf: many(8, (i) => ({ pattern: `${'(a|b)'.repeat(i + 2)}x.{${20 + i}}` })) },
    'a long count': { type: 'string', pattern: '^([a-cx-z]b|c){90000}$' },
    'long lists': { type: 'array', minItems: 90_000, items: { type: 'object', properties: { a: true } } },
    'many patterns of names': { patternProperties: Object.fromEntries(many(30, (i) => [`a.{${i}}b`, true]) as [string, unknown][]) },
    'many schemas of oneOf': { oneOf: many(150, (i) => ({ required: [`p${i}`] })) },
    'a great multiple': { type: 'integer', multipleOf: 123456789 },
  };
  for (const [name, schema] of Object.entries(cases)) {
    test(name, () => {
      const began = process.cpuUsage();
      const matcher = createMatcher({ schema });
      matcher.accepts(json('aab'));
      const { user } = process.cpuUsage(began);
      expect(user / 1e6).toBeLessThan(5);
    });
  }
});
