/** Keywords about types, values, strings and numbers. */
import type { Work } from '../../slices.ts';
import { isNumber, type WrittenNumber } from '../exact-number.ts';
import { shown } from '../schema.ts';
import { aboutNumbers, aboutStrings, ALL_KINDS, ANYTHING, KIND, only, unevaluating, type Facts } from './facts.ts';
import { BEFORE_TIME, FORMATS, FORMATS_IN_PART, LEAP_SECONDS } from './formats.ts';
import { countOf, decimalIn, listOf, negate, partAt, textOf, type Meaning, type Reading } from './keyword.ts';
import { PatternError, patternLanguage } from './pattern.ts';
import type { Regex } from './regex.ts';
import { Malformed, Unheld } from './relaxed.ts';

const KINDS_OF_TYPE: Readonly<Record<string, number>> = {
  null: KIND.null,
  boolean: KIND.true | KIND.false,
  number: KIND.number,
  integer: KIND.number,
  string: KIND.string,
  array: KIND.array,
  object: KIND.object,
};
const TYPES = Object.keys(KINDS_OF_TYPE);

function typesOf({ value, schema }: Reading): readonly string[] {
  const types = Array.isArray(value) ? (value as unknown[]) : [value];
  const wrong = types.find((type) => typeof type !== 'string' || !TYPES.includes(type));
  if (wrong !== undefined || types.length === 0)
    throw new Malformed(`found ${shown(value)}; expected ${TYPES.join(', ')} or a list of those`);
  // OpenAPI 3.0 writes null as a keyword of its own.
  return (schema.nullable === true ? [...types, 'null'] : types) as readonly string[];
}

/** Facts that are one object for all integers, so that their language is written once. */
const INTEGERS = aboutNumbers({ whole: true });

const type: Meaning = {
  yes(reading) {
    const types = typesOf(reading);
    const kinds = types.reduce((all, name) => all | KINDS_OF_TYPE[name], 0);
    const whole = types.includes('integer') && !types.includes('number');
    return [only(kinds, whole ? INTEGERS : ANYTHING)];
  },
  no(reading) {
    const types = typesOf(reading);
    const kinds = ALL_KINDS & ~types.reduce((all, name) => all | (name === 'integer' ? 0 : KINDS_OF_TYPE[name]), 0);
    const broken = types.includes('integer') && (kinds & KIND.number) !== 0;
    return kinds === 0 ? [] : [only(kinds, broken ? aboutNumbers({ whole: false }) : ANYTHING)];
  },
};

/** The schema of one list or object, for const and enum. */
function schemaOfValue(value: object): object {
  if (Array.isArray(value)) {
    const { length } = value;
    return {
      type: 'array',
      prefixItems: value.map((item: unknown) => ({ const: item })),
      items: false,
      minItems: length,
      maxItems: length,
    };
  }
  const fields = Object.entries(value);
  return {
    type: 'object',
    properties: Object.fromEntries(fields.map(([name, field]) => [name, { const: field as unknown }])),
    required: fields.map(([name]) => name),
    additionalProperties: false,
  };
}

interface Listed {
  kinds: number;
  readonly words: string[];
  readonly numbers: (number | WrittenNumber)[];
  readonly compound: [index: number, value: object][];
}

function sorted(values: readonly unknown[]): Listed {
  const listed: Listed = { kinds: 0, words: [], numbers: [], compound: [] };
  for (const [i, value] of values.entries()) {
    if (value === null) listed.kinds |= KIND.null;
    else if (typeof value === 'boolean') listed.kinds |= value ? KIND.true : KIND.false;
    else if (typeof value === 'string') listed.words.push(value);
    else if (isNumber(value)) listed.numbers.push(value);
    else if (typeof value === 'object') listed.compound.push([i, value]);
  }
  return listed;
}

function* oneOfValues(reading: Reading, values: readonly unknown[]): Work<readonly Facts[]> {
  const { kinds, words, numbers, compound } = sorted(values);
  const options: Facts[] = [];
  const scalars = kinds | (words.length > 0 ? KIND.string : 0) | (numbers.length > 0 ? KIND.number : 0);
  if (scalars !== 0)
    options.push({ ...only(scalars, aboutNumbers({ values: numbers })), strings: words.length > 0 ? [among(reading, words)] : [] });
  for (const [i, value] of compound)
    options.push(...(yield* reading.context.expand(partAt(reading, schemaOfValue(value), i))).map(unevaluating));
  return options;
}

function* noneOfValues(reading: Reading, values: readonly unknown[]): Work<readonly Facts[]> {
  const { kinds, words, numbers, compound } = sorted(values);
  const { languages } = reading.context;
  const others: Facts = {
    ...only(ALL_KINDS & ~kinds, numbers.length > 0 ? aboutNumbers({ notValues: numbers }) : ANYTHING),
    typed: false,
    strings: words.length > 0 ? [{ ...among(reading, words), language: languages.not(languages.words(words)) }] : [],
  };
  const lists: (readonly Facts[])[] = [[others]];
  for (const [i, value] of compound) lists.push(yield* reading.context.expand(negate(partAt(reading, schemaOfValue(value), i))));
  return yield* reading.context.product(lists);
}

