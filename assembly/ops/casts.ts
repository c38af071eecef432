/**
 * Casts of an op's output: dst's elements in further types, quantised for the products that read
 * them. The op that computes them casts them, while they are in the CPU's cache, which saves a pass
 * over memory and a barrier. The lowering (src/graph/lower.ts) requests casts if dst is contiguous.
 * op.casts is the first of a list of tensors, linked by `next`.
 */
import { TYPE_ACT } from '../layout';
import { act_block, quantize_act } from '../matmul/act';
import { Op, Tensor, row_of } from '../runtime/tensor';
import { blck_size, type_size } from '../type/ids';
import { quantize_activations } from '../type/quantize';

/**
 * Elements that a thread takes at a time if all rows are one loop: whole cache lines of f32, so
 * that no two threads write to one line.
 */
const UNIT: i32 = 64;

/** Elements that a thread takes at a time: UNIT, and whole blocks of all casts. */
export function cast_unit(op: Op): i32 {
  return max(UNIT, block_of(op));
}

/**
 * Number of heads of hd elements that fill whole blocks of all casts. It divides a row's heads,
 * since a row's length is a multiple of the block.
 */
export function cast_heads(op: Op, hd: i32): i32 {
  const block = block_of(op);
  let heads = 1;
  while ((heads * hd) % block != 0) heads++;
  return heads;
}

/** Largest block of the casts. All other blocks divide it. */
function block_of(op: Op): i32 {
  let block = 1;
  for (let t = op.casts; changetype<usize>(t); t = t.next)
    block = max(block, t.type >= TYPE_ACT ? act_block(t.type) : <i32>blck_size(t.type));
  return block;
}

/**
 * Casts elements [i, i + n) of dst, which have just been written. They are whole blocks, counted
 * across all rows.
 */
@inline
export function cast_elements(op: Op, i: i32, n: i32): void {
  for (let t = op.casts; changetype<usize>(t); t = t.next) quantize_dense(op.dst, t, i, n);
}

function quantize_dense(dst: Tensor, t: Tensor, i: i32, n: i32): void {
  const type = t.type;
  const ne0 = dst.ne0;
  let x = dst.data + (<usize>i << 2);
  if (type < TYPE_ACT) return quantize_activations(type, x, t.data + <usize>(<u32>i / blck_size(type)) * type_size(type), n);
  for (let row = i / ne0, from = i % ne0; n > 0; row++, from = 0) {
    const k = min(n, ne0 - from);
    const columns = row / dst.ne1;
    quantize_act(type, x, from, k, row_of(t, 0, columns % dst.ne2, columns / dst.ne2), t.nb1, row % dst.ne1, dst.ne1);
    x += <usize>k << 2;
    n -= k;
  }
}

/** Casts rows [from, to) of dst, which have just been written. */
@inline
export function cast_rows(op: Op, from: i32, to: i32): void {
  if (from < to) cast_elements(op, from * op.dst.ne0, (to - from) * op.dst.ne0);
}
