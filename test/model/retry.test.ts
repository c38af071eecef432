/**
 * A prompt whose computation was aborted: the next request for it computes only the rest and gives
 * the same text.
 */
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { goldenModel } from '../arch/golden-models.ts';
import { failure, randomIds } from '../support.ts';

const greedy = { temperature: 0, ignoreEos: true, maxTokens: 8 } as const;
const prompt = randomIds(400, 272, 5);

async function withModel<T>(name: string, options: LoadOptions, use: (model: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(goldenModel(name), {
    threads: 1,
    warmUp: false,
    contextLength: 512,
    batchSize: 40,
    checkpointMinStep: 64,
    ...options,
  });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

/**
 * Asks for the prompt, and aborts right after the step with which this many of its tokens are
 * computed.
 */
async function triedUntil(model: Model, tokens: number, ids: readonly number[] = prompt): Promise<void> {
  const giveUp = new AbortController();
  const reason = new Error('too slow');
  const { slots } = model.internals;
  const appends = slots.all.map((slot) => slot.append);
  let reached = 0;
  for (const [i, slot] of slots.all.entries())
    slot.append = (...taken) => {
      appends[i](...taken);
      if (slot.tokens.length < tokens || giveUp.signal.aborted) return;
      reached = slot.tokens.length;
      giveUp.abort(reason);
    };
  try {
    const tried = await failure(model.generate(ids, { ...greedy, signal: giveUp.signal }).result());
    expect(tried.error).toBe(reason);
    expect(reached).toBeLessThan(ids.length);
  } finally {
    for (const [i, slot] of slots.all.entries()) slot.append = appends[i];
  }
}

// Recurrent models have a checkpoint every 64 tokens, and steps have 40.
describe.each([
  ['qwen3.gguf', 160],
  ['mamba2', 128],
  ['lfm2', 128],
] as const)('%s', (name, kept) => {
  it("three attempts aborted in the prompt add up; the fourth gives the first one's answer", async () => {
    const want = await withModel(name, {}, (model) => model.generate(prompt, greedy).result());
    expect(want.timings.promptTokens).toBe(prompt.length);
    await withModel(name, { parallel: 2 }, async (model) => {
      for (const tokens of [80, 120, 160]) await triedUntil(model, tokens);
      const { ids, timings } = await model.generate(prompt, greedy).result();
      expect(ids).toEqual(want.ids);
      expect(timings.promptTokens).toBeLessThanOrEqual(prompt.length - kept);
    });
  });
});

it('an attempt of a few tokens is continued, and no conversation is evicted for it', () =>
  withModel('qwen3.gguf', { parallel: 2, batchSize: 8 }, async (model) => {
    const other = randomIds(100, 272, 6);
    await model.generate(other, greedy).result();
    await triedUntil(model, 8);
    const { timings } = await model.generate(prompt, greedy).result();
    expect(timings.promptTokens).toBeLessThanOrEqual(prompt.length - 8);
    expect((await model.generate(other, greedy).result()).timings.promptTokens).toBe(1);
  }));
