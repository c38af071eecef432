/**
 * Attention over a cache in the kernel's own order (models), and over ordinary tensors
 * (ggml_flash_attn_ext), which are copied into that order first.
 */
import { alignUp } from '../align.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { checkOptions, KIND, type Kinds } from '../options.ts';
import { isFloat, mustBe, mustBeRows, mustBeTensor, OPERAND, optional, ROW, type Operand } from './operands.ts';
import { slopesOf } from './alibi.ts';
import { constant, must, nelements, node, type Tensor } from './tensor.ts';
import { mustBeReadable } from './vec-dot-type.ts';

/**
 * Types whose caches are kept as blocks rearranged for integer products
 * (assembly/ops/attention_blocks.ts).
 */
export const KV_BLOCK_TYPES = ['q8_0', 'q4_0'] as const;
/** Types in which flash_attn_ext keeps keys and values: attention reads them directly. */
export const FLASH_TYPES = ['f16', 'f32', ...KV_BLOCK_TYPES] as const;
/**
 * Types that a KV cache can have (assembly/ops/kv_cache.ts). All but FLASH_TYPES are kept as rows,
 * which attention widens.
 */
export const KV_TYPES = [...FLASH_TYPES, 'q4_1', 'q5_0', 'q5_1', 'iq4_nl', 'bf16'] as const;
export type KvType = (typeof KV_TYPES)[number];

/** True if a cache of this type is kept as blocks. */
export const hasBlocks = ({ name }: TypeTraits): boolean => KV_BLOCK_TYPES.some((type) => type === name);
/** True if a cache of this type is kept as ggml's rows. */
export const hasRows = ({ name }: TypeTraits): boolean => !FLASH_TYPES.some((type) => type === name);

/** Dimensions that a head takes in the cache. */
export const paddedHeadDim = (type: KvType, headDim: number): number => alignUp(headDim, TYPE[type].blckSize > 1 ? 32 : 16);

/**
 * Rotation of a cache (fwht in row-ops.ts): elements of a head that are rotated together; 0: none.
 */
export interface CacheRotation {
  /** For keys, and for the queries that meet them, so that scores do not change. */
  readonly k: number;
  /** For values; the outputs of attention are rotated back. */
  readonly v: number;
}
const NOT_ROTATED: CacheRotation = { k: 0, v: 0 };

/**
 * ggml_set_rows into a cache [padded head_dim, cells, n_head_kv]: a [head_dim, n_head_kv, n_tokens]
 * goes to cells i32 [n_tokens], or to cells 0, 1 ... without `cells`. If `rotation` is not 0,
 * each `rotation` elements of a head are rotated together.
 */
export function kv_store(cache: Tensor, a: Tensor, cells: Tensor | undefined, order: 'k' | 'v', rotation = 0): Tensor {
  mustBeRows('kv_store', a);
  must(
    a.ne[0] <= cache.ne[0] && a.ne[1] === cache.ne[2] && (cells ? cells.ne[0] === a.ne[2] : a.ne[2] <= cache.ne[1]),
    'kv_store',
    'expected a head_dim of at most ne0 of the cache, heads as its ne2, and a cell for each token',
    a,
    cache,
    cells,
  );
  return node('kv_store', cache.ne, {
    type: cache.type,
    src: [a, cells, cache],
    params: { v: order === 'v' ? 1 : 0, rotation },
    viewOf: cache,
  });
}

export interface AttentionParams {
  scale: number;
  /** Maximum number of keys that a token sees, itself included; 0: all. */
  window?: number;
  /**
   * Maximum number of keys that a token sees on each side of itself, out of those that `visible`
   * has; undefined: all. Needs `pos`; replaces a window.
   */
  reach?: number | undefined;
  /** Scores become cap * tanh(score / cap); 0: none. */
  logitSoftcap?: number;
  /** Slopes of ALiBi (arXiv 2108.12409); needs `pos`. 0: none. */
  maxBias?: number;
  /**
   * Added to scores by the distance of key and token, f32 [n_head, 2 n + 1]: row n + d for a key d
   * places after the token; the outermost rows also serve all larger distances. Needs `pos`;
   * replaces ALiBi.
   */
  distances?: Tensor | undefined;
  /**
   * Position of each token among the cells of its sequence, i32 [n_tokens]; a distance is |pos -
   * cell|.
   */
  pos?: Tensor | undefined;
  /**
   * FlashDecoding++: splits use this as their maximum if their scores stay within 40 binary orders
   * of it. Default: each split finds its own.
   */
  unifiedMax?: number | undefined;
  /** f32 [n_head]: a score per head that joins the softmax and has no value (gpt-oss). */
  sinks?: Tensor | undefined;
  /** Rotation of the cache. Default: none. */
  rotation?: CacheRotation;
  /** Dimensions of a value head. Default: as many as a query head has. */
  valueDim?: number;
}

