/**
 * Every block format again, element by element in f64: the code of an element, its scale, nothing
 * else. Rows of `k` elements in a Uint8Array, as in a GGUF file.
 */
import { f16ToNumber } from './f16.ts';
import * as grids from './grids.ts';

export type Dequantize = (bytes: Uint8Array, k: number) => Float64Array;

const u16 = (b: Uint8Array, p: number): number => b[p] | (b[p + 1] << 8);
const u32 = (b: Uint8Array, p: number): number => u16(b, p) + u16(b, p + 2) * 65536;
const f16 = (b: Uint8Array, p: number): number => f16ToNumber(u16(b, p));
const i8 = (b: Uint8Array, p: number): number => (b[p] << 24) >> 24;
const f32 = (b: Uint8Array, p: number): number => new DataView(b.buffer, b.byteOffset).getFloat32(p, true);

const e8m0 = (e: number): number => (e === 255 ? NaN : 2 ** (e - 127));
/**
 * An 8-bit element, E4M3 or E5M2 by the bits of its mantissa (OCP Microscaling Formats 1.0, section
 * 5.3).
 */
export function mx8(code: number, mantissa: number): number {
  const exponent = (code & 127) >> mantissa;
  const fraction = (code & ((1 << mantissa) - 1)) / 2 ** mantissa;
  const sign = code & 128 ? -1 : 1;
  if (mantissa === 3 && (code & 127) === 127) return NaN;
  if (mantissa === 2 && exponent === 31) return fraction ? NaN : sign * Infinity;
  const bias = mantissa === 3 ? 7 : 15;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}

/** A format, given the value of element `j` of the block that starts at byte `p`. */
const format =
  (elements: number, bytes: number, value: (b: Uint8Array, p: number, j: number) => number): Dequantize =>
  (b, k) =>
    Float64Array.from({ length: k }, (_, i) => value(b, Math.floor(i / elements) * bytes, i % elements));

const nibble = (b: Uint8Array, p: number, j: number): number => (j < 16 ? b[p + j] & 15 : b[p + j - 16] >> 4);
const bit = (b: Uint8Array, p: number, j: number): number => (b[p + (j >> 3)] >> (j & 7)) & 1;
/**
 * Two bits of element j. Byte 32h + (j mod 32) holds elements 128h + 0, 32, 64, 96 + (j mod 32).
 */
const pair = (b: Uint8Array, p: number, j: number): number => (b[p + (j >> 7) * 32 + (j & 31)] >> (2 * ((j >> 5) & 3))) & 3;
/** Nibble of element j. Byte 32c + (j mod 32) holds elements 64c and 64c + 32 + (j mod 32). */
const nibble64 = (b: Uint8Array, p: number, j: number): number => (b[p + (j >> 6) * 32 + (j & 31)] >> (j & 32 ? 4 : 0)) & 15;

/** 6-bit scale and offset of sub-block s in the 12 bytes of q4_K and q5_K. */
const scaleMin = (b: Uint8Array, p: number, s: number): [number, number] =>
  s < 4
    ? [b[p + s] & 63, b[p + s + 4] & 63]
    : [(b[p + s + 4] & 15) | ((b[p + s - 4] >> 6) << 4), (b[p + s + 4] >> 4) | ((b[p + s] >> 6) << 4)];

/** 6-bit scale of sub-block s in the 12 bytes of q3_K. */
const scale3 = (b: Uint8Array, p: number, s: number): number =>
  ((s < 8 ? b[p + s] & 15 : b[p + s - 8] >> 4) | (((b[p + 8 + (s & 3)] >> (2 * (s >> 2))) & 3) << 4)) - 32;

const IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6];

/** A number with 4 bits of exponent and 3 of mantissa. ggml reads 0x7f as 0. */
const ue4m3 = (x: number): number => {
  const exponent = (x >> 3) & 15;
  if (x === 0x7f) return 0;
  return exponent === 0 ? (x & 7) * 2 ** -9 : (1 + (x & 7) / 8) * 2 ** (exponent - 7);
};

/** Trit n of byte q. q / 256 is a fraction whose base-3 digits are the trits. */
const trit = (q: number, n: number): number => Math.floor((((q * 3 ** n) % 256) * 3) / 256);

const tq1 = (b: Uint8Array, p: number, j: number): number => {
  if (j < 160) return trit(b[p + (j & 31)], j >> 5);
  if (j < 240) return trit(b[p + 32 + ((j - 160) & 15)], (j - 160) >> 4);
  return trit(b[p + 48 + ((j - 240) & 3)], (j - 240) >> 2);
};

/** Nibble number i of the bytes at p, the low one of each byte first. */
const scale4 = (b: Uint8Array, p: number, i: number): number => (b[p + (i >> 1)] >> (4 * (i & 1))) & 15;
/**
 * -1 if bit i is set, else 1. `even` extends seven sign bits by an eighth that makes the number of
 * set bits even.
 */
