/**
 * tq2_0: 256 elements in 66 bytes, x = d * (q - 1) with q of 0..2: ternary weights, two bits each.
 *
 *   0                                                       64       66
 *   | qs: 2 x 32 bytes, bits 2i..2i+1 of byte j of half h:  | d: f16 |
 *     element 128h + 32i + j
 */
import { f16_to_f32, f32_to_f16 } from '../../simd';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 66;

export function dequantize_row_tq2_0(x: usize, y: usize, k: i32): void {
  const mask = i8x16.splat(3);
  const one = i8x16.splat(1);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x, 64)));
    for (let j: usize = 0; j < 16; j++, y += 64) {
      const q = i16x8.shr_u(v128.load(x + ((j & 8) << 2) + ((j & 1) << 4)), <i32>(j & 6));
      store_i8_scaled(y, i8x16.sub(v128.and(q, mask), one), d);
    }
  }
}

/**
 * max |x| of n f32 as C's MAX(amax, |x|) computes it: a NaN replaces the maximum so far, and the
 * next number replaces the NaN.
 */
export function amax_row(x: usize, n: i32): f32 {
  let amax: f32 = 0;
  for (const end = x + (<usize>n << 2); x < end; x += 4) {
    const v = abs(load<f32>(x));
    amax = amax > v ? amax : v;
  }
  return amax;
}

/**
 * (int)lroundf(x) + 1, the code that ggml stores for a ternary weight. If x does not fit a long,
 * x86 gives LONG_MIN, so the code is 1.
 */
export function ternary(x: f32): i32 {
  if ((reinterpret<u32>(x) & 0x7fffffff) >= 0x5f000000) return 1;
  const t = trunc<f32>(x);
  const rounded = abs(x - t) >= 0.5 ? t + (x < 0 ? -1 : 1) : t;
  return <i32>(<i64>rounded + 1);
}

export function quantize_row_tq2_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    const d = amax_row(x, 256);
    const id: f32 = d != 0 ? 1 / d : 0;
    store<u16>(y, <u16>f32_to_f16(d), 64);
    for (let j: usize = 0; j < 64; j++) {
      const p = x + ((j & 32) << 4) + ((j & 31) << 2);
      let q = 0;
      for (let i = 0; i < 4; i++) q |= (ternary(load<f32>(p + 128 * <usize>i) * id) & 3) << (2 * i);
      store<u8>(y + j, <u8>q);
    }
  }
}
