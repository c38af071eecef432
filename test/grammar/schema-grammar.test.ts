import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createGrammar, type Grammar } from '../../src/grammar/grammar.ts';
import { jsonSchemaToGrammar } from '../../src/grammar/json-schema.ts';
import { createMatcher } from '../../src/grammar/matcher.ts';
import { schemaGrammarWork } from '../../src/grammar/schema-grammar.ts';
import type { JsonSchema } from '../../src/grammar/schema.ts';
import { createRandom } from '../../src/sample/random.ts';
import { atOnce } from '../../src/slices.ts';
import { byteVocabulary } from './helpers.ts';
import { DEFS, randomSchema } from './random-schemas.ts';
import { validate } from './validate.ts';
import { walk } from './walk.ts';

const seed = 20261127;
const vocabulary = byteVocabulary(['{"', '":', '": ', ', "', '"}', '"]', '},', 'true', 'null', '12', '\n  ', 'é', '0.', '-1', 'name']);
const grammarOf = (schema: JsonSchema) => atOnce(schemaGrammarWork(schema, vocabulary, []));

describe('texts of random walks satisfy the schema, and no walk has a dead end', () => {
  const person = { type: 'object', properties: { t: { const: 'a' }, x: { type: 'integer' } }, required: ['t'] };
  const cases: Record<string, JsonSchema> = {
    'required names between optional ones': {
      type: 'object',
      properties: { a: { type: 'string', minLength: 1 }, b: { type: 'integer', minimum: 0 }, c: { enum: ['x', 'yy'] } },
      required: ['a', 'c'],
      additionalProperties: false,
    },
    'names that require earlier ones': {
      properties: { a: { type: 'integer' }, b: {}, c: { type: 'null' } },
      minProperties: 2,
      dependentRequired: { c: ['a'] },
    },
    counts: {
      type: 'object',
      minProperties: 2,
      maxProperties: 3,
      required: ['z'],
      properties: { q: { const: 1 }, z: { type: 'boolean' } },
      additionalProperties: false,
    },
    'patterns of names': {
      type: 'object',
      patternProperties: { '^x': { type: 'integer' } },
      additionalProperties: false,
      minProperties: 1,
    },
    'one of two': {
      oneOf: [{ required: ['a'] }, { required: ['b'] }],
      properties: { a: { type: 'integer' }, b: { type: 'string', format: 'date' } },
    },
    'a union by kind': {
      oneOf: [person, { type: 'object', properties: { t: { const: 'b' }, y: { type: 'string' } }, required: ['t', 'y'] }],
    },
    'a condition': {
      properties: { k: { enum: [1, 2] } },
      required: ['k'],
      if: { properties: { k: { const: 1 } } },
      then: { required: ['v'] },
    },
    'listed items once': { type: 'array', items: { enum: ['a', 'b', 3] }, uniqueItems: true, minItems: 2 },
    'an item among others': { type: 'array', contains: { const: 5 }, maxItems: 3, items: { type: 'integer' } },
    'strings in several ways': { type: 'string', pattern: '^(?!foo)[a-f0-9-]*$', format: 'uuid' },
    multiples: { type: 'number', multipleOf: 0.25, minimum: 1, exclusiveMaximum: 3 },
    'itself within': { type: 'object', properties: { next: { $ref: '#' }, v: { type: 'null' } }, required: ['v'] },
  };
  for (const [name, schema] of Object.entries(cases)) {
    test(name, () => {
      const grammar = grammarOf(schema);
      const matcher = createMatcher({ schema, strict: true });
      const random = createRandom(seed);
      for (let i = 0; i < 30; i++) {
        const { text } = walk(grammar, vocabulary, random.next, 30);
        expect(matcher.accepts(text), text).toBe(true);
      }
    });
  }

  test('random schemas', () => {
    let satisfiable = 0;
    fc.assert(
      fc.property(randomSchema, fc.integer({ min: 0, max: 2 ** 31 }), (body, walkSeed) => {
        const schema = { ...body, $defs: DEFS };
        let grammar;
        try {
          grammar = grammarOf(schema);
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_GRAMMAR', message: expect.stringMatching(/no value satisfies/) });
          return;
        }
        satisfiable++;
        const random = createRandom(walkSeed);
        for (let i = 0; i < 3; i++) {
          const { text } = walk(grammar, vocabulary, random.next);
          if (grammar.relaxed.length === 0)
            expect(validate(schema, JSON.parse(text)), `${text}\nby ${JSON.stringify(schema)}`).toBe(undefined);
        }
      }),
      { numRuns: 150, seed },
    );
    expect(satisfiable).toBeGreaterThan(110);
  });
});

