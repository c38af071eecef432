/** Keywords that combine schemas. */
import type { Work } from '../../slices.ts';
import type { Facts, Part } from './facts.ts';
import { ANYTHING, unevaluating } from './facts.ts';
import { listOf, negate, partAt, type Expansion, type Meaning, type Reading } from './keyword.ts';
import { Malformed, Unheld } from './relaxed.ts';

type Alternatives = readonly Facts[];

const partsOf = (reading: Reading): readonly Part[] => {
  const list = listOf(reading.value, 'a list of schemas');
  if (list.length === 0) throw new Malformed('found an empty list; expected a list of schemas');
  return list.map((schema, i) => partAt(reading, schema, i));
};

function* every(parts: readonly Part[], context: Expansion): Work<Alternatives> {
  let alternatives: Alternatives = [ANYTHING];
  for (const part of parts) alternatives = yield* context.product([alternatives, yield* context.expand(part)]);
  return alternatives;
}

function* some(parts: readonly Part[], context: Expansion): Work<Alternatives> {
  if (context.hasUnevaluated) return yield* someTogether(parts, context);
  const options: Facts[] = [];
  for (const part of parts) {
    const each = yield* context.expand(part);
    if (each.includes(ANYTHING)) return [ANYTHING];
    options.push(...each);
  }
  return options;
}

const evaluates = ({ objects, arrays }: Facts): boolean => [...objects.sources, ...arrays.sources].some((source) => source.evaluates);

/** The alternatives of schemas of which several may hold: then all of them evaluate properties and items. */
function* someTogether(parts: readonly Part[], context: Expansion): Work<Alternatives> {
  const options: Facts[] = [];
  for (const part of parts) {
    const each = yield* context.expand(part);
    const more = each.filter(evaluates);
    const together = options.length > 0 && more.length > 0 ? yield* context.product([options, more]) : [];
    options.push(...each, ...together);
    if (options.length > MAX_TOGETHER) throw new Unheld('its schemas may hold together in too many ways; expected fewer');
  }
  return options;
}

/** Limit of combinations of schemas that may hold together. */
const MAX_TOGETHER = 200;
/** Largest oneOf whose schemas are compared in pairs. */
const MAX_COMPARED = 200;

/** For each part, the others that some value satisfies together with it. */
function* overlaps(parts: readonly Part[], context: Expansion): Work<readonly ReadonlySet<number>[]> {
  const sets = parts.map(() => new Set<number>());
  const each: Alternatives[] = [];
  for (const part of parts) each.push(yield* context.expand(part));
  for (let i = 0; i < parts.length; i++) {
    for (let j = 0; j < i; j++) {
      if ((yield* context.product([each[i], each[j]])).length === 0) continue;
      sets[i].add(j);
      sets[j].add(i);
    }
  }
  return sets;
}

const oneOf: Meaning = {
  *yes(reading): Work<Alternatives> {
    const { context } = reading;
    const parts = partsOf(reading);
    const why = 'its schemas overlap in a way that is too large to tell apart; expected anyOf, or schemas that exclude each other';
    try {
      if (parts.length > MAX_COMPARED) throw new Unheld(why);
      const overlapping = yield* overlaps(parts, context);
      const options: Facts[] = [];
      for (const [i, part] of parts.entries()) {
        const others = [...overlapping[i]].map((j) => negate(parts[j]));
        options.push(...(yield* every([part, ...others], context)));
      }
      return options;
    } catch (error) {
      if (!(error instanceof Unheld)) throw error;
      context.relax(reading.pointer, reading.keyword, error.message || why);
      return yield* some(parts, context);
    }
  },
  *no(reading): Work<Alternatives> {
    const { context } = reading;
    const parts = partsOf(reading);
    const options = [...(yield* every(parts.map(negate), context))];
    const overlapping = yield* overlaps(parts, context);
    for (const [i, others] of overlapping.entries())
      for (const j of others) if (j < i) options.push(...(yield* every([parts[i], parts[j]], context)));
    return options;
  },
};

/** The schemas of if, then and else. */
function conditional(reading: Reading): { readonly condition: Part; readonly then: Part; readonly otherwise: Part } {
  const { schema } = reading;
  const at = (keyword: string): Part => partAt({ ...reading, keyword }, schema[keyword] ?? true);
  return { condition: at('if'), then: at('then'), otherwise: at('else') };
}

const dynamicReference: Meaning = {
  yes: ({ value, pointer, context }) => context.expand(context.followDynamic(value, pointer)),
  no: ({ value, pointer, context }) => context.expand(negate(context.followDynamic(value, pointer))),
};

export const COMBINATORS: Readonly<Record<string, Meaning>> = {
  $dynamicRef: dynamicReference,
  $recursiveRef: dynamicReference,
  $ref: {
    yes: ({ value, pointer, context }) => context.expand(context.follow(value, pointer)),
    no: ({ value, pointer, context }) => context.expand(negate(context.follow(value, pointer))),
  },
  allOf: {
    yes: (reading) => every(partsOf(reading), reading.context),
    no: (reading) => some(partsOf(reading).map(negate), reading.context),
  },
  not: {
    *yes(reading): Work<Alternatives> {
      return (yield* reading.context.expand(negate(partAt(reading, reading.value)))).map(unevaluating);
    },
    no: (reading) => reading.context.expand(partAt(reading, reading.value)),
  },
  if: {
    *yes(reading): Work<Alternatives> {
      const { schema, context } = reading;
      if (schema.then === undefined && schema.else === undefined && !context.hasUnevaluated) return [ANYTHING];
      const { condition, then, otherwise } = conditional(reading);
      return [...(yield* every([condition, then], context)), ...(yield* every([negate(condition), otherwise], context))];
    },
    *no(reading): Work<Alternatives> {
      const { context } = reading;
      const { condition, then, otherwise } = conditional(reading);
      return [...(yield* every([condition, negate(then)], context)), ...(yield* every([negate(condition), negate(otherwise)], context))];
    },
  },
  anyOf: {
    yes: (reading) => some(partsOf(reading), reading.context),
    no: (reading) => every(partsOf(reading).map(negate), reading.context),
  },
  oneOf,
};
