/**
 * Instructions in a file about its own use: defaults of the sampler, tokens never to be generated,
 * a template for tools.
 */
import {
  loadModel,
  type ChatMessage,
  type ChatTool,
  type GenerateOptions,
  type LoadOptions,
  type Model,
  type QuantletErrorCode,
} from 'quantlet';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { createHandler } from '../../src/server/handler.ts';
import { TYPE } from '../../src/type-traits.ts';
import { at, failure, llamaModel, patchedLlama, runCli, shippedModel, temporaryFolder, writeTo, type Patch } from '../support.ts';

const folder = temporaryFolder();
const f32 = (value: number): WriteValue => ({ type: 'f32', value });

async function using<T>(metadata: Patch['metadata'], work: (model: Model) => Promise<T>, options: LoadOptions = {}): Promise<T> {
  await using model = await loadModel(await patchedLlama({ metadata }, shippedModel), { threads: 1, warmUp: false, ...options });
  return await work(model);
}

const story = (model: Model, options: GenerateOptions = {}): Promise<readonly number[]> =>
  model
    .generate('Once upon a time', { maxTokens: 12, ...options })
    .result()
    .then(({ ids }) => ids);

describe('general.sampling.*', () => {
  const greedy = { 'general.sampling.temp': f32(0) };

  it('is the default of generate and chat; options take precedence', async () => {
    const [first, again, other] = await using(greedy, async (model) => [
      await story(model),
      await story(model),
      await story(model, { temperature: 5, topK: 0, topP: 1, minP: 0, seed: 7 }),
    ]);
    const plain = await using({}, async (model) => [await story(model, { temperature: 0 }), await story(model, { seed: 7 })]);
    expect([first, again]).toEqual([plain[0], plain[0]]);
    expect(other).not.toEqual(plain[0]);
    expect(plain[1], 'without such keys the default is to draw').not.toEqual(plain[0]);
    const said = await using({ 'general.sampling.top_k': 1 }, (model) =>
      Promise.all([1, 2].map((seed) => model.chat([{ role: 'user', content: 'Hi' }], { maxTokens: 8, seed }).result())),
    );
    expect(said[0].content).toBe(said[1].content);
  });

  it('is shown by /props and is the default of requests, unless the server has flags', async () => {
    await using({ 'general.sampling.temp': f32(0), 'general.sampling.top_k': 7 }, async (model) => {
      const handler = createHandler(model, { defaults: { topK: 9 } });
      const ask = async (path: string, body?: object): Promise<Record<string, never>> =>
        (await (
          await handler(
            new Request(`http://127.0.0.1${path}`, {
              ...(body && { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
            }),
          )
        ).json()) as Record<string, never>;
      expect(await ask('/props')).toMatchObject({
        default_generation_settings: { params: { temperature: 0, top_k: 9, top_p: 0.95, dry_penalty_last_n: 64, repeat_last_n: 64 } },
      });
      const request = { prompt: 'Once upon a time', n_predict: 12, return_tokens: true };
      expect((await ask('/completion', request)).tokens).toEqual(await story(model));
    });
  });

  it('is the default in the terminal', async () => {
    const path = writeTo(folder, 'greedy.gguf', await patchedLlama({ metadata: greedy }, shippedModel));
    const run = async (...more: (string | number)[]): Promise<string> =>
      (await runCli(['run', '-m', path, '-p', 'Once upon a time', '-n', 12, ...more])).stdout;
    expect(await run('-s', 3)).toBe(await run('-s', 4));
  });

  it('an invalid value is refused before weights are read', async () => {
    const { code, message } = await failure(using({ 'general.sampling.mirostat': 9 }, story));
    expect([code, message]).toEqual(['ERR_GGUF_INVALID', expect.stringMatching(/general.sampling.mirostat/)]);
  });
});

describe('tokenizer.ggml.suppress_tokens', () => {
  const without = (ids: readonly number[]): Patch['metadata'] => ({
    'tokenizer.ggml.suppress_tokens': { type: 'arr[i32]', value: Int32Array.from(ids) },
  });

  it('are never generated: greedy, sampled, with a grammar, with drafts, with a bias', async () => {
    const plain = await using({}, (model) => story(model, { temperature: 0 }));
    const first = plain[0];
    const ways: GenerateOptions[] = [
      { temperature: 0 },
      { temperature: 0, logitBias: { [first]: 100 } },
      { temperature: 0.1, seed: 1 },
      { temperature: 0, grammar: 'root ::= [^x]*' },
      { temperature: 0, mirostat: 2, seed: 1 },
    ];
    for (const speculation of [undefined, { type: 'ngram-simple' as const }])
      await using(
        without([first, plain[1]]),
        async (model) => {
          for (const way of ways) {
            const ids = await story(model, { ...way, maxTokens: 24 });
            expect(ids.length).toBeGreaterThan(0);
            expect(
              ids.filter((id) => id === first || id === plain[1]),
              JSON.stringify(way),
            ).toEqual([]);
          }
        },
        speculation && { speculation },
      );
  });

  it('that are not in the vocabulary are ignored with a warning', async () => {
    await using(without([-1, 99999]), async (model) => {
      expect(model.warnings).toEqual([expect.stringMatching(/suppress_tokens names 2 ids outside the \d+ tokens/)]);
    });
  });
});

describe('tokenizer.chat_template.tool_use', () => {
  const template = (name: string): string =>
    `${name}{% for m in messages %}|{{ m.role }}:{{ m.content }}{% endfor %}{% if tools %}[{{ tools | tojson }}]{% endif %}`;
  const both = { 'tokenizer.chat_template': template('plain'), 'tokenizer.chat_template.tool_use': template('tools') };
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const tools: ChatTool[] = [{ type: 'function', function: { name: 'f', description: 'd', parameters: {} } }];
  const begun = (model: Model, given?: ChatTool[]): string =>
    model.chatTemplate.render({ messages, ...(given ? { tools: given } : {}) }).slice(0, 6);

  it('writes conversations with tools, and only these', async () => {
    await using(both, async (model) => {
      expect([begun(model), begun(model, []), begun(model, tools)]).toEqual(['plain|', 'plain|', 'tools|']);
      const { promptIds } = await model.chat(messages, { tools, maxTokens: 1 }).result();
      expect(model.detokenize(promptIds).trimStart()).toMatch(/^tools\|user:Hi/);
    });
  });

  it('is ignored with a warning if it is not a template', async () => {
    await using({ ...both, 'tokenizer.chat_template.tool_use': '{% if %}' }, async (model) => {
      expect([begun(model), begun(model, tools)]).toEqual(['plain|', 'plain|']);
      expect(model.chatTemplate.warnings).toEqual([expect.stringMatching(/tool_use\) is left out.*does not parse/)]);
    });
  });

  it('renders all conversations if it is the only one; a template of the caller takes precedence', async () => {
    await using({ ...both, 'tokenizer.chat_template': undefined }, async (model) => {
      expect([begun(model), begun(model, tools)]).toEqual(['tools|', 'tools|']);
    });
    const chatTemplate = template('own');
    await using(both, async (model) => expect([begun(model), begun(model, tools)]).toEqual(['own|us', 'own|us']), { chatTemplate });
  });
});

/** Ids that the patched golden llama generates, and the warnings about its file. */
async function llamaText(patch: Patch): Promise<{ ids: readonly number[]; warnings: readonly string[] }> {
  await using model = await loadModel(await patchedLlama(patch), { threads: 1, warmUp: false });
  const { ids } = await model.generate([1, 5, 9], { maxTokens: 6, temperature: 0 }).result();
  return { ids, warnings: model.warnings };
}
const plain = await llamaText({});

describe('the loader reads as llama.cpp does', () => {
  const list = (...numbers: number[]): WriteValue => ({ type: 'arr[u32]', value: Uint32Array.from(numbers) });

  it('lists of equal numbers instead of one, and an old vocab_size', async () => {
    const { ids, warnings } = await llamaText({
      metadata: {
        'llama.attention.head_count': list(4, 4),
        'llama.attention.head_count_kv': list(2, 2),
        'llama.feed_forward_length': list(40, 40),
        'llama.vocab_size': 100,
      },
    });
    expect([ids, warnings]).toEqual([plain.ids, []]);
    const missing = await llamaText({ metadata: { 'llama.vocab_size': undefined } });
    expect(missing.ids).toEqual(plain.ids);
  });

  it.each<[Patch['metadata'], QuantletErrorCode, RegExp]>([
    [{ 'llama.attention.head_count': list(4, 2) }, 'ERR_UNSUPPORTED_ARCH', /different number of heads in some layers \(4, 2\)/],
    [{ 'llama.attention.head_count_kv': list(2, 4) }, 'ERR_UNSUPPORTED_ARCH', /different number of KV heads in some layers \(2, 4\)/],
    [{ 'llama.attention.head_count': list(4) }, 'ERR_GGUF_INVALID', /head_count" has 1 numbers; expected one for each of 2 layers/],
    [{ 'llama.attention.head_count': { type: 'arr[f32]', value: Float32Array.of(4, 4.5) } }, 'ERR_GGUF_INVALID', /has 4.5; expected whole/],
    [{ 'llama.attention.head_count': list(0, 0) }, 'ERR_GGUF_INVALID', /head_count/],
    [
      { 'llama.rope.scaling.type': 'dynamic' },
      'ERR_UNSUPPORTED_ARCH',
      /rope.scaling.type" is "dynamic"; quantlet runs none, linear, yarn, longrope/,
    ],
    [{ 'llama.rope.scaling.type': 'YARN' }, 'ERR_UNSUPPORTED_ARCH', /rope.scaling.type" is "YARN"/],
  ])('%j is refused', async (metadata, code, says) => {
    const found = await failure(llamaText({ metadata }));
    expect([found.code, found.message]).toEqual([code, expect.stringMatching(says)]);
  });

  it('unused tensors are skipped with a note, which inspect shows too', async () => {
    const tensors = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`odd.${i}.weight`, { type: TYPE.f32, ne: [32] }]));
    const { ids, warnings } = await llamaText({ tensors });
    expect(ids).toEqual(plain.ids);
    expect(warnings).toEqual([expect.stringMatching(/does not use 10 tensors of its file.*: odd\.0\.weight, .*odd\.7\.weight and 2 more/)]);
    const path = writeTo(folder, 'odd.gguf', await patchedLlama({ tensors }));
    expect((await runCli(['inspect', path])).stdout).toMatch(/\nnot used \(10 tensors\): odd\.0\.weight, .*odd\.9\.weight\n/);
    const { verdict } = JSON.parse((await runCli(['inspect', path, '--json'])).stdout) as { verdict: { unused_tensors: string[] } };
    expect(verdict.unused_tensors).toHaveLength(10);
    expect((await runCli(['run', '-m', path, '-p', 'x', '-n', 1])).stderr.match(/does not use 10 tensors/g)).toHaveLength(1);
  });
});