describe('GBNF of a schema takes the texts of its automaton', () => {
  const accepts = (grammar: Grammar, text: string): boolean => {
    grammar.reset();
    for (const byte of new TextEncoder().encode(text)) {
      if (!grammar.allows(byte)) return false;
      grammar.accept(byte);
    }
    return grammar.isComplete();
  };
  const cases: Record<string, JsonSchema> = {
    'optional and required names': {
      properties: { a: { enum: ['x', 'y'] }, b: { type: 'null' }, c: { type: 'boolean' } },
      required: ['b'],
      additionalProperties: { type: 'string', maxLength: 2 },
    },
    'names that require others': {
      properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } },
      dependentRequired: { c: ['a'] },
      minProperties: 1,
      additionalProperties: false,
    },
    'counts of names': {
      type: 'object',
      properties: { a: { type: 'null' } },
      additionalProperties: { type: 'boolean' },
      minProperties: 2,
      maxProperties: 3,
    },
    'names by patterns': { type: 'object', patternProperties: { '^x': { type: 'null' } }, additionalProperties: false },
    'a name among others': {
      type: 'object',
      not: { additionalProperties: { type: 'null' } },
      additionalProperties: { type: ['null', 'boolean'] },
    },
    'characters of all planes': { not: { pattern: '[a-y\\ue000-\\u{10ffff}]' }, type: 'string', maxLength: 3 },
    'two patterns, a length and a word less': {
      pattern: 'a',
      not: { enum: ['ab'] },
      allOf: [{ pattern: '^[ab"\u0001é]*$' }],
      maxLength: 4,
    },
    'listed words': { enum: ['a"', '\n', 'é', ''], not: { const: '' } },
    lists: { type: 'array', items: { type: 'null' }, minItems: 1, maxItems: 3 },
    'listed items': { prefixItems: [{ type: 'null' }, { type: 'boolean' }], items: { const: 'x' }, maxItems: 4 },
    'an item among others': { type: 'array', contains: { const: true }, items: { type: 'boolean' }, minItems: 2, maxItems: 4 },
    'items once': { type: 'array', items: { enum: ['a', 'b', true] }, uniqueItems: true },
    itself: { type: 'object', properties: { a: { anyOf: [{ type: 'null' }, { $ref: '#' }] } }, required: ['a'] },
  };
  for (const [name, schema] of Object.entries(cases)) {
    test(name, () => {
      const automaton = grammarOf(schema);
      const gbnf = jsonSchemaToGrammar(schema, { strict: true });
      const grammar = createGrammar(gbnf, vocabulary);
      const random = createRandom(seed);
      for (let i = 0; i < 40; i++) {
        const { text } = walk(automaton, vocabulary, random.next, 20);
        expect(accepts(grammar, text), `${text} by ${gbnf}`).toBe(true);
        const { text: other } = walk(grammar, vocabulary, random.next, 20);
        expect(accepts(automaton, other), `${other} by ${gbnf}`).toBe(true);
      }
    });
  }
});

test('objects are closed and in order, unless the schema asks for others', () => {
  const read = (schema: JsonSchema, text: string): boolean => {
    const grammar = grammarOf(schema);
    for (const byte of new TextEncoder().encode(text)) {
      if (!grammar.allows(byte)) return false;
      grammar.accept(byte);
    }
    return grammar.isComplete();
  };
  const ab = { properties: { a: {}, b: {} } };
  expect([read(ab, '{"a":1,"b":2}'), read(ab, '{"b":2,"a":1}'), read(ab, '{"c":1}'), read(ab, '5')]).toEqual([true, false, false, false]);
  expect(read({ ...ab, additionalProperties: { type: 'null' } }, '{"b":2,"c":null}')).toBe(true);
  expect(read({ type: 'object' }, '{"c":{"d":[1]}}')).toBe(true);
});

test('values that JSON Schema does not allow are refused by name', () => {
  for (const [schema, place] of [
    [{ properties: { a: { type: 'text' } } }, '#/properties/a/type'],
    [{ required: true }, '#/required'],
    [{ pattern: '(' }, '#/pattern'],
    [{ $ref: '#/$defs/none' }, '#/$ref'],
    [{ type: 'integer', minimum: 5, maximum: 4 }, 'no value'],
  ] as const)
    expect(() => grammarOf(schema)).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining(place) }));
  const strict = [{ pointer: '/properties/x', name: 'tool "t"' }];
  const schema = { properties: { x: { items: { uniqueItems: true, type: 'array' } } } };
  expect(() => atOnce(schemaGrammarWork(schema, vocabulary, strict))).toThrow(/^tool "t", schema #\/items\/uniqueItems: /);
});