/**
 * Attention over a cache: q [head_dim, n_head, n_tokens]; K and V caches [head_dim padded, cells,
 * n_head_kv]; first i32 [n_tokens]: first cell of the token's sequence; visible i32 [n_tokens]:
 * number of cells that the token sees from there -> f32 [value head_dim * n_head, n_tokens].
 */
export function attention(q: Tensor, k: Tensor, v: Tensor, first: Tensor, visible: Tensor, p: AttentionParams): Tensor {
  const valueDim = p.valueDim ?? q.ne[0];
  must(
    q.ne[1] % k.ne[2] === 0 && q.ne[0] <= k.ne[0] && valueDim <= v.ne[0],
    'attention',
    "expected a multiple of the cache's heads, and a head_dim of at most the cache's",
    q,
    k,
    v,
  );
  const needsPos = Boolean(p.maxBias) || p.distances !== undefined || p.reach !== undefined;
  must(
    !needsPos || p.pos !== undefined,
    'attention',
    'pos is missing; expected positions for ALiBi, distances and windows to both sides',
    q,
    k,
  );
  must(
    !p.distances || (p.distances.ne[0] === q.ne[1] && p.distances.ne[1] > 1 && p.distances.ne[1] % 2 === 1 && !p.maxBias),
    'attention',
    'expected distances of [heads, an odd number above 1], and no maxBias',
    q,
    p.distances,
  );
  must(!p.sinks || nelements(p.sinks) === q.ne[1], 'attention', 'expected one sink for each head', q, p.sinks);
  const slopes = p.maxBias ? slopesOf(q.ne[1], p.maxBias) : p.distances;
  const rotation = p.rotation ?? NOT_ROTATED;
  return node('attention', [valueDim * q.ne[1], q.ne[2], 1, 1], {
    src: [q, k, v, first, visible, needsPos ? p.pos : undefined, slopes, p.sinks],
    params: {
      scale: p.scale,
      window: p.reach === undefined ? (p.window ?? 0) : -p.reach - 1,
      soft_cap: p.logitSoftcap ?? 0,
      hd_out: valueDim,
      rot_k: rotation.k,
      rot_v: rotation.v,
      ...unified(p.unifiedMax),
    },
    batch: q.batch && { dim: 1, by: q.batch.by },
  });
}

const unified = (max: number | undefined): { unified: number; phi: number } => ({ unified: max === undefined ? 0 : 1, phi: max ?? 0 });

export interface FlashAttnOptions {
  /**
   * f16 or f32 [n_kv, at least n_tokens, 1 or n_head, 1 or ne3], added to the scores (times ALiBi's
   * slope if maxBias > 0). A row of -Infinity alone gives 0.
   */
  mask?: Operand | undefined;
  /** Default 1 / sqrt(head_dim). */
  scale?: number | undefined;
  /**
   * Above 0: ALiBi (arXiv 2108.12409), which multiplies the mask by a slope per head. Default 0.
   */
  maxBias?: number | undefined;
  /** Scores become cap * tanh(score / cap) before the mask; 0: none. Default 0. */
  logitSoftcap?: number | undefined;
  /** Token t of n sees keys 0 .. n_kv - n + t. With or without a mask. Default false. */
  causal?: boolean | undefined;
  /**
   * Maximum number of keys that a token sees, itself included; 0: all. Needs `causal`. Default 0.
   */
  window?: number | undefined;
  /** @see AttentionParams.unifiedMax */
  unifiedMax?: number | undefined;
  /**
   * ggml_flash_attn_ext_add_sinks: [n_head], a score per head that joins the softmax and has no
   * value; neither scaled nor masked.
   */
  sinks?: Operand | undefined;
}

const FLASH_ATTN_OPTIONS: Kinds<FlashAttnOptions> = {
  mask: OPERAND,
  scale: KIND.number,
  maxBias: KIND.atLeast0,
  logitSoftcap: KIND.number,
  causal: KIND.boolean,
  window: KIND.count,
  unifiedMax: KIND.number,
  sinks: ROW,
};

const cells = (name: string, values: Int32Array): Tensor =>
  constant(name, TYPE.i32, [values.length, 1, 1, 1], () => new Uint8Array(values.buffer));

/**
 * ggml_flash_attn_ext: q [head_dim, n_tokens, n_head, ne3], k [head_dim, n_kv, n_head_kv, ne3], v
 * [head_dim_v, n_kv, n_head_kv, ne3] -> f32 [head_dim_v, n_head, n_tokens, ne3]. Any strides. k and
 * v are f32, f16, bf16 or quantised, and are kept as f32, f16, q8_0 or q4_0.
 */
