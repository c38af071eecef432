/**
 * Models that compute only the neurons that fire (src/arch/sparse.ts), in PowerInfer's layout. They
 * are made from the golden llama and compared with scalar f64, and bit by bit with all neurons
 * computed.
 */
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel, type LoadOptions } from 'quantlet';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { isThreaded } from '../../src/wasm/load.ts';
import { gaussian } from '../kernel/harness.ts';
import { readGguf } from '../reference/gguf.ts';
import { reference } from '../reference/llm.ts';
import {
  BUILDS,
  RUNS,
  TOLERANCE,
  bitDifference,
  failure,
  llamaModel,
  logitsOf,
  patchedLlama,
  randomIds,
  shippedModel,
  temporaryFolder,
  type Patch,
} from '../support.ts';

const file = readFileSync(llamaModel);
const gguf = await readGGUF(toBytes(file));
const layers = gguf.metadata.get('llama.block_count') as number;
const [nEmbd, nFf] = gguf.tensors.get('blk.0.ffn_up.weight')!.ne;
const nVocab = gguf.tensors.get('token_embd.weight')!.ne[1];
const IDS = randomIds(23, nVocab, 7);
const folder = temporaryFolder();
const numbersOf = (name: string): Float32Array => {
  const { offset, byteLength, type } = gguf.tensors.get(name)!;
  expect(type).toBe(TYPE.f32);
  return new Float32Array(file.buffer.slice(file.byteOffset + offset, file.byteOffset + offset + byteLength));
};
const bytes = (x: Float32Array): Uint8Array => new Uint8Array(x.buffer);

/**
 * The golden llama with its last products stored as a row per neuron. `down`: with the ordinary
 * matrices too; `rank`: with predictors; `bundle`: a neuron's rows of two matrices as one row.
 */
function sparseLlama({ down = false, rank = 0, threshold = 0, bundle = false } = {}): Promise<Uint8Array<ArrayBuffer>> {
  const tensors: NonNullable<Patch['tensors']> & Record<string, unknown> = {};
  for (let il = 0; il < layers; il++) {
    const from = numbersOf(`blk.${il}.ffn_down.weight`);
    const turned = Float32Array.from(from, (_, i) => from[(i % nEmbd) * nFf + Math.floor(i / nEmbd)]);
    if (bundle) {
      const up = numbersOf(`blk.${il}.ffn_up.weight`);
      const both = Float32Array.from({ length: 2 * up.length }, (_, i) => {
        const row = Math.floor(i / (2 * nEmbd));
        const column = i % (2 * nEmbd);
        return column < nEmbd ? up[row * nEmbd + column] : turned[row * nEmbd + column - nEmbd];
      });
      tensors[`blk.${il}.ffn_up_down.weight`] = { type: TYPE.f32, ne: [2 * nEmbd, nFf], data: bytes(both) };
      tensors[`blk.${il}.ffn_up.weight`] = undefined;
    } else tensors[`blk.${il}.ffn_down_t.weight`] = { type: TYPE.f32, ne: [nEmbd, nFf], data: bytes(turned) };
    if (!down) tensors[`blk.${il}.ffn_down.weight`] = undefined;
    if (rank === 0) continue;
    tensors[`blk.${il}.fc1.weight`] = { type: TYPE.f32, ne: [nEmbd, rank], data: bytes(gaussian(nEmbd * rank, 3 + il)) };
    tensors[`blk.${il}.fc2.weight`] = { type: TYPE.f32, ne: [rank, nFf], data: bytes(gaussian(rank * nFf, 13 + il)) };
  }
  return patchedLlama({ tensors, metadata: { 'powerinfer.sparse_threshold': { type: 'f32', value: threshold } } });
}

const logits = async (
  model: Uint8Array<ArrayBuffer> | string,
  options: LoadOptions,
  sizes?: readonly number[],
): Promise<Float32Array[]> => {
  const loaded = await loadModel(model, { contextLength: 64, maxOutputs: IDS.length, ...options });
  try {
    return await logitsOf(loaded, IDS, sizes);
  } finally {
    await loaded.dispose();
  }
};

const exact = await sparseLlama();
/** A predictor that lets every neuron pass, so that all rows are computed. */
const all = await sparseLlama({ rank: 4, threshold: -Infinity });
const both = await sparseLlama({ down: true });
const predicted = await sparseLlama({ rank: 4, threshold: 1 });

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it('exact: the bits of all neurons in one batch, token by token, and with the dense weights', async () => {
    const want = await logits(all, { build, threads });
    expect(bitDifference(await logits(exact, { build, threads }, [1, 5, 1]), want)).toBe('');
    expect(bitDifference(await logits(both, { build, threads }, [7]), want)).toBe('');
  });
});

