import { letterOfByte } from '../../src/tokenize/bpe.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { metadataOf } from './fixtures.ts';

/*
 * Vocabularies small enough to understand at a glance. test/tokenize/golden.json has native
 * llama.cpp's results: libllama of node-llama-cpp 3.22.1 with vocab_only, and llama_tokenize of
 * every text with the add_special and parse_special given there.
 */

const spell = (text: string): string => [...new TextEncoder().encode(text)].map((byte) => letterOfByte[byte]).join('');

/**
 * A vocabulary of all bytes and all pairs of the bytes of a text: if two of them stay separate, a
 * word ended between them. It also has a few longer words, control tokens and a user-defined token.
 */
export function tinyBpe(pre: string, rest: Record<string, unknown> = {}, of = "abAB12'sL.~$ \n/é我\u0301"): TokenizerMetadata {
  const letters = [...new Set([...spell(of)])];
  const merges = letters.flatMap((left) => letters.map((right) => `${left} ${right}`));
  merges.push('he ll', 'h e', 'l l', 'hell o', `${spell(' ')} w`);
  const tokens = [...new Set([...letterOfByte, ...merges.map((merge) => merge.replace(' ', ''))])];
  const types = tokens.map(() => 1);
  const add = (text: string, type: number): number => {
    types.push(type);
    return tokens.push(text) - 1;
  };
  add(spell(' hello'), 1); // no merge leads here: only reached with ignore_merges
  const bos = add('<s>', 3);
  const eos = add('<|endoftext|>', 3);
  add('<|im_start|>', 3);
  add('<|im_end|>', 1); // marked as text by mistake, as some files do
  add('USER', 4);
  add('<unused12>', 3);
  return metadataOf('gpt2', tokens, { pre, merges, token_type: Int32Array.from(types), bos_token_id: bos, eos_token_id: eos, ...rest });
}

/**
 * The same for characters. Spaces are U+2581 (a plain space is a token too), and characters without
 * a token are bytes.
 */
export function tinyCharacters(pre: string, of: string): TokenizerMetadata {
  const letters = [...new Set([...of.replaceAll(' ', '\u2581'), ' '])];
  const merges = letters.flatMap((left) => letters.map((right) => `${left} ${right}`)).filter((merge) => merge.indexOf(' ', 1) > 0);
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
  const tokens = [...new Set(['<s>', ...bytes, ...letters, ...merges.map((merge) => merge.replace(/(?<=.) /u, '')), '\n\n\n'])];
  const types = tokens.map((_, id) => (id === 0 ? 3 : id <= 256 ? 6 : 1));
  return metadataOf(pre === 'whitespace' ? pre : 'gpt2', tokens, {
    pre,
    merges,
    token_type: Int32Array.from(types),
    bos_token_id: 0,
    eos_token_id: 0,
    'normalizer.lowercase': pre === 'whitespace',
  });
}

export function tinyWpm(): TokenizerMetadata {
  const words = ['hello', 'world', 'un', 'cafe', '!', '.', ',', '~', '$', '我', '想', '1', '12', "'", '한', 'ᄒ', 'ö', 'o'];
  const pieces = ['s', 'able', 'do', 'ld', 'wor', '2', 'e', 'o'];
  const tokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...words.map((word) => `\u2581${word}`), ...pieces];
  return metadataOf('bert', tokens, {
    token_type: Int32Array.from(tokens, (_, id) => (id < 5 ? 3 : 1)),
    unknown_token_id: 1,
    bos_token_id: 2,
    seperator_token_id: 3,
    padding_token_id: 0,
    mask_token_id: 4,
  });
}

export const unigramPieces: readonly (readonly [string, number])[] = [
  ['\u2581', -2],
  ['a', -3],
  ['b', -3.5],
  ['ab', -4],
  ['abc', -9],
  ['bc', -4.5],
  ['c', -3.25],
  ['\u2581a', -3.5],
  ['\u2581ab', -5],
  ['fi', -4],
  ['f', -5],
  ['i', -5],
  ['A', -6],
  ['\u2581\u2581', -3],
  ['🦙', -7],
  ['é', -6.5],
];

export function tinyUgm(rest: Record<string, unknown> = {}): TokenizerMetadata {
  const tokens = ['<pad>', '</s>', '<unk>', ...unigramPieces.map(([text]) => text), '<extra>', 'never'];
  const charsmap = buildCharsmap([
    ['\uff21', 'A'],
    ['\ufb01', 'fi'],
    ['\t', ' '],
    ['\u3000', ' '],
    ['\u200b', ''],
    ['e\u0301', 'é'],
  ]);
  return metadataOf('t5', tokens, {
    scores: Float32Array.from([0, 0, 0, ...unigramPieces.map(([, score]) => score), 0, -1]),
    token_type: Int32Array.from([3, 3, 2, ...unigramPieces.map(() => 1), 4, 5]),
    eos_token_id: 1,
    unknown_token_id: 2,
    padding_token_id: 0,
    precompiled_charsmap: charsmap,
    ...rest,
  });
}

/**
 * SentencePiece's precompiled_charsmap for a few rules. src/tokenize/charsmap.ts describes the
 * format.
 */
export function buildCharsmap(rules: readonly (readonly [string, string])[]): Uint8Array {
  interface Node {
    children: Map<number, Node>;
    value?: number;
  }
  const encoder = new TextEncoder();
  const root: Node = { children: new Map() };
  const replacements: number[] = [];
  for (const [key, replacement] of rules) {
    let node = root;
    for (const byte of encoder.encode(key)) {
      if (!node.children.has(byte)) node.children.set(byte, { children: new Map() });
      node = node.children.get(byte)!;
    }
    node.value = replacements.length;
    replacements.push(...encoder.encode(replacement), 0);
  }
  const entries = new Uint32Array(4096);
  const taken = new Set([0]);
  const place = (node: Node, at: number): void => {
    const needed = [...node.children.keys(), ...(node.value === undefined ? [] : [0])];
    let offset = 1;
    while (needed.some((byte) => taken.has(offset ^ byte))) offset++;
    for (const byte of needed) taken.add(offset ^ byte);
    entries[at] |= ((at ^ offset) << 10) | (node.value === undefined ? 0 : 0x100);
    if (node.value !== undefined) entries[offset] = (node.value | 0x80000000) >>> 0;
    for (const [byte, child] of node.children) {
      entries[offset ^ byte] = byte;
      place(child, offset ^ byte);
    }
  };
  place(root, 0);
  const bytes = new Uint8Array(4 + entries.byteLength + replacements.length);
  new DataView(bytes.buffer).setUint32(0, entries.byteLength, true);
  entries.forEach((entry, i) => new DataView(bytes.buffer).setUint32(4 + i * 4, entry, true));
  bytes.set(replacements, 4 + entries.byteLength);
  return bytes;
}
