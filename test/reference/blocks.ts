/**
 * Every block format once more, element by element in f64: which code an element has, which scale, nothing else.
 * Rows of `k` elements in a Uint8Array, as in a GGUF file.
 */
import { f16ToNumber } from './f16.ts';

export type Dequantize = (bytes: Uint8Array, k: number) => Float64Array;

const u16 = (b: Uint8Array, p: number): number => b[p] | (b[p + 1] << 8);
const f16 = (b: Uint8Array, p: number): number => f16ToNumber(u16(b, p));
const i8 = (b: Uint8Array, p: number): number => (b[p] << 24) >> 24;
const f32 = (b: Uint8Array, p: number): number => new DataView(b.buffer, b.byteOffset).getFloat32(p, true);

/** A format from the value of element `j` of the block that starts at byte `p`. */
const format = (elements: number, bytes: number, value: (b: Uint8Array, p: number, j: number) => number): Dequantize => (b, k) =>
  Float64Array.from({ length: k }, (_, i) => value(b, Math.floor(i / elements) * bytes, i % elements));

const nibble = (b: Uint8Array, p: number, j: number): number => (j < 16 ? b[p + j] & 15 : b[p + j - 16] >> 4);

export const dequantize: Readonly<Record<string, Dequantize>> = {
  f32: format(1, 4, (b, p) => f32(b, p)),
  f16: format(1, 2, (b, p) => f16(b, p)),
  bf16: format(1, 2, (b, p) => new Float32Array(Uint32Array.of(u16(b, p) << 16).buffer)[0]),
  q4_0: format(32, 18, (b, p, j) => f16(b, p) * (nibble(b, p + 2, j) - 8)),
  q8_0: format(32, 34, (b, p, j) => f16(b, p) * i8(b, p + 2 + j)),
};

/** x . y of two rows of block data, and the sum of |x y| that bounds its rounding error. */
export function vecDot(typeX: string, x: Uint8Array, typeY: string, y: Uint8Array, n: number): { dot: number; abs: number } {
  const a = dequantize[typeX](x, n);
  const b = dequantize[typeY](y, n);
  let dot = 0;
  let abs = 0;
  for (let i = 0; i < n; i++) {
    dot += a[i] * b[i];
    abs += Math.abs(a[i] * b[i]);
  }
  return { dot, abs };
}
