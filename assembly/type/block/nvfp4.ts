/**
 * nvfp4: 64 elements in 36 bytes (E2M1 with a UE4M3 scale for every 16), x = d[s] / 2 * KVALUES[q],
 * with the doubled values of mxfp4.
 *
 *   0                        4                                                        36
 *   | d: u8 of each sixteen  | 4 x 8 bytes, low nibble j, high j + 8 of its sixteen   |
 *
 * A file may also have a tensor `<name>.scale` of one f32, a factor of the products.
 */
import { lookup16, splat_u6 } from '../../simd';
import { kvalues_mxfp4, nearest16 } from './mxfp4';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 36;

/**
 * Half of a UE4M3 number: 4 bits of exponent (bias 7) and 3 of mantissa. 0x7f is 0; otherwise the
 * top bit is ignored.
 */
export function ue4m3_to_f32_half(x: u32): f32 {
  if (x == 0x7f) return 0;
  const exponent = (x >> 3) & 15;
  if (exponent == 0) return <f32>(x & 7) * reinterpret<f32>(0x3a800000); // 2^-10
  return reinterpret<f32>(((exponent + 119) << 23) | ((x & 7) << 20));
}

/**
 * Nearest UE4M3 number, as ggml rounds: half a step goes up, and 256 and more become the largest,
 * 448.
 */
function f32_to_ue4m3(x: f32): u32 {
  if (!(x > 0)) return 0;
  if (x >= 256) return 0x7e;
  const bits = reinterpret<u32>(x);
  const exponent = <i32>(bits >> 23) - 120;
  if (exponent <= 0) return min<u32>(<u32>(x * 512 + 0.5), 7);
  // The bit below the mantissa rounds; a mantissa that overflows raises the exponent.
  const rounded = (<u32>exponent << 3) + ((bits >> 20) & 7) + ((bits >> 19) & 1);
  return rounded < 0x78 ? rounded : 0x7e;
}

/** Values of sixteen elements, from their eight bytes. mask: low nibbles. */
@inline
function values(p: usize, table: v128, mask: v128): v128 {
  const v = v128.load64_zero(p);
  return lookup16(table, v128.and(i64x2.shuffle(v, i16x8.shr_u(v, 4), 0, 2), mask));
}

export function dequantize_row_nvfp4(x: usize, y: usize, k: i32): void {
  const table = kvalues_mxfp4();
  const mask = splat_u6(15);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES) {
    for (let s: usize = 0; s < 4; s++, y += 64)
      store_i8_scaled(y, values(x + 4 + 8 * s, table, mask), f32x4.splat(ue4m3_to_f32_half(load<u8>(x + s))));
  }
}

export function quantize_row_nvfp4(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; y += BYTES) {
    for (let s: usize = 0; s < 4; s++, x += 64) {
      let amax: f32 = 0;
      for (let i: usize = 0; i < 64; i += 4) {
        const v = abs(load<f32>(x + i));
        if (amax < v) amax = v;
      }
      const scale = f32_to_ue4m3(amax / 6);
      store<u8>(y + s, <u8>scale);
      const d = f32x4.splat(ue4m3_to_f32_half(scale));
      const q = nearest16(x, d);
      store<u64>(y + 8 * s, i64x2.extract_lane(q, 0) | (i64x2.extract_lane(q, 1) << 4), 4);
    }
  }
}
