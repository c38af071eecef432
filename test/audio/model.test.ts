/** Models that hear: mels and encoders against a reference, native llama.cpp's answers, invariance, and what is refused. */
import { existsSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { logMels, normalize } from '../../src/audio/mel.ts';
import { qwen3a } from '../../src/audio/types/qwen3a.ts';
import { voxtral } from '../../src/audio/types/whisper.ts';
import { atOnce } from '../../src/slices.ts';
import type { AudioParams } from '../../src/audio/params.ts';
import { RUNS } from '../builds.ts';
import { gaussian } from '../kernel/harness.ts';
import { at, hasShared, shared } from '../support.ts';
import { bytesOf } from '../vision/golden.ts';
import { audioFile, D, MELS } from './projector-file.ts';
import { slowEncoder, slowMels } from './reference.ts';
import { wavFile } from './wav-file.ts';

const TYPES = ['ultravox', 'voxtral', 'qwen2a', 'qwen3a'];
/** Of embeddings, relative to the largest: native's own spread is 4e-3. */
const TOLERANCE = 3e-3;

const llm = at('test/golden/vision/idefics3.gguf');
/** A tone under noise, n samples. */
const sound = (n: number, seed = 1): Float32Array => gaussian(n, seed, 0.1).map((x, i) => x + 0.3 * Math.sin(i / (7 + (seed % 3))));
const wav = (n: number, seed?: number): Uint8Array => wavFile([...sound(n, seed)]);

const load = (type: string, options: LoadOptions = {}): Promise<Model> =>
  loadModel(llm, { mmproj: audioFile(type), contextLength: 2048, warmUp: false, ...options });

/** Embeddings of a sound, a row for each token, chunk by chunk. */
async function heard(model: Model, bytes: Uint8Array): Promise<Float32Array[]> {
  const { vision, images } = model.internals;
  const { ids, runs } = await vision!.read(bytes);
  await images!.encode(ids, undefined);
  return runs.map(({ rows }) => rows!);
}

const params = { nMels: MELS } as AudioParams;
const rowsOf = ({ frames, mels }: { readonly frames: number; readonly mels: Float32Array }): Float64Array[] =>
  Array.from({ length: frames }, (_, t) => Float64Array.from({ length: MELS }, (_, m) => mels[m * frames + t]));

describe('mels', () => {
  it('are those of plain sums', () => {
    const x = sound(4000);
    const { frames, values } = atOnce(logMels(x, 80));
    const want = slowMels(x, 80);
    expect(frames).toBe(want.length);
    want.flatMap((row) => [...row]).forEach((mel, i) => expect(Math.abs(values[i] - mel)).toBeLessThan(1e-4));
  });

  it('at most 8 below the loudest of the whole sound', () => {
    const mels = { frames: 1, nMels: 3, values: Float32Array.of(2, -5, -7) };
    normalize(mels);
    expect(mels.values).toEqual(Float32Array.of(1.5, -0.25, -0.5));
  });

  it('half minutes, whatever fills none dropped, and windows of eight seconds', () => {
    const counts = (type: typeof voxtral, n: number) =>
      atOnce(type.chunks(new Float32Array(n).fill(0.1), params)).map(({ frames }) => frames);
    expect(counts(voxtral, 1)).toEqual([3000]);
    expect(counts(voxtral, 479_680)).toEqual([3000]);
    expect(counts(voxtral, 479_840)).toEqual([3000, 3000]);
    expect(counts(qwen3a, 1)).toEqual([100]);
    expect(counts(qwen3a, 16_000)).toEqual([200]);
    expect(counts(qwen3a, 8 * 16_000)).toEqual([800, 100]);
  });
});

/** 0.3 s for all types, and the reference's embeddings of it. */
const bytes = wav(5000);
const wanted = new Map<string, readonly Float64Array[]>();
beforeAll(() => {
  const mels = (type: typeof voxtral) => rowsOf(atOnce(type.chunks(sound(5000), params))[0]);
  const states = slowEncoder('ultravox').states(mels(voxtral));
  for (const type of ['ultravox', 'voxtral', 'qwen2a']) wanted.set(type, slowEncoder(type).embeddings(states));
  const asr = slowEncoder('qwen3a');
  wanted.set('qwen3a', asr.embeddings(asr.states(mels(qwen3a))));
}, 60_000);

describe.each(RUNS)('%s, %i threads', (build, threads) => {
  it.each(TYPES)('embeddings of the reference: %s', async (type) => {
    await using hearing = await load(type, { build, threads });
    expect(hearing.modalities).toEqual({ vision: false, audio: true });
    const want = wanted.get(type)!;
    const [found] = await heard(hearing, bytes);
    const largest = Math.max(...want.map((row) => Math.max(...row.map(Math.abs))));
    expect(found).toHaveLength(D * want.length);
    const worst = Math.max(...want.map((row, i) => Math.max(...row.map((x, j) => Math.abs(found[i * D + j] - x)))));
    expect(worst / largest).toBeLessThan(TOLERANCE);
  });
});

describe('the same bits', () => {
  it.each(['voxtral', 'qwen3a'])('for any number of threads, and after another sound: %s', async (type) => {
    const alone = await (async () => {
      await using hearing = await load(type, { threads: 1 });
      return await heard(hearing, bytes);
    })();
    await using hearing = await load(type, { threads: 3 });
    await heard(hearing, wav(9000, 2));
    expect(await heard(hearing, bytes)).toEqual(alone);
  });

  it('for any batch, and next to other sequences', async () => {
    const prompt = ['Listen: ', { type: 'audio' as const, audio: bytes }, ' What is it?'];
    const options = { temperature: 0, ignoreEos: true, maxTokens: 8 };
    const answers: (readonly number[])[] = [];
    for (const more of [{ batchSize: 512 }, { batchSize: 64 }, { batchSize: 512, parallel: 2 }]) {
      await using hearing = await load('qwen2a', more);
      const others = more.parallel ? hearing.generate([{ type: 'audio', audio: wav(7000, 3) }, 'And this?'], options).result() : undefined;
      answers.push((await hearing.generate(prompt, options).result()).ids);
      await others;
    }
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
  });
});

describe('prompts', () => {
  it('parts, messages of both forms, and one encoding for all', async () => {
    await using hearing = await load('ultravox');
    const options = { temperature: 0, ignoreEos: true, maxTokens: 6 };
    let encoded = 0;
    const count = { ...options, onProgress: ({ phase }: { readonly phase: string }) => void (encoded += Number(phase === 'image')) };
    const { promptIds, ids } = await hearing.generate([{ type: 'audio', audio: bytes }, 'What?'], count).result();
    expect(promptIds.filter((id) => id === -1)).toHaveLength(187);
    expect(encoded).toBeGreaterThan(0);
    encoded = 0;
    const samples = { samples: sound(5000), sampleRate: 16000 };
    expect((await hearing.generate([{ type: 'audio', audio: samples }, 'What?'], options).result()).ids).toEqual(ids);
    expect((await hearing.generate([{ type: 'image', image: bytes }, 'What?'], count).result()).ids).toEqual(ids);
    expect(encoded).toBe(0);
    const base64 = Buffer.from(bytes).toString('base64');
    const texts = await Promise.all(
      [
        { type: 'audio', audio: bytes },
        { type: 'input_audio', input_audio: { data: base64, format: 'wav' } },
        { type: 'input_audio', input_audio: { data: `data:audio/wav;base64,${base64}` } },
      ].map(
        async (part) =>
          (await hearing.chat([{ role: 'user', content: [part, { type: 'text', text: 'What?' }] }], options).result()).content,
      ),
    );
    expect(new Set(texts).size).toBe(1);
  });

  it('an abort ends the mels of a long sound, and an encoding', async () => {
    await using hearing = await load('qwen3a');
    const long = { samples: new Float32Array(16000 * 600).fill(0.1), sampleRate: 16000 };
    const prompt = [{ type: 'audio' as const, audio: long }, 'x'];
    for (const ms of [1, 60]) {
      const abort = new AbortController();
      setTimeout(() => abort.abort(new Error('enough')), ms);
      await expect(hearing.generate(prompt, { signal: abort.signal }).result()).rejects.toThrow('enough');
    }
  });
});

describe('refused', () => {
  const isCoded = (code: string, message: RegExp) => expect.objectContaining({ code, message: expect.stringMatching(message) });
  it.each([
    [
      'a type that does not run',
      { 'clip.projector_type': { type: 'str', value: 'parakeet' } },
      'ERR_UNSUPPORTED_ARCH',
      /"parakeet"; expected one of/,
    ],
    ['another width', { 'clip.audio.embedding_length': { type: 'u32', value: 80 } }, 'ERR_TENSOR_SHAPE', /./],
    [
      'heads that do not divide the width',
      { 'clip.audio.attention.head_count': { type: 'u32', value: 7 } },
      'ERR_UNSUPPORTED_ARCH',
      /7 heads/,
    ],
    ['no encoder', { 'clip.has_audio_encoder': { type: 'bool', value: false } }, 'ERR_UNSUPPORTED_ARCH', /no encoder/],
  ] as const)('%s', async (_, more, code, message) => {
    await expect(loadModel(llm, { mmproj: audioFile('voxtral', more) })).rejects.toThrow(isCoded(code, message));
  });

  it('a picture for ears, a sound for eyes, and either for neither', async () => {
    const picture = { type: 'image' as const, image: bytesOf('photo.jpg') };
    const tone = { type: 'audio' as const, audio: bytes };
    await using hearing = await load('ultravox');
    await expect(hearing.generate([picture]).result()).rejects.toThrow(
      isCoded('ERR_INVALID_ARGUMENT', /projector of the model is for sounds/),
    );
    await using seeing = await loadModel(llm, { mmproj: at('test/golden/vision/mmproj-idefics3.gguf'), warmUp: false });
    await expect(seeing.generate([tone]).result()).rejects.toThrow(isCoded('ERR_INVALID_ARGUMENT', /projector of the model is for images/));
    await using plain = await loadModel(llm, { warmUp: false });
    await expect(plain.generate([tone]).result()).rejects.toThrow(isCoded('ERR_INVALID_ARGUMENT', /without a projector/));
    await expect(plain.chat([{ role: 'user', content: [tone] }]).result()).rejects.toThrow(
      isCoded('ERR_INVALID_ARGUMENT', /without a projector/),
    );
  });
});

if (hasShared && existsSync(shared('golden/audio')))
  describe('native llama.cpp', () => {
    interface Golden {
      readonly name: string;
      readonly prompt: string;
      readonly pictures: readonly string[];
      readonly prompt_ids: readonly number[];
      readonly greedy: { readonly ids: readonly number[]; readonly margins: readonly number[]; readonly noise: number };
    }
    it.each(['ultravox', 'voxtral', 'qwen2-audio', 'qwen3-asr'])('%s: ids of prompts and answers', async (name) => {
      const { make } = (await import(at('../shared/tools/make-mmproj.mjs'))) as { make(of: string): Record<'lm' | 'mmproj', Uint8Array> };
      const { cases } = JSON.parse(readFileSync(shared(`golden/audio/${name}.json`), 'utf8')) as { readonly cases: readonly Golden[] };
      const { lm, mmproj } = make(name);
      await using hearing = await loadModel(new Uint8Array(lm), { mmproj: new Uint8Array(mmproj), contextLength: 4096, warmUp: false });
      for (const { name: which, prompt, pictures, prompt_ids: want, greedy } of cases) {
        const audio = pictures.map((path) => ({
          type: 'audio' as const,
          audio: new Uint8Array(readFileSync(shared(`golden/audio/sounds/${path}`))),
        }));
        const parts = prompt.split('<__media__>').flatMap((text, i) => (i === 0 ? [text] : [audio[i - 1], text]));
        const { promptIds, ids } = await hearing.generate(parts, { temperature: 0, ignoreEos: true, maxTokens: 24 }).result();
        expect(promptIds, which).toEqual(want);
        const unsure = greedy.margins.findIndex((margin) => margin <= 2 * greedy.noise);
        const certain = unsure < 0 ? greedy.ids.length : unsure;
        expect(ids.slice(0, certain), which).toEqual(greedy.ids.slice(0, certain));
      }
    });
  });
