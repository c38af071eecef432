/**
 * Sequences as bytes: saved, loaded by another process, slot or context, and continued with the
 * same ids; and bytes that are not a state of this model.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type KvType, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import {
  failure,
  llamaModel,
  patchedLlama,
  randomIds,
  RUNS,
  runCli,
  runScript,
  shippedModel,
  temporaryFolder,
  writeTo,
} from '../support.ts';

const folder = temporaryFolder();
const greedy = { temperature: 0, ignoreEos: true } as const;
/** Not a multiple of the 16 cells that keys are grouped by. */
const prompt = randomIds(43, 272, 5);

async function withModel<T>(options: LoadOptions, use: (model: Model) => Promise<T>, source: string | Uint8Array = llamaModel): Promise<T> {
  const model = await loadModel(source, { threads: 2, warmUp: false, contextLength: 256, ...options });
  try {
    return await use(model);
  } finally {
    await model.dispose();
  }
}

const idsOf = async (model: Model, ids: readonly number[], maxTokens: number): Promise<readonly number[]> =>
  (await model.generate(ids, { ...greedy, maxTokens }).result()).ids;

/** Ids generated without interruption. */
const unbroken = (options: LoadOptions, n = 60): Promise<readonly number[]> => withModel(options, (model) => idsOf(model, prompt, n));
const saved = (options: LoadOptions, n = 25): Promise<{ state: Uint8Array; ids: readonly number[] }> =>
  withModel(options, async (model) => {
    const ids = await idsOf(model, prompt, n);
    return { state: await model.saveState(), ids };
  });

describe('continues as if uninterrupted', () => {
  it.each(RUNS.filter(([, threads]) => threads < 3))('%s, %i threads', async (build, threads) => {
    const want = await unbroken({ build, threads });
    const { state, ids } = await saved({ build, threads });
    await withModel({ build, threads }, async (model) => {
      const tokens = await model.loadState(state);
      expect(tokens, 'the last generated token was not computed').toEqual([...prompt, ...ids.slice(0, -1)]);
      const { ids: rest, timings } = await model.generate([...prompt, ...ids], { ...greedy, maxTokens: 35 }).result();
      expect([...ids, ...rest]).toEqual(want);
      expect(timings.promptTokens).toBe(1);
    });
  });

  it.each<[KvType, KvType]>([
    ['f32', 'f32'],
    ['q8_0', 'q8_0'],
    ['q4_0', 'f16'],
    ['f16', 'q4_0'],
    ['q5_1', 'bf16'],
    ['f16', 'iq4_nl'],
  ])('%s keys, %s values; from the third slot to a smaller context', async (cacheTypeK, cacheTypeV) => {
    const types = { cacheTypeK, cacheTypeV };
    const want = await unbroken(types);
    const { state, ids } = await withModel({ ...types, parallel: 3, contextLength: 700 }, async (model) => {
      const others = [7, 8].map((seed) => model.generate(randomIds(50, 272, seed), { ...greedy, maxTokens: 40 }));
      const parts = others.map((o) => o[Symbol.asyncIterator]());
      await Promise.all(parts.map((p) => p.next())); // both hold their slots
      const said = await idsOf(model, prompt, 25);
      const bytes = await model.saveState();
      for (const p of parts) while (!(await p.next()).done);
      return { state: bytes, ids: said };
    });
    await withModel({ ...types, contextLength: 128, parallel: 2 }, async (model) => {
      await model.loadState(state);
      expect([...ids, ...(await idsOf(model, [...prompt, ...ids], 35))]).toEqual(want);
    });
  });

  it.each<KvType>(['f16', 'q8_0'])('more than one part of the cache, %s values', async (cacheTypeV) => {
    const long = randomIds(300, 272, 6);
    const options = { cacheTypeV, contextLength: 600 };
    const { state, want } = await withModel(options, async (model) => {
      await idsOf(model, long, 1);
      return { state: await model.saveState(), want: await idsOf(model, long, 20) };
    });
    expect(
      await withModel({ ...options, parallel: 2 }, async (model) => {
        await model.loadState(state);
        return idsOf(model, long, 20);
      }),
    ).toEqual(want);
  });

  it('in a process of its own', async () => {
    const { state, ids } = await saved({});
    const path = writeTo(folder, 'sequence.state', state);
    const { stdout, stderr } = await runScript(`
      import { readFileSync } from 'node:fs';
      const model = await loadModel(llama, { threads: 2, warmUp: false, contextLength: 256 });
      await model.loadState(readFileSync(${JSON.stringify(path)}));
      const { ids, timings } = await model.generate(${JSON.stringify([...prompt, ...ids])}, { temperature: 0, ignoreEos: true, maxTokens: 35 }).result();
      console.log(JSON.stringify({ ids, n: timings.promptTokens }));`);
    const got = JSON.parse(stdout || 'null') as { ids: number[]; n: number };
    expect(got?.n, stderr).toBe(1);
    expect([...ids, ...got.ids]).toEqual(await unbroken({}));
  });

  it('a conversation', async () => {
    const chatTemplate = '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>';
    const options = { ...greedy, maxTokens: 12 };
    const first = [{ role: 'user', content: 'once there was a cat' }] as const;
    const { state, second, want } = await withModel({ chatTemplate }, async (model) => {
      const { content } = await model.chat(first, options).result();
      const bytes = await model.saveState();
      const messages = [...first, { role: 'assistant', content }, { role: 'user', content: 'and then?' }] as const;
      return { state: bytes, second: messages, want: await model.chat(messages, options).result() };
    });
    await withModel({ chatTemplate }, async (model) => {
      await model.loadState(state);
      const got = await model.chat(second, options).result();
      expect([got.ids, got.timings.promptTokens]).toEqual([want.ids, want.timings.promptTokens]);
      expect(got.timings.promptTokens).toBeLessThan(got.promptIds.length);
    });
  });
});

