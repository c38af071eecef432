import { TEXTS, type Vocabulary } from './vectors.ts';
import { tinyWpm } from './tiny.ts';

/** Vocabulary of the ids below. */
export const WORDPIECE: Pick<Vocabulary, 'name' | 'metadata'> = { name: 'WordPiece', metadata: tinyWpm() };

/** Texts that a rule of BERT's normalizer or pre-tokenizer decides. */
export const BERT_TEXTS: readonly string[] = [
  ...TEXTS,
  'Hello, WORLD!',
  'unable undo unworlds',
  'Café CAFÉ cafe',
  '我想hello',
  '한글 한 하 \u1112\u1161\u11ab \u1112',
  'öo Ö̈ oe\u0301\u0323',
  "12 122 1~$2 '",
  'xyz hello',
  '\u200bhello world\ufffd\u0001',
  // Marks with a width of their own are letters, others are accents.
  'हिन्दी में देवनागरी लिपि',
  'বাংলা தமிழ் తెలుగు ಕನ್ನಡ മലയാളം ગુજરાતી ਪੰਜਾਬੀ සිංහල',
  'ภาษาไทย ລາວ မြန်မာဘာသာ ភាសាខ្មែរ བོད་ཡིག',
  'العَرَبِيَّة עִבְרִית ܣܘܪܝܝܐ',
  'a\u20ddb c\u0488d',
  // Controls, and what counts as white space.
  'a\tb\nc\rd\u000be\u000cf\u0085g\u001ch\u00a0i\u1680j\u2028k\u2029l\u3000m\u202fn\u205fo',
  'a\u00adb\u200cc\u200dd\u2060e\ufefff\u061cg\u180eh',
  'a\ue000b\u{f0000}c\u0378d\u{e0001}e',
  // Ideographs of every block that BERT lists, and of some that it does not.
  'a一b㐀c\u{20000}d\u{2a700}e\u{2b740}f\u{2b820}g\u{2b920}h豈i\u{2f800}j\u{30000}k〇l々m',
  'カタカナ ｶﾞｷﾞ がぎぐ パピプ ヽ゛',
  // Punctuation, symbols, and characters that become punctuation.
  'a¿b§c“d”e…f—g«h»i‽j、k。l！m₍n',
  'a©b€c£d+e=f×g÷h√i№j™k°l^m`n|o',
  'a\u037eb\u1fefc\u2260d\u226ee\u2000f\u2126g\u212ah\u212b',
  // Lower case.
  'İstanbul ISPARTA ıİ ΟΔΟΣ Σ ẞ ǅ Ⅷ Ⓐ 𝐀 Ａ ﬃ ŉ',
  // Words of 99 to 101 characters.
  `${'a'.repeat(99)} ${'b'.repeat(100)} ${'c'.repeat(101)}`,
  `${'é'.repeat(100)} ${'é'.repeat(101)} ${'한'.repeat(33)} ${'한'.repeat(34)} ${'𝒳'.repeat(100)} ${'𝒳'.repeat(101)}`,
  `${'un'.repeat(50)} ${'un'.repeat(51)}`,
  `${'able'.repeat(3)} un${'able'.repeat(24)}do un${'able'.repeat(25)}`,
  // The sign that GGUF writes for the start of a word.
  'a▁hello ▁ ▁▁ hello▁ ▁hello un▁able',
  '##able un##able ##',
];

/** Options of BERT's normalizer, as vocabularies have them. */
export const BERT_OPTIONS = [
  { lowercase: true, stripAccents: true },
  { lowercase: false, stripAccents: false },
  { lowercase: true, stripAccents: false },
] as const;
