// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/** per_format.ts by type id. */
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
import { column_as, facts_as, few_columns_as, pack_block_as, pack_fast_as, tile_as, unpack_as } from './per_format';
import * as id from '../type/ids';

/** Facts of the packed weights of a type (facts.ts); 0 for types that have none. */
export function facts(type: u32): u64 {
  // prettier-ignore
  switch (type) {
    case id.F32: return facts_as<F32>();
    case id.F16: return facts_as<F16>();
    case id.Q4_0: return facts_as<Q4_0>();
    case id.Q4_1: return facts_as<Q4_1>();
    case id.Q5_0: return facts_as<Q5_0>();
    case id.Q5_1: return facts_as<Q5_1>();
    case id.Q8_0: return facts_as<Q8_0>();
    case id.Q2_K: return facts_as<Q2_K>();
    case id.Q3_K: return facts_as<Q3_K>();
    case id.Q4_K: return facts_as<Q4_K>();
    case id.Q5_K: return facts_as<Q5_K>();
    case id.Q6_K: return facts_as<Q6_K>();
    case id.IQ2_XXS: return facts_as<IQ2_XXS>();
    case id.IQ2_XS: return facts_as<IQ2_XS>();
    case id.IQ3_XXS: return facts_as<IQ3_XXS>();
    case id.IQ1_S: return facts_as<IQ1_S>();
    case id.IQ4_NL: return facts_as<IQ4_NL>();
    case id.IQ3_S: return facts_as<IQ3_S>();
    case id.IQ2_S: return facts_as<IQ2_S>();
    case id.IQ4_XS: return facts_as<IQ4_XS>();
    case id.IQ1_M: return facts_as<IQ1_M>();
    case id.BF16: return facts_as<BF16>();
    case id.TQ1_0: return facts_as<TQ1_0>();
    case id.TQ2_0: return facts_as<TQ2_0>();
    case id.MXFP4: return facts_as<MXFP4>();
    case id.NVFP4: return facts_as<NVFP4>();
    case id.Q1_0: return facts_as<Q1_0>();
    case id.Q2_0: return facts_as<Q2_0>();
    case id.IQ1_LEVELS: return facts_as<IQ1_LEVELS>();
    case id.IQ2_LEVELS: return facts_as<IQ2_LEVELS>();
    case id.IQ3_XXS_LEVELS: return facts_as<IQ3_XXS_LEVELS>();
    case id.IQ3_S_LEVELS: return facts_as<IQ3_S_LEVELS>();
    default: return 0;
  }
}

/** Packs 16 plain rows, `stride` bytes apart at src, to w: a block of each, or of floats all n numbers. */
export function pack_block(type: u32, src: usize, stride: usize, w: usize, n: i32): void {
  // prettier-ignore
  switch (type) {
    case id.F32: pack_block_as<F32>(src, stride, w, n); return;
    case id.F16: pack_block_as<F16>(src, stride, w, n); return;
    case id.Q4_0: pack_block_as<Q4_0>(src, stride, w, n); return;
    case id.Q4_1: pack_block_as<Q4_1>(src, stride, w, n); return;
    case id.Q5_0: pack_block_as<Q5_0>(src, stride, w, n); return;
    case id.Q5_1: pack_block_as<Q5_1>(src, stride, w, n); return;
    case id.Q8_0: pack_block_as<Q8_0>(src, stride, w, n); return;
    case id.Q2_K: pack_block_as<Q2_K>(src, stride, w, n); return;
    case id.Q3_K: pack_block_as<Q3_K>(src, stride, w, n); return;
    case id.Q4_K: pack_block_as<Q4_K>(src, stride, w, n); return;
    case id.Q5_K: pack_block_as<Q5_K>(src, stride, w, n); return;
    case id.Q6_K: pack_block_as<Q6_K>(src, stride, w, n); return;
    case id.IQ2_XXS: pack_block_as<IQ2_XXS>(src, stride, w, n); return;
    case id.IQ2_XS: pack_block_as<IQ2_XS>(src, stride, w, n); return;
    case id.IQ3_XXS: pack_block_as<IQ3_XXS>(src, stride, w, n); return;
    case id.IQ1_S: pack_block_as<IQ1_S>(src, stride, w, n); return;
    case id.IQ4_NL: pack_block_as<IQ4_NL>(src, stride, w, n); return;
    case id.IQ3_S: pack_block_as<IQ3_S>(src, stride, w, n); return;
    case id.IQ2_S: pack_block_as<IQ2_S>(src, stride, w, n); return;
    case id.IQ4_XS: pack_block_as<IQ4_XS>(src, stride, w, n); return;
    case id.IQ1_M: pack_block_as<IQ1_M>(src, stride, w, n); return;
    case id.BF16: pack_block_as<BF16>(src, stride, w, n); return;
    case id.TQ1_0: pack_block_as<TQ1_0>(src, stride, w, n); return;
    case id.TQ2_0: pack_block_as<TQ2_0>(src, stride, w, n); return;
    case id.MXFP4: pack_block_as<MXFP4>(src, stride, w, n); return;
    case id.NVFP4: pack_block_as<NVFP4>(src, stride, w, n); return;
    case id.Q1_0: pack_block_as<Q1_0>(src, stride, w, n); return;
    case id.Q2_0: pack_block_as<Q2_0>(src, stride, w, n); return;
    default: unreachable();
  }
}

