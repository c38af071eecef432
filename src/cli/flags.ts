/**
 * The table of flags, with llama.cpp's spellings. Parsing, help, shell completion and docs/flags.md
 * are all made from it.
 */
import { NAMED_TEMPLATES } from '../chat/named-templates.ts';
import { SPECULATION_TYPES } from '../generate/draft/options.ts';
import { KV_TYPES } from '../graph/attention-ops.ts';
import type { LoadOptions } from '../model.ts';
import type { SamplerOptions } from '../sample/options.ts';
import { BUILDS } from '../wasm/load.ts';

export interface Flag {
  readonly name: string;
  /** Other spellings, with their dashes: `-m`, `--ctx-size`. */
  readonly aliases: readonly string[];
  /**
   * `strings`: can be repeated. `integers`: a comma-separated list as in llama-bench, can be
   * repeated.
   */
  readonly type: 'string' | 'strings' | 'number' | 'integer' | 'integers' | 'boolean';
  /** Name of the value in the help; booleans have none. */
  readonly value?: string;
  readonly help: string;
  /** The possible values, if these are few. Used by shell completion; commands check the value. */
  readonly choices?: readonly string[];
  /** Spellings that turn a switch off: `--no-escape`. */
  readonly off?: readonly string[];
  /**
   * A number of threads. A negative value counts as not given, which means all cores, as in
   * llama.cpp.
   */
  readonly cores?: true;
}

const flag = <T extends Flag['type']>(
  name: string,
  aliases: string,
  type: T,
  value: string,
  help: string,
  choices?: readonly string[],
): Flag & { readonly type: T } => ({
  name,
  aliases: aliases ? aliases.split(' ') : [],
  type,
  ...(value ? { value } : {}),
  help,
  ...(choices ? { choices } : {}),
});

/** A switch that can also be turned off. `help` describes the state "on". */
const toggle = (
  name: string,
  aliases: string,
  off: string,
  help: string,
): Flag & { readonly type: 'boolean'; readonly off: readonly string[] } => ({
  ...flag(name, aliases, 'boolean', '', help),
  off: off.split(' '),
});

/** Flags that override metadata of the file. */
export const METADATA_FLAGS = [
  'ropeScaling',
  'ropeScale',
  'ropeFreqBase',
  'ropeFreqScale',
  'yarnOrigCtx',
  'yarnExtFactor',
  'yarnAttnFactor',
  'yarnBetaFast',
  'yarnBetaSlow',
  'overrideKv',
] as const;

/** A flag that sets an option of the sampler. */
const sampling = <O extends keyof SamplerOptions, F extends Flag>(sampler: O, f: F): F & { readonly sampler: O } => ({ ...f, sampler });
/**
 * A flag that a command translates into the option of this name. Error messages that name the
 * option then name the flag.
 */
const named = <F extends Flag>(option: string, f: F): F & { readonly option: string } => ({ ...f, option });
const cores = <F extends Flag>(f: F): F & { readonly cores: true } => ({ ...f, cores: true });
/** A flag whose value is an option of loadModel. */
const loading = <O extends keyof LoadOptions, F extends Flag>(load: O, f: F): F & { readonly load: O } => ({ ...f, load });

const CACHE_TYPES: readonly string[] = KV_TYPES;

