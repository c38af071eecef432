/**
 * Activations of the packed products: f32 rows quantised to 8 bits in sub-blocks of 32, in the
 * layout that the product's loops read. This is done once for all products, threads and chunks. A
 * row of activations is a column of the product.
 *
 * A type of activations is TYPE_ACT plus flags. These flags decide which elements share a scale d:
 *
 *   (none)   Each sub-block has its own d. d and the quants are those of ggml's
 *            quantize_row_q8_0_ref, with two differences. d stays f32 (q8_0 rounds it to f16).
 *            A d below 2^-126 is 0 (in f16, a d below 2^-25 is 0).
 *   ACT_K    One d for 8 sub-blocks, as in ggml's q8_K, for weights in super-blocks. The integer
 *            products of a super-block are one sum. A sub-block only costs one product with its
 *            scales and one addition, which is much faster for all K formats.
 *   ACT_64   One d for 2 sub-blocks, so that there is one f32 update for 64 weights: for formats of
 *            1 and 2 bits (format/few_bits.ts) and for nvfp4.
 *   ACT_4    Quants are -7..7 instead of -127..127: activations of 4 bits in the same bytes, for
 *            every loop. It measures what a model would lose by them (QuaRot, arXiv 2404.00456).
 *            No loop is faster for it.
 *
 * Flags also decide the layout. A sub-block is one of these (in the simd build quants are i16):
 *
 *   column:        | 32 quants i8 | d f32 | sum of the quants f32 |
 *                  | lane sums of quants 0..15, 2 x i16 | lane sums of quants 16..31, 2 x i16 |
 *   with ACT_K:    | 32 quants i8 | d f32 | sums of both halves, 2 x i16 | (lane sums as above) |
 *                  An odd sub-block has, in place of d, the sums of the one before and its own,
 *                  2 x i16.
 *   with ACT_64:   | 32 quants i8 | d f32 | (the rest as above) |
 *                  An odd sub-block has, in place of d, the lane sums of all 64 quants, 2 x i16.
 *   column block:  | 4 bytes of quants of each of four columns, then the next 4 ... |
 *                  | d x 4 | sum x 4 | lane sums x 4 | lane sums x 4 |
 *
 * Four columns side by side are a column block (tile_8x4.ts). From four columns on, column blocks
 * are used, and the remainder lies column after column (blocked_columns). These flags change that:
 *
 *   ACT_FEW    Up to MOST_FEW columns lie one after the other, for gemm_16xn.ts.
 *   ACT_SIGNS  For 8-bit codes. One column, for gemv_16x1_signs.ts:
 *              | |quants| of k 0..3, 16..19, 4..7, 20..23, ... |
 *              | their signs, 255 if negative | d f32 | sum of |negative quants| i32 |
 *              Column blocks have i16 quants if the GEMM takes codes as i16 (dot_signed.ts).
 *   ACT_I8     With ACT_SIGNS: column blocks as without it.
 *   ACT_PAIRS  One column, for gemv_16x1_q2_K.ts:
 *              | word w (0..7): quants 2w and 2w + 1 of each half | (the rest as above) |
 *
 * Lane sums are negated partial sums, one for each of the two i16 lanes in which a dot sums a row:
 * k % 4 in {0, 1} and k % 4 in {2, 3}.
 *
 * A block with a NaN or an Inf gets d = NaN. Every product multiplies by d, so outputs that read
 * the block are NaN and others are not. Plain products do the same (quantize_activations in
 * quantize.ts).
 */
import {
  ACT_4,
  ACT_64,
  ACT_64_BLOCK,
  ACT_BLOCK,
  ACT_COLUMNS,
  ACT_FEW,
  ACT_I8,
  ACT_K,
  ACT_K_BLOCK,
  ACT_PAIRS,
  ACT_SIGNS,
  MOST_FEW,
} from '../layout';
import { PAIR_SUMS, QUANT_BYTES } from './dot';
import { EVEN_ODD, even_bytes, odd_bytes } from './dot_signed';
import { hsum_i32, trunc_fitting } from '../simd';

/** Bits of a type that choose the layout of columns: ACT_PLAIN, ACT_FEW, ACT_SIGNS or ACT_PAIRS. */
const ACT_LAYOUT: u32 = ACT_FEW | ACT_SIGNS | ACT_PAIRS;

/** Columns of a column block. */
export const COLS: usize = ACT_COLUMNS;

