/** Metadata keys that all architectures share, read and checked once. */
import { QuantletError, tell } from '../errors.ts';
import { getBool, getCount, getCountPerLayer, getNumber, getString, getStrings, sameCount } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { readRotations, type OnlineRotations } from './rotation.ts';
import { ROPE_DEFAULTS, type RopeParams } from './rope-table.ts';

/** Method that reduces a text's vectors to one: llama.cpp's pooling types. */
export type Pooling = 'none' | 'mean' | 'cls' | 'last' | 'rank';
/** Architectures that are always encoders, even if their files do not say so. */
const ENCODERS: ReadonlySet<string> = new Set(['gemma-embedding', 't5encoder']);
/** Architectures with encoder and decoder. */
const ENCODER_DECODERS: ReadonlySet<string> = new Set(['t5']);
/** Norms of architectures whose epsilon key does not show the kind of norm. */
const NORMS: ReadonlyMap<string, HParams['norm']> = new Map([
  ['olmo', 'plain'],
  ['nemotron_h', 'rms'],
  ['nemotron_h_moe', 'rms'],
]);
/**
 * OPT's table of positions starts with this number of rows that are never used (they were for
 * padding). Its files may lack the epsilon, which is then OPT_EPS.
 */
export const OPT_POSITIONS = 2;
const OPT_EPS = 1e-5;
const POOLING: readonly Pooling[] = ['none', 'mean', 'cls', 'last', 'rank'];

/** Parameters of a model that every architecture has. */
export interface HParams {
  readonly arch: string;
  readonly nVocab: number;
  readonly nCtxTrain: number;
  readonly nEmbd: number;
  /**
   * Layers of the model itself, without the MTP layers after them, which predict further tokens.
   * Models with encoder and decoder: layers of the encoder.
   */
  readonly nLayer: number;
  /**
   * Models with encoder and decoder (T5): the decoder's layers, and its first token (default: bos).
   */
  readonly decoder: { readonly nLayer: number; readonly start: number | undefined } | undefined;
  readonly nHead: number;
  /** KV heads of layers with attention (recurrent layers have none). */
  readonly nHeadKv: number;
  /** A layer without KV heads is recurrent. */
  isRecurrent(il: number): boolean;
  /** Dimensions of a query and key head. */
  readonly headDim: number;
  /** Dimensions of a value head. */
  readonly valueDim: number;
  /** Neurons of a feed-forward; of the first layer if layers differ. */
  readonly nFf: number;
  /** Experts of a layer; 0: no experts. */
  readonly nExpert: number;
  /** Experts that a token goes through, for each layer. */
  readonly nExpertUsed: readonly number[];
  /** Groups of experts, and groups that a token's experts may come from; 0 or 1: no groups. */
  readonly nExpertGroups: number;
  readonly nExpertGroupsUsed: number;
  /** Neurons of an expert. */
  readonly nFfExpert: number;
  /**
   * RMS norm, layer norm, or layer norm without weights. The epsilon's key distinguishes the first
   * two.
   */
  readonly norm: 'rms' | 'layer' | 'plain';
  readonly eps: number;
  readonly rope: RopeParams;
  readonly rotations: OnlineRotations;
  /** false: every token of a sequence attends to all others (encoders). */
  readonly causal: boolean;
  /** Pooling stated by the file; 'none' for models that do not make embeddings. */
  readonly pooling: Pooling;
}

