/**
 * The life of a model and its generations: processes that end by themselves, leaving early,
 * disposing, aborting, waiting for a slot.
 */
import { inspect } from 'node:util';
import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { failure, llamaModel, patchedLlama, randomIds, runScript } from '../support.ts';

/** With threads and without: these tests do not depend on the kernels. */
const KINDS = ['simd', 'simd-threads'] as const;
const greedy = { temperature: 0, ignoreEos: true } as const;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function withModel(options: LoadOptions, use: (model: Model) => Promise<void>): Promise<void> {
  const model = await loadModel(llamaModel, { threads: 2, warmUp: false, ...options });
  try {
    await use(model);
  } finally {
    await model.dispose();
  }
}

describe.each(KINDS)('a process of its own, %s', (build) => {
  const load = `const model = await loadModel(llama, { build: '${build}', threads: 2 });`;
  const generate = 'model.generate("the cat", { temperature: 0, maxTokens: 20, ignoreEos: true })';

  it.each([
    ['forgets dispose() after result()', `${load} const r = await ${generate}.result(); console.log(r.ids.length);`, '20'],
    ['forgets dispose() after a loop', `${load} let n = 0; for await (const _ of ${generate}) n++; console.log(n > 0);`, 'true'],
    ['forgets dispose() and loads only', `${load} console.log(model.build);`, build],
    [
      'loads without warming up, and does nothing',
      `const model = await loadModel(llama, { build: '${build}', threads: 2, warmUp: false }); console.log(1);`,
      '1',
    ],
    [
      'awaits a generation at the top level, twice',
      `${load} await ${generate}.result(); const r = await ${generate}.result(); console.log(r.ids.length);`,
      '20',
    ],
    [
      'does not use top-level await',
      `loadModel(llama, { build: '${build}', threads: 2 }).then((model) => ${generate}.result()).then((r) => console.log(r.ids.length));`,
      '20',
    ],
    [
      'takes two parts and leaves the loop',
      `${load} let n = 0; for await (const _ of ${generate}) if (++n === 2) break; console.log(n);`,
      '2',
    ],
    [
      'takes two parts and never asks again',
      `${load} const parts = ${generate}[Symbol.asyncIterator](); await parts.next(); await parts.next(); console.log(2);`,
      '2',
    ],
    ['leaves an unhandled generation behind', `${load} void ${generate}.result(); console.log(1);`, '1'],
    ['disposes', `${load} await ${generate}.result(); await model.dispose(); console.log(1);`, '1'],
    ['disposes by Symbol.asyncDispose', `${load} await ${generate}.result(); await model[Symbol.asyncDispose](); console.log(1);`, '1'],
  ])('%s: exits 0 by itself', async (_, source, want) => {
    const { code, stdout, stderr, silentMs } = await runScript(source, { timeout: 30_000 });
    expect([code, stdout.trim()], stderr).toEqual([0, want]);
    expect(silentMs, 'threads that have nothing to do go home after a quarter of a second').toBeLessThan(5000);
  });

  it('a failed load keeps nothing', async () => {
    const { code, stderr } = await runScript(
      `await loadModel(new Uint8Array(100), { build: '${build}' }).catch((e) => console.log(e.code));`,
      { timeout: 15_000 },
    );
    expect(code, stderr).toBe(0);
  });
});

