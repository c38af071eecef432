/** The vocabulary of a GGUF: tokens, attributes, and the file's options for them. */
import { QuantletError, tell } from '../errors.ts';
import { attr } from './attr.ts';
import { endOfGeneration, specialTokens, type SpecialTokens } from './special-tokens.ts';
import { preTokenizer, type PreTokenizer } from './pre-tokenizers.ts';

/** `tokenizer.ggml.*` as a GGUF reader provides it. */
export type TokenizerMetadata = ReadonlyMap<string, unknown>;

/** Algorithm of the vocabulary, by llama.cpp's value of `tokenizer.ggml.model`. */
export type TokenizerModel = 'llama' | 'gpt2' | 'bert' | 't5';

/** `tokenizer.ggml.token_type` (0 undefined, 1 normal, ... 6 byte) as attribute bits. */
const attrOfType = [0, attr.normal, attr.unknown, attr.control, attr.userDefined, attr.unused, attr.byte];

/** U+2581, which SentencePiece writes for a space. */
export const escapedSpace = '\u2581';

export interface Vocab {
  readonly model: TokenizerModel;
  readonly pre: PreTokenizer;
  /** Text of every token, as stored (escaped or byte-encoded). */
  readonly tokens: readonly string[];
  /** Log-probabilities (SPM, Unigram), or undefined if the file has none. */
  readonly scores: ArrayLike<number> | undefined;
  readonly attrs: Uint16Array;
  readonly merges: readonly string[];
  readonly special: SpecialTokens;
  readonly eog: ReadonlySet<number>;
  /** Ids that must never be generated. */
  readonly suppressed: readonly number[];
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly addSpacePrefix: boolean;
  /** Spaces are written as U+2581 in the vocabulary. */
  readonly escapeSpaces: boolean;
  readonly removeExtraSpaces: boolean;
  readonly lowercase: boolean;
  readonly stripAccents: boolean;
  readonly precompiledCharsmap: Uint8Array | undefined;
  readonly warnings: readonly string[];
  /** Id of the token with exactly this text, or -1. */
  idOf(text: string): number;
}

const missing = (key: string, what: string): never => {
  throw new QuantletError(
    'ERR_MISSING_METADATA',
    `the file has no ${key} (${what}), so its text cannot be tokenized; convert the model again with its tokenizer`,
  );
};

/**
 * A boolean, which some converters write as the number 1 or 0.
 * @throws QuantletError ERR_GGUF_INVALID for any other value
 */
const flag = (metadata: TokenizerMetadata, key: string, otherwise: boolean): boolean => {
  const value = metadata.get(`tokenizer.ggml.${key}`) ?? otherwise;
  if (typeof value === 'boolean') return value;
  const number = Number(value);
  if (typeof value !== 'string' && typeof value !== 'object' && (number === 0 || number === 1)) return number === 1;
  throw new QuantletError('ERR_GGUF_INVALID', `tokenizer.ggml.${key} is ${tell(value)}; expected true or false: set it with overrideKv`);
};

/** An array of at least `length` numbers, in any typed array that the reader chose. */
function numbers(metadata: TokenizerMetadata, key: string, length: number): ArrayLike<number> | undefined {
  const value = metadata.get(`tokenizer.ggml.${key}`);
  if (value === undefined) return undefined;
  const ok = (Array.isArray(value) || ArrayBuffer.isView(value)) && !(value instanceof DataView);
  const array = value as ArrayLike<number | bigint>;
  if (!ok || array.length < length) {
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `tokenizer.ggml.${key} has ${ok ? `${array.length} numbers` : 'no array'} for ${length} tokens; the file is damaged`,
    );
  }
  return typeof array[0] === 'bigint' ? Float64Array.from(array as ArrayLike<bigint>, Number) : (array as ArrayLike<number>);
}

function strings(metadata: TokenizerMetadata, key: string): readonly string[] | undefined {
  const value = metadata.get(`tokenizer.ggml.${key}`);
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((text) => typeof text === 'string')) {
    throw new QuantletError('ERR_GGUF_INVALID', `tokenizer.ggml.${key} is not an array of strings; the file is damaged`);
  }
  return value as string[];
}

/** Defaults of each algorithm for options that the file leaves out. */
const defaults: Record<TokenizerModel, { addBos: boolean; addEos: boolean; addSpacePrefix: boolean; escapeSpaces: boolean }> = {
  llama: { addBos: true, addEos: false, addSpacePrefix: true, escapeSpaces: true },
  gpt2: { addBos: false, addEos: false, addSpacePrefix: false, escapeSpaces: false },
  bert: { addBos: true, addEos: false, addSpacePrefix: false, escapeSpaces: true },
  t5: { addBos: false, addEos: true, addSpacePrefix: false, escapeSpaces: true },
};

const models: Readonly<Record<string, TokenizerModel>> = {
  llama: 'llama',
  gpt2: 'gpt2',
  gemma4: 'gpt2',
  whitespace: 'gpt2',
  bert: 'bert',
  t5: 't5',
};

/**
 * Reads `tokenizer.ggml.*` (llama.cpp's `llama_vocab::impl::load`), checks it, and adds defaults.
 */
