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
import { ACT_BLOCK, ACT_D, ACT_PAIRS0, ACT_PAIRS1 } from './act';
import { ACT_QUANT } from './dot';
import { gemv } from './gemv';
import { Format } from './packed/format';
import { G0, G1, G2, G3, ROWS } from './packed/group';
import { madd } from './simd';

/** Weights of a row unpacked at a time. */
const KC: i32 = 512;

/** Columns whose sums are kept at a time. */
const NC: i32 = 64;

const COLS: i32 = 4;
/** Bytes of one column's 16 sums. */
const ACC: usize = 64;

/** Codes of 32 weights of 8 rows. */
const CODES: usize = 256 * ACT_QUANT;
const PANEL_BLOCK: usize = CODES + 32;
const PANEL: usize = <usize>(KC >> 5) * PANEL_BLOCK;
const PANELS: usize = <usize>NC * ACC;
/** A packed group's 16 outputs where only some of them exist. */
const SPARE: usize = PANELS + 2 * PANEL;
export const GEMM_SCRATCH: usize = SPARE + ACC;

/** Sums of 8 rows x 4 columns go on over n runs of 32 weights. Eight i16 sums stay in registers; the f32 sums live in memory (L1). */
function tile<F extends Format, D>(w: usize, a0: usize, a1: usize, a2: usize, a3: usize, acc: usize, n: i32): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  for (; n > 0; n--) {
    let s00 = pairs<F, D>(a0), s10 = s00;
    let s01 = pairs<F, D>(a1), s11 = s01;
    let s02 = pairs<F, D>(a2), s12 = s02;
    let s03 = pairs<F, D>(a3), s13 = s03;
    // A loop, not unrolled: unrolled, V8 spills (37 against 60 GMAC/s on Node 20, 51 against 60 on Node 24).
    for (const end = w + CODES; w != end; w += 32) {
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
    const d0 = v128.load(w), d1 = v128.load(w, 16);
    // Adjacent stores right after each other: what the revectoriser looks for.
    let d = v128.load32_splat(a0);
    let x0 = add<D>(s00, d0, d, v128.load(acc)), x1 = add<D>(s10, d1, d, v128.load(acc, 16));
    v128.store(acc, x0);
    v128.store(acc, x1, 16);
    d = v128.load32_splat(a1);
    x0 = add<D>(s01, d0, d, v128.load(acc, 64)), x1 = add<D>(s11, d1, d, v128.load(acc, 80));
    v128.store(acc, x0, 64);
    v128.store(acc, x1, 80);
    d = v128.load32_splat(a2);
    x0 = add<D>(s02, d0, d, v128.load(acc, 128)), x1 = add<D>(s12, d1, d, v128.load(acc, 144));
    v128.store(acc, x0, 128);
    v128.store(acc, x1, 144);
    d = v128.load32_splat(a3);
    x0 = add<D>(s03, d0, d, v128.load(acc, 192)), x1 = add<D>(s13, d1, d, v128.load(acc, 208));
    v128.store(acc, x0, 192);
    v128.store(acc, x1, 208);
    w += 32;
    a0 += ACT_BLOCK - ACT_D;
    a1 += ACT_BLOCK - ACT_D;
    a2 += ACT_BLOCK - ACT_D;
    a3 += ACT_BLOCK - ACT_D;
  }
}

// @ts-ignore: decorator
@inline
function pairs<F extends Format, D>(a: usize): v128 {
  return changetype<D>(0).init(changetype<F>(0).offset(i16x8.add(v128.load32_splat(a, ACT_PAIRS0), v128.load32_splat(a, ACT_PAIRS1))));
}

// @ts-ignore: decorator
@inline
function add<D>(s: v128, d: v128, da: v128, acc: v128): v128 {
  return madd(f32x4.convert_i32x4_s(changetype<D>(0).sum(s)), f32x4.mul(d, da), acc);
}

/** n blocks of 16 packed rows at w to the two halves of a panel. */
function unpack<F extends Format, D>(w: usize, n: i32, panel: usize): void {
  const f = changetype<F>(0);
  for (; n > 0; n--) {
    for (let sub = 0; sub < f.subs(); sub++) {
      unpack_group<F, D, G0>(w, sub, panel);
      unpack_group<F, D, G1>(w, sub, panel + 16);
      unpack_group<F, D, G2>(w, sub, panel + PANEL);
      unpack_group<F, D, G3>(w, sub, panel + PANEL + 16);
      panel += PANEL_BLOCK;
    }
    w += f.bytes();
  }
}

// @ts-ignore: decorator
@inline
function unpack_group<F extends Format, D, G>(w: usize, sub: i32, panel: usize): void {
  const f = changetype<F>(0), dot = changetype<D>(0);
  const m = f.mask(), m2 = f.mask2(), h = f.high(w, sub);
  let q = f.quads(w, sub);
  for (let t = 0; t < 4; t++) {
    const v = f.load<G>(q), b = f.bits<G>(h, t);
    dot.put(panel, t, f.lo(v, b, m, m2));
    dot.put(panel, t + 4, f.hi(f.load2<G>(q, v), b, m, m2));
    q += f.quad_bytes();
  }
  v128.store(panel + CODES, f.d<G>(w));
}

/** Rows [row0, row1) x ncols columns; contracts in mul_mat_packed. */
export function mul_mat_of<F extends Format, D>(w: usize, ne00: i32, row0: i32, row1: i32, act: usize, act_stride: usize, ncols: i32, dst: usize, dst_stride: usize, scratch: usize): void {
  const f = changetype<F>(0);
  const blocks = ne00 / (f.subs() << 5);
  // A single column left over costs a GEMV; two or three fill up a tile with copies of the last one.
  const tiled = (ncols & 3) == 1 ? ncols - 1 : ncols;
  for (let c0 = 0; c0 < tiled; c0 += NC) {
    const nc = min(NC, tiled - c0);
    for (let row = row0; row < row1; row += ROWS) {
      memory.fill(scratch, 0, <usize>((nc + COLS - 1) & -COLS) * ACC);
      const kb = KC / (f.subs() << 5);
      for (let b = 0; b < blocks; b += kb) {
        const nb = min(kb, blocks - b);
        unpack<F, D>(w + (<usize>(row / ROWS) * blocks + b) * f.bytes(), nb, scratch + PANELS);
        for (let c = 0; c < nc; c += COLS) {
          const last = nc - 1 - c;
          const a0 = act + <usize>(c0 + c) * act_stride + <usize>(b * f.subs()) * ACT_BLOCK;
          const a1 = a0 + <usize>min(1, last) * act_stride, a2 = a0 + <usize>min(2, last) * act_stride, a3 = a0 + <usize>min(3, last) * act_stride;
          const acc = scratch + <usize>c * ACC;
          tile<F, D>(scratch + PANELS, a0, a1, a2, a3, acc, nb * f.subs());
          tile<F, D>(scratch + PANELS + PANEL, a0, a1, a2, a3, acc + 32, nb * f.subs());
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