const sign = (bits: number, i: number): number => ((bits >> i) & 1 ? -1 : 1);
const even = (seven: number): number => seven | (([...seven.toString(2)].filter((b) => b === '1').length % 2) << 7);
/** Signs of eight elements: group i of seven bits in a u32 that has four groups. */
const evenOf = (word: number, i: number): number => even(Math.floor(word / 128 ** i) % 128);
/** The f16 in the high nibbles of the four u16 at p. */
const spread16 = (b: Uint8Array, p: number): number =>
  f16ToNumber([0, 1, 2, 3].reduce((h, i) => h | ((b[p + 2 * i + 1] >> 4) << (4 * i)), 0));

export const dequantize: Readonly<Record<string, Dequantize>> = {
  f32: format(1, 4, (b, p) => f32(b, p)),
  f16: format(1, 2, (b, p) => f16(b, p)),
  bf16: format(1, 2, (b, p) => new Float32Array(Uint32Array.of(u16(b, p) << 16).buffer)[0]),
  q4_0: format(32, 18, (b, p, j) => f16(b, p) * (nibble(b, p + 2, j) - 8)),
  q4_1: format(32, 20, (b, p, j) => f16(b, p) * nibble(b, p + 4, j) + f16(b, p + 2)),
  q5_0: format(32, 22, (b, p, j) => f16(b, p) * (nibble(b, p + 6, j) + 16 * bit(b, p + 2, j) - 16)),
  q5_1: format(32, 24, (b, p, j) => f16(b, p) * (nibble(b, p + 8, j) + 16 * bit(b, p + 4, j)) + f16(b, p + 2)),
  q8_0: format(32, 34, (b, p, j) => f16(b, p) * i8(b, p + 2 + j)),
  q8_1: format(32, 36, (b, p, j) => f16(b, p) * i8(b, p + 4 + j)),
  q2_K: format(
    256,
    84,
    (b, p, j) => f16(b, p + 80) * (b[p + (j >> 4)] & 15) * pair(b, p + 16, j) - f16(b, p + 82) * (b[p + (j >> 4)] >> 4),
  ),
  q3_K: format(
    256,
    110,
    (b, p, j) => f16(b, p + 108) * scale3(b, p + 96, j >> 4) * (pair(b, p + 32, j) + 4 * ((b[p + (j & 31)] >> (j >> 5)) & 1) - 4),
  ),
  q4_K: format(256, 144, (b, p, j) => {
    const [scale, min] = scaleMin(b, p + 4, j >> 5);
    return f16(b, p) * scale * nibble64(b, p + 16, j) - f16(b, p + 2) * min;
  }),
  q5_K: format(256, 176, (b, p, j) => {
    const [scale, min] = scaleMin(b, p + 4, j >> 5);
    return f16(b, p) * scale * (nibble64(b, p + 48, j) + 16 * ((b[p + 16 + (j & 31)] >> (j >> 5)) & 1)) - f16(b, p + 2) * min;
  }),
  q6_K: format(256, 210, (b, p, j) => {
    const low = (b[p + (j >> 7) * 64 + (j & 63)] >> (j & 64 ? 4 : 0)) & 15;
    return f16(b, p + 208) * i8(b, p + 192 + (j >> 4)) * (low + 16 * pair(b, p + 128, j) - 32);
  }),
  q8_K: format(256, 292, (b, p, j) => f32(b, p) * i8(b, p + 4 + j)),
  iq4_nl: format(32, 18, (b, p, j) => f16(b, p) * IQ4[nibble(b, p + 2, j)]),
  iq4_xs: format(256, 136, (b, p, j) => {
    const s = j >> 5;
    const scale = ((b[p + 4 + (s >> 1)] >> (s & 1 ? 4 : 0)) & 15) | (((u16(b, p + 2) >> (2 * s)) & 3) << 4);
    return f16(b, p) * (scale - 32) * IQ4[nibble(b, p + 8 + 16 * s, j & 31)];
  }),
  iq2_xxs: format(256, 66, (b, p, j) => {
    const group = p + 2 + 8 * (j >> 5);
    const word = u32(b, group + 4);
    const value = grids.iq2xxs[b[group + ((j >> 3) & 3)]][j & 7];
    return f16(b, p) * (Math.floor(word / 2 ** 28) + 0.5) * 0.25 * value * sign(evenOf(word, (j >> 3) & 3), j & 7);
  }),
  iq2_xs: format(256, 74, (b, p, j) => {
    const word = u16(b, p + 2 + 2 * (j >> 3));
    return f16(b, p) * (scale4(b, p + 66, j >> 4) + 0.5) * 0.25 * grids.iq2xs[word & 511][j & 7] * sign(even(word >> 9), j & 7);
  }),
  iq2_s: format(256, 82, (b, p, j) => {
    const i = j >> 3;
    const index = b[p + 2 + i] | (((b[p + 66 + (i >> 2)] >> (2 * (i & 3))) & 3) << 8);
    return f16(b, p) * (scale4(b, p + 74, j >> 4) + 0.5) * 0.25 * grids.iq2s[index][j & 7] * sign(b[p + 34 + i], j & 7);
  }),
  iq3_xxs: format(256, 98, (b, p, j) => {
    const word = u32(b, p + 66 + 4 * (j >> 5));
    const value = grids.iq3xxs[b[p + 2 + (j >> 2)]][j & 3];
    return f16(b, p) * (Math.floor(word / 2 ** 28) + 0.5) * 0.5 * value * sign(evenOf(word, (j >> 3) & 3), j & 7);
  }),
  iq3_s: format(256, 110, (b, p, j) => {
    const index = b[p + 2 + (j >> 2)] | (bit(b, p + 66, j >> 2) << 8);
    return f16(b, p) * (2 * scale4(b, p + 106, j >> 5) + 1) * grids.iq3s[index][j & 3] * sign(b[p + 74 + (j >> 3)], j & 7);
  }),
  iq1_s: format(256, 50, (b, p, j) => {
    const word = u16(b, p + 34 + 2 * (j >> 5));
    const index = b[p + 2 + (j >> 3)] | (((word >> (3 * ((j >> 3) & 3))) & 7) << 8);
    return f16(b, p) * (2 * ((word >> 12) & 7) + 1) * (grids.iq1s[index][j & 7] + (word & 0x8000 ? -0.125 : 0.125));
  }),
  iq1_m: format(256, 56, (b, p, j) => {
    const high = scale4(b, p + 32, j >> 3);
    const scale = (u16(b, p + 48 + 2 * (j >> 6)) >> (3 * ((j >> 4) & 3))) & 7;
    return spread16(b, p + 48) * (2 * scale + 1) * (grids.iq1s[b[p + (j >> 3)] | ((high & 7) << 8)][j & 7] + (high & 8 ? -0.125 : 0.125));
  }),
  tq1_0: format(256, 54, (b, p, j) => f16(b, p + 52) * (tq1(b, p, j) - 1)),
  tq2_0: format(256, 66, (b, p, j) => f16(b, p + 64) * (pair(b, p, j) - 1)),
  q1_0: format(128, 18, (b, p, j) => f16(b, p) * (2 * bit(b, p + 2, j) - 1)),
  q2_0: format(64, 18, (b, p, j) => f16(b, p) * (((b[p + 2 + (j >> 2)] >> (2 * (j & 3))) & 3) - 1)),
  nvfp4: format(64, 36, (b, p, j) => ue4m3(b[p + (j >> 4)]) * E2M1[(b[p + 4 + 8 * (j >> 4) + (j & 7)] >> (j & 8 ? 4 : 0)) & 15]),
  mxfp8_e4m3: format(32, 33, (b, p, j) => e8m0(b[p]) * mx8(b[p + 1 + j], 3)),
  mxfp8_e5m2: format(32, 33, (b, p, j) => e8m0(b[p]) * mx8(b[p + 1 + j], 2)),
  mxfp4: format(32, 17, (b, p, j) => 2 ** (b[p] - 127) * E2M1[nibble(b, p + 1, j)]),
};

