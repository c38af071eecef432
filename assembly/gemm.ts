/**
 * Prompts spend their time here: start reading here. Many activation rows times packed weights of any block format.
 *
 * Sixteen rows x KC weights are unpacked once into a panel (L1) of plain 7-bit codes and f32 scales, then every four columns run over it:
 * what a format costs to unpack is shared by all columns, and one inner loop serves every format. `tile` is that loop.
 *
 *   for 64 columns          activations of a block of columns stay in L2
 *     for 16 rows
 *       for KC weights      panel: 2 halves of 8 rows
 *         for 4 columns     their quants stay in L1 for both halves
 *           tile            8 rows x 4 columns
 */
import { ACT_BLOCK, ACT_DSUM, ACT_PAIRS0, ACT_PAIRS1, ACT_QUANTS } from './act';
import { ACT_QUANT } from './dot';
import { gemv, half_dsum } from './gemv';
import * as fmt from './packed/format';
import { ROWS } from './packed/group';
import { CODES, KC, PANEL, mins, unpack } from './panel';
import { madd } from './simd';

/** Columns whose sums are kept at a time. */
const NC: i32 = 64;

const COLS: i32 = 4;
/** Bytes of one column's 16 sums. */
const ACC: usize = 64;

const PANELS: usize = <usize>NC * ACC;
/** A packed group's 16 outputs where only some of them exist. */
const SPARE: usize = PANELS + 2 * PANEL;
export const GEMM_SCRATCH: usize = SPARE + ACC;

/**
 * Sums of 8 rows x 4 columns go on over n runs of 32 weights. Eight i16 sums stay in registers; the f32 sums live in memory (L1).
 * The order of a run in the panel: panel.ts.
 */
function tile<F, D>(w: usize, a0: usize, a1: usize, a2: usize, a3: usize, acc: usize, n: i32): void {
  const dot = changetype<D>(0), zero = i32x4.splat(0);
  const passes = fmt.w16<F>() ? 2 : 1;
  const codes = fmt.w16<F>() ? CODES >> 1 : CODES;
  for (; n > 0; n--) {
    let i00 = zero, i10 = zero, i01 = zero, i11 = zero, i02 = zero, i12 = zero, i03 = zero, i13 = zero;
    let pairs = ACT_PAIRS0;
    for (let pass = 0; pass < passes; pass++) {
      let s00 = start<F, D>(a0, pairs), s10 = s00;
      let s01 = start<F, D>(a1, pairs), s11 = s01;
      let s02 = start<F, D>(a2, pairs), s12 = s02;
      let s03 = start<F, D>(a3, pairs), s13 = s03;
      // A loop, not unrolled: unrolled, V8 spills (37 against 60 GMAC/s on Node 20, 51 against 60 on Node 24).
      for (const end = w + codes; w != end; w += 32) {
        const w0 = v128.load(w), w1 = v128.load(w, 16);
        let a = v128.load32_splat(a0);
        s00 = dot.mac(s00, a, w0);
        s10 = dot.mac(s10, a, w1);
        a = v128.load32_splat(a1);
        s01 = dot.mac(s01, a, w0);
        s11 = dot.mac(s11, a, w1);
        a = v128.load32_splat(a2);
        s02 = dot.mac(s02, a, w0);
        s12 = dot.mac(s12, a, w1);
        a = v128.load32_splat(a3);
        s03 = dot.mac(s03, a, w0);
        s13 = dot.mac(s13, a, w1);
        a0 += 4;
        a1 += 4;
        a2 += 4;
        a3 += 4;
      }
      if (fmt.w16<F>()) {
        const sc0 = v128.load(w), sc1 = v128.load(w, 16);
        i00 = i32x4.add(i00, dot.scaled(s00, sc0)), i10 = i32x4.add(i10, dot.scaled(s10, sc1));
        i01 = i32x4.add(i01, dot.scaled(s01, sc0)), i11 = i32x4.add(i11, dot.scaled(s11, sc1));
        i02 = i32x4.add(i02, dot.scaled(s02, sc0)), i12 = i32x4.add(i12, dot.scaled(s12, sc1));
        i03 = i32x4.add(i03, dot.scaled(s03, sc0)), i13 = i32x4.add(i13, dot.scaled(s13, sc1));
        w += 32;
        pairs = ACT_PAIRS1 - 16 * ACT_QUANT;
      } else {
        i00 = dot.sum(s00), i10 = dot.sum(s10), i01 = dot.sum(s01), i11 = dot.sum(s11);
        i02 = dot.sum(s02), i12 = dot.sum(s12), i03 = dot.sum(s03), i13 = dot.sum(s13);
      }
    }
    const d0 = v128.load(w), d1 = v128.load(w, 16);
    const m0 = fmt.has_min<F>() ? v128.load(w, 32) : zero, m1 = fmt.has_min<F>() ? v128.load(w, 48) : zero;
    const n0 = fmt.has_min<F>() && fmt.w16<F>() ? v128.load(w, 64) : zero, n1 = fmt.has_min<F>() && fmt.w16<F>() ? v128.load(w, 80) : zero;
    column<F>(acc, a0, i00, d0, m0, n0, i10, d1, m1, n1);
    column<F>(acc + ACC, a1, i01, d0, m0, n0, i11, d1, m1, n1);
    column<F>(acc + 2 * ACC, a2, i02, d0, m0, n0, i12, d1, m1, n1);
    column<F>(acc + 3 * ACC, a3, i03, d0, m0, n0, i13, d1, m1, n1);
    w += 32 + mins<F>();
    a0 += ACT_BLOCK - ACT_QUANTS;
    a1 += ACT_BLOCK - ACT_QUANTS;
    a2 += ACT_BLOCK - ACT_QUANTS;
    a3 += ACT_BLOCK - ACT_QUANTS;
  }
}

