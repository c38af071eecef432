/**
 * Speculation changes nothing but the speed: ids, text, log probabilities, ends, saved states and
 * other clients are the same, with right and wrong drafts.
 */
import diagnostics from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import {
  loadModel,
  type GenerateOptions,
  type GenerationPart,
  type GenerationResult,
  type LoadOptions,
  type Model,
  type SpeculationOptions,
} from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invoke, never } from '../cli/commands.ts';
import { failure, llamaModel, RUNS, shippedModel, temporaryFolder, writeTo } from '../support.ts';
import { run } from '../../src/cli/run.ts';

/** A passage followed by its own beginning, so that n-grams draft right and wrong tokens. */
const PASSAGE = 'Once upon a time there was a little girl named Lily. She liked to play in the park with her red ball.';
const PROMPT = `${PASSAGE} ${PASSAGE.slice(0, PASSAGE.indexOf(' in the'))}`;

/** The draft model is the model itself with a coarser cache: it often agrees, but not always. */
const SPECULATION: SpeculationOptions = {
  type: ['ngram-simple', 'ngram-mod', 'draft-simple'],
  draft: { model: shippedModel, nMax: 5, cacheTypeK: 'q4_0', cacheTypeV: 'q4_0' },
  ngramSimple: { sizeN: 2, sizeM: 8 },
  ngramMod: { nMatch: 2, nMin: 1, nMax: 8 },
};
const TYPES = ['ngram-simple', 'ngram-mod', 'draft-simple'] as const;

/** Gives all steps the same cost, so that drafts always seem to pay, on any machine. */
function alwaysPays(model: Model): Model {
  Object.assign(model.internals.scheduler.costs, { learn: () => {}, of: () => 1e9 });
  return model;
}

interface Models {
  /** Loaded without speculation, and with it. */
  readonly plain: Model;
  readonly drafting: Model;
}

async function loadModels(options: LoadOptions): Promise<Models> {
  const shared = { threads: 1, warmUp: false, contextLength: 256, ...options };
  const plain = await loadModel(shippedModel, shared);
  return { plain, drafting: await loadModel(shippedModel, { speculation: SPECULATION, ...shared }).then(alwaysPays) };
}

const disposeModels = ({ plain, drafting }: Models): Promise<unknown> => Promise.all([plain.dispose(), drafting.dispose()]);

async function withModels(options: LoadOptions, use: (plain: Model, drafting: Model) => Promise<void>): Promise<void> {
  const models = await loadModels(options);
  try {
    await use(models.plain, models.drafting);
  } finally {
    await disposeModels(models);
  }
}

/** Models for tests that need no special options. */
let plain: Model;
let drafting: Model;
beforeAll(async () => void ({ plain, drafting } = await loadModels({})));
afterAll(() => disposeModels({ plain, drafting }));

/** Collects the living workers of this process. Node announces each one it starts. */
function watchWorkers() {
  const now: Worker[] = [];
  const collect = (message: unknown): void => {
    const { worker } = message as { worker: Worker };
    now.push(worker);
    worker.once('exit', () => now.splice(now.indexOf(worker), 1));
  };
  diagnostics.subscribe('worker_threads', collect);
  return { now, leave: () => diagnostics.unsubscribe('worker_threads', collect) };
}

interface Told {
  readonly parts: readonly GenerationPart[];
  readonly result: Omit<GenerationResult, 'timings'>;
}

/** Every result of a generation but times, and the number of accepted drafts. */
async function told(model: Model, options: GenerateOptions, prompt: string | readonly number[] = PROMPT) {
  const generation = model.generate(prompt, options);
  const parts: GenerationPart[] = [];
  for await (const part of generation) parts.push(part);
  const {
    timings: { draft },
    ...result
  } = await generation.result();
  return { told: { parts, result } as Told, drafted: draft?.tokens ?? 0, accepted: draft?.accepted ?? 0, draft };
}

