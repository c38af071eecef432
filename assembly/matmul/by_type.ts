// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/** Dispatch from type ids to the functions of packed weights. */
import { BF16, F16, F32 } from './format/float';
import { Q4_0 } from './format/q4_0';
import { Q4_1 } from './format/q4_1';
import { Q5_0 } from './format/q5_0';
import { Q5_1 } from './format/q5_1';
import { Q8_0 } from './format/q8_0';
import { Q2_K } from './format/q2_K';
import { Q3_K } from './format/q3_K';
import { Q4_K } from './format/q4_K';
import { Q5_K } from './format/q5_K';
import { Q6_K } from './format/q6_K';
import { IQ2_XXS } from './format/iq2_xxs';
import { IQ2_XS } from './format/iq2_xs';
import { IQ3_XXS } from './format/iq3_xxs';
import { IQ1_S } from './format/iq1_s';
import { IQ4_NL } from './format/iq4_nl';
import { IQ3_S } from './format/iq3_s';
import { IQ2_S } from './format/iq2_s';
import { IQ4_XS } from './format/iq4_xs';
import { IQ1_M } from './format/iq1_m';
import { TQ1_0 } from './format/tq1_0';
import { TQ2_0 } from './format/tq2_0';
import { MXFP4 } from './format/mxfp4';
import { NVFP4 } from './format/nvfp4';
import { Q1_0 } from './format/q1_0';
import { Q2_0 } from './format/q2_0';
import { IQ1_LEVELS, IQ2_LEVELS, IQ3_S_LEVELS, IQ3_XXS_LEVELS } from './format/levels';
import { Codes7, Codes8 } from './format/grid';
import { gemm_16xn } from './gemm_16xn';
import { gemm_8x4 } from './gemm_8x4';
import { gemm_8x4_bits } from './gemm_8x4_bits';
import { gemm_8x4_grid } from './gemm_8x4_grid';
import { gemm_8x4_i16 } from './gemm_8x4_i16';
import { gemm_8x4_nibbles } from './gemm_8x4_nibbles';
import { gemv_16x1 } from './gemv_16x1';
import { gemv_16x1_bits } from './gemv_16x1_bits';
import { gemv_16x1_grid } from './gemv_16x1_grid';
import { gemv_16x1_levels } from './gemv_16x1_levels';
import { gemv_16x1_nvfp4 } from './gemv_16x1_nvfp4';
import { gemv_16x1_q2_K } from './gemv_16x1_q2_K';
import { gemv_16x1_q6_K } from './gemv_16x1_q6_K';
import { gemv_16x1_s16 } from './gemv_16x1_s16';
import { gemv_16x1_signs } from './gemv_16x1_signs';
import { gemv_16x1_trits } from './gemv_16x1_trits';
import { gemv_f32_16x1 } from './gemv_f32_16x1';
import { pack_grid } from './pack_grid';
import { pack_levels } from './pack_levels';
import { unpack_blocks } from './panel';
import { unpack_bits } from './panel_bits';
import { unpack_f32 } from './panel_f32';
import { unpack_grid, unpack_levels } from './panel_grid';
import { unpack_trits } from './panel_trits';
import { HAS_DOT_ADD, HAS_RELAXED_DOT } from '../simd';
import * as id from '../type/ids';

