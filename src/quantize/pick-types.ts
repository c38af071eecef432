/** Choice of the type of every tensor of a quantised file. */
import { QuantletError } from '../errors.ts';
import { getArchitecture, getCount, getNumberPerLayer } from '../gguf/metadata.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import type { TypeTraits } from '../type-traits.ts';
import { TYPE } from '../type-traits.ts';
import type { Ftype } from './ftype.ts';
import { isPlain } from './ftype.ts';
import type { Category, MixModel, Place } from './mix.ts';
import {
  attnKType,
  attnOutputType,
  attnQType,
  attnVType,
  categoryOf,
  countsTensors,
  ffnDownType,
  ffnUpType,
  isValues,
  outputType,
  tokenEmbeddingType,
} from './mix.ts';

/** Options of llama-quantize that affect types. */
export interface PickOptions {
  /** Gives every matrix the same type (`--pure`). */
  readonly pure?: boolean;
  /** Keeps the type of `output.weight` (`--leave-output-tensor`). */
  readonly leaveOutputTensor?: boolean;
  readonly outputTensorType?: TypeTraits;
  readonly tokenEmbeddingType?: TypeTraits;
  /** Types for tensors whose name matches a pattern; the first match counts (`--tensor-type`). */
  readonly tensorTypes?: readonly (readonly [pattern: RegExp, type: TypeTraits])[];
  /** Importance weights are used; some mixes depend on this. */
  readonly hasImatrix?: boolean;
}

export interface PickedType {
  readonly info: TensorInfo;
  readonly type: TypeTraits;
  /** The mix's type, if its blocks do not divide the rows and `type` replaces it. */
  readonly insteadOf?: TypeTraits;
}

/** Parts of the names of matrices that are small, or that break if quantised. */
const KEPT_PARTS: readonly string[] = [
  '_norm.weight',
  'ffn_gate_inp.weight',
  'ffn_gate_tid2eid.weight',
  'altup',
  'laurel',
  'per_layer_model_proj',
  'ssm_conv1d',
  'shortconv.conv.weight',
  'indexer.k_proj.weight',
  'indexer.q_proj.weight',
  ...['first', 'w0', 'w1', 'w2', 'v0', 'v1', 'v2', 'a0', 'a1', 'a2', 'g1', 'g2', 'decay_w1', 'decay_w2', 'lerp_fused'].map(
    (part) => `time_mix_${part}.weight`,
  ),
  'attn_rel_b.weight',
  '.position_embd',
  'sam.pos_embd',
  'sam.neck.',
  'sam.net_',
  '.rel_pos',
  '.patch_embd',
  '.patch_merger',
  'a.rvq.codebook',
  'mm.a.code_embd',
];
const KEPT_NAMES: ReadonlySet<string> = new Set(['position_embd.weight', 'token_types.weight']);

/** Number of dimensions without trailing ones (ggml_n_dims). */
const significantDims = ({ ne }: TensorInfo): number => (ne[3] > 1 ? 4 : ne[2] > 1 ? 3 : ne[1] > 1 ? 2 : 1);

/** Only matrices, and stacks of them (experts), are quantised. */
const isQuantised = (info: TensorInfo, options: PickOptions): boolean => {
  const { name } = info;
  if (significantDims(info) < 2 || !name.endsWith('weight')) return false;
  if (KEPT_NAMES.has(name) || KEPT_PARTS.some((part) => name.includes(part))) return false;
  return !(options.leaveOutputTensor && name === 'output.weight');
};

const layerOf = (name: string): number => {
  const match = /^blk\.(\d+)/.exec(name);
  return match ? Number(match[1]) : -1;
};

/**
 * llama.cpp's order of tensors, which its files and its counting of layers use: tensors outside of
 * blocks first, then block by block, by name.
 */
export const inLayerOrder = (infos: Iterable<TensorInfo>): TensorInfo[] =>
  [...infos].sort((a, b) => layerOf(a.name) - layerOf(b.name) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

/** Architecture of projectors (mmproj). */
const PROJECTOR = 'clip';

const SEVENTY_B_LAYERS: Readonly<Record<string, number>> = { llama: 80, deci: 80, qwen2: 80, jais2: 68 };

/** llama-quantize reads no sizes of a projector: it has no layers, and mixes that need heads abort. */
const projectorModel = ({ name }: Ftype, hasImatrix: boolean): MixModel => ({
  ...{ arch: PROJECTOR, nLayer: 0, nExpert: 0, is70B: false, hasImatrix },
  nGqa() {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `the file is a projector, and the mix of ${name} depends on a language model's heads; expected another type, Q8_0 or Q4_K_M, say, or --pure`,
    );
  },
});

const modelOf = (gguf: GGUF, ftype: Ftype, hasImatrix: boolean): MixModel => {
  const arch = getArchitecture(gguf);
  if (arch === PROJECTOR) return projectorModel(ftype, hasImatrix);
  const nLayer = getCount(gguf, `${arch}.block_count`);
  const nExpert = getCount(gguf, `${arch}.expert_count`, 0);
  const [nHead] = getNumberPerLayer(gguf, `${arch}.attention.head_count`, 1, 0);
  const [nHeadKv] = getNumberPerLayer(gguf, `${arch}.attention.head_count_kv`, 1, nHead);
  const is70B = nLayer === SEVENTY_B_LAYERS[arch] && !(arch === 'llama' && (nHead === nHeadKv || nExpert === 8));
  return { arch, nLayer, nExpert, nGqa: () => (nHeadKv > 0 ? Math.floor(nHead / nHeadKv) : 0), is70B, hasImatrix };
};