const SAMPLERS: Record<string, GenerateOptions> = {
  greedy: { temperature: 0 },
  'top-k, top-p and penalties': {
    temperature: 0.9,
    topP: 0.9,
    repeatPenalty: 1.1,
    presencePenalty: 0.3,
    frequencyPenalty: 0.2,
    seed: 7,
  },
  'min-p, typical, top-n-sigma': { temperature: 1.2, minP: 0.1, typicalP: 0.9, topNSigma: 1.5, seed: 8 },
  'dynamic temperature': { temperature: 0.7, dynatempRange: 0.5, seed: 9 },
  'DRY and XTC': { temperature: 1, dryMultiplier: 0.8, xtcProbability: 0.5, seed: 3 },
  'mirostat 1': { mirostat: 1, seed: 10 },
  'mirostat 2': { mirostat: 2, seed: 11 },
  'logit bias': { temperature: 0.5, logitBias: new Map([[269, -2]]), seed: 12 },
  'log probabilities': { temperature: 0.8, logprobs: 4, seed: 13 },
  'a grammar that refuses': { temperature: 0.8, seed: 5, grammar: 'root ::= [b-z ,.]+' },
  'a grammar that ends': { temperature: 0.8, seed: 6, grammar: 'root ::= [a-zA-Z ,]+ "." [a-zA-Z ,]+ "."' },
  'a schema': {
    temperature: 0.8,
    seed: 4,
    responseFormat: { type: 'json_schema', schema: { type: 'array', items: { enum: ['ball', 'park'] }, minItems: 3, maxItems: 5 } },
  },
};

describe('the same as without', () => {
  describe('every sampler and seed, with every way to draft', () => {
    const sums = Object.fromEntries(TYPES.map((type) => [type, { right: 0, wrong: 0 }]));

    it.each(Object.entries(SAMPLERS))('%s', async (_, options) => {
      for (const seed of 'seed' in options ? [options.seed!, 1000] : [0]) {
        const all = { maxTokens: 64, ...options, seed };
        const want = await told(plain, all);
        expect(want.draft).toBeUndefined();
        for (const type of [...TYPES, TYPES]) {
          const got = await told(drafting, { ...all, speculation: { type } });
          expect(got.told, `seed ${seed}, ${String(type)}`).toEqual(want.told);
          if (!got.draft) continue;
          const { tokens, accepted, acceptedAt, steps } = got.draft;
          expect(acceptedAt.reduce((x, y) => x + y, 0)).toBe(accepted);
          expect(acceptedAt.every((n, i) => n <= (acceptedAt[i - 1] ?? steps))).toBe(true);
          if (typeof type !== 'string') continue;
          sums[type].right += accepted;
          sums[type].wrong += tokens - accepted;
        }
      }
    });

    it('with right and wrong drafts', () => {
      for (const type of TYPES)
        expect([sums[type].right > 20, sums[type].wrong > 20], `${type}: ${JSON.stringify(sums[type])}`).toEqual([true, true]);
    });
  });

  it('ends inside a draft: tokens, stop texts, the end token, the context', async () => {
    const greedy = { temperature: 0, ignoreEos: true };
    const { text } = (await told(plain, { ...greedy, maxTokens: 80 })).told.result;
    const ends: GenerateOptions[] = [
      ...Array.from({ length: 14 }, (_, i) => ({ ...greedy, maxTokens: i })),
      ...Array.from({ length: 24 }, (_, i) => ({ ...greedy, maxTokens: 60, stop: text.slice(10 + i, 13 + i + (i % 5)) })),
      { ...greedy, maxTokens: 60, stop: [text.slice(40, 48), text.slice(44, 60)] },
      greedy, // until the context is full
      { ...greedy, maxTokens: 250 }, // more than the context can hold
      { temperature: 0 },
      { temperature: 0.6, seed: 21 },
      { temperature: 0.6, seed: 22, special: true, ignoreEos: true },
    ];
    /** The result, or the code of the error. */
    const end = async (model: Model, options: GenerateOptions): Promise<Told | string> => {
      let came: Told | undefined;
      const { code } = await failure(async () => (came = (await told(model, options)).told));
      return came ?? code;
    };
    const seen = new Set<string>();
    for (const [i, options] of ends.entries()) {
      const want = await end(plain, options);
      seen.add(typeof want === 'string' ? want : want.result.finishReason);
      for (const type of TYPES) expect(await end(drafting, { ...options, speculation: { type } }), `end ${i}, ${type}`).toEqual(want);
    }
    expect([...seen].sort()).toEqual(['ERR_CONTEXT_FULL', 'length', 'stop']);
  });

  it.each(RUNS)('%s, %i threads', async (build, threads) => {
    await withModels({ build, threads }, async (plain, drafting) => {
      const greedy = { temperature: 0, maxTokens: 32, logprobs: 2 };
      const sampled = { temperature: 0.9, seed: 3, maxTokens: 32, logprobs: 2 };
      for (const [options, types] of [
        [greedy, TYPES],
        [sampled, [TYPES]],
      ] as const) {
        const want = await told(plain, options);
        for (const type of types) {
          const got = await told(drafting, { ...options, speculation: { type } });
          expect(got.told, String(type)).toEqual(want.told);
          expect(got.drafted, `${String(type)} drafts`).toBeGreaterThan(0);
        }
      }
    });
  });

  it.each([
    ['steps with room for all', 512],
    ['steps too short for all drafts', 7],
    ['steps shorter than the clients are many', 2],
  ])('several clients at once, %s', async (_, batchSize) => {
    await withModels({ parallel: 3, batchSize }, async (plain, drafting) => {
      const asked = [PROMPT, `Tom and Mia went out. ${PROMPT}`, 'The big dog ran. The big dog', 'One day it rained.', PROMPT].map(
        (prompt, i) => [prompt, { maxTokens: 30 + i, temperature: i % 2, seed: i, logprobs: 1, stop: i === 2 ? ['dog'] : [] }] as const,
      );
      const alone: Told[] = [];
      for (const [prompt, options] of asked) alone.push((await told(plain, options, prompt)).told);
      for (const type of [...TYPES, TYPES]) {
        const together = await Promise.all(asked.map(([prompt, options]) => told(drafting, { ...options, speculation: { type } }, prompt)));
        expect(
          together.map((answer) => answer.told),
          String(type),
        ).toEqual(alone);
        expect(together.some(({ drafted }) => drafted > 0)).toBe(true);
      }
      expect(drafting.internals.slots.active).toBe(0);
    });
  });

  it('chat', async () => {
    await withModels({ chatTemplate: '{{ messages[0].content }}' }, async (plain, drafting) => {
      const messages = [{ role: 'user' as const, content: PROMPT }];
      const options = { temperature: 0, maxTokens: 40 };
      const want = await plain.chat(messages, options).result();
      const got = await drafting.chat(messages, options).result();
      expect([got.content, got.ids]).toEqual([want.content, want.ids]);
      expect(got.timings.draft!.tokens).toBeGreaterThan(0);
      expect((await drafting.chat(messages, { ...options, speculation: false }).result()).timings.draft).toBeUndefined();
    });
  });
});