describe('saved states', () => {
  it.each<[KvType, KvType]>([
    ['f16', 'f16'],
    ['f32', 'q4_0'],
    ['q8_0', 'q8_0'],
    ['q4_0', 'f32'],
    ['q4_1', 'q5_0'],
  ])('does not depend on earlier contents of the cache: %s keys, %s values', async (cacheTypeK, cacheTypeV) => {
    const types = { cacheTypeK, cacheTypeV };
    const { state } = await saved(types);
    await withModel(types, async (model) => {
      await idsOf(model, randomIds(200, 272, 9), 20);
      await idsOf(model, prompt, 25);
      expect(Buffer.compare(await model.saveState(), state)).toBe(0);
      expect((await model.loadState(state)).length % 2, 'an odd number of cells').toBe(1);
    });
  });

  it.each<KvType>(['f16', 'q8_0', 'q4_0', 'q5_0'])('goes to another build: %s', async (type) => {
    const types = { cacheTypeK: type, cacheTypeV: type, threads: 1 };
    const builds = ['simd', 'relaxed'] as const;
    for (const [from, to] of [builds, [builds[1], builds[0]]]) {
      const { state, ids } = await saved({ ...types, build: from });
      const want = await unbroken({ ...types, build: to });
      await withModel({ ...types, build: to }, async (model) => {
        await model.loadState(state);
        expect(Buffer.compare(await model.saveState(), state), `from ${from} to ${to}`).toBe(0);
        expect([...ids, ...(await idsOf(model, [...prompt, ...ids], 35))], `from ${from} to ${to}`).toEqual(want);
      });
    }
  });

  it('for a prompt: the part of it that is in the cache', async () => {
    await withModel({ parallel: 2 }, async (model) => {
      await idsOf(model, prompt, 25);
      await idsOf(model, randomIds(30, 272, 6), 5);
      const state = await model.saveState({ prompt: [...prompt.slice(0, 30), 1, 1] });
      await withModel({}, async (other) => expect(await other.loadState(state)).toEqual(prompt.slice(0, 30)));
      expect((await failure(model.saveState({ prompt: [(prompt[0] + 1) % 272] }))).code).toBe('ERR_STATE');
    });
  });

  it('waits for a running generation if there is no other sequence; an abort ends the wait', async () => {
    await withModel({}, async (model) => {
      const generation = model.generate(prompt, { ...greedy, maxTokens: 25 }).result();
      const stop = new AbortController();
      const aborted = failure(model.saveState({ signal: stop.signal }));
      const waiting = model.saveState();
      stop.abort(new Error('enough'));
      expect((await aborted).message).toBe('enough');
      expect(Buffer.compare(await waiting, (await saved({})).state)).toBe(0);
      expect((await generation).ids).toHaveLength(25);
    });
  });

  it('nothing, if nothing was computed or the model makes vectors', async () => {
    await withModel({}, async (model) =>
      expect(await failure(model.saveState())).toMatchObject({
        code: 'ERR_STATE',
        message: expect.stringMatching(/generate first/) as string,
      }),
    );
    await withModel({ embeddings: true }, async (model) => {
      expect((await failure(model.saveState())).code).toBe('ERR_INVALID_ARGUMENT');
      expect((await failure(model.loadState((await saved({})).state))).code).toBe('ERR_INVALID_ARGUMENT');
    });
  });
});

