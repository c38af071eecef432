/**
 * engine.load: tensors from GGUF files, from every source that loadModel takes, reading no more of
 * a file than needed.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine } from 'quantlet/core';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF } from '../../src/gguf/types.ts';
import { toBytes } from '../../src/io/source.ts';
import { decode } from '../reference/golden-ops.ts';

const path = fileURLToPath(new URL('../../models/tiny-stories-q4_0.gguf', import.meta.url));
const file = readFileSync(path);
const NORM = 'blk.2.ffn_norm.weight';
const MATRIX = 'blk.1.attn_q.weight';

let engine: Engine, gguf: GGUF;
beforeAll(async () => void ([engine, gguf] = [await createEngine({ threads: 2 }), await readGGUF(toBytes(file))]));
afterAll(() => engine.dispose());

const bytesOf = (name: string): Uint8Array => {
  const { offset, byteLength } = gguf.tensors.get(name)!;
  return new Uint8Array(file.subarray(offset, offset + byteLength));
};

describe('sources', () => {
  it.each<[string, () => Parameters<Engine['load']>[0]]>([
    ['a path', () => path],
    ['a URL', () => pathToFileURL(path)],
    ['a Uint8Array', () => file],
    ['a Blob', () => new Blob([file])],
    ['a list of one part', () => [file]],
    ['an object with slice()', () => ({ byteLength: file.length, slice: (a: number, b: number) => Promise.resolve(file.subarray(a, b)) })],
  ])('%s', async (_, source) => {
    const free = engine.freeBytes;
    const t = await engine.load(source(), MATRIX);
    expect([t.name, t.type.name, ...t.ne]).toEqual([MATRIX, 'q4_0', 256, 256, 1, 1]);
    expect(engine.read(t)).toEqual(bytesOf(MATRIX));
    engine.free(t);
    expect(engine.freeBytes).toBe(free);
  });

  it('several names at once; they are tensors like others', async () => {
    const [norm, matrix] = await engine.load(path, [NORM, MATRIX]);
    const x = Float32Array.from({ length: 256 }, (_, i) => Math.sin(i));
    expect(engine.read(norm)).toEqual(new Float32Array(bytesOf(NORM).buffer));
    const y = core.mul_mat(matrix, core.rms_norm(engine.tensor('f32', [256], x), { weight: norm, eps: 1e-5 }), { precision: 'f32' });
    const plan = engine.plan(y);
    await engine.compute(plan);
    const rms = Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / 256 + 1e-5);
    const w = decode('q4_0', bytesOf(MATRIX));
    const scale = engine.read(norm, { as: 'f32' });
    engine.read(y).forEach((v, i) =>
      expect(v).toBeCloseTo(
        x.reduce((sum, xi, k) => sum + w[i * 256 + k] * scale[k] * (xi / rms), 0),
        3,
      ),
    );
    plan.dispose();
    expect(await engine.pack(matrix)).toBe(true);
  });
});

it("reads the header and the tensor's range, nothing else", async () => {
  const ranges: [number, number][] = [];
  const source = { byteLength: file.length, slice: (a: number, b: number) => (ranges.push([a, b]), file.subarray(a, b)) };
  await engine.load(source, MATRIX);
  const { offset, byteLength } = gguf.tensors.get(MATRIX)!;
  const window = 64 * 1024;
  // The header is read in windows; the last one reaches past its end.
  const header = ranges.filter(([, b]) => b <= gguf.dataOffset + window);
  const rest = ranges.slice(header.length);
  expect(rest).toEqual([[offset, offset + byteLength]]);
  expect(offset).toBeGreaterThan(gguf.dataOffset + window);
});

describe('refusals', () => {
  const refused = async (work: Promise<unknown>, code: string, says: RegExp): Promise<void> => {
    const free = engine.freeBytes;
    await expect(work).rejects.toMatchObject({ code, message: expect.stringMatching(says) });
    expect(engine.freeBytes, 'memory is given back').toBe(free);
  };

  it('a missing name, with suggestions', async () => {
    await refused(
      engine.load(path, 'blk.1.atn_q.weight'),
      'ERR_MISSING_TENSOR',
      /no tensor "blk\.1\.atn_q\.weight"; those most like it are blk\.1\.attn_q\.weight/,
    );
    await refused(engine.load(path, 'token_embd'), 'ERR_MISSING_TENSOR', /most like it are token_embd\.weight/);
    await refused(
      engine.load(path, 'something.else.entirely'),
      'ERR_MISSING_TENSOR',
      /it has 38, output_norm\.weight, token_embd\.weight, .* \.\.\./,
    );
    await refused(engine.load(path, [NORM, 'x']), 'ERR_MISSING_TENSOR', /no tensor "x"/);
  });

  it('invalid names, options and sources', async () => {
    await refused(engine.load(path, undefined as never), 'ERR_INVALID_ARGUMENT', /load: the name is undefined; expected a tensor's name/);
    await refused(engine.load(path, [NORM, 3 as never]), 'ERR_INVALID_ARGUMENT', /load: the name is 3/);
    await refused(engine.load(path, NORM, { sgnal: 1 } as never), 'ERR_INVALID_ARGUMENT', /did you mean signal/);
    await refused(engine.load(null as never, NORM), 'ERR_INVALID_ARGUMENT', /null/);
    await refused(engine.load(`${path}.none`, NORM), 'ERR_SOURCE', /there is no such file/);
    await refused(engine.load(new Uint8Array(100), NORM), 'ERR_GGUF_MAGIC', /not a GGUF file/);
  });

  it('more than fits, a source that fails in the middle, an aborted one', async () => {
    await using small = await createEngine({ build: 'simd', memoryBytes: 100_000 });
    const free = small.freeBytes;
    await expect(small.load(path, [NORM, 'token_embd.weight'])).rejects.toMatchObject({
      code: 'ERR_OUT_OF_MEMORY',
      message: expect.stringMatching(/token_embd\.weight.*memoryBytes/),
    });
    expect(small.freeBytes).toBe(free);
    const failing = {
      byteLength: file.length,
      slice: (a: number, b: number) => (a > gguf.dataOffset ? Promise.reject(new Error('the bucket is closed')) : file.subarray(a, b)),
    };
    await refused(engine.load(failing, MATRIX), 'ERR_SOURCE', /the bucket is closed/);
    await expect(engine.load(path, NORM, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toMatchObject({ message: 'enough' });
  });

  it('into an engine that is disposed of meanwhile', async () => {
    const gone = await createEngine({ build: 'simd' });
    const loading = gone.load(path, NORM);
    await gone.dispose();
    await expect(loading).rejects.toMatchObject({ code: 'ERR_DISPOSED' });
    await expect(gone.load(path, NORM)).rejects.toMatchObject({ code: 'ERR_DISPOSED' });
  });
});
