/**
 * Layout of packed weights: 16 rows side by side (a row block: four groups of 4 rows), quantisation
 * block after quantisation block along k, so that a GEMV reads one sequential stream.
 *
 * The number is 16, because four groups stream faster from memory than one, because the scales of
 * 16 rows fill one vector of bytes, and because V8's revectoriser joins two pairs of neighbouring
 * groups into 256-bit code.
 */
import { ACC_BYTES, ROW_BLOCK, TILE_ROWS_LARGE } from '../../layout';
import { weight_order } from '../dot';
import { f16_bits, f16_factor } from './constants';

/** Rows of a row block. */
export const ROWS: i32 = ROW_BLOCK;
/** Rows that a thread takes at a time. */
export const CHUNK_ROWS: i32 = TILE_ROWS_LARGE;
/** Bytes of one column's f32 sums of a row block. */
export const ACC: usize = ACC_BYTES;

/** Stores four groups' f32 or i32 sums of one column. */
@inline
export function store_sums(y: usize, y0: v128, y1: v128, y2: v128, y3: v128): void {
  v128.store(y, y0);
  v128.store(y, y1, 16);
  v128.store(y, y2, 32);
  v128.store(y, y3, 48);
}

/**
 * The four groups as types: offsetof<G>() is 16 * g, a constant for the immediate offset of a load.
 */
@unmanaged
export class G0 {}

@unmanaged
export class G1 {
  a: u64;
  b: u64;
}

@unmanaged
export class G2 {
  a: u64;
  b: u64;
  c: u64;
  d: u64;
}

@unmanaged
export class G3 {
  a: u64;
  b: u64;
  c: u64;
  d: u64;
  e: u64;
  f: u64;
}

/** Lane 0..3 of v (for G0..G3) in all lanes. */
@inline
export function splat<G>(v: v128): v128 {
  return v128.shuffle<i32>(v, v, <u8>(offsetof<G>() / 16), <u8>(offsetof<G>() / 16), <u8>(offsetof<G>() / 16), <u8>(offsetof<G>() / 16));
}

/**
 * Converts four sign-extended finite f16 to f32x4, in three operations. Inf and NaN would become
 * large numbers (repack.ts counts blocks that have them).
 */
@inline
export function f16x4_finite(h: v128): v128 {
  return f32x4.mul(v128.and(i32x4.shl(h, 13), f16_bits()), f16_factor());
}

/** Scales of group G's rows as f32, from sixteen f16 at p. */
@inline
export function load_scales<G>(p: usize): v128 {
  return f16x4_finite(v128.load16x4_s(p, offsetof<G>() >> 1));
}

/** Bytes of group G's rows as i32, from sixteen unsigned bytes. */
@inline
export function group_u8<G>(v: v128): v128 {
  const rows = offsetof<G>() >= 32 ? i16x8.extend_high_i8x16_u(v) : i16x8.extend_low_i8x16_u(v);
  return (offsetof<G>() & 16) != 0 ? i32x4.extend_high_i16x8_u(rows) : i32x4.extend_low_i16x8_u(rows);
}

// ---- Packing: sixteen plain rows, `stride` bytes apart at `src` ----

/**
 * Stores 16 bytes of each row of a group as four weight vectors: word t of all four rows at q + t *
 * step.
 */
@inline
export function store_quads(q: usize, r0: v128, r1: v128, r2: v128, r3: v128, step: usize): void {
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5);
  const b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  const c = i32x4.shuffle(r0, r1, 2, 6, 3, 7);
  const d = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
  v128.store(q, weight_order(i64x2.shuffle(a, b, 0, 2)));
  v128.store(q + step, weight_order(i64x2.shuffle(a, b, 1, 3)));
  v128.store(q + step * 2, weight_order(i64x2.shuffle(c, d, 0, 2)));
  v128.store(q + step * 3, weight_order(i64x2.shuffle(c, d, 1, 3)));
}

/**
 * Stores 16 four-bit numbers of each row of a group as nibbles: words 0 and 1 share a weight vector
 * (low and high nibbles) at q, words 2 and 3 the one at q + 64.
 */
@inline
export function store_quads_as_nibbles(q: usize, r0: v128, r1: v128, r2: v128, r3: v128): void {
  const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5);
  const b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  const c = i32x4.shuffle(r0, r1, 2, 6, 3, 7);
  const d = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
  v128.store(q, weight_order(v128.or(i64x2.shuffle(a, b, 0, 2), i16x8.shl(i64x2.shuffle(a, b, 1, 3), 4))));
  v128.store(q, weight_order(v128.or(i64x2.shuffle(c, d, 0, 2), i16x8.shl(i64x2.shuffle(c, d, 1, 3), 4))), 64);
}

/**
 * Packs the codes of a super-block. F.row_codes(row, sub) reads those of a row, and F.store_codes
 * stores those of a group's four rows.
 */
export function pack_codes<F>(src: usize, stride: usize, w: usize): void {
  const f = changetype<F>(0);
  for (let sub = 0; sub < 8; sub++) {
    for (let g: usize = 0; g < 4; g++) {
      const p = src + g * 4 * stride;
      const r0 = f.row_codes(p, sub);
      const r1 = f.row_codes(p + stride, sub);
      const r2 = f.row_codes(p + stride * 2, sub);
      f.store_codes(f.codes_at(w, sub) + (g << 4), r0, r1, r2, f.row_codes(p + stride * 3, sub));
    }
  }
}

/** Packs one f16 of each row, as sixteen f16 at w. */
export function pack_f16(src: usize, stride: usize, w: usize): void {
  for (let r: usize = 0; r < 16; r++) store<u16>(w + (r << 1), load<u16>(src + r * stride));
}

/** Packs n bytes of each row: byte i of every row becomes vector i at w. */
export function pack_bytes(src: usize, stride: usize, n: usize, w: usize): void {
  for (let r: usize = 0; r < 16; r++) {
    for (let i: usize = 0; i < n; i++) store<u8>(w + (i << 4) + r, load<u8>(src + r * stride + i));
  }
}

/**
 * Packs 32 four-bit codes of each row, from 16 bytes, to the quads at q. Byte i has code i in its
 * low nibble and code 16 + i in its high one, as in q4_0.
 */
export function pack_nibbles(src: usize, stride: usize, q: usize): void {
  for (let g: usize = 0; g < 4; g++) {
    store_quads(q + (g << 4), v128.load(src), v128.load(src + stride), v128.load(src + stride * 2), v128.load(src + stride * 3), 64);
    src += stride << 2;
  }
}
