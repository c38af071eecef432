import { TYPE } from '../type-traits.ts';
import { constant, type Tensor } from './tensor.ts';

/**
 * Slopes of ALiBi for n heads (arXiv 2108.12409). If n is not a power of two, they are those of
 * ggml_soft_max_ext.
 */
export function alibiSlopes(n: number, maxBias: number): Float32Array {
  const log2 = 2 ** Math.floor(Math.log2(n));
  return Float32Array.from({ length: n }, (_, h) =>
    h < log2 ? 2 ** ((-maxBias / log2) * (h + 1)) : 2 ** ((-maxBias / 2 / log2) * (2 * (h - log2) + 1)),
  );
}

export const slopesOf = (n: number, maxBias: number): Tensor =>
  constant('ALiBi slopes', TYPE.f32, [n, 1, 1, 1], () => new Uint8Array(alibiSlopes(n, maxBias).buffer));