export const FLAGS = {
  model: flag(
    'model',
    '-m -mu --model-url',
    'string',
    'FILE|URL',
    'GGUF model: a path, or an https URL that is downloaded once; default: the small one that ships',
  ),
  models: flag(
    'model',
    '-m -mu --model-url',
    'strings',
    'FILE|URL',
    'GGUF model, as elsewhere; may be given several times: each is then loaded when a request names it',
  ),
  prompt: flag('prompt', '-p', 'string', 'TEXT', 'the text to continue; empty: the model begins by itself'),
  message: flag('prompt', '-p', 'string', 'TEXT', 'a message to answer; without it the program asks for messages'),
  text: flag('prompt', '-p', 'string', 'TEXT', 'the text'),
  file: flag('file', '-f', 'string', 'FILE', 'read the text from a file; -: from standard input'),
  predict: named(
    'maxTokens',
    flag(
      'predict',
      '-n --n-predict',
      'integer',
      'N',
      'at most this many new tokens; -1 and -2: until the model ends or the context is full',
    ),
  ),
  threads: loading('threads', cores(flag('threads', '-t', 'integer', 'N', 'threads; -1, the default: all cores this process may use'))),
  threadsBatch: cores(
    flag('threads-batch', '-tb', 'integer', 'N', 'the same as -t, which takes precedence: prompts and generation share threads'),
  ),
  ctx: loading('contextLength', flag('ctx-size', '-c', 'integer', 'N', 'tokens of context; 0: what the model was trained for')),
  batch: loading(
    'batchSize',
    flag('batch-size', '-b -ub --ubatch-size', 'integer', 'N', 'at most this many prompt tokens in one step (512)'),
  ),
  cacheTypeK: loading(
    'cacheTypeK',
    flag('cache-type-k', '-ctk', 'string', 'TYPE', `keys of the cache: ${KV_TYPES.join(', ')} (f16)`, CACHE_TYPES),
  ),
  cacheTypeV: loading(
    'cacheTypeV',
    flag('cache-type-v', '-ctv', 'string', 'TYPE', 'values of the cache, the same types (f16)', CACHE_TYPES),
  ),
  cacheRotation: loading(
    'cacheRotation',
    toggle(
      'cache-rotation',
      '',
      '--no-cache-rotation',
      'rotate quantised caches, which loses less; off also by LLAMA_ATTN_ROT_DISABLE=1 (on)',
    ),
  ),
  actBits: loading(
    'actBits',
    flag('act-bits', '', 'integer', 'N', 'round activations of quantised products to 8 bits, or to 4 to see what that loses (8)'),
  ),
  iqWeights: loading(
    'iqWeights',
    flag(
      'iq-weights',
      '',
      'string',
      'HOW',
      'IQ1 to IQ3 and TQ1_0 in memory: compact (as in the file), fast (4.3 bits a weight, of TQ1_0 2.1; twice as fast) or auto: fast where half of the free memory does (auto)',
      ['auto', 'compact', 'fast'],
    ),
  ),
  sparseThreshold: loading(
    'sparseThreshold',
    flag('sparse-threshold', '', 'number', 'X', "the least that a predictor gives a neuron that is computed (the file's, or 0)"),
  ),
  attnHeads: loading(
    'attnHeads',
    flag('attn-heads', '', 'number', 'X', "the share of attention's heads that generated tokens go on with, those that give most (all)"),
  ),
  weightsMemory: flag(
    'weights-memory',
    '',
    'string',
    'SIZE',
    'at most so much memory for weights, 2G say; layers that do not fit are read from the file again for every step',
  ),
  neuronWindow: loading(
    'neuronWindow',
    flag('neuron-window', '', 'integer', 'N', 'read rows of neurons from the file as they fire, and keep those of the last N tokens'),
  ),
  ctxCheckpoints: loading(
    'ctxCheckpoints',
    flag(
      'ctx-checkpoints',
      '-ctxcp --swa-checkpoints',
      'integer',
      'N',
      'states of recurrent layers that a conversation can go back to (8)',
    ),
  ),
  checkpointMinStep: loading(
    'checkpointMinStep',
    flag('checkpoint-min-step', '-cms', 'integer', 'N', 'tokens from one of them to the next (64)'),
  ),
  specType: flag(
    'spec-type',
    '',
    'string',
    'TYPE,...',
    'draft tokens and verify several in one step; the text stays the same: ngram-simple, ngram-mod, draft-simple (none)',
    ['none', ...SPECULATION_TYPES],
  ),
  draftModel: flag('spec-draft-model', '-md --model-draft', 'string', 'FILE|URL', 'a small model of the same vocabulary, for draft-simple'),
  draftHf: flag(
    'spec-draft-hf',
    '-hfd -hfrd --hf-repo-draft',
    'string',
    'USER/REPO[:QUANT]',
    'the same, from the Hugging Face hub; -md is then a file of the repository',
  ),
  draftMax: flag('spec-draft-n-max', '', 'integer', 'N', 'at most this many tokens from the draft model (3)'),
  draftMin: flag('spec-draft-n-min', '', 'integer', 'N', 'ignore shorter drafts of the draft model (0)'),
  draftPMin: flag('spec-draft-p-min', '--draft-p-min', 'number', 'P', 'the draft model stops at a token less probable than P (0)'),
  draftThreads: cores(
    flag('spec-draft-threads', '-td --threads-draft', 'integer', 'N', 'threads of the draft model; default: as many as -t'),
  ),
  draftCacheTypeK: flag(
    'spec-draft-type-k',
    '-ctkd --cache-type-k-draft',
    'string',
    'TYPE',
    "keys of the draft model's cache (f16)",
    CACHE_TYPES,
  ),
  draftCacheTypeV: flag(
    'spec-draft-type-v',
    '-ctvd --cache-type-v-draft',
    'string',
    'TYPE',
    "values of the draft model's cache (f16)",
    CACHE_TYPES,
  ),
  ngramSimpleN: flag(
    'spec-ngram-simple-size-n',
    '',
    'integer',
    'N',
    'ngram-simple: how many of the last tokens must have occurred before (12)',
  ),
  ngramSimpleM: flag('spec-ngram-simple-size-m', '', 'integer', 'N', 'ngram-simple: draft at most this many tokens (48)'),
  ngramSimpleMinHits: flag('spec-ngram-simple-min-hits', '', 'integer', 'N', 'ngram-simple: how often they must have occurred (1)'),
  ngramModMatch: flag('spec-ngram-mod-n-match', '', 'integer', 'N', 'ngram-mod: how many of the last tokens are looked up (24)'),
  ngramModMin: flag('spec-ngram-mod-n-min', '', 'integer', 'N', 'ngram-mod: ignore shorter drafts (48)'),
  ngramModMax: flag('spec-ngram-mod-n-max', '', 'integer', 'N', 'ngram-mod: draft at most this many tokens (64)'),
  temp: sampling('temperature', flag('temp', '--temperature', 'number', 'T', 'temperature; 0: always the most probable token (0.8)')),
  topK: sampling('topK', flag('top-k', '', 'integer', 'K', 'keep the K most probable tokens; 0: all (40)')),
  topP: sampling('topP', flag('top-p', '', 'number', 'P', 'keep the most probable tokens that add up to P; 1: all (0.95)')),
  minP: sampling('minP', flag('min-p', '', 'number', 'P', 'keep tokens at least P times as probable as the best; 0: all (0.05)')),
  typical: sampling('typicalP', flag('typical', '--typical-p', 'number', 'P', 'locally typical sampling; 1: off (1)')),
  topNSigma: sampling(
    'topNSigma',
    flag('top-n-sigma', '--top-nsigma', 'number', 'N', 'keep logits within N standard deviations of the best; -1: off (-1)'),
  ),
  xtcProbability: sampling('xtcProbability', flag('xtc-probability', '', 'number', 'P', 'XTC: how often likely tokens are left out (0)')),
  xtcThreshold: sampling('xtcThreshold', flag('xtc-threshold', '', 'number', 'P', 'XTC: a token is likely from P on (0.1)')),
  repeatPenalty: sampling('repeatPenalty', flag('repeat-penalty', '', 'number', 'X', 'make the last tokens less likely; 1: off (1)')),
  repeatLastN: sampling(
    'repeatLastN',
    flag('repeat-last-n', '', 'integer', 'N', 'how many of the last tokens the penalties look at; -1: all (64)'),
  ),
  presencePenalty: sampling(
    'presencePenalty',
    flag('presence-penalty', '', 'number', 'X', 'subtracted from the logit of every token that occurred (0)'),
  ),
  frequencyPenalty: sampling('frequencyPenalty', flag('frequency-penalty', '', 'number', 'X', 'the same, for each occurrence (0)')),
  dryMultiplier: sampling('dryMultiplier', flag('dry-multiplier', '', 'number', 'X', 'DRY repetition penalty; 0: off (0)')),
  dryBase: sampling('dryBase', flag('dry-base', '', 'number', 'X', 'DRY base (1.75)')),
  dryAllowedLength: sampling(
    'dryAllowedLength',
    flag('dry-allowed-length', '', 'integer', 'N', 'DRY: repetitions up to N tokens are free (2)'),
  ),
  dryPenaltyLastN: sampling(
    'dryPenaltyLastN',
    flag('dry-penalty-last-n', '', 'integer', 'N', 'DRY: tokens searched; 0: none, -1: all (64)'),
  ),
  drySequenceBreaker: sampling(
    'drySequenceBreakers',
    flag(
      'dry-sequence-breaker',
      '',
      'strings',
      'TEXT',
      'DRY: TEXT ends a repetition, in place of \\n : " *; none: nothing ends one; may be given several times',
    ),
  ),
  logitBias: sampling(
    'logitBias',
    flag(
      'logit-bias',
      '-l',
      'strings',
      'ID(+|-)BIAS',
      'added to the logit of a token: 15043+1, 15043-0.5, 15043-inf bans it; may be given several times',
    ),
  ),
  mirostat: sampling('mirostat', flag('mirostat', '', 'integer', 'N', 'Mirostat 1 or 2; 0: off (0)')),
  mirostatLr: sampling('mirostatEta', flag('mirostat-lr', '', 'number', 'X', 'Mirostat learning rate eta (0.1)')),
  mirostatEnt: sampling('mirostatTau', flag('mirostat-ent', '', 'number', 'X', 'Mirostat target entropy tau (5)')),
  dynatempRange: sampling('dynatempRange', flag('dynatemp-range', '', 'number', 'X', 'dynamic temperature range; 0: off (0)')),
  dynatempExp: sampling('dynatempExponent', flag('dynatemp-exp', '', 'number', 'X', 'dynamic temperature exponent (1)')),
  seed: sampling('seed', flag('seed', '-s', 'integer', 'N', 'seed of the sampler; -1: random (-1)')),
  samplers: flag(
    'samplers',
    '',
    'string',
    'NAME;...',
    'samplers in their order (penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)',
  ),
  samplerSeq: flag('sampler-seq', '--sampling-seq', 'string', 'LETTERS', 'the same, one letter each (edskypmxt)'),
  stop: flag('reverse-prompt', '-r', 'strings', 'TEXT', 'stop at this text; may be given several times'),
  ignoreEos: flag('ignore-eos', '', 'boolean', '', 'go on after the end-of-text token'),
  escape: toggle('escape', '-e', '--no-escape', 'read \\n, \\t, \\x41 ... in the prompt (on)'),
  warmup: loading('warmUp', toggle('warmup', '', '--no-warmup', 'optimise the kernels before the first token (on)')),
  displayPrompt: toggle('display-prompt', '', '--no-display-prompt', 'repeat the prompt in the output (on)'),
  build: loading(
    'build',
    flag('build', '', 'string', 'NAME', 'simd, relaxed or dotadd, each also with -threads; default: the best that runs', BUILDS),
  ),
  benchPrompt: flag('n-prompt', '-p', 'integers', 'N,...', 'prompt lengths to time; 0: none (512)'),
  benchGen: flag('n-gen', '-n', 'integers', 'N,...', 'numbers of generated tokens to time; 0: none (128)'),
  benchBoth: flag('prompt-gen', '-pg', 'strings', 'P,N', 'time a prompt of P and N generated tokens together; may be given several times'),
  benchDepth: flag('n-depth', '-d', 'integers', 'N,...', 'tokens already in the cache (0)'),

  benchThreads: flag('threads', '-t', 'integers', 'N,...', 'numbers of threads; default: all cores this process may use'),
  delay: flag('delay', '', 'integer', 'SECONDS', 'wait before each test (0)'),
  repetitions: flag('repetitions', '-r', 'integer', 'N', 'times each test runs (5)'),
  output: flag('output', '-o', 'string', 'FORMAT', 'md, json, jsonl or csv (md)', ['md', 'json', 'jsonl', 'csv']),
  chunks: flag('chunks', '', 'integer', 'N', 'measure at most this many windows; default: all'),
  klBase: flag(
    'kl-divergence-base',
    '--save-all-logits',
    'string',
    'FILE',
    'write the logits there, or with --kl-divergence compare with those in it',
  ),
  kl: flag('kl-divergence', '', 'boolean', '', 'compare with the logits of --kl-divergence-base'),
  imatrix: flag('imatrix', '', 'string', 'FILE', 'importance weights of the model (GGUF, as quantlet imatrix writes them)'),
  imatrixFile: flag('output', '-o --output-file', 'string', 'FILE', 'the file to write (imatrix.gguf)'),
  outputFormat: flag('output-format', '', 'string', 'FORMAT', 'gguf, or dat for old programs (gguf)', ['gguf', 'dat']),
  processOutput: flag('process-output', '', 'boolean', '', 'measure output.weight too'),
  experts: flag('experts', '', 'boolean', '', 'count how often each expert of a mixture is used over a text'),
  memory: flag(
    'memory',
    '',
    'boolean',
    '',
    'say how much memory the model takes, and for what, with the context and types of the cache that are given',
  ),
  ppl: toggle('ppl', '', '--no-ppl', 'compute the perplexity too (on)'),
  fromChunk: flag('chunk', '--from-chunk', 'integer', 'N', 'pass over the first N windows (0)'),
  parseText: flag('parse-special', '', 'boolean', '', 'read <|im_end|> and the like in the text as control tokens'),
  inFile: flag(
    'in-file',
    '',
    'strings',
    'FILE,...',
    'add what was measured before; may be given several times; without a text they are joined',
  ),
  outputFrequency: flag('output-frequency', '-ofreq', 'integer', 'N', 'write the file after every N windows, and at the end (10)'),
  saveFrequency: flag('save-frequency', '', 'integer', 'N', 'keep a copy FILE.at_WINDOWS after every N windows; 0: none (0)'),
  sparseFile: flag('output', '-o', 'string', 'FILE', 'the file to write'),
  hot: flag(
    'hot',
    '',
    'number',
    'X',
    'neurons that fire for at least this share of the tokens are computed for all of them; default: none',
  ),
  bundle: flag('bundle', '', 'boolean', '', 'write the two rows of a neuron as one, for --neuron-window: one read each'),
  heads: flag(
    'heads',
    '',
    'boolean',
    '',
    "write rows of attention's heads, too, which --attn-heads can leave out; without a text those alone",
  ),
  predictor: flag(
    'predictor',
    '',
    'integer',
    'RANK',
    'train predictors of the neurons that fire, of this rank; default: none, the gate says which',
  ),
  predictorSteps: flag('predictor-steps', '', 'integer', 'N', 'steps of 256 tokens that train each predictor (1500)'),
  recall: flag('recall', '', 'number', 'X', 'the share of the neurons that fire that predictors are to find: makes the threshold (0.99)'),
  r1: flag('r1', '', 'boolean', '', 'rotate the residual stream, with norm weights folded into the matrices behind them'),
  r2: flag('r2', '', 'boolean', '', 'rotate the values of each head, and back in attn_output'),
  r3: flag('r3', '', 'boolean', '', 'rotate queries and keys as the model runs'),
  r4: flag('r4', '', 'boolean', '', 'rotate what ffn_down reads as the model runs, and back in ffn_down'),
  learn: flag('learn', '', 'string', 'FILE', 'learn R1 and R2 on a text (SpinQuant), for Q4_0: takes minutes'),
  learnSteps: flag('learn-steps', '', 'integer', 'N', 'steps of 1024 tokens (100)'),
  learnRate: flag('learn-rate', '', 'number', 'X', 'angle of the first step, in radians (0.03)'),
  checkpoint: flag('checkpoint', '', 'string', 'FILE', 'save what was learned now and then, and go on from there if the file exists'),
  rotationSeed: flag('seed', '-s', 'integer', 'N', 'seed of the random signs (0)'),
  pure: flag('pure', '', 'boolean', '', 'the same type for all matrices, no mix'),
  allowRequantize: flag('allow-requantize', '', 'boolean', '', 'also tensors that are quantised already; costs quality'),
  leaveOutputTensor: flag('leave-output-tensor', '', 'boolean', '', 'keep output.weight as it is'),
  outputTensorType: flag('output-tensor-type', '', 'string', 'TYPE', 'ggml type of output.weight: q8_0, say'),
  tokenEmbeddingType: flag('token-embedding-type', '', 'string', 'TYPE', 'ggml type of the token embeddings'),
  tensorType: flag(
    'tensor-type',
    '',
    'strings',
    'NAME=TYPE',
    'ggml type of tensors whose name matches the pattern: attn_v=q6_K; may be given several times',
  ),
  turbo: loading(
    'turbo',
    toggle(
      'turbo',
      '',
      '--no-turbo',
      '256-bit code on Node 24 and newer with AVX2, with a warning where it is not available (on, without the warning)',
    ),
  ),
  verbose: flag('verbose', '-v --log-verbose', 'boolean', '', 'say on stderr whether turbo is on, and which flags have no effect'),
  quiet: flag('log-disable', '', 'boolean', '', 'no summary and no hints on stderr'),
  perf: toggle('perf', '', '--no-perf', 'a summary with speeds on stderr (on)'),
  showTimings: toggle('show-timings', '', '--no-show-timings', 'speeds on stderr after each answer (off)'),
  color: flag('color', '-co', 'string', '[on|off|auto]', "dim the model's reasoning; auto: on a terminal, unless NO_COLOR is set (auto)", [
    'on',
    'off',
    'auto',
  ]),
  ropeScaling: flag('rope-scaling', '', 'string', 'TYPE', "none, linear or yarn; default: what the model's file says", [
    'none',
    'linear',
    'yarn',
  ]),
  ropeScale: flag('rope-scale', '', 'number', 'N', 'stretch positions so that N times the context fits'),
  ropeFreqBase: flag('rope-freq-base', '', 'number', 'N', "base of the rotary frequencies; default: the file's"),
  ropeFreqScale: flag('rope-freq-scale', '', 'number', 'X', 'the same as --rope-scale 1/X'),
  yarnOrigCtx: flag('yarn-orig-ctx', '', 'integer', 'N', 'YaRN: the context that the model was first trained for'),
  yarnExtFactor: flag(
    'yarn-ext-factor',
    '',
    'number',
    'X',
    'YaRN: how much short wavelengths stay as they were trained; 0: not at all (1 with --rope-scaling yarn)',
  ),
  yarnAttnFactor: flag('yarn-attn-factor', '', 'number', 'X', 'factor of the attention magnitude where YaRN does not mix (1)'),
  yarnBetaFast: flag(
    'yarn-beta-fast',
    '',
    'number',
    'X',
    'YaRN: dimensions that turn more often in the original context stay as they are (32)',
  ),
  yarnBetaSlow: flag('yarn-beta-slow', '', 'number', 'X', 'YaRN: dimensions that turn less often are stretched whole (1)'),
  overrideKv: flag(
    'override-kv',
    '',
    'strings',
    'KEY=TYPE:VALUE,...',
    "replace metadata of the model's file; TYPE is int, float, bool or str; may be given several times",
  ),
  hf: flag(
    'hf-repo',
    '-hf -hfr',
    'string',
    'USER/REPO[:QUANT]',
    'a model from the Hugging Face hub, downloaded once (QUANT: Q4_K_M, or the first model if there is none)',
  ),
  hfFile: flag('hf-file', '-hff', 'string', 'FILE', 'this file of the repository of -hf, in place of QUANT'),
  hfToken: flag('hf-token', '-hft', 'string', 'TOKEN', 'access token of the hub; default: HF_TOKEN of the environment'),
  offline: flag('offline', '', 'boolean', '', 'use only what was downloaded before'),
  lora: flag('lora', '', 'strings', 'FILE,...', 'LoRA adapters (GGUF) to apply; may be given several times'),
  loraScaled: flag('lora-scaled', '', 'strings', 'FILE:SCALE,...', 'the same with a scale each: style.gguf:0.5'),
  includeWeights: flag(
    'include-weights',
    '',
    'strings',
    'NAME',
    'use --imatrix only for tensors whose names contain this; may be given several times',
  ),
  excludeWeights: flag(
    'exclude-weights',
    '',
    'strings',
    'NAME',
    'do not use --imatrix for tensors whose names contain this; may be given several times',
  ),
  tensorTypeFile: flag('tensor-type-file', '', 'string', 'FILE', 'the same from a file, one per line'),
  dryRun: flag('dry-run', '', 'boolean', '', 'say what would be written and write nothing'),
  split: flag('split', '', 'boolean', '', 'split the model (on)'),
  merge: flag('merge', '', 'boolean', '', 'join the parts'),
  splitMaxTensors: flag('split-max-tensors', '', 'integer', 'N', 'at most this many tensors in a part (128)'),
  splitMaxSize: flag('split-max-size', '', 'string', 'N(M|G)', 'at most this many megabytes or gigabytes in a part'),
  noTensorFirstSplit: flag('no-tensor-first-split', '', 'boolean', '', 'the first part has only metadata'),
  sha1: flag('sha1', '', 'boolean', '', 'SHA-1'),
  sha256: flag('sha256', '', 'boolean', '', 'SHA-256 (on, unless another kind is named)'),
  uuid: flag('uuid', '', 'boolean', '', 'a UUID of version 5 for the model'),
  hashAll: flag('all', '', 'boolean', '', 'SHA-1 and SHA-256'),
  noLayer: flag('no-layer', '', 'boolean', '', 'the model as a whole, not each tensor'),
  check: flag('check', '-c', 'string', 'MANIFEST', 'compare with hashes that were printed before'),
  batchInput: flag('input', '-i', 'string', 'FILE', "OpenAI's batch lines, one request each; -: standard input"),
  batchOutput: flag('output', '-o', 'string', 'FILE', 'a line for each answer, as they come; -: standard output'),
  errorsFile: flag('errors', '', 'string', 'FILE', 'what could not be answered, with line numbers; default: among the answers'),
  shard: flag(
    'shard',
    '',
    'string',
    'I/N',
    'every Nth line from number I on, counted from 0; /N: I is JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID; default: in a Slurm array its task, else all lines',
  ),
  resume: flag('resume', '', 'boolean', '', 'keep what the output has and do the rest'),
  host: flag('host', '', 'string', 'ADDRESS', 'address to listen on (127.0.0.1)'),
  port: flag('port', '', 'integer', 'N', 'port to listen on; 0: any free one (8080)'),
  parallel: flag('parallel', '-np', 'integer', 'N', 'answers at the same time; each has a context of its own (4)'),
  alias: flag('alias', '-a', 'string', 'NAME', "the model's name in lists and answers; default: its file's"),
  apiKey: flag('api-key', '', 'strings', 'KEY', 'a key that clients must send; may be given several times (LLAMA_API_KEY)'),
  apiKeyFile: flag('api-key-file', '', 'string', 'FILE', 'keys, one per line'),
  cors: flag(
    'cors',
    '--cors-origins',
    'strings',
    'ORIGIN',
    'pages of these origins may read answers: a list with commas, or given several times; localhost: those of this machine, at any port; *: all; none (localhost)',
  ),
  timeout: flag('timeout', '-to', 'integer', 'SECONDS', 'give up a client that sends or takes nothing for this time; 0: never (60)'),
  answerTimeout: named(
    'timeoutMs',
    flag('answer-timeout', '', 'integer', 'SECONDS', 'at most this long for a whole answer, waiting included; 0: no limit (3600)'),
  ),
  ssePingInterval: flag('sse-ping-interval', '', 'integer', 'SECONDS', 'ping in streams that are silent for this time; -1: never (30)'),
  maxQueue: flag('max-queue', '', 'integer', 'N', 'at most this many requests wait; more get status 429 (64)'),
  maxBody: flag('max-body', '', 'integer', 'BYTES', 'largest size of a request (10485760)'),
  maxBuffered: flag(
    'max-buffered',
    '',
    'integer',
    'BYTES',
    'largest size of all unanswered requests together; more get status 503 (67108864)',
  ),
  maxText: flag('max-text', '', 'integer', 'N', 'at most this many characters in all texts of a request (1048576)'),
  maxMessages: flag('max-messages', '', 'integer', 'N', 'at most this many messages in a conversation (4096)'),
  bodyTimeout: flag('body-timeout', '', 'integer', 'SECONDS', 'a request must arrive within this time (30)'),
  allowedHosts: flag(
    'allowed-hosts',
    '',
    'strings',
    'HOST',
    'serve requests for this host (a name or an address, without a port) too; *: any; may be given several times; default: on 127.0.0.1 and ::1 the names of this machine, elsewhere any',
  ),
  parseSpecial: flag(
    'parse-special',
    '',
    'boolean',
    '',
    'read <|im_end|> and the like in messages as control tokens: whoever writes one can then forge turns',
  ),
  accessLog: flag('access-log', '', 'boolean', '', 'a line on stderr for every request'),
  noWebui: flag('no-webui', '--no-ui', 'boolean', '', 'no page at /'),
  path: flag('path', '', 'string', 'DIR', 'serve the files of this folder at /, in place of the page'),
  apiPrefix: flag('api-prefix', '', 'string', 'PATH', 'path before all others: /api'),
  sslKeyFile: flag('ssl-key-file', '', 'string', 'FILE', 'private key (PEM): the server speaks HTTPS'),
  sslCertFile: flag('ssl-cert-file', '', 'string', 'FILE', 'certificate (PEM), followed by its intermediate certificates'),
  metrics: flag('metrics', '', 'boolean', '', 'serve /metrics (on)'),
  noMetrics: flag('no-metrics', '', 'boolean', '', 'no /metrics'),
  slots: flag('slots', '', 'boolean', '', 'serve GET /slots (on)'),
  noSlots: flag('no-slots', '', 'boolean', '', 'no GET /slots'),
  props: flag('props', '', 'boolean', '', 'answer POST /props, which has nothing to set'),
  slotSavePath: flag('slot-save-path', '', 'string', 'DIR', 'clients may save sequences of the cache in this folder, and restore them'),
  batchDir: flag(
    'batch-dir',
    '',
    'string',
    'DIR',
    'keep files and batches in this folder: /v1/files and /v1/batches; for one server at a time',
  ),
  maxFile: flag('max-file', '', 'integer', 'BYTES', 'largest size of an uploaded file (209715200)'),
  maxFiles: flag('max-files', '', 'integer', 'BYTES', 'no more files are taken where all together have so many bytes (10737418240)'),
  prefillAssistant: toggle(
    'prefill-assistant',
    '',
    '--no-prefill-assistant',
    "an assistant's message at the end of a conversation is how the answer begins (on)",
  ),
  spmInfill: flag('spm-infill', '', 'boolean', '', '/infill puts the suffix before the prefix, which some models for code want'),
  embeddings: loading('embeddings', flag('embeddings', '--embedding', 'boolean', '', 'make vectors with a model that could also generate')),
  reranking: flag('reranking', '--rerank', 'boolean', '', 'the model ranks documents; one that does not is refused'),
  modelsDir: flag('models-dir', '', 'string', 'DIR', 'serve all GGUF models of a folder; each is loaded when a request names it'),
  modelsMax: flag(
    'models-max',
    '',
    'integer',
    'N',
    'at most this many models are loaded at the same time; the least recently used one makes room (4)',
  ),
  modelsMemory: flag('models-memory', '', 'integer', 'BYTES', 'at most this much memory for all loaded models; default: no limit'),
  chatTemplate: named(
    'chatTemplate',
    flag(
      'chat-template',
      '',
      'string',
      'NAME|JINJA',
      "chat template in place of the model's: one of llama.cpp's by its name (chatml, llama3, gemma ...), or Jinja",
      Object.keys(NAMED_TEMPLATES),
    ),
  ),
  chatTemplateFile: flag('chat-template-file', '', 'string', 'FILE', 'the same from a file'),
  chatTemplateKwargs: flag(
    'chat-template-kwargs',
    '',
    'string',
    'JSON',
    'further variables of the chat template: {"enable_thinking": false}',
  ),
  reasoning: flag('reasoning', '-rea', 'string', '[on|off|auto]', 'tell the template whether the model should reason first (auto)', [
    'on',
    'off',
    'auto',
  ]),
  reasoningFormat: flag(
    'reasoning-format',
    '',
    'string',
    'FORMAT',
    'auto or deepseek: show reasoning apart from the answer; none: leave it in the answer as the model wrote it; hidden: leave it out (auto)',
    ['auto', 'deepseek', 'none', 'hidden'],
  ),
  reasoningBudget: flag('reasoning-budget', '', 'integer', 'N', 'tokens of reasoning at most; 0: none; -1: no limit (-1)'),
  reasoningBudgetMessage: flag(
    'reasoning-budget-message',
    '',
    'string',
    'TEXT',
    'what is put in the place of reasoning that is cut off, before its end (nothing)',
  ),
  reasoningEffort: flag('reasoning-effort', '', 'string', 'LEVEL', 'how much to reason, for templates that know levels: low, medium, high'),
  system: flag('system-prompt', '-sys', 'string', 'TEXT', 'system message of the conversation'),
  systemFile: flag('system-prompt-file', '-sysf', 'string', 'FILE', 'the same from a file'),
  conversation: toggle(
    'conversation',
    '-cnv',
    '-no-cnv --no-conversation',
    'have a conversation, as quantlet chat does; -i, -st, -sys and the flags about chat templates imply it',
  ),
  interactive: flag('interactive', '-i -if --interactive-first', 'boolean', '', 'ask for messages, also after the one of -p'),
  multilineInput: flag('multiline-input', '-mli', 'boolean', '', 'all that is piped in is one message, not one a line'),
  singleTurn: flag('single-turn', '-st', 'boolean', '', 'end after one answer'),
  keep: flag('keep', '', 'integer', 'N', 'prompt tokens that --context-shift keeps; -1: all (0)'),
  contextShift: toggle('context-shift', '', '--no-context-shift', 'when the context is full, drop the older half and go on (off)'),
  special: flag('special', '-sp', 'boolean', '', 'show control tokens in the output'),
  grammar: flag('grammar', '', 'string', 'GBNF', 'grammar that the text follows'),
  grammarFile: flag('grammar-file', '', 'string', 'FILE', 'the same from a file'),
  jsonSchema: flag('json-schema', '-j', 'string', 'SCHEMA', 'the text is JSON that fits this JSON schema; {}: any object'),
  jsonSchemaFile: flag('json-schema-file', '-jf', 'string', 'FILE', 'the same from a file'),
  pooling: flag('pooling', '', 'string', 'TYPE', 'none, mean, cls, last or rank; default: what the file says', [
    'none',
    'mean',
    'cls',
    'last',
    'rank',
  ]),
  embdNormalize: flag('embd-normalize', '', 'integer', 'N', '-1: none, 0: largest to 32760, 1: taxicab, 2: length one, N: p-norm (2)'),
  embdOutputFormat: flag(
    'embd-output-format',
    '',
    'string',
    'FORMAT',
    'array, json, json+ (with cosines) or raw; default: a readable form',
    ['array', 'json', 'json+', 'raw'],
  ),
  embdSeparator: flag('embd-separator', '', 'string', 'TEXT', 'what separates texts (a new line)'),
  clsSeparator: flag('cls-separator', '', 'string', 'TEXT', 'what separates a query from its document (a tab)'),
  promptCache: flag('prompt-cache', '', 'string', 'FILE', 'start from the state of the prompt in this file, and save it there at the end'),
  promptCacheAll: flag('prompt-cache-all', '', 'boolean', '', 'save the generated text too, not only the prompt'),
  promptCacheRo: flag('prompt-cache-ro', '', 'boolean', '', 'read the file, do not write it'),
  ids: flag('ids', '', 'boolean', '', 'print the ids only: [1, 2, 3]'),
  noBos: flag('no-bos', '', 'boolean', '', 'without the beginning-of-text token'),
  noParseSpecial: flag('no-parse-special', '', 'boolean', '', 'read <|im_start|> and the like as plain text'),
  stdin: flag('stdin', '', 'boolean', '', 'read the text from standard input'),
  showCount: flag('show-count', '', 'boolean', '', 'print the number of tokens'),
  json: flag('json', '', 'boolean', '', 'print one JSON object'),
  help: flag('help', '-h --usage', 'boolean', '', 'show this help'),
} as const satisfies { readonly [key: string]: Flag };