/**
 * The same for 8-bit codes as two nibbles: 8 rows x 2 columns, with sums for low and high nibbles. A step in the panel is 64 bytes:
 * low nibbles of both groups, then high ones. Half the columns, so that the sums stay in registers.
 */
function tile_split<F, D>(w: usize, a0: usize, a1: usize, acc: usize, n: i32): void {
  const dot = changetype<D>(0), zero = i32x4.splat(0);
  for (; n > 0; n--) {
    let s00 = zero, s10 = zero, s01 = zero, s11 = zero, u00 = zero, u10 = zero, u01 = zero, u11 = zero;
    for (const end = w + 2 * CODES; w != end; w += 64) {
      const w0 = v128.load(w), w1 = v128.load(w, 16), h0 = v128.load(w, 32), h1 = v128.load(w, 48);
      let a = v128.load32_splat(a0);
      s00 = dot.mac(s00, a, w0);
      s10 = dot.mac(s10, a, w1);
      u00 = dot.mac(u00, a, h0);
      u10 = dot.mac(u10, a, h1);
      a = v128.load32_splat(a1);
      s01 = dot.mac(s01, a, w0);
      s11 = dot.mac(s11, a, w1);
      u01 = dot.mac(u01, a, h0);
      u11 = dot.mac(u11, a, h1);
      a0 += 4;
      a1 += 4;
    }
    const d0 = v128.load(w), d1 = v128.load(w, 16);
    column<F>(acc, a0, join<D>(s00, u00), d0, zero, zero, join<D>(s10, u10), d1, zero, zero);
    column<F>(acc + ACC, a1, join<D>(s01, u01), d0, zero, zero, join<D>(s11, u11), d1, zero, zero);
    w += 32;
    a0 += ACT_BLOCK - ACT_QUANTS;
    a1 += ACT_BLOCK - ACT_QUANTS;
  }
}

// @ts-ignore: decorator
@inline
function join<D>(low: v128, high: v128): v128 {
  return i32x4.add(changetype<D>(0).sum(low), i32x4.shl(changetype<D>(0).sum(high), 4));
}

/** Four columns over half a panel. */
// @ts-ignore: decorator
@inline
function columns<F, D>(w: usize, a0: usize, a1: usize, a2: usize, a3: usize, acc: usize, n: i32): void {
  if (fmt.wide<F>() && changetype<D>(0).splits()) {
    tile_split<F, D>(w, a0, a1, acc, n);
    tile_split<F, D>(w, a2, a3, acc + 2 * ACC, n);
  } else {
    tile<F, D>(w, a0, a1, a2, a3, acc, n);
  }
}

/** What a column's sums start at; `pairs` is where a pass finds its pair sums. */
// @ts-ignore: decorator
@inline
function start<F, D>(a: usize, pairs: usize): v128 {
  if (fmt.wide<F>()) return i32x4.splat(0);
  if (fmt.w16<F>()) return changetype<D>(0).init(fmt.offset<F>(v128.load32_splat(a + pairs)));
  return changetype<D>(0).init(fmt.offset<F>(i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1))));
}

