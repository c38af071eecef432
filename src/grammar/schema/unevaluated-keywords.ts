/** Keywords about properties and items that no other keyword of the schema evaluates. */
import { KIND, type ArraySource, type Facts, type ObjectSource, type Part } from './facts.ts';
import { partAt, type Meaning, type Reading } from './keyword.ts';
import { Unheld } from './relaxed.ts';

const FREE: Part = { schema: true, pointer: '' };

/** Refuses a negation: what is not evaluated is known only if the other keywords hold. */
const negated = ({ value }: Reading): readonly Facts[] => {
  if (value === true) return [];
  throw new Unheld(
    'it cannot be negated, because it depends on which other schemas are satisfied; expected it outside of not, oneOf and if',
  );
};

/** Each alternative says which schemas hold, so its sources are all that evaluate. */
const meaning = (kind: number, add: (facts: Facts, rest: Part) => Facts): Meaning => ({
  yes: () => [],
  no: negated,
  after: (alternatives, reading) =>
    alternatives.map((facts) => {
      if (!(facts.kinds & kind)) return facts;
      if (facts.partial) throw new Unheld('it depends on a keyword that is held only in part; expected keywords that can be held');
      return add(facts, partAt(reading, reading.value));
    }),
});

const unevaluatedProperties = meaning(KIND.object, (facts, others) => {
  const sources = facts.objects.sources.filter(({ evaluates }) => evaluates);
  if (sources.some((source) => source.others)) return facts;
  const source: ObjectSource = {
    properties: new Map(sources.flatMap(({ properties }) => [...properties.keys()].map((name): [string, Part] => [name, FREE]))),
    patterns: sources.flatMap(({ patterns }) => patterns.map(({ language }) => ({ language, part: FREE }))),
    others,
    evaluates: true,
  };
  return { ...facts, objects: { ...facts.objects, sources: [...facts.objects.sources, source] } };
});

const unevaluatedItems = meaning(KIND.array, (facts, rest) => {
  const { sources, contains } = facts.arrays;
  const evaluating = sources.filter(({ evaluates }) => evaluates);
  if (evaluating.some((source) => source.rest)) return facts;
  if (contains.length > 0) throw new Unheld('contains evaluates items at any place; expected items instead of contains');
  const length = Math.max(0, ...evaluating.map(({ prefix }) => prefix.length));
  const source: ArraySource = { prefix: Array.from({ length }, () => FREE), rest, evaluates: true };
  return { ...facts, arrays: { ...facts.arrays, sources: [...sources, source] } };
});

export const UNEVALUATED: Readonly<Record<string, Meaning>> = { unevaluatedProperties, unevaluatedItems };
