/** The tokenizer that a GGUF describes. */
import { QuantletError, typeName } from '../errors.ts';
import { KIND, type Kinds } from '../options.ts';
import { atOnce, type Work } from '../slices.ts';
import { createBpe } from './bpe.ts';
import { createBreaksIn, type BreaksIn } from './breaks.ts';
import { createPartition, type Partition } from './partition.ts';
import { createPieces } from './pieces.ts';
import type { SpecialTokens } from './special-tokens.ts';
import { createSpm, type EncodeText } from './spm.ts';
import { createUgm } from './ugm.ts';
import { escapedSpace, readVocab, type TokenizerMetadata, type TokenizerModel, type Vocab } from './vocab.ts';
import { createWpm, lowered } from './wpm.ts';

/* Own code instead of @huggingface/tokenizers, which is several times slower. */

export interface EncodeOptions {
  /** Add bos, eos, cls and sep if the model wants them; default true. */
  addSpecial?: boolean | undefined;
  /**
   * Read the text of control tokens (`<|im_start|>`) as those tokens; default false, so that user
   * text cannot forge them.
   */
  parseSpecial?: boolean | undefined;
  /**
   * Ascending UTF-16 offsets that no control token may reach across. They keep text of a
   * conversation from being read as control tokens.
   */
  breaks?: readonly number[] | undefined;
}

export interface DecodeOptions {
  /** Show control tokens; default false. */
  special?: boolean | undefined;
  /**
   * Remove spaces before punctuation and contractions, as `llama_detokenize` does for this kind of
   * vocabulary. Default: only for WordPiece, whose tokens do not say where spaces were. Elsewhere
   * it would remove spaces that the text really has.
   */
  cleanSpaces?: boolean | undefined;
}

/** Text to token ids and back. */
export interface Tokenizer {
  /** `tokenizer.ggml.model`: SentencePiece BPE, byte-pair encoding, WordPiece or Unigram. */
  readonly model: TokenizerModel;
  readonly nVocab: number;
  readonly special: SpecialTokens;
  /** Ids that must not be generated, according to the file. */
  readonly suppressed: readonly number[];
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** Id of the token that encode() puts after every text, if it does. */
  readonly last: number | undefined;
  /** Unclear points of the file, and what was assumed. */
  readonly warnings: readonly string[];
  /**
   * Makes the tables that the first encode() would make, which takes 0.15 s for a vocabulary of
   * 128k tokens. Errors are left to encode().
   */
  prepare(): void;
  /**
   * Converts a text to token ids. An empty text gives the tokens of `addSpecial`: bos only for most
   * models.
   */
  encode(text: string, options?: EncodeOptions): number[];
  /** encode() as work that pauses regularly, for {@link inSlices}: a long text takes a second. */
  encodeWork(text: string, options?: EncodeOptions): Work<number[]>;
  /**
   * Finds the places where a text could be read as control tokens, as `breaks` that keep it text.
   */
  breaksIn: BreaksIn;
  /**
   * The bytes of one token, maybe part of a character. Control tokens are empty unless `special`.
   * @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  pieceBytes(id: number, special?: boolean): Uint8Array;
  /**
   * The token as the file spells it (`▁the`, `Ġthe`, `<0x0A>`).
   * @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  tokenText(id: number): string;
  /** Id of the token with exactly this text, or undefined. */
  tokenId(text: string): number | undefined;
  /**
   * The text of a whole sequence, as llama.cpp's `llama_detokenize` gives it. The space that
   * SentencePiece puts before a text is removed from the first token. A sequence that starts with
   * bos keeps it, as in llama.cpp; leave the bos out to get the original text. Bytes that are not
   * UTF-8 become U+FFFD.
   * @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** decode() as work that pauses regularly. */
  decodeWork(ids: Iterable<number>, options?: DecodeOptions): Work<string>;
  /** True for tokens that end generation: eos, eot, eom, and those that llama.cpp knows by name. */
  isEog(id: number): boolean;
}

export const ENCODE_OPTIONS: Kinds<EncodeOptions> = { addSpecial: KIND.boolean, parseSpecial: KIND.boolean, breaks: KIND.list };
export const DECODE_OPTIONS: Kinds<DecodeOptions> = { special: KIND.boolean, cleanSpaces: KIND.boolean };

/** Tokens between two points where decoding may pause. */
const STRIDE = 1024;

/**
 * Characters of a text that are replaced at once. (Spaces are replaced by split and join: the
 * result of replaceAll is only assembled when first read, all at once.)
 */
const BLOCK = 32_768;

/**
 * Applies `replace` to a text block by block, because a megabyte may take 30 ms. No surrogate pair
 * is cut.
 */
function* inBlocks(text: string, replace: (block: string) => string): Work<string> {
  let out = '';
  for (let from = 0; from < text.length;) {
    const to = from + BLOCK + (/[\ud800-\udbff]/.test(text[from + BLOCK - 1] ?? '') ? 1 : 0);
    out += replace(text.slice(from, to));
    from = to;
    yield;
  }
  return out;
}

