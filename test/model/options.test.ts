/**
 * Unknown options and options of the wrong kind are refused by name, with a suggestion, before
 * anything is read.
 */
import { loadModel, type GenerateOptions, type Model } from 'quantlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { warmUp } from '../../src/load/warm-up.ts';
import { download, list, remove } from '../../src/entry/hub-node.ts';
import { createHandler, createModels } from '../../src/entry/openai.ts';
import { failure, llamaModel } from '../support.ts';

describe('loadModel', () => {
  it.each<[object, RegExp]>([
    [{ thread: 2 }, /there is no option "thread"; did you mean threads\?$/],
    [{ context_length: 512 }, /"context_length"; did you mean contextLength\?$/],
    [{ nonsense: 1 }, /"nonsense"; expected threads, contextLength, .*onProgress$/],
    [{ signal: {} }, /signal is an object; expected an AbortSignal/],
    [{ onProgress: 5 }, /onProgress is 5; expected a function/],
    [{ contextLength: null }, /contextLength is null; expected a whole number from 0 to/],
    [{ threads: '2' }, /threads is "2"; expected a whole number from 1 to 512/],
    [{ cacheTypeK: 'f8' }, /cacheTypeK is "f8"; expected "f16" or /],
    [{ unifiedMax: Infinity }, /unifiedMax is Infinity/],
    [{ warmUp: 'no' }, /warmUp is "no"; expected "short", true or false/],
    [{ embeddings: 1 }, /embeddings is 1/],
    [{ name: 5 }, /name is 5; expected a string/],
    [{ chatTemplate: {} }, /chatTemplate is an object/],
    [{ build: 7 }, /build is 7; expected a string/],
    [{ turbo: 'yes' }, /turbo is "yes"/],
    [{ lora: [{ source: llamaModel, sclae: 2 }] }, /lora: adapter 1: there is no option "sclae"; did you mean scale\?/],
    [{ build: 'relaxd' }, /no build "relaxd"; did you mean "relaxed"\? Expected one of simd, /],
    [{ warmUp: 'shrot' }, /warmUp is "shrot"; did you mean "short"\? Expected "short", true or false/],
    [{ lora: 'style.gguf' }, /lora is "style.gguf"; expected a list/],
    [{ speculation: 'ngram-simple' }, /speculation: the options are "ngram-simple"; expected an object/],
    [{ cache: 'no' }, /cache is "no"; expected true, false or "reload"/],
    [{ headers: { authorization: 5 } }, /headers is an object; expected an object of strings/],
    [{ hub: 'https://hub' }, /hub is "https:\/\/hub"; expected an object/],
    [{ hub: { tokens: 'x' } }, /hub: there is no option "tokens"; did you mean token\? There are token, endpoint, folder, offline/],
    [{ hub: { offline: 'yes' } }, /hub: offline is "yes"/],
    [{ createWorker: true }, /createWorker is true; expected a function/],
  ])('%j', async (options, says) => {
    const { code, message } = await failure(loadModel(llamaModel, options));
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(says)]);
    expect(message, 'what is for our own use is not offered').not.toContain('maxOutputs');
  });

  it.each([null, 'fast', [], 5])('options that are %j', async (options) => {
    const { code, message } = await failure(loadModel(llamaModel, options as never));
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(/the options are .*; expected an object/)]);
  });
});

it('warm-up: always, only if steps are so short that fewer threads are faster, or never', async () => {
  const model = await loadModel(llamaModel, { build: 'simd-threads', threads: 2, warmUp: 'short', contextLength: 64 });
  try {
    expect(model.stats.warmupMs).toBeGreaterThan(0);
    const { engine } = model.internals;
    const large = { ...engine, memory: { ...engine.memory, weights: 1e8 } };
    expect([await warmUp(large, 'short'), await warmUp(engine, false)]).toEqual([0, 0]);
    expect(await warmUp(large, true)).toBeGreaterThan(0);
  } finally {
    await model.dispose();
  }
});