/** True if the quants of one column are i8, false if i16. Static. */
const I8_QUANTS: bool = QUANT_BYTES == 1;

/** Byte offsets in a column's sub-block, and its size. */
export const ACT_QUANTS: usize = 32 * QUANT_BYTES;
export const ACT_D: usize = ACT_QUANTS;
export const ACT_SUM: usize = ACT_QUANTS + 4;
export const ACT_LANE_SUMS0: usize = ACT_QUANTS + 8;
export const ACT_LANE_SUMS1: usize = ACT_QUANTS + 12;
export const ACT_SUB: usize = ACT_QUANTS + 16;

/** ACT_SIGNS: byte offsets in a column's sub-block, and its size. */
export const SIGNS_AT: usize = 32;
export const SIGNS_D: usize = 64;
export const SIGNS_START: usize = 68;
export const SIGNS_SUB: usize = 72;

/** Bytes of a column's part of a column block's sub-block for 8-bit codes: quants may be i16. */
export const SIGNED_SUB: usize = EVEN_ODD ? ACT_SUB + 32 : ACT_SUB;

/** True if column blocks are laid out for 8-bit codes. */
@inline
function is_signed(type: u32): bool {
  return (type & (ACT_LAYOUT | ACT_I8)) == ACT_SIGNS;
}

/** True if up to MOST_FEW columns lie one after the other. */
@inline
export function is_few(type: u32): bool {
  return (type & ACT_LAYOUT) == ACT_FEW;
}

/** Bytes of a sub-block of a column block. */
@inline
export function cols_sub_of(type: u32): usize {
  return COLS * (is_signed(type) ? SIGNED_SUB : ACT_SUB);
}

/** Number of elements that share a d. */
export function act_block(type: u32): i32 {
  return type & ACT_K ? ACT_K_BLOCK : type & ACT_64 ? ACT_64_BLOCK : ACT_BLOCK;
}

/**
 * Bytes from one column of ne00 elements (a multiple of 32) to the next. A column block has COLS
 * times as many.
 */
export function act_row_size(type: u32, ne00: i32): usize {
  return <usize>(ne00 >> 5) * max((type & ACT_LAYOUT) == ACT_SIGNS ? SIGNS_SUB : ACT_SUB, cols_sub_of(type) / COLS);
}

/**
 * Number of columns that lie in column blocks; they come first. The tensor has room for a multiple
 * of four columns. A remainder of 1 or 2 columns runs as GEMVs, which cost less than a padded
 * block. A remainder of 3 is padded to 4 by repeating the last column, except when there are only 3
 * columns: then they are GEMVs too.
 */
export function blocked_columns(type: u32, ncols: i32): i32 {
  const rest = ncols & 3;
  if (is_few(type) && ncols <= MOST_FEW) return 0;
  return rest < 3 || ncols < 4 ? ncols - rest : ncols;
}

/** Bits of |x|, shifted left by one. */
@inline
function twice(x: v128): v128 {
  return i32x4.add(x, x);
}

/**
 * C's roundf of four f32, as i32. The remainder after truncation is exact, and so is its double,
 * which truncates to the missing +-1.
 */
@inline
function rounded(x: v128): v128 {
  const t = trunc_fitting(x);
  const rest = f32x4.sub(x, f32x4.convert_i32x4_s(t));
  return i32x4.add(t, trunc_fitting(f32x4.add(rest, rest)));
}

/** Eight quants as i16: x * id rounded half away from zero. */
@inline
function quants(x: v128, y: v128, id: v128): v128 {
  return i16x8.narrow_i32x4_s(rounded(f32x4.mul(x, id)), rounded(f32x4.mul(y, id)));
}

/** Minus the sums of 16 quants as two i16: of those with k % 4 < 2 and of those with k % 4 >= 2. */
@inline
function lane_sums(a: v128, b: v128): i32 {
  let s = i32x4.extadd_pairwise_i16x8_s(i16x8.add(a, b));
  s = i32x4.neg(i32x4.add(s, i64x2.shuffle(s, s, 1, 0)));
  return i32x4.extract_lane(i16x8.narrow_i32x4_s(s, s), 0);
}

/**
 * Largest |x| of the 32 f32 at x; lane i has the largest of eight of them. The result is bits of
 * `twice`, which sort like the numbers, with NaN above Inf: so a NaN is never lost.
 */