/** Activation type of a product: F32 or one of act.ts; 0xffffffff if the type cannot be packed. */
export function act_type(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.F32: case id.F16: case id.BF16: return id.F32;
    case id.Q4_0: return HAS_RELAXED_DOT ? 258 : 256;
    case id.Q4_1: case id.Q5_0: case id.Q5_1: case id.MXFP4: return 256;
    case id.Q8_0: case id.IQ4_NL: return HAS_RELAXED_DOT ? 260 : 256;
    case id.Q2_K: return HAS_DOT_ADD ? 257 : HAS_RELAXED_DOT ? 263 : 257;
    case id.Q3_K: case id.Q6_K: case id.IQ2_XXS: case id.IQ2_XS: case id.IQ3_XXS: case id.IQ1_S: case id.IQ3_S: case id.IQ2_S: case id.IQ1_M: return 257;
    case id.Q4_K: case id.Q5_K: return HAS_RELAXED_DOT ? 259 : 257;
    case id.IQ4_XS: return HAS_RELAXED_DOT ? 261 : 257;
    case id.TQ1_0: case id.TQ2_0: case id.NVFP4: case id.Q1_0: case id.Q2_0: return 264;
    case id.IQ1_LEVELS: case id.IQ2_LEVELS: case id.IQ3_XXS_LEVELS: case id.IQ3_S_LEVELS: return HAS_DOT_ADD ? 257 : HAS_RELAXED_DOT ? 277 : 257;
    default: return 0xffffffff;
  }
}

/** Number of f16 vectors at the start of a packed block. All of them must be finite. */
export function f16_vectors(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.Q4_0: case id.Q5_0: case id.Q8_0: case id.Q3_K: case id.Q6_K: case id.IQ2_XXS: case id.IQ2_XS: case id.IQ3_XXS: case id.IQ1_S: case id.IQ4_NL: case id.IQ3_S: case id.IQ2_S: case id.IQ4_XS: case id.IQ1_M: case id.TQ1_0: case id.TQ2_0: case id.Q1_0: case id.Q2_0: case id.IQ1_LEVELS: case id.IQ2_LEVELS: case id.IQ3_XXS_LEVELS: case id.IQ3_S_LEVELS: return 1;
    case id.Q4_1: case id.Q5_1: case id.Q2_K: case id.Q4_K: case id.Q5_K: return 2;
    default: return 0;
  }
}

/** 1 if codes in a panel are signed and have 8 bits, else 0. */
export function panel_signed(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.Q8_0: case id.IQ4_NL: case id.IQ4_XS: return 1;
    case id.IQ2_XXS: case id.IQ2_XS: case id.IQ3_XXS: case id.IQ1_S: case id.IQ3_S: case id.IQ2_S: case id.IQ1_M: case id.IQ1_LEVELS: case id.IQ2_LEVELS: case id.IQ3_XXS_LEVELS: case id.IQ3_S_LEVELS: return HAS_RELAXED_DOT ? 0 : 1;
    default: return 0;
  }
}

/** Integer scales of a sub-block in a panel, 2: one a half; 3: two f32 scales, and no d. */
export function panel_scales(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.Q2_K: case id.Q3_K: case id.Q6_K: return 2;
    case id.Q4_K: case id.Q5_K: return 1;
    case id.IQ2_XXS: case id.IQ2_XS: case id.IQ3_XXS: case id.IQ1_S: case id.IQ3_S: case id.IQ2_S: case id.IQ1_M: case id.IQ1_LEVELS: case id.IQ2_LEVELS: case id.IQ3_XXS_LEVELS: case id.IQ3_S_LEVELS: return HAS_RELAXED_DOT ? 2 : 0;
    case id.IQ4_XS: return HAS_DOT_ADD ? 1 : HAS_RELAXED_DOT ? 0 : 0;
    case id.NVFP4: return 3;
    default: return 0;
  }
}

/** Minima in a panel, 0: none, 1: an f32, 2: an integer a sub-block, 3: an integer a half. */
export function panel_minima(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.Q4_1: case id.Q5_1: return 1;
    case id.Q2_K: return 3;
    case id.Q4_K: case id.Q5_K: return 2;
    default: return 0;
  }
}

/** Number to subtract from every code of a panel. */
export function panel_centre(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.Q4_0: return 8;
    case id.Q5_0: return 16;
    case id.Q3_K: return 4;
    case id.Q6_K: return 32;
    case id.IQ2_XXS: case id.IQ2_XS: case id.IQ3_XXS: case id.IQ1_S: case id.IQ3_S: case id.IQ2_S: case id.IQ1_M: case id.IQ1_LEVELS: case id.IQ2_LEVELS: case id.IQ3_XXS_LEVELS: case id.IQ3_S_LEVELS: return HAS_RELAXED_DOT ? 64 : 0;
    case id.TQ1_0: case id.TQ2_0: case id.Q1_0: case id.Q2_0: return 1;
    case id.MXFP4: case id.NVFP4: return 12;
    default: return 0;
  }
}

