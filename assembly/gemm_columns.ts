/**
 * How a block ends in the GEMM's loops: integer sums of 8 rows x 4 columns to the f32 sums, of 32 weights or of a super-block's 256.
 * Stores of a column stand right after each other: what the revectoriser looks for.
 */
import * as fmt from './packed/format';
import { ACC, G0, G1, G2, G3 } from './packed/group';
import { minima_bytes } from './panel';
import { QUAD_REST, quad_run, run_sums, splat } from './quads';

/** Integer sums of a block to the f32 sums of column C: where there are no minima. */
// @ts-ignore: decorator
@inline
export function column_of<F, C>(acc: usize, da: v128, i0: v128, d0: v128, i1: v128, d1: v128): void {
  const x0 = fmt.add_block<F>(v128.load(acc, ACC / 16 * offsetof<C>()), i0, d0, da);
  const x1 = fmt.add_block<F>(v128.load(acc, ACC / 16 * offsetof<C>() + 16), i1, d1, da);
  v128.store(acc, x0, ACC / 16 * offsetof<C>());
  v128.store(acc, x1, ACC / 16 * offsetof<C>() + 16);
}

/** Integer sums of a block, and its minima m times s, to the f32 sums of column C. */
// @ts-ignore: decorator
@inline
export function column<F, C>(acc: usize, da: v128, i0: v128, d0: v128, s0: v128, m0: v128, i1: v128, d1: v128, s1: v128, m1: v128): void {
  if (!fmt.has_min<F>()) return column_of<F, C>(acc, da, i0, d0, i1, d1);
  const x0 = fmt.add_block_min(v128.load(acc, ACC / 16 * offsetof<C>()), i0, d0, s0, m0, da);
  const x1 = fmt.add_block_min(v128.load(acc, ACC / 16 * offsetof<C>() + 16), i1, d1, s1, m1, da);
  v128.store(acc, x0, ACC / 16 * offsetof<C>());
  v128.store(acc, x1, ACC / 16 * offsetof<C>() + 16);
}

/** The end of a super-block: at w its scales, and before them, if any, its minima; just before a its activations. */
// @ts-ignore: decorator
@inline
export function super_block_columns<F>(w: usize, a: usize, acc: usize, i00: v128, i10: v128, i01: v128, i11: v128, i02: v128, i12: v128, i03: v128, i13: v128): void {
  if (fmt.has_min<F>()) return with_minima<F>(w - minima_bytes<F>(), a, acc, i00, i10, i01, i11, i02, i12, i03, i13);
  const d0 = v128.load(w), d1 = v128.load(w, 16), da = v128.load(a - quad_run<F>() - QUAD_REST);
  column_of<F, G0>(acc, splat<G0>(da), i00, d0, i10, d1);
  column_of<F, G1>(acc, splat<G1>(da), i01, d0, i11, d1);
  column_of<F, G2>(acc, splat<G2>(da), i02, d0, i12, d1);
  column_of<F, G3>(acc, splat<G3>(da), i03, d0, i13, d1);
}

/**
 * The same where there are minima: these, at w, times the sums of the activations, which end at a.
 * (Inlined: V8's revectoriser ends the process where vectors that it joined are arguments of a call.)
 */
// @ts-ignore: decorator
@inline
function with_minima<F>(w: usize, a: usize, acc: usize, i00: v128, i10: v128, i01: v128, i11: v128, i02: v128, i12: v128, i03: v128, i13: v128): void {
  const zero = i32x4.splat(0), step = fmt.w16<F>() ? quad_run<F>() : quad_run<F>() << 1;
  let n00 = zero, n10 = zero, n01 = zero, n11 = zero, n02 = zero, n12 = zero, n03 = zero, n13 = zero;
  let p = a - 8 * quad_run<F>() + step - QUAD_REST;
  for (const end = w + minima_bytes<F>(); w != end; w += 32) {
    const v = v128.load(w), z = v128.load(w, 16), sums = run_sums<F>(p);
    let x = splat<G0>(sums);
    n00 = i32x4.add(n00, i32x4.dot_i16x8_s(v, x)), n10 = i32x4.add(n10, i32x4.dot_i16x8_s(z, x));
    x = splat<G1>(sums);
    n01 = i32x4.add(n01, i32x4.dot_i16x8_s(v, x)), n11 = i32x4.add(n11, i32x4.dot_i16x8_s(z, x));
    x = splat<G2>(sums);
    n02 = i32x4.add(n02, i32x4.dot_i16x8_s(v, x)), n12 = i32x4.add(n12, i32x4.dot_i16x8_s(z, x));
    x = splat<G3>(sums);
    n03 = i32x4.add(n03, i32x4.dot_i16x8_s(v, x)), n13 = i32x4.add(n13, i32x4.dot_i16x8_s(z, x));
    p += step;
  }
  const d0 = v128.load(w), d1 = v128.load(w, 16), e0 = v128.load(w, 32), e1 = v128.load(w, 48), da = v128.load(a - quad_run<F>() - QUAD_REST);
  column<F, G0>(acc, splat<G0>(da), i00, d0, f32x4.convert_i32x4_s(n00), e0, i10, d1, f32x4.convert_i32x4_s(n10), e1);
  column<F, G1>(acc, splat<G1>(da), i01, d0, f32x4.convert_i32x4_s(n01), e0, i11, d1, f32x4.convert_i32x4_s(n11), e1);
  column<F, G2>(acc, splat<G2>(da), i02, d0, f32x4.convert_i32x4_s(n02), e0, i12, d1, f32x4.convert_i32x4_s(n12), e1);
  column<F, G3>(acc, splat<G3>(da), i03, d0, f32x4.convert_i32x4_s(n03), e0, i13, d1, f32x4.convert_i32x4_s(n13), e1);
}
