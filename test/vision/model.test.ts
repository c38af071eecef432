/** Models that see images: native llama.cpp's answers, invariance, and what is refused. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { loadModel, type ChatMessage, type ChatPart, type GenerateOptions, type LoadOptions, type Model } from 'quantlet';
import { at } from '../support.ts';
import { RUNS } from '../builds.ts';
import { bytesOf, golden } from './golden.ts';

interface Case {
  readonly name: string;
  readonly prompt: string;
  readonly pictures: readonly string[];
  readonly messages?: readonly {
    readonly role: string;
    readonly content: readonly { type: string; text?: string; image_url?: string }[];
  }[];
  readonly prompt_ids: readonly number[];
  readonly greedy: { readonly ids: readonly number[]; readonly margins: readonly number[]; readonly noise: number };
  readonly embeddings: {
    readonly width: number;
    readonly rows: readonly number[];
    readonly largest: number;
    readonly values: readonly number[];
  };
}

const cases = golden<readonly Case[]>('idefics3.json');
const [first] = cases;
const model = at('test/golden/vision/idefics3.gguf');
const mmproj = at('test/golden/vision/mmproj-idefics3.gguf');
const load = (options: LoadOptions = {}): Promise<Model> => loadModel(model, { mmproj, contextLength: 1024, warmUp: false, ...options });
const image = (name: string) => ({ type: 'image' as const, image: bytesOf(name) });
const greedy = { temperature: 0, ignoreEos: true };

/** Texts and images in place of the markers. */
const partsOf = ({ prompt, pictures }: Case) =>
  prompt.split('<__media__>').flatMap((text, i) => (i === 0 ? [text] : [image(pictures[i - 1]), text]));

/** Ids until native's own noise could choose another one. */
const certain = ({ greedy: { ids, margins, noise } }: Case): number => {
  const n = margins.findIndex((margin) => margin <= 2 * noise);
  return n < 0 ? ids.length : n;
};

/** Tolerance of embeddings with F16 weights, relative to the largest: native's own spread is 2.3e-3. */
const TOLERANCE = 3e-3;

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it('greedy ids of native llama.cpp', async () => {
    await using seeing = await load({ build, threads });
    expect(seeing.modalities).toEqual({ vision: true, audio: false });
    for (const one of cases) {
      const { promptIds, ids } = await seeing.generate(partsOf(one), { ...greedy, maxTokens: one.greedy.ids.length }).result();
      expect(promptIds, one.name).toEqual(one.prompt_ids);
      expect(certain(one)).toBeGreaterThan(4);
      expect(ids.slice(0, certain(one)), one.name).toEqual(one.greedy.ids.slice(0, certain(one)));
    }
  });

  it('embeddings of native llama.cpp', async () => {
    await using seeing = await load({ build, threads });
    const { images, vision } = seeing.internals;
    const { ids, runs } = await vision!.read(bytesOf(first.pictures[0]));
    await images!.encode(ids, undefined);
    const { width, rows, largest, values } = first.embeddings;
    const worst = Math.max(
      ...rows.flatMap((row, i) =>
        Array.from({ length: width }, (_, d) => Math.abs(runs[0].rows![row * width + d] - values[i * width + d])),
      ),
    );
    expect(worst / largest).toBeLessThan(TOLERANCE);
  });
});

describe('the same bits', () => {
  const rowsOf = async (threads: number, more: LoadOptions = {}): Promise<Float32Array[]> => {
    await using seeing = await load({ threads, ...more });
    const { ids, runs } = await seeing.internals.vision!.read(bytesOf('photo.jpg'));
    await seeing.internals.images!.encode(ids, undefined);
    return runs.map(({ rows }) => rows!);
  };
  it('for any number of threads', async () => {
    const one = await rowsOf(1);
    for (const threads of [2, 3]) expect(await rowsOf(threads)).toEqual(one);
  });

  it('for any batch, and next to other sequences', async () => {
    const ask = { ...greedy, maxTokens: 6, logprobs: 3 };
    const answer = async (options: LoadOptions, together: boolean) => {
      await using seeing = await load({ parallel: 3, ...options });
      const others = together ? [seeing.generate('Once upon a time', ask), seeing.generate(partsOf(cases[1]), ask)] : [];
      const [{ ids, logprobs }] = await Promise.all([
        seeing.generate(partsOf(first), ask).result(),
        ...others.map((other) => other.result()),
      ]);
      return { ids, logprobs };
    };
    const alone = await answer({}, false);
    expect(await answer({ batchSize: 7 }, false)).toEqual(alone);
    expect(await answer({}, true)).toEqual(alone);
  });
});

