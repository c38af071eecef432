/**
 * Exports of quantlet/core on every platform, in addition to createEngine and loadModel. Modules
 * whose name ends in -ops export only public ops, except attention-ops.
 */
import { QuantletError, tell } from '../errors.ts';
import type { Plan } from './engine.ts';

export type { ComputeOptions, Engine, EngineOptions, LoadTensorOptions, Plan, TensorOptions } from './engine.ts';
export type { Data, DataByType, DataOf, Halves, ReadAs, TensorData } from './data.ts';
export { rope_ext, type RopeExtOptions } from './rope.ts';
export type { Ne, NodeOp, Tensor } from '../graph/tensor.ts';
export type { Numbers, Operand } from '../graph/operands.ts';
export type { RopeMode } from '../graph/rope.ts';
export type { ActLayout, ByIsa, CodeFacts, ColumnLoop, Isa, Kind, Loops, PackedFormat, TileLoop } from '../packed-format.ts';
export type { TypeKernels, TypeName, TypeTraits } from '../type-traits.ts';
export { flash_attn_ext, type FlashAttnOptions } from '../graph/attention-ops.ts';
export { permute, reshape, set_name, transpose, view, type ViewOptions } from '../graph/views.ts';
export * from '../graph/ops.ts';
export * from '../graph/elementwise-ops.ts';
export * from '../graph/grouped-ops.ts';
export * from '../graph/image-ops.ts';
export * from '../graph/recurrent-ops.ts';
export * from '../graph/row-ops.ts';
export * from '../graph/sparse-ops.ts';

/** Describes the kernels of a plan, one line per record. */
export function explain(plan: Plan): string {
  if (typeof plan?.explain !== 'function') throw new QuantletError('ERR_INVALID_ARGUMENT', `explain: expected a plan, got ${tell(plan)}`);
  return plan.explain();
}
