/** Mixes of llama-quantize: the tensors of a model that get more bits than the rest. */
import type { TypeTraits } from '../type-traits.ts';
import { TYPE } from '../type-traits.ts';

/** Role of a tensor in a model, as far as its type depends on it. */
export type Category =
  | 'token_embd'
  | 'output'
  | 'attn_qkv'
  | 'attn_kv_b'
  | 'attn_v'
  | 'attn_k'
  | 'attn_q'
  | 'attn_output'
  | 'ffn_up'
  | 'ffn_gate'
  | 'ffn_down'
  | 'other';

/** Categories by part of the name; the first match counts. */
const NAME_PARTS: readonly (readonly [part: string, category: Category])[] = [
  ['attn_qkv.weight', 'attn_qkv'],
  ['attn_kv_b.weight', 'attn_kv_b'],
  ['attn_v.weight', 'attn_v'],
  ['attn_k.weight', 'attn_k'],
  ['attn_q.weight', 'attn_q'],
  ['attn_output.weight', 'attn_output'],
  ['ffn_up', 'ffn_up'],
  ['ffn_gate', 'ffn_gate'],
  ['ffn_down', 'ffn_down'],
];

export const categoryOf = (name: string): Category => {
  if (name === 'output.weight') return 'output';
  if (name === 'token_embd.weight' || name === 'per_layer_token_embd.weight') return 'token_embd';
  return NAME_PARTS.find(([part]) => name.includes(part))?.[1] ?? 'other';
};

/** Values, and fused matrices that include them, suffer most from few bits. */
export const isValues = (category: Category): boolean => category === 'attn_v' || category === 'attn_qkv' || category === 'attn_kv_b';

/** Properties of a model that the mixes depend on. */
export interface MixModel {
  readonly arch: string;
  readonly nLayer: number;
  readonly nExpert: number;
  /**
   * Query heads for each key/value head of the first layer.
   * @throws ERR_INVALID_ARGUMENT for a projector, which has none
   */
  nGqa(): number;
  /** Belongs to the size class that llama.cpp calls 70B. */
  readonly is70B: boolean;
  readonly hasImatrix: boolean;
}

/** Position of a tensor in its category: i of n. */
export interface Place {
  readonly i: number;
  readonly n: number;
}

const first = ({ i, n }: Place, parts: number): boolean => i < Math.floor(n / parts);

/** The first and the last eighth of the layers, and every third layer between them. */
const moreBits = (place: Place): boolean => {
  const { i, n } = place;
  return first(place, 8) || i >= Math.floor((7 * n) / 8) || (i - Math.floor(n / 8)) % 3 === 2;
};

/** Types of delicate tensors in the kinds of files with the fewest bits (IQ1 and IQ2). */
const TINY: ReadonlyMap<string, TypeTraits> = new Map<string, TypeTraits>([
  ['IQ1_S', TYPE.q2_K],
  ['IQ1_M', TYPE.q2_K],
  ['IQ2_XXS', TYPE.q2_K],
  ['IQ2_XS', TYPE.q2_K],
  ['IQ2_S', TYPE.iq3_s],
  ['IQ2_M', TYPE.iq3_s],
]);

/** True for kinds whose mix counts ffn_down tensors in order, ignoring the layer in their names. */
export const countsTensors = (ftype: string): boolean => TINY.has(ftype);

const values = (ftype: string, type: TypeTraits, model: MixModel, place: Place): TypeTraits => {
  const wide = (): boolean => model.nGqa() >= 4;
  // prettier-ignore
  switch (ftype) {
    case 'Q2_K': return wide() ? TYPE.q4_K : TYPE.q3_K;
    case 'Q2_K_S': return wide() ? TYPE.q4_K : type;
    case 'IQ3_XXS': return wide() ? TYPE.q4_K : model.hasImatrix ? TYPE.iq3_xxs : TYPE.iq3_s;
    case 'IQ3_XS':
    case 'IQ3_S': return wide() ? TYPE.q4_K : type;
    case 'IQ3_M': return TYPE.q4_K;
    case 'Q3_K_M': return place.i < 2 ? TYPE.q5_K : TYPE.q4_K;
    case 'Q3_K_L': return TYPE.q5_K;
    case 'IQ4_NL':
    case 'IQ4_XS': return wide() ? TYPE.q5_K : type;
    case 'Q4_K_M':
    case 'Q5_K_M': return moreBits(place) ? TYPE.q6_K : type;
    case 'Q4_K_S': return place.i < 4 ? TYPE.q5_K : type;
    default: return type;
  }
};

/**
 * Type of values. A model with few values (70B) or with 8 experts can afford more bits than the mix
 * gives.
 */
export const attnVType = (ftype: string, type: TypeTraits, model: MixModel, place: Place): TypeTraits => {
  const tiny = TINY.get(ftype);
  if (tiny) return model.nGqa() >= 4 || model.nExpert >= 4 ? TYPE.q4_K : tiny;
  if (model.nExpert === 8) return TYPE.q8_0;
  const mixed = values(ftype, type, model, place);
  return model.is70B && (mixed === TYPE.q3_K || mixed === TYPE.q4_K) ? TYPE.q5_K : mixed;
};

