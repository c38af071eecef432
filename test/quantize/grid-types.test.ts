/**
 * Weights of grid types (IQ1, IQ2, IQ3): a model with them gives the logits of its copy with f32
 * weights.
 */
import { loadModel } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { rowSize, TYPE, type TypeName } from '../../src/type-traits.ts';
import { instantiate, random } from '../kernel/harness.ts';
import { logitsOf, patchedLlama, TOLERANCE } from '../support.ts';

const N_EMBD = 32;
const N_FF = 256;
/**
 * Allowed effect of 8-bit activations (one scale per 256), as a fraction of the effect of the
 * weights.
 */
const ROUNDED = 0.1;
const IDS = [1, 5, 9, 2, 30, 17, 4, 8];
const kernels = instantiate('simd');

/**
 * Offset of a block's f16 scale. In iq1_m it is spread over the high nibbles of the last four u16.
 */
const SCALE_AT: Partial<Record<TypeName, number>> = { iq2_xxs: 0, iq2_xs: 0, iq2_s: 0, iq3_xxs: 0, iq3_s: 0, iq1_s: 0 };
/** 2^-8 as f16, so that sums of a few hundred products stay near 1. */
const SCALE = 0x1c00;

function blocks(type: TypeName, seed: number): Uint8Array {
  const r = random(seed);
  const size = TYPE[type].typeSize;
  const data = Uint8Array.from({ length: N_EMBD * rowSize(TYPE[type], N_FF) }, () => 256 * r());
  const view = new DataView(data.buffer);
  for (let at = 0; at < data.length; at += size) {
    const scaleAt = SCALE_AT[type];
    if (scaleAt !== undefined) view.setUint16(at + scaleAt, SCALE, true);
    else for (const [i, nibble] of [0x0, 0x0, 0xc, 0x1].entries()) data[at + 49 + 2 * i] = (data[at + 49 + 2 * i] & 0x0f) | (nibble << 4);
  }
  return data;
}

const f32 = (data: Uint8Array, type: TypeName): Uint8Array => {
  kernels.arena.reset();
  const x = kernels.arena.bytes(data);
  const y = kernels.arena.alloc(4 * N_FF * N_EMBD);
  kernels.call('dequantize_row', TYPE[type].id, x, y, N_FF * N_EMBD);
  return kernels.arena.readBytes(y, 4 * N_FF * N_EMBD);
};

/** Logits of the golden llama with a wider ffn and an ffn_down of this type. */
async function logits(type: TypeName, data: Uint8Array): Promise<Float32Array> {
  const wide = (seed: number): { type: typeof TYPE.f32; ne: number[]; data: Uint8Array } => {
    const r = random(seed);
    return {
      type: TYPE.f32,
      ne: [N_EMBD, N_FF],
      data: new Uint8Array(Float32Array.from({ length: N_EMBD * N_FF }, () => r() - 0.5).buffer),
    };
  };
  const file = await patchedLlama({
    metadata: { 'llama.feed_forward_length': N_FF },
    tensors: Object.fromEntries(
      [0, 1].flatMap((i) => [
        [`blk.${i}.ffn_gate.weight`, wide(i)],
        [`blk.${i}.ffn_up.weight`, wide(9 + i)],
        [`blk.${i}.ffn_down.weight`, { type: TYPE[type], ne: [N_FF, N_EMBD], data }],
      ]),
    ),
  });
  const model = await loadModel(file, { build: 'simd', warmUp: false, maxOutputs: IDS.length });
  try {
    return (await logitsOf(model, IDS, [5, 1])).at(-1)!;
  } finally {
    await model.dispose();
  }
}

describe.each<TypeName>(['iq1_s', 'iq1_m', 'iq2_xxs', 'iq2_xs', 'iq2_s', 'iq3_xxs', 'iq3_s'])('%s', (type) => {
  it('runs', async () => {
    const seed = TYPE[type].id;
    const data = blocks(type, seed);
    const got = await logits(type, data);
    const want = await logits('f32', f32(data, type));
    const zero = await logits('f32', new Uint8Array(4 * N_FF * N_EMBD));
    const largest = Math.max(...want.map(Math.abs));
    const differ = (a: Float32Array): number => Math.max(...a.map((x, i) => Math.abs(x - want[i])));
    expect(got.every(Number.isFinite)).toBe(true);
    expect(differ(got) / differ(zero), `seed ${seed}`).toBeLessThan(ROUNDED);
    expect(differ(zero) / largest, 'and it makes a difference').toBeGreaterThan(10 * TOLERANCE.f32);
  });
});
