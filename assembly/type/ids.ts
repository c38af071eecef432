// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/** ggml's type ids and traits (ggml.h, enum ggml_type; ggml.c, type_traits). */
export const F32: u32 = 0;
export const F16: u32 = 1;
export const Q4_0: u32 = 2;
export const Q4_1: u32 = 3;
export const Q5_0: u32 = 6;
export const Q5_1: u32 = 7;
export const Q8_0: u32 = 8;
export const Q8_1: u32 = 9;
export const Q2_K: u32 = 10;
export const Q3_K: u32 = 11;
export const Q4_K: u32 = 12;
export const Q5_K: u32 = 13;
export const Q6_K: u32 = 14;
export const Q8_K: u32 = 15;
export const IQ2_XXS: u32 = 16;
export const IQ2_XS: u32 = 17;
export const IQ3_XXS: u32 = 18;
export const IQ1_S: u32 = 19;
export const IQ4_NL: u32 = 20;
export const IQ3_S: u32 = 21;
export const IQ2_S: u32 = 22;
export const IQ4_XS: u32 = 23;
export const I8: u32 = 24;
export const I16: u32 = 25;
export const I32: u32 = 26;
export const I64: u32 = 27;
export const F64: u32 = 28;
export const IQ1_M: u32 = 29;
export const BF16: u32 = 30;
export const TQ1_0: u32 = 34;
export const TQ2_0: u32 = 35;
export const MXFP4: u32 = 39;
export const NVFP4: u32 = 40;
export const Q1_0: u32 = 41;
export const Q2_0: u32 = 42;
export const MXFP8_E5M2: u32 = 254;
export const MXFP8_E4M3: u32 = 255;
export const IQ1_LEVELS: u32 = 240;
export const IQ2_LEVELS: u32 = 241;
export const IQ3_XXS_LEVELS: u32 = 242;
export const IQ3_S_LEVELS: u32 = 243;

/** Elements of a block; 0 for a type without kernels. */
export function blck_size(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case F32: case F16: case BF16: return 1;
    case Q4_0: case Q4_1: case Q5_0: case Q5_1: case Q8_0: case Q8_1: case IQ4_NL: case MXFP4: case MXFP8_E5M2: case MXFP8_E4M3: return 32;
    case Q2_K: case Q3_K: case Q4_K: case Q5_K: case Q6_K: case Q8_K: case IQ2_XXS: case IQ2_XS: case IQ3_XXS: case IQ1_S: case IQ3_S: case IQ2_S: case IQ4_XS: case IQ1_M: case TQ1_0: case TQ2_0: case IQ1_LEVELS: case IQ2_LEVELS: case IQ3_XXS_LEVELS: case IQ3_S_LEVELS: return 256;
    case NVFP4: case Q2_0: return 64;
    case Q1_0: return 128;
    default: return 0;
  }
}

/** Bytes of a block; 0 for a type without kernels. */
export function type_size(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case F32: return 4;
    case F16: case BF16: return 2;
    case Q4_0: case IQ4_NL: case Q1_0: case Q2_0: return 18;
    case Q4_1: return 20;
    case Q5_0: return 22;
    case Q5_1: return 24;
    case Q8_0: return 34;
    case Q8_1: case NVFP4: return 36;
    case Q2_K: return 84;
    case Q3_K: case IQ3_S: return 110;
    case Q4_K: return 144;
    case Q5_K: return 176;
    case Q6_K: return 210;
    case Q8_K: return 292;
    case IQ2_XXS: case TQ2_0: return 66;
    case IQ2_XS: return 74;
    case IQ3_XXS: return 98;
    case IQ1_S: return 50;
    case IQ2_S: return 82;
    case IQ4_XS: return 136;
    case IQ1_M: return 56;
    case TQ1_0: return 54;
    case MXFP4: return 17;
    case MXFP8_E5M2: case MXFP8_E4M3: return 33;
    case IQ1_LEVELS: case IQ2_LEVELS: case IQ3_XXS_LEVELS: case IQ3_S_LEVELS: return 138;
    default: return 0;
  }
}

/** Type in which vec_dot takes its activations; 0xffffffff if there is no vec_dot. */
export function vec_dot_type(type: u32): u32 {
  // prettier-ignore
  switch (type) {
    case F32: case F16: case BF16: return F32;
    case Q4_0: case Q5_0: case Q8_0: case IQ4_NL: return Q8_0;
    case Q4_1: case Q5_1: return Q8_1;
    case Q2_K: case Q3_K: case Q4_K: case Q5_K: case Q6_K: case IQ4_XS: return Q8_K;
    default: return 0xffffffff;
  }
}

/** True for types whose plain rows are multiplied, eight at a time (matmul/rows_8x1.ts). */
@inline
export function takes_rows(type: u32): bool {
  return type == Q4_0 || type == Q8_0;
}

/** True if a cache of this type is kept as blocks for integer products (ops/attention_blocks.ts). */
@inline
export function has_blocks(type: u32): bool {
  return type == Q8_0 || type == Q4_0;
}
