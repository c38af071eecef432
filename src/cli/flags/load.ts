/** Flags for loading a model: threads, memory, precision, kernels. */
import { KV_TYPES } from '../../graph/attention-ops.ts';
import { BUILDS } from '../../wasm/load.ts';
import { cores, flag, loading, toggle, type Flag } from './flag.ts';

export const LOAD_ROWS = {
  threads: loading('threads', cores(flag('threads', '-t', 'integer', 'N', 'threads; -1, the default: all cores this process may use'))),
  threadsBatch: cores(
    flag('threads-batch', '-tb', 'integer', 'N', 'the same as -t, which takes precedence: prompts and generation share threads'),
  ),
  ctx: loading('contextLength', flag('ctx-size', '-c', 'integer', 'N', 'tokens of context; 0: the length that the model was trained for')),
  batch: loading(
    'batchSize',
    flag('batch-size', '-b -ub --ubatch-size', 'integer', 'N', 'at most this many prompt tokens in one step (512)'),
  ),
  cacheTypeK: loading(
    'cacheTypeK',
    flag('cache-type-k', '-ctk', 'string', 'TYPE', `keys of the cache: ${KV_TYPES.join(', ')} (f16)`, KV_TYPES),
  ),
  cacheTypeV: loading('cacheTypeV', flag('cache-type-v', '-ctv', 'string', 'TYPE', 'values of the cache, the same types (f16)', KV_TYPES)),
  cacheRotation: loading(
    'cacheRotation',
    toggle(
      'cache-rotation',
      '',
      '--no-cache-rotation',
      'rotate quantised caches, which reduces their loss; LLAMA_ATTN_ROT_DISABLE=1 turns it off, too (on)',
    ),
  ),
  actBits: loading(
    'actBits',
    flag('act-bits', '', 'integer', 'N', 'bits of activations in quantised products: 8, or 4 to measure the loss (8)'),
  ),
  iqWeights: loading(
    'iqWeights',
    flag(
      'iq-weights',
      '',
      'string',
      'HOW',
      'form of IQ1 to IQ3 and TQ1_0 in memory: compact (as in the file), fast (4.3 bits a weight, TQ1_0 2.1; twice as fast) or auto: fast if the model then needs at most half of the free memory (auto)',
      ['auto', 'compact', 'fast'],
    ),
  ),
  sparseThreshold: loading(
    'sparseThreshold',
    flag('sparse-threshold', '', 'number', 'X', "lowest predictor score for which a neuron is computed (the file's, or 0)"),
  ),
  attnHeads: loading(
    'attnHeads',
    flag('attn-heads', '', 'number', 'X', 'fraction of attention heads to use for generated tokens, most important first (all)'),
  ),
  weightsMemory: flag(
    'weights-memory',
    '',
    'string',
    'SIZE',
    'most memory for weights, like 2G; layers that do not fit are read from the file for every step',
  ),
  neuronWindow: loading(
    'neuronWindow',
    flag('neuron-window', '', 'integer', 'N', 'read rows of neurons from the file as they fire, and keep the rows of the last N tokens'),
  ),
  ctxCheckpoints: loading(
    'ctxCheckpoints',
    flag(
      'ctx-checkpoints',
      '-ctxcp --swa-checkpoints',
      'integer',
      'N',
      'saved states of recurrent layers that a conversation can return to (8)',
    ),
  ),
  checkpointMinStep: loading(
    'checkpointMinStep',
    flag('checkpoint-min-step', '-cms', 'integer', 'N', 'least number of tokens between two of these states (64)'),
  ),
  warmup: loading('warmUp', toggle('warmup', '', '--no-warmup', 'optimise the kernels before the first token (on)')),
  turbo: loading(
    'turbo',
    toggle('turbo', '', '--no-turbo', 'use 256-bit code: Node 24 and newer, with AVX2; if given, warns if it is not available (on)'),
  ),
  build: loading(
    'build',
    flag('build', '', 'string', 'NAME', 'simd, relaxed or dotadd, each also with -threads; default: the best that runs', BUILDS),
  ),
  parallel: flag('parallel', '-np', 'integer', 'N', 'answers at the same time; each has a context of its own (4)'),
  embeddings: loading('embeddings', flag('embeddings', '--embedding', 'boolean', '', 'make vectors with a model that could also generate')),
} as const satisfies { readonly [key: string]: Flag };
