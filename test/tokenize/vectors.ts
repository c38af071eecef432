import { readFileSync } from 'node:fs';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';
import { readMetadata, shippedModel } from './fixtures.ts';
import { tinyBpe, tinyCharacters, tinyUgm } from './tiny.ts';

/**
 * Texts as people and programs write them. Each is special for some pre-tokenizer, normaliser or
 * byte fallback.
 */
export const TEXTS: readonly string[] = [
  '',
  ' ',
  '  ',
  '   ',
  '\t',
  '\n',
  '\n\n',
  '\r\n\r\n',
  '\t\n',
  ' \n \n  \n',
  '\u00a0',
  '\u3000x',
  'a\u200bb',
  '\u0000',
  'a\u0000b',
  'Once upon a time, there was a little girl named Lily.',
  ' Once upon a time',
  'once  upon   a    time',
  'ONCE UPON A TIME',
  'the end.\n\nThe end!\n',
  "\"Hi,\" said Tom. \"I'm here; we'll go, they've gone, she'd know, it's OK.\"",
  "I'M HERE; WE'LL GO, THEY'VE GONE, IT'S OK",
  "can't won't n't 's 't 're 'S 'Re",
  "''''''```````\"\"\"\"......!!!!!!??????",
  '0',
  '12',
  '123',
  '1234',
  '12345678901234567890',
  '3.14159 and -2.5e10',
  '1,000,000',
  '1st 2nd 33rd',
  'x1y22z333',
  '½ ² Ⅷ ٣ ९',
  'hello',
  'Hello World',
  'helloWorld',
  'HELLOworld HelloWORLD',
  'hello, world! hello.world',
  'abABabAB',
  'un able 12 ~$~$',
  'USER hello<unused12>',
  '<s>',
  '</s> <|im_start|>x<|im_end|>',
  '<unk><pad>',
  'café naïve Ångström',
  'cafe\u0301 e\u0301\u0301 \u0301',
  'ÀÉÎÕÜ ß ﬁ ﬂ Ａ',
  'Ελλάδα Россия ישראל مرحبا',
  'हिन्दी ไทย မြန်မာ',
  '我想在北京吃饭。',
  'こんにちは、カタカナ',
  '한국어 ᄒ\u1161ᆫ',
  '🦙',
  '👩‍👩‍👧‍👦 🏳️‍🌈 🇳🇴',
  'a🦙b 🦙🦙',
  '\ufeffx',
  '\u2581',
  '▁▁a ▁b',
  'for (let i = 0; i < n; i++) {\n    a[i] += b[i] * 2; // sum\n}\n',
  'def f(x):\n\treturn x**2  # x\n',
  'http://example.com/a?b=c&d=%20#e',
  'user.name+tag@example.co.uk',
  '{"key": [1, 2.0, null, "v\\n"]}',
  'C:\\path\\to\\file.txt',
  '#include <stdio.h>',
  '$ ls -la | grep "x" > /dev/null 2>&1',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  '~~~~~~~~$$$$$$$$',
  '\u0001\u0002\u001b[0m\u007f',
  '= == === ==== =====',
  '-- --- ----',
  '(a) [b] {c} <d>',
  ' .',
  ' ,a',
  '. .. ... ....',
];

export interface Vocabulary {
  readonly name: string;
  readonly metadata: TokenizerMetadata;
  /** If texts are restored exactly from their ids. */
  readonly lossless: boolean;
}

/** (WordPiece's are in bert-texts.ts, because native's ids are wrong.) */
export const VOCABULARIES: readonly Vocabulary[] = [
  { name: 'the model that ships: SentencePiece, 1024 tokens', metadata: await readMetadata(shippedModel), lossless: true },
  ...['llama-bpe', 'gpt-2', 'qwen2', 'deepseek-llm', 'gpt-4o', 'tekken', 'falcon'].map((pre) => ({
    name: `byte-pair encoding, ${pre}`,
    metadata: tinyBpe(pre),
    lossless: true,
  })),
  { name: 'Unigram', metadata: tinyUgm(), lossless: false },
];

/** Pre-tokenizers of llama.cpp v0.5.0 for byte-pair encodings with tokens spelled in characters. */
const OF_CHARACTERS = 'gemma4 granite-embed-multi-311m sarvam-moe whitespace'.split(' ');

/**
 * All pre-tokenizers for byte-pair encodings. Tokens of the other ones are spelled byte by byte.
 */
export const PRE_TOKENIZERS: readonly string[] = (
  'default llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano minicpm5 deepseek-llm deepseek-coder deepseek-v3 spark2_5 youtu falcon mpt ' +
  'starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jais-2 jina-v1-en ' +
  'jina-v2-code roberta-bpe refact command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe poro-chat glm4 chatglm-bpe viking jais tekken ' +
  'smollm codeshell bloom gpt3-finnish exaone exaone4 exaone-moe chameleon minerva-7b megrez gpt-4o llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe ' +
  'superbpe trillion granite-docling bailingmoe bailingmoe2 llada-moe seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe laguna minimax-m2 ' +
  'solar-open mellum2'
)
  .split(' ')
  .concat(OF_CHARACTERS);

/**
 * All texts in three orders with changing separators, because the end of a word often depends on
 * what follows it.
 */
export const MIXED_TEXT: string = [1, 17, 43]
  .flatMap((step, i) => TEXTS.map((_, k) => TEXTS[(k * step + i) % TEXTS.length] + ['\n', ' ', '', '  ', '\t\n'][(k + i) % 5]))
  .join('');

/**
 * A vocabulary with pairs of all common bytes: everything merges, except across the end of a word.
 */
export const preTokenizerVocabulary = (pre: string): TokenizerMetadata =>
  (OF_CHARACTERS.includes(pre) ? tinyCharacters : (name: string, of: string) => tinyBpe(name, {}, of))(
    pre,
    ' etaoinsrhldTHIS019.,\'"!?-/()\n\t\ré我のहΩ\u0301',
  );

/** FNV-1a over 32-bit words: changes if any id or their number does. */
export const hashOf = (ids: ArrayLike<number>): string =>
  Array.from(ids)
    .reduce((hash, id) => Math.imul(hash ^ id, 0x01000193) >>> 0, 0x811c9dc5 ^ ids.length)
    .toString(16);

/** Hashes of native llama.cpp's ids for MIXED_TEXT, by pre-tokenizer. */
export const preTokenizerHashes = (): Readonly<Record<string, string>> =>
  JSON.parse(readFileSync(new URL('pre-tokenizers.json', import.meta.url), 'utf8')) as Record<string, string>;

/**
 * Native llama.cpp's ids of every text, by vocabulary: without bos and eos, with control tokens
 * read as text.
 */
export const golden = (): Readonly<Record<string, readonly (readonly number[])[]>> =>
  JSON.parse(readFileSync(new URL('vectors.json', import.meta.url), 'utf8')) as Record<string, number[][]>;