/** The same to what the type can be packed as besides (`fast` in src/type-traits.ts). */
export function pack_fast(type: u32, src: usize, stride: usize, w: usize): void {
  // prettier-ignore
  switch (type) {
    case id.IQ2_XXS: pack_fast_as<IQ2_XXS>(src, stride, w); return;
    case id.IQ2_XS: pack_fast_as<IQ2_XS>(src, stride, w); return;
    case id.IQ3_XXS: pack_fast_as<IQ3_XXS>(src, stride, w); return;
    case id.IQ1_S: pack_fast_as<IQ1_S>(src, stride, w); return;
    case id.IQ3_S: pack_fast_as<IQ3_S>(src, stride, w); return;
    case id.IQ2_S: pack_fast_as<IQ2_S>(src, stride, w); return;
    case id.IQ1_M: pack_fast_as<IQ1_M>(src, stride, w); return;
    case id.TQ1_0: pack_fast_as<TQ1_0>(src, stride, w); return;
    default: unreachable();
  }
}

/** Unpacks n packed blocks at w, or of floats n weights of a row, to the panels of 8 rows each. */
export function unpack(type: u32, w: usize, n: i32, panel: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: unpack_as<F32>(w, n, panel); return;
    case id.F16: unpack_as<F16>(w, n, panel); return;
    case id.Q4_0: unpack_as<Q4_0>(w, n, panel); return;
    case id.Q4_1: unpack_as<Q4_1>(w, n, panel); return;
    case id.Q5_0: unpack_as<Q5_0>(w, n, panel); return;
    case id.Q5_1: unpack_as<Q5_1>(w, n, panel); return;
    case id.Q8_0: unpack_as<Q8_0>(w, n, panel); return;
    case id.Q2_K: unpack_as<Q2_K>(w, n, panel); return;
    case id.Q3_K: unpack_as<Q3_K>(w, n, panel); return;
    case id.Q4_K: unpack_as<Q4_K>(w, n, panel); return;
    case id.Q5_K: unpack_as<Q5_K>(w, n, panel); return;
    case id.Q6_K: unpack_as<Q6_K>(w, n, panel); return;
    case id.IQ2_XXS: unpack_as<IQ2_XXS>(w, n, panel); return;
    case id.IQ2_XS: unpack_as<IQ2_XS>(w, n, panel); return;
    case id.IQ3_XXS: unpack_as<IQ3_XXS>(w, n, panel); return;
    case id.IQ1_S: unpack_as<IQ1_S>(w, n, panel); return;
    case id.IQ4_NL: unpack_as<IQ4_NL>(w, n, panel); return;
    case id.IQ3_S: unpack_as<IQ3_S>(w, n, panel); return;
    case id.IQ2_S: unpack_as<IQ2_S>(w, n, panel); return;
    case id.IQ4_XS: unpack_as<IQ4_XS>(w, n, panel); return;
    case id.IQ1_M: unpack_as<IQ1_M>(w, n, panel); return;
    case id.BF16: unpack_as<BF16>(w, n, panel); return;
    case id.TQ1_0: unpack_as<TQ1_0>(w, n, panel); return;
    case id.TQ2_0: unpack_as<TQ2_0>(w, n, panel); return;
    case id.MXFP4: unpack_as<MXFP4>(w, n, panel); return;
    case id.NVFP4: unpack_as<NVFP4>(w, n, panel); return;
    case id.Q1_0: unpack_as<Q1_0>(w, n, panel); return;
    case id.Q2_0: unpack_as<Q2_0>(w, n, panel); return;
    case id.IQ1_LEVELS: unpack_as<IQ1_LEVELS>(w, n, panel); return;
    case id.IQ2_LEVELS: unpack_as<IQ2_LEVELS>(w, n, panel); return;
    case id.IQ3_XXS_LEVELS: unpack_as<IQ3_XXS_LEVELS>(w, n, panel); return;
    case id.IQ3_S_LEVELS: unpack_as<IQ3_S_LEVELS>(w, n, panel); return;
    default: unreachable();
  }
}

