import type { QuantizeRows } from '../../src/tools/quantize-file.ts';

const f32 = new Float32Array(1);
const bits = new Uint32Array(f32.buffer);

/** Converts to IEEE half, rounding to nearest even; numbers that are too large become infinity. */
const toF16 = (x: number): number => {
  f32[0] = x;
  const sign = (bits[0] >>> 16) & 0x8000;
  const magnitude = Math.abs(f32[0]);
  if (Number.isNaN(magnitude)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 2 ** -14)));
  const scaled = magnitude * 2 ** (10 - exponent);
  const floor = Math.floor(scaled);
  const rest = scaled - floor;
  const mantissa = rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
  // A mantissa below 2^10 is subnormal, one of 2^11 carries into the exponent. This sum is right
  // for both.
  return sign | (((exponent + 14) << 10) + mantissa);
};

const roundHalfAway = (x: number): number => Math.sign(x) * Math.floor(Math.abs(x) + 0.5);

/**
 * Converts f32 rows to q8_0 (quantize_row_q8_0_ref) or f16, slow and obvious. It replaces the
 * kernels, which have tests of their own.
 */
export const quantizeRows: QuantizeRows = ({ to, ne0, nrows, data }) => {
  const x = new Float32Array(data.slice().buffer);
  if (to.name === 'f16') return new Uint8Array(Uint16Array.from(x, toF16).buffer);
  if (to.name !== 'q8_0') throw new Error(`this reference makes f16 and q8_0, not ${to.name}`);
  const rows = new Uint8Array((ne0 / 32) * 34 * nrows);
  const view = new DataView(rows.buffer);
  for (let block = 0; block < x.length / 32; block++) {
    const values = x.subarray(block * 32, block * 32 + 32);
    const d = Math.fround(values.reduce((max, v) => Math.max(max, Math.abs(v)), 0) / 127);
    const id = d > 0 ? Math.fround(1 / d) : 0;
    view.setUint16(block * 34, toF16(d), true);
    values.forEach((v, i) => view.setInt8(block * 34 + 2 + i, roundHalfAway(Math.fround(v * id))));
  }
  return rows;
};
