/**
 * Loading a model in several files: by its first file's name, by a list, and with parts that are
 * missing, swapped or from another model.
 */
import { readFileSync, rmSync } from 'node:fs';
import { loadModel, type LoadOptions } from 'quantlet';
import { expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { failure, llamaModel, runCli, temporaryFolder, writeTo } from '../support.ts';

const folder = temporaryFolder();
const COUNT = 3;

/**
 * Writes the file's parts NAME-0000N-of-00003.gguf as gguf-split does: metadata in the first,
 * tensors in order. Returns their paths.
 */
async function split(path: string, name: string): Promise<string[]> {
  const file = readFileSync(path);
  const gguf = await readGGUF(toBytes(file));
  const tensors = [...gguf.tensors.values()];
  const each = Math.ceil(tensors.length / COUNT);
  return Array.from({ length: COUNT }, (_, i) => {
    const metadata = new Map<string, WriteValue>(
      i > 0 ? [] : [...gguf.metadataRanges].map(([key, [start, end]]) => [key, { raw: file.subarray(start, end) }]),
    );
    for (const [key, type, value] of [
      ['split.no', 'u16', i],
      ['split.count', 'u16', COUNT],
      ['split.tensors.count', 'i32', tensors.length],
    ] as const)
      metadata.set(key, { type, value });
    const mine = tensors
      .slice(i * each, (i + 1) * each)
      .map((t) => ({ ...t, ne: t.ne.slice(0, t.nDims), data: file.subarray(t.offset, t.offset + t.byteLength) }));
    return writeTo(folder, `${name}-0000${i + 1}-of-0000${COUNT}.gguf`, writeGGUF(metadata, mine));
  });
}

async function idsOf(source: string | string[]): Promise<readonly number[]> {
  const model = await loadModel(source, OPTIONS);
  try {
    return (await model.generate('the cat', { maxTokens: 8, temperature: 0, ignoreEos: true }).result()).ids;
  } finally {
    await model.dispose();
  }
}
const OPTIONS: LoadOptions = { warmUp: false, build: 'simd' };
const parts = await split(llamaModel, 'whole');
const strangers = await split(llamaModel.replace('llama.gguf', 'qwen2.gguf'), 'stranger');
const [first, second, third] = parts;

it('its first file, or the list of all, is the whole model', async () => {
  const want = await idsOf(llamaModel);
  expect(await idsOf(first)).toEqual(want);
  expect(await idsOf(parts)).toEqual(want);
});

it.each<[string, string | string[], string, RegExp]>([
  ['swapped', [first, third, second], 'ERR_GGUF_INVALID', /file 2 is part 3 of 3; expected part 2/],
  ['one twice', [first, second, second], 'ERR_GGUF_INVALID', /file 3 is part 2 of 3; expected part 3/],
  ['one missing in the list', [first, second], 'ERR_SOURCE', /has 3 parts, but 2 were given/],
  ['a later one first', [second, first, third], 'ERR_GGUF_INVALID', /part 2/],
  ['a later one alone', second, 'ERR_SOURCE', /part 2 of 3.*whole-00001-of-00003/],
  ['one of another model', [first, strangers[1], third], 'ERR_GGUF_INVALID', /./],
])('%s', async (_, source, code, says) => {
  const got = await failure(() => loadModel(source, OPTIONS));
  expect([got.code, got.message]).toEqual([code, expect.stringMatching(says)]);
});

it('one missing on the disk: named, also by the command line; with it back the model loads', async () => {
  const bytes = readFileSync(second);
  rmSync(second);
  expect(await failure(() => loadModel(first, OPTIONS))).toMatchObject({
    code: 'ERR_SOURCE',
    message: expect.stringContaining('whole-00002-of-00003.gguf'),
  });
  expect(await runCli(['run', '-m', first, '-p', 'x'])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/00002-of-00003.*ERR_SOURCE/),
  });
  writeTo(folder, 'whole-00002-of-00003.gguf', bytes);
  expect(await idsOf(first)).toHaveLength(8);
});