/** One run's integer sums to the f32 sums of a column; a: behind its quants. */
// @ts-ignore: decorator
@inline
function column<F>(acc: usize, a: usize, i0: v128, d0: v128, m0: v128, n0: v128, i1: v128, d1: v128, m1: v128, n1: v128): void {
  const da = v128.load32_splat(a);
  const pair0 = v128.load32_splat(a, ACT_PAIRS0 - ACT_QUANTS), pair1 = v128.load32_splat(a, ACT_PAIRS1 - ACT_QUANTS);
  if (fmt.wide<F>()) {
    const offset = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(i16x8.add(pair0, pair1)), 7);
    i0 = i32x4.add(i0, offset), i1 = i32x4.add(i1, offset);
  } else if (fmt.biased<F>()) {
    const back = i32x4.shl(i32x4.extadd_pairwise_i16x8_s(i16x8.add(pair0, pair1)), 4);
    i0 = i32x4.sub(i0, back), i1 = i32x4.sub(i1, back);
  }
  let x0 = madd(f32x4.convert_i32x4_s(i0), f32x4.mul(d0, da), v128.load(acc));
  let x1 = madd(f32x4.convert_i32x4_s(i1), f32x4.mul(d1, da), v128.load(acc, 16));
  if (fmt.has_min<F>()) {
    if (fmt.w16<F>()) {
      const ds0 = half_dsum(pair0, da), ds1 = half_dsum(pair1, da);
      x0 = madd(n0, ds1, madd(m0, ds0, x0));
      x1 = madd(n1, ds1, madd(m1, ds0, x1));
    } else {
      const ds = v128.load32_splat(a, ACT_DSUM - ACT_QUANTS);
      x0 = madd(m0, ds, x0);
      x1 = madd(m1, ds, x1);
    }
  }
  // Adjacent stores right after each other: what the revectoriser looks for.
  v128.store(acc, x0);
  v128.store(acc, x1, 16);
}

/** Rows [row0, row1) x ncols columns; contracts in mul_mat_packed. */
export function mul_mat_of<F, D>(w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / (fmt.subs<F>() << 5);
  // A single column left over costs a GEMV; two or three fill up a tile with copies of the last one.
  const tiled = (ncols & 3) == 1 ? ncols - 1 : ncols;
  for (let c0 = 0; c0 < tiled; c0 += NC) {
    const nc = min(NC, tiled - c0);
    for (let row = row0; row < row1; row += ROWS) {
      memory.fill(scratch, 0, <usize>((nc + COLS - 1) & -COLS) * ACC);
      const kb = KC / (fmt.subs<F>() << 5);
      for (let b = 0; b < blocks; b += kb) {
        const nb = min(kb, blocks - b);
        unpack<F, D>(w + (<usize>(row / ROWS) * blocks + b) * f.bytes(), nb, scratch + PANELS);
        for (let c = 0; c < nc; c += COLS) {
          const last = nc - 1 - c;
          const a0 = act + <usize>(c0 + c) * act_stride + <usize>(b * fmt.subs<F>()) * ACT_BLOCK;
          const a1 = a0 + <usize>min(1, last) * act_stride, a2 = a0 + <usize>min(2, last) * act_stride, a3 = a0 + <usize>min(3, last) * act_stride;
          const acc = scratch + <usize>c * ACC;
          columns<F, D>(scratch + PANELS, a0, a1, a2, a3, acc, nb * fmt.subs<F>());
          columns<F, D>(scratch + PANELS + PANEL, a0, a1, a2, a3, acc + 32, nb * fmt.subs<F>());
        }
      }
      for (let c = 0; c < nc; c++) put(dst + <usize>(c0 + c) * dst_stride, row, row1, scratch + <usize>c * ACC);
    }
  }
  if (tiled == ncols) return;
  for (let row = row0; row < row1; row += ROWS) {
    const rows = w + <usize>(row / ROWS) * blocks * f.bytes(), a = act + <usize>tiled * act_stride, y = dst + <usize>tiled * dst_stride;
    if (row1 - row >= ROWS) {
      gemv<F, D>(rows, blocks, a, y + (<usize>row << 2));
    } else {
      gemv<F, D>(rows, blocks, a, scratch + SPARE);
      put(y, row, row1, scratch + SPARE);
    }
  }
}

/** Sums of rows [row, min(row + 16, row1)) to their place in a column of dst. */
// @ts-ignore: decorator
@inline
function put(y: usize, row: i32, row1: i32, sums: usize): void {
  memory.copy(y + (<usize>row << 2), sums, <usize>min(ROWS, row1 - row) << 2);
}
