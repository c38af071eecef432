/**
 * Bad input gives a coded error in the API, and exit 1 with one clear line on the command line.
 * Never a hang, a trap or a TypeError.
 */
import { mkdirSync, openSync, closeSync, ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type Build, type GenerateOptions, type LoadOptions, type QuantletErrorCode } from 'quantlet';
import { describe, expect, it } from 'vitest';
import { layoutGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { failure, llamaModel, patchedLlama, runCli, runScript, temporaryFolder, writeTo, type Patch } from '../support.ts';

const folder = temporaryFolder();
const file = readFileSync(llamaModel);
const { tensors, dataOffset } = await readGGUF(toBytes(file));
const find = (text: string): number => file.indexOf(text);
const bent = (at: number, bytes: number[]): Uint8Array => {
  const copy = Uint8Array.from(file);
  copy.set(bytes, at);
  return copy;
};
const u64 = (n: bigint): number[] => Array.from({ length: 8 }, (_, i) => Number((n >> BigInt(8 * i)) & 255n));
/** Offsets of a tensor's entry: name, n_dims (4), ne (8 each), type (4), offset (8). */
const entryOf = (name: string): { ne: number; type: number; offset: number } => {
  const at = find(name) + name.length;
  const dims = tensors.get(name)!.nDims;
  return { ne: at + 4, type: at + 4 + 8 * dims, offset: at + 8 + 8 * dims };
};

/** Bad files. The error's text is checked too: a name, a number, or what to do. */
const files: readonly (readonly [name: string, bytes: Uint8Array, code: QuantletErrorCode, says: RegExp])[] = [
  ['empty', new Uint8Array(0), 'ERR_GGUF_MAGIC', /empty/],
  ['not GGUF', new TextEncoder().encode('once upon a time there was no model here'), 'ERR_GGUF_MAGIC', /not a GGUF/],
  ['cut in the magic', file.subarray(0, 3), 'ERR_GGUF_TRUNCATED', /\d/],
  ['cut in the header', file.subarray(0, 18), 'ERR_GGUF_TRUNCATED', /header/],
  ['cut in the metadata', file.subarray(0, find('llama.block_count') + 5), 'ERR_GGUF_TRUNCATED', /metadata|header/],
  ['cut in the vocabulary', file.subarray(0, find('tokenizer.ggml.tokens') + 200), 'ERR_GGUF_TRUNCATED', /metadata|header/],
  ['cut in the tensor table', file.subarray(0, find('blk.1.ffn_down.weight') + 30), 'ERR_GGUF_TRUNCATED', /tensor|header/],
  ['cut before the data', file.subarray(0, dataOffset), 'ERR_GGUF_TRUNCATED', /missing/],
  ['cut in the data', file.subarray(0, dataOffset + 40000), 'ERR_GGUF_TRUNCATED', /missing/],
  ['the last byte gone', file.subarray(0, file.length - 1), 'ERR_GGUF_TRUNCATED', /1 (are|is) missing/],
  ['version 99', bent(4, [99, 0, 0, 0]), 'ERR_GGUF_VERSION', /99/],
  ['version 1', bent(4, [1, 0, 0, 0]), 'ERR_GGUF_VERSION', /1/],
  ['big-endian', bent(4, [0, 0, 0, 3]), 'ERR_GGUF_VERSION', /big-endian/],
  ['2^60 tensors', bent(8, u64(1n << 60n)), 'ERR_GGUF_INVALID', /1152921504606846976/],
  [
    'a tensor of 2^60 elements',
    bent(entryOf('token_embd.weight').ne, [...u64(1n << 30n), ...u64(1n << 30n)]),
    'ERR_GGUF_INVALID',
    /token_embd.weight/,
  ],
  ['an unknown tensor type', bent(entryOf('blk.0.attn_q.weight').type, [200, 0, 0, 0]), 'ERR_UNSUPPORTED_TYPE', /blk.0.attn_q.weight.*200/],
  ['a tensor beyond the file', bent(entryOf('blk.1.ffn_up.weight').offset, u64(1n << 40n)), 'ERR_GGUF_TRUNCATED', /blk.1.ffn_up.weight/],
];

const patches: readonly (readonly [name: string, patch: Patch, code: QuantletErrorCode, says: RegExp])[] = [
  ['an unknown architecture', { metadata: { 'general.architecture': 'rwkv7' } }, 'ERR_UNSUPPORTED_ARCH', /rwkv7.*llama/],
  ['no architecture', { metadata: { 'general.architecture': undefined } }, 'ERR_MISSING_METADATA', /general.architecture/],
  [
    'an architecture that is a number',
    { metadata: { 'general.architecture': { type: 'u32', value: 5 } } },
    'ERR_GGUF_INVALID',
    /general.architecture/,
  ],
  ['no block_count', { metadata: { 'llama.block_count': undefined } }, 'ERR_MISSING_METADATA', /llama.block_count/],
  ['no embedding_length', { metadata: { 'llama.embedding_length': undefined } }, 'ERR_MISSING_METADATA', /llama.embedding_length/],
  ['no epsilon', { metadata: { 'llama.attention.layer_norm_rms_epsilon': undefined } }, 'ERR_MISSING_METADATA', /epsilon/],
  ['no tokenizer', { metadata: { 'tokenizer.ggml.model': undefined } }, 'ERR_MISSING_METADATA', /tokenizer.ggml.model/],
  ['no vocabulary', { metadata: { 'tokenizer.ggml.tokens': undefined } }, 'ERR_MISSING_METADATA', /tokenizer.ggml.tokens/],
  ['an unknown tokenizer', { metadata: { 'tokenizer.ggml.model': 'runes' } }, 'ERR_UNSUPPORTED_TOKENIZER', /runes/],
  [
    'more tokens than rows',
    {
      metadata: { 'llama.vocab_size': 100 },
      tensors: { 'token_embd.weight': { type: TYPE.f32, ne: [32, 100] }, 'output.weight': { type: TYPE.f32, ne: [32, 100] } },
    },
    'ERR_TENSOR_SHAPE',
    /token_embd.weight" is \[32, 100.*\[32, 272/,
  ],
  ['head_count 0', { metadata: { 'llama.attention.head_count': 0 } }, 'ERR_GGUF_INVALID', /head_count/],
  ['heads that are not a multiple of KV heads', { metadata: { 'llama.attention.head_count_kv': 3 } }, 'ERR_GGUF_INVALID', /head_count_kv/],
  [
    'heads and weights that agree, but no multiple',
    {
      metadata: { 'llama.attention.head_count_kv': 3 },
      tensors: Object.fromEntries(
        [0, 1].flatMap((i) => ['k', 'v'].map((x) => [`blk.${i}.attn_${x}.weight`, { type: TYPE.f32, ne: [32, 24] }])),
      ),
    },
    'ERR_GGUF_INVALID',
    /head_count_kv/,
  ],
  ['an odd head', { metadata: { 'llama.embedding_length': 28, 'llama.rope.dimension_count': undefined } }, 'ERR_GGUF_INVALID', /rope.*7/],
  [
    'an odd head with fitting weights',
    {
      metadata: { 'llama.attention.head_count': 32, 'llama.attention.head_count_kv': 16, 'llama.rope.dimension_count': undefined },
    },
    'ERR_GGUF_INVALID',
    /rope/,
  ],
  ['rope of more dimensions than a head has', { metadata: { 'llama.rope.dimension_count': 64 } }, 'ERR_GGUF_INVALID', /rope/],
  ['rope of an odd number of dimensions', { metadata: { 'llama.rope.dimension_count': 7 } }, 'ERR_GGUF_INVALID', /rope/],
  ['context_length 0', { metadata: { 'llama.context_length': 0 } }, 'ERR_GGUF_INVALID', /context_length/],
  ['2^31 layers', { metadata: { 'llama.block_count': 2 ** 31 } }, 'ERR_GGUF_INVALID', /block_count/],
  ['2^31 - 1 layers', { metadata: { 'llama.block_count': 2 ** 31 - 1 } }, 'ERR_GGUF_INVALID', /block_count/],
  ['layers that are a text', { metadata: { 'llama.block_count': { type: 'str', value: 'two' } } }, 'ERR_GGUF_INVALID', /block_count/],
  ['half a layer', { metadata: { 'llama.block_count': { type: 'f32', value: 1.5 } } }, 'ERR_GGUF_INVALID', /block_count/],
  ['a missing tensor', { tensors: { 'blk.1.ffn_norm.weight': undefined } }, 'ERR_MISSING_TENSOR', /blk.1.ffn_norm.weight/],
  [
    'a tensor of the wrong shape',
    { tensors: { 'blk.0.attn_v.weight': { type: TYPE.f32, ne: [16, 32] } } },
    'ERR_TENSOR_SHAPE',
    /blk.0.attn_v.weight.*\[16, 32/,
  ],
  [
    'weights of a type without a product',
    { tensors: { 'blk.0.attn_q.weight': { type: TYPE.i32, ne: [32, 32] } } },
    'ERR_UNSUPPORTED_TYPE',
    /i32/,
  ],
  [
    'embeddings of a type that cannot be read',
    { tensors: { 'token_embd.weight': { type: TYPE.i16, ne: [32, 272] } } },
    'ERR_UNSUPPORTED_TYPE',
    /token_embd.weight i16/,
  ],
  [
    'a norm that is no float',
    { tensors: { 'blk.0.attn_norm.weight': { type: TYPE.i32, ne: [32] } } },
    'ERR_UNSUPPORTED_TYPE',
    /blk.0.attn_norm.weight i32/,
  ],
];

const load = (source: string | Uint8Array, options: LoadOptions = {}): Promise<unknown> =>
  loadModel(source, { build: 'simd', warmUp: false, ...options });

describe('files', () => {
  it.each(files)('%s', async (_, bytes, code, says) => {
    const got = await failure(load(Uint8Array.from(bytes)));
    expect(got.code, got.message).toBe(code);
    expect(got.message).toMatch(says);
  });

  it.each(patches)('%s', async (_, patch, code, says) => {
    const got = await failure(patchedLlama(patch).then(load));
    expect(got.code, got.message).toBe(code);
    expect(got.message).toMatch(says);
  });

  it('a missing file, a folder, an unsupported URL, no source', async () => {
    mkdirSync(join(folder, 'folder'));
    for (const [source, says] of [
      [join(folder, 'none.gguf'), /no such file/],
      [join(folder, 'folder'), /folder/],
      [new URL('ftp://host.invalid/x.gguf'), /ftp/],
    ] as const) {
      const got = await failure(loadModel(source));
      expect([got.code, says.test(got.message)], got.message).toEqual(['ERR_SOURCE', true]);
    }
    for (const source of [undefined, null, 5, {}, []])
      expect((await failure(loadModel(source as never))).code).toBe('ERR_INVALID_ARGUMENT');
  });

  it('the command line: exit 1 and one line with the code', async () => {
    const cases: (readonly [path: string, code: string])[] = [
      [join(folder, 'none.gguf'), 'ERR_SOURCE'],
      [folder, 'ERR_SOURCE'],
    ];
    for (const name of ['empty', 'not GGUF', 'cut in the data', 'a tensor of 2^60 elements']) {
      const [, bytes, code] = files.find(([n]) => n === name)!;
      cases.push([writeTo(folder, `${name}.gguf`, bytes), code]);
    }
    for (const name of ['an unknown architecture', 'no block_count', 'a missing tensor', 'a tensor of the wrong shape']) {
      const [, patch, code] = patches.find(([n]) => n === name)!;
      cases.push([writeTo(folder, `${name}.gguf`, await patchedLlama(patch)), code]);
    }
    for (const [path, code] of cases) {
      const r = await runCli(['run', '-m', path, '-p', 'x', '-n', 4]);
      expect([r.code, r.stdout], `${path}: ${r.stderr}`).toEqual([1, '']);
      expect(r.stderr).toMatch(new RegExp(`^quantlet: [^\\n]+ \\(${code}\\)\\n$`));
      if (code.startsWith('ERR_GGUF') && !path.includes('block_count')) expect(r.stderr).toContain(`quantlet: ${path}: `);
    }
  });
});

describe('more than 4 GiB', () => {
  /** The golden llama with feed-forward matrices of 32 x 2^24 values, 2 GiB each. */
  async function huge(): Promise<{ header: Uint8Array; byteLength: number }> {
    const gguf = await readGGUF(toBytes(file));
    const metadata = new Map<string, WriteValue>(
      [...gguf.metadata].map(([key, value]) => [
        key,
        { type: gguf.metadataTypes.get(key)!, value: key === 'llama.feed_forward_length' ? 2 ** 24 : value },
      ]),
    );
    const all: WriteTensor[] = [...gguf.tensors.values()].map(({ name, type, ne, nDims }) => ({
      name,
      type,
      ne: name.includes('ffn_down')
        ? [2 ** 24, 32]
        : name.includes('ffn_gate') || name.includes('ffn_up')
          ? [32, 2 ** 24]
          : ne.slice(0, nDims),
    }));
    return layoutGGUF(metadata, all);
  }

  it('a source of that size: the message names it, nothing is read', async () => {
    const { header, byteLength } = await huge();
    let most = 0;
    const source = {
      byteLength,
      slice: (start: number, end: number): Uint8Array => {
        most = Math.max(most, end);
        const chunk = new Uint8Array(end - start);
        chunk.set(header.subarray(start, Math.min(end, header.length)));
        return chunk;
      },
    };
    const { code, message } = await failure(loadModel(source));
    expect(code, message).toBe('ERR_OUT_OF_MEMORY');
    expect(Number(/needs (\d+) MiB/.exec(message)?.[1])).toBeGreaterThan(6 * 2048);
    expect(most).toBeLessThan(2 ** 20);
  });

  it('a sparse file, from the command line', async () => {
    const { header, byteLength } = await huge();
    const path = join(folder, 'huge.gguf');
    const fd = openSync(path, 'w');
    writeSync(fd, header);
    ftruncateSync(fd, byteLength);
    closeSync(fd);
    const { code, stderr } = await runCli(['run', '-m', path, '-p', 'x']);
    expect(code, stderr).toBe(1);
    expect(stderr).toMatch(/needs \d+ MiB.*4096 MiB.*ERR_OUT_OF_MEMORY/);
  });

  it('a requested context that does not fit is refused; the default one shrinks', async () => {
    const { code, message } = await failure(load(llamaModel, { contextLength: 2 ** 27 }));
    expect(code, message).toBe('ERR_OUT_OF_MEMORY');
    expect(message).toMatch(/contextLength/);
    const model = await loadModel(await patchedLlama({ metadata: { 'llama.context_length': 2 ** 31 - 1 } }), {
      build: 'simd',
      warmUp: false,
    });
    expect(model.contextLength).toBe(4096);
    await model.dispose();
  });
});

describe('options', () => {
  it.each<[string, LoadOptions, QuantletErrorCode]>([
    ['threads 0', { threads: 0 }, 'ERR_INVALID_ARGUMENT'],
    ['threads 1.5', { threads: 1.5 }, 'ERR_INVALID_ARGUMENT'],
    ['threads -1', { threads: -1 }, 'ERR_INVALID_ARGUMENT'],
    ['threads NaN', { threads: NaN }, 'ERR_INVALID_ARGUMENT'],
    ['a million threads', { threads: 1_000_000 }, 'ERR_INVALID_ARGUMENT'],
    ['contextLength -1', { contextLength: -1 }, 'ERR_INVALID_ARGUMENT'],
    ['contextLength 0.5', { contextLength: 0.5 }, 'ERR_INVALID_ARGUMENT'],
    ['parallel 0', { parallel: 0 }, 'ERR_INVALID_ARGUMENT'],
    ['batchSize 0', { batchSize: 0 }, 'ERR_INVALID_ARGUMENT'],
    ['an unknown build', { build: 'avx512' as Build }, 'ERR_INVALID_ARGUMENT'],
  ])('loading with %s', async (_, options, code) => {
    const got = await failure(load(llamaModel, options));
    expect(got.code, got.message).toBe(code);
  });

  it('a build this runtime lacks', async () => {
    // Without shared memory, as in a browser page that is not cross-origin isolated.
    const { stdout, code, stderr } = await runScript(
      `delete globalThis.SharedArrayBuffer; await loadModel(llama, { build: 'simd-threads' }).catch((e) => console.log(e.code, e.message));`,
    );
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^ERR_BUILD_UNAVAILABLE .*shared memory/);
  });

  it.each<[string, string | number[], GenerateOptions]>([
    ['ids outside the vocabulary', [1, 272], {}],
    ['negative ids', [-1], {}],
    ['ids that are not whole numbers', [1.5], {}],
    ['NaN as an id', [NaN], {}],
    ['no ids', [], {}],
    ['a temperature of NaN', 'x', { temperature: NaN }],
    ['a topP of NaN', 'x', { topP: NaN }],
    ['a topK of 1.5', 'x', { topK: 1.5 }],
    ['a seed of 1.5', 'x', { seed: 1.5 }],
    ['maxTokens 1.5', 'x', { maxTokens: 1.5 }],
    ['maxTokens -2', 'x', { maxTokens: -2 }],
    ['maxTokens NaN', 'x', { maxTokens: NaN }],
    ['a prompt that is undefined', undefined as never, {}],
    ['a prompt that is a number', 5 as never, {}],
    ['a bias that is null', 'x', { logitBias: null as never }],
    ['a stop that is a number', 'x', { stop: 5 as never }],
  ])('generating with %s', async (_, prompt, options) => {
    const model = await loadModel(llamaModel, { build: 'simd', warmUp: false });
    const got = await failure(async () => model.generate(prompt, options).result());
    expect(got.code, got.message).toBe('ERR_INVALID_ARGUMENT');
    expect((await model.generate('x', { maxTokens: 2, temperature: 0 }).result()).ids).toHaveLength(2);
    await model.dispose();
  });
});

describe('the context', () => {
  it('a prompt longer than it, a larger maxTokens, and no maxTokens', async () => {
    const model = await loadModel(llamaModel, { build: 'simd', contextLength: 64, warmUp: false });
    const prompt = Array.from({ length: 60 }, (_, i) => 3 + i);
    expect((await failure(model.generate([...prompt, 1, 2, 3, 4, 5]).result())).code).toBe('ERR_CONTEXT_FULL');

    const got: number[] = [];
    const beyond = await failure(async () => {
      for await (const { id } of model.generate(prompt, { maxTokens: 10, temperature: 0, ignoreEos: true })) got.push(id);
    });
    expect([beyond.code, got.length], 'the text so far came first: 4 places, and the token after the last').toEqual([
      'ERR_CONTEXT_FULL',
      5,
    ]);

    const open = await model.generate(prompt, { temperature: 0, ignoreEos: true }).result();
    expect([open.finishReason, open.ids]).toEqual(['length', got]);
    const exact = await model.generate(prompt, { temperature: 0, ignoreEos: true, maxTokens: 5 }).result();
    expect([exact.finishReason, exact.ids]).toEqual(['length', got]);
    const full = await model.generate([...prompt, 1, 2, 3, 4], { temperature: 0, ignoreEos: true }).result();
    expect([full.finishReason, full.ids.length]).toEqual(['length', 1]);
    expect((await model.generate(prompt, { maxTokens: 0 }).result()).ids).toEqual([]);
    await model.dispose();
  });

  it('the command line: exit 1 for a prompt that does not fit; a text ends when the context is full', async () => {
    const long = await runCli(['run', '-m', llamaModel, '-c', 16, '-p', 'the cat sat at a hat, the mats, the cat sat at a hat', '-n', 4]);
    expect(long.code, long.stderr).toBe(1);
    expect(long.stderr).toMatch(/^quantlet: [^\n]*context[^\n]*\(ERR_CONTEXT_FULL\)\n$/);
    const beyond = await runCli(['run', '-m', llamaModel, '-c', 16, '-p', 'the cat', '-n', 100, '--temp', 0, '--ignore-eos']);
    expect(beyond.code, beyond.stderr).toBe(0);
    expect(beyond.stderr).toMatch(/the context of 16 tokens is full/);
    expect(beyond.stdout.length).toBeGreaterThan('the cat'.length);
  });
});

describe('weights with the right shape and extreme values', () => {
  it.each([
    ['NaN', NaN],
    ['infinity', Infinity],
    ['huge', 1e38],
  ])('%s everywhere: a coded error or text, never a trap', async (_, value) => {
    const weights = new Uint8Array(Float32Array.from({ length: 32 * 272 }, () => value).buffer);
    const model = await loadModel(
      await patchedLlama({ tensors: { 'token_embd.weight': { type: TYPE.f32, ne: [32, 272], data: weights } } }),
      { build: 'simd', warmUp: false },
    );
    for (const temperature of [0, 1])
      expect(['none', 'ERR_LOGITS']).toContain((await failure(model.generate('x', { maxTokens: 3, temperature }).result())).code);
    await model.dispose();
  });
});