describe('not a state of this model', () => {
  it('each gives a coded error, and the model stays usable', async () => {
    const { state, ids } = await saved({});
    const want = await unbroken({});
    const headerLength = new DataView(state.buffer, state.byteOffset).getUint32(12, true);
    const body = 16 + headerLength;
    const header = JSON.parse(new TextDecoder().decode(state.subarray(16, body))) as Record<string, unknown>;
    const bent = (at: number, ...bytes: number[]): Uint8Array => {
      const copy = Uint8Array.from(state);
      copy.set(bytes, at);
      return copy;
    };
    const withHeader = (change: Record<string, unknown> | string): Uint8Array => {
      const text = new TextEncoder().encode(typeof change === 'string' ? change : JSON.stringify({ ...header, ...change }));
      const bytes = new Uint8Array(16 + text.length + state.length - body);
      bytes.set(state.subarray(0, 16));
      new DataView(bytes.buffer).setUint32(12, text.length, true);
      bytes.set(text, 16);
      bytes.set(state.subarray(body), 16 + text.length);
      return bytes;
    };
    const other = async (options: LoadOptions, source: string | Uint8Array): Promise<Uint8Array> =>
      withModel(
        options,
        async (model) => {
          await idsOf(model, [1, 2, 3], 8);
          return model.saveState();
        },
        source,
      );
    const weights = new Uint8Array(32 * 32 * 4).fill(60);

    const cases: readonly (readonly [name: string, bytes: Uint8Array, says: RegExp])[] = [
      ['empty', new Uint8Array(0), /not a saved state/],
      ['a GGUF', readFileSync(llamaModel), /not a saved state/],
      ['cut in the magic', state.subarray(0, 5), /not a saved state/],
      ['cut before the version', state.subarray(0, 10), /truncated/],
      ['cut in the header', state.subarray(0, 40), /truncated/],
      ['cut behind the header', state.subarray(0, body), /truncated/],
      ['cut in the tokens', state.subarray(0, body + 10), /truncated/],
      ['the last byte gone', state.subarray(0, -1), /truncated/],
      ['a byte too much', Uint8Array.from([...state, 0]), /too long/],
      ['version 1', bent(8, 1), /version 1.*version 6/],
      ['a header of 4 GiB', bent(12, 255, 255, 255, 255), /header.*damaged/],
      ['a header that is not JSON', withHeader('{"tokens": 5'), /header.*damaged/],
      ['a header that is null', withHeader('null'), /header.*damaged/],
      ['no tokens', withHeader({ tokens: 0 }), /header.*damaged/],
      ['half a token', withHeader({ tokens: 1.5 }), /header.*damaged/],
      ['more tokens than there are', withHeader({ tokens: 100 }), /truncated/],
      ['a damaged token', bent(body + 1, 77), /damaged/],
      ['a damaged key', bent(body + 500, state[body + 500] ^ 1), /damaged/],
      ['another architecture', withHeader({ architecture: 'qwen3' }), /architecture is "qwen3"; expected "llama"/],
      ['other layers', withHeader({ layers: 3 }), /layers is 3; expected 2/],
      ['the model that ships', await other({}, shippedModel), /another model/],
      [
        'other weights of the same shapes',
        await other(
          {},
          await patchedLlama({
            tensors: { 'blk.1.attn_q.weight': { type: { id: 0, name: 'f32', blckSize: 1, typeSize: 4 }, ne: [32, 32], data: weights } },
          }),
        ),
        /another model: its weights/,
      ],
      [
        'another cache type',
        await other({ cacheTypeV: 'q8_0' }, llamaModel),
        /cacheTypeV is "q8_0"; expected "f16"; load the model with cacheTypeV "q8_0"/,
      ],
    ];
    await withModel({}, async (model) => {
      for (const [name, bytes, says] of cases) {
        const got = await failure(model.loadState(bytes));
        expect([name, got.code, got.message], got.message).toEqual([name, 'ERR_STATE', expect.stringMatching(says)]);
      }
      for (const bytes of [undefined, null, 'state', state.buffer])
        expect((await failure(model.loadState(bytes as never))).code).toBe('ERR_INVALID_ARGUMENT');
      expect(await idsOf(model, prompt, 60)).toEqual(want);
      await model.loadState(state);
      expect([...ids, ...(await idsOf(model, [...prompt, ...ids], 35))]).toEqual(want);
    });
    await withModel({ contextLength: 40 }, async (model) => expect((await failure(model.loadState(state))).code).toBe('ERR_CONTEXT_FULL'));
    const model = await loadModel(llamaModel, { warmUp: false });
    await model.dispose();
    expect([(await failure(model.saveState())).code, (await failure(model.loadState(state))).code]).toEqual([
      'ERR_DISPOSED',
      'ERR_DISPOSED',
    ]);
  });
});

