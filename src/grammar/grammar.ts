/** Tokens that may come next in a text that follows a grammar. */
import { QuantletError } from '../errors.ts';
import type { TokenConstraint } from '../sample/sampler.ts';
import { atOnce, inSlices, type Work } from '../slices.ts';
import { Automaton, type State } from './automaton.ts';
import { compileGrammarWork } from './compile.ts';
import { parseGbnfWork } from './parse.ts';
import { markTokens, tokenTrie } from './token-trie.ts';
import type { GrammarVocabulary } from './token-trie.ts';

export type { GrammarVocabulary } from './token-trie.ts';

/** A reader of a text that must follow a grammar: names the tokens that may come next. */
export interface Grammar extends TokenConstraint {
  /** Tells if this token may come next. */
  allows(id: number): boolean;
  /**
   * Sets the logits of all other tokens to -Infinity.
   * @param logits ne [n_vocab]
   * @throws QuantletError ERR_GRAMMAR if no token may come next: the vocabulary cannot spell the texts of the grammar
   */
  mask(logits: Float32Array): void;
  /**
   * Computes what the next mask() needs, without blocking the event loop. A vocabulary of 128 thousand tokens takes about
   * 100 ms the first time, and milliseconds at each new place in the grammar.
   * @throws QuantletError ERR_GRAMMAR as mask() does
   */
  prepare(): Promise<void>;
  /**
   * Reads the beginning of the text, before its first token, as work that pauses. reset() returns to its end.
   * @throws QuantletError ERR_INVALID_ARGUMENT if no text of the grammar begins in this way
   */
  begin(text: string): Work<void>;
  /** @throws QuantletError ERR_GRAMMAR for a token that may not come next */
  accept(id: number): void;
  reset(): void;
  /** Tells if the text so far is complete: an end-of-generation token may come next. */
  isComplete(): boolean;
  /** Tells if the text is complete and nothing can be added to it. */
  isFinished(): boolean;
  /** A second reader at the same place, for tokens that may be taken back (speculation). They share masks and states. */
  clone(): Grammar;
}

/**
 * @param gbnf a grammar in llama.cpp's GBNF
 * @throws QuantletError ERR_GRAMMAR with line and column
 */
export function createGrammar(gbnf: string, vocabulary: GrammarVocabulary, options: { readonly root?: string } = {}): Grammar {
  return atOnce(createGrammarWork(gbnf, vocabulary, options));
}

/** The same as work that pauses: a large grammar takes a part of a second. */
export function* createGrammarWork(gbnf: string, vocabulary: GrammarVocabulary, options: { readonly root?: string } = {}): Work<Grammar> {
  const rules = yield* parseGbnfWork(gbnf, (text) => vocabulary.tokenId?.(text), vocabulary.nVocab);
  const automaton = new Automaton(yield* compileGrammarWork(rules, options.root ?? 'root'));
  return createReader(automaton, vocabulary, createMasks(automaton, vocabulary), { at: automaton.start, first: automaton.start });
}

/** Masks kept; past this the oldest is dropped. A mask over 128k tokens has 16 KB. */
const MAX_MASKS = 256;

type MaskOf = (state: State) => Work<Uint32Array>;

/** Makes each state's mask when it is first asked for. @throws QuantletError ERR_GRAMMAR if no token fits */
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
          ? 'the text is complete, but the vocabulary has no end-of-generation token to say so: stop when isFinished()'
          : `no token of the vocabulary can continue the text as the grammar wants: expected ${describe(automaton, state)}`,
      );
    }
    // Another reader may have made it during a pause.
    if (state.mask) return state.mask;
    if (kept.push(state) > MAX_MASKS) kept.shift()!.mask = null;
    return (state.mask = mask);
  };
}

/** The bytes that could come next. */
function describe(automaton: Automaton, state: State): string {
  const wanted: string[] = [];
  for (let byte = 0; byte < 256; byte++) {
    if (automaton.step(state, byte))
      wanted.push(byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, '0')}`);
  }
  if (automaton.tokensOf(state).length > 0) wanted.push('a token named in the grammar');
  if (state.complete) wanted.push('the end');
  return `one of ${wanted.slice(0, 24).join(' ')}`;
}

/** Bytes read between two pauses. */
const BYTES_A_PAUSE = 256;

/** The state after a text that is read from the state `first`. @throws QuantletError ERR_INVALID_ARGUMENT if there is none */
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
        `the answer has begun with ${JSON.stringify(text.slice(0, read.length + 20))}, which no answer of the grammar or schema begins with: expected ${describe(automaton, state)} after ${JSON.stringify(read.slice(-40))}. Begin it so, or ask without the beginning`,
      );
    }
    state = next;
  }
  return state;
}

/** The place of a reader, null after an end-of-generation token, and the place at which its tokens begin. */
interface Position {
  readonly at: State | null;
  readonly first: State;
}

function createReader(automaton: Automaton, vocabulary: GrammarVocabulary, maskOf: MaskOf, position: Position): Grammar {
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
        throw new QuantletError('ERR_INVALID_ARGUMENT', `${logits.length} logits for a grammar over ${nVocab} tokens`);
      if (!state) throw new QuantletError('ERR_GRAMMAR', 'the text has ended: no token may follow the end-of-generation token');
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
    accept(id) {
      if (!allows(id))
        throw new QuantletError(
          'ERR_GRAMMAR',
          `token ${id} does not continue the text as the grammar wants${state ? `: expected ${describe(automaton, state)}` : ', which has ended'}`,
        );
      state = after(id);
    },
    reset() {
      state = first;
    },
    isComplete: () => state === null || state.complete,
    isFinished: () => state === null || (state.complete && state.places.length === 0),
    clone: () => createReader(automaton, vocabulary, maskOf, { at: state, first }),
  };
}