/** A column block times n blocks of a panel, by the loop of the format. (Those of floats are alike: product_f32.ts.) */
export function tile(type: u32, w: usize, a: usize, acc: usize, n: i32): void {
  // prettier-ignore
  switch (type) {
    case id.F32: tile_as<F32>(w, a, acc, n); return;
    case id.F16: tile_as<F16>(w, a, acc, n); return;
    case id.Q4_0: tile_as<Q4_0>(w, a, acc, n); return;
    case id.Q4_1: tile_as<Q4_1>(w, a, acc, n); return;
    case id.Q5_0: tile_as<Q5_0>(w, a, acc, n); return;
    case id.Q5_1: tile_as<Q5_1>(w, a, acc, n); return;
    case id.Q8_0: tile_as<Q8_0>(w, a, acc, n); return;
    case id.Q2_K: tile_as<Q2_K>(w, a, acc, n); return;
    case id.Q3_K: tile_as<Q3_K>(w, a, acc, n); return;
    case id.Q4_K: tile_as<Q4_K>(w, a, acc, n); return;
    case id.Q5_K: tile_as<Q5_K>(w, a, acc, n); return;
    case id.Q6_K: tile_as<Q6_K>(w, a, acc, n); return;
    case id.IQ2_XXS: tile_as<IQ2_XXS>(w, a, acc, n); return;
    case id.IQ2_XS: tile_as<IQ2_XS>(w, a, acc, n); return;
    case id.IQ3_XXS: tile_as<IQ3_XXS>(w, a, acc, n); return;
    case id.IQ1_S: tile_as<IQ1_S>(w, a, acc, n); return;
    case id.IQ4_NL: tile_as<IQ4_NL>(w, a, acc, n); return;
    case id.IQ3_S: tile_as<IQ3_S>(w, a, acc, n); return;
    case id.IQ2_S: tile_as<IQ2_S>(w, a, acc, n); return;
    case id.IQ4_XS: tile_as<IQ4_XS>(w, a, acc, n); return;
    case id.IQ1_M: tile_as<IQ1_M>(w, a, acc, n); return;
    case id.BF16: tile_as<BF16>(w, a, acc, n); return;
    case id.TQ1_0: tile_as<TQ1_0>(w, a, acc, n); return;
    case id.TQ2_0: tile_as<TQ2_0>(w, a, acc, n); return;
    case id.MXFP4: tile_as<MXFP4>(w, a, acc, n); return;
    case id.NVFP4: tile_as<NVFP4>(w, a, acc, n); return;
    case id.Q1_0: tile_as<Q1_0>(w, a, acc, n); return;
    case id.Q2_0: tile_as<Q2_0>(w, a, acc, n); return;
    case id.IQ1_LEVELS: tile_as<IQ1_LEVELS>(w, a, acc, n); return;
    case id.IQ2_LEVELS: tile_as<IQ2_LEVELS>(w, a, acc, n); return;
    case id.IQ3_XXS_LEVELS: tile_as<IQ3_XXS_LEVELS>(w, a, acc, n); return;
    case id.IQ3_S_LEVELS: tile_as<IQ3_S_LEVELS>(w, a, acc, n); return;
    default: unreachable();
  }
}

