/**
 * Constant vectors for loops that keep them in registers. They are loaded from memory because V8
 * builds a v128 constant at every use, in three instructions.
 */

@lazy
const CONSTANTS: usize = memory.data<u32>(
  [
    0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x8fffe000, 0x8fffe000, 0x8fffe000, 0x8fffe000, 0x77800000, 0x77800000, 0x77800000,
    0x77800000, 0x30303030, 0x30303030, 0x30303030, 0x30303030, 0x1f1f1f1f, 0x1f1f1f1f, 0x1f1f1f1f, 0x1f1f1f1f, 0x03030303, 0x03030303,
    0x03030303, 0x03030303, 0x07070707, 0x07070707, 0x07070707, 0x07070707, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x38383838,
    0x38383838, 0x38383838, 0x38383838, 0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f, 0xc0c0c0c0, 0xc0c0c0c0, 0xc0c0c0c0, 0xc0c0c0c0,
    0x000f000f, 0x000f000f, 0x000f000f, 0x000f000f, 0x00f000f0, 0x00f000f0, 0x00f000f0, 0x00f000f0, 0x0f000f00, 0x0f000f00, 0x0f000f00,
    0x0f000f00, 0x003f003f, 0x003f003f, 0x003f003f, 0x003f003f, 0x3f003f00, 0x3f003f00, 0x3f003f00, 0x3f003f00,
  ],
  16,
);

@inline
export function low_nibbles(): v128 {
  return v128.load(CONSTANTS);
}

/** Mask of sign, exponent and mantissa of an f16 whose bits were shifted into an f32. */
@inline
export function f16_bits(): v128 {
  return v128.load(CONSTANTS, 16);
}

/** 2^112 as f32: corrects the exponent of an f16 whose bits were shifted into an f32. */
@inline
export function f16_factor(): v128 {
  return v128.load(CONSTANTS, 32);
}

@inline
export function bytes_0x30(): v128 {
  return v128.load(CONSTANTS, 48);
}

@inline
export function bytes_0x1f(): v128 {
  return v128.load(CONSTANTS, 64);
}

@inline
export function bytes_0x03(): v128 {
  return v128.load(CONSTANTS, 80);
}

@inline
export function bytes_0x07(): v128 {
  return v128.load(CONSTANTS, 96);
}

@inline
export function bytes_0x0c(): v128 {
  return v128.load(CONSTANTS, 112);
}

@inline
export function bytes_0x38(): v128 {
  return v128.load(CONSTANTS, 128);
}

@inline
export function bytes_0x3f(): v128 {
  return v128.load(CONSTANTS, 144);
}

@inline
export function bytes_0xc0(): v128 {
  return v128.load(CONSTANTS, 160);
}

@inline
export function words_0x000f(): v128 {
  return v128.load(CONSTANTS, 176);
}

@inline
export function words_0x00f0(): v128 {
  return v128.load(CONSTANTS, 192);
}

@inline
export function words_0x0f00(): v128 {
  return v128.load(CONSTANTS, 208);
}

@inline
export function words_0x003f(): v128 {
  return v128.load(CONSTANTS, 224);
}

@inline
export function words_0x3f00(): v128 {
  return v128.load(CONSTANTS, 240);
}
