/** ggml_rope_ext over ordinary tensors: angles are computed here, in f64, into a table that the graph brings along. */
import { ropeTable, ROPE_DEFAULTS } from '../arch/rope-table.ts';
import { rope } from '../graph/ops.ts';
import { constant, must, type Tensor } from '../graph/tensor.ts';
import { TYPE } from '../type-traits.ts';

const MAX_ANGLES = 2 ** 28;

export interface RopeExtParams {
  /** Dimensions rotated, even; the others are copied. Default: ne0. */
  n_dims?: number;
  /** 'normal': pairs (i, i + 1); 'neox': pairs (i, i + n_dims / 2). */
  mode?: 'normal' | 'neox';
  freq_base?: number;
  /** 1 / factor of linear scaling. */
  freq_scale?: number;
  /** YaRN (arXiv 2309.00071): 0 none, 1 full. */
  ext_factor?: number;
  attn_factor?: number;
  beta_fast?: number;
  beta_slow?: number;
  /** Positions the model was first trained for, for YaRN. */
  n_ctx_orig?: number;
  /** Divisors of the pairs' frequencies, n_dims / 2 of them. */
  factors?: ArrayLike<number> | undefined;
  /** Positions the table has; `pos` must stay below. Default 4096. */
  n_ctx?: number;
}

/**
 * Rotary position embedding: a [head_dim, n_head, n_tokens, ne3] f32, f16 or bf16, pos i32 [n_tokens] -> a's shape and type.
 * @throws ERR_TENSOR_SHAPE; compute() throws ERR_INVALID_ARGUMENT for a position of n_ctx or more
 */
export function rope_ext(a: Tensor, pos: Tensor, p: RopeExtParams = {}): Tensor {
  const nDims = p.n_dims ?? a.ne[0], nCtx = p.n_ctx ?? 4096;
  must(nDims > 0 && nDims % 2 === 0 && nDims <= a.ne[0], 'rope_ext', `n_dims is ${nDims}; expected an even number of at most ne0`, a, pos);
  must(p.mode === undefined || p.mode === 'normal' || p.mode === 'neox', 'rope_ext', `mode is ${p.mode}; expected normal or neox`, a, pos);
  must(Number.isSafeInteger(nCtx) && nCtx > 0 && nCtx * nDims < MAX_ANGLES, 'rope_ext', `n_ctx is ${nCtx}; expected a whole number of at least 1, and a table of less than 1 GiB`, a, pos);
  must(!p.factors || p.factors.length === nDims / 2, 'rope_ext', `${p.factors?.length} factors for ${nDims / 2} pairs`, a, pos);
  const table = ropeTable(
    {
      nDims,
      freqBase: p.freq_base ?? 10000,
      freqScale: p.freq_scale ?? ROPE_DEFAULTS.freqScale,
      extFactor: p.ext_factor ?? ROPE_DEFAULTS.extFactor,
      attnFactor: p.attn_factor ?? ROPE_DEFAULTS.attnFactor,
      betaFast: p.beta_fast ?? ROPE_DEFAULTS.betaFast,
      betaSlow: p.beta_slow ?? ROPE_DEFAULTS.betaSlow,
      nCtxOrig: p.n_ctx_orig ?? ROPE_DEFAULTS.nCtxOrig,
      factors: p.factors,
    },
    nCtx,
  );
  return rope(a, pos, constant('rope angles', TYPE.f32, [nDims, nCtx, 1, 1], new Uint8Array(table.buffer)), p.mode === 'neox');
}
