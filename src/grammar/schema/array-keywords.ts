/** Keywords about arrays. */
import { aboutArrays, ANYTHING, KIND, only, type ArrayFacts, type ArraySource, type Facts } from './facts.ts';
import { countOf, listOf, negate, partAt, type Meaning, type Reading } from './keyword.ts';
import { ofGroup } from './object-keywords.ts';
import { Unheld } from './relaxed.ts';

const arrays = (facts: Partial<ArrayFacts>): Facts => only(KIND.array, aboutArrays(facts));

/** items, prefixItems and additionalItems of one schema. */
function sourceOf(reading: Reading): ArraySource {
  const { schema } = reading;
  const { items, prefixItems, additionalItems } = schema;
  const listed = Array.isArray(items) ? 'items' : 'prefixItems';
  const list = listed === 'items' ? items : prefixItems;
  const prefix =
    list === undefined ? [] : listOf(list, 'a list of schemas').map((part, i) => partAt({ ...reading, keyword: listed }, part, i));
  const after = listed === 'items' ? 'additionalItems' : 'items';
  const rest: unknown = listed === 'items' ? additionalItems : items;
  return { prefix, rest: rest === undefined ? undefined : partAt({ ...reading, keyword: after }, rest), evaluates: true };
}

const items: Meaning = {
  yes: (reading) => [aboutArrays({ sources: [sourceOf(reading)] })],
  no(reading) {
    const { prefix, rest } = sourceOf(reading);
    const free = { schema: true, pointer: '' };
    const options = prefix.map((part, i) =>
      arrays({ min: i + 1, sources: [{ prefix: [...prefix.slice(0, i).map(() => free), negate(part)] }] }),
    );
    if (rest && prefix.length === 0) options.push(arrays({ contains: [{ part: negate(rest), min: 1, max: Infinity }] }));
    else if (rest?.schema === false) options.push(arrays({ min: prefix.length + 1 }));
    else if (rest && rest.schema !== true)
      throw new Unheld('a negated schema of items after listed ones; expected a schema without listed items');
    return options;
  },
};

const contains: Meaning = {
  yes(reading) {
    const part = partAt(reading, reading.value);
    const [min, max] = counts(reading);
    return [aboutArrays({ contains: [{ part, min, max }] })];
  },
  no(reading) {
    const part = partAt(reading, reading.value);
    const [min, max] = counts(reading);
    return [
      ...(min > 0 ? [arrays({ contains: [{ part, min: 0, max: min - 1 }] })] : []),
      ...(max < Infinity ? [arrays({ contains: [{ part, min: max + 1, max: Infinity }] })] : []),
    ];
  },
};

const counts = ({ schema: { minContains, maxContains } }: Reading): [min: number, max: number] => [
  minContains === undefined ? 1 : countOf(minContains),
  maxContains === undefined ? Infinity : countOf(maxContains),
];

const GROUP = ['prefixItems', 'items', 'additionalItems'];

export const ARRAY_KEYWORDS: Readonly<Record<string, Meaning>> = {
  prefixItems: ofGroup(GROUP, items),
  items: ofGroup(GROUP, items),
  additionalItems: ofGroup(GROUP, items),
  contains,
  minItems: {
    yes: ({ value }) => [aboutArrays({ min: countOf(value) })],
    no: ({ value }) => (countOf(value) === 0 ? [] : [arrays({ max: countOf(value) - 1 })]),
  },
  maxItems: {
    yes: ({ value }) => [aboutArrays({ max: countOf(value) })],
    no: ({ value }) => [arrays({ min: countOf(value) + 1 })],
  },
  uniqueItems: {
    yes: ({ value, pointer }) => [value === true ? aboutArrays({ unique: pointer }) : ANYTHING],
    no({ value }) {
      if (value === true) throw new Unheld('a list with equal items cannot be required; expected uniqueItems outside of not, oneOf and if');
      return [];
    },
  },
};
