/** JSON schemas for fast-check: every keyword that src/grammar knows, combined and nested. */
import fc from 'fast-check';

const name = fc.constantFrom('a', 'ab', 'name', 'é', 'q"', 'x y', '', '\u0001', '__proto_', 'n\n');
const bound = fc.oneof(
  fc.integer({ min: -1200, max: 1200 }),
  fc.integer({ min: -3000, max: 3000 }).map((n) => n / 100),
);
const ordered = (low: string, high: string, value: fc.Arbitrary<number>): fc.Arbitrary<Record<string, number>> =>
  fc.tuple(value, value, fc.integer({ min: 0, max: 3 })).map(([a, b, which]): Record<string, number> => ({
    ...(which & 1 ? { [low]: Math.min(a, b) } : {}),
    ...(which & 2 ? { [high]: Math.max(a, b) + 1 } : {}),
  }));
const literal = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((v) => v + 0),
  fc.jsonValue({ maxDepth: 2 }).map((v) => JSON.parse(JSON.stringify(v)) as unknown),
);

export const { schema: randomSchema } = fc.letrec<{
  schema: Record<string, unknown>;
  leaf: Record<string, unknown>;
  object: Record<string, unknown>;
  array: Record<string, unknown>;
  combined: Record<string, unknown>;
}>((tie) => ({
  schema: fc.oneof({ maxDepth: 3, depthIdentifier: 'schema' }, tie('leaf'), tie('object'), tie('array'), tie('combined')),
  leaf: fc.oneof(
    fc.constantFrom(
      { type: 'boolean' },
      { type: 'null' },
      { type: 'string' },
      { type: 'integer' },
      { type: 'number' },
      {},
      { type: ['string', 'null'] },
      { type: ['integer', 'boolean', 'array'] },
    ),
    ordered('minLength', 'maxLength', fc.integer({ min: 0, max: 12 })).map((limits) => ({ type: 'string', ...limits })),
    ordered('minimum', 'maximum', bound).map((limits) => ({ type: 'number', ...limits })),
    ordered('exclusiveMinimum', 'exclusiveMaximum', bound).map((limits) => ({ type: 'number', ...limits })),
    ordered(
      'minimum',
      'exclusiveMaximum',
      fc.integer({ min: -5000, max: 5000 }).map((n) => 2 * n),
    ).map((limits) => ({ type: 'integer', ...limits })),
    fc.constantFrom('date', 'time', 'date-time', 'uuid', 'ipv4', 'email').map((format) => ({ type: 'string', format })),
    fc
      .constantFrom('^[a-z]{2,5}$', '^(red|green)$', 'x+', '^\\d{3}-\\d{4}$', '^[^a-z]{1,3}', '^\\w+@\\w+\\.com$', '"')
      .map((pattern) => ({ type: 'string', pattern })),
    fc.array(literal, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
    literal.map((value) => ({ const: value })),
    fc.constant({ $ref: '#/$defs/tree' }),
    fc.constant({ $ref: '#/$defs/list' }),
  ),
  object: fc
    .record({
      properties: fc.dictionary(name, tie('schema'), { maxKeys: 4 }),
      required: fc.subarray(['a', 'ab', 'name', 'extra']),
      additional: fc.option(fc.oneof(fc.boolean(), tie('leaf')), { nil: undefined }),
    })
    .map(({ properties, required, additional }) => ({
      type: 'object',
      properties,
      required: additional === false ? required.filter((key) => key in properties) : required,
      ...(additional === undefined ? {} : { additionalProperties: additional }),
    })),
  array: fc
    .tuple(
      fc.array(tie('schema'), { maxLength: 2 }),
      fc.option(tie('schema'), { nil: undefined }),
      ordered('minItems', 'maxItems', fc.integer({ min: 0, max: 4 })),
    )
    .map(([prefix, items, limits]) => ({
      type: 'array',
      ...(prefix.length > 0 ? { prefixItems: prefix } : {}),
      ...(items ? { items } : {}),
      ...limits,
    })),
  combined: fc.oneof(
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
    fc.constant({
      oneOf: [
        { type: 'integer', minimum: 0 },
        { type: 'string', maxLength: 3 },
        { type: 'object', properties: { kind: { const: 'k' } }, required: ['kind'] },
      ],
    }),
    fc.tuple(tie('object'), tie('object')).map((allOf) => ({ allOf })),
    fc.tuple(tie('array'), tie('array')).map((allOf) => ({ allOf })),
    fc.tuple(tie('object'), fc.array(tie('object'), { minLength: 1, maxLength: 2 })).map(([object, anyOf]) => ({ ...object, anyOf })),
  ),
}));
/** Targets of the `$ref`s in random schemas. */
export const DEFS = {
  tree: {
    type: 'object',
    properties: { value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/tree' }, maxItems: 2 } },
    required: ['value'],
  },
  list: { anyOf: [{ type: 'null' }, { type: 'object', properties: { tail: { $ref: '#/$defs/list' } }, required: ['tail'] }] },
};