describe('one model', () => {
  let seeing: Model;
  let plain: Model;
  beforeAll(async () => {
    [seeing, plain] = [await load({ parallel: 2 }), await load({ mmproj: false })];
  });
  afterAll(async () => {
    await seeing.dispose();
    await plain.dispose();
  });

  it('text alone has the ids of a model without a projector', async () => {
    const ask = { ...greedy, maxTokens: 8 };
    const [a, b] = [await seeing.generate('What is this?', ask).result(), await plain.generate('What is this?', ask).result()];
    expect([a.promptIds, a.ids]).toEqual([b.promptIds, b.ids]);
    expect(plain.modalities).toEqual({ vision: false, audio: false });
  });

  it('text after images in other sequences has the ids of text alone', async () => {
    const ask = { ...greedy, maxTokens: 8 };
    const before = await seeing.generate('Tell me a story', ask).result();
    for (const one of [cases[2], first]) {
      await seeing.generate(partsOf(one), { ...greedy, maxTokens: 1 }).result();
      expect((await seeing.generate('Tell me a story', ask).result()).ids).toEqual(before.ids);
    }
  });

  it('a second turn computes only its own tokens, and encodes no image again', async () => {
    const messages = [{ role: 'user', content: [image('shapes.png'), { type: 'text', text: 'What is this?' }] }];
    const ask = { ...greedy, maxTokens: 4 };
    const answer = await seeing.chat(messages, ask).result();
    const { vision } = seeing.internals;
    const { runs } = await vision!.read(bytesOf('shapes.png'));
    expect(runs.every(({ rows }) => rows !== undefined)).toBe(true);
    const next = [...messages, ...answer.messages, { role: 'user', content: 'And now?' }];
    const second = await seeing.chat(next, ask).result();
    expect(second.timings.promptTokens).toBeLessThan(second.promptIds.length - answer.promptIds.length + 16);
    expect(second.promptIds.filter((id) => id === -1)).toHaveLength(answer.promptIds.filter((id) => id === -1).length);
  });

  it('tells the progress of images that are not encoded yet: a later turn encodes its own alone', async () => {
    await using fresh = await load();
    type Told = Parameters<NonNullable<GenerateOptions['onProgress']>>[0];
    let told: Told[] = [];
    const ask = { ...greedy, maxTokens: 2, onProgress: (progress: Told) => void (progress.phase === 'image' && told.push(progress)) };
    const { runs } = await fresh.internals.vision!.read(bytesOf('shapes.png'));
    const encoded = vi.fn();
    for (const run of runs) {
      const encode = run.encode.bind(run);
      run.encode = (...args) => (encoded(run), encode(...args));
    }
    const messages: ChatMessage[] = [{ role: 'user', content: [image('shapes.png'), { type: 'text', text: 'What is this?' }] }];
    const answer = await fresh.chat(messages, ask).result();
    expect(encoded).toHaveBeenCalledTimes(runs.length);
    expect(told.length).toBeGreaterThan(8 * runs.length);
    expect(told.every(({ done, total }, i) => total === runs.length && done > (told[i - 1]?.done ?? 0))).toBe(true);
    expect(told.at(-1)!.done).toBe(runs.length);

    told = [];
    messages.push(...answer.messages, { role: 'user', content: 'And now?' });
    const second = await fresh.chat(messages, ask).result();
    expect([told, encoded.mock.calls.length]).toEqual([[], runs.length]);
    messages.push(...second.messages, { role: 'user', content: [image('decode/rgb16.png')] });
    await fresh.chat(messages, ask).result();
    const other = await fresh.internals.vision!.read(bytesOf('decode/rgb16.png'));
    expect([told.at(-1), encoded.mock.calls.length]).toEqual([
      { phase: 'image', done: other.runs.length, total: other.runs.length },
      runs.length,
    ]);
    // Another conversation with the same picture.
    told = [];
    await fresh.generate([image('shapes.png'), 'What?'], ask).result();
    expect(told).toEqual([]);
  });

  it('tells the progress of the prompt, step by step, with images as tokens', async () => {
    await using fresh = await load({ batchSize: 64 });
    const told: { readonly phase: string; readonly done: number; readonly total: number; readonly cached?: number }[] = [];
    const ask = { ...greedy, maxTokens: 2, onProgress: (progress: (typeof told)[number]) => void told.push(progress) };
    const { promptIds } = await fresh.generate([image('shapes.png'), 'What is this?'], ask).result();
    const total = promptIds.length;
    const prompts = told.filter(({ phase }) => phase === 'prompt');
    const steps = Array.from({ length: Math.ceil(total / 64) + 1 }, (_, i) => Math.min(64 * i, total));
    expect(prompts).toEqual(steps.map((done) => ({ phase: 'prompt', done, total, cached: 0 })));
    expect(told.map(({ phase }) => phase).lastIndexOf('image')).toBe(told.indexOf(prompts[1]) - 1);

    told.length = 0;
    const longer = await fresh.generate([image('shapes.png'), 'What is this? And that?'], ask).result();
    const [{ cached }, ...rest] = told as readonly { readonly cached: number; readonly done: number }[];
    expect(cached).toBeGreaterThan(total - 4);
    expect(rest.map(({ done }) => done)).toEqual([longer.promptIds.length]);
  });

  it('a conversation that is too long loses its oldest messages, each with its whole picture', async () => {
    await using fresh = await load({ contextLength: 160 });
    const turns = ['photo.jpg', 'wide.jpg', 'photo.jpg', 'shapes.png'].flatMap((name, i): ChatMessage[] => [
      { role: 'user', content: [image(name), { type: 'text', text: `What is this? ${i}` }] },
      { role: 'assistant', content: 'a' },
    ]);
    const messages: ChatMessage[] = [...turns, { role: 'user', content: 'And now?' }];
    const chat = fresh.chat(messages, { ...greedy, maxTokens: 4, onContextFull: 'shift' });
    const { leftOut, promptIds } = await chat.result();
    const [kept, dropped] = [
      await fresh.internals.vision!.read(bytesOf('shapes.png')),
      await fresh.internals.vision!.read(bytesOf('photo.jpg')),
    ];
    expect(leftOut).toBe(6);
    expect(promptIds.filter((id) => id === -1)).toHaveLength(kept.ids.filter((id) => id < 0).length);
    expect([kept, dropped].map(({ runs }) => runs.every(({ rows }) => rows !== undefined))).toEqual([true, false]);
    await expect(fresh.chat(messages, { ...greedy, maxTokens: 4 }).result()).rejects.toMatchObject({ code: 'ERR_CONTEXT_FULL' });
    // Within one prompt, pictures have no messages to be dropped with.
    const one = fresh.generate([image('shapes.png'), 'What?'], { ...greedy, onContextFull: 'shift' });
    await expect(one.result()).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringContaining('onContextFull') as string,
    });
  });

  it.each([1, 2])('an abort ends an encoding between its layers, with %i threads', async (threads) => {
    await using fresh = await load({ threads });
    const stop = new AbortController();
    const told: number[] = [];
    const onProgress: GenerateOptions['onProgress'] = ({ phase, done }) => {
      if (phase !== 'image') return;
      told.push(done);
      if (told.length === 3) stop.abort(new Error('enough'));
    };
    const parts = [image('wide.jpg'), 'What?'];
    await expect(fresh.generate(parts, { maxTokens: 1, signal: stop.signal, onProgress }).result()).rejects.toThrow('enough');
    expect([told.length, told[2] < 0.5]).toEqual([3, true]);
    const [again, whole] = [
      await fresh.generate(parts, { ...greedy, maxTokens: 4 }).result(),
      await seeing.generate(parts, { ...greedy, maxTokens: 4 }).result(),
    ];
    expect(again.ids).toEqual(whole.ids);
  });

  it('chat with images has the prompt of native llama.cpp', async () => {
    const one = cases.find(({ name }) => name === 'chat')!;
    const messages = one.messages!.map(({ role, content }) => ({
      role,
      content: content.map((part): ChatPart => (part.image_url ? image(part.image_url) : { type: 'text', text: part.text })),
    }));
    const { promptIds, ids } = await seeing.chat(messages, { ...greedy, maxTokens: one.greedy.ids.length }).result();
    expect(promptIds).toEqual(one.prompt_ids);
    expect(ids.slice(0, certain(one))).toEqual(one.greedy.ids.slice(0, certain(one)));
  });

  it('an image is bytes, an ArrayBuffer, a Blob, a data: URL or pixels', async () => {
    const bytes = bytesOf('decode/rgb16.png');
    const { decodeImage } = await import('../../src/vision/decode.ts');
    const { rgb, width, height } = await decodeImage(bytes);
    const url = `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`;
    const ask = { ...greedy, maxTokens: 4 };
    const answers = [];
    for (const given of [
      bytes,
      bytes.slice().buffer,
      new Blob([bytes.slice()]),
      url,
      new URL(url),
      { data: rgb, width, height, channels: 3 },
    ])
      answers.push((await seeing.generate([{ type: 'image', image: given }, 'What?'], ask).result()).ids);
    expect(new Set(answers.map((ids) => ids.join())).size).toBe(1);
  });

  it('text of users is never a marker', async () => {
    const text = '<__media__> <__image_0__> <fake_token_around_image>';
    const { promptIds } = await seeing.chat([{ role: 'user', content: [{ type: 'text', text }] }], { ...greedy, maxTokens: 1 }).result();
    expect(promptIds).not.toContain(-1);
  });

  it('ids of images are accepted only from prompts with images', async () => {
    await seeing.generate(partsOf(first), { ...greedy, maxTokens: 1 }).result();
    await expect(seeing.generate([1, -2, 5], { maxTokens: 1 }).result()).rejects.toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }),
    );
  });

  it.each([
    ['no picture', new TextEncoder().encode('This is no picture.'), 'ERR_IMAGE_INVALID'],
    ['an empty file', new Uint8Array(0), 'ERR_IMAGE_TRUNCATED'],
    ['an http URL', 'http://localhost/picture.png', 'ERR_INVALID_ARGUMENT'],
    ['another data: URL', 'data:text/plain;base64,aGVsbG8=', 'ERR_IMAGE_INVALID'],
    ['bad base64', 'data:image/png;base64,@@@', 'ERR_IMAGE_INVALID'],
    ['pixels of another length', { data: new Uint8Array(5), width: 1, height: 1, channels: 3 }, 'ERR_INVALID_ARGUMENT'],
    ['null', null as never, 'ERR_INVALID_ARGUMENT'],
  ])('%s is refused', async (_, given, code) => {
    await expect(seeing.generate([{ type: 'image', image: given }], { maxTokens: 1 }).result()).rejects.toThrow(
      expect.objectContaining({ code }),
    );
  });

  it('a context that is too short is refused before the image is encoded', async () => {
    await using short = await load({ contextLength: 16 });
    const read = short.generate(partsOf(first), { maxTokens: 1 }).result();
    await expect(read).rejects.toThrow(expect.objectContaining({ code: 'ERR_CONTEXT_FULL' }));
  });

  it('a model without a projector names the option', async () => {
    await expect(plain.generate(partsOf(first)).result()).rejects.toThrow('mmproj');
    await expect(plain.chat([{ role: 'user', content: [image('shapes.png')] }]).result()).rejects.toThrow('mmproj');
  });

  it('a state with images and a shifted context are refused', async () => {
    await seeing.generate(partsOf(first), { ...greedy, maxTokens: 1 }).result();
    await expect(seeing.saveState()).rejects.toThrow(expect.objectContaining({ code: 'ERR_STATE' }));
    await expect(seeing.generate(partsOf(first), { onContextFull: 'shift' }).result()).rejects.toThrow('onContextFull');
  });

  it('an abort ends an encoding, and the next one is right', async () => {
    const stop = new AbortController();
    const parts = [image('wide.jpg'), 'What?'];
    const images = seeing.internals.images!;
    const encode = images.encode.bind(images);
    images.encode = (ids, signal) => {
      queueMicrotask(() => stop.abort(new Error('enough')));
      return encode(ids, signal);
    };
    const aborted = seeing.generate(parts, { maxTokens: 1, signal: stop.signal }).result();
    await expect(aborted).rejects.toThrow('enough');
    images.encode = encode;
    expect((await seeing.generate(parts, { ...greedy, maxTokens: 2 }).result()).ids).toHaveLength(2);
  });
});

