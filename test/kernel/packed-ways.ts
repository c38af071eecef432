/** Packed products by the kernels' exports alone: rows into groups, activations to 8 bits, and their products. */
import { TYPE } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import type { Kernels } from './harness.ts';

export interface Packed {
  readonly w: number;
  readonly ne00: number;
  readonly nrows: number;
  readonly type: TypeName;
  /** Packed blocks with a scale that is not finite. */
  readonly bad: number;
}

export function pack(k: Kernels, type: TypeName, plain: Uint8Array, ne00: number, nrows: number): Packed {
  const R = k.call('packed_rows');
  const groups = Math.ceil(nrows / R);
  const stride = plain.length / nrows;
  const w = k.arena.alloc(stride * groups * R);
  new Uint8Array(k.memory.buffer).set(plain, w);
  const scratch = k.arena.alloc(stride * R);
  // One group at a time, last one first: groups are independent.
  let bad = 0;
  for (let g = groups - 1; g >= 0; g--) bad += k.call('repack', TYPE[type].id, w, ne00, nrows, g, g + 1, scratch);
  k.arena.checkGuards();
  return { w, ne00, nrows, type, bad };
}

/** Rows of activations as products by weights of the type take them. */
export function quantize(k: Kernels, type: TypeName, rows: readonly Float32Array[]): { act: number; stride: number } {
  const stride = k.call('act_row_size', rows[0].length);
  const act = k.arena.alloc(stride * rows.length);
  for (const [i, row] of rows.entries()) k.call('quantize_act', k.call('packed_act_type', TYPE[type].id), k.arena.f32(row), row.length, act + i * stride);
  return { act, stride };
}

/** ncols x (row1 - row0) results, column after column. */
export function product(k: Kernels, p: Packed, act: number, stride: number, ncols: number, row0 = 0, row1 = p.nrows): Float32Array {
  const n = row1 - row0;
  const dst = k.arena.alloc(n * ncols * 4, 4);
  const scratch = k.arena.alloc(k.call('mul_mat_packed_scratch'));
  k.call('mul_mat_packed', TYPE[p.type].id, p.w, p.ne00, row0, row1, act, stride, ncols, dst - row0 * 4, n * 4, scratch, 0);
  k.arena.checkGuards();
  return k.arena.readF32(dst, n * ncols);
}

/** One column by a call for each group of rows, each after the first taking over what the one before made of the activations. */
export function oneColumn(k: Kernels, p: Packed, act: number): Float32Array {
  const dst = k.arena.alloc(p.nrows * 4, 4), scratch = k.arena.alloc(k.call('mul_mat_packed_scratch')), R = k.call('packed_rows');
  for (let row = 0; row < p.nrows; row += R) k.call('mul_mat_packed', TYPE[p.type].id, p.w, p.ne00, row, Math.min(row + R, p.nrows), act, 0, 1, dst, 0, scratch, Number(row > 0));
  k.arena.checkGuards();
  return k.arena.readF32(dst, p.nrows);
}
