/**
 * Pre-tokenizers: the patterns that cut text into words before a byte-pair vocabulary merges
 * (llama.cpp's `tokenizer.ggml.pre`, its regexes and flags). Each pattern of a list is applied to
 * the pieces that the one before left. A piece is the text of a match, or the text between two. In
 * these patterns `\s` means Unicode's White_Space, which differs slightly from JavaScript's.
 */
export interface PreTokenizer {
  readonly name: string;
  readonly split: readonly (string | Splitter)[];
  /** A word that is a token is that token, whatever the merges say. */
  readonly ignoreMerges?: boolean;
  /** The model's default for add_bos if the file does not say. */
  readonly addBos?: boolean;
  /** Overrules the file's add_bos. */
  readonly alwaysBos?: boolean;
  /**
   * Merges join characters, and bytes that the vocabulary lacks are `<0x0A>`, as in SentencePiece,
   * instead of GPT-2's byte letters.
   */
  readonly characters?: boolean;
  /** Spaces are U+2581. */
  readonly escapeSpaces?: boolean;
  /** Text between two matches is dropped. */
  readonly onlyMatches?: boolean;
  /** Decoding leaves spaces before punctuation (llama.cpp's clean_spaces is off). */
  readonly keepSpaces?: boolean;
  /** A run of newlines that is a token is that token. */
  readonly newlineRuns?: boolean;
}

/** Cuts one piece further. The parts joined are the piece. */
export type Splitter = (piece: string) => string[];

const contraction = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const spaces = '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
/** The family of cl100k. Its members differ in how many digits go together. */
const cl100k = (digits: string, start = `${contraction}|`): string =>
  `${start}[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${spaces}`;
/**
 * The family of o200k: words break where lower case turns to upper case (letters without case count
 * as both).
 */
