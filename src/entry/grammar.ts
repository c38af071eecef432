/**
 * quantlet/grammar: JSON schemas and grammars as automata over bytes, without the engine, for every
 * runtime.
 */
export { createMatcher, type Matcher, type MatcherOptions, type MatcherState } from '../grammar/matcher.ts';
export { jsonSchemaToGrammar, type JsonSchema, type SchemaGrammarOptions } from '../grammar/json-schema.ts';
export type { Relaxation } from '../grammar/schema/relaxed.ts';
export { QuantletError, type QuantletErrorCode } from '../errors.ts';