@inline
function largest(x: usize): v128 {
  const m0 = i32x4.max_u(
    i32x4.max_u(twice(v128.load(x)), twice(v128.load(x, 16))),
    i32x4.max_u(twice(v128.load(x, 32)), twice(v128.load(x, 48))),
  );
  const m1 = i32x4.max_u(
    i32x4.max_u(twice(v128.load(x, 64)), twice(v128.load(x, 80))),
    i32x4.max_u(twice(v128.load(x, 96)), twice(v128.load(x, 112))),
  );
  return i32x4.max_u(m0, m1);
}

/**
 * Quantises elements [i, i + n) of column c of ncols, f32 at x, into the activations at act. i and
 * n are multiples of act_block(type). stride: bytes from one column to the next, at least
 * act_row_size().
 */
export function quantize_act(type: u32, x: usize, i: i32, n: i32, act: usize, stride: usize, c: i32, ncols: i32): void {
  const block = act_block(type);
  const layout = type & ACT_LAYOUT;
  const most: f32 = type & ACT_4 ? 7 : 127;
  const blocked = blocked_columns(type, ncols);
  const in_block = c < blocked;
  const signs = layout == ACT_SIGNS;
  const bytes = in_block ? cols_sub_of(type) : signs ? SIGNS_SUB : ACT_SUB;
  // If the last block has only three columns, the third is stored as the fourth too.
  const doubled = c == blocked - 1 && (c & 3) == 2;
  let dst = act + (in_block ? <usize>(c >> 2) * COLS * stride + (<usize>(c & 3) << 2) : <usize>c * stride) + <usize>(i >> 5) * bytes;
  for (const last = x + (<usize>n << 2); x != last;) {
    const end = x + (<usize>block << 2);
    let m = largest(x);
    for (let p = x + 128; p != end; p += 128) m = i32x4.max_u(m, largest(p));
    m = i32x4.max_u(m, i64x2.shuffle(m, m, 1, 0));
    const amax = reinterpret<f32>(max<u32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)) >> 1);
    let d = amax / most;
    if (reinterpret<u32>(d) < 0x00800000)
      d = 0; // subnormal: 1 / d could overflow
    else if (reinterpret<u32>(amax) >= 0x7f800000) d = NaN;
    const id = f32x4.splat(reinterpret<u32>(d) != 0 ? 1 / d : 0);
    for (let before = 0, odd = false; x != end; odd = !odd) {
      const q0 = quants(v128.load(x), v128.load(x, 16), id);
      const q1 = quants(v128.load(x, 32), v128.load(x, 48), id);
      const q2 = quants(v128.load(x, 64), v128.load(x, 80), id);
      const q3 = quants(v128.load(x, 96), v128.load(x, 112), id);
      const l0 = lane_sums(q0, q1);
      const l1 = lane_sums(q2, q3);
      const first = -both(l0);
      const second = -both(l1);
      const sum = first + second;
      const lanes = add_pairs(l0, l1);
      let scale = reinterpret<i32>(d);
      if (odd) scale = type & ACT_64 ? add_pairs(before, lanes) : (before & 0xffff) | (sum << 16);
      const sums = type & ACT_K ? (first & 0xffff) | (second << 16) : reinterpret<i32>(<f32>sum);
      if (in_block) {
        for (let to = dst, stop = dst + (doubled ? 8 : 4); to != stop; to += 4)
          store_in_block(is_signed(type), to, q0, q1, q2, q3, scale, sums, l0, l1);
      } else if (I8_QUANTS && signs) {
        store_signs(dst, i8x16.narrow_i16x8_s(q0, q1), i8x16.narrow_i16x8_s(q2, q3), d);
      } else {
        store_quants(layout, dst, q0, q1, q2, q3);
        store<i32>(dst, scale, ACT_D);
        store<i32>(dst, sums, ACT_SUM);
        store<i32>(dst, l0, ACT_LANE_SUMS0);
        store<i32>(dst, l1, ACT_LANE_SUMS1);
      }
      before = type & ACT_64 ? lanes : sum;
      x += 128;
      dst += bytes;
    }
  }
}

