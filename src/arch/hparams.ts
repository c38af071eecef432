/** The metadata keys that all architectures share, read and checked once. */
import { QuantletError, tell } from '../errors.ts';
import { getBool, getCount, getCountPerLayer, getNumber, getString, getStrings, sameCount } from '../gguf/metadata.ts';
import type { GGUF } from '../gguf/types.ts';
import { readRotations, type OnlineRotations } from './rotation.ts';
import { ROPE_DEFAULTS, type RopeParams } from './rope-table.ts';

/** How a text becomes one vector: llama.cpp's pooling types. */
export type Pooling = 'none' | 'mean' | 'cls' | 'last' | 'rank';
/** Architectures that are encoders whether their files say so or not. */
const ENCODERS: ReadonlySet<string> = new Set(['gemma-embedding', 't5encoder']);
/** Architectures whose encoder comes with a decoder. */
const ENCODER_DECODERS: ReadonlySet<string> = new Set(['t5']);
/** Norms of architectures whose epsilon does not tell which they are. */
const NORMS: ReadonlyMap<string, HParams['norm']> = new Map([
  ['olmo', 'plain'],
  ['nemotron_h', 'rms'],
  ['nemotron_h_moe', 'rms'],
]);
/** Rows of OPT's table of positions before that of the first position, for what padding there was; and the epsilon that its files need not tell. */
export const OPT_POSITIONS = 2;
const OPT_EPS = 1e-5;
const POOLING: readonly Pooling[] = ['none', 'mean', 'cls', 'last', 'rank'];

/** Numbers every transformer has, from the model's metadata. */
export interface HParams {
  readonly arch: string;
  readonly nVocab: number;
  readonly nCtxTrain: number;
  readonly nEmbd: number;
  /** Layers of the model itself: those behind them, which predict further tokens (MTP), are not counted. Of a model with both, the encoder's. */
  readonly nLayer: number;
  /** Where an encoder reads the prompt and a decoder writes (T5): the decoder's layers, and the token that it begins with (default: bos). */
  readonly decoder: { readonly nLayer: number; readonly start: number | undefined } | undefined;
  readonly nHead: number;
  /** Of layers with attention. */
  readonly nHeadKv: number;
  /** Whether a layer has no heads of keys and values, by which files tell recurrent layers. */
  isRecurrent(il: number): boolean;
  /** Dimensions of a query and key head. */
  readonly headDim: number;
  /** Of a value head. */
  readonly valueDim: number;
  /** Of the first layer, where they differ. */
  readonly nFf: number;
  /** Experts of a layer; 0: there are none. */
  readonly nExpert: number;
  /** Through how many of them a token goes, layer by layer. */
  readonly nExpertUsed: readonly number[];
  /** In how many groups they come, and of how many groups a token's experts are; 0 or 1: no groups. */
  readonly nExpertGroups: number;
  readonly nExpertGroupsUsed: number;
  /** How wide an expert is. */
  readonly nFfExpert: number;
  /** rms_norm or layer norm, as which epsilon the file has tells, or a layer norm without weights. */
  readonly norm: 'rms' | 'layer' | 'plain';
  readonly eps: number;
  readonly rope: RopeParams;
  readonly rotations: OnlineRotations;
  /** false: every token of a sequence sees all others (encoders). */
  readonly causal: boolean;
  /** What the file says of pooling; none where it makes no vectors. */
  readonly pooling: Pooling;
}

/** @throws ERR_MISSING_METADATA, ERR_GGUF_INVALID naming the key */
export function readHParams(gguf: GGUF): HParams {
  const arch = getString(gguf, 'general.architecture');
  const key = (name: string): string => `${arch}.${name}`;
  const count = (name: string, fallback?: number, least = 1, most?: number): number => getCount(gguf, key(name), fallback, least, most);
  const nEmbd = count('embedding_length');
  // Recurrent layers have no heads of keys and values, and models of such layers alone need not say anything of heads.
  const isRecurrent = ['ssm.conv_kernel', 'shortconv.l_cache'].some((name) => gguf.metadata.has(key(name)));
  const nBlocks = count('block_count', undefined, 1, 4096);
  const nLayer = nBlocks - count('nextn_predict_layers', 0, 0, nBlocks - 1);
  const perLayer = (name: string): readonly number[] => getCountPerLayer(gguf, key(name), nLayer);
  const heads = perLayer('attention.head_count');
  const nHead = sameCount(gguf, 'number of heads', heads);
  if (nHead === 0 && !isRecurrent) count('attention.head_count', undefined, 1);
  // PowerInfer's converter counts all rows of OPT's table.
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
      `${key('embedding_length')} is ${nEmbd}, no multiple of the ${nHead} heads, and there is no ${key('attention.key_length')}`,
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
  // Where YaRN mixes, ropeTable() makes the magnitude larger by the factor; llama_context takes that back where the factor makes the context no longer,
  // or where the file says that scores are larger already. DeepSeek 2 has the two alike, so that nothing is left of the magnitude.
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
    // llama.cpp takes vocab_size only where there is no list of tokens: converters leave old numbers there.
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

/** How positions beyond those of training are made. @throws ERR_UNSUPPORTED_ARCH for a way that llama.cpp does not know either */
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

/** @throws ERR_GGUF_INVALID where a token would go through none of the experts, or through more than there are */
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
