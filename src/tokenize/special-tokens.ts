/** Tokens with a meaning of their own: begin, end, turn, fill in the middle. */
import { QuantletError, tell } from '../errors.ts';
import { attr } from './attr.ts';

/** Ids with a meaning of their own; undefined if the vocabulary has no such token. */
export interface SpecialTokens {
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  /** End of turn (`<|im_end|>`, `<|eot_id|>`, ...). */
  readonly eot: number | undefined;
  /** End of message: the model continues after a tool's answer. */
  readonly eom: number | undefined;
  readonly unk: number | undefined;
  readonly sep: number | undefined;
  readonly pad: number | undefined;
  /** BERT's name for the first token; llama.cpp treats it as bos. */
  readonly cls: number | undefined;
  readonly mask: number | undefined;
  /** Fill in the middle. */
  readonly fimPre: number | undefined;
  readonly fimSuf: number | undefined;
  readonly fimMid: number | undefined;
  readonly fimPad: number | undefined;
  readonly fimRep: number | undefined;
  readonly fimSep: number | undefined;
}

/** Ids that mark the place to fill in a prompt, for models trained to fill in the middle. */
export interface FimTokens {
  /** Marks of the text before, of the text after, and of the wanted text. */
  readonly prefix: number;
  readonly suffix: number;
  readonly middle: number;
  /** Marks of the name of a repository, and of the name of each of its files. */
  readonly repository: number | undefined;
  readonly file: number | undefined;
}

/** Undefined if one of the three required ids is missing. */
export function fimTokens({ fimPre, fimSuf, fimMid, fimRep, fimSep }: SpecialTokens): FimTokens | undefined {
  if (fimPre === undefined || fimSuf === undefined || fimMid === undefined) return undefined;
  return { prefix: fimPre, suffix: fimSuf, middle: fimMid, repository: fimRep, file: fimSep };
}

type Name = keyof SpecialTokens;
type Found = { -readonly [name in Name]: number | undefined };

/** Keys below `tokenizer.ggml.`, the current spelling last (`seperator` is how GGUF spells it). */
const keys: Readonly<Record<Name, readonly string[]>> = {
  bos: ['cls_token_id', 'bos_token_id'],
  eos: ['eos_token_id'],
  eot: ['eot_token_id'],
  eom: ['eom_token_id'],
  unk: ['unknown_token_id'],
  sep: ['seperator_token_id'],
  pad: ['padding_token_id'],
  cls: ['cls_token_id'],
  mask: ['mask_token_id'],
  fimPre: ['prefix_token_id', 'fim_pre_token_id'],
  fimSuf: ['suffix_token_id', 'fim_suf_token_id'],
  fimMid: ['middle_token_id', 'fim_mid_token_id'],
  fimPad: ['fim_pad_token_id'],
  fimRep: ['fim_rep_token_id'],
  fimSep: ['fim_sep_token_id'],
};

/** llama.cpp's assumptions for each kind of vocabulary, before it reads the file. */
const assumed: Readonly<Record<string, Partial<Found>>> = {
  llama: { bos: 1, eos: 2, unk: 0 },
  gpt2: { bos: 11, eos: 11 },
  bert: { bos: 101, unk: 100, sep: 102, pad: 0, mask: 103 },
  t5: { eos: 1, unk: 2, pad: 0 },
  gemma4: {},
};

/**
 * Reads the ids from the metadata. A number that is not an id of the vocabulary is ignored, with a
 * warning.
 * @throws QuantletError ERR_GGUF_INVALID if a value is not a number
 */
export function specialTokens(metadata: ReadonlyMap<string, unknown>, kind: string, nVocab: number, warnings: string[]): Found {
  const found = {} as Found;
  for (const name of Object.keys(keys) as Name[]) {
    const usual = assumed[kind][name];
    found[name] = usual !== undefined && usual < nVocab ? usual : undefined;
    for (const key of keys[name]) {
      const value = metadata.get(`tokenizer.ggml.${key}`) ?? undefined;
      if (value === undefined) continue;
      if (typeof value !== 'number' && typeof value !== 'bigint')
        throw new QuantletError(
          'ERR_GGUF_INVALID',
          `tokenizer.ggml.${key} is ${tell(value)}; expected the number of a token: set it with overrideKv`,
        );
      const id = Number(value);
      if (Number.isInteger(id) && id >= 0 && id < nVocab) found[name] = id;
      // Converters write 2^32 - 1 for "none", which needs no warning.
      else if (id !== 0xffffffff && id !== -1)
        warnings.push(`tokenizer.ggml.${key} is ${id}, but the vocabulary has ${nVocab} tokens; ignored`);
    }
  }
  return found;
}

