/** Finds the tokens that may come next in a text that follows a grammar. */
import { QuantletError } from '../errors.ts';
import type { TokenConstraint } from '../sample/sampler.ts';
import { atOnce, inSlices, type Work } from '../slices.ts';
import { Automaton, type State } from './automaton.ts';
import { compileGrammarWork } from './compile.ts';
import { parseGbnfWork } from './parse.ts';
import type { Program } from './program.ts';
import type { Relaxation } from './schema/relaxed.ts';
import { markTokens, tokenTrie } from './token-trie.ts';
import type { GrammarVocabulary } from './token-trie.ts';

export type { GrammarVocabulary } from './token-trie.ts';

/** Reads a text that must follow a grammar, and tells which tokens may come next. */
export interface Grammar extends TokenConstraint {
  /** True if this token may come next. */
  allows(id: number): boolean;
  /**
   * Sets the logits of all other tokens to -Infinity.
   * @param logits ne [n_vocab]
   * @throws QuantletError ERR_GRAMMAR if no token may come next: the vocabulary cannot spell the
   * texts of the grammar
   */
  mask(logits: Float32Array): void;
  /**
   * Computes the next mask() in advance, without blocking the event loop. The first call for a
   * vocabulary takes longest, because it builds a trie of all tokens.
   * @throws QuantletError ERR_GRAMMAR as mask() does
   */
  prepare(): Promise<void>;
  /**
   * Reads the beginning of a text that comes before the first token. A generator that pauses.
   * reset() returns to the end of this beginning.
   * @throws QuantletError ERR_INVALID_ARGUMENT if no text of the grammar begins in this way
   */
  begin(text: string): Work<void>;
  /** Reads bytes of a text. False, and the position stays, if they do not fit. */
  read(bytes: Uint8Array): boolean;
  /** @throws QuantletError ERR_GRAMMAR for a token that may not come next */
  accept(id: number): void;
  reset(): void;
  /** True if the text so far is complete, so that an end-of-generation token may come next. */
  isComplete(): boolean;
  /** True if the text is complete and nothing can be added. */
  isFinished(): boolean;
  /**
   * A second reader at the same position, for tokens that may be taken back (speculation). Both
   * share masks and states.
   */
  clone(): Grammar;
  /** Keywords of the schema that the grammar holds only in part. */
  readonly relaxed: readonly Relaxation[];
}

/**
 * @param gbnf a grammar in llama.cpp's GBNF
 * @throws QuantletError ERR_GRAMMAR with line and column
 */
export function createGrammar(gbnf: string, vocabulary: GrammarVocabulary, options: { readonly root?: string } = {}): Grammar {
  return atOnce(createGrammarWork(gbnf, vocabulary, options));
}

/**
 * createGrammar() as a generator that pauses, because a large grammar takes a fraction of a second.
 */
export function* createGrammarWork(gbnf: string, vocabulary: GrammarVocabulary, options: { readonly root?: string } = {}): Work<Grammar> {
  const rules = yield* parseGbnfWork(gbnf, (text) => vocabulary.tokenId?.(text), vocabulary.nVocab);
  return grammarOf(yield* compileGrammarWork(rules, options.root ?? 'root'), vocabulary, []);
}

/** A grammar of a compiled program. */
export function grammarOf(program: Program, vocabulary: GrammarVocabulary, relaxed: readonly Relaxation[]): Grammar {
  const automaton = new Automaton(program);
  const read = { automaton, vocabulary, maskOf: createMasks(automaton, vocabulary), relaxed };
  return createReader(read, { at: automaton.start, first: automaton.start });
}

/** Number of cached masks; the oldest is dropped first. A mask of 128k tokens has 16 KB. */
const MAX_MASKS = 256;

type MaskOf = (state: State) => Work<Uint32Array>;

/**
 * Computes the mask of a state at its first use.
 * @throws QuantletError ERR_GRAMMAR if no token fits
 */
function createMasks(automaton: Automaton, vocabulary: GrammarVocabulary): MaskOf {
  const { nVocab } = vocabulary;
  const kept: State[] = [];
  let eog: number[] | undefined;

  return function* (state) {
    if (state.mask) return state.mask;
    const mask = new Uint32Array((nVocab + 31) >> 5);
    const set = (id: number): void => {
      mask[id >> 5] |= 1 << (id & 31);
    };
    const clear = (id: number): void => {
      mask[id >> 5] &= ~(1 << (id & 31));
    };
    const references = automaton.tokensOf(state);
    const excluded = new Set(references.filter((token) => token.negated).map((token) => token.id));
    if (excluded.size > 0) {
      // "Every token but a, or every token but b" is every token.
      for (let id = 0; id < nVocab; id++) if (excluded.size > 1 || !excluded.has(id)) set(id);
    }
    for (const { id, negated } of references) if (!negated) set(id);
    yield* markTokens(yield* tokenTrie(vocabulary), state, automaton, mask);
    if (!eog) {
      eog = [];
      for (let id = 0; id < nVocab; id++) if (vocabulary.isEog(id)) eog.push(id);
    }
    for (const id of eog) (state.complete ? set : clear)(id);
    if (mask.every((word) => word === 0)) {
      throw new QuantletError(
        'ERR_GRAMMAR',
        state.complete
          ? 'the text is complete, but the vocabulary has no end-of-generation token; stop when isFinished()'
          : `no token of the vocabulary continues the text as the grammar requires; expected ${describe(automaton, state)}`,
      );
    }
    // Another reader may have made the mask during a pause.
    if (state.mask) return state.mask;
    if (kept.push(state) > MAX_MASKS) kept.shift()!.mask = null;
    return (state.mask = mask);
  };
}

