/** What quantlet/core exports on every platform, besides createEngine and loadModel. */
import { QuantletError, tell } from '../errors.ts';
import type { Plan } from './engine.ts';

export type { ComputeOptions, Engine, EngineOptions, LoadTensorOptions, Plan, TensorOptions } from './engine.ts';
export type { Data, DataByType, DataOf, Halves, ReadAs, TensorData } from './data.ts';
export { rope_ext, type RopeExtOptions } from './rope.ts';
export type { Ne, Tensor } from '../graph/tensor.ts';
export type { Numbers, Operand } from '../graph/operands.ts';
export type { TypeName } from '../type-traits.ts';
export { flash_attn_ext, type FlashAttnOptions } from '../graph/attention-ops.ts';
export { permute, reshape, set_name, transpose, view, type ViewOptions } from '../graph/views.ts';
export { cast, concat, cont, cpy, get_rows, mul_mat, set_rows, type MulMatOptions } from '../graph/ops.ts';
export {
  abs, add, add_inplace, clamp, div, div_inplace, exp, geglu, geglu_erf, geglu_quick, gelu, gelu_erf, gelu_quick, log, mul, mul_inplace, neg, reglu, relu,
  repeat, scale, sigmoid, silu, soft_cap, sqr, sqrt, step, sub, sub_inplace, swiglu, tanh, type GluOptions, type ScaleOptions, type SumType,
} from '../graph/elementwise-ops.ts';
export { conv_1d, conv_2d, group_norm, im2col, pad, type ColumnType, type Conv1dOptions, type Conv2dOptions, type GroupNormOptions, type Im2colOptions, type PadOptions, type Pair } from '../graph/image-ops.ts';
export {
  argmax, argsort, diag_mask_inf, l2_norm, mean, mean_of_rows, norm, pool_1d, rms_norm, soft_max, sum, sum_rows, top_k,
  type ArgsortOptions, type L2NormOptions, type NormOptions, type Pool1dOptions, type RmsNormOptions, type RopeMode, type SoftMaxOptions,
} from '../graph/row-ops.ts';

/** The kernels a plan takes, in words: one line a record. */
export function explain(plan: Plan): string {
  if (typeof plan?.explain !== 'function') throw new QuantletError('ERR_INVALID_ARGUMENT', `explain: expected a plan, got ${tell(plan)}`);
  return plan.explain();
}