/** 1 if a panel consists of runs of 64 weights, else 0. */
export function panel_runs(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case id.TQ1_0: case id.TQ2_0: case id.Q1_0: case id.Q2_0: return 1;
    default: return 0;
  }
}

/**
 * Packs 16 plain rows, `stride` bytes apart at src, to w: one block of each row or, for float
 * types, all n numbers.
 */
export function pack_block(type: u32, src: usize, stride: usize, w: usize, n: i32): void {
  // prettier-ignore
  switch (type) {
    case id.F32: changetype<F32>(0).pack(src, stride, n, w); return;
    case id.F16: changetype<F16>(0).pack(src, stride, n, w); return;
    case id.Q4_0: changetype<Q4_0>(0).pack(src, stride, w); return;
    case id.Q4_1: changetype<Q4_1>(0).pack(src, stride, w); return;
    case id.Q5_0: changetype<Q5_0>(0).pack(src, stride, w); return;
    case id.Q5_1: changetype<Q5_1>(0).pack(src, stride, w); return;
    case id.Q8_0: changetype<Q8_0>(0).pack(src, stride, w); return;
    case id.Q2_K: changetype<Q2_K>(0).pack(src, stride, w); return;
    case id.Q3_K: changetype<Q3_K>(0).pack(src, stride, w); return;
    case id.Q4_K: changetype<Q4_K>(0).pack(src, stride, w); return;
    case id.Q5_K: changetype<Q5_K>(0).pack(src, stride, w); return;
    case id.Q6_K: changetype<Q6_K>(0).pack(src, stride, w); return;
    case id.IQ2_XXS: pack_grid<IQ2_XXS>(type, src, stride, w); return;
    case id.IQ2_XS: pack_grid<IQ2_XS>(type, src, stride, w); return;
    case id.IQ3_XXS: pack_grid<IQ3_XXS>(type, src, stride, w); return;
    case id.IQ1_S: pack_grid<IQ1_S>(type, src, stride, w); return;
    case id.IQ4_NL: changetype<IQ4_NL>(0).pack(src, stride, w); return;
    case id.IQ3_S: pack_grid<IQ3_S>(type, src, stride, w); return;
    case id.IQ2_S: pack_grid<IQ2_S>(type, src, stride, w); return;
    case id.IQ4_XS: changetype<IQ4_XS>(0).pack(src, stride, w); return;
    case id.IQ1_M: pack_grid<IQ1_M>(type, src, stride, w); return;
    case id.BF16: changetype<BF16>(0).pack(src, stride, n, w); return;
    case id.TQ1_0: changetype<TQ1_0>(0).pack(src, stride, w); return;
    case id.TQ2_0: changetype<TQ2_0>(0).pack(src, stride, w); return;
    case id.MXFP4: changetype<MXFP4>(0).pack(src, stride, w); return;
    case id.NVFP4: changetype<NVFP4>(0).pack(src, stride, w); return;
    case id.Q1_0: changetype<Q1_0>(0).pack(src, stride, w); return;
    case id.Q2_0: changetype<Q2_0>(0).pack(src, stride, w); return;
    default: unreachable();
  }
}

