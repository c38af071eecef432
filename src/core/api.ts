/** What quantlet/core exports on every platform, besides createEngine and loadModel. */
import type { Plan } from './engine.ts';

export type { Engine, Plan } from './engine.ts';
export type { TensorData } from './data.ts';
export { rope_ext, type RopeExtParams } from './rope.ts';
export type { Ne, Tensor } from '../graph/tensor.ts';
export type { TypeName } from '../type-traits.ts';
export { flash_attn_ext, type FlashAttnParams } from '../graph/attention-ops.ts';
export { permute, reshape, transpose, view } from '../graph/tensor.ts';
export {
  add, add_inplace, argmax, argsort, cast, clamp, concat, cont, cpy, diag_mask_inf, div, div_inplace, exp,
  geglu, geglu_erf, geglu_quick, gelu, gelu_erf, gelu_quick, get_rows, l2_norm, mean, mean_of_rows, mul, mul_inplace, mul_mat,
  norm, pool_1d, reglu, relu, repeat, rms_norm, scale, set_rows, sigmoid, silu, soft_cap, soft_max, sub, sub_inplace, sum_rows,
  swiglu, tanh, top_k, type MulMatOptions,
} from '../graph/ops.ts';

/** The kernels a plan takes, in words: one line a record. */
export const explain = (plan: Plan): string => plan.explain();
