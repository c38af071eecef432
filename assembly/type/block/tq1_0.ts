/**
 * tq1_0: 256 elements in 54 bytes, x = d * (t - 1) with trits t of 0..2, five in a byte as a fraction of 256/243.
 *
 *   0                                  32                                  48                               52       54
 *   | qs: 32 bytes, trit i of byte j:  | 16 bytes, trit i of byte j:       | qh: 4 bytes, trit i (of 4) of  | d: f16 |
 *     element 32i + j                    element 160 + 16i + j               byte j: element 240 + 4i + j
 *
 * The first trit is the top: t = 3q / 256, and multiplying q by 3 (mod 256) brings up the next.
 */
import { dot2_u6, f16_to_f32, f32_to_f16, held, hsum_f32, madd } from '../../simd';
import { amax_row, ternary } from './tq2_0';
import { store_i8_scaled } from './words';

// @ts-ignore: decorator
@inline
const BYTES: usize = 54;

/** The top trits of sixteen bytes: averaged with half of itself q - 1 (or 0) is 3q / 4, exact in the two bits kept. one, three: in every byte. */
// @ts-ignore: decorator
@inline
function top_trit(q: v128, one: v128, three: v128): v128 {
  const p = i8x16.sub_sat_u(q, one);
  return v128.and(i16x8.shr_u(i8x16.avgr_u(p, i8x16.avgr_u(p, i8x16.splat(0))), 6), three);
}

// @ts-ignore: decorator
@inline
function times3(q: v128): v128 {
  return i8x16.add(i8x16.add(q, q), q);
}

/** Elements 240..255: the four bytes of qh times 1, 3, 9 and 27, in that order, so that the top trits are the elements. */
// @ts-ignore: decorator
@inline
function tail(x: usize): v128 {
  const q = v128.load32_splat(x, 48);
  const q3 = times3(q);
  const q9 = times3(q3);
  return i32x4.shuffle(i32x4.shuffle(q, q3, 0, 4, 0, 4), i32x4.shuffle(q9, times3(q9), 0, 4, 0, 4), 0, 1, 4, 5);
}

export function dequantize_row_tq1_0(x: usize, y: usize, k: i32): void {
  const one = held(1);
  const three = held(3);
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

/** `count` trits from x, `stride` elements apart, as one byte; fewer than five are moved to the top. */
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

/** Trits stay 0..2; the sum of the activations is taken off through q8_K's bsums. */
export function vec_dot_tq1_0_q8_K(n: i32, x: usize, y: usize): f32 {
  const one = held(1);
  const three = held(3);
  const ones = i16x8.splat(1);
  let acc = f32x4.splat(0);
  for (const end = x + <usize>(n >> 8) * BYTES; x < end; x += BYTES, y += 292) {
    const d = f16_to_f32(load<u16>(x, 52)) * load<f32>(y);
    let q0 = v128.load(x);
    let q1 = v128.load(x, 16);
    let q2 = v128.load(x, 32);
    let s = i32x4.neg(i32x4.add(i32x4.dot_i16x8_s(v128.load(y, 260), ones), i32x4.dot_i16x8_s(v128.load(y, 276), ones)));
    let last = top_trit(tail(x), one, three);
    let p = y + 244; // the third sixteen's partners: the tail, then its own trits in pairs
    for (let i: usize = 0; i < 5; i++) {
      s = i32x4.add(s, dot2_u6(top_trit(q0, one, three), v128.load(y + 32 * i, 4), top_trit(q1, one, three), v128.load(y + 32 * i, 20)));
      const t = top_trit(q2, one, three);
      const r = y + 16 * i + 164;
      if (i & 1) {
        last = t;
        p = r;
      } else s = i32x4.add(s, dot2_u6(last, v128.load(p), t, v128.load(r)));
      q0 = times3(q0);
      q1 = times3(q1);
      q2 = times3(q2);
    }
    acc = madd(f32x4.convert_i32x4_s(s), f32x4.splat(d), acc);
  }
  return hsum_f32(acc);
}
