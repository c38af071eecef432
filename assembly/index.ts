/**
 * The ABI: every function that the host may call. Arguments are numbers and pointers;
 * src/wasm/abi.ts declares them and checks them.
 */
import { grids_end } from './type/block/iq_grids';

export { begin, compute } from './runtime/compute';
export { await_step, finish_step, meet } from './runtime/sync';
export { exp2_row } from './ops/attention_split';
export { attention_scratch } from './ops/attention_walk';
export { act_row_size, blocked_columns, quantize_act } from './matmul/act';
export { is_packable, mul_mat_packed, mul_mat_packed_scratch, packed_act_type, packed_row, packed_rows, repack } from './matmul/packed';

/**
 * First byte that the host may use. The instance's static data, and the tables expanded from it,
 * lie below.
 */
export function heap_base(): usize {
  return grids_end();
}

export * from './type/blocks';
export { blck_size, type_size, vec_dot_type } from './type/ids';
export { dequantize_row, quantize_row, vec_dot } from './type/traits';
export { quantize_activations, quantize_work_size } from './type/quantize';
export { vec_dot_dequantized } from './type/vec_dot_dequantized';
export { kl_divergence, pack_log_probs, sum_exp } from './log_softmax';