export type FlagKey = keyof typeof FLAGS;

/** Flags that set options of the sampler or of loadModel. */
type SamplingFlag = { [K in FlagKey]: (typeof FLAGS)[K] extends { readonly sampler: string } ? K : never }[FlagKey];
type LoadingFlag = { [K in FlagKey]: (typeof FLAGS)[K] extends { readonly load: string } ? K : never }[FlagKey];
export type LoadValues = Values<LoadingFlag>;
const keysWith = (field: 'sampler' | 'load'): FlagKey[] => (Object.keys(FLAGS) as FlagKey[]).filter((key) => field in FLAGS[key]);
export const SAMPLING_FLAGS = keysWith('sampler') as readonly SamplingFlag[];
const LOADING_FLAGS = keysWith('load') as readonly LoadingFlag[];

const given = (entries: readonly (readonly [string, unknown])[]): { [option: string]: unknown } =>
  Object.fromEntries(entries.filter(([, value]) => value !== undefined));
/** Values of the flags, by the names of the options that they set. */
export const samplerValues = (values: Values<SamplingFlag>): { [option: string]: unknown } =>
  given(SAMPLING_FLAGS.map((key) => [FLAGS[key].sampler, values[key]]));
export const loadValues = (values: LoadValues): LoadOptions => given(LOADING_FLAGS.map((key) => [FLAGS[key].load, values[key]]));