const FALLBACK: ReadonlyMap<TypeTraits, TypeTraits> = new Map<TypeTraits, TypeTraits>([
  [TYPE.iq1_s, TYPE.iq4_nl],
  [TYPE.iq1_m, TYPE.iq4_nl],
  [TYPE.iq2_xxs, TYPE.iq4_nl],
  [TYPE.iq2_xs, TYPE.iq4_nl],
  [TYPE.iq2_s, TYPE.iq4_nl],
  [TYPE.iq3_xxs, TYPE.iq4_nl],
  [TYPE.iq3_s, TYPE.iq4_nl],
  [TYPE.iq4_xs, TYPE.iq4_nl],
  [TYPE.q2_K, TYPE.q4_0],
  [TYPE.q3_K, TYPE.q4_0],
  [TYPE.tq1_0, TYPE.q4_0],
  [TYPE.tq2_0, TYPE.q4_0],
  [TYPE.q2_0, TYPE.q4_0],
  [TYPE.q4_K, TYPE.q5_0],
  [TYPE.q5_K, TYPE.q5_1],
  [TYPE.q6_K, TYPE.q8_0],
]);

/** A type whose blocks divide the rows: the wanted type, else one with blocks of 32, else f16. */
const fitting = (type: TypeTraits, { name, ne: [ne0] }: TensorInfo): TypeTraits => {
  if (ne0 % type.blckSize === 0) return type;
  const smaller = FALLBACK.get(type) ?? type;
  if (smaller.blckSize > 32) {
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      `rows of tensor "${name}" have ${ne0} elements; expected a multiple of ${type.blckSize} for ${type.name}, which no other type can replace: choose another type, or give this tensor one with --tensor-type`,
    );
  }
  return ne0 % smaller.blckSize === 0 ? smaller : TYPE.f16;
};

/** Numbers of tensors of a category so far, used as positions in the mixes. */
interface Counters {
  values: number;
  ffn_down: number;
  ffn_gate: number;
  ffn_up: number;
}

const mixedType = (
  info: TensorInfo,
  category: Category,
  ftype: Ftype,
  model: MixModel,
  options: PickOptions,
  tied: boolean,
  nValues: number,
  counters: Counters,
): TypeTraits => {
  const { name, type } = ftype;
  if (category === 'output' || (tied && category === 'token_embd'))
    return options.outputTensorType ?? outputType(name, type, model, info.ne[0]);
  const isFfn = category === 'ffn_down' || category === 'ffn_gate' || category === 'ffn_up';
  // In bailingmoe3, attention's projections have three dimensions as well.
  if (name === 'MXFP4_MOE') return info.ne[2] > 1 && (isFfn || model.arch !== 'bailingmoe3') ? TYPE.mxfp4 : TYPE.q8_0;
  if (category === 'token_embd') return tokenEmbeddingType(name, type);
  if (isValues(category)) return attnVType(name, type, model, { i: counters.values++, n: nValues });
  if (category === 'attn_k') return attnKType(name, type, model);
  if (category === 'attn_q') return attnQType(name, type);
  if (category === 'attn_output') return attnOutputType(name, type, model);
  if (!isFfn) return type;
  const i = counters[category]++;
  // With experts, a layer may have several such tensors, in any order, so the layer is taken from
  // the name.
  const place: Place = { i: model.nExpert > 1 && !countsTensors(name) ? layerOf(info.name) : i, n: model.nLayer };
  return category === 'ffn_down' ? ffnDownType(name, type, model, place) : ffnUpType(name, type, place);
};

/**
 * Type of each tensor in a quantised file, in the order of that file, by llama-quantize's mixes.
 * Vectors, norms, and small or delicate matrices keep their type.
 *
 * Source: llama.cpp, src/llama-quant.cpp.
 *
 * @throws QuantletError ERR_MISSING_METADATA without general.architecture, or the block_count of a language model;
 * ERR_INVALID_ARGUMENT if no type's blocks divide a tensor's rows, or a projector's type has no mix
 */
export const pickTypes = (gguf: GGUF, ftype: Ftype, options: PickOptions = {}): PickedType[] => {
  const model = modelOf(gguf, ftype, options.hasImatrix ?? false);
  const infos = inLayerOrder(gguf.tensors.values());
  const tied = !gguf.tensors.has('output.weight');
  const nValues = infos.filter((info) => isValues(categoryOf(info.name))).length;
  const counters: Counters = { values: 0, ffn_down: 0, ffn_gate: 0, ffn_up: 0 };
  const pure = options.pure || ftype.name === 'MXFP4';

  const wanted = (info: TensorInfo): TypeTraits => {
    const category = categoryOf(info.name);
    const manual = options.tensorTypes?.find(([pattern]) => pattern.test(info.name));
    // The per-layer embeddings are a large table of their own, which --tensor-type may name.
    const named = manual && info.name === 'per_layer_token_embd.weight';
    if (options.tokenEmbeddingType && category === 'token_embd' && !named) return options.tokenEmbeddingType;
    if (options.outputTensorType && category === 'output') return options.outputTensorType;
    if (isPlain(ftype.type)) return ftype.type;
    if (manual) return manual[1];
    return pure ? ftype.type : mixedType(info, category, ftype, model, options, tied, nValues, counters);
  };

  return infos.map((info) => {
    if (!isQuantised(info, options)) return { info, type: info.type };
    const target = wanted(info);
    const type = fitting(target, info);
    return type === target ? { info, type } : { info, type, insteadOf: target };
  });
};