export function flash_attn_ext(q: Tensor, k: Tensor, v: Tensor, options?: FlashAttnOptions): Tensor<'f32'> {
  const name = 'flash_attn_ext';
  const p = checkOptions<FlashAttnOptions>(name, options, FLASH_ATTN_OPTIONS);
  const mask = optional(name, 'mask', p.mask);
  const sinks = optional(name, 'sinks', p.sinks);
  mustBeRows(name, q, 'q');
  mustBeTensor(name, 'k', k);
  mustBeTensor(name, 'v', v);
  const [, nTokens, nHead, n3] = q.ne;
  const nKv = k.ne[1];
  mustBeReadable(name, k, v);
  mustBeReadable(name, v, k);
  must(k.ne[0] === q.ne[0], name, 'expected q and k with the same ne0', q, k, v);
  must(
    v.ne[1] === nKv && v.ne[2] === k.ne[2] && v.ne[3] === n3 && k.ne[3] === n3 && nHead % k.ne[2] === 0,
    name,
    'expected k and v with the same ne1, ne2 and ne3, the ne3 of q, and heads that divide those of q',
    q,
    k,
    v,
  );
  if (mask) {
    mustBe(name, mask.type === TYPE.f16 || mask.type === TYPE.f32, 'a mask of f16 or f32', q, mask);
    must(
      mask.ne[0] === nKv && mask.ne[1] >= nTokens && (mask.ne[2] === 1 || mask.ne[2] === nHead) && (mask.ne[3] === 1 || mask.ne[3] === n3),
      name,
      'expected a mask of [n_kv, at least n_tokens, 1 or n_head, 1 or ne3]',
      q,
      k,
      mask,
    );
  }
  if (sinks) {
    mustBe(name, isFloat(sinks), 'sinks of f32, f16 or bf16', q, sinks);
    must(sinks.ne[0] === nHead && nelements(sinks) === nHead, name, 'expected one sink for each head of q', q, sinks);
  }
  must(!p.maxBias || mask !== undefined, name, 'maxBias is given without a mask; expected both, because it scales the mask', q, k);
  must(
    !p.window || p.causal === true,
    name,
    'window is given without causal; expected both, because a window ends at the token itself',
    q,
    k,
  );
  must(
    !p.causal || nKv >= nTokens,
    name,
    'causal is true; expected at least as many keys as tokens, because the last keys are those of the tokens',
    q,
    k,
  );
  const first = cells('first cells', new Int32Array(nTokens));
  const visible = cells(
    'visible cells',
    Int32Array.from({ length: nTokens }, (_, t) => (p.causal ? nKv - nTokens + t + 1 : nKv)),
  );
  const slopes = p.maxBias ? slopesOf(nHead, p.maxBias) : undefined;
  return node('flash_attn_ext', [v.ne[0], nHead, nTokens, n3], {
    src: [q, k, v, first, visible, mask, slopes, sinks],
    params: {
      scale: p.scale ?? 1 / Math.sqrt(q.ne[0]),
      window: p.window ?? 0,
      soft_cap: p.logitSoftcap ?? 0,
      hd_out: v.ne[0],
      n_elements: nelements(k),
      ...unified(p.unifiedMax),
    },
  });
}

/** Keys that each token sees: a run of them, from `first` on, for the windows of vision towers. */
export interface KeyRuns {
  readonly first: Int32Array;
  readonly count: Int32Array;
}

/**
 * Distance that is larger than any number of keys. A window to both sides that reaches so far ahead
 * is bounded by `visible` alone.
 */
export const FAR = 1 << 24;

/**
 * flash_attn_ext() in which each token sees a run of the keys: q, k, v [head_dim, n_tokens, n_head]
 * -> f32 [head_dim, n_head, n_tokens].
 */
export function flash_attn_runs(q: Tensor, k: Tensor, v: Tensor, { first, count }: KeyRuns): Tensor<'f32'> {
  const [headDim, nTokens, nHead] = q.ne;
  must(first.length === nTokens && count.length === nTokens, 'flash_attn_runs', 'there is one run for each token', q, k);
  return node('flash_attn_ext', [v.ne[0], nHead, nTokens, 1], {
    src: [
      q,
      k,
      v,
      cells('first cells', new Int32Array(nTokens)),
      cells(
        'visible cells',
        first.map((from, i) => from + count[i]),
      ),
      // The kernel's windows to both sides begin FAR keys before a token's position.
      cells(
        'starts of windows',
        first.map((from) => from + FAR),
      ),
    ],
    params: {
      scale: 1 / Math.sqrt(headDim),
      window: -FAR - 1,
      soft_cap: 0,
      hd_out: v.ne[0],
      n_elements: nelements(k),
      ...unified(undefined),
    },
  });
}
