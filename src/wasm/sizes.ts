// Generated from dist/wasm/ by `npm run generate`: change the kernels and run it again.
import type { ActLayout, Isa } from '../packed-format.ts';

/** Bytes that the kernels of a build need. */
export interface Sizes {
  /** Scratch of a thread for a packed product. */
  readonly packedScratch: number;
  /** Work area of a thread for quantisers that search for scales. */
  readonly quantizeWork: number;
  /** Sub-block of a column of activations, by the layout of columns. */
  readonly actBytes: { readonly [layout in ActLayout]: number };
}

export const SIZES: { readonly [isa in Isa]: Sizes } = {
  simd: { packedScratch: 39488, quantizeWork: 1280, actBytes: { plain: 80, few: 80, signs: 80, pairs: 80, signs_i8: 80 } },
  relaxed: { packedScratch: 37184, quantizeWork: 1280, actBytes: { plain: 48, few: 48, signs: 80, pairs: 48, signs_i8: 72 } },
  dotadd: { packedScratch: 37312, quantizeWork: 1280, actBytes: { plain: 48, few: 48, signs: 72, pairs: 48, signs_i8: 72 } },
};