describe('afterwards', () => {
  it('rejected tokens are not in saved states, which have the same bytes as without speculation', async () => {
    const options = { temperature: 0.9, seed: 5, maxTokens: 50 };
    await told(plain, options);
    const want = await plain.saveState();
    for (const type of TYPES) {
      const { drafted, accepted } = await told(drafting, { ...options, speculation: { type } });
      expect(drafted, type).toBeGreaterThan(accepted);
      expect(Buffer.from(await drafting.saveState()).equals(Buffer.from(want)), type).toBe(true);
    }
  });

  it('leaving early or aborting keeps the tokens given out, and the next generation continues from there', async () => {
    const options = { temperature: 0, maxTokens: 40 };
    const { parts, result } = (await told(plain, options)).told;
    const slot = drafting.internals.slots.all[0];
    for (let n = 1; n < 24; n++) {
      for (const aborts of [false, true]) {
        const controller = new AbortController();
        const got: GenerationPart[] = [];
        const { code } = await failure(async () => {
          for await (const part of drafting.generate(PROMPT, { ...options, signal: controller.signal })) {
            if (got.push(part) < n) continue;
            if (!aborts) break;
            controller.abort();
          }
        });
        expect(code).toBe(aborts ? 'AbortError' : 'none');
        expect(got, 'nothing comes after an abort').toEqual(parts.slice(0, n));
        expect(slot.tokens).toEqual([...result.promptIds, ...result.ids.slice(0, n - 1)]);
        const rest = await drafting.generate([...result.promptIds, ...result.ids.slice(0, n)], { ...options, maxTokens: 40 - n }).result();
        expect([...result.ids.slice(0, n), ...rest.ids]).toEqual(result.ids);
      }
    }
  });

  it('an abort in a shared step: the other sequences are not affected', async () => {
    await withModels({ parallel: 3 }, async (plain, drafting) => {
      const options = { temperature: 0.8, seed: 2, maxTokens: 60 };
      const want = (await told(plain, options)).told;
      for (let ms = 0; ms < 12; ms += 2) {
        const controller = new AbortController();
        const aborted = failure(drafting.generate(`${PASSAGE} ${PROMPT}`, { temperature: 0, signal: controller.signal }).result());
        const others = [told(drafting, options), told(drafting, options)];
        await new Promise((resolve) => setTimeout(resolve, ms));
        controller.abort();
        expect((await aborted).code).toBe('AbortError');
        for (const other of others) expect((await other).told).toEqual(want);
      }
    });
  });

  it('dispose() while the draft model computes: the loop gets an error, and no thread stays', async () => {
    const workers = watchWorkers();
    for (const n of [1, 2, 5]) {
      const model = await loadModel(shippedModel, {
        build: 'simd-threads',
        threads: 2,
        warmUp: false,
        speculation: { ...SPECULATION, type: 'draft-simple' },
      });
      alwaysPays(model);
      expect(workers.now).toHaveLength(4);
      let seen = 0;
      const { code } = await failure(async () => {
        for await (const _ of model.generate(PROMPT, { temperature: 0, maxTokens: 100 })) if (++seen === n) void model.dispose();
      });
      expect(code).toBe('ERR_DISPOSED');
      await model.dispose();
      expect(workers.now, 'threads of the model and of the draft model').toHaveLength(0);
    }
    workers.leave();
  });

  it('if a model cannot be loaded, its draft model is disposed of', async () => {
    const workers = watchWorkers();
    const { code } = await failure(loadModel(shippedModel, { build: 'simd-threads', speculation: { draft: { model: llamaModel } } }));
    expect([code, workers.now.length]).toEqual(['ERR_INVALID_ARGUMENT', 0]);
    workers.leave();
  });
});