describe('--prompt-cache', () => {
  const cache = join(folder, 'prompt.cache');
  const text = 'once there was a cat that sat on a mat and had a hat';
  interface Report {
    ids: number[];
    prompt_ids: number[];
    timings: { prompt_n: number };
  }
  const run = async (...args: (string | number)[]): Promise<Report> => {
    const { code, stdout, stderr } = await runCli([
      'run',
      '-m',
      llamaModel,
      '--temp',
      0,
      '--no-warmup',
      '--ignore-eos',
      '--json',
      '-p',
      text,
      '-n',
      12,
      ...args,
    ]);
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout) as Report;
  };

  it('the second run computes one token of the prompt; -ro leaves the file, -all includes the answer', async () => {
    const plain = await run();
    await run('--prompt-cache', cache, '--prompt-cache-ro');
    expect(existsSync(cache)).toBe(false);
    const first = await run('--prompt-cache', cache);
    const { size } = statSync(cache);
    expect([first.ids, first.timings.prompt_n]).toEqual([plain.ids, plain.prompt_ids.length]);
    const second = await run('--prompt-cache', cache, '--prompt-cache-all', '--prompt-cache-ro');
    expect([second.ids, second.timings.prompt_n, statSync(cache).size]).toEqual([plain.ids, 1, size]);
    await run('--prompt-cache', cache, '--prompt-cache-all');
    expect(statSync(cache).size).toBeGreaterThan(size);
    expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('a file of another model, and one that cannot be written: exit 1 and one line', async () => {
    const args = ['-p', text, '-n', 4, '--no-warmup', '--prompt-cache'];
    const other = await runCli(['run', ...args, cache]);
    expect([other.code, other.stdout], other.stderr).toEqual([1, '']);
    expect(other.stderr).toMatch(/^quantlet: the state is of another model[^\n]*\(ERR_STATE\)\n$/);
    const nowhere = await runCli(['run', '-m', llamaModel, ...args, join(folder, 'none', 'x')]);
    expect(nowhere.code).toBe(1);
    expect(nowhere.stderr).toMatch(/ERR_IO/);
  });
});
