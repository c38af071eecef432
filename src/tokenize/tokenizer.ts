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

/*
 * Own code, not @huggingface/tokenizers: its 0.2.0, fed from the same metadata, gave 413 of the 414 vectors of nine vocabularies, but at
 * 0.1 MB/s for SentencePiece and 0.8-2.2 MB/s for the others where this reads 5-14 MB/s (Node 20, 300 KB of English, medians of three).
 */

export interface EncodeOptions {
  /** Put bos, eos, cls and sep where the model wants them; default true. */
  addSpecial?: boolean | undefined;
  /** Read the text of control tokens (`<|im_start|>`) as those tokens; default false, so that user text cannot forge them. */
  parseSpecial?: boolean | undefined;
  /** Ascending UTF-16 offsets that no control token may reach across: how what people say in a conversation stays text. */
  breaks?: readonly number[] | undefined;
}

export interface DecodeOptions {
  /** Show control tokens; default false. */
  special?: boolean | undefined;
  /**
   * Take out the spaces before punctuation and contractions, as `llama_detokenize` does for this kind of vocabulary. Default: only for WordPiece, whose
   * tokens have lost where spaces were; elsewhere it would take spaces that the text really has.
   */
  cleanSpaces?: boolean | undefined;
}

/** Text to token ids and back. */
export interface Tokenizer {
  /** `tokenizer.ggml.model`: SentencePiece BPE, byte-pair encoding, WordPiece or Unigram. */
  readonly model: TokenizerModel;
  readonly nVocab: number;
  readonly special: SpecialTokens;
  /** Ids that the file wants never to be generated. */
  readonly suppressed: readonly number[];
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** What the file left unclear and what was assumed. */
  readonly warnings: readonly string[];
  /** Makes what the first encode() would make, 0.15 s of a vocabulary of 128k tokens; what is wrong with it is left for encode() to tell. */
  prepare(): void;
  /** An empty text gives what `addSpecial` adds, bos alone for most models. */
  encode(text: string, options?: EncodeOptions): number[];
  /** The same as work that pauses every now and then, for {@link inSlices}: a long text takes a second. */
  encodeWork(text: string, options?: EncodeOptions): Work<number[]>;
  /** Where a text could be read as control tokens: the breaks that keep it text. */
  breaksIn: BreaksIn;
  /** The bytes one token stands for, maybe part of a character; control tokens are empty unless `special`. @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary */
  pieceBytes(id: number, special?: boolean): Uint8Array;
  /** The token as the file spells it (`▁the`, `Ġthe`, `<0x0A>`). @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary */
  tokenText(id: number): string;
  /** Id of the token spelled exactly so, or undefined. */
  tokenId(text: string): number | undefined;
  /**
   * The text of a whole sequence, as llama.cpp's `llama_detokenize` gives it: the space that SentencePiece puts before a text is taken off the
   * first token again. A sequence that starts with bos keeps it there, as natively; leave the bos out to get the text back.
   * Bytes that are not UTF-8 become U+FFFD. @throws ERR_INVALID_ARGUMENT for an id outside the vocabulary
   */
  decode(ids: Iterable<number>, options?: DecodeOptions): string;
  /** The same with pauses. */
  decodeWork(ids: Iterable<number>, options?: DecodeOptions): Work<string>;
  /** End-of-generation tokens: eos, eot, eom and those that llama.cpp knows by name. */
  isEog(id: number): boolean;
}

export const ENCODE_OPTIONS: Kinds<EncodeOptions> = { addSpecial: KIND.boolean, parseSpecial: KIND.boolean, breaks: KIND.list };
export const DECODE_OPTIONS: Kinds<DecodeOptions> = { special: KIND.boolean, cleanSpaces: KIND.boolean };

/** Tokens between two places where decoding may pause. */
const STRIDE = 1024;

/** Characters of a text that are replaced in one go. (Spaces by split and join: what replaceAll makes is put together when it is first read, all in one go, which took 60 ms.) */
const BLOCK = 32_768;

/** The text with `replace` done to it block by block: on a megabyte it may take 30 ms. No pair of surrogates is cut. */
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

/** Half a character of UTF-16 has no UTF-8: TextEncoder writes U+FFFD for it, and so must everything that looks at the string itself. */
const wellFormed = (text: string): Work<string> => inBlocks(text, (block) => block.replace(/\p{Surrogate}/gu, '\ufffd'));

/** Makes the tokenizer that a GGUF's metadata describes; the tables for encoding are made when first needed. */
export function createTokenizer(metadata: TokenizerMetadata): Tokenizer {
  const vocab = readVocab(metadata);
  const { special, tokens } = vocab;
  const pieces = createPieces(vocab);
  const checked = (id: number): number => {
    if (Number.isInteger(id) && id >= 0 && id < tokens.length) return id;
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `token id ${id} is outside the vocabulary of ${tokens.length}; ids are 0 to ${tokens.length - 1}`,
    );
  };

  // BERT's texts stand between cls and sep, whatever add_bos and add_eos say.
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

/** llama.cpp's clean-up after detokenizing, pass for pass. */
const clean = (text: string): string =>
  text
    .replace(/ (?=[?!.,])/g, '')
    .replace(/ ' /g, "'")
    .replace(/ (?='(?:[sm]|re|ve))/g, '');

/** The algorithm for plain text; spaces are escaped here for those that know them as U+2581 only. */
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