describe.each(KINDS)('%s', (build) => {
  it('dispose: during a generation, twice, and everything after', async () => {
    const model = await loadModel(llamaModel, { build, threads: 2, warmUp: false });
    const running = model.generate('the cat', { ...greedy, maxTokens: 300 });
    const result = failure(running.result());
    const parts = model.generate('a hat', { ...greedy, maxTokens: 300 }); // waits for the slot
    const waiting = failure(parts.result());
    await pause(2);
    await Promise.all([model.dispose(), model.dispose()]);
    expect((await result).code).toBe('ERR_DISPOSED');
    expect((await waiting).code).toBe('ERR_DISPOSED');
    expect((await failure(async () => model.generate('x').result())).code).toBe('ERR_DISPOSED');
    await model.dispose();
    await model[Symbol.asyncDispose]();
  });

  it('dispose between two parts: the loop gets an error', async () => {
    const model = await loadModel(llamaModel, { build, threads: 2, warmUp: false });
    const { code } = await failure(async () => {
      for await (const _ of model.generate('the cat', { ...greedy, maxTokens: 300 })) await model.dispose();
    });
    expect(code).toBe('ERR_DISPOSED');
  });

  it('abort before, at once, during the prompt, during generation: signal.reason itself, and the model is usable', () =>
    withModel({ build }, async (model) => {
      const want = (await model.generate('the cat', { ...greedy, maxTokens: 30 }).result()).ids;
      const prompt = randomIds(480, 272, 1);
      for (const when of ['before', 'at once', 'prompt', 'generation', 'a part'] as const) {
        const reason = { mine: when };
        const controller = new AbortController();
        if (when === 'before') controller.abort(reason);
        const generation = model.generate(prompt, { ...greedy, maxTokens: 30, signal: controller.signal });
        const ended = failure(
          when === 'a part'
            ? (async () => {
                for await (const _ of generation) controller.abort(reason);
              })()
            : generation.result(),
        );
        if (when === 'at once') controller.abort(reason);
        if (when === 'prompt') await pause(1);
        if (when === 'generation') await pause(25);
        controller.abort(reason);
        const { error, code } = await ended;
        // A tiny model may have finished before 25 ms were over; then nothing was rejected.
        if (!(when === 'generation' && code === 'none')) expect(error, when).toBe(reason);
        expect((await model.generate('the cat', { ...greedy, maxTokens: 30 }).result()).ids, `after an abort ${when}`).toEqual(want);
      }
    }));

  it('aborting a waiting generation leaves the running one alone', () =>
    withModel({ build }, async (model) => {
      const want = (await model.generate('the cat', { ...greedy, maxTokens: 60 }).result()).ids;
      const controller = new AbortController();
      const reason = new Error('enough');
      const first = model.generate('the cat', { ...greedy, maxTokens: 60 }).result();
      const second = failure(model.generate('a hat', { ...greedy, signal: controller.signal }).result());
      controller.abort(reason);
      expect((await second).error).toBe(reason);
      expect((await first).ids).toEqual(want);
    }));

  it('two generations at once take turns, three sequences share steps', async () => {
    for (const parallel of [1, 3]) {
      await withModel({ build, parallel }, async (model) => {
        const prompts = ['the cat', 'a hat', 'the mats sat'];
        const alone: string[] = [];
        for (const p of prompts) alone.push((await model.generate(p, { ...greedy, maxTokens: 25 }).result()).text);
        const together = await Promise.all(prompts.map((p) => model.generate(p, { ...greedy, maxTokens: 25 }).result()));
        expect(
          together.map((r) => r.text),
          `parallel ${parallel}`,
        ).toEqual(alone);
      });
    }
  });

  it('one of several sequences aborted: the others are not affected', () =>
    withModel({ build, parallel: 3 }, async (model) => {
      const want = (await model.generate('the cat', { ...greedy, maxTokens: 60 }).result()).ids;
      const controller = new AbortController();
      const aborted = failure(model.generate(randomIds(400, 272, 9), { ...greedy, signal: controller.signal }).result());
      const others = [
        model.generate('the cat', { ...greedy, maxTokens: 60 }).result(),
        model.generate('the cat', { ...greedy, maxTokens: 60 }).result(),
      ];
      await pause(3);
      controller.abort('stop');
      expect((await aborted).error).toBe('stop');
      for (const other of others) expect((await other).ids).toEqual(want);
    }));

  it('a slow consumer: threads end during the pause and start again', () =>
    withModel({ build }, async (model) => {
      const want = (await model.generate('the cat', { ...greedy, maxTokens: 6 }).result()).ids;
      const got: number[] = [];
      for await (const { id } of model.generate('the cat', { ...greedy, maxTokens: 6 })) {
        if (id >= 0) got.push(id);
        // longer than the 250 ms after which idle threads end
        if (got.length % 2 === 0) await pause(330);
      }
      expect(got).toEqual(want);
    }));

  it('leaving a loop early frees the slot for the next, and result() says so', () =>
    withModel({ build }, async (model) => {
      const generation = model.generate('the cat', { ...greedy, maxTokens: 30 });
      let n = 0;
      for await (const _ of generation) if (++n === 2) break;
      expect((await failure(generation.result())).code).toBe('AbortError');
      expect((await model.generate('the cat', { ...greedy, maxTokens: 30 }).result()).ids).toHaveLength(30);
    }));

  it('so does a generation that is left before it began', () =>
    withModel({ build }, async (model) => {
      const generation = model.generate('the cat', greedy);
      const parts = generation[Symbol.asyncIterator]();
      await parts.return?.();
      expect((await failure(generation.result())).code).toBe('AbortError');
    }));

  it('a generation is iterated once; result() and the loop can be used together', () =>
    withModel({ build }, async (model) => {
      const generation = model.generate('the cat', { ...greedy, maxTokens: 10 });
      const result = generation.result();
      expect(
        (
          await failure(async () => {
            for await (const _ of generation);
          })
        ).code,
      ).toBe('ERR_INVALID_ARGUMENT');
      const both = model.generate('the cat', { ...greedy, maxTokens: 10 });
      let text = '';
      for await (const part of both) text += part.text;
      expect([text, (await both.result()).text]).toEqual([(await result).text, text]);
    }));

  it('a prompt that begins like the last one is not computed again, with the same result', () =>
    withModel({ build }, async (model) => {
      const prompt = randomIds(200, 272, 5);
      const first = await model.generate(prompt, { ...greedy, maxTokens: 20 }).result();
      const again = await model.generate(prompt, { ...greedy, maxTokens: 20 }).result();
      const longer = await model.generate([...prompt, ...first.ids.slice(0, 10)], { ...greedy, maxTokens: 10 }).result();
      expect(again.ids).toEqual(first.ids);
      expect(longer.ids).toEqual(first.ids.slice(10));
      expect([first.timings.promptTokens, again.timings.promptTokens, longer.timings.promptTokens]).toEqual([200, 1, 1]);
    }));
});

