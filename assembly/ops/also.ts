/**
 * The second form of an op's output: its elements once more, quantised for the products that read them, while they are in the cache.
 * It saves a pass over memory, and threads need not meet between. The lowering (src/graph/lower.ts) asks for it where dst is dense.
 */
import { TYPE_ACT, act_block, act_row_size, quantize_act } from '../act';
import { Op } from '../tensor';
import { blck_size, type_size } from '../type_ids';
import { quantize_row } from '../type_traits';

/** Elements a thread takes at a time where all rows are one: whole cache lines of f32, so that no two threads write one. */
const UNIT: i32 = 64;

/** The same, and whole blocks of the second form. */
export function also_unit(op: Op): i32 {
  return changetype<usize>(op.also) == 0 ? UNIT : max(UNIT, block_of(op.also.type));
}

/** Heads of hd elements that are whole blocks of the second form; they divide a row's, whose length is a multiple of the block. */
export function also_heads(op: Op, hd: i32): i32 {
  const block = changetype<usize>(op.also) == 0 ? 1 : block_of(op.also.type);
  let heads = 1;
  while (heads * hd % block != 0) heads++;
  return heads;
}

// @ts-ignore: decorator
@inline
function block_of(type: u32): i32 {
  return type >= TYPE_ACT ? act_block(type) : <i32>blck_size(type);
}

/** Elements [i, i + n) of dst, counted through all rows, have been written: whole blocks of them to op.also. */
// @ts-ignore: decorator
@inline
export function also_write(op: Op, i: i32, n: i32): void {
  if (changetype<usize>(op.also)) quantize_dense(op, i, n);
}

function quantize_dense(op: Op, i: i32, n: i32): void {
  const type = op.also.type, x = op.dst.data + (<usize>i << 2);
  if (type >= TYPE_ACT) quantize_act(type, x, n, op.also.data + act_row_size(i));
  else quantize_row(type, x, op.also.data + <usize>(<u32>i / blck_size(type)) * type_size(type), n);
}

/** All elements of rows [from, to) of dst have been written. */
// @ts-ignore: decorator
@inline
export function also_rows(op: Op, from: i32, to: i32): void {
  if (from < to) also_write(op, from * op.dst.ne0, (to - from) * op.dst.ne0);
}
