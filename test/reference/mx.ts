/** Conversion to MX (OCP Microscaling Formats 1.0, section 6.3) in f64, by trying every element. */
import { mx8 } from './blocks.ts';

/** Bits of the mantissa, and the exponent of the largest element. */
const ELEMENTS = { mxfp8_e4m3: { mantissa: 3, emax: 8 }, mxfp8_e5m2: { mantissa: 2, emax: 15 } } as const;

/**
 * Quantises a row of f32 to MXFP8. A block with a NaN or an Inf gets a NaN scale and elements of 0.
 */
export function quantizeMx(type: keyof typeof ELEMENTS, x: Float32Array): Uint8Array {
  const { mantissa, emax } = ELEMENTS[type];
  const finite = Array.from({ length: 128 }, (_, code) => ({ code, value: mx8(code, mantissa) })).filter(({ value }) =>
    Number.isFinite(value),
  );
  const out = new Uint8Array((x.length / 32) * 33);
  for (let b = 0; b < x.length / 32; b++) {
    const block = x.subarray(32 * b, 32 * b + 32);
    if (!block.every(Number.isFinite)) {
      out[33 * b] = 255;
      continue;
    }
    let exponent = -127;
    const largest = block.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
    while (2 ** (exponent + emax + 1) <= largest) exponent++;
    out[33 * b] = exponent + 127;
    block.forEach((v, j) => {
      const want = Math.abs(v) / 2 ** exponent;
      let best = finite[0];
      for (const one of finite) {
        const closer = Math.abs(one.value - want) - Math.abs(best.value - want);
        if (closer < 0 || (closer === 0 && one.code % 2 === 0)) best = one;
      }
      out[33 * b + 1 + j] = best.code | (Object.is(Math.sign(v), -0) || v < 0 ? 128 : 0);
    });
  }
  return out;
}