describe('errors name what a file is if it is not a language model', () => {
  const without: Patch['metadata'] = { 'tokenizer.ggml.model': undefined, 'tokenizer.ggml.tokens': undefined };
  const projector = at('test/golden/vision/mmproj-idefics3.gguf');
  const vision = { 'v.patch_embd.weight': { type: TYPE.f32, ne: [32] } };
  it.each<[string, Patch, QuantletErrorCode, RegExp]>([
    [
      'a projector by its type',
      { metadata: { ...without, 'general.type': 'mmproj' } },
      'ERR_UNSUPPORTED_ARCH',
      /is a projector \(mmproj\)/,
    ],
    [
      'a projector by its architecture',
      { metadata: { ...without, 'general.architecture': 'clip' }, tensors: vision },
      'ERR_UNSUPPORTED_ARCH',
      /projector/,
    ],
    [
      'a diffusion model',
      { metadata: { ...without, 'general.architecture': 'flux' } },
      'ERR_UNSUPPORTED_ARCH',
      /is a diffusion model, which makes images/,
    ],
    [
      'a diffusion model without metadata',
      {
        metadata: { ...without, 'general.architecture': undefined },
        tensors: { 'model.diffusion_model.in.weight': { type: TYPE.f32, ne: [32] } },
      },
      'ERR_UNSUPPORTED_ARCH',
      /is a diffusion model/,
    ],
    [
      'an importance matrix',
      { metadata: { ...without, 'general.type': 'imatrix' } },
      'ERR_UNSUPPORTED_ARCH',
      /is an importance matrix.*--imatrix/,
    ],
    ['an adapter', { metadata: { ...without, 'general.type': 'adapter' } }, 'ERR_ADAPTER', /lora/],
    [
      'another kind of model',
      { metadata: { ...without, 'general.architecture': 'whisper' } },
      'ERR_UNSUPPORTED_ARCH',
      /"whisper", which quantlet does not run/,
    ],
    ['a model without its tokenizer', { metadata: without }, 'ERR_MISSING_METADATA', /convert the model again with its tokenizer/],
  ])('%s', async (_, patch, code, says) => {
    const file = await patchedLlama(patch);
    const found = await failure(loadModel(file, { threads: 1 }));
    expect([found.code, found.message]).toEqual([code, expect.stringMatching(says)]);
  });

  it('a vocabulary', async () => {
    const gguf = await readGGUF(toBytes(readFileSync(llamaModel)));
    const metadata = new Map([...gguf.metadata].map(([key, value]) => [key, { type: gguf.metadataTypes.get(key)!, value }]));
    const found = await failure(loadModel(writeGGUF(metadata, []), { threads: 1 }));
    expect([found.code, found.message]).toEqual(['ERR_MISSING_TENSOR', expect.stringMatching(/no tensors: it is a vocabulary/)]);
  });

  it.each([
    ['run', '-m', projector, '-p', 'x'],
    ['tokenize', '-m', projector, '-p', 'x'],
    ['embed', '-m', projector, '-p', 'x'],
    ['bench', '-m', projector],
    ['rotate', projector, join(folder, 'out.gguf')],
    ['sparsify', '-m', projector, '-f', writeTo(folder, 'text.txt', 'Once upon a time'), '-o', join(folder, 'out.gguf')],
  ])('in the terminal, for %s', async (...args) => {
    const { code, stderr } = await runCli(args);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/is a projector \(mmproj\).*--mmproj/)]);
  });
});