describe('the methods of a model', () => {
  let model: Model;
  beforeAll(async () => void (model = await loadModel(llamaModel, { build: 'simd', warmUp: false, contextLength: 64 })));
  afterAll(() => model.dispose());

  it.each<[object | null, RegExp]>([
    [{ maxtokens: 5 }, /generate: there is no option "maxtokens"; did you mean maxTokens\?/],
    [{ top_k: 5 }, /did you mean topK\?/],
    [{ signal: {} }, /signal is an object; expected an AbortSignal/],
    [{ maxTokens: null }, /maxTokens is null; expected a whole number from 0, or -1 for no limit/],
    [{ ignoreEos: 1 }, /ignoreEos is 1/],
    [{ onContextFull: 'slide' }, /onContextFull is "slide"; expected "error" or "shift" or "truncate-middle"/],
    [{ stopp: 'x' }, /did you mean stop\?/],
    [{ samplers: ['top_k', 'tmep'] }, /samplers is \["top_k","tmep"\]; expected a list of penalties, /],
    [{ samplers: ['top_kk'] }, /did you mean "top_k"\? Expected a list of penalties, /],
    [{ responseFormat: { type: 'json_schema', schema: {}, strct: true } }, /responseFormat has "strct"; did you mean "strict"\?/],
    [
      { responseFormat: { type: 'json_schema', json_schema: { schema: {}, nme: 'x' } } },
      /responseFormat.json_schema has "nme"; did you mean "name"\?/,
    ],
    [{ keep: -2 }, /keep is -2; expected .* -1 for all/],
    [null, /the options are null; expected an object/],
  ])('generate with %j', async (options, says) => {
    const { code, message } = await failure(async () => model.generate('x', options as GenerateOptions).result());
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(says)]);
  });

  it.each<[string, () => unknown, RegExp]>([
    [
      'tokenize',
      () => model.tokenize('x', { addSpeciall: false } as never),
      /tokenize: there is no option "addSpeciall"; did you mean addSpecial\?/,
    ],
    ['tokenize', () => model.tokenize('x', { parseSpecial: 'no' } as never), /tokenize: parseSpecial is "no"; expected true or false/],
    ['detokenize', () => model.detokenize([5], { specail: true } as never), /there is no option "specail"; did you mean special\?/],
    ['detokenize', () => model.detokenize([5], null as never), /detokenize: the options are null/],
    [
      'createHandler',
      () => createHandler(model, { apikey: 'x' } as never),
      /createHandler: there is no option "apikey"; did you mean apiKey\?/,
    ],
    ['createHandler', () => createHandler(model, { cors: 'x' } as never), /cors is "x"; expected true, false or a list of origins/],
    [
      'createHandler',
      () => createHandler(model, { defaults: { temprature: 1 } } as never),
      /defaults: there is no option "temprature"; did you mean temperature\?/,
    ],
    [
      'createHandler',
      () => createHandler(model, { chatDefaults: { resoning: false } } as never),
      /chatDefaults: .* did you mean reasoning\?/,
    ],
    [
      'createModels',
      () => createModels([{ id: 'a', load: () => Promise.resolve(model) }], { maxLoad: 1 } as never),
      /did you mean maxLoaded\?/,
    ],
    [
      'createModels',
      () => createModels([{ id: 'a', laod: () => Promise.resolve(model) } as never]),
      /there is no option "laod"; did you mean load\?/,
    ],
    ['download', () => download('hf:a/b', { endpiont: 'x' } as never), /download: there is no option "endpiont"; did you mean endpoint\?/],
    ['list', () => list({ foldr: 'x' } as never), /did you mean folder\?/],
    ['remove', () => remove('hf:a/b', { endpoints: 'x' } as never), /did you mean endpoint\?/],
  ])('%s', async (_, call, says) => {
    const { code, message } = await failure(async () => call());
    expect([code, message]).toEqual(['ERR_INVALID_ARGUMENT', expect.stringMatching(says)]);
  });

  it('chat, embed, rank, saveState and loadState', async () => {
    const calls: (() => Promise<unknown>)[] = [
      () => model.chat([], null as never).result(),
      () => model.embed(['x'], { normalise: true } as never),
      () => model.embed(['x'], null as never),
      () => model.rank('x', ['y'], { signal: 5 } as never),
      () => model.saveState({ promt: 'x' } as never),
      () => model.loadState(new Uint8Array(8), null as never),
    ];
    for (const call of calls) expect((await failure(call)).code, String(call)).toBe('ERR_INVALID_ARGUMENT');
  });

  const ids = (n: number): number[] => Array.from({ length: n }, (_, i) => 3 + i);
  const greedy = { temperature: 0, ignoreEos: true } as const;

  it('shift: the text continues, and every token is what the shortened sequence gives', async () => {
    const prompt = ids(50);
    const { ids: text, finishReason } = await model
      .generate(prompt, { ...greedy, maxTokens: 100, onContextFull: 'shift', keep: 8 })
      .result();
    expect([text.length, finishReason]).toEqual([100, 'length']);
    // The same by hand: at 65 tokens, the older half of the tokens after the first 8 is dropped.
    const sequence = [...prompt];
    const expected: number[] = [];
    while (expected.length < 100) {
      if (sequence.length > 64) sequence.splice(8, 65 - 8 - ((65 - 8) >> 1));
      const [id] = (await model.generate(sequence, { ...greedy, maxTokens: 1 }).result()).ids;
      expected.push(id);
      sequence.push(id);
    }
    expect(text).toEqual(expected);
    for (const type of ['ngram-simple', 'ngram-mod'] as const) {
      const drafting = await loadModel(llamaModel, {
        build: 'simd',
        warmUp: false,
        contextLength: 64,
        speculation: { type, ngramSimple: { sizeN: 2 }, ngramMod: { nMatch: 2, nMin: 1 } },
      });
      const same = await drafting.generate(prompt, { ...greedy, maxTokens: 100, onContextFull: 'shift', keep: 8 }).result();
      await drafting.dispose();
      expect(same.ids, type).toEqual(text);
    }
  });

  it('shift and truncate-middle: a prompt that is too long is cut, and the text after it is right', async () => {
    const prompt = ids(200);
    for (const [options, kept] of [
      [{ onContextFull: 'shift' }, prompt.slice(-48)],
      [{ onContextFull: 'shift', keep: 5 }, [...prompt.slice(0, 5), ...prompt.slice(-43)]],
      [{ onContextFull: 'truncate-middle' }, [...prompt.slice(0, 24), ...prompt.slice(-24)]],
    ] as const) {
      const { promptIds, ids: text } = await model.generate(prompt, { ...greedy, ...options, maxTokens: 16 }).result();
      expect(promptIds, JSON.stringify(options)).toEqual(kept);
      expect(text).toEqual((await model.generate(kept, { ...greedy, maxTokens: 16 }).result()).ids);
    }
    const full = await model.generate(prompt, { ...greedy, onContextFull: 'truncate-middle', maxTokens: 1000 }).result();
    expect([full.ids.length, full.finishReason]).toEqual([17, 'length']);
  });

  it('leaving a shifted text leaves a valid slot', async () => {
    const prompt = ids(50);
    for await (const part of model.generate(prompt, { ...greedy, maxTokens: 100, onContextFull: 'shift' })) if (part.id < 0) break;
    let n = 0;
    for await (const _ of model.generate(prompt, { ...greedy, maxTokens: 100, onContextFull: 'shift' })) if (++n === 40) break;
    const again = await model.generate(prompt, { ...greedy, maxTokens: 8 }).result();
    const other = await loadModel(llamaModel, { build: 'simd', warmUp: false, contextLength: 64 });
    expect(again.ids).toEqual((await other.generate(prompt, { ...greedy, maxTokens: 8 }).result()).ids);
    await other.dispose();
  });
});