it.each(BUILDS)('%s: exact and predicted, the numbers of the scalar reference', async (build) => {
  for (const model of [exact, predicted]) {
    const want = reference(readGguf(model)).logits(IDS, 64);
    const got = await logits(model, { build, threads: isThreaded(build) ? 2 : 1 }, [16]);
    const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
    got.forEach((row, r) => row.forEach((v, i) => expect(Math.abs(v - want[r][i]) / largest).toBeLessThan(TOLERANCE.f32)));
  }
});

describe('neurons that are always computed', () => {
  const HOT = 'quantlet.sparse.hot_neurons';
  const hot = 16;
  const overrideKv = { [HOT]: hot };

  it.each(BUILDS)('%s: exact and predicted', async (build) => {
    for (const model of [exact, predicted]) {
      const is = readGguf(model);
      const want = reference({ ...is, meta: new Map([...is.meta, [HOT, hot]]) }).logits(IDS, 64);
      const got = await logits(model, { build, threads: 1, overrideKv }, [16]);
      const largest = Math.max(...want.flatMap((row) => [...row].map(Math.abs)));
      got.forEach((row, r) => row.forEach((v, i) => expect(Math.abs(v - want[r][i]) / largest).toBeLessThan(TOLERANCE.f32)));
      const threads = isThreaded(build) ? 3 : 1;
      expect(bitDifference(await logits(model, { build, threads, overrideKv }, [1, 5, 1]), got)).toBe('');
    }
    expect(bitDifference(await logits(both, { build, overrideKv }), await logits(exact, { build, overrideKv }))).toBe('');
  });

  it('each layer may have its own number; others are refused', async () => {
    const of = (value: number | Uint32Array | string): Promise<Float32Array[]> =>
      logits(predicted, { build: 'simd', overrideKv: { [HOT]: value } });
    const [one, other] = [await of(new Uint32Array(layers).fill(hot)), await of(Uint32Array.from({ length: layers }, (_, il) => il))];
    expect(bitDifference(one, await of(hot))).toBe('');
    expect(bitDifference(other, one)).not.toBe('');
    for (const value of [nFf, -1, 1.5, NaN, 'all', new Uint32Array(layers - 1), new Uint32Array(layers).fill(2 ** 31)])
      expect(await failure(() => of(value)), String(value)).toMatchObject({
        code: expect.stringMatching(/^ERR_(GGUF_INVALID|GGUF_TYPE|INVALID_ARGUMENT)$/),
      });
  });

  it('they stay in memory if the others stay in the file', async () => {
    for (const [name, bundle, rank] of [
      ['hot', false, 0],
      ['hot-bundled', true, 0],
      ['hot-predicted', true, 4],
    ] as const) {
      const path = join(folder, `${name}.gguf`);
      writeFileSync(path, await sparseLlama({ bundle, rank, threshold: 0.5 }));
      const want = await logits(path, { build: 'simd', overrideKv });
      expect(bitDifference(await logits(path, { build: 'simd', overrideKv, neuronWindow: 2 }, [1, 4]), want), name).toBe('');
      const model = await loadModel(path, { build: 'simd', contextLength: 64, warmUp: false, overrideKv, neuronWindow: 2 });
      expect(model.internals.engine.neurons!.all, name).toBe(layers * (rank > 0 ? 3 : 2) * nEmbd * (nFf - hot) * 4);
      await model.dispose();
    }
  });
});

it('a predictor changes the result, and a file without its second matrix is refused', async () => {
  expect(bitDifference(await logits(predicted, { threads: 1 }), await logits(exact, { threads: 1 }))).not.toBe('');
  const half = await patchedLlama({
    tensors: { 'blk.0.ffn_down_t.weight': { type: TYPE.f32, ne: [nEmbd, nFf] }, 'blk.0.fc1.weight': { type: TYPE.f32, ne: [nEmbd, 4] } },
  });
  await expect(loadModel(half)).rejects.toMatchObject({
    code: 'ERR_MISSING_TENSOR',
    message: expect.stringMatching(/blk\.0\.fc2\.weight/),
  });
});