/** A byte in an error: its character, or its value. */
export const byteName = (byte: number): string =>
  byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, '0')}`;

/** Lists the bytes that could come next, for errors. */
function describe(automaton: Automaton, state: State): string {
  const wanted: string[] = [];
  for (let byte = 0; byte < 256; byte++) if (automaton.step(state, byte)) wanted.push(byteName(byte));
  if (automaton.tokensOf(state).length > 0) wanted.push('a token named in the grammar');
  if (state.complete) wanted.push('the end');
  return `one of ${wanted.slice(0, 24).join(' ')}`;
}

/** Number of bytes between two pauses. */
const BYTES_A_PAUSE = 256;

/**
 * The state after reading a text from `first`.
 * @throws QuantletError ERR_INVALID_ARGUMENT if no text of the grammar begins in this way
 */
function* begunState(automaton: Automaton, first: State, text: string): Work<State> {
  const bytes = new TextEncoder().encode(text);
  let state = first;
  for (const [i, byte] of bytes.entries()) {
    if (i % BYTES_A_PAUSE === 0) yield;
    const next = automaton.step(state, byte);
    if (!next) {
      const read = new TextDecoder().decode(bytes.subarray(0, i));
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `the answer has begun with ${JSON.stringify(text.slice(0, read.length + 20))}, but no answer of the grammar or schema begins with that; expected ${describe(automaton, state)} after ${JSON.stringify(read.slice(-40))}. change the beginning, or leave it out`,
      );
    }
    state = next;
  }
  return state;
}

/**
 * State of a reader (null after an end-of-generation token), and its state before the first token.
 */
interface Position {
  readonly at: State | null;
  readonly first: State;
}

/** Parts that all readers of one grammar share. */
interface Shared {
  readonly automaton: Automaton;
  readonly vocabulary: GrammarVocabulary;
  readonly maskOf: MaskOf;
  readonly relaxed: readonly Relaxation[];
}

function createReader(shared: Shared, position: Position): Grammar {
  const { automaton, vocabulary, maskOf, relaxed } = shared;
  let { at: state, first } = position;
  const { nVocab } = vocabulary;

  function after(id: number): State | null {
    if (!state || vocabulary.isEog(id)) return null;
    const piece = vocabulary.pieceBytes(id);
    let byBytes: State | null = piece.length > 0 ? state : null;
    for (let i = 0; i < piece.length && byBytes; i++) byBytes = automaton.step(byBytes, piece[i]);
    const byToken = state.readsTokens ? automaton.stepToken(state, id) : null;
    return byBytes && byToken ? automaton.union(byBytes, byToken) : (byBytes ?? byToken);
  }

  const allows = (id: number): boolean =>
    id >= 0 && id < nVocab && (vocabulary.isEog(id) ? state !== null && state.complete : after(id) !== null);

  return {
    allows,
    mask(logits) {
      if (logits.length !== nVocab)
        throw new QuantletError(
          'ERR_INVALID_ARGUMENT',
          `there are ${logits.length} logits; expected one for each of the ${nVocab} tokens of the grammar`,
        );
      if (!state) throw new QuantletError('ERR_GRAMMAR', 'the text has ended; no token may follow the end-of-generation token');
      const mask = atOnce(maskOf(state));
      for (let id = 0; id < nVocab; id++) {
        if ((mask[id >> 5] & (1 << (id & 31))) === 0) logits[id] = -Infinity;
      }
    },
    async prepare() {
      if (state) await inSlices(maskOf(state));
    },
    *begin(text) {
      state = first = yield* begunState(automaton, first, text);
    },
    read(bytes) {
      let at = state;
      for (let i = 0; i < bytes.length && at; i++) at = automaton.step(at, bytes[i]);
      if (at) state = at;
      return at !== null;
    },
    accept(id) {
      if (!allows(id))
        throw new QuantletError(
          'ERR_GRAMMAR',
          `token ${id} does not continue the text as the grammar requires${state ? `: expected ${describe(automaton, state)}` : ', which has ended'}`,
        );
      state = after(id);
    },
    reset() {
      state = first;
    },
    isComplete: () => state === null || state.complete,
    isFinished: () => state === null || (state.complete && state.places.length === 0),
    clone: () => createReader(shared, { at: state, first }),
    relaxed,
  };
}