describe('a lost worker', () => {
  it('of the draft model costs a draft, of the model the answer; then all works as before', async () => {
    const workers = watchWorkers();
    try {
      const options = { temperature: 0.7, seed: 4, maxTokens: 120, ignoreEos: true };
      const load: LoadOptions = { build: 'simd-threads', threads: 2, warmUp: false, contextLength: 256 };
      const model = await loadModel(shippedModel, { ...load, speculation: { ...SPECULATION, type: 'draft-simple' } });
      // The draft model is loaded first.
      const [drafters, others] = [workers.now.slice(0, 2), workers.now.slice(2)];
      expect(others).toHaveLength(2);
      alwaysPays(model);
      const want = (await told(model, { ...options, speculation: false })).told;
      let parts = 0;
      const watched = (async () => {
        const generation = model.generate(PROMPT, options);
        for await (const _ of generation) if (++parts === 20) void drafters[0].terminate();
        return generation.result();
      })();
      expect((await watched).ids).toEqual(want.result.ids);
      const lost = failure(async () => {
        for await (const _ of model.generate(PROMPT, options)) await others[0].terminate();
      });
      expect(['ERR_WORKER_LOST', 'none']).toContain((await lost).code);
      expect((await told(model, options)).told).toEqual(want);
      await model.dispose();
    } finally {
      workers.leave();
    }
  });
});