interface ValueTypes {
  string: string;
  strings: string[];
  number: number;
  integer: number;
  integers: number[];
  boolean: boolean;
}
/** Parsed values, by the keys of the table. */
export type Values<K extends FlagKey> = { [P in K]?: ValueTypes[(typeof FLAGS)[P]['type']] };

/** All spellings of a flag. */
export const spellingsOf = (f: Flag): readonly string[] => [...f.aliases, `--${f.name}`, ...(f.off ?? [])];

/** Flags for generating text, common to all of llama.cpp's generating tools. */
export const TEXT_FLAGS = [
  'predict',
  ...SAMPLING_FLAGS,
  'samplers',
  'samplerSeq',
  'grammar',
  'grammarFile',
  'jsonSchema',
  'jsonSchemaFile',
  'ignoreEos',
] as const satisfies readonly FlagKey[];

/** Replaces option names in a library error by the flags that set them. */
export function flagNames(said: string): string {
  const message = said.replace(/^(loadModel|generate|chat): (?=\w+ is )/, ''); // the flag already says which function
  const named = (Object.values(FLAGS) as (Flag & { sampler?: string; load?: string; option?: string })[]).flatMap((f) => [
    [f.sampler ?? f.load ?? f.option ?? '', `--${f.name}`] as const,
  ]);
  return named
    .filter(([option]) => /^[a-z]+[A-Z]/.test(option) || message.startsWith(`${option} is `))
    .reduce((text, [option, flag]) => text.replaceAll(new RegExp(`(?<![\\w-])${option}\\b`, 'g'), flag), message);
}