/** Packs one block of 16 plain rows in the faster form (`fast` in src/type-traits.ts). */
export function pack_fast(type: u32, src: usize, stride: usize, w: usize): void {
  // prettier-ignore
  switch (type) {
    case id.IQ2_XXS: pack_levels<IQ2_XXS>(type, src, stride, w); return;
    case id.IQ2_XS: pack_levels<IQ2_XS>(type, src, stride, w); return;
    case id.IQ3_XXS: pack_levels<IQ3_XXS>(type, src, stride, w); return;
    case id.IQ1_S: pack_levels<IQ1_S>(type, src, stride, w); return;
    case id.IQ3_S: pack_levels<IQ3_S>(type, src, stride, w); return;
    case id.IQ2_S: pack_levels<IQ2_S>(type, src, stride, w); return;
    case id.IQ1_M: pack_levels<IQ1_M>(type, src, stride, w); return;
    case id.TQ1_0: changetype<TQ1_0>(0).pack_fast(src, stride, w); return;
    default: unreachable();
  }
}

/**
 * Unpacks n packed blocks at w, or for float types n weights of each row, to two panels of 8 rows.
 */
export function unpack(type: u32, w: usize, n: i32, panel: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: unpack_f32<F32>(w, n, panel); return;
    case id.F16: unpack_f32<F16>(w, n, panel); return;
    case id.Q4_0: unpack_blocks<Q4_0>(w, n, panel); return;
    case id.Q4_1: unpack_blocks<Q4_1>(w, n, panel); return;
    case id.Q5_0: unpack_blocks<Q5_0>(w, n, panel); return;
    case id.Q5_1: unpack_blocks<Q5_1>(w, n, panel); return;
    case id.Q8_0: unpack_blocks<Q8_0>(w, n, panel); return;
    case id.Q2_K: unpack_blocks<Q2_K>(w, n, panel); return;
    case id.Q3_K: unpack_blocks<Q3_K>(w, n, panel); return;
    case id.Q4_K: unpack_blocks<Q4_K>(w, n, panel); return;
    case id.Q5_K: unpack_blocks<Q5_K>(w, n, panel); return;
    case id.Q6_K: unpack_blocks<Q6_K>(w, n, panel); return;
    case id.IQ2_XXS: unpack_grid(type, w, n, panel, 0.125, false, true, false); return;
    case id.IQ2_XS: unpack_grid(type, w, n, panel, 0.125, false, true, false); return;
    case id.IQ3_XXS: unpack_grid(type, w, n, panel, 0.25, true, true, true); return;
    case id.IQ1_S: unpack_grid(type, w, n, panel, 0.125, false, false, false); return;
    case id.IQ4_NL: unpack_blocks<IQ4_NL>(w, n, panel); return;
    case id.IQ3_S: unpack_grid(type, w, n, panel, 1, true, true, false); return;
    case id.IQ2_S: unpack_grid(type, w, n, panel, 0.125, false, true, false); return;
    case id.IQ4_XS: unpack_blocks<IQ4_XS>(w, n, panel); return;
    case id.IQ1_M: unpack_grid(type, w, n, panel, 0.125, false, false, false); return;
    case id.BF16: unpack_f32<BF16>(w, n, panel); return;
    case id.TQ1_0: unpack_trits(w, n, panel); return;
    case id.TQ2_0: unpack_bits<TQ2_0>(w, n, 4, panel); return;
    case id.MXFP4: unpack_blocks<MXFP4>(w, n, panel); return;
    case id.NVFP4: unpack_blocks<NVFP4>(w, n, panel); return;
    case id.Q1_0: unpack_bits<Q1_0>(w, n, 2, panel); return;
    case id.Q2_0: unpack_bits<Q2_0>(w, n, 1, panel); return;
    case id.IQ1_LEVELS: unpack_levels(w, n, panel, changetype<IQ1_LEVELS>(0).levels(), 0.125); return;
    case id.IQ2_LEVELS: unpack_levels(w, n, panel, changetype<IQ2_LEVELS>(0).levels(), 0.125); return;
    case id.IQ3_XXS_LEVELS: unpack_levels(w, n, panel, changetype<IQ3_XXS_LEVELS>(0).levels(), 0.5); return;
    case id.IQ3_S_LEVELS: unpack_levels(w, n, panel, changetype<IQ3_S_LEVELS>(0).levels(), 1); return;
    default: unreachable();
  }
}

