/**
 * The one table of flags, in llama.cpp's spelling. Arguments are brought into the form `--name=value` here and only then given
 * to node:util's parseArgs, which by itself refuses `-n -1` and `-p "-5 + 3"` and reads `-np 4` as `-n p 4`.
 */
import { parseArgs } from 'node:util';
import { QuantletError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import { BUILDS } from '../wasm/load.ts';

export interface Flag {
  readonly name: string;
  /** Other spellings, with their dashes: `-m`, `--ctx-size`. */
  readonly aliases: readonly string[];
  /** `strings`: may be given several times. `integers`: lists with commas, as llama-bench takes them, also several times. */
  readonly type: 'string' | 'strings' | 'number' | 'integer' | 'integers' | 'boolean';
  /** What the value is called in the help; none for booleans. */
  readonly value?: string;
  readonly help: string;
  /** The values there are, where they are few: for the shell's completion; commands check them. */
  readonly choices?: readonly string[];
}

const flag = <T extends Flag['type']>(name: string, aliases: string, type: T, value: string, help: string, choices?: readonly string[]): Flag & { readonly type: T } => ({
  name,
  aliases: aliases ? aliases.split(' ') : [],
  type,
  ...(value ? { value } : {}),
  help,
  ...(choices ? { choices } : {}),
});

const CACHE_TYPES = ['f16', 'f32', 'q8_0', 'q4_0'];

export const FLAGS = {
  model: flag('model', '-m -mu --model-url', 'string', 'FILE|URL', 'GGUF model: a path, or an https URL that is downloaded once; default: the small one that ships'),
  prompt: flag('prompt', '-p', 'string', 'TEXT', 'the text to continue; empty: the model begins by itself'),
  message: flag('prompt', '-p', 'string', 'TEXT', 'a message to answer; without it the program asks for messages'),
  text: flag('prompt', '-p', 'string', 'TEXT', 'the text'),
  file: flag('file', '-f', 'string', 'FILE', 'read the text from a file'),
  predict: flag('predict', '-n --n-predict', 'integer', 'N', 'new tokens at most; -1: until the model ends or the context is full'),
  threads: flag('threads', '-t', 'integer', 'N', 'threads; default: all cores this process may use'),
  ctx: flag('ctx-size', '-c', 'integer', 'N', 'tokens of context; 0: what the model was trained for'),
  batch: flag('batch-size', '-b -ub --ubatch-size', 'integer', 'N', 'prompt tokens of one step at most (512)'),
  cacheTypeK: flag('cache-type-k', '-ctk', 'string', 'TYPE', 'keys of the cache: f16, f32, q8_0 or q4_0 (f16)', CACHE_TYPES),
  cacheTypeV: flag('cache-type-v', '-ctv', 'string', 'TYPE', 'values of the cache, the same types (f16)', CACHE_TYPES),
  temp: flag('temp', '--temperature', 'number', 'T', 'temperature; 0: always the most probable token (0.8)'),
  topK: flag('top-k', '', 'integer', 'K', 'keep the K most probable tokens; 0: all (40)'),
  topP: flag('top-p', '', 'number', 'P', 'keep the most probable tokens that add up to P; 1: all (0.95)'),
  minP: flag('min-p', '', 'number', 'P', 'keep tokens at least P times as probable as the best; 0: all (0.05)'),
  typical: flag('typical', '--typical-p', 'number', 'P', 'locally typical sampling; 1: off (1)'),
  topNSigma: flag('top-n-sigma', '--top-nsigma', 'number', 'N', 'keep logits within N standard deviations of the best; -1: off (-1)'),
  xtcProbability: flag('xtc-probability', '', 'number', 'P', 'XTC: how often likely tokens are left out (0)'),
  xtcThreshold: flag('xtc-threshold', '', 'number', 'P', 'XTC: a token is likely from P on (0.1)'),
  repeatPenalty: flag('repeat-penalty', '', 'number', 'X', 'make the last tokens less likely; 1: off (1)'),
  repeatLastN: flag('repeat-last-n', '', 'integer', 'N', 'how many last tokens the penalties look at; -1: all (64)'),
  presencePenalty: flag('presence-penalty', '', 'number', 'X', 'taken from the logit of tokens that were there (0)'),
  frequencyPenalty: flag('frequency-penalty', '', 'number', 'X', 'the same for every time (0)'),
  dryMultiplier: flag('dry-multiplier', '', 'number', 'X', 'DRY repetition penalty; 0: off (0)'),
  dryBase: flag('dry-base', '', 'number', 'X', 'DRY base (1.75)'),
  dryAllowedLength: flag('dry-allowed-length', '', 'integer', 'N', 'DRY: repetitions up to N tokens are free (2)'),
  dryPenaltyLastN: flag('dry-penalty-last-n', '', 'integer', 'N', 'DRY: tokens searched; -1: all (-1)'),
  drySequenceBreaker: flag('dry-sequence-breaker', '', 'strings', 'TEXT', 'DRY: repetitions are not followed across TEXT, in place of \\n : " *; none: across everything; may be given several times'),
  logitBias: flag('logit-bias', '-l', 'strings', 'ID(+|-)BIAS', 'added to the logit of a token: 15043+1, 15043-0.5, 15043-inf bans it; may be given several times'),
  mirostat: flag('mirostat', '', 'integer', 'N', 'Mirostat 1 or 2; 0: off (0)'),
  mirostatLr: flag('mirostat-lr', '', 'number', 'X', 'Mirostat learning rate eta (0.1)'),
  mirostatEnt: flag('mirostat-ent', '', 'number', 'X', 'Mirostat target entropy tau (5)'),
  dynatempRange: flag('dynatemp-range', '', 'number', 'X', 'dynamic temperature range; 0: off (0)'),
  dynatempExp: flag('dynatemp-exp', '', 'number', 'X', 'dynamic temperature exponent (1)'),
  seed: flag('seed', '-s', 'integer', 'N', 'seed of the sampler; -1: random (-1)'),
  stop: flag('reverse-prompt', '-r', 'strings', 'TEXT', 'stop where this text comes up; may be given several times'),
  ignoreEos: flag('ignore-eos', '', 'boolean', '', 'go on after the end-of-text token'),
  escape: flag('escape', '-e', 'boolean', '', 'read \\n, \\t, \\x41 ... in the prompt (on)'),
  noEscape: flag('no-escape', '', 'boolean', '', 'take the prompt as it is'),
  noWarmup: flag('no-warmup', '', 'boolean', '', 'start without optimising the kernels first'),
  noDisplayPrompt: flag('no-display-prompt', '', 'boolean', '', 'do not repeat the prompt in the output'),
  build: flag('build', '', 'string', 'NAME', 'simd, relaxed or dotadd, each also with -threads; default: the best that runs', BUILDS),
  benchPrompt: flag('n-prompt', '-p', 'integers', 'N,...', 'prompt lengths to time; 0: none (512)'),
  benchGen: flag('n-gen', '-n', 'integers', 'N,...', 'numbers of generated tokens to time; 0: none (128)'),
  benchBoth: flag('prompt-gen', '-pg', 'strings', 'P,N', 'time a prompt of P and N generated tokens together; may be given several times'),
  benchDepth: flag('n-depth', '-d', 'integers', 'N,...', 'tokens already in the cache (0)'),
  benchThreads: flag('threads', '-t', 'integers', 'N,...', 'numbers of threads; default: all cores this process may use'),
  repetitions: flag('repetitions', '-r', 'integer', 'N', 'times each test runs (5)'),
  output: flag('output', '-o', 'string', 'FORMAT', 'md, json, jsonl or csv (md)', ['md', 'json', 'jsonl', 'csv']),
  chunks: flag('chunks', '', 'integer', 'N', 'windows to measure at most; default: all'),
  klBase: flag('kl-divergence-base', '--save-all-logits', 'string', 'FILE', 'write the logits there, or with --kl-divergence compare with those in it'),
  kl: flag('kl-divergence', '', 'boolean', '', 'compare with the logits of --kl-divergence-base'),
  imatrix: flag('imatrix', '', 'string', 'FILE', 'importance weights of the model (GGUF, as llama-imatrix writes them)'),
  pure: flag('pure', '', 'boolean', '', 'the same type for all matrices, no mix'),
  allowRequantize: flag('allow-requantize', '', 'boolean', '', 'also tensors that are quantised already; costs quality'),
  leaveOutputTensor: flag('leave-output-tensor', '', 'boolean', '', 'keep output.weight as it is'),
  outputTensorType: flag('output-tensor-type', '', 'string', 'TYPE', 'ggml type of output.weight: q8_0, say'),
  tokenEmbeddingType: flag('token-embedding-type', '', 'string', 'TYPE', 'ggml type of the token embeddings'),
  tensorType: flag('tensor-type', '', 'strings', 'NAME=TYPE', 'ggml type of tensors whose name matches the pattern: attn_v=q6_K; may be given several times'),
  turbo: flag('turbo', '', 'boolean', '', 'experimental 256-bit code on Node 24 and newer'),
  hf: flag('hf-repo', '-hf -hfr', 'string', 'USER/REPO[:QUANT]', 'a model of the Hugging Face hub, downloaded once (QUANT: Q4_K_M, else the first model)'),
  hfFile: flag('hf-file', '-hff', 'string', 'FILE', 'this file of the repository of -hf, in place of QUANT'),
  hfToken: flag('hf-token', '-hft', 'string', 'TOKEN', 'access token of the hub; default: HF_TOKEN of the environment'),
  offline: flag('offline', '', 'boolean', '', 'only what was downloaded before'),
  lora: flag('lora', '', 'strings', 'FILE,...', 'LoRA adapters (GGUF) to apply; may be given several times'),
  loraScaled: flag('lora-scaled', '', 'strings', 'FILE:SCALE,...', 'the same with a scale each: style.gguf:0.5'),
  host: flag('host', '', 'string', 'ADDRESS', 'address to listen on (127.0.0.1)'),
  port: flag('port', '', 'integer', 'N', 'port to listen on; 0: any free one (8080)'),
  parallel: flag('parallel', '-np', 'integer', 'N', 'answers at the same time; each has a context of its own (4)'),
  alias: flag('alias', '-a', 'string', 'NAME', "the model's name in lists and answers; default: its file's"),
  apiKey: flag('api-key', '', 'strings', 'KEY', 'a key that clients must send; may be given several times (LLAMA_API_KEY)'),
  apiKeyFile: flag('api-key-file', '', 'string', 'FILE', 'keys, one a line'),
  cors: flag('cors', '', 'strings', 'ORIGIN', 'pages of this origin may read answers; *: all; may be given several times'),
  timeout: flag('timeout', '-to', 'integer', 'SECONDS', 'an answer takes so long at most, waiting included; 0: no limit (600)'),
  maxQueue: flag('max-queue', '', 'integer', 'N', 'requests that wait at most; more get status 429 (64)'),
  maxBody: flag('max-body', '', 'integer', 'BYTES', 'size of a request at most (10485760)'),
  maxBuffered: flag('max-buffered', '', 'integer', 'BYTES', 'size of all requests together that are not yet answered; more get status 503 (67108864)'),
  maxText: flag('max-text', '', 'integer', 'N', 'characters of the texts of a request at most (1048576)'),
  maxMessages: flag('max-messages', '', 'integer', 'N', 'messages of a conversation at most (4096)'),
  bodyTimeout: flag('body-timeout', '', 'integer', 'SECONDS', 'a request arrives in so long (30)'),
  allowedHosts: flag('allowed-hosts', '', 'strings', 'HOST', 'serve requests for this host (a name or an address, without a port) too; *: any; may be given several times; default: on 127.0.0.1 and ::1 what this machine calls itself, elsewhere any'),
  parseSpecial: flag('parse-special', '', 'boolean', '', 'read <|im_end|> and the like in messages as control tokens: whoever writes one can then forge turns'),
  accessLog: flag('access-log', '', 'boolean', '', 'a line on stderr for every request'),
  noWebui: flag('no-webui', '', 'boolean', '', 'no page at /'),
  chatTemplate: flag('chat-template', '', 'string', 'JINJA', "chat template in place of the model's"),
  chatTemplateFile: flag('chat-template-file', '', 'string', 'FILE', 'the same from a file'),
  system: flag('system-prompt', '-sys', 'string', 'TEXT', 'system message of the conversation'),
  grammar: flag('grammar', '', 'string', 'GBNF', 'grammar that the text follows'),
  grammarFile: flag('grammar-file', '', 'string', 'FILE', 'the same from a file'),
  jsonSchema: flag('json-schema', '-j', 'string', 'SCHEMA', 'the text is JSON that fits this JSON schema; {}: any object'),
  pooling: flag('pooling', '', 'string', 'TYPE', 'none, mean, cls, last or rank; default: what the file says', ['none', 'mean', 'cls', 'last', 'rank']),
  embdNormalize: flag('embd-normalize', '', 'integer', 'N', '-1: none, 0: largest to 32760, 1: taxicab, 2: length one, N: p-norm (2)'),
  embdOutputFormat: flag('embd-output-format', '', 'string', 'FORMAT', 'array, json, json+ (with cosines) or raw; default: for people', ['array', 'json', 'json+', 'raw']),
  embdSeparator: flag('embd-separator', '', 'string', 'TEXT', 'what stands between texts (a new line)'),
  clsSeparator: flag('cls-separator', '', 'string', 'TEXT', 'what stands between a query and its document (a tab)'),
  promptCache: flag('prompt-cache', '', 'string', 'FILE', 'go on from the state of the prompt in this file; write it there when done'),
  promptCacheAll: flag('prompt-cache-all', '', 'boolean', '', 'write the generated text too, not the prompt alone'),
  promptCacheRo: flag('prompt-cache-ro', '', 'boolean', '', 'read the file, do not write it'),
  ids: flag('ids', '', 'boolean', '', 'print the ids only: [1, 2, 3]'),
  noBos: flag('no-bos', '', 'boolean', '', 'without the beginning-of-text token'),
  noParseSpecial: flag('no-parse-special', '', 'boolean', '', 'read <|im_start|> and the like as plain text'),
  stdin: flag('stdin', '', 'boolean', '', 'read the text from standard input'),
  showCount: flag('show-count', '', 'boolean', '', 'print the number of tokens'),
  json: flag('json', '', 'boolean', '', 'print one JSON object'),
  help: flag('help', '-h', 'boolean', '', 'show this help'),
} as const satisfies { readonly [key: string]: Flag };

export type FlagKey = keyof typeof FLAGS;

interface ValueTypes {
  string: string;
  strings: string[];
  number: number;
  integer: number;
  integers: number[];
  boolean: boolean;
}
/** Parsed values by the table's keys. */
export type Values<K extends FlagKey> = { [P in K]?: ValueTypes[(typeof FLAGS)[P]['type']] };

const usage = (message: string): QuantletError => new QuantletError('ERR_USAGE', message);

/**
 * Arguments of a command that takes these flags, and its positional ones.
 * @throws ERR_USAGE naming the flag and what was expected
 */
export function parseFlags<K extends FlagKey>(argv: readonly string[], keys: readonly K[]): { values: Values<K>; positionals: string[] } {
  const flags = keys.map((k) => [k, FLAGS[k] as Flag] as const);
  const bySpelling = new Map(flags.flatMap(([, f]) => [`--${f.name}`, ...f.aliases].map((s) => [s, f] as const)));
  const normal: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i];
    if (arg === '--') {
      normal.push(...argv.slice(i));
      break;
    }
    const equals = arg.startsWith('--') ? arg.indexOf('=') : -1;
    const spelling = equals < 0 ? arg : arg.slice(0, equals);
    const known = bySpelling.get(spelling);
    if (!known) {
      if (arg.startsWith('-') && arg !== '-') throw usage(`unknown flag ${spelling}; ${alike(spelling, [...bySpelling.keys()])}--help lists those of this command`);
      normal.push(arg);
    } else if (known.type === 'boolean') {
      if (equals >= 0) throw usage(`${spelling} takes no value`);
      normal.push(`--${known.name}`);
    } else {
      const value = equals >= 0 ? arg.slice(equals + 1) : argv[++i];
      if (value === undefined) throw usage(`${spelling} needs a value: ${known.value}, ${known.help}`);
      normal.push(`--${known.name}=${value}`);
    }
  }
  const options = Object.fromEntries(flags.map(([, f]) => [f.name, { type: f.type === 'boolean' ? ('boolean' as const) : ('string' as const), multiple: f.type === 'strings' || f.type === 'integers' }]));
  const { values, positionals } = parseArgs({ args: normal, options, allowPositionals: true, strict: true });
  const out = {} as Record<string, unknown>;
  for (const [key, f] of flags) {
    const value = values[f.name];
    if (f.type === 'integers' && Array.isArray(value)) out[key] = value.flatMap((v) => String(v).split(',').map((n) => convert(f, n)));
    else if (value !== undefined) out[key] = typeof value === 'string' ? convert(f, value) : value;
  }
  return { values: out as Values<K>, positionals };
}

