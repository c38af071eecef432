/** Tests of the flags of serve for models, vectors, saved sequences and stored files. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { serve } from '../../../src/cli/serve.ts';
import { loadModel } from '../../../src/entry/node.ts';
import { failure, llamaModel, patchedLlama, writeTo } from '../../support.ts';
import { startHub } from '../../hub/server.ts';
import type { Args } from '../commands.ts';
import { post, complete } from './serve-requests.ts';
import { BASE, folder, golden, served, work, without, type Effect } from './support.ts';

export function serveModels(effect: Effect): void {
  effect(['alias'], "the model's name", () =>
    served(['-a', 'other'], async (url) => {
      expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'other' }] });
    }),
  );
  effect(['modelsPull'], 'clients download models of the hub, name them and delete them', async () => {
    const hub = await startHub({
      'm-Q4_0.gguf': new Uint8Array(readFileSync(llamaModel)),
      'm-Q8_0.gguf': new Uint8Array(readFileSync(golden('qwen2.gguf'))),
    });
    const cache = join(folder, 'pulled');
    vi.stubEnv('MODEL_ENDPOINT', hub.url);
    vi.stubEnv('QUANTLET_CACHE', cache);
    const base = without(BASE.serve, '-m');
    const ids = async (url: string): Promise<string[]> =>
      ((await (await fetch(`${url}/api/tags`)).json()) as { models: { name: string }[] }).models.map(({ name }) => name);
    const ask = async (url: string, path: string, body: object, method = 'POST'): Promise<unknown[]> => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body) });
      const lines = (await answer.text()).split('\n').filter((line) => line !== '');
      return [answer.status, ...lines.map((line) => JSON.parse(line) as unknown)];
    };
    const chat = { messages: [{ role: 'user', content: 'a' }], options: { num_predict: 2 }, stream: false };
    try {
      await served(
        ['--models-pull'],
        async (url) => {
          expect(await ids(url)).toEqual([]);
          const [status, ...lines] = await ask(url, '/api/pull', { model: 'hf.co/org/repo:Q4_0' });
          expect([status, lines[0], lines.at(-1)]).toEqual([200, { status: 'pulling manifest' }, { status: 'success' }]);
          expect(await ids(url)).toEqual(['hf.co/org/repo:Q4_0']);
          expect(await ask(url, '/api/chat', { model: 'hf.co/org/repo:q4_0', ...chat })).toMatchObject([
            200,
            { done_reason: 'length', eval_count: 2 },
          ]);
          expect(await ask(url, '/api/copy', { source: 'org/repo', destination: 'mine' })).toEqual([200]);
          const wrong = async (model: string): Promise<unknown[]> => {
            const [status, answer] = await ask(url, '/api/pull', { model, stream: false });
            return [status, (answer as { error: string }).error];
          };
          expect(await wrong('hf.co/org/repo:Q9')).toEqual([500, expect.stringMatching('org/repo has no GGUF model Q9')]);
          expect(await wrong('llama3.2')).toEqual([400, expect.stringMatching('expected hf.co/OWNER/REPO:QUANT')]);
          expect(await wrong('http://127.0.0.1/a/b.gguf')).toEqual([400, expect.stringMatching('expected OWNER/REPO')]);
        },
        base,
      );
      await served(
        ['--models-pull', '-m', llamaModel],
        async (url) => {
          expect(await ids(url)).toEqual(['llama', 'hf.co/org/repo:Q4_0', 'mine']);
          expect(await ask(url, '/api/chat', { model: 'mine:latest', ...chat })).toMatchObject([
            200,
            { model: 'mine:latest', eval_count: 2 },
          ]);
          expect((await ask(url, '/api/delete', { model: 'llama' }, 'DELETE'))[0]).toBe(409);
          expect((await ask(url, '/api/delete', { model: 'org/repo' }, 'DELETE'))[0]).toBe(409);
          for (const model of ['mine', 'org/repo']) expect(await ask(url, '/api/delete', { model }, 'DELETE')).toEqual([200]);
          expect(await ids(url)).toEqual(['llama']);
          expect(readdirSync(cache, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.gguf'))).toEqual([]);
        },
        base,
      );
    } finally {
      vi.unstubAllEnvs();
    }
  });
  effect(['slotSavePath'], 'sequences are saved and restored', async () => {
    const path = join(folder, 'saved');
    const action = (url: string, what: string, body: object): Promise<unknown> => post(url, `/slots/${what}`, body).then((r) => r.json());
    const prompt = 'the cat sat on the mat';
    const ask = async (url: string): Promise<{ content: string; timings: { prompt_n: number } }> =>
      (await (await post(url, '/completion', { prompt, n_predict: 4, temperature: 0 })).json()) as never;
    const first = await served(['-np', 1, '--slot-save-path', path], async (url) => {
      const answer = await ask(url);
      expect(await action(url, '0?action=save', { filename: 'a.bin' })).toMatchObject({ id_slot: 0, filename: 'a.bin' });
      return answer;
    });
    await served(['-np', 2, '--slot-save-path', path], async (url) => {
      expect(await action(url, '1?action=restore', { filename: 'a.bin' })).toMatchObject({ id_slot: 1 });
      const again = await ask(url);
      expect([again.content, again.timings.prompt_n, first.timings.prompt_n > 1]).toEqual([first.content, 1, true]);
      const slots = (await (await fetch(`${url}/slots`)).json()) as { n_prompt_tokens: number }[];
      expect(await action(url, '1?action=erase', {})).toEqual({ id_slot: 1, n_erased: slots[1].n_prompt_tokens });
      expect((await ask(url)).timings.prompt_n).toBe(first.timings.prompt_n);
      writeTo(path, 'bad.slot', 'qltstate');
      expect(await action(url, '0?action=restore', { filename: 'bad' })).toMatchObject({ error: { code: 'invalid_state' } });
    });
    expect(await served([], async (url) => (await post(url, '/slots/0?action=erase', {})).status)).toBe(501);
  });
  effect(['spmInfill'], 'the suffix goes first', async () => {
    const [prefix, suffix, middle] = [260, 261, 262];
    const metadata = {
      'tokenizer.ggml.fim_pre_token_id': prefix,
      'tokenizer.ggml.fim_suf_token_id': suffix,
      'tokenizer.ggml.fim_mid_token_id': middle,
    };
    const file = writeTo(folder, 'fim.gguf', await patchedLlama({ metadata }));
    const fill = (args: Args): Promise<{ prompt: string; tokens_predicted: number }> =>
      served(
        ['-m', file, ...args],
        async (url) =>
          (await (
            await post(url, '/infill', { input_prefix: 'the', input_suffix: 'mat', n_predict: 2, ignore_eos: true })
          ).json()) as never,
        without(BASE.serve, '-m'),
      );
    const [plain, first] = [await fill([]), await fill(['--spm-infill'])];
    expect([plain.tokens_predicted, plain.prompt.indexOf('the') < plain.prompt.indexOf('mat')]).toEqual([2, true]);
    expect([first.tokens_predicted, first.prompt.indexOf('the') > first.prompt.indexOf('mat')]).toEqual([2, true]);
    expect(await served([], async (url) => (await post(url, '/infill', { input_prefix: '', input_suffix: '' })).status)).toBe(501);
  });
  effect(['embeddings', 'pooling'], 'vectors of a model that could generate', async () => {
    const vector = (args: Args): Promise<number[]> =>
      served(args, async (url) => {
        const { data } = (await (await post(url, '/v1/embeddings', { input: 'the cat' })).json()) as { data: { embedding: number[] }[] };
        return data[0].embedding;
      });
    const last = await vector(['--embeddings']);
    expect([last.length > 8, last]).toEqual([true, await vector(['--embeddings', '--pooling', 'last'])]);
    expect(await vector(['--embeddings', '--pooling', 'mean'])).not.toEqual(last);
    await served(['--embeddings'], async (url) => expect((await complete(url, 'a')).status).toBe(400));
    await served([], async (url) => {
      const refused = (await (await post(url, '/v1/embeddings', { input: 'a' })).json()) as { error: { message: string } };
      expect(refused.error.message).toContain('--embeddings');
    });
  });
  effect(['reranking'], 'a model that does not rank is refused', async () => {
    expect((await failure(() => work(serve, ['--reranking']))).message).toMatch('is not a reranker');
  });
  effect(['modelsDir', 'modelsMax', 'modelsMemory'], 'several models, so many of them at once', async () => {
    const path = join(folder, 'models');
    mkdirSync(path);
    for (const name of ['a.gguf', 'b.gguf']) writeFileSync(join(path, name), readFileSync(llamaModel));
    const states = async (url: string): Promise<Record<string, string>> => {
      const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; status: { value: string } }[] };
      return Object.fromEntries(data.map(({ id, status }) => [id, status.value]));
    };
    const both = (args: Args): Promise<Record<string, string>> =>
      served(
        ['--models-dir', path, '-np', 1, ...args],
        async (url) => {
          expect(await states(url)).toEqual({ a: 'unloaded', b: 'unloaded' });
          for (const model of ['a', 'b']) {
            const answer = (await (await post(url, '/v1/completions', { prompt: 'the', max_tokens: 2, model })).json()) as {
              model: string;
            };
            expect(answer.model).toBe(model);
          }
          expect((await post(url, '/v1/completions', { prompt: 'the', model: 'c' })).status).toBe(404);
          return states(url);
        },
        without(BASE.serve, '-m'),
      );
    expect(await both([])).toEqual({ a: 'loaded', b: 'loaded' });
    expect(await both(['--models-max', 1])).toEqual({ a: 'unloaded', b: 'loaded' });
    // Memory for one of these models, with its cache and its kernels' memory.
    const one = await loadModel(llamaModel, { build: 'simd', warmUp: false, contextLength: 0 });
    const { memoryBytes } = one.stats;
    await one.dispose();
    expect(await both(['--models-memory', Math.ceil(1.5 * memoryBytes)])).toEqual({ a: 'unloaded', b: 'loaded' });
    await served(['-m', join(path, 'a.gguf')], async (url) => expect(Object.keys(await states(url))).toEqual(['llama', 'a']));
    expect((await failure(() => work(serve, ['-m', join(path, 'a.gguf'), '-a', 'x']))).message).toMatch('--alias names one model');
  });
  effect(['batchDir', 'maxFile', 'maxFiles'], 'files and batches', async () => {
    const dir = join(folder, 'batches');
    const upload = (url: string, size: number): Promise<Response> => {
      const form = new FormData();
      form.set('purpose', 'batch');
      form.set('file', new Blob(['x'.repeat(size)]), 'in.jsonl');
      return fetch(`${url}/v1/files`, { method: 'POST', body: form });
    };
    const statuses = (...args: Args): Promise<number[]> =>
      served(args, async (url) => [(await upload(url, 100)).status, (await upload(url, 50)).status, (await upload(url, 50)).status]);
    expect(await statuses('--batch-dir', dir, '--max-file', 60, '--max-files', 90)).toEqual([413, 200, 507]);
    expect(await statuses('--batch-dir', dir)).toEqual([200, 200, 200]);
    expect(await statuses()).toEqual([501, 501, 501]);
  });
}