/** The flag given last. If several flags mean the same, the last one wins. */
export const lastOf = <K extends FlagKey>(values: Values<K>, ...keys: readonly K[]): K | undefined =>
  Object.keys(values).findLast((key): key is K => (keys as readonly string[]).includes(key));

/**
 * Breaks text at spaces into lines of at most `columns`. All lines but the first are indented by
 * `indent` spaces plus the leading spaces of the text.
 */
export function wrapped(text: string, columns: number, indent: number): string {
  const lead = /^ */.exec(text)![0].length;
  const room = columns - indent - lead;
  if (text.length <= room + lead || room < 20) return text; // narrower columns would not be more readable
  const lines = text.match(new RegExp(`\\S.{0,${room - 1}}(?= |$)|\\S+`, 'g'))!;
  return ' '.repeat(lead) + lines.join(`\n${' '.repeat(indent + lead)}`);
}

/** Help of a command's flags and their values, in lines of at most `columns`. */
export function flagHelp(keys: readonly FlagKey[], defaults: { readonly [key in FlagKey]?: string } = {}, columns = Infinity): string {
  const left = keys.map((k) => {
    const f: Flag = FLAGS[k];
    return `  ${[...[...f.aliases, `--${f.name}`].sort((a, b) => a.length - b.length), ...(f.off ?? [])].join(', ')}${f.value ? ` ${f.value}` : ''}`;
  });
  const width = Math.min(36, Math.max(...left.map((s) => s.length)) + 2);
  return keys
    .map(
      (k, i) =>
        (left[i].length < width ? left[i].padEnd(width) : `${left[i]}\n${' '.repeat(width)}`) +
        wrapped(FLAGS[k].help + (defaults[k] === undefined ? '' : ` (${defaults[k]})`), columns, width),
    )
    .join('\n');
}
