/**
 * tq1_0: 256 elements in 54 bytes, x = d * (t - 1) with trits t of 0..2, five in a byte as a
 * fraction of 256/243.
 *
 *   0                            32                           48                     52       54
 *   | qs: 32 bytes,              | 16 bytes,                  | qh: 4 bytes,         | d: f16 |
 *     trit i of byte j:            trit i of byte j:            trit i (of 4) of
 *     element 32i + j              element 160 + 16i + j        byte j: element
 *                                                               240 + 4i + j
 *
 * The first trit is the top: t = 3q / 256. Multiplying q by 3 (mod 256) brings the next trit to the
 * top.
 */
import { f16_to_f32, f32_to_f16, splat_u6 } from '../../simd';
import { amax_row, ternary } from './tq2_0';
import { store_i8_scaled } from './words';

@inline
const BYTES: usize = 54;

/**
 * Top trits of sixteen bytes. Averaging q - 1 (or 0) with half of itself gives 3q / 4, exact in the
 * two bits kept. one, three: 1 and 3 in every byte.
 */
@inline
function top_trit(q: v128, one: v128, three: v128): v128 {
  const p = i8x16.sub_sat_u(q, one);
  return v128.and(i16x8.shr_u(i8x16.avgr_u(p, i8x16.avgr_u(p, i8x16.splat(0))), 6), three);
}

@inline
function times3(q: v128): v128 {
  return i8x16.add(i8x16.add(q, q), q);
}

/**
 * Elements 240..255: the four bytes of qh times 1, 3, 9 and 27, in that order, so that their top
 * trits are the elements.
 */
@inline
function tail(x: usize): v128 {
  const q = v128.load32_splat(x, 48);
  const q3 = times3(q);
  const q9 = times3(q3);
  return i32x4.shuffle(i32x4.shuffle(q, q3, 0, 4, 0, 4), i32x4.shuffle(q9, times3(q9), 0, 4, 0, 4), 0, 1, 4, 5);
}

export function dequantize_row_tq1_0(x: usize, y: usize, k: i32): void {
  const one = splat_u6(1);
  const three = splat_u6(3);
  for (const end = y + (<usize>k << 2); y < end; x += BYTES, y += 1024) {
    const d = f32x4.splat(f16_to_f32(load<u16>(x, 52)));
    for (let part: usize = 0; part < 3; part++) {
      let q = v128.load(x + 16 * part);
      let to = part < 2 ? y + 64 * part : y + 640;
      for (let i = 0; i < 5; i++) {
        store_i8_scaled(to, i8x16.sub(top_trit(q, one, three), one), d);
        q = times3(q);
        to += part < 2 ? 128 : 64;
      }
    }
    store_i8_scaled(y + 960, i8x16.sub(top_trit(tail(x), one, three), one), d);
  }
}

/**
 * Packs `count` trits of elements from x on, `stride` elements apart, into one byte. Fewer than
 * five are moved to the top.
 */
function pack_trits(x: usize, stride: usize, count: i32, id: f32): u8 {
  let q: u32 = 0;
  for (let i = 0; i < count; i++, x += 4 * stride) q = (q * 3 + <u32>ternary(load<f32>(x) * id)) & 255;
  if (count < 5) q = (q * 3) & 255;
  return <u8>((q * 256 + 242) / 243);
}

export function quantize_row_tq1_0(x: usize, y: usize, k: i32): void {
  for (const end = x + (<usize>k << 2); x < end; x += 1024, y += BYTES) {
    const d = amax_row(x, 256);
    const id: f32 = d != 0 ? 1 / d : 0;
    for (let j: usize = 0; j < 32; j++) store<u8>(y + j, pack_trits(x + 4 * j, 32, 5, id));
    for (let j: usize = 0; j < 16; j++) store<u8>(y + j, pack_trits(x + 4 * j + 640, 16, 5, id), 32);
    for (let j: usize = 0; j < 4; j++) store<u8>(y + j, pack_trits(x + 4 * j + 960, 4, 4, id), 48);
    store<u16>(y, <u16>f32_to_f16(d), 52);
  }
}
