/**
 * Weights of IQ1 to IQ3 and TQ1_0 in their compact and their fast form: the same bits however they
 * are read, and the choice of the form.
 */
import { loadModel, type LoadOptions } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { canRun, type Verdict } from '../../src/plan/can-run.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { gaussian } from '../kernel/harness.ts';
import { bitDifference, BUILDS, failure, logitsOf, patchedLlama, randomIds, temporaryFolder, writeTo } from '../support.ts';
import { iqModel, iqTensors } from './iq-model.ts';

const folder = temporaryFolder();
const file = writeTo(folder, 'iq.gguf', iqModel);
const gguf = await readGGUF(toBytes(iqModel));

async function logits(
  source: string | Uint8Array,
  more: LoadOptions,
): Promise<{ rows: Float32Array[]; weights: number; form: string | undefined }> {
  const model = await loadModel(source, { warmUp: false, contextLength: 256, maxOutputs: 64, threads: 2, ...more });
  try {
    const rows = await logitsOf(model, randomIds(33, 272, 5), [21, 1, 5, 6]);
    return { rows, weights: model.stats.memory.weights, form: model.internals.engine.iqWeights };
  } finally {
    await model.dispose();
  }
}

it.each(BUILDS)('the same bits on %s: read by threads, by the host, and in every step', async (build) => {
  const compact = await logits(file, { build, iqWeights: 'compact' });
  expect(compact.rows.every((row) => row.every(Number.isFinite))).toBe(true);
  expect(compact.form).toBe('compact');
  const fast = await logits(file, { build, iqWeights: 'fast' });
  expect(bitDifference(fast.rows, compact.rows), 'read by threads').toBe('');
  expect(fast.form).toBe('fast');
  expect(fast.weights).toBeGreaterThan(1.3 * compact.weights);
  const weightsMemory = fast.weights - 1;
  for (const [source, more] of [
    [iqModel, {}],
    [file, { links: 2 }],
    [file, { weightsMemory }],
    [iqModel, { weightsMemory }],
  ] as const) {
    const other = await logits(source, { build, iqWeights: 'fast', ...more });
    expect(bitDifference(other.rows, compact.rows), JSON.stringify(more)).toBe('');
    expect(other.form).toBe('fast');
  }
});

it('the same bits with an adapter', async () => {
  const metadata = { 'general.type': 'adapter', 'general.architecture': 'llama', 'adapter.type': 'lora' };
  const tensors = ['blk.0.attn_q.weight', 'blk.3.attn_output.weight'].flatMap((name, i) => {
    const [nIn, nOut] = iqTensors[name]!.ne;
    return [[nIn, 3] as const, [3, nOut] as const].map((ne, part) => ({
      name: `${name}.lora_${'ab'[part]}`,
      type: TYPE.f32,
      ne,
      data: new Uint8Array(gaussian(ne[0] * ne[1], 2 * i + part).buffer),
    }));
  });
  const source = writeGGUF(new Map(Object.entries(metadata).map(([key, value]) => [key, { type: 'str', value }])), tensors);
  const [without, compact, fast] = await Promise.all([
    logits(file, { build: 'simd-threads', iqWeights: 'fast' }),
    ...(['compact', 'fast'] as const).map((iqWeights) =>
      logits(file, { build: 'simd-threads', iqWeights, lora: [{ source, scale: 0.1 }] }),
    ),
  ]);
  expect(bitDifference(fast.rows, compact.rows)).toBe('');
  expect(bitDifference(fast.rows, without.rows), 'the adapter matters').not.toBe('');
});

describe('choice of the form', () => {
  const memory = (free: number, options: LoadOptions = {}): number => {
    const verdict = canRun(gguf, { isa: 'simd', threads: 1, free }, { contextLength: 256, batchSize: 32, ...options });
    return (verdict as Verdict & { runs: true }).memory_bytes;
  };
  const [compact, fast] = (['compact', 'fast'] as const).map((iqWeights) => memory(Infinity, { iqWeights }));

  it('the larger one if half of the free memory is enough', () => {
    expect(compact).toBeLessThan(fast);
    expect(memory(2 * fast)).toBe(fast);
    expect(canRun(gguf, { isa: 'simd', threads: 1, free: 1e9 })).toMatchObject({ runs: true, iq_weights: 'fast' });
    expect(memory(2 * fast - 1)).toBe(compact);
    expect(memory(2 * fast, { iqWeights: 'compact' })).toBe(compact);
  });

  it("the file's one if free memory is unknown, or if weights have a limit", () => {
    expect(memory(Infinity)).toBe(compact);
    expect(memory(1e9, { weightsMemory: 1e8 })).toBe(compact);
  });

  it('the larger one, if requested, is refused if it does not fit', () => {
    expect(
      canRun(gguf, { isa: 'simd', threads: 1, free: compact + 1 }, { contextLength: 256, batchSize: 32, iqWeights: 'fast' }),
    ).toMatchObject({
      runs: false,
      code: 'ERR_OUT_OF_MEMORY',
      reason: expect.stringContaining('--iq-weights compact') as string,
    });
  });
});

it.each([file, 'bytes'])("%s: a scale that is not finite is reported with the file's type", async (source) => {
  const name = 'blk.1.attn_q.weight';
  const { type, ne, data } = iqTensors[name]!;
  const bad = Uint8Array.from(data!);
  bad.set([0, 0x7c], (type.kernels!.scales as number[])[0]);
  const damaged = await patchedLlama({ tensors: { [name]: { type, ne, data: bad } } }, file);
  const { code, message } = await failure(
    loadModel(source === file ? writeTo(folder, 'bad.gguf', damaged) : damaged, { build: 'simd-threads', threads: 2, iqWeights: 'fast' }),
  );
  expect([code, message]).toEqual(['ERR_GGUF_INVALID', expect.stringContaining(`"${name}" (${type.name}) has Inf or NaN`)]);
});