/** Multiplies a column block by n blocks of a panel. (For float types: product_f32.ts.) */
export function tile(type: u32, w: usize, a: usize, acc: usize, n: i32): void {
  // prettier-ignore
  switch (type) {
    case id.Q4_0: gemm_8x4<Q4_0>(w, a, acc, n); return;
    case id.Q4_1: gemm_8x4<Q4_1>(w, a, acc, n); return;
    case id.Q5_0: gemm_8x4<Q5_0>(w, a, acc, n); return;
    case id.Q5_1: gemm_8x4<Q5_1>(w, a, acc, n); return;
    case id.Q8_0: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4_nibbles<Q8_0>(w, a, acc, n); else gemm_8x4_i16<Q8_0>(w, a, acc, n); } else gemm_8x4_i16<Q8_0>(w, a, acc, n); return;
    case id.Q2_K: gemm_8x4<Q2_K>(w, a, acc, n); return;
    case id.Q3_K: gemm_8x4<Q3_K>(w, a, acc, n); return;
    case id.Q4_K: gemm_8x4<Q4_K>(w, a, acc, n); return;
    case id.Q5_K: gemm_8x4<Q5_K>(w, a, acc, n); return;
    case id.Q6_K: gemm_8x4<Q6_K>(w, a, acc, n); return;
    case id.IQ2_XXS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ2_XS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ3_XXS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ1_S: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ4_NL: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4_nibbles<IQ4_NL>(w, a, acc, n); else gemm_8x4_i16<IQ4_NL>(w, a, acc, n); } else gemm_8x4_i16<IQ4_NL>(w, a, acc, n); return;
    case id.IQ3_S: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ2_S: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ4_XS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4_nibbles<IQ4_XS>(w, a, acc, n); else gemm_8x4_i16<IQ4_XS>(w, a, acc, n); } else gemm_8x4_i16<IQ4_XS>(w, a, acc, n); return;
    case id.IQ1_M: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.TQ1_0: gemm_8x4_bits(w, a, acc, n * 4); return;
    case id.TQ2_0: gemm_8x4_bits(w, a, acc, n * 4); return;
    case id.MXFP4: gemm_8x4<MXFP4>(w, a, acc, n); return;
    case id.NVFP4: gemm_8x4<NVFP4>(w, a, acc, n); return;
    case id.Q1_0: gemm_8x4_bits(w, a, acc, n * 2); return;
    case id.Q2_0: gemm_8x4_bits(w, a, acc, n * 1); return;
    case id.IQ1_LEVELS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ2_LEVELS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ3_XXS_LEVELS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    case id.IQ3_S_LEVELS: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemm_8x4<Codes7>(w, a, acc, n); else gemm_8x4_grid(w, a, acc, n); } else gemm_8x4_i16<Codes8>(w, a, acc, n); return;
    default: unreachable();
  }
}