const among = ({ context, pointer, keyword }: Reading, words: readonly string[]): Facts['strings'][number] => ({
  language: context.languages.words(words),
  pointer,
  keyword,
});

const listedValues = (reading: Reading): readonly unknown[] => listOf(reading.value, 'a list of values');
const constant: Meaning = {
  yes: (reading) => oneOfValues(reading, [reading.value]),
  no: (reading) => noneOfValues(reading, [reading.value]),
};
const enumeration: Meaning = {
  yes: (reading) => oneOfValues(reading, listedValues(reading)),
  no: (reading) => noneOfValues(reading, listedValues(reading)),
};

/** A keyword that asks for a language of strings; undefined if it asks for nothing. */
function stringKeyword(languageOf: (reading: Reading) => Regex | undefined): Meaning {
  const facts = ({ pointer, keyword }: Reading, language: Regex): Facts => aboutStrings({ language, pointer, keyword });
  return {
    yes(reading) {
      const language = languageOf(reading);
      return [language ? facts(reading, language) : ANYTHING];
    },
    no(reading) {
      const language = languageOf(reading);
      return language ? [only(KIND.string, facts(reading, reading.context.languages.not(language)))] : [];
    },
  };
}

/** The language of a pattern. @throws Unheld */
export function languageOfPattern(pattern: unknown, reading: Pick<Reading, 'context'>): Regex {
  const text = textOf(pattern, 'a regular expression');
  try {
    return patternLanguage(text, reading.context.languages);
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const kind = error.malformed ? Malformed : Unheld;
    throw new kind(
      `the pattern ${shown(text)} cannot be held: ${error.message}; expected literals, classes, groups, |, quantifiers, look-ahead, ^ and $`,
    );
  }
}

function languageOfFormat({ value, context, pointer }: Reading): Regex | undefined {
  const name = textOf(value, 'the name of a format');
  const { languages } = context;
  if (Object.hasOwn(FORMATS_IN_PART, name))
    context.relax(pointer, 'format', `${shown(name)}: ${FORMATS_IN_PART[name]}; expected another format`);
  // Formats that JSON Schema does not define are annotations.
  if (!Object.hasOwn(FORMATS, name)) return undefined;
  const language = patternLanguage(`^(?:${FORMATS[name]})$`, languages);
  if (name !== 'time' && name !== 'date-time') return language;
  const before = name === 'time' ? languages.empty : patternLanguage(`^${BEFORE_TIME}$`, languages);
  return languages.choice([language, languages.sequence(before, languages.words(LEAP_SECONDS))]);
}

type NumberFact = Parameters<typeof aboutNumbers>[0];

const numberKeyword = (yes: (reading: Reading) => NumberFact | undefined, no: (reading: Reading) => NumberFact | undefined): Meaning => ({
  yes(reading) {
    const facts = yes(reading);
    return [facts ? aboutNumbers(facts) : ANYTHING];
  },
  no(reading) {
    const facts = no(reading);
    return facts ? [only(KIND.number, aboutNumbers(facts))] : [];
  },
});

/**
 * A bound, and its negation: the opposite bound. In draft 4 the exclusive keyword is a boolean that
 * changes the other one.
 */
function bound(inclusive: 'minimum' | 'maximum', exclusive: boolean): Meaning {
  const other = inclusive === 'minimum' ? 'maximum' : 'minimum';
  const strict = { minimum: 'exclusiveMinimum', maximum: 'exclusiveMaximum' } as const;
  const read = (reading: Reading, negated: boolean): NumberFact | undefined => {
    const { value, schema } = reading;
    if (exclusive && typeof value === 'boolean') return undefined;
    const decimal = decimalIn(value);
    const excludes = exclusive || schema[strict[inclusive]] === true;
    return negated ? { [excludes ? other : strict[other]]: decimal } : { [excludes ? strict[inclusive] : inclusive]: decimal };
  };
  return numberKeyword(
    (reading) => read(reading, false),
    (reading) => read(reading, true),
  );
}

/** Largest power of ten of multipleOf. */
const MAX_POINT = 30;

function stepIn({ value }: Reading): NonNullable<NumberFact['multiples']>[number] {
  const decimal = decimalIn(value);
  if (decimal.digits === '' || decimal.negative || decimal.point > MAX_POINT)
    throw new Malformed(`found ${shown(value)}; expected a number above 0, up to 1e${MAX_POINT}`);
  return decimal;
}

export const SCALAR_KEYWORDS: Readonly<Record<string, Meaning>> = {
  type,
  const: constant,
  enum: enumeration,
  minLength: stringKeyword(({ value, context: { languages } }) => languages.repeat(languages.character, countOf(value), Infinity)),
  maxLength: stringKeyword(({ value, context: { languages } }) => languages.repeat(languages.character, 0, countOf(value))),
  pattern: stringKeyword((reading) => languageOfPattern(reading.value, reading)),
  format: stringKeyword(languageOfFormat),
  minimum: bound('minimum', false),
  maximum: bound('maximum', false),
  exclusiveMinimum: bound('minimum', true),
  exclusiveMaximum: bound('maximum', true),
  multipleOf: numberKeyword(
    (reading) => ({ multiples: [stepIn(reading)] }),
    (reading) => ({ notMultiples: [stepIn(reading)] }),
  ),
};
