/**
 * Inner loop of attention over values of block types (attention_blocks.ts): integer sums of weights
 * times values, for one or two rows.
 */
import { ATTENTION_BLOCK_FACTORS, ATTENTION_BLOCK_SIZE, KV_SPLIT } from '../layout';

/** Bytes of one row's weights for 32 dimensions, an i16 for every cell. */
export const WEIGHTS: usize = KV_SPLIT << 1;

// 16 dimensions of 2 cells as four vectors of 8 i16, c0 .. c3: four dimensions each, both cells
// side by side. `center`: the start value of the sums. `shift`: bits by which c1 and c3 are too
// large.
@unmanaged
export class FromQ8_0 {
  @inline step(): usize {
    return 32;
  }
  @inline center(w: usize): v128 {
    return i32x4.splat(0);
  }
  @inline shift(): i32 {
    return 0;
  }
  @inline low(v: usize): v128 {
    return i32x4.splat(0);
  }
  @inline high(low: v128): v128 {
    return low;
  }
  @inline c0(v: usize, low: v128, mask: v128): v128 {
    return v128.load8x8_s(v);
  }
  @inline c1(v: usize, low: v128, mask: v128): v128 {
    return v128.load8x8_s(v, 8);
  }
  @inline c2(v: usize, high: v128, mask: v128): v128 {
    return v128.load8x8_s(v, 16);
  }
  @inline c3(v: usize, high: v128, mask: v128): v128 {
    return v128.load8x8_s(v, 24);
  }
}
@unmanaged
export class FromQ4_0 {
  @inline step(): usize {
    return 16;
  }
  @inline center(w: usize): v128 {
    return v128.load32_splat(w);
  }
  @inline shift(): i32 {
    return 4;
  }
  @inline low(v: usize): v128 {
    return v128.load(v);
  }
  @inline high(low: v128): v128 {
    return i16x8.shr_u(low, 8);
  }
  @inline c0(v: usize, low: v128, mask: v128): v128 {
    return v128.and(low, mask);
  }
  @inline c1(v: usize, low: v128, mask: v128): v128 {
    return v128.and(low, mask);
  }
  @inline c2(v: usize, high: v128, mask: v128): v128 {
    return v128.and(high, mask);
  }
  @inline c3(v: usize, high: v128, mask: v128): v128 {
    return v128.and(high, mask);
  }
}

// Number of rows of sums(), as the size of a type (see attention_tile.ts).
export type One = u8;
export type Two = u16;

const NIBBLES = memory.data<u16>([0x0f, 0xf0], 2);

/**
 * out[row][0..hd) = sum over n cells of weight * value, 16 dimensions at a time. w: weights and
 * factors in the layout of block_values_scratch. Sums may wrap on the way (16 * 15 * 32767 * 256,
 * and the centre's part), but the result fits i32.
 */
export function sums<B, Rows>(w: usize, n: i32, v: usize, plane: usize, hd: i32, out: usize, out_row: usize): void {
  const f = changetype<B>(0);
  const m0 = v128.load16_splat(NIBBLES);
  const m1 = v128.load16_splat(NIBBLES, 2);
  for (let i = 0; i < hd; i += 16, v += plane, out += 64) {
    // $for r of 0..2
    let s$r0 = f.center(w + ATTENTION_BLOCK_FACTORS + $(4 + 8 * r));
    let s$r1 = i32x4.shl(s$r0, f.shift());
    let s$r2 = s$r0;
    let s$r3 = s$r1;
    // $end
    let p = w;
    let q = v;
    for (const end = v + <usize>((n + 1) >> 1) * f.step(); q < end; q += f.step(), p += 4) {
      const t0 = v128.load32_splat(p);
      const t1 = sizeof<Rows>() > 1 ? v128.load32_splat(p, WEIGHTS) : t0;
      const low = f.low(q);
      const high = f.high(low);
      let c: v128;
      // $for i, bytes, mask of [[0, 'low', 'm0'], [1, 'low', 'm1'], [2, 'high', 'm0'], [3, 'high', 'm1']]
      c = f.c$i(q, $bytes, $mask);
      if (sizeof<Rows>() > $r) s$r$i = i32x4.add(s$r$i, i32x4.dot_i16x8_s(c, t$r)); // $for r of 0..2
      // $end
    }
    // $for r of 0..2
    if (sizeof<Rows>() > $r)
      store_scaled(
        out + $r * out_row,
        v128.load32_splat(w, ATTENTION_BLOCK_FACTORS + $(8 * r)),
        s$r0,
        i32x4.shr_s(s$r1, f.shift()),
        s$r2,
        i32x4.shr_s(s$r3, f.shift()),
      );
    // $end
    if (i & 16) w += ATTENTION_BLOCK_SIZE;
  }
}

/** Stores 16 integer sums as f32 times the factor. */
@inline
function store_scaled(y: usize, factor: v128, a: v128, b: v128, c: v128, d: v128): void {
  v128.store(y, f32x4.mul(f32x4.convert_i32x4_s($x), factor), $at); // $for x, at of [['a', 0], ['b', 16], ['c', 32], ['d', 48]]
}