/** @throws ERR_MISSING_METADATA, ERR_GGUF_INVALID naming the key */
export function readHParams(gguf: GGUF): HParams {
  const arch = getString(gguf, 'general.architecture');
  const key = (name: string): string => `${arch}.${name}`;
  const count = (name: string, fallback?: number, least = 1, most?: number): number => getCount(gguf, key(name), fallback, least, most);
  const nEmbd = count('embedding_length');
  // Recurrent layers have no KV heads. Models with only recurrent layers may lack all keys of
  // heads.
  const isRecurrent = ['ssm.conv_kernel', 'shortconv.l_cache'].some((name) => gguf.metadata.has(key(name)));
  const nBlocks = count('block_count', undefined, 1, 4096);
  const nLayer = nBlocks - count('nextn_predict_layers', 0, 0, nBlocks - 1);
  const perLayer = (name: string): readonly number[] => getCountPerLayer(gguf, key(name), nLayer);
  const heads = perLayer('attention.head_count');
  const nHead = sameCount(gguf, 'number of heads', heads);
  if (nHead === 0 && !isRecurrent) count('attention.head_count', undefined, 1);
  // PowerInfer's converter counts the unused rows of OPT's table, too.
  const positions = arch === 'opt' ? gguf.tensors.get('position_embd.weight')?.ne[1] : undefined;
  const nCtxTrain = Math.min(count('context_length'), positions === undefined ? Infinity : Math.max(1, positions - OPT_POSITIONS));
  const headsKv = gguf.metadata.has(key('attention.head_count_kv')) ? perLayer('attention.head_count_kv') : heads;
  const attending = isRecurrent ? headsKv.filter((n) => n > 0) : headsKv;
  const nHeadKv = attending.includes(0) ? 0 : sameCount(gguf, 'number of KV heads', attending);
  if (attending.length > 0 && (nHeadKv < 1 || nHead % nHeadKv !== 0))
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key('attention.head_count')} is ${nHead} and head_count_kv ${nHeadKv}; expected the first to be a multiple of the second`,
    );
  if (attending.length > 0 && !gguf.metadata.has(key('attention.key_length')) && nEmbd % nHead !== 0)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key('embedding_length')} is ${nEmbd}, which the ${nHead} heads do not divide, and there is no ${key('attention.key_length')}`,
    );
  const headDim = count('attention.key_length', Math.floor(nEmbd / Math.max(nHead, 1)));
  const valueDim = count('attention.value_length', headDim);
  const nDims = count('rope.dimension_count', headDim, 0);
  if (nDims > headDim)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key('rope.dimension_count')} is ${nDims}; expected an even number up to the head's ${headDim}`,
    );
  const nFf = perLayer('feed_forward_length')[0];
  const rms = gguf.metadata.has(key('attention.layer_norm_rms_epsilon'));
  const scaling = ropeScalingOf(gguf, key('rope.scaling.type'));
  const factor = scaling === 'none' ? 1 : getNumber(gguf, key('rope.scaling.factor'), getNumber(gguf, key('rope.scale_linear'), 1)) || 1;
  const extFactor = getNumber(gguf, key('rope.scaling.yarn_ext_factor'), scaling === 'yarn' ? 1 : 0);
  const magnitude = (logMul: number): number => (factor <= 1 ? 1 : 1 + 0.1 * logMul * Math.log(factor));
  // As llama_context does for YaRN. ropeTable() multiplies by 1 + 0.1 ln(factor), and the last
  // divisor cancels that. The quotient before it is the magnitude over the one that the file's log
  // multiplier implies; DeepSeek 2 uses the multiplier for both, so the quotient is 1.
  const logMul = getNumber(gguf, key('rope.scaling.yarn_log_multiplier'), 0);
  const size =
    extFactor === 0
      ? getNumber(gguf, key('rope.scaling.yarn_attn_factor'), 1)
      : magnitude(arch === 'deepseek2' && logMul !== 0 ? logMul : 1) / magnitude(logMul) / (1 + 0.1 * Math.log(factor));
  return {
    arch,
    nCtxTrain,
    nEmbd,
    nLayer,
    decoder: ENCODER_DECODERS.has(arch) ? readDecoder(gguf, arch, nLayer) : undefined,
    nHead,
    nHeadKv,
    isRecurrent: (il) => headsKv[il] === 0,
    headDim,
    valueDim,
    // As llama.cpp, vocab_size counts only without a list of tokens: converters leave outdated
    // numbers in it.
    nVocab: getStrings(gguf, 'tokenizer.ggml.tokens', []).length || count('vocab_size'),
    nFf,
    ...readExperts(gguf, arch, nLayer, nFf),
    norm: NORMS.get(arch) ?? (rms ? 'rms' : 'layer'),
    eps: getNumber(
      gguf,
      key(rms ? 'attention.layer_norm_rms_epsilon' : 'attention.layer_norm_epsilon'),
      arch === 'opt' ? OPT_EPS : undefined,
    ),
    rope: {
      ...ROPE_DEFAULTS,
      nDims,
      freqBase: getNumber(gguf, key('rope.freq_base'), 10000),
      freqScale: 1 / factor,
      extFactor,
      attnFactor: getNumber(gguf, key('rope.scaling.attn_factor'), 1) * size,
      betaFast: getNumber(gguf, key('rope.scaling.yarn_beta_fast'), ROPE_DEFAULTS.betaFast),
      betaSlow: getNumber(gguf, key('rope.scaling.yarn_beta_slow'), ROPE_DEFAULTS.betaSlow),
      nCtxOrig: count('rope.scaling.original_context_length', nCtxTrain),
    },
    rotations: readRotations(gguf, headDim, nFf),
    causal: !ENCODERS.has(arch) && getBool(gguf, key('attention.causal'), true),
    pooling: POOLING[getCount(gguf, key('pooling_type'), 0, 0, POOLING.length - 1)],
  };
}

