/**
 * T5: an encoder reads the prompt, a decoder writes. The same bits however it is computed, and the
 * meaning of prompts, states, drafts and contexts for such models.
 */
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { afterAll, describe, expect, it } from 'vitest';
import { mustPredict } from '../../src/tools/windows.ts';
import { createHandler } from '../../src/server/handler.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { bitDifference, BUILDS, failure, logitsOf } from '../support.ts';

const source = goldenModel('t5-q4_0');
const load = (options: LoadOptions = {}): Promise<Model> =>
  loadModel(source, { build: 'simd', threads: 2, contextLength: 256, maxOutputs: 64, warmUp: false, ...options });
async function withModel<T>(options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await load(options);
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

const prompt = [0, 9, 19, 15, 11, 21, 27, 23, 5, 15, 7, 17, 2];
const other = [0, 23, 5, 2];
const greedy = { maxTokens: 12, temperature: 0, ignoreEos: true } as const;
const idsOf = async (model: Model, ids: readonly number[]): Promise<readonly number[]> => (await model.generate(ids, greedy).result()).ids;

describe('the same bits', () => {
  it.each(BUILDS)('%s: whole, in pieces, with another sequence, with 1 to 3 threads', async (build) => {
    const want = await withModel({ build, threads: 1 }, (model) => logitsOf(model, prompt));
    for (const threads of build.endsWith('-threads') ? [2, 3] : [1]) {
      const got = await withModel({ build, threads, parallel: 2 }, async (model) => {
        const [rows] = await Promise.all([logitsOf(model, prompt, [5, 1, 7]), logitsOf(model, other, [2])]);
        return rows;
      });
      expect(bitDifference(got, want), `${threads} threads`).toBe('');
    }
  });

  it('in several memories, and with streamed weights', async () => {
    const want = await withModel({}, (model) => logitsOf(model, prompt));
    for (const options of [{ links: 1000 }, { links: 2 }, { weightsMemory: 1 << 15 }])
      await withModel(options, async (model) => {
        expect(bitDifference(await logitsOf(model, prompt), want), JSON.stringify(options)).toBe('');
        expect(bitDifference(await logitsOf(model, prompt, [3]), want), JSON.stringify(options)).toBe('');
      });
  });

  it.each(['f32', 'q8_0', 'q4_0'] as const)('with a cache of %s: whole and in pieces', (cacheTypeK) =>
    withModel({ cacheTypeK, cacheTypeV: cacheTypeK }, async (model) => {
      expect(bitDifference(await logitsOf(model, prompt, [4]), await logitsOf(model, prompt))).toBe('');
    }),
  );
});

describe('generating', () => {
  let model: Model;
  const loaded = async (): Promise<Model> => (model ??= await load({ parallel: 2, speculation: { type: 'ngram-simple' } }));
  afterAll(() => model?.dispose());

  it('a prompt is not encoded twice, and another sequence changes nothing', async () => {
    const model = await loaded();
    const first = await model.generate(prompt, greedy).result();
    expect(first.promptIds).toEqual(prompt);
    expect(first.timings.promptTokens).toBe(prompt.length + 1);
    const [again, beside] = await Promise.all([model.generate(prompt, greedy).result(), model.generate(other, greedy).result()]);
    expect(again.timings.promptTokens).toBe(1);
    expect(again.ids).toEqual(first.ids);
    expect(beside.ids).not.toEqual(first.ids);
    expect((await model.generate(prompt, { ...greedy, speculation: false }).result()).ids).toEqual(first.ids);
  });

  it("a saved state includes the encoder's output", async () => {
    const model = await loaded();
    const want = await idsOf(model, prompt);
    for (const state of [await model.saveState(), await model.saveState({ prompt })])
      await withModel({ build: 'relaxed-threads', contextLength: 300 }, async (second) => {
        expect((await second.loadState(state))[0]).toBe(1);
        const { ids, timings } = await second.generate(prompt, greedy).result();
        expect(timings.promptTokens).toBe(1);
        expect(ids).toEqual(want);
        const cut = await failure(second.loadState(state.slice(0, -1)));
        expect(cut.code).toBe('ERR_STATE');
      });
    expect((await failure(model.saveState({ prompt: [0, 5] }))).code).toBe('ERR_STATE');
  });

  it('an aborted encoding leaves no trace', async () => {
    const model = await loaded();
    const want = await idsOf(model, prompt);
    await idsOf(model, other);
    await idsOf(model, [0, 7, 2]);
    const abort = new AbortController();
    const result = model.generate(prompt, { ...greedy, signal: abort.signal }).result();
    abort.abort(new Error('enough'));
    expect((await failure(result)).message).toBe('enough');
    expect(await idsOf(model, prompt)).toEqual(want);
  });

  it('the prompt takes no room from the text', () =>
    withModel({ contextLength: 16 }, async (model) => {
      const long = { ...greedy, maxTokens: 16 };
      expect((await model.generate(prompt, long).result()).ids).toHaveLength(16);
      const more = { ...greedy, maxTokens: 40 };
      expect((await failure(model.generate(prompt, more).result())).code).toBe('ERR_CONTEXT_FULL');
      expect((await model.generate(prompt, { ...more, onContextFull: 'shift' }).result()).ids).toHaveLength(40);
      const tooLong = [...prompt, ...prompt];
      expect((await failure(model.generate(tooLong, long).result())).code).toBe('ERR_CONTEXT_FULL');
      expect((await model.generate(tooLong, { ...long, onContextFull: 'truncate-middle' }).result()).promptIds).toHaveLength(16);
      const body = JSON.stringify({ prompt, n_predict: 16, temperature: 0, ignore_eos: true });
      const answer = await createHandler(model)(
        new Request('http://localhost/completion', { method: 'POST', body, headers: { 'content-type': 'application/json' } }),
      );
      const { tokens_predicted, truncated } = (await answer.json()) as { tokens_predicted: number; truncated: boolean };
      expect([tokens_predicted, truncated]).toEqual([16, true]);
    }));
});

describe('requests that such a model cannot serve are refused', () => {
  it('vectors, draft models, perplexity, and a beginning outside the vocabulary', async () => {
    const embeds = await failure(load({ embeddings: true }));
    expect([embeds.code, embeds.message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining('t5encoder')]);
    const drafts = await failure(load({ speculation: { draft: { model: source } } }));
    expect([drafts.code, drafts.message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringContaining('its encoder reads the prompt')]);
    await withModel({ overrideKv: { 't5.decoder_start_token_id': 9999 } }, async (model) => {
      expect((await failure(model.generate(prompt, greedy).result())).code).toBe('ERR_GGUF_INVALID');
      expect((await failure(async () => mustPredict(model as never))).code).toBe('ERR_INVALID_ARGUMENT');
    });
  });
});