/** Names by which llama.cpp finds tokens that files forget to declare. */
const names: Readonly<Partial<Record<Name, readonly string[]>>> = {
  eot: [
    '<|eot_id|>',
    '<|im_end|>',
    '<|end|>',
    '<end_of_turn>',
    '<|endoftext|>',
    '<|end_of_text|>',
    '<EOT>',
    '_<EOT>',
    '[EOT]',
    '<\uff5cend\u2581of\u2581sentence\uff5c>',
    '<end_of_utterance>',
  ],
  eom: ['<|eom_id|>'],
  fimPre: [
    '<|fim_prefix|>',
    '<fim-prefix>',
    '<fim_prefix>',
    '<\uff5cfim\u2581begin\uff5c>',
    '<PRE>',
    '\u2581<PRE>',
    '<|code_prefix|>',
    '<|prefix|>',
  ],
  fimSuf: [
    '<|fim_suffix|>',
    '<fim-suffix>',
    '<fim_suffix>',
    '<\uff5cfim\u2581hole\uff5c>',
    '<SUF>',
    '\u2581<SUF>',
    '<|code_suffix|>',
    '<|suffix|>',
  ],
  fimMid: [
    '<|fim_middle|>',
    '<fim-middle>',
    '<fim_middle>',
    '<\uff5cfim\u2581end\uff5c>',
    '<MID>',
    '\u2581<MID>',
    '<|code_middle|>',
    '<|middle|>',
  ],
  fimPad: ['<|fim_pad|>', '<fim-pad>', '<fim_pad>', '<PAD>', '[PAD]'],
  fimRep: ['<|fim_repo|>', '<|repo_name|>', '<fim-repo>', '<REPO>', '<reponame>'],
  fimSep: ['<|file_sep|>'],
};

/** Names of tokens that always end generation. */
const eogNames = [
  '<|eot_id|>',
  '<|im_end|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
  '<|flush|>',
  '<|calls|>',
  '<end_of_turn>',
  '<|endoftext|>',
  '</s>',
  '<|eom_id|>',
  '<EOT>',
  '_<EOT>',
  '[EOT]',
  '[EOS]',
  '<|end_of_text|>',
  '<end_of_utterance>',
  '<eos>',
  '<turn|>',
  '<|tool_response>',
  '<\uff5cend\u2581of\u2581sentence\uff5c>',
  '[e~[',
];

/**
 * gpt-oss's channel marks: control tokens in the file, but part of the text that people must see.
 */
const shownNames = ['<|channel|>', '<|message|>', '<|start|>', '<|constrain|>'];

/**
 * Form of the marks of turns, like `<|im_start|>` or `[INST]`. Some fine-tunes declare theirs as
 * user-defined. In text of a user they would begin a turn, as control tokens would.
 */
const turnMark = /^(?:<[|\uff5c][^]*[|\uff5c]>|<\/?(?:start|end)_of_[a-z]+>|\[\/?[A-Z_]+\])$/;

/**
 * Completes `special` by name, corrects the attributes of tokens that files mark wrongly, and
 * returns the tokens that end generation, as llama.cpp does when it loads a vocabulary. If several
 * names exist for one role, llama.cpp takes any of them; this takes the first listed.
 */
export function endOfGeneration(
  tokens: readonly string[],
  attrs: Uint16Array,
  special: Found,
  idOf: (text: string) => number,
): Set<number> {
  for (const name of Object.keys(names) as Name[]) {
    for (const text of names[name]!) {
      if (special[name] !== undefined) break;
      const id = idOf(text);
      if (id < 0) continue;
      special[name] = id;
      attrs[id] |= attr.control;
    }
  }
  const eog = new Set<number>();
  const add = (id: number | undefined): void => {
    if (id !== undefined && id >= 0) eog.add(id);
  };
  for (const id of [special.fimPad, special.fimRep, special.fimSep]) add(id);
  for (const text of eogNames) {
    const id = idOf(text);
    if (id < 0) continue;
    eog.add(id);
    attrs[id] |= attr.control;
  }
  for (const text of shownNames) {
    const id = idOf(text);
    if (id >= 0) attrs[id] = attr.userDefined | attr.turn;
  }
  for (const [id, bits] of attrs.entries()) if (bits & attr.userDefined && turnMark.test(tokens[id])) attrs[id] |= attr.turn;
  for (const id of [special.eos, special.eot, special.eom]) add(id);

  const has = (text: string): boolean => eog.has(idOf(text));
  const drop = (text: string, bits: number): void => {
    eog.delete(idOf(text));
    attrs[idOf(text)] = bits;
  };
  // In harmony-like vocabularies <|end|> closes one message of several; in gemma 4's, </s> is an
  // ordinary tag.
  const calls = has('<|call|>') || has('<|calls|>');
  if (has('<|end|>') && calls && (has('<|return|>') || has('<|flush|>'))) drop('<|end|>', attr.userDefined | attr.turn);
  if (has('<|tool_response>') && has('</s>')) drop('</s>', attr.normal);
  return eog;
}