describe('rows of neurons that stay in the file', () => {
  const written = async (name: string, model: Uint8Array | Promise<Uint8Array>): Promise<string> => {
    writeFileSync(join(folder, name), await model);
    return join(folder, name);
  };
  /** Reads of single tokens, as a fraction of all rows that are read on demand. */
  const readOf = async (path: string, neuronWindow: number): Promise<number> => {
    const model = await loadModel(path, { contextLength: 64, threads: 1, warmUp: false, neuronWindow });
    try {
      const { engine } = model.internals;
      await logitsOf(model, IDS, [1]);
      const { bytes: read, tokens, all } = engine.neurons!;
      expect([tokens, all]).toEqual([IDS.length, layers * 2 * nEmbd * nFf * 4]);
      expect(engine.streams).toBe(true);
      return read / tokens / all;
    } finally {
      await model.dispose();
    }
  };

  it.each(BUILDS)('%s: the same bits, in batches, one by one, in several memories', async (build) => {
    const threads = isThreaded(build) ? 2 : 1;
    for (const [name, model, options, sizes] of [
      ['exact', exact, { neuronWindow: 2 }, [1, 5, 1]],
      ['both', both, { neuronWindow: 0, links: 2 }, [7]],
      ['predicted', predicted, { neuronWindow: 3, weightsMemory: 120_000 }, [5, 1]],
      ['bundled', await sparseLlama({ bundle: true }), { neuronWindow: 1 }, [23]],
    ] as const) {
      const want = await logits(name === 'bundled' || name === 'both' ? exact : model, { build, threads }, [23]);
      const path = await written(`${name}.gguf`, model);
      expect(bitDifference(await logits(path, { build, threads, ...options }, sizes), want), name).toBe('');
    }
  });

  it('a step reads only rows of neurons that fire and did not in the last tokens, and counts them', async () => {
    const [none, some, many] = await Promise.all([0, 2, 23].map((n) => readOf(join(folder, 'exact.gguf'), n)));
    const bundled = await readOf(join(folder, 'bundled.gguf'), 2);
    expect(none).toBeGreaterThan(some);
    expect(some).toBeGreaterThan(many);
    expect(bundled).toBe(some);
    // Each row is read once.
    expect(many).toBeLessThanOrEqual(1 / IDS.length);
    expect(none).toBeLessThan(0.7);
  });

  it('refused: a model in memory, and one whose neurons are all computed', async () => {
    await expect(loadModel(exact, { neuronWindow: 1 })).rejects.toMatchObject({ code: 'ERR_SOURCE' });
    await expect(loadModel(shippedModel, { neuronWindow: 1 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('is of the model alone: a dense draft model drafts for it, with the same text', async () => {
    const path = await written('drafted.gguf', exact);
    const idsWith = async (options: LoadOptions): Promise<readonly number[]> => {
      const model = await loadModel(path, { contextLength: 64, threads: 1, warmUp: false, neuronWindow: 2, ...options });
      try {
        return (await model.generate(IDS, { temperature: 0, maxTokens: 6, ignoreEos: true }).result()).ids;
      } finally {
        await model.dispose();
      }
    };
    expect(await idsWith({ speculation: { draft: { model: llamaModel } } })).toEqual(await idsWith({}));
  });

  it('an abort or a file that is cut ends the step, the next one reads what it needs', async () => {
    const path = await written('cut.gguf', exact);
    const model = await loadModel(path, { contextLength: 64, threads: 1, warmUp: false, neuronWindow: 2 });
    try {
      const ids = async (signal?: AbortSignal): Promise<string> => {
        model.internals.slots.all[0].truncate(0);
        return (
          await model.generate(IDS, { temperature: 0, maxTokens: 6, ignoreEos: true, ...(signal && { signal }) }).result()
        ).ids.join();
      };
      const want = await ids();
      for (let i = 0; i < 6; i++) {
        const controller = new AbortController();
        const running = failure(ids(controller.signal));
        for (let turns = 0; turns < i; turns++) await new Promise((resolve) => setImmediate(resolve));
        controller.abort(new Error('enough'));
        expect((await running).message).toBe('enough');
      }
      expect(await ids()).toBe(want);
      truncateSync(path, 5000);
      expect((await failure(ids())).code).toMatch(/^ERR_(SOURCE|GGUF_TRUNCATED)$/);
      writeFileSync(path, exact);
      const running = failure(ids());
      await new Promise((resolve) => setImmediate(resolve));
      await model.dispose();
      expect((await running).code).toBe('ERR_DISPOSED');
    } finally {
      await model.dispose();
    }
  });
});
