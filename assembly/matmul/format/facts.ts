// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
/**
 * Facts of packed formats. bytes: of a packed block, the same as of 16 plain blocks, because rows
 * are packed in place.
 */
import { KScales } from './k_scales';
import { Levels } from './nibble_levels';
import { TwoBits } from './few_bits';

@unmanaged
export class Q4_0_Facts {
  @inline bytes(): usize {
    return 16 * 18;
  }
  @inline width(): i32 {
    return 4;
  }
  @inline centre(): i32 {
    return 8;
  }
}

@unmanaged
export class Q4_1_Facts {
  has_min: bool;
  @inline bytes(): usize {
    return 16 * 20;
  }
  @inline width(): i32 {
    return 4;
  }
}

@unmanaged
export class Q5_0_Facts {
  @inline bytes(): usize {
    return 16 * 22;
  }
  @inline width(): i32 {
    return 5;
  }
  @inline centre(): i32 {
    return 16;
  }
}

@unmanaged
export class Q5_1_Facts {
  has_min: bool;
  @inline bytes(): usize {
    return 16 * 24;
  }
  @inline width(): i32 {
    return 5;
  }
}

@unmanaged
export class Q8_0_Facts {
  @inline bytes(): usize {
    return 16 * 34;
  }
  @inline width(): i32 {
    return 8;
  }
}

@unmanaged
export class Q2_K_Facts {
  super_block: bool;
  s16: bool;
  has_min: bool;
  @inline bytes(): usize {
    return 16 * 84;
  }
  @inline width(): i32 {
    return 2;
  }
  @inline scale_bits(): i32 {
    return 4;
  }
}

@unmanaged
export class Q3_K_Facts {
  super_block: bool;
  s16: bool;
  @inline bytes(): usize {
    return 16 * 110;
  }
  @inline width(): i32 {
    return 3;
  }
  @inline centre(): i32 {
    return 4;
  }
  @inline scale_bits(): i32 {
    return 5;
  }
}

@unmanaged
export class Q4_K_Facts extends KScales {
  super_block: bool;
  has_min: bool;
  @inline bytes(): usize {
    return 16 * 144;
  }
  @inline width(): i32 {
    return 4;
  }
}

@unmanaged
export class Q5_K_Facts extends KScales {
  super_block: bool;
  has_min: bool;
  @inline bytes(): usize {
    return 16 * 176;
  }
  @inline width(): i32 {
    return 5;
  }
}

@unmanaged
export class Q6_K_Facts {
  super_block: bool;
  s16: bool;
  @inline bytes(): usize {
    return 16 * 210;
  }
  @inline width(): i32 {
    return 6;
  }
  @inline centre(): i32 {
    return 32;
  }
  @inline scale_bits(): i32 {
    return 7;
  }
}

@unmanaged
export class IQ2_XXS_Facts {
  grid: bool;
  has_signs: bool;
  @inline bytes(): usize {
    return 16 * 66;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ2_XS_Facts {
  grid: bool;
  has_signs: bool;
  @inline bytes(): usize {
    return 16 * 74;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ3_XXS_Facts {
  grid: bool;
  has_signs: bool;
  fours: bool;
  even: bool;
  @inline bytes(): usize {
    return 16 * 98;
  }
  @inline factor(): f32 {
    return 0.25;
  }
}

@unmanaged
export class IQ1_S_Facts {
  grid: bool;
  @inline bytes(): usize {
    return 16 * 50;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ4_NL_Facts extends Levels {
  @inline bytes(): usize {
    return 16 * 18;
  }
  @inline width(): i32 {
    return 8;
  }
}

@unmanaged
export class IQ3_S_Facts {
  grid: bool;
  has_signs: bool;
  fours: bool;
  @inline bytes(): usize {
    return 16 * 110;
  }
  @inline factor(): f32 {
    return 1;
  }
}

@unmanaged
export class IQ2_S_Facts {
  grid: bool;
  has_signs: bool;
  @inline bytes(): usize {
    return 16 * 82;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ4_XS_Facts extends Levels {
  super_block: bool;
  @inline bytes(): usize {
    return 16 * 136;
  }
  @inline width(): i32 {
    return 8;
  }
}

@unmanaged
export class IQ1_M_Facts {
  grid: bool;
  @inline bytes(): usize {
    return 16 * 56;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class TQ1_0_Facts {
  trits: bool;
  @inline bytes(): usize {
    return 16 * 54;
  }
  @inline width(): i32 {
    return 2;
  }
  @inline centre(): i32 {
    return 1;
  }
  @inline largest(): i32 {
    return 2;
  }
  @inline subs(): i32 {
    return 8;
  }
}

@unmanaged
export class TQ2_0_Facts extends TwoBits {
  two_bits: bool;
  @inline bytes(): usize {
    return 16 * 66;
  }
  @inline width(): i32 {
    return 2;
  }
  @inline centre(): i32 {
    return 1;
  }
  @inline subs(): i32 {
    return 8;
  }
}

@unmanaged
export class MXFP4_Facts {
  @inline bytes(): usize {
    return 16 * 17;
  }
  @inline width(): i32 {
    return 5;
  }
  @inline centre(): i32 {
    return 12;
  }
  @inline largest(): i32 {
    return 24;
  }
  @inline f16_vectors(): i32 {
    return 0;
  }
}

@unmanaged
export class NVFP4_Facts {
  super_block: bool;
  s16: bool;
  f32_scales: bool;
  @inline bytes(): usize {
    return 16 * 36;
  }
  @inline width(): i32 {
    return 5;
  }
  @inline centre(): i32 {
    return 12;
  }
  @inline largest(): i32 {
    return 24;
  }
  @inline subs(): i32 {
    return 2;
  }
  @inline f16_vectors(): i32 {
    return 0;
  }
}

@unmanaged
export class Q1_0_Facts {
  one_bit: bool;
  @inline bytes(): usize {
    return 16 * 18;
  }
  @inline width(): i32 {
    return 2;
  }
  @inline centre(): i32 {
    return 1;
  }
  @inline subs(): i32 {
    return 4;
  }
}

@unmanaged
export class Q2_0_Facts extends TwoBits {
  two_bits: bool;
  @inline bytes(): usize {
    return 16 * 18;
  }
  @inline width(): i32 {
    return 2;
  }
  @inline centre(): i32 {
    return 1;
  }
  @inline subs(): i32 {
    return 2;
  }
}

@unmanaged
export class IQ1_LEVELS_Facts {
  @inline bytes(): usize {
    return 16 * 138;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ2_LEVELS_Facts {
  @inline bytes(): usize {
    return 16 * 138;
  }
  @inline factor(): f32 {
    return 0.125;
  }
}

@unmanaged
export class IQ3_XXS_LEVELS_Facts {
  @inline bytes(): usize {
    return 16 * 138;
  }
  @inline factor(): f32 {
    return 0.5;
  }
}

@unmanaged
export class IQ3_S_LEVELS_Facts {
  @inline bytes(): usize {
    return 16 * 138;
  }
  @inline factor(): f32 {
    return 1;
  }
}
