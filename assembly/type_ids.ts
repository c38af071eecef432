/** GGUF's type ids (ggml.h, enum ggml_type) with the blocks they stand for. src/type-traits.ts holds the same; a test compares them. */
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
export const IQ3_S: u32 = 21;
export const IQ2_S: u32 = 22;
export const IQ1_M: u32 = 29;
export const IQ4_NL: u32 = 20;
export const IQ4_XS: u32 = 23;
export const I64: u32 = 27;
export const BF16: u32 = 30;
export const TQ1_0: u32 = 34;
export const TQ2_0: u32 = 35;
export const MXFP4: u32 = 39;

/** Elements of one block; 0 for a type without kernels. */
export function blck_size(type: u32): u32 {
  switch (type) {
    case F32: case F16: case BF16: return 1;
    case Q4_0: case Q4_1: case Q5_0: case Q5_1: case Q8_0: case Q8_1: case IQ4_NL: case MXFP4: return 32;
    case Q2_K: case Q3_K: case Q4_K: case Q5_K: case Q6_K: case Q8_K: case IQ4_XS: case TQ1_0: case TQ2_0: return 256;
    case IQ1_S: case IQ1_M: case IQ2_XXS: case IQ2_XS: case IQ2_S: case IQ3_XXS: case IQ3_S: return 256;
    default: return 0;
  }
}

/** Bytes of one block; 0 for a type without kernels. */
export function type_size(type: u32): u32 {
  switch (type) {
    case F32: return 4;
    case F16: case BF16: return 2;
    case Q4_0: case IQ4_NL: return 18;
    case Q4_1: return 20;
    case Q5_0: return 22;
    case Q5_1: return 24;
    case Q8_0: return 34;
    case Q8_1: return 36;
    case Q2_K: return 84;
    case Q3_K: return 110;
    case Q4_K: return 144;
    case Q5_K: return 176;
    case Q6_K: return 210;
    case Q8_K: return 292;
    case IQ4_XS: return 136;
    case TQ1_0: return 54;
    case TQ2_0: return 66;
    case MXFP4: return 17;
    case IQ1_M: return 56;
    case IQ1_S: return 50;
    case IQ2_S: return 82;
    case IQ2_XS: return 74;
    case IQ2_XXS: return 66;
    case IQ3_S: return 110;
    case IQ3_XXS: return 98;
    default: return 0;
  }
}