const ROPE_SCALINGS: readonly string[] = ['none', 'linear', 'yarn', 'longrope'];

/**
 * Method of extending the context past the trained one.
 * @throws ERR_UNSUPPORTED_ARCH for a method that llama.cpp does not have either
 */
function ropeScalingOf(gguf: GGUF, key: string): string {
  const scaling = getString(gguf, key, 'linear');
  if (ROPE_SCALINGS.includes(scaling)) return scaling;
  throw new QuantletError(
    'ERR_UNSUPPORTED_ARCH',
    `metadata "${key}" is ${tell(scaling)}; quantlet runs ${ROPE_SCALINGS.join(', ')}: set one of these with overrideKv if the model is made for it`,
  );
}

function readDecoder(gguf: GGUF, arch: string, nLayer: number): HParams['decoder'] {
  const start = `${arch}.decoder_start_token_id`;
  return {
    nLayer: getCount(gguf, `${arch}.decoder_block_count`, nLayer, 1, 4096),
    start: gguf.metadata.has(start) ? getCount(gguf, start) : undefined,
  };
}

type ExpertParams = Pick<HParams, 'nExpert' | 'nExpertUsed' | 'nExpertGroups' | 'nExpertGroupsUsed' | 'nFfExpert'>;

/** @throws ERR_GGUF_INVALID if a token would use no experts, or more than there are */
function readExperts(gguf: GGUF, arch: string, nLayer: number, nFf: number): ExpertParams {
  const key = (name: string): string => `${arch}.${name}`;
  const refuse = (name: string, found: number, expected: string): never => {
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `${key(name)} is ${found}; expected ${expected}: the file is damaged, or its metadata was changed`,
    );
  };
  const nExpert = getCount(gguf, key('expert_count'), 0);
  const nExpertUsed = getCountPerLayer(gguf, key('expert_used_count'), nLayer, 0);
  const nExpertGroups = getCount(gguf, key('expert_group_count'), 0);
  const nExpertGroupsUsed = getCount(gguf, key('expert_group_used_count'), 0);
  if (nExpert > 0) {
    const wrong = nExpertUsed.find((n) => !Number.isInteger(n) || n < 1 || n > nExpert);
    if (wrong !== undefined) refuse('expert_used_count', wrong, `1 to ${nExpert}, the number of experts`);
    if (nExpertGroups > 1) {
      const size = nExpert / nExpertGroups;
      if (!Number.isInteger(size) || size < 2)
        refuse('expert_group_count', nExpertGroups, `a divisor of the ${nExpert} experts that leaves at least 2 in a group`);
      const least = Math.ceil(Math.max(...nExpertUsed) / size);
      if (nExpertGroupsUsed < least || nExpertGroupsUsed > nExpertGroups)
        refuse(
          'expert_group_used_count',
          nExpertGroupsUsed,
          `${least} to ${nExpertGroups}, as ${nExpertUsed[0]} experts are used of ${nExpertGroups} groups of ${size}`,
        );
    }
  }
  return {
    nExpert,
    nExpertUsed,
    nExpertGroups,
    nExpertGroupsUsed,
    nFfExpert: sameCount(gguf, 'width of experts', getCountPerLayer(gguf, key('expert_feed_forward_length'), nLayer, nFf)),
  };
}
