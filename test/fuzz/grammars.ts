/**
 * Grammars and JSON schemas of strangers: random ones, some with a part repeated very often, and
 * damaged ones. Each is compiled and used to write a text, or refused with a coded error. None may
 * exhaust memory, and no step of the work may block the event loop.
 */
import { QuantletError } from '../../src/errors.ts';
import { createGrammarWork } from '../../src/grammar/grammar.ts';
import { jsonSchemaWork, type JsonSchema } from '../../src/grammar/json-schema.ts';
import { byteVocabulary } from '../grammar/helpers.ts';
import { seeded } from '../web/server.ts';
import type { CampaignOptions, CampaignResult } from './campaign.ts';
import { below, pick, type Random } from './mutate.ts';
import { inSteps, runWatched, serveWatched } from './watched.ts';

export function campaign(options: CampaignOptions): Promise<CampaignResult> {
  return runWatched(import.meta.url, options);
}

/** A number of repetitions: one, a few, or so large that a limit is reached. */
const times = (next: Random): number => pick(next, [1, 1, 1, 2, 3, 10, 100, 1000, 5000, 30_000]);

const bit = (next: Random): boolean => next() < 0.5;
const name = (next: Random): string =>
  pick(next, ['a', 'b', 'p{i}', 'x y', '__proto__', 'constructor', 'é', '\ud800', '', '"', '\\', 'a/~b', 'k'.repeat(below(next, 1500))]);
const scalar = (next: Random): unknown =>
  pick<unknown>(next, [
    null,
    true,
    0,
    -1,
    1.5,
    1e21,
    -1e-20,
    1e308,
    9007199254740993,
    '',
    'a',
    'a'.repeat(below(next, 3000)),
    '\u001b',
    '{i}',
    [],
    {},
    [[1]],
    { a: 1 },
  ]);
const patterns = [
  '^a+$',
  '(a?){500}a*',
  '((a*)*)*b',
  '(a|a|aa)*',
  '[^a-z]{0,99}',
  '\\W\\S\\D',
  '[\\p{L}]',
  '(?<n>a)',
  '(?=a)',
  '(',
  'a{99999}',
  '^(((a{0,99}){0,99}){0,99})$',
  '\\u{1f600}|\\ud83d\\ude00',
  '.',
  '',
];

/** Many copies of something, with `{i}` replaced by the number of the copy. */
function many(next: Random, make: () => unknown): unknown[] {
  const text = JSON.stringify(make()) ?? 'null';
  const n = Math.min(times(next), Math.ceil(200_000 / text.length));
  return Array.from({ length: n }, (_, i) => JSON.parse(text.replaceAll('{i}', String(i))) as unknown);
}

function fields(next: Random, make: () => unknown): Record<string, unknown> {
  return Object.fromEntries(many(next, () => [bit(next) ? 'p{i}' : name(next), make()]) as [string, unknown][]);
}

const DEPTH = 4;