it('loading can be aborted, from the start and while weights are read', async () => {
  const reason = new Error('changed my mind');
  expect((await failure(loadModel(llamaModel, { signal: AbortSignal.abort(reason) }))).error).toBe(reason);
  const file = await patchedLlama();
  const controller = new AbortController();
  const load = loadModel(file, { signal: controller.signal, onProgress: () => controller.abort(reason) });
  expect((await failure(load)).error).toBe(reason);
});

it('progress goes from 0 to all of the weights', async () => {
  const seen: { loaded: number; total: number }[] = [];
  const model = await loadModel(llamaModel, { build: 'simd', warmUp: false, onProgress: (p) => seen.push(p) });
  await model.dispose();
  expect(seen.at(-1)!.loaded).toBe(seen.at(-1)!.total);
  expect(seen.every((p, i) => i === 0 || p.loaded > seen[i - 1].loaded)).toBe(true);
});

it.each([
  ['a path', () => llamaModel],
  ['a URL', () => new URL(`file://${llamaModel}`)],
  ['a file: URL as a string', () => new URL(`file://${llamaModel}`).href],
  ['a Uint8Array', () => patchedLlama()],
  ['an ArrayBuffer', async () => (await patchedLlama()).buffer],
  ['a Blob', async () => new Blob([await patchedLlama()])],
  [
    '{ byteLength, slice }',
    async () => {
      const bytes = await patchedLlama();
      return { byteLength: bytes.length, slice: async (start: number, end: number) => bytes.slice(start, end) };
    },
  ],
])('loads from %s', async (_, source) => {
  const model = await loadModel(await source(), { build: 'simd', warmUp: false });
  const { ids } = await model.generate('the cat', { ...greedy, maxTokens: 5 }).result();
  await model.dispose();
  await withModel({ build: 'simd' }, async (want) =>
    expect(ids).toEqual((await want.generate('the cat', { ...greedy, maxTokens: 5 }).result()).ids),
  );
});

it('console.log of a model prints what fits a screen', () =>
  withModel({ build: 'simd' }, async (model) => {
    const said = inspect(model, { depth: Infinity });
    expect(said.split('\n').length).toBeLessThan(24);
    expect(said).toContain("architecture: 'llama'");
    expect(said).not.toContain('tokens');
    return Promise.resolve();
  }));