/** One column times 16 rows of n blocks (of floats n weights), by the loop of the format. */
export function column(type: u32, w: usize, n: i32, a: usize, y: usize, scratch: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: column_as<F32>(w, n, a, y, scratch); return;
    case id.F16: column_as<F16>(w, n, a, y, scratch); return;
    case id.Q4_0: column_as<Q4_0>(w, n, a, y, scratch); return;
    case id.Q4_1: column_as<Q4_1>(w, n, a, y, scratch); return;
    case id.Q5_0: column_as<Q5_0>(w, n, a, y, scratch); return;
    case id.Q5_1: column_as<Q5_1>(w, n, a, y, scratch); return;
    case id.Q8_0: column_as<Q8_0>(w, n, a, y, scratch); return;
    case id.Q2_K: column_as<Q2_K>(w, n, a, y, scratch); return;
    case id.Q3_K: column_as<Q3_K>(w, n, a, y, scratch); return;
    case id.Q4_K: column_as<Q4_K>(w, n, a, y, scratch); return;
    case id.Q5_K: column_as<Q5_K>(w, n, a, y, scratch); return;
    case id.Q6_K: column_as<Q6_K>(w, n, a, y, scratch); return;
    case id.IQ2_XXS: column_as<IQ2_XXS>(w, n, a, y, scratch); return;
    case id.IQ2_XS: column_as<IQ2_XS>(w, n, a, y, scratch); return;
    case id.IQ3_XXS: column_as<IQ3_XXS>(w, n, a, y, scratch); return;
    case id.IQ1_S: column_as<IQ1_S>(w, n, a, y, scratch); return;
    case id.IQ4_NL: column_as<IQ4_NL>(w, n, a, y, scratch); return;
    case id.IQ3_S: column_as<IQ3_S>(w, n, a, y, scratch); return;
    case id.IQ2_S: column_as<IQ2_S>(w, n, a, y, scratch); return;
    case id.IQ4_XS: column_as<IQ4_XS>(w, n, a, y, scratch); return;
    case id.IQ1_M: column_as<IQ1_M>(w, n, a, y, scratch); return;
    case id.BF16: column_as<BF16>(w, n, a, y, scratch); return;
    case id.TQ1_0: column_as<TQ1_0>(w, n, a, y, scratch); return;
    case id.TQ2_0: column_as<TQ2_0>(w, n, a, y, scratch); return;
    case id.MXFP4: column_as<MXFP4>(w, n, a, y, scratch); return;
    case id.NVFP4: column_as<NVFP4>(w, n, a, y, scratch); return;
    case id.Q1_0: column_as<Q1_0>(w, n, a, y, scratch); return;
    case id.Q2_0: column_as<Q2_0>(w, n, a, y, scratch); return;
    case id.IQ1_LEVELS: column_as<IQ1_LEVELS>(w, n, a, y, scratch); return;
    case id.IQ2_LEVELS: column_as<IQ2_LEVELS>(w, n, a, y, scratch); return;
    case id.IQ3_XXS_LEVELS: column_as<IQ3_XXS_LEVELS>(w, n, a, y, scratch); return;
    case id.IQ3_S_LEVELS: column_as<IQ3_S_LEVELS>(w, n, a, y, scratch); return;
    default: unreachable();
  }
}

/** Two and more columns times 16 rows, for the formats that take it (TAKES_16XN of facts.ts). */
export function few_columns(type: u32, w: usize, n: i32, a: usize, stride: usize, ncols: i32, acc: usize, scratch: usize): void {
  // prettier-ignore
  switch (type) {
    case id.F32: few_columns_as<F32>(w, n, a, stride, ncols, acc, scratch); return;
    case id.F16: few_columns_as<F16>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q4_0: few_columns_as<Q4_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q4_1: few_columns_as<Q4_1>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q5_0: few_columns_as<Q5_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q5_1: few_columns_as<Q5_1>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q8_0: few_columns_as<Q8_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q2_K: few_columns_as<Q2_K>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q3_K: few_columns_as<Q3_K>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q4_K: few_columns_as<Q4_K>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q5_K: few_columns_as<Q5_K>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q6_K: few_columns_as<Q6_K>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ2_XXS: few_columns_as<IQ2_XXS>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ2_XS: few_columns_as<IQ2_XS>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ3_XXS: few_columns_as<IQ3_XXS>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ1_S: few_columns_as<IQ1_S>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ4_NL: few_columns_as<IQ4_NL>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ3_S: few_columns_as<IQ3_S>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ2_S: few_columns_as<IQ2_S>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ4_XS: few_columns_as<IQ4_XS>(w, n, a, stride, ncols, acc, scratch); return;
    case id.IQ1_M: few_columns_as<IQ1_M>(w, n, a, stride, ncols, acc, scratch); return;
    case id.BF16: few_columns_as<BF16>(w, n, a, stride, ncols, acc, scratch); return;
    case id.TQ1_0: few_columns_as<TQ1_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.TQ2_0: few_columns_as<TQ2_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.MXFP4: few_columns_as<MXFP4>(w, n, a, stride, ncols, acc, scratch); return;
    case id.NVFP4: few_columns_as<NVFP4>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q1_0: few_columns_as<Q1_0>(w, n, a, stride, ncols, acc, scratch); return;
    case id.Q2_0: few_columns_as<Q2_0>(w, n, a, stride, ncols, acc, scratch); return;
    default: unreachable();
  }
}