function randomSchema(next: Random, depth = 0): unknown {
  const deeper = (): unknown => (depth < DEPTH ? randomSchema(next, depth + 1) : scalar(next));
  const schema: Record<string, unknown> = {};
  const ways: readonly (() => void)[] = [
    () =>
      (schema.type = pick<unknown>(next, [
        'object',
        'array',
        'string',
        'number',
        'integer',
        'boolean',
        'null',
        ['string', 'null'],
        'x',
        1,
      ])),
    () => (schema.properties = fields(next, deeper)),
    () => (schema.required = many(next, () => name(next))),
    () => (schema.additionalProperties = bit(next) ? true : deeper()),
    () => (schema.items = deeper()),
    () => (schema.prefixItems = many(next, deeper)),
    () =>
      (schema[pick(next, ['minItems', 'maxItems', 'minLength', 'maxLength'])] = pick<unknown>(next, [
        0,
        1,
        5,
        1000,
        90_000,
        1e9,
        1e308,
        -1,
        '1',
      ])),
    () =>
      (schema[pick(next, ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'])] = pick<unknown>(next, [
        0,
        -1,
        1.5,
        1e21,
        -1e21,
        1e-20,
        123456789.123456,
        true,
        '1',
      ])),
    () => (schema.pattern = pick(next, patterns)),
    () => (schema.format = pick(next, ['date', 'uuid', 'email', 'x'])),
    () => (schema.const = bit(next) ? scalar(next) : many(next, () => scalar(next))),
    () => (schema.enum = many(next, () => scalar(next))),
    () => (schema[pick(next, ['anyOf', 'allOf', 'oneOf'])] = many(next, deeper)),
    () =>
      (schema.$ref = pick(next, ['#', '#/$defs/a', '#/$defs/a', '#/$defs/b', '#/%zz', '#/properties/a', 'http://x', '#/$defs/__proto__'])),
    () => (schema.$defs = { a: deeper(), b: { anyOf: [deeper(), { $ref: '#/$defs/a' }] } }),
  ];
  for (let n = 1 + below(next, 4); n > 0; n--) pick(next, ways)();
  return schema;
}

const atoms = [
  '"a"',
  '"a" | "aa"',
  '[a-z]',
  '[^a]',
  '[\\u4e00-\\u9fff]',
  '.',
  'b',
  'c',
  '("a")*',
  '"\\x00"',
  '<[3]>',
  '!<[4]>',
  '"é\\U0001f600"',
  '""',
  '[',
  '(',
  ')',
  '"',
  '{2}',
  '# x\n',
  'root',
  '[a-\\x05]',
  'ab-9',
];
const marks = ['', '', '', '*', '+', '?', '{3}', '{2,}', '{0,1000}', '{99999}', '{1000000}', '{,5}', '{5,2}'];

function randomGrammar(next: Random): string {
  const items = (): string => {
    const item = `${pick(next, atoms)}${pick(next, marks)}`;
    const n = times(next);
    return `${bit(next) ? '(' : ''}${`${item}${pick(next, [' ', ' | ', '\n', ' | \n'])}`.repeat(Math.min(n, Math.ceil(200_000 / item.length)))}`;
  };
  let text = '';
  for (const rule of ['root', 'b', 'c'])
    text += `${rule} ::= ${Array.from({ length: 1 + below(next, 3) }, items).join('')}${'("a")'.repeat(below(next, 2))}\n`;
  if (bit(next))
    text += Array.from({ length: times(next) }, (_, i) => `r${i} ::= r${i + 1} ${pick(next, atoms)}`)
      .join('\n')
      .slice(0, 400_000);
  return next() < 0.2 ? text.slice(0, below(next, text.length)) : text;
}

await serveWatched(() => {
  const pieces = ['aa', '{"', '":', 'true', ' "', '\n', 'é', Uint8Array.of(0xc3)];
  const vocabulary = byteVocabulary(pieces);
  return Promise.resolve((seed) => {
    const next = seeded(seed);
    const schema = bit(next) ? randomSchema(next) : undefined;
    const size = schema === undefined ? 0 : JSON.stringify(schema).length;
    try {
      const gbnf = schema === undefined ? randomGrammar(next) : inSteps(jsonSchemaWork(schema as JsonSchema));
      const grammar = inSteps(createGrammarWork(gbnf, vocabulary));
      for (let n = 0; n < 30 && !grammar.isFinished(); n++) {
        const logits = new Float32Array(vocabulary.nVocab);
        grammar.mask(logits);
        const allowed = [...logits.keys()].filter((id) => logits[id] === 0 && id !== vocabulary.eog);
        if (allowed.length === 0) break;
        grammar.accept(pick(next, allowed));
      }
      return Promise.resolve(size + gbnf.length);
    } catch (error) {
      if (!(error instanceof QuantletError) || error.code !== 'ERR_GRAMMAR') throw error;
      return Promise.resolve(size);
    }
  });
});
