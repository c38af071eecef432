/**
 * Packing of formats whose codes are entries of a grid (format/grid.ts). Such a format F has these
 * methods. Those with a default are left out where it holds:
 *
 *   pack_d(...)   | packs d of 16 plain rows; default: an f16 at the start of a plain block
 *   plain()       | offset in a plain block of the row that entry() and scale() read; default 2
 *   entry(row, t) | step t of a plain row: bits 0..11 are its index, 12..23 the second index
 *                 | (iq3_*), 24..31 the signs
 *   scale(row, i) | one of `scales()` integers; default of these: 8
 *   sign_bytes()  | bytes of the signs of a row and 8 steps; default 8, without signs 0
 *   planes()      | number of index bits beyond 8, default 0. Each is a plane at high() in the
 *                 | pair: for 128 indices 16 bytes, bit b of byte i for index 16b + i
 *
 * The last bytes of a pair are the scales, nibbles of both rows, unless F has pack_scales().
 */
import * as fmt from './format/format';
import { PAIRS } from './format/grid';
import { pack_f16 } from './format/group';
import { grid_entry, grid_scale } from './grid_rows';

@inline
export function plain<F>(): usize {
  return isDefined(changetype<F>(0).plain) ? changetype<F>(0).plain() : 2;
}

@inline
export function scale_count<F>(): i32 {
  return isDefined(changetype<F>(0).scales) ? changetype<F>(0).scales() : 8;
}

@inline
export function sign_bytes<F>(): usize {
  if (!fmt.has_signs<F>()) return 0;
  return isDefined(changetype<F>(0).sign_bytes) ? changetype<F>(0).sign_bytes() : 8;
}

@inline
export function pack_d<F>(src: usize, stride: usize, w: usize): void {
  if (isDefined(changetype<F>(0).pack_d)) changetype<F>(0).pack_d(src, stride, w);
  else pack_f16(src, stride, w);
}

/** Packs one block of each of 16 plain rows. */
@inline
export function pack_grid<F>(type: u32, src: usize, stride: usize, w: usize): void {
  const fours = fmt.fours<F>();
  pack_d<F>(src, stride, w);
  pack_pairs(
    type,
    src + plain<F>(),
    stride,
    w + PAIRS,
    (changetype<F>(0).bytes() - PAIRS) >> 3,
    fours,
    isDefined(changetype<F>(0).planes) ? changetype<F>(0).planes() : 0,
    isDefined(changetype<F>(0).planes) ? changetype<F>(0).high() : 0,
    fours ? 128 : 64,
    sign_bytes<F>(),
    isDefined(changetype<F>(0).pack_scales) ? 0 : scale_count<F>(),
  );
  if (isDefined(changetype<F>(0).pack_scales)) changetype<F>(0).pack_scales(src, stride, w);
}

/**
 * Packs 8 pairs of `bytes` bytes. Signs lie at `signs` in a pair, `lanes` (sign_bytes) for a row
 * and 8 steps. `scales` is the number of scales in a pair.
 */
function pack_pairs(
  type: u32,
  src: usize,
  stride: usize,
  w: usize,
  bytes: usize,
  fours: bool,
  planes: usize,
  high: usize,
  signs: usize,
  lanes: usize,
  scales: i32,
): void {
  for (const end = w + 8 * bytes; w != end; w += bytes, src += 2 * stride) {
    memory.fill(w, 0, bytes);
    for (let r: usize = 0; r < 2; r++) {
      const row = src + r * stride;
      let bits: u64 = 0;
      for (let t: usize = 0; t < 32; t++) {
        const entry = grid_entry(type, row, <i32>t);
        if (fours) {
          put_index(w, 4 * t + 2 * r, entry & 0xfff, high, planes, 4);
          put_index(w, 4 * t + 2 * r + 1, (entry >> 12) & 0xfff, high, planes, 4);
        } else {
          put_index(w, 2 * t + r, entry & 0xfff, high, planes, 3);
        }
        bits = (bits << 8) | (entry >> 24);
        if (lanes != 0 && (t & 7) == 7) put_signs(w + signs + ((t >> 3) * 2 + r) * lanes, bits, lanes);
      }
      for (let i = 0; i < scales; i++) {
        const p = w + bytes - scales + i;
        store<u8>(p, load<u8>(p) | (grid_scale(type, row, i) << (<u32>r << 2)));
      }
    }
  }
}

/** Stores index `at` of a pair. size: log2 of a plane's bytes. */
@inline
function put_index(w: usize, at: usize, index: u32, high: usize, planes: usize, size: usize): void {
  store<u8>(w + at, index);
  for (let i: usize = 0; i < planes; i++) {
    const p = w + high + (i << size) + (at & ((1 << size) - 1));
    store<u8>(p, load<u8>(p) | (((index >> (8 + <u32>i)) & 1) << <u32>(at >> size)));
  }
}

/**
 * Stores eight steps' sign bits of a row, given with the first step's in the top byte. Byte k gets
 * the bits of k, the first step's as its top bit.
 */
@inline
function put_signs(p: usize, bits: u64, lanes: usize): void {
  const v = i64x2.splat(<i64>bits);
  for (let k: usize = 0; k < lanes; k++) store<u8>(p + k, i8x16.bitmask(i16x8.shl(v, 7 - <i32>k)));
}
