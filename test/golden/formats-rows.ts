/**
 * Inputs of formats.json, shared by the script that asks ggml and by the tests: rows of f32
 * (ordinary, awkward or hostile) and rows of random block bytes. Arithmetic only (no Math.cos), so
 * that every JavaScript engine makes the same bits.
 */

import { TYPE, type TypeName } from '../../src/type-traits.ts';

export const N = 512;

/** mulberry32: uniform in [0, 1). */
function random(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function normal(r: () => number): number {
  let s = -6;
  for (let i = 0; i < 12; i++) s += r();
  return s;
}

const row = (f: (i: number) => number): Float32Array<ArrayBuffer> => Float32Array.from({ length: N }, (_, i) => f(i));
const gaussian = (seed: number, scale: number, mean = 0): Float32Array<ArrayBuffer> => {
  const r = random(seed);
  return row(() => mean + scale * normal(r));
};
/** A Gaussian row with some elements replaced. */
const spiked = (seed: number, spikes: readonly (readonly [i: number, value: number])[]): Float32Array<ArrayBuffer> => {
  const out = gaussian(seed, 1);
  for (const [i, v] of spikes) out[i] = v;
  return out;
};

/** name -> N f32. */
export const ROWS: Readonly<Record<string, Float32Array<ArrayBuffer>>> = {
  'gaussian 0.02': gaussian(1, 0.02),
  'gaussian 1': gaussian(2, 1),
  'gaussian 1000': gaussian(3, 1000),
  'gaussian 1e-7': gaussian(4, 1e-7),
  'gaussian mean 3': gaussian(5, 1, 3),
  'gaussian mean -3': gaussian(6, 1, -3),
  uniform: (() => {
    const r = random(7);
    return row(() => r());
  })(),
  'negative uniform': (() => {
    const r = random(8);
    return row(() => -r());
  })(),
  'heavy tails': (() => {
    const r = random(9);
    return row(() => {
      const v = normal(r);
      return v * v * v * v * v;
    });
  })(),
  sparse: (() => {
    const r = random(10);
    return row(() => (r() < 0.03 ? normal(r) : 0));
  })(),
  'a scale for every sixteen': (() => {
    const r = random(11);
    return row((i) => normal(r) * 2 ** -((i >> 4) % 16));
  })(),
  'a scale for every thirty-two, steep': (() => {
    const r = random(12);
    return row((i) => normal(r) * 8 ** -((i >> 5) % 8));
  })(),
  ramp: row((i) => (i - 256) / 64),
  halves: row((i) => ((i * 37) % 65) / 2 - 16),
  'one of -1, 0, 1': row((i) => ((i * 7) % 3) - 1),
  'plus and minus one size': row((i) => (i % 3 ? 0.7 : -0.7)),
  'all zero': row(() => 0),
  'all -0': row(() => -0),
  'constant 1': row(() => 1),
  'constant -3': row(() => -3),
  'zeros and one outlier': row((i) => (i === 77 ? 1e4 : 0)),
  'outlier among small': spiked(13, [
    [3, 1e6],
    [300, -1e6],
  ]),
  'tiny, sums underflow': gaussian(14, 1e-30),
  subnormal: gaussian(15, 1e-39),
  'smallest subnormals': row((i) => ((i % 5) - 2) * 2 ** -149),
  'around the zero threshold': gaussian(16, 1e-15),
  huge: gaussian(17, 1e30),
  'largest negative': row((i) => (i % 64 ? -1 : -3.4028234663852886e38)),
  'one NaN': spiked(18, [
    [40, NaN],
    [410, NaN],
  ]),
  'NaN first and last': spiked(19, [
    [0, NaN],
    [31, NaN],
    [255, NaN],
    [256, NaN],
    [511, NaN],
  ]),
  'one Inf': spiked(20, [
    [17, Infinity],
    [290, Infinity],
  ]),
  'one -Inf': spiked(21, [
    [18, -Infinity],
    [291, -Infinity],
  ]),
  'Inf, -Inf and NaN': spiked(22, [
    [5, Infinity],
    [6, -Infinity],
    [7, NaN],
    [300, NaN],
    [301, Infinity],
  ]),
};

/** Names of rows that a sane model hardly has: constants, extreme magnitudes, NaN, Inf. */
export const HOSTILE = Object.keys(ROWS).slice(Object.keys(ROWS).indexOf('all zero'));

/**
 * Replaces every NaN in f32 bytes by one pattern before hashing, because no specification says
 * which NaN an operation gives.
 */
export function oneNaN(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = Uint8Array.from(bytes);
  const view = new DataView(out.buffer);
  for (let i = 0; i < out.length; i += 4) if (Number.isNaN(view.getFloat32(i, true))) view.setUint32(i, 0x7fc00000, true);
  return out;
}

/**
 * The same for NaN among the scales of blocks. An invalid operation gives a negative NaN on x64 and
 * a positive one on arm64; WebAssembly allows both.
 */
export function oneNaNScale(type: TypeName, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { typeSize, kernels } = TYPE[type];
  const out = Uint8Array.from(bytes);
  const view = new DataView(out.buffer);
  const scales = typeof kernels?.scales === 'object' ? kernels.scales : [];
  for (let block = 0; block < out.length; block += typeSize) {
    for (const scale of scales) if ((view.getUint16(block + scale, true) & 0x7fff) > 0x7c00) view.setUint16(block + scale, 0x7e00, true);
    if (kernels?.scales === 'f32' && Number.isNaN(view.getFloat32(block, true))) view.setUint32(block, 0x7fc00000, true);
  }
  return out;
}

/**
 * Awkward f16 scales: zeros, smallest and largest subnormals, the largest number, infinities, NaN.
 */
export const SCALES_F16 = [0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00];

/** Importance of the N columns. It varies over many magnitudes, as in real imatrix files. */
export const IMATRIX = (() => {
  const r = random(23);
  return row(() => {
    const v = normal(r);
    return (v * v + 0.01) * (r() < 0.02 ? 50 : 1);
  });
})();

/**
 * Blocks of 32 whose largest element lies n steps of f32 below a power of two, where log2f may
 * already round up. For mxfp4.
 */
export const BELOW_POWERS = (() => {
  const out: number[] = [];
  const bits = new Uint32Array(1);
  const asFloat = new Float32Array(bits.buffer);
  for (let exponent = 1; exponent < 255; exponent++) {
    for (const n of [0, 1, 2, 3, 5, 6, 11, 12, 22, 23, 44, 45, 88, 89]) {
      bits[0] = (exponent << 23) - n;
      const largest = asFloat[0];
      for (let i = 0; i < 32; i++) out.push(i === 9 ? -largest : (largest * ((i * 11) % 32)) / 32);
    }
  }
  return Float32Array.from(out);
})();

/**
 * A block of random bytes for each of SCALES_F16, with all its f16 scales set to that one. Empty if
 * the type has no f16 scales.
 */
export function scaledBlocks(type: TypeName, typeSize: number, seed: number): Uint8Array<ArrayBuffer>[] {
  const { scales } = TYPE[type].kernels!;
  if (!Array.isArray(scales)) return [];
  return SCALES_F16.map((scale, i) => {
    const block = randomBlocks(type, typeSize, 1, seed + i);
    for (const at of scales) new DataView(block.buffer).setUint16(at, scale, true);
    return block;
  });
}

/**
 * `blocks` blocks of `typeSize` random bytes with finite scales of ordinary size. All other bits
 * are random.
 */
export function randomBlocks(type: TypeName, typeSize: number, blocks: number, seed: number): Uint8Array<ArrayBuffer> {
  const r = random(seed);
  const out = new Uint8Array(blocks * typeSize);
  for (let i = 0; i < out.length; i++) out[i] = Math.floor(r() * 256);
  for (let b = 0; b < blocks; b++) {
    const p = b * typeSize;
    const { scales = [] } = TYPE[type].kernels!;
    // Exponents 8..15 of f16: 2^-7 to 1.
    const f16 = (): number => (r() < 0.5 ? 0x8000 : 0) | ((8 + Math.floor(r() * 8)) << 10) | Math.floor(r() * 1024);
    if (scales === 'f32') new DataView(out.buffer).setFloat32(p, (r() - 0.5) / 64, true);
    else if (scales === 'e8m0') {
      out[p] = 120 + Math.floor(r() * 8);
      // 8-bit elements that encode Inf or NaN get a smaller exponent.
      for (let i = p + 1; typeSize === 33 && i < p + 33; i++) if ((out[i] & 0x7c) === 0x7c) out[i] &= 0xbf;
    } else if (scales === 'ue4m3') for (let i = 0; i < 4; i++) out[p + i] = 16 + Math.floor(r() * 48);
    else if (scales === 'iq1_m') {
      // The f16 scale lies in the top nibbles of four u16.
      const h = f16();
      for (let i = 0; i < 4; i++) out[p + 48 + 2 * i + 1] = (out[p + 48 + 2 * i + 1] & 15) | (((h >> (4 * i)) & 15) << 4);
    } else for (const at of scales) new DataView(out.buffer).setUint16(p + at, f16(), true);
  }
  if (type === 'q8_K') {
    const v = new DataView(out.buffer);
    for (let p = 0; p < out.length; p += typeSize) {
      for (let j = 0; j < 16; j++) {
        let sum = 0;
        for (let i = 0; i < 16; i++) sum += v.getInt8(p + 4 + 16 * j + i);
        v.setInt16(p + 260 + 2 * j, sum, true);
      }
    }
  }
  return out;
}