const o200k = (upper: string, lower: string, tail: string, digits: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${tail}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${tail}|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${spaces}`;
const upper = '[^\\P{L}a-z]';
const lower = '[^\\P{L}A-Z]';
const anyCase = (digits: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+${contraction}?|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${spaces}`;
const asciiMark = '[!"#$%&\'()*+,\\-.\\/:;<=>?@\\[\\\\\\]^_`{\\|}~]';
const deepseek3 = `${asciiMark}[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|${spaces}`;
const kanaHan = '[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+';
const asianBlocks = '(?:(?!\\s)[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff])+';
const asianScripts =
  '[\\u4e00-\\u9fff\\u3400-\\u4dbf\\u8c48-\\ufaff\\u3040-\\u309f\\u30a0-\\u30ff\\uff65-\\uff9f\\u2f00-\\u2fdf' +
  '\\u0e40-\\u0e7f\\u0e80-\\u0eff\\u1780-\\u17ff\\u1000-\\u109f\\uaa60-\\uaa7f\\ua9e0-\\ua9ff\\uac00-\\ud7af\\u1100-\\u11ff]+';
const cjkRuns =
  '[\\uac00-\\ud7a3\\u3131-\\u318e]+|[\\uff01\\u2026\\u201c\\u201d\\u2018\\u2019\\u2014\\uff1a\\uff1b\\uff0c\\u3001-\\u303f\\ufe30-\\ufe4f]+|[\\u3105-\\u312f]+|' +
  kanaHan;
const notSentenceEnd = ' ?[^(\\s|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+';
const han =
  '\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}\\u{2b740}-\\u{2b81f}\\u{2b820}-\\u{2ceaf}\\u{2ceb0}-\\u{2ebef}\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}';
/** Letters with case, as deepseek-llm lists them. */
const casedLetters =
  'A-Za-z\\xb5\\xc0-\\xd6\\xd8-\\xf6\\xf8-\\u01ba\\u01bc-\\u01bf\\u01c4-\\u0293\\u0295-\\u02af\\u0370-\\u0373\\u0376\\u0377\\u037b-\\u037d\\u037f' +
  '\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u03f5\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-\\u13fd' +
  '\\u1c90-\\u1cba\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77\\u1d79-\\u1d9a\\u1e00-\\u1f15\\u1f18-\\u1f1d\\u1f20-\\u1f45\\u1f48-\\u1f4d\\u1f50-\\u1f57' +
  '\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4\\u1fb6-\\u1fbc\\u1fbe\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec' +
  '\\u1ff2-\\u1ff4\\u1ff6-\\u1ffc\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-\\u212d\\u212f-\\u2134\\u2139\\u213c-\\u213f' +
  '\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-\\u2cee\\u2cf2\\u2cf3\\ua640-\\ua66d\\ua680-\\ua69b\\ua722-\\ua76f\\ua771-\\ua787' +
  '\\ua78b-\\ua78e\\uab70-\\uabbf\\ufb00-\\ufb06\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a\\u{10400}-\\u{1044f}\\u{104b0}-\\u{104d3}\\u{104d8}-\\u{104fb}' +
  '\\u{10c80}-\\u{10cb2}\\u{10cc0}-\\u{10cf2}\\u{118a0}-\\u{118df}\\u{1e900}-\\u{1e943}';

/**
 * Cuts numbers into groups of three digits from the right (afmoe, tiny_aya). Text before a number
 * stays with its first group; the next pattern separates them.
 */
const threesFromRight: Splitter = (piece) => {
  const parts: string[] = [];
  let from = 0;
  for (const { 0: number, index } of piece.matchAll(/\p{N}+/gu)) {
    const digits = [...number];
    let end = index;
    let left = digits.length;
    for (const digit of digits) {
      end += digit.length;
      left--;
      if (left % 3 === 0) {
        parts.push(piece.slice(from, end));
        from = end;
      }
    }
  }
  if (from < piece.length) parts.push(piece.slice(from));
  return parts;
};

/**
 * Cuts before every third digit from the right of a run (superbpe). A look-ahead would take
 * quadratic time.
 */
const cutBeforeThrees: Splitter = (piece) => {
  const parts: string[] = [];
  let from = 0;
  for (const { 0: digits, index } of piece.matchAll(/[0-9]+/g)) {
    for (let at = index + (digits.length % 3); at < index + digits.length; at += 3) {
      if (at > from) parts.push(piece.slice(from, at));
      from = at;
    }
  }
  if (from < piece.length) parts.push(piece.slice(from));
  return parts;
};

type Kind = Omit<PreTokenizer, 'name'>;
const llama3: Kind = { split: [cl100k('\\p{N}{1,3}')] };
const plainGpt2: Kind = { split: [gpt2] };
const digitByDigit: Kind = { split: ['\\p{N}', gpt2] };
const qwen2: Kind = { split: [cl100k('\\p{N}')] };
const deepseekV3: Kind = { split: ['\\p{N}{1,3}', kanaHan, deepseek3] };
const tinyAya: Kind = { split: [threesFromRight, anyCase('\\p{N}{1,3}')] };
const gpt4o: Kind = { split: [o200k(upper, lower, `${contraction}?`, '\\p{N}{1,3}')] };
const newlines: Kind = { split: ['[^\\n]+|\\n+'], characters: true, escapeSpaces: true };

const kinds: readonly (readonly [names: string, kind: Kind])[] = [
  ['default', { split: ['[\\p{P}$+<=>\\^~\\|]+', gpt2, '\\p{N}+', '[0-9][0-9][0-9]'] }],
  ['llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano', { ...llama3, ignoreMerges: true, addBos: true }],
  ['dbrx smaug-bpe glm4 chatglm-bpe', llama3],
  ['minicpm5', { split: ['\\p{N}{1,3}', cl100k('\\p{N}+')], ignoreMerges: true }],
  [
    'jais-2',
    {
      split: [
        cl100k('\\p{N}{1,3}').replace(
          '\\s+(?!\\S)|\\s+',
          `${[512, 256, 128, 64, 32, 16, 8, 4, '1,2'].map((n) => `\\s{${n}}(?!\\S)`).join('|')}|\\s`,
        ),
      ],
    },
  ],
  [
    'gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling ' +
      'jina-v1-en jina-v2-code roberta-bpe',
    plainGpt2,
  ],
  ['starcoder refact command-r smollm codeshell exaone minerva-7b mellum2', digitByDigit],
  ['falcon', { split: ['[\\p{P}$+<=>\\^~\\|`]+', gpt2, '[0-9][0-9][0-9]'] }],
  ['qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2', qwen2],
  ['qwen35', { split: [`${contraction}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${spaces}`] }],
  ['ufakzeka', { split: [cl100k('\\p{N}', '')] }],
  ['laguna', { split: ['[^\\n]+|\\n+', cl100k('\\p{N}')] }],
  ['seed-coder', { split: [`${contraction}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${spaces}`] }],
  [
    'bailingmoe bailingmoe2 llada-moe',
    {
      split: [
        `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
      ],
    },
  ],
  [
    'exaone-moe',
    {
      split: [
        `${contraction}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n\\/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
      ],
    },
  ],
  [
    'deepseek-llm',
    {
      split: [
        '[\\r\\n]',
        `\\s?[${casedLetters}]+`,
        '\\s?[!-\\/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3001\\u3002]+',
        '(?<!\\s)\\s+$',
        asianBlocks,
        '\\p{N}+',
      ],
    },
  ],
  ['deepseek-coder', { split: ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', asianBlocks, '\\p{N}'] }],
  ['deepseek-v3 hunyuan-dense joyai-llm hy_v4', deepseekV3],
  [
    'spark2_5',
    {
      split: [
        '\\p{N}{1,3}',
        kanaHan,
        `${asciiMark}[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+`,
        '\\p{N}',
      ],
    },
  ],
  ['afmoe', { split: [threesFromRight, asianScripts, deepseek3] }],
  ['youtu', { split: [cjkRuns, anyCase('\\p{N}')], ignoreMerges: true }],
  ['poro-chat bloom gpt3-finnish', { split: [notSentenceEnd] }],
  ['viking', { split: [notSentenceEnd, '\\p{N}'] }],
  ['tekken', { split: [o200k(upper, lower, '', '\\p{N}')], ignoreMerges: true, addBos: true }],
  ['gpt-4o o200k llama4 kanana2 talkie minimax-m2', gpt4o],
  [
    'granite-embed-multi-97m',
    { split: [o200k('(?:[^\\P{L}a-z]|\\p{M})', '(?:[^\\P{L}A-Z]|\\p{M})', `${contraction}?`, '\\p{N}{1,3}')], ignoreMerges: true },
  ],
  ['tiny_aya cohere2moe', tinyAya],
  [
    'chameleon',
    { split: ['<sentinel:[0-9]+>', 'IMGIMG[A-I]{1,4}Z', '[\\t\\n]|    |  ', '\\p{N}', '[\\p{P}!-\\/:-@\\[-`\\{-~]', gpt2], addBos: true },
  ],
  ['superbpe', { split: ['\\p{N}+', cutBeforeThrees] }],
  [
    'kimi-k2',
    { split: [`[${han}]+|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}${han}]+${contraction}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${spaces}`] },
  ],
  ['gemma4 granite-embed-multi-311m', { ...newlines, newlineRuns: true, alwaysBos: true }],
  ['sarvam-moe', newlines],
  ['whitespace', { split: ['\\S+'], characters: true, onlyMatches: true }],
];

const keepingSpaces = new Set(
  (
    'deepseek-llm deepseek-coder deepseek-v3 spark2_5 youtu sarvam-moe command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 poro-chat viking ' +
    'tekken smollm chameleon gpt-4o o200k llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion granite-docling bailingmoe bailingmoe2 llada-moe ' +
    'seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe laguna minimax-m2 solar-open'
  ).split(' '),
);

const byName: ReadonlyMap<string, PreTokenizer> = new Map(
  kinds.flatMap(([names, kind]) => names.split(' ').map((name) => [name, { name, ...kind, keepSpaces: keepingSpaces.has(name) }])),
);

/**
 * The pre-tokenizer of that name. If the name is missing or unknown, it is `default`, with a
 * warning. (llama.cpp warns of a missing name and refuses an unknown one.)
 */
export function preTokenizer(name: unknown, warnings: string[]): PreTokenizer {
  const found = typeof name === 'string' ? byName.get(name) : undefined;
  if (found) return found;
  const what =
    name === undefined || name === ''
      ? 'the file names no pre-tokenizer (tokenizer.ggml.pre)'
      : `unknown pre-tokenizer '${String(name)}' (tokenizer.ggml.pre)`;
  warnings.push(`${what}; 'default' is used, which may split text differently than in training and make answers worse`);
  return byName.get('default')!;
}
