/**
 * Writes src/wasm/sizes.ts: sizes that the built kernels report, so that planning need not compile
 * them.
 */
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { ACT, ACT_BLOCK, TYPE_ACT } from '../src/graph/layout.ts';
import { ISAS, type Isa } from '../src/packed-format.ts';
import { instantiate } from '../src/wasm/load.ts';

const MORE_THAN_STATIC_DATA = 2;

function kernels(isa: Isa): ReturnType<typeof instantiate> {
  if (isa !== 'simd' && process.versions.node.startsWith('20.')) setFlagsFromString('--experimental-wasm-relaxed-simd');
  const module = new WebAssembly.Module(readFileSync(new URL(`../dist/wasm/${isa}.wasm`, import.meta.url)));
  return instantiate(module, new WebAssembly.Memory({ initial: MORE_THAN_STATIC_DATA, maximum: 65536 }));
}

/** The text of src/wasm/sizes.ts. */
export function sizesOfKernels(): string {
  const sizes = ISAS.map((isa) => {
    const k = kernels(isa);
    const actBytes = Object.entries(ACT).map(([layout, bits]) => `${layout}: ${k.act_row_size(TYPE_ACT + bits, ACT_BLOCK)}`);
    return `${isa}: { packedScratch: ${k.mul_mat_packed_scratch()}, quantizeWork: ${k.quantize_work_size()}, actBytes: { ${actBytes.join(', ')} } },`;
  });
  return `// Generated from dist/wasm/ by \`npm run generate\`: change the kernels and run it again.
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
${sizes.join('\n')}
};
`;
}