export function readVocab(metadata: TokenizerMetadata): Vocab {
  const name = metadata.get('tokenizer.ggml.model');
  if (typeof name !== 'string') missing('tokenizer.ggml.model', 'the kind of its tokenizer');
  // hasOwn, because every object has a constructor.
  const model = Object.hasOwn(models, name as string) ? models[name as string] : undefined;
  if (!model) {
    throw new QuantletError(
      'ERR_UNSUPPORTED_TOKENIZER',
      `tokenizer.ggml.model is '${String(name)}'; expected one of ${Object.keys(models).join(', ')}`,
    );
  }
  const stored = strings(metadata, 'tokens') ?? missing('tokenizer.ggml.tokens', 'its vocabulary');
  const tokens = stored.includes('') ? stored.map((text, id) => text || `[EMPTY_${id}]`) : stored;
  const merges = strings(metadata, 'merges') ?? [];
  const preName = name === 'gemma4' ? 'gemma4' : metadata.get('tokenizer.ggml.pre');
  if (model === 'gpt2' && merges.length === 0 && preName !== 'kimi-k2')
    missing('tokenizer.ggml.merges', 'the merges of its byte-pair encoding');

  const warnings: string[] = [];
  const pre = preTokenizer(model === 'gpt2' ? preName : 'default', warnings);
  const types = numbers(metadata, 'token_type', tokens.length);
  const attrs = new Uint16Array(tokens.length).fill(attr.normal);
  if (types) for (let id = 0; id < tokens.length; id++) attrs[id] = attrOfType[types[id]] ?? 0;

  let ids: Map<string, number> | undefined;
  const idOf = (text: string): number => {
    if (!ids) {
      ids = new Map();
      // If two tokens have equal texts, the first wins (llama.cpp refuses such a file).
      for (let id = tokens.length - 1; id >= 0; id--) ids.set(tokens[id], id);
    }
    return ids.get(text) ?? -1;
  };

  const special = specialTokens(metadata, name === 'gemma4' ? 'gemma4' : model, tokens.length, warnings);
  const eog = endOfGeneration(tokens, attrs, special, idOf);
  const usual = defaults[model];
  const addBos = flag(metadata, 'add_bos_token', usual.addBos || pre.addBos === true) || pre.alwaysBos === true;
  const addEos = flag(metadata, 'add_eos_token', usual.addEos);
  if ((addBos || model === 'bert') && special.bos === undefined)
    missing('tokenizer.ggml.bos_token_id', 'wanted by tokenizer.ggml.add_bos_token');
  if (addEos && special.eos === undefined) missing('tokenizer.ggml.eos_token_id', 'wanted by tokenizer.ggml.add_eos_token');
  if (model === 'bert' && special.sep === undefined) missing('tokenizer.ggml.seperator_token_id', 'which ends every text');
  setStripping(metadata, tokens, attrs, idOf);

  // Among byte-pair encoders, llama.cpp lowercases only those whose tokenizer is 'whitespace'.
  const lowercase = (model === 'bert' || name === 'whitespace') && flag(metadata, 'normalizer.lowercase', model === 'bert');
  const charsmap = numbers(metadata, 'precompiled_charsmap', 0);
  return {
    model,
    pre,
    tokens,
    attrs,
    merges,
    special,
    eog,
    suppressed: suppressedTokens(metadata, tokens.length, warnings),
    addBos,
    addEos,
    warnings,
    idOf,
    lowercase,
    scores: numbers(metadata, 'scores', tokens.length),
    addSpacePrefix: flag(metadata, 'add_space_prefix', usual.addSpacePrefix),
    escapeSpaces: usual.escapeSpaces || pre.escapeSpaces === true,
    removeExtraSpaces: flag(metadata, 'remove_extra_whitespaces', false),
    stripAccents: flag(metadata, 'normalizer.strip_accents', lowercase),
    precompiledCharsmap: charsmap && Uint8Array.from(charsmap),
  };
}

/** `suppress_tokens`; ids outside of the vocabulary are ignored, as in llama.cpp. */
function suppressedTokens(metadata: TokenizerMetadata, nVocab: number, warnings: string[]): readonly number[] {
  const ids = Array.from(numbers(metadata, 'suppress_tokens', 0) ?? []);
  const known = ids.filter((id) => Number.isInteger(id) && id >= 0 && id < nVocab);
  if (known.length < ids.length)
    warnings.push(`tokenizer.ggml.suppress_tokens names ${ids.length - known.length} ids outside the ${nVocab} tokens; they are ignored`);
  return known;
}

/**
 * Special tokens that strip the white space next to them. GGUF does not say which; llama.cpp knows
 * them by name.
 */
function setStripping(metadata: TokenizerMetadata, tokens: readonly string[], attrs: Uint16Array, idOf: (text: string) => number): void {
  const set = (text: string, bit: number, on: boolean): void => {
    const id = idOf(text);
    if (id >= 0) attrs[id] = on ? attrs[id] | bit : attrs[id] & ~bit;
  };
  const pre = String(metadata.get('tokenizer.ggml.pre') ?? '');
  const arch = String(metadata.get('general.architecture') ?? '');
  const name = String(metadata.get('general.name') ?? '').toLowerCase();
  if (/jina-v2-(de|es|code)/.test(pre) || /nomic-bert-moe|jina-bert-v3/.test(arch)) set('<mask>', attr.lstrip, true);
  else if (/phi-?3/.test(name)) {
    for (let id = 0; id < tokens.length; id++) if (attrs[id] & (attr.control | attr.userDefined | attr.unknown)) attrs[id] |= attr.rstrip;
    set('</s>', attr.rstrip, true);
    for (const text of ['<unk>', '<s>', '<|endoftext|>']) set(text, attr.rstrip, false);
  } else if (name.includes('modern-bert')) set('[MASK]', attr.lstrip, true);
}