/**
 * Replaces lone surrogates by U+FFFD. TextEncoder does the same, so all code that reads the string
 * itself must too.
 */
const wellFormed = (text: string): Work<string> => inBlocks(text, (block) => block.replace(/\p{Surrogate}/gu, '\ufffd'));

/**
 * Makes the tokenizer that a GGUF's metadata describes. The tables for encoding are made when first
 * needed.
 */
export function createTokenizer(metadata: TokenizerMetadata): Tokenizer {
  const vocab = readVocab(metadata);
  const { special, tokens } = vocab;
  const pieces = createPieces(vocab);
  const checked = (id: number): number => {
    if (Number.isInteger(id) && id >= 0 && id < tokens.length) return id;
    throw new QuantletError('ERR_INVALID_ARGUMENT', `token id ${id} is outside the vocabulary; expected 0 to ${tokens.length - 1}`);
  };

  // BERT's texts stand between cls and sep, regardless of add_bos and add_eos.
  const bert = vocab.model === 'bert';
  const first = bert || vocab.addBos ? special.bos : undefined;
  const last = bert ? special.sep : vocab.addEos ? special.eos : undefined;
  // Unigram's prefix is part of its normalization.
  const prefix = vocab.addSpacePrefix && vocab.model === 'llama';

  let breaksOf: BreaksIn | undefined, partition: Partition | undefined, encodeText: EncodeText | undefined;
  function* encodeWork(text: string, { addSpecial = true, parseSpecial = false, breaks = [] }: EncodeOptions = {}): Work<number[]> {
    if (typeof text !== 'string') throw new QuantletError('ERR_INVALID_ARGUMENT', `the text is ${typeName(text)}; expected a string`);
    partition ??= createPartition(vocab);
    encodeText ??= createEncodeText(vocab);
    const out: number[] = [];
    if (first !== undefined && addSpecial) out.push(first);
    let afterSpecial = true;
    for (const fragment of yield* partition(yield* wellFormed(text), parseSpecial, breaks)) {
      if (typeof fragment === 'number') {
        out.push(fragment);
        afterSpecial = true;
        continue;
      }
      yield* encodeText(afterSpecial && prefix ? ` ${fragment}` : fragment, out);
      afterSpecial = false;
    }
    if (last !== undefined && addSpecial) out.push(last);
    return out;
  }

  function* decodeWork(ids: Iterable<number>, { special: show = false, cleanSpaces = bert }: DecodeOptions = {}): Work<string> {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let text = '';
    let lstrip = vocab.addSpacePrefix;
    let n = 0;
    for (const id of ids) {
      if (++n % STRIDE === 0) yield;
      let bytes = pieces(checked(id), show);
      if (lstrip && bytes[0] === 0x20) bytes = bytes.subarray(1);
      lstrip = false;
      text += decoder.decode(bytes, { stream: true });
    }
    text += decoder.decode();
    return cleanSpaces && (bert || (vocab.model === 'gpt2' && !vocab.pre.keepSpaces)) ? clean(text) : text;
  }

  return {
    model: vocab.model,
    nVocab: tokens.length,
    special,
    suppressed: vocab.suppressed,
    addBos: vocab.addBos,
    addEos: vocab.addEos,
    last,
    warnings: vocab.warnings,
    prepare() {
      try {
        atOnce(encodeWork('a'));
      } catch {
        return;
      }
    },
    encode: (text, options) => atOnce(encodeWork(text, options)),
    encodeWork,
    breaksIn: (text, keep) => (breaksOf ??= createBreaksIn(vocab))(text, keep),
    decode: (ids, options) => atOnce(decodeWork(ids, options)),
    decodeWork,
    pieceBytes: (id, show = false) => pieces(checked(id), show),
    tokenText: (id) => tokens[checked(id)],
    tokenId: (text) => {
      const id = vocab.idOf(text);
      return id < 0 ? undefined : id;
    },
    isEog: (id) => vocab.eog.has(id),
  };
}

/** llama.cpp's clean-up after detokenizing, in the same passes. */
const clean = (text: string): string =>
  text
    .replace(/ (?=[?!.,])/g, '')
    .replace(/ ' /g, "'")
    .replace(/ (?='(?:[sm]|re|ve))/g, '');

/**
 * Encoder of plain text by the vocabulary's algorithm. Spaces are escaped here for algorithms that
 * only know U+2581.
 */
function createEncodeText(vocab: Vocab): EncodeText {
  const after = (replace: (block: string) => string, encode: EncodeText): EncodeText =>
    function* (text, out) {
      yield* encode(yield* inBlocks(text, replace), out);
    };
  const escaping = (encode: EncodeText): EncodeText => after((block) => block.split(' ').join(escapedSpace), encode);
  switch (vocab.model) {
    case 'llama':
      return escaping(createSpm(vocab));
    case 'gpt2':
      if (vocab.escapeSpaces) return escaping(createBpe(vocab));
      return vocab.lowercase ? after((block) => Array.from(block, lowered).join(''), createBpe(vocab)) : createBpe(vocab);
    case 'bert':
      return createWpm(vocab);
    case 't5':
      return createUgm(vocab);
  }
}