/** Stores the quants of a column's sub-block. */
@inline
function store_quants(layout: u32, dst: usize, q0: v128, q1: v128, q2: v128, q3: v128): void {
  if (I8_QUANTS) {
    const first = i8x16.narrow_i16x8_s(q0, q1);
    const second = i8x16.narrow_i16x8_s(q2, q3);
    const pairs = PAIR_SUMS && layout == ACT_PAIRS;
    v128.store(dst, pairs ? v128.shuffle<i16>(first, second, 0, 8, 1, 9, 2, 10, 3, 11) : first);
    v128.store(dst, pairs ? v128.shuffle<i16>(first, second, 4, 12, 5, 13, 6, 14, 7, 15) : second, 16);
  } else {
    v128.store(dst, q0);
    v128.store(dst, q1, 16);
    v128.store(dst, q2, 32);
    v128.store(dst, q3, 48);
  }
}

/** Stores a column's sub-block for ACT_SIGNS. first, second: the quants of its halves. */
@inline
function store_signs(dst: usize, first: v128, second: v128, d: f32): void {
  const zero = i32x4.splat(0);
  const x = v128.shuffle<i32>(first, second, 0, 4, 1, 5);
  const z = v128.shuffle<i32>(first, second, 2, 6, 3, 7);
  const mx = i8x16.lt_s(x, zero);
  const mz = i8x16.lt_s(z, zero);
  const ax = i8x16.abs(x);
  const az = i8x16.abs(z);
  v128.store(dst, ax);
  v128.store(dst, az, 16);
  v128.store(dst, mx, SIGNS_AT);
  v128.store(dst, mz, SIGNS_AT + 16);
  store<f32>(dst, d, SIGNS_D);
  const negative = i16x8.add(i16x8.extadd_pairwise_i8x16_u(v128.and(ax, mx)), i16x8.extadd_pairwise_i8x16_u(v128.and(az, mz)));
  store<i32>(dst, hsum_i32(i32x4.extadd_pairwise_i16x8_s(negative)), SIGNS_START);
}

/**
 * Stores a sub-block of one column of a column block. dst is the address of the first word of
 * quants; the other words follow in steps of 16 bytes. (Inlined: V8's revectoriser crashes the
 * process if vectors that it joined are arguments of a call.)
 */
@inline
function store_in_block(signed: bool, dst: usize, q0: v128, q1: v128, q2: v128, q3: v128, scale: i32, sums: i32, l0: i32, l1: i32): void {
  if (!I8_QUANTS) {
    dst = store_words(store_words(store_words(store_words(dst, q0), q1), q2), q3);
  } else if (EVEN_ODD && signed) {
    dst = store_even_odd(store_even_odd(dst, i8x16.narrow_i16x8_s(q0, q1)), i8x16.narrow_i16x8_s(q2, q3));
  } else {
    dst = store_words(store_words(dst, i8x16.narrow_i16x8_s(q0, q1)), i8x16.narrow_i16x8_s(q2, q3));
  }
  store<i32>(dst, scale);
  store<i32>(dst, sums, 16);
  store<i32>(dst, l0, 32);
  store<i32>(dst, l1, 48);
}

/** Stores the four words of v, 16 bytes apart; returns the address for the next word. */
@inline
function store_words(dst: usize, v: v128): usize {
  v128.store32_lane(dst, v, 0);
  v128.store32_lane(dst, v, 1, 16);
  v128.store32_lane(dst, v, 2, 32);
  v128.store32_lane(dst, v, 3, 48);
  return dst + 64;
}

/**
 * Stores sixteen bytes as words of two i16: k and k + 2, then k + 1 and k + 3 of every four.
 * Returns the address for the next word.
 */
@inline
function store_even_odd(dst: usize, v: v128): usize {
  const even = even_bytes(v);
  const odd = odd_bytes(v);
  v128.store32_lane(dst, even, 0);
  v128.store32_lane(dst, odd, 0, 16);
  v128.store32_lane(dst, even, 1, 32);
  v128.store32_lane(dst, odd, 1, 48);
  v128.store32_lane(dst, even, 2, 64);
  v128.store32_lane(dst, odd, 2, 80);
  v128.store32_lane(dst, even, 3, 96);
  v128.store32_lane(dst, odd, 3, 112);
  return dst + 128;
}

/** Adds two pairs of i16. */
@inline
function add_pairs(a: i32, b: i32): i32 {
  return ((a & 0xffff0000) + (b & 0xffff0000)) | ((a + b) & 0xffff);
}

/** Sum of the two i16 of a pair. */
@inline
function both(pair: i32): i32 {
  return <i32><i16>pair + (pair >> 16);
}