describe('projectors that do not fit', () => {
  it.each([
    ['a language model as a projector', { mmproj: model }, 'ERR_UNSUPPORTED_ARCH'],
    ['speculation', { speculation: { type: 'ngram-simple' as const } }, 'ERR_INVALID_ARGUMENT'],
    ['embeddings', { embeddings: true }, 'ERR_INVALID_ARGUMENT'],
    ['a projector that is no file', { mmproj: at('test/golden/vision/none.gguf') }, 'ERR_SOURCE'],
  ])('%s', async (_, options, code) => {
    await expect(load(options)).rejects.toThrow(expect.objectContaining({ code }));
  });

  it('a projector as a model', async () => {
    await expect(loadModel(mmproj)).rejects.toThrow(/clip|mmproj|projector/);
  });

  it('a projector of another width', async () => {
    await expect(loadModel(at('test/golden/arch/llama.gguf'), { mmproj })).rejects.toThrow('mmproj makes embeddings of 64 numbers');
  });

  it('a truncated projector', async () => {
    const bytes = readFileSync(mmproj).subarray(0, 100_000);
    await expect(load({ mmproj: new Uint8Array(bytes) })).rejects.toThrow(expect.objectContaining({ code: 'ERR_GGUF_TRUNCATED' }));
  });
});