describe('refused before anything is computed', () => {
  const folder = temporaryFolder();
  const load = (speculation: unknown): ReturnType<typeof failure> =>
    failure(async () => {
      const model = await loadModel(shippedModel, { warmUp: false, threads: 1, speculation: speculation as SpeculationOptions });
      await model.dispose();
    });

  it.each<[string, unknown, RegExp]>([
    ['an unknown type', { type: 'ngram-simpel' }, /type is "ngram-simpel"; expected none, or/],
    ['no draft model', { type: 'draft-simple' }, /draft-simple needs a draft model/],
    ['n-grams and no draft model', { type: ['ngram-mod', 'draft-simple'] }, /draft-simple needs a draft model/],
    ['a negative length', { type: 'draft-simple', draft: { model: shippedModel, nMax: -1 } }, /nMax is -1; expected a whole number from 0/],
    ['a probability of 2', { type: 'draft-simple', draft: { model: shippedModel, pMin: 2 } }, /pMin is 2; expected a number from 0 to 1/],
    ['n-grams of nothing', { type: 'ngram-simple', ngramSimple: { sizeN: 0 } }, /sizeN is 0/],
    ['an unknown option', { type: 'ngram-mod', ngramMod: { nMatsch: 3 } }, /no option "nMatsch"; did you mean nMatch/],
    ['no options at all', 'ngram-mod', /the options are "ngram-mod"/],
    ['a draft model of another vocabulary', { draft: { model: llamaModel } }, /different vocabulary: it has 272 tokens, the model 1024/],
  ])('%s', async (_, speculation, message) => {
    const { code, message: text } = await load(speculation);
    expect([code, text]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(message)]);
  });

  it('a draft model with the same number of tokens, two of them swapped', async () => {
    const file = Buffer.from(readFileSync(shippedModel));
    const pieces = ['▁was', '▁she'].map((piece) => {
      const bytes = Buffer.from(piece);
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(bytes.length));
      return { bytes, at: file.indexOf(Buffer.concat([length, bytes])) + 8 };
    });
    expect(pieces.every(({ at }) => at > 8)).toBe(true);
    pieces.forEach(({ at }, i) => pieces[1 - i].bytes.copy(file, at));
    const { code, message } = await load({ draft: { model: writeTo(folder, 'swapped.gguf', file) } });
    expect([code, message]).toEqual([
      'ERR_INVALID_ARGUMENT',
      expect.stringMatching(/its token \d+ is "▁(she|was)", the model's "▁(was|she)"/),
    ]);
  });

  it('a generation with larger options than the model was loaded for', async () => {
    const model = await loadModel(shippedModel, {
      warmUp: false,
      threads: 1,
      speculation: { type: 'ngram-simple', ngramSimple: { sizeM: 8 } },
    });
    const ask = (speculation: unknown) => failure(model.generate('Once', { maxTokens: 1, speculation: speculation as false }).result());
    expect(await ask({ type: 'ngram-mod' })).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining('loaded for ngram-simple'),
    });
    expect(await ask({ ngramSimple: { sizeM: 9 } })).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining('9 tokens'),
    });
    expect(await ask({ ngramSimple: { sizeM: 4 } })).toMatchObject({ code: 'none' });
    expect(model.internals.slots.active).toBe(0);
    await model.dispose();
  });

  it('on the command line too', async () => {
    for (const args of [
      ['--spec-type', 'ngram-simpel'],
      ['--spec-type', 'draft-simple'],
      ['-md', shippedModel, '--spec-draft-n-max', '-1'],
    ]) {
      const { code, message } = await failure(run.run(['-p', 'Once', '-n', '4', ...args], never));
      expect(code).toBe('ERR_INVALID_ARGUMENT');
      expect(message).not.toContain('\n');
    }
  });
});

it('the command line reports the drafts', async () => {
  const args = ['-p', PROMPT, '-n', 24, '--temp', 0, '--json', '-t', 2, '--no-warmup'];
  const plain = JSON.parse((await invoke(run, args)).stdout);
  for (const spec of [
    ['--spec-type', 'ngram-simple', '--spec-ngram-simple-size-n', 2],
    ['--spec-type', 'none,ngram-mod', '--spec-ngram-mod-n-match', 2, '--spec-ngram-mod-n-min', 1],
    ['-md', shippedModel, '-ctkd', 'q4_0', '-td', 1],
  ]) {
    const { ids, text, timings } = JSON.parse((await invoke(run, [...args, ...spec])).stdout);
    expect([ids, text]).toEqual([plain.ids, plain.text]);
    expect(timings.draft_n, String(spec)).toBeGreaterThan(0);
    expect(timings.draft_n_accepted).toBeLessThanOrEqual(timings.draft_n);
  }
  expect(plain.timings).not.toHaveProperty('draft_n');
});
