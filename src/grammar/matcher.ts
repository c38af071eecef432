/** Checks texts against a grammar or a JSON schema, whole or in pieces. */
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { QuantletError } from '../errors.ts';
import { atOnce, type Work } from '../slices.ts';
import { Automaton, type State } from './automaton.ts';
import { compileGrammarWork } from './compile.ts';
import { parseGbnfWork } from './parse.ts';
import { schemaOf } from './schema-source.ts';
import { compileSchemaWork } from './schema/compile-schema.ts';
import { WHOLE, type Relaxation } from './schema/relaxed.ts';

/** Options of createMatcher(): a schema or a grammar. */
export interface MatcherOptions {
  /**
   * A JSON schema (drafts 4 to 2020-12, OpenAPI 3.0), or a validator that converts itself to one,
   * see ResponseFormat.
   */
  readonly schema?: object | boolean | undefined;
  /** A grammar in llama.cpp's GBNF, without references to tokens. */
  readonly grammar?: string | undefined;
  /** Refuses keywords of a schema that can only be held in part. False by default. */
  readonly strict?: boolean | undefined;
}

/** A place in a text. Values are immutable, so a state can be kept and stepped from again. */
export interface MatcherState {
  /** True if the text may end here. */
  readonly complete: boolean;
  /** True if the text must end here. */
  readonly finished: boolean;
  /** The state after a byte; undefined if the text may not go on with that byte. */
  step(byte: number): MatcherState | undefined;
  /** The state after bytes or a text; undefined if the text may not go on with these. */
  read(piece: string | Uint8Array): MatcherState | undefined;
  /** The bytes that may come next, in ascending order. */
  next(): number[];
}

/** A compiled schema or grammar. */
export interface Matcher {
  /** The keywords that are held only in part. Other keywords are held exactly. */
  readonly relaxed: readonly Relaxation[];
  /** The state before a text. */
  readonly start: MatcherState;
  /** True if the whole text follows the grammar, or is JSON that satisfies the schema. */
  accepts(text: string | Uint8Array): boolean;
}

const KINDS: Kinds<MatcherOptions> = { schema: KIND.any, grammar: KIND.string, strict: KIND.boolean };

/** All JSON that satisfies a schema: properties in any order, with all that the schema does not exclude. */
const EVERY = { ordered: false, closed: false, brief: false } as const;

/**
 * Compiles a JSON schema or a grammar to an automaton.
 * @throws QuantletError ERR_GRAMMAR for an error in a grammar (with line and column) or a schema.
 * With `strict`, also for keywords that can only be held in part (with path and keyword).
 */
export function createMatcher(options: MatcherOptions): Matcher {
  return atOnce(createMatcherWork(options));
}

/** createMatcher() as a generator that pauses. */
export function* createMatcherWork(options: MatcherOptions): Work<Matcher> {
  const { schema, grammar, strict = false } = checkOptions('createMatcher', options, KINDS);
  if ((schema === undefined) === (grammar === undefined))
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `createMatcher got ${schema === undefined ? 'neither' : 'both'}; expected a schema or a grammar`,
    );
  if (grammar !== undefined) {
    const rules = yield* parseGbnfWork(grammar, () => undefined, 0);
    return matcherOf(new Automaton(yield* compileGrammarWork(rules, 'root')), []);
  }
  const given = typeof schema === 'boolean' ? schema : (schemaOf('schema', schema) as Record<string, unknown>);
  const { program, relaxed } = yield* compileSchemaWork(given, EVERY, { strict: strict ? [WHOLE] : [], wellFormed: false });
  return matcherOf(new Automaton(program), relaxed);
}

const encoder = new TextEncoder();

function matcherOf(automaton: Automaton, relaxed: readonly Relaxation[]): Matcher {
  function after(state: State, piece: string | Uint8Array): State | undefined {
    let at: State | null = state;
    for (const byte of typeof piece === 'string' ? encoder.encode(piece) : piece) if (!(at = automaton.step(at, byte))) return undefined;
    return at;
  }
  const stateOf = (state: State): MatcherState => ({
    complete: state.complete,
    finished: state.complete && state.places.length === 0,
    step: (byte) => placed(automaton.step(state, byte)),
    read: (piece) => placed(after(state, piece)),
    next: () => Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => automaton.step(state, byte)),
  });
  const placed = (state: State | null | undefined): MatcherState | undefined => (state ? stateOf(state) : undefined);
  return { relaxed, start: stateOf(automaton.start), accepts: (text) => after(automaton.start, text)?.complete ?? false };
}
