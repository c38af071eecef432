/** Keywords about objects. */
import type { Work } from '../../slices.ts';
import { aboutObjects, ANYTHING, KIND, only, type Facts, type ObjectFacts, type ObjectSource, type Part } from './facts.ts';
import { countOf, namesOf, negate, partAt, recordOf, type Meaning, type Reading } from './keyword.ts';
import { languageOfPattern } from './scalar-keywords.ts';

/** Objects with these facts. */
const objects = (facts: Partial<ObjectFacts>): Facts => only(KIND.object, aboutObjects(facts));
const NOTHING: Part = { schema: false, pointer: '' };
const without = (name: string): ObjectSource => ({ properties: new Map([[name, NOTHING]]), patterns: [] });
/** Values that have no such property: objects without it, and all that is no object. */
const lacks = (name: string): Facts => aboutObjects({ sources: [without(name)] });

/** properties, patternProperties and additionalProperties of one schema. */
function sourceOf(reading: Reading): ObjectSource {
  const { schema } = reading;
  const under = (keyword: string): Reading => ({ ...reading, keyword });
  const parts = (keyword: string): [string, Part][] =>
    Object.entries(recordOf(schema[keyword] ?? {}, 'an object of schemas')).map(([name, part]) => [
      name,
      partAt(under(keyword), part, name),
    ]);
  const patterns = parts('patternProperties').map(([pattern, part]) => ({ language: languageOfPattern(pattern, reading), part }));
  const others = schema.additionalProperties;
  return {
    properties: new Map(parts('properties')),
    patterns,
    others: others === undefined ? undefined : partAt(under('additionalProperties'), others),
    evaluates: true,
  };
}

const properties: Meaning = {
  yes: (reading) => [aboutObjects({ sources: [sourceOf(reading)] })],
  no(reading) {
    const source = sourceOf(reading);
    const { languages } = reading.context;
    const options = [...source.properties].map(([name, part]) =>
      objects({ required: new Set([name]), sources: [{ properties: new Map([[name, negate(part)]]), patterns: [] }] }),
    );
    for (const { language, part } of source.patterns) options.push(objects({ witnesses: [{ names: language, part: negate(part) }] }));
    if (source.others) {
      const named = languages.not(languages.words(source.properties.keys()));
      const names = languages.all([named, ...source.patterns.map(({ language }) => languages.not(language))]);
      options.push(objects({ witnesses: [{ names, part: negate(source.others) }] }));
    }
    return options;
  },
};

/** Reads a keyword of a group of keywords once: at the first one that the schema has. */
const ofGroup = (group: readonly string[], meaning: Meaning): Meaning => {
  const isFirst = ({ schema, keyword }: Reading): boolean => group.find((name) => schema[name] !== undefined) === keyword;
  return {
    yes: (reading) => (isFirst(reading) ? meaning.yes(reading) : [ANYTHING]),
    no: (reading) => (isFirst(reading) ? meaning.no(reading) : []),
  };
};

const required: Meaning = {
  yes: ({ value }) => [aboutObjects({ required: new Set(namesOf(value)) })],
  no: ({ value }) => namesOf(value).map((name) => only(KIND.object, lacks(name))),
};

const dependentRequired: Meaning = {
  yes: ({ value }) => [
    aboutObjects({
      dependents: Object.entries(recordOf(value, 'an object of lists')).map(([name, requires]) => ({ name, requires: namesOf(requires) })),
    }),
  ],
  no: ({ value }) =>
    Object.entries(recordOf(value, 'an object of lists')).flatMap(([name, requires]) =>
      namesOf(requires).map((other) => objects({ required: new Set([name]), sources: [without(other)] })),
    ),
};

const dependentSchemas: Meaning = {
  *yes(reading): Work<readonly Facts[]> {
    const lists: (readonly Facts[])[] = [];
    for (const [name, schema] of Object.entries(recordOf(reading.value, 'an object of schemas'))) {
      const then = yield* reading.context.expand(partAt(reading, schema, name));
      lists.push([lacks(name), ...(yield* reading.context.product([[objects({ required: new Set([name]) })], then]))]);
    }
    return yield* reading.context.product(lists);
  },
  *no(reading): Work<readonly Facts[]> {
    const options: Facts[] = [];
    for (const [name, schema] of Object.entries(recordOf(reading.value, 'an object of schemas'))) {
      const broken = yield* reading.context.expand(negate(partAt(reading, schema, name)));
      options.push(...(yield* reading.context.product([[objects({ required: new Set([name]) })], broken])));
    }
    return options;
  },
};

/** Draft 7: lists of names or schemas. */
const dependencies: Meaning = {
  *yes(reading): Work<readonly Facts[]> {
    const [lists, schemas] = divided(reading);
    return yield* reading.context.product([yield* all(dependentRequired.yes(lists)), yield* all(dependentSchemas.yes(schemas))]);
  },
  *no(reading): Work<readonly Facts[]> {
    const [lists, schemas] = divided(reading);
    return [...(yield* all(dependentRequired.no(lists))), ...(yield* all(dependentSchemas.no(schemas)))];
  },
};

function divided(reading: Reading): [lists: Reading, schemas: Reading] {
  const given = Object.entries(recordOf(reading.value, 'an object of lists and schemas')).map(
    // Draft 3 allows a single name.
    ([name, value]): [string, unknown] => [name, typeof value === 'string' ? [value] : value],
  );
  const lists = given.filter(([, value]) => Array.isArray(value));
  const schemas = given.filter(([, value]) => !Array.isArray(value));
  return [
    { ...reading, value: Object.fromEntries(lists) },
    { ...reading, value: Object.fromEntries(schemas) },
  ];
}

function* all(alternatives: ReturnType<Meaning['yes']>): Work<readonly Facts[]> {
  return Array.isArray(alternatives) ? (alternatives as readonly Facts[]) : yield* alternatives as Work<readonly Facts[]>;
}

const propertyNames: Meaning = {
  *yes(reading): Work<readonly Facts[]> {
    const names = yield* reading.context.strings(partAt(reading, reading.value));
    return [names === reading.context.languages.anything ? ANYTHING : aboutObjects({ names: [names] })];
  },
  *no(reading): Work<readonly Facts[]> {
    const { languages } = reading.context;
    const names = languages.not(yield* reading.context.strings(partAt(reading, reading.value)));
    return names === languages.none ? [] : [objects({ witnesses: [{ names, part: { schema: true, pointer: '' } }] })];
  },
};

const GROUP = ['properties', 'patternProperties', 'additionalProperties'];

export const OBJECT_KEYWORDS: Readonly<Record<string, Meaning>> = {
  properties: ofGroup(GROUP, properties),
  patternProperties: ofGroup(GROUP, properties),
  additionalProperties: ofGroup(GROUP, properties),
  required,
  minProperties: {
    yes: ({ value }) => [aboutObjects({ min: countOf(value) })],
    no: ({ value }) => (countOf(value) === 0 ? [] : [objects({ max: countOf(value) - 1 })]),
  },
  maxProperties: {
    yes: ({ value }) => [aboutObjects({ max: countOf(value) })],
    no: ({ value }) => [objects({ min: countOf(value) + 1 })],
  },
  dependentRequired,
  dependentSchemas,
  dependencies,
  propertyNames,
};

export { all as alternativesOf, ofGroup };
