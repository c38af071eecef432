/**
 * Further forms of an op's output: its elements once more, quantised for the products that read them, while they are in the cache.
 * It saves a pass over memory, and threads need not meet between. The lowering (src/graph/lower.ts) asks for it where dst is dense.
 * Forms are a list: op.also is the first, `next` of each the one behind it.
 */
import { TYPE_ACT, act_block, quantize_act } from '../act';
import { Op, Tensor, row_of } from '../tensor';
import { blck_size, type_size } from '../type_ids';
import { quantize_activations } from '../type_traits';

/** Elements a thread takes at a time where all rows are one: whole cache lines of f32, so that no two threads write one. */
const UNIT: i32 = 64;

/** The same, and whole blocks of all forms. */
export function also_unit(op: Op): i32 {
  return max(UNIT, block_of(op));
}

/** Heads of hd elements that are whole blocks of all forms; they divide a row's, whose length is a multiple of the block. */
export function also_heads(op: Op, hd: i32): i32 {
  const block = block_of(op);
  let heads = 1;
  while (heads * hd % block != 0) heads++;
  return heads;
}

/** The largest block of the forms, which all others divide. */
function block_of(op: Op): i32 {
  let block = 1;
  for (let t = op.also; changetype<usize>(t); t = t.next) block = max(block, t.type >= TYPE_ACT ? act_block(t.type) : <i32>blck_size(t.type));
  return block;
}

/** Elements [i, i + n) of dst, counted through all rows, have been written: whole blocks of them to the other forms. */
// @ts-ignore: decorator
@inline
export function also_write(op: Op, i: i32, n: i32): void {
  for (let t = op.also; changetype<usize>(t); t = t.next) quantize_dense(op.dst, t, i, n);
}

function quantize_dense(dst: Tensor, t: Tensor, i: i32, n: i32): void {
  const type = t.type, ne0 = dst.ne0;
  let x = dst.data + (<usize>i << 2);
  if (type < TYPE_ACT) return quantize_activations(type, x, t.data + <usize>(<u32>i / blck_size(type)) * type_size(type), n);
  for (let row = i / ne0, from = i % ne0; n > 0; row++, from = 0) {
    const k = min(n, ne0 - from), columns = row / dst.ne1;
    quantize_act(type, x, from, k, row_of(t, 0, columns % dst.ne2, columns / dst.ne2), t.nb1, row % dst.ne1, dst.ne1);
    x += <usize>k << 2;
    n -= k;
  }
}

/** All elements of rows [from, to) of dst have been written. */
// @ts-ignore: decorator
@inline
export function also_rows(op: Op, from: i32, to: i32): void {
  if (from < to) also_write(op, from * op.dst.ne0, (to - from) * op.dst.ne0);
}