/** Multiplies one column by 16 rows of n blocks (for float types n weights). */
export function column(type: u32, w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: gemv_f32_16x1<F32>(w, n, a, y); return;
    case id.F16: gemv_f32_16x1<F16>(w, n, a, y); return;
    case id.Q4_0: gemv_16x1<Q4_0>(w, n, a, y); return;
    case id.Q4_1: gemv_16x1<Q4_1>(w, n, a, y); return;
    case id.Q5_0: gemv_16x1<Q5_0>(w, n, a, y); return;
    case id.Q5_1: gemv_16x1<Q5_1>(w, n, a, y); return;
    case id.Q8_0: if (HAS_RELAXED_DOT) { gemv_16x1_signs<Q8_0>(w, n, a, y); } else gemv_16x1<Q8_0>(w, n, a, y); return;
    case id.Q2_K: if (HAS_RELAXED_DOT) { if (HAS_DOT_ADD) gemv_16x1_s16<Q2_K>(w, n, a, y); else gemv_16x1_q2_K<Q2_K>(w, n, a, y); } else gemv_16x1_s16<Q2_K>(w, n, a, y); return;
    case id.Q3_K: gemv_16x1_s16<Q3_K>(w, n, a, y); return;
    case id.Q4_K: gemv_16x1<Q4_K>(w, n, a, y); return;
    case id.Q5_K: gemv_16x1<Q5_K>(w, n, a, y); return;
    case id.Q6_K: gemv_16x1_q6_K<Q6_K>(w, n, a, y, scratch); return;
    case id.IQ2_XXS: gemv_16x1_grid(type, w, n, a, y, scratch, 0.125, false, true, ); return;
    case id.IQ2_XS: gemv_16x1_grid(type, w, n, a, y, scratch, 0.125, false, true, ); return;
    case id.IQ3_XXS: gemv_16x1_grid(type, w, n, a, y, scratch, 0.25, true, true, ); return;
    case id.IQ1_S: gemv_16x1_grid(type, w, n, a, y, scratch, 0.125, false, false, ); return;
    case id.IQ4_NL: if (HAS_RELAXED_DOT) { gemv_16x1_signs<IQ4_NL>(w, n, a, y); } else gemv_16x1<IQ4_NL>(w, n, a, y); return;
    case id.IQ3_S: gemv_16x1_grid(type, w, n, a, y, scratch, 1, true, true, ); return;
    case id.IQ2_S: gemv_16x1_grid(type, w, n, a, y, scratch, 0.125, false, true, ); return;
    case id.IQ4_XS: if (HAS_RELAXED_DOT) { gemv_16x1_signs<IQ4_XS>(w, n, a, y); } else gemv_16x1<IQ4_XS>(w, n, a, y); return;
    case id.IQ1_M: gemv_16x1_grid(type, w, n, a, y, scratch, 0.125, false, false, ); return;
    case id.BF16: gemv_f32_16x1<BF16>(w, n, a, y); return;
    case id.TQ1_0: gemv_16x1_trits(w, n, a, y); return;
    case id.TQ2_0: gemv_16x1_bits<TQ2_0>(w, n, 4, a, y); return;
    case id.MXFP4: gemv_16x1<MXFP4>(w, n, a, y); return;
    case id.NVFP4: gemv_16x1_nvfp4<NVFP4>(w, n, a, y); return;
    case id.Q1_0: gemv_16x1_bits<Q1_0>(w, n, 2, a, y); return;
    case id.Q2_0: gemv_16x1_bits<Q2_0>(w, n, 1, a, y); return;
    case id.IQ1_LEVELS: gemv_16x1_levels(w, n, a, y, scratch, changetype<IQ1_LEVELS>(0).levels(), 0.125); return;
    case id.IQ2_LEVELS: gemv_16x1_levels(w, n, a, y, scratch, changetype<IQ2_LEVELS>(0).levels(), 0.125); return;
    case id.IQ3_XXS_LEVELS: gemv_16x1_levels(w, n, a, y, scratch, changetype<IQ3_XXS_LEVELS>(0).levels(), 0.5); return;
    case id.IQ3_S_LEVELS: gemv_16x1_levels(w, n, a, y, scratch, changetype<IQ3_S_LEVELS>(0).levels(), 1); return;
    default: unreachable();
  }
}

/** Multiplies two or more columns by 16 rows, for activations with ACT_FEW. */
export function few_columns(type: u32, w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  // prettier-ignore
  switch (type) {
    case id.Q4_0: if (HAS_RELAXED_DOT) { gemm_16xn<Q4_0>(w, n, a, stride, ncols, acc, scratch); } else unreachable(); return;
    case id.Q4_K: if (HAS_RELAXED_DOT) { gemm_16xn<Q4_K>(w, n, a, stride, ncols, acc, scratch); } else unreachable(); return;
    case id.Q5_K: if (HAS_RELAXED_DOT) { gemm_16xn<Q5_K>(w, n, a, stride, ncols, acc, scratch); } else unreachable(); return;
    default: unreachable();
  }
}
