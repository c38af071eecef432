/**
 * Models with recurrent states: the same bits for any batch, other sequences and threads, and after
 * any rollback, abort or restored state.
 */
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { afterAll, describe, expect, it } from 'vitest';
import { goldenModel } from '../arch/golden-models.ts';
import { bitDifference, failure, logitsOf, randomIds, RUNS } from '../support.ts';

const LONG = 517;
const prompt = randomIds(LONG, 272, 3);
const greedy = { temperature: 0, ignoreEos: true } as const;
/**
 * One model of each kind of state: a convolution's, Mamba's two, the delta rule's; and one with
 * experts.
 */
const MODELS = ['lfm2', 'mamba', 'mamba2', 'qwen35', 'qwen3next-q4_0', 'granitehybrid-moe-q4_0'];

async function withModel<T>(name: string, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(goldenModel(name), { threads: 1, warmUp: false, contextLength: 768, ...options });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

describe('a prompt in one batch, in odd pieces and token by token', () => {
  it.each(MODELS)('%s', async (name) => {
    const logits = (options: LoadOptions, ids = prompt): Promise<Float32Array[]> =>
      withModel(name, { maxOutputs: LONG, build: 'simd', ...options }, (model) => logitsOf(model, ids));
    const want = await logits({});
    expect(want).toHaveLength(LONG);
    const few = prompt.slice(0, 150);
    for (const [batchSize, checkpointMinStep] of [
      [37, 64],
      [1, 64],
      [100, 7],
    ]) {
      const got = await logits({ batchSize, checkpointMinStep, maxOutputs: batchSize }, few);
      expect(bitDifference(got, want.slice(0, few.length)), `batches of ${batchSize}`).toBe('');
    }
  });

  it.each(RUNS.filter(([, threads]) => threads > 1))('%s, %i threads: the bits of one thread', async (build, threads) => {
    for (const name of ['mamba2', 'qwen35', 'mamba', 'lfm2']) {
      const logits = (n: number, batchSize: number): Promise<Float32Array[]> =>
        withModel(name, { build, threads: n, batchSize, maxOutputs: batchSize }, (model) => logitsOf(model, prompt.slice(0, 90)));
      expect(bitDifference(await logits(threads, 29), await logits(1, 512)), name).toBe('');
    }
  });
});

const models: Model[] = [];
afterAll(() => Promise.all(models.map((m) => m.dispose())));
const kept = async (name: string, options: LoadOptions = {}): Promise<Model> => {
  const model = await loadModel(goldenModel(name), { threads: 1, warmUp: false, contextLength: 512, ...options });
  models.push(model);
  return model;
};
const idsOf = async (model: Model, ids: readonly number[], maxTokens = 12): Promise<readonly number[]> =>
  (await model.generate(ids, { ...greedy, maxTokens }).result()).ids;
const fresh = (name: string, ids: readonly number[], maxTokens = 12): Promise<readonly number[]> =>
  withModel(name, {}, (model) => idsOf(model, ids, maxTokens));

describe.each(['mamba2', 'qwen35', 'lfm2'])('%s', (name) => {
  it('simultaneous sequences have the bits that they have alone', async () => {
    const model = await kept(name, { parallel: 3, batchSize: 64 });
    const prompts = [130, 40, 77].map((n, i) => randomIds(n, 272, 20 + i));
    const together = await Promise.all(prompts.map((p) => idsOf(model, p)));
    for (const [i, p] of prompts.entries()) expect(together[i]).toEqual(await fresh(name, p));
  });

  it('a next turn computes its new tokens; after a changed end also those since the last checkpoint', async () => {
    const model = await kept(name);
    const first = prompt.slice(0, 300);
    const answer = await idsOf(model, first, 20);
    const next = [...first, ...answer, ...randomIds(9, 272, 8)];
    const { ids, timings } = await model.generate(next, { ...greedy, maxTokens: 6 }).result();
    expect(timings.promptTokens).toBe(10); // the last token of the answer was not computed
    expect(ids).toEqual(await fresh(name, next, 6));
    // The same conversation with a changed answer.
    const changed = [...first.slice(0, -3), ...randomIds(15, 272, 9)];
    const again = await model.generate(changed, { ...greedy, maxTokens: 6 }).result();
    expect(again.timings.promptTokens).toBeLessThanOrEqual(15 + 64);
    expect(again.ids).toEqual(await fresh(name, changed, 6));
    const none = await kept(name, { ctxCheckpoints: 0 });
    await idsOf(none, first, 2);
    expect((await none.generate(changed, { ...greedy, maxTokens: 6 }).result()).timings.promptTokens).toBe(changed.length);
  });

  it('drafts, right and wrong, change nothing', async () => {
    const passage = prompt.slice(0, 60);
    const repeated = [...passage, ...passage, ...passage.slice(0, 20)];
    const model = await kept(name, { speculation: { type: ['ngram-simple'], ngramSimple: { sizeN: 1, sizeM: 6 } } });
    Object.assign(model.internals.scheduler.costs, { learn: () => {}, of: () => 1e9 }); // drafts always seem to pay
    const { ids, timings } = await model.generate(repeated, { ...greedy, maxTokens: 60 }).result();
    expect(ids).toEqual(await fresh(name, repeated, 60));
    expect(timings.draft!.accepted).toBeLessThan(timings.draft!.tokens);
  });

  it('an aborted prompt leaves no state that a later one could continue from wrongly', async () => {
    const model = await kept(name, { parallel: 2 });
    const abort = new AbortController();
    const other = [...prompt.slice(0, 30), ...randomIds(300, 272, 12)];
    let broken: ReturnType<typeof failure> | undefined;
    // While another text is generated, a prompt is computed in pieces.
    let parts = 0;
    for await (const _ of model.generate(prompt.slice(0, 40), { ...greedy, maxTokens: 8 })) {
      if (parts === 1) broken = failure(async () => model.generate(other, { ...greedy, maxTokens: 4, signal: abort.signal }).result());
      if (parts++ === 4) abort.abort(new Error('enough'));
    }
    expect((await broken!).message).toBe('enough');
    expect(await idsOf(model, other.slice(0, 200))).toEqual(await fresh(name, other.slice(0, 200)));
  });

  it('a saved state continues where it was', async () => {
    const first = prompt.slice(0, 130);
    const want = await fresh(name, first, 40);
    const one = await kept(name);
    const ids = await idsOf(one, first, 15);
    const state = await one.saveState();
    const two = await kept(name, { parallel: 2, ctxCheckpoints: 3, checkpointMinStep: 32 });
    expect(await two.loadState(state)).toEqual([...first, ...ids.slice(0, -1)]);
    const { ids: rest, timings } = await two.generate([...first, ...ids], { ...greedy, maxTokens: 25 }).result();
    expect([...ids, ...rest]).toEqual(want);
    expect(timings.promptTokens).toBe(1);
    // For a prompt that only shares the beginning, the state of a checkpoint.
    const part = await one.saveState({ prompt: first.slice(0, 100) });
    expect(await two.loadState(part)).toEqual(first.slice(0, 64));
    expect((await failure(async () => two.loadState(state.slice(0, -4)))).code).toBe('ERR_STATE');
  });
});

it('a state belongs to one architecture', async () => {
  const [mamba, lfm2] = await Promise.all(['mamba2', 'lfm2'].map((name) => kept(name)));
  await idsOf(mamba, [1, 5, 9]);
  const state = await mamba.saveState();
  expect((await failure(async () => lfm2.loadState(state))).code).toBe('ERR_STATE');
});

it('vectors of a causal model', async () => {
  const model = await kept('lfm2', { embeddings: true, parallel: 3 });
  const texts = [60, 7, 31].map((n, i) => randomIds(n, 272, 30 + i));
  const together = await model.embed(texts);
  for (const [i, text] of texts.entries()) expect(bitDifference([(await model.embed([text]))[0]], [together[i]])).toBe('');
});

it('states lie in the memory of their layers if a model has several', async () => {
  const ids = prompt.slice(0, 100);
  for (const name of ['qwen35', 'mamba2']) {
    const links = await kept(name, { links: 2 });
    expect(await idsOf(links, ids), name).toEqual(await fresh(name, ids));
  }
});
