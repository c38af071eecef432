/**
 * The packed kernels again, element by element: activations rounded to 8 bits, then a sum in f64.
 */
import { TYPE, type TypeName } from '../../src/type-traits.ts';
import { dequantize } from './blocks.ts';

export interface Act {
  readonly q: Int8Array;
  /** One scale per `block` quants. */
  readonly d: Float32Array;
  readonly block: number;
}

/** C's roundf: half away from zero. */
const roundf = (x: number): number => Math.sign(x) * Math.floor(Math.abs(x) + 0.5);

/**
 * Formats whose activations have a scale for each 64: those of 1 and 2 bits without integer scales,
 * and nvfp4.
 */
const IN_64: readonly TypeName[] = ['q1_0', 'q2_0', 'tq1_0', 'tq2_0', 'nvfp4'];

/**
 * ggml's quantize_row_q8_0_ref, except that d stays f32 and is 0 if it would be subnormal. Blocks
 * are as long as those of `type`'s activations (32, 64 or 256). most: the largest quant (7 for 4
 * bits).
 */
export function quantizeAct(x: Float32Array, type: TypeName, most = 127): Act {
  const size = IN_64.includes(type) ? 64 : Math.max(32, TYPE[type].blckSize);
  const q = new Int8Array(x.length);
  const d = new Float32Array(x.length / size);
  for (let b = 0; b < d.length; b++) {
    const block = x.subarray(b * size, (b + 1) * size);
    const amax = block.reduce((m, v) => (Number.isNaN(v) || Number.isNaN(m) ? NaN : Math.max(m, Math.abs(v))), 0);
    d[b] = amax / most;
    if (d[b] < 2 ** -126) d[b] = 0;
    const id = d[b] === 0 ? 0 : Math.fround(1 / d[b]);
    for (let i = 0; i < size; i++) {
      const v = roundf(Math.fround(block[i] * id));
      q[b * size + i] = Number.isNaN(v) ? 0 : Math.max(-most, Math.min(most, v));
    }
  }
  return { q, d, block: size };
}

/**
 * Dot product of a row of weights and a row of activations. `abs` sums the magnitudes of all terms,
 * for the tolerance.
 */
export function dotPacked(weights: Float64Array, act: Act): { dot: number; abs: number } {
  let dot = 0;
  let abs = 0;
  for (let i = 0; i < weights.length; i++) {
    const term = weights[i] * act.q[i] * act.d[Math.floor(i / act.block)];
    dot += term;
    abs += Math.abs(term);
  }
  return { dot, abs };
}

/** Rows of a plain tensor as f64. */
export function dequantizeRows(type: string, bytes: Uint8Array, ne00: number, nrows: number): Float64Array[] {
  const stride = bytes.length / nrows;
  return Array.from({ length: nrows }, (_, r) => dequantize[type](bytes.subarray(r * stride, (r + 1) * stride), ne00));
}
