/** A weight's `<name>.scale` (in NVFP4 files): an f32 that multiplies the product. */
import { loadModel } from 'quantlet';
import { expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { logitsOf, patchedLlama, type Patch } from '../support.ts';

const IDS = [1, 5, 9, 2, 30, 17, 4, 8];
const NAMES = ['blk.0.attn_q', 'blk.0.attn_output', 'blk.1.ffn_up', 'blk.1.ffn_down', 'output'];

const logits = async (tensors: NonNullable<Patch['tensors']>): Promise<Float32Array> => {
  const model = await loadModel(await patchedLlama({ tensors }), { build: 'simd', warmUp: false, maxOutputs: IDS.length });
  try {
    return Float32Array.from((await logitsOf(model, IDS)).flatMap((row) => [...row]));
  } finally {
    await model.dispose();
  }
};

test('a scale of each kind of matrix gives the bits of the matrix times the scale', async () => {
  const file = await patchedLlama();
  const gguf = await readGGUF(toBytes(file));
  const half = { type: TYPE.f32, ne: [1], data: new Uint8Array(Float32Array.of(0.5).buffer) };
  const scaled = Object.fromEntries(NAMES.map((name) => [`${name}.scale`, half]));
  // Halving a number keeps its mantissa, so that all roundings are the same.
  const halved = Object.fromEntries(
    NAMES.map((name) => {
      const { type, ne, nDims, offset, byteLength } = gguf.tensors.get(`${name}.weight`)!;
      expect(type).toBe(TYPE.f32);
      const values = new Float32Array(file.slice(offset, offset + byteLength).buffer).map((v) => v / 2);
      return [`${name}.weight`, { type, ne: ne.slice(0, nDims), data: new Uint8Array(values.buffer) }];
    }),
  );
  const plain = await logits({});
  const got = await logits(scaled);
  expect(got).toEqual(await logits(halved));
  expect(got).not.toEqual(plain);
});