export const attnKType = (ftype: string, type: TypeTraits, model: MixModel): TypeTraits => {
  if (model.nExpert === 8) return TINY.has(ftype) ? TYPE.q4_K : TYPE.q8_0;
  return attnQType(ftype, type);
};

export const attnQType = (ftype: string, type: TypeTraits): TypeTraits =>
  ftype === 'IQ3_XS' ? TYPE.iq3_xxs : ftype === 'IQ3_XXS' ? TYPE.iq2_s : type;

/** ffn_gate and ffn_up. */
export const ffnUpType = (ftype: string, type: TypeTraits, place: Place): TypeTraits => {
  const { i, n } = place;
  return ftype === 'IQ3_XS' && !first(place, 8) && i < Math.floor((7 * n) / 8) ? TYPE.iq3_xxs : type;
};

export const ffnDownType = (ftype: string, type: TypeTraits, model: MixModel, place: Place): TypeTraits => {
  const falcon = model.arch === 'falcon';
  const tiny = TINY.get(ftype);
  if (tiny) return first(place, 8) ? tiny : type;
  switch (ftype) {
    case 'IQ3_XXS':
      if (model.hasImatrix) return type;
      return first(place, 8) ? TYPE.q4_K : TYPE.q3_K;
    case 'IQ3_M':
      return first(place, 8) || (model.nExpert === 8 && moreBits(place)) ? TYPE.q4_K : type;
    case 'Q2_K':
      return TYPE.q3_K;
    case 'Q2_K_S':
      return first(place, 8) ? TYPE.q4_K : type;
    case 'Q3_K_M':
      if (first(place, 16)) return TYPE.q5_K;
      return !falcon || moreBits(place) ? TYPE.q4_K : TYPE.q3_K;
    case 'Q3_K_L':
      return falcon ? TYPE.q4_K : TYPE.q5_K;
    case 'Q4_K_M':
      if (!falcon) return moreBits(place) ? TYPE.q6_K : type;
      if (first(place, 16)) return TYPE.q6_K;
      return moreBits(place) ? TYPE.q5_K : TYPE.q4_K;
    case 'IQ4_NL':
    case 'IQ4_XS':
      return first(place, 8) && !model.hasImatrix ? TYPE.q5_K : type;
    case 'Q5_K_M':
      return moreBits(place) ? TYPE.q6_K : type;
    case 'Q4_K_S':
      return first(place, 8) && !falcon ? TYPE.q5_K : type;
    // Symmetric 4 and 5 bits can go wrong in the first layers, so use an offset there. Only with
    // importance weights: files made without them stay as llama.cpp has always made them.
    case 'Q4_0':
      return first(place, 8) && model.hasImatrix ? TYPE.q4_1 : type;
    case 'Q5_0':
      return first(place, 8) && model.hasImatrix ? TYPE.q5_1 : type;
    default:
      return type;
  }
};

const EIGHT_EXPERTS_Q5_K: ReadonlySet<string> = new Set([
  ...['Q2_K', 'Q3_K_S', 'Q3_K_M', 'IQ4_NL', 'Q4_K_S', 'Q4_K_M', 'IQ4_XS'],
  ...['IQ3_XXS', 'IQ3_XS', 'IQ3_S', 'IQ3_M'],
]);

export const attnOutputType = (ftype: string, type: TypeTraits, model: MixModel): TypeTraits => {
  if (TINY.has(ftype)) {
    if (model.nExpert === 8) return TYPE.q5_K;
    return ftype.startsWith('IQ1') ? TYPE.iq2_xxs : ftype === 'IQ2_S' || ftype === 'IQ2_M' ? TYPE.iq3_s : type;
  }
  if (model.arch === 'falcon') return ftype === 'Q3_K_L' ? TYPE.q4_K : type;
  if (model.nExpert === 8) return EIGHT_EXPERTS_Q5_K.has(ftype) ? TYPE.q5_K : type;
  switch (ftype) {
    case 'Q2_K':
      return TYPE.q3_K;
    case 'IQ3_XXS':
      return TYPE.iq3_s;
    case 'Q3_K_M':
    case 'IQ3_M':
      return TYPE.q4_K;
    case 'Q3_K_L':
      return TYPE.q5_K;
    default:
      return type;
  }
};

/** Kinds of files with 4-bit token embeddings. */
const TERNARY: ReadonlySet<string> = new Set(['TQ1_0', 'TQ2_0', 'Q2_0']);

/** Type of token embeddings that are used for lookups only. */
export const tokenEmbeddingType = (ftype: string, type: TypeTraits): TypeTraits => {
  if (TERNARY.has(ftype)) return TYPE.q4_K;
  return ftype === 'IQ3_XXS' ? TYPE.iq3_s : (TINY.get(ftype) ?? type);
};

/** Type of the output matrix, or of token embeddings that also serve as output matrix. */
export const outputType = (ftype: string, type: TypeTraits, model: MixModel, ne0: number): TypeTraits => {
  if (ftype === 'MXFP4_MOE' || model.arch === 'falcon' || ne0 % type.blckSize !== 0) return TYPE.q8_0;
  if (TINY.has(ftype) || ftype === 'IQ3_XXS') return TYPE.q5_K;
  return type === TYPE.q8_0 ? type : TYPE.q6_K;
};
