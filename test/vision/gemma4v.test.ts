/** Gemma 4: native llama.cpp's embeddings and answers, images in one step, bounds of products. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadModel } from 'quantlet';
import { RUNS } from '../builds.ts';
import { at } from '../support.ts';
import { decodeImage } from '../../src/vision/decode.ts';
import { projectorNamed } from '../../src/vision/registry.ts';
import { encoderIn, projectorIn } from './projector-file.ts';
import { bytesOf, golden, hasShared, paramsOf, sharedGolden, type Metadata } from './golden.ts';

interface Case {
  readonly name: string;
  readonly picture: string;
  readonly tokens: number;
  readonly embeddings: {
    readonly width: number;
    readonly rows: readonly number[];
    readonly largest: number;
    readonly values: readonly number[];
  };
}

const mmproj = at('test/golden/vision/mmproj-gemma4.gguf');

/** Relative to the largest: native's own spread is 1e-3. */
const TOLERANCE = 3e-3;

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it('embeddings of native llama.cpp', async () => {
    const { p, type, encoder } = await encoderIn(mmproj, { threads, build });
    try {
      for (const { name, picture, tokens, embeddings } of golden<readonly Case[]>('gemma4.json')) {
        const decoded = await decodeImage(bytesOf(picture));
        const [image] = type.layout(p, decoded.width, decoded.height, {}).make(decoded);
        const found = await encoder.encode(image, undefined);
        const { width, rows, largest, values } = embeddings;
        expect(found).toHaveLength(width * tokens);
        const differences = values.map((value, i) => Math.abs(value - found[rows[Math.floor(i / width)] * width + (i % width)]));
        expect(Math.max(...differences) / largest, name).toBeLessThan(TOLERANCE);
      }
    } finally {
      await encoder.dispose();
    }
  });
});

describe('images that see ahead', () => {
  const gemma4v = projectorNamed('gemma4v');
  it.each([
    ['E2B', 1536, true],
    ['E4B', 2560, true],
    ['26B-A4B', 2816, false],
    ['31B', 5376, false],
  ])('%s, %i wide: causal %s', (_, width, causal) => {
    expect(gemma4v.causal?.(width)).toBe(causal);
  });

  it('a step holds the largest image', async () => {
    for (const [limits, tokens] of [
      [{}, 1120],
      [{ max: 280 }, 280],
      [{ min: 2000 }, 2000],
    ] as const) {
      expect((await projectorIn(mmproj, limits)).wholeTokens).toBe(tokens);
    }
    const [{ metadata }] = golden<readonly { name: string; metadata: Metadata }[]>('images.json').filter(({ name }) => name === 'gemma4');
    const { sizes } = gemma4v.layout(paramsOf(metadata), 48 * 35, 48 * 32, {});
    expect(sizes).toEqual([[48 * 35, 48 * 32]]);
  });
});

describe('bounds of products', () => {
  it('one that has several numbers is refused', async () => {
    const bytes = new Uint8Array(readFileSync(mmproj));
    const name = 'v.blk.0.attn_q.input_min';
    const at0 = Buffer.from(bytes).indexOf(name);
    // After the name: the number of dimensions, and the first of them.
    const view = new DataView(bytes.buffer);
    expect(view.getUint32(at0 + name.length, true)).toBe(1);
    view.setBigUint64(at0 + name.length + 4, 2n, true);
    await expect(projectorIn(bytes)).rejects.toThrow(expect.objectContaining({ code: 'ERR_TENSOR_SHAPE' }));
  });
});

if (hasShared)
  describe('next to a language model', () => {
    interface Answer {
      readonly name: string;
      readonly prompt: string;
      readonly pictures: readonly string[];
      readonly prompt_ids: readonly number[];
      readonly greedy: { readonly ids: readonly number[]; readonly margins: readonly number[]; readonly noise: number };
    }
    const { cases } = JSON.parse(readFileSync(sharedGolden('gemma4.json'), 'utf8')) as { readonly cases: readonly Answer[] };
    const load = async (options = {}) => {
      const { make } = (await import(at('../shared/tools/make-mmproj.mjs'))) as { make(name: string): Record<'lm' | 'mmproj', Uint8Array> };
      const { lm, mmproj: projector } = make('gemma4');
      return loadModel(new Uint8Array(lm), { mmproj: new Uint8Array(projector), contextLength: 512, warmUp: false, ...options });
    };
    const ask = { temperature: 0, ignoreEos: true };
    const partsOf = ({ prompt, pictures }: Answer) =>
      prompt
        .split('<__media__>')
        .flatMap((text, i) => (i === 0 ? [text] : [{ type: 'image' as const, image: bytesOf(pictures[i - 1]) }, text]));

    it('greedy ids of native llama.cpp', async () => {
      await using model = await load();
      for (const one of cases.filter(({ name }) => ['shapes', 'tall', 'swapped'].includes(name))) {
        const { promptIds, ids } = await model.generate(partsOf(one), { ...ask, maxTokens: one.greedy.ids.length }).result();
        expect(promptIds, one.name).toEqual(one.prompt_ids);
        const { ids: wanted, margins, noise } = one.greedy;
        const unsure = margins.findIndex((margin) => margin <= 2 * noise);
        const n = unsure < 0 ? wanted.length : unsure;
        expect(n).toBeGreaterThan(4);
        expect(ids.slice(0, n), one.name).toEqual(wanted.slice(0, n));
      }
    });

    it('a long and thin picture that no step holds is refused', async () => {
      await using model = await load({ imageMinTokens: 1, imageMaxTokens: 10 });
      const image = { data: new Uint8Array(3000), width: 1000, height: 1, channels: 3 };
      await expect(model.generate([{ type: 'image', image }, 'x'], ask).result()).rejects.toThrow(
        expect.objectContaining({ code: 'ERR_IMAGE_TOO_LARGE' }),
      );
    });

    it('the same bits for any batch and number of threads', async () => {
      const answer = async (options: object) => {
        await using model = await load(options);
        const { ids, logprobs } = await model.generate(partsOf(cases[0]), { ...ask, maxTokens: 6, logprobs: 3 }).result();
        return { ids, logprobs };
      };
      const alone = await answer({ threads: 1 });
      expect(await answer({ threads: 2, batchSize: 7 })).toEqual(alone);
    });
  });