/** `did you mean X? ` where a long flag was misspelled or not finished. */
function alike(spelling: string, known: readonly string[]): string {
  if (spelling.length < 5) return '';
  const [best] = nearest(spelling, known.filter((k) => k.length >= 5), 2);
  return best ? `did you mean ${best}? ` : '';
}

function convert(f: Flag, value: string): string | number {
  if (f.type === 'string') return value;
  const n = value.trim() === '' ? NaN : Number(value);
  if (Number.isNaN(n) || (f.type !== 'number' && !Number.isInteger(n))) throw usage(`--${f.name} is "${value}"; expected ${f.type === 'number' ? 'a number' : 'a whole number'}`);
  return n;
}

/** The help of a command: its flags with what they take. */
export function flagHelp(keys: readonly FlagKey[]): string {
  const left = keys.map((k) => {
    const f: Flag = FLAGS[k];
    return `  ${[...f.aliases, `--${f.name}`].sort((a, b) => a.length - b.length).join(', ')}${f.value ? ` ${f.value}` : ''}`;
  });
  const width = Math.min(36, Math.max(...left.map((s) => s.length)) + 2);
  return keys.map((k, i) => (left[i].length < width ? left[i].padEnd(width) : `${left[i]}\n${' '.repeat(width)}`) + FLAGS[k].help).join('\n');
}