/** Byte at which the offset (f16, after the scale) of a q4_1 or q5_1 block lies. */
const OFFSET_AT: Readonly<Record<string, { readonly bytes: number; readonly at: number }>> = {
  q4_1: { bytes: 20, at: 2 },
  q5_1: { bytes: 24, at: 2 },
};

/**
 * x . y of two rows of block data, and the sum of |x y|, which bounds its rounding error. With
 * q8_1, offsets are multiplied by the sums that its blocks store (f16, so not exactly the sum of
 * the elements), as ggml defines the product.
 */
export function vecDot(typeX: string, x: Uint8Array, typeY: string, y: Uint8Array, n: number): { dot: number; abs: number } {
  const a = dequantize[typeX](x, n);
  const b = dequantize[typeY](y, n);
  const offset = typeY === 'q8_1' ? OFFSET_AT[typeX] : undefined;
  let dot = 0;
  let abs = 0;
  for (let i = 0; i < n; i++) {
    const block = Math.floor(i / 32);
    const m = offset ? f16(x, block * offset.bytes + offset.at) : 0;
    dot += (a[i] - m) * b[i];
    if (offset && i % 32 === 0) dot += m * f16(y, block * 36 + 2);
    abs += Math.abs(a[i] * b[i]) + Math.abs(m * b[i]);
  }
  return { dot, abs };
}
