/** A model with every type of IQ1 to IQ3, and TQ1_0. */
import { readFileSync } from 'node:fs';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE, typesWith } from '../../src/type-traits.ts';
import { gaussian } from '../kernel/harness.ts';
import { CASES, weights } from '../kernel/packed-blocks.ts';
import { at, patchedLlama, type Patch } from '../support.ts';

const moe = at('test/golden/arch/llama-moe.gguf');
const TYPES = typesWith((k) => k.fast);
const golden = [...(await readGGUF(toBytes(readFileSync(moe)))).tensors.values()].flatMap((t) =>
  t.name.startsWith('blk.') ? [t, { ...t, name: t.name.replace(/\d/, (il) => String(Number(il) + 2)) }] : [t],
);
const WIDER: { readonly [n: number]: number } = { 32: 256, 16: 128, 24: 256 };

/**
 * The golden mixture with rows of 256 and both layers twice. Its matrices are random blocks, some
 * of each type. This includes the experts and the table that is also the output matrix.
 */
export const iqTensors: NonNullable<Patch['tensors']> = Object.fromEntries(
  golden.map(({ name, ne, nDims }, i) => {
    const wide = ne.slice(0, nDims).map((n) => WIDER[n] ?? n);
    const n = wide.reduce((a, b) => a * b, 1);
    if (nDims === 1 || name.includes('gate_inp')) {
      const x = nDims === 1 ? new Float32Array(n).fill(1) : gaussian(n, i);
      return [name, { type: TYPE.f32, ne: wide, data: new Uint8Array(x.buffer) }];
    }
    const c = CASES.find(({ type }) => type === TYPES[i % TYPES.length].name)!;
    return [name, { type: TYPE[c.type], ne: wide, data: weights(c, 256, n / 256, i) }];
  }),
);
const metadata = {
  'llama.block_count': 4,
  'llama.embedding_length': 256,
  'llama.feed_forward_length': 256,
  'llama.rope.dimension_count': 64,
};
export const iqModel = await patchedLlama({ metadata, tensors: iqTensors }, moe);
