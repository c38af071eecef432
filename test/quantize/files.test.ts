/** Whole files against native llama.cpp's quantiser, tensor for tensor: every type, --pure, --imatrix, --allow-requantize (files.json, made by make-files.ts). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { quantizeFile, type QuantizeRows } from '../../src/cli/quantize.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import { rowSize, TYPE } from '../../src/type-traits.ts';
import { instantiate } from '../kernel/harness.ts';
import { runCli, temporaryFolder, writeTo } from '../support.ts';
import { caseName, FILE_CASES, hashOf, imatrixOf, modelFile, type FileCase } from './file-cases.ts';

const golden = JSON.parse(readFileSync(new URL('files.json', import.meta.url), 'utf8')) as Record<string, string>;
const folder = temporaryFolder();
const kernels = instantiate('simd', 64);

/** The kernels alone, without threads. */
const quantizeRows: QuantizeRows = ({ from, to, ne0, nrows, data, imatrix }) => {
  const { arena, call } = kernels;
  const bytes = nrows * rowSize(to, ne0);
  arena.reset();
  const floats = arena.alloc(4 * ne0 * nrows);
  const target = arena.alloc(bytes);
  call('dequantize_row', from.id, arena.bytes(data), floats, ne0 * nrows);
  call('quantize_chunk', to.id, floats, target, nrows, ne0, imatrix ? arena.f32(imatrix) : 0, arena.alloc(call('quantize_work_size')));
  arena.checkGuards();
  return arena.readBytes(target, bytes);
};

async function quantized(file: Uint8Array, { ftype, pure, imatrix, from }: Omit<FileCase, 'model'>): Promise<Uint8Array> {
  const bytes = toBytes(file);
  const gguf = await readGGUF(bytes);
  const output = join(folder, 'out.gguf');
  const importance = imatrix ? { imatrix: { values: imatrixOf(gguf.tensors.values()), datasets: [], chunkCount: 0 } } : {};
  await quantizeFile({
    model: { gguf, parts: [bytes] },
    inputs: [],
    output,
    ftype: parseFtype(ftype),
    quantizeRows,
    nthreads: 1,
    pure,
    allowRequantize: from !== undefined,
    ...importance,
  });
  return readFileSync(output);
}

async function expectGolden(file: Uint8Array, name: string): Promise<void> {
  const { tensors } = await readGGUF(toBytes(file));
  const want = golden[name].split(' ');
  expect(
    Array.from(tensors.values(), (t, i) => ({ name: t.name, type: t.type.name, hash: hashOf(file, t), want: want[i] })).filter(
      (t) => t.hash !== t.want,
    ),
    name,
  ).toEqual([]);
  expect(tensors.size).toBe(want.length);
}

test.each([...new Set(FILE_CASES.map((c) => c.ftype))])('%s', async (ftype) => {
  const cases = FILE_CASES.filter((c) => c.ftype === ftype);
  expect(cases.length).toBeGreaterThan(1);
  for (const c of cases) {
    const file = modelFile(c.model);
    const source = c.from ? await quantized(file, { ftype: c.from }) : file;
    await expectGolden(await quantized(source, c), caseName(c));
  }
});

describe('the command line, on two threads', () => {
  const imatrixFile = async (model: string): Promise<Uint8Array> => {
    const floats = (x: Float32Array): Uint8Array => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
    const { tensors } = await readGGUF(toBytes(modelFile(model)));
    return writeGGUF(
      new Map<string, WriteValue>([['general.type', { type: 'str', value: 'imatrix' }]]),
      [...imatrixOf(tensors.values())].flatMap(([name, x]): (WriteTensor & { data: Uint8Array })[] => {
        const n = tensors.get(name)!.ne[2];
        return [
          { name: `${name}.in_sum2`, type: TYPE.f32, ne: [x.length / n, n], data: floats(x) },
          { name: `${name}.counts`, type: TYPE.f32, ne: [1, n], data: floats(new Float32Array(n).fill(1)) },
        ];
      }),
    );
  };

  test.each<FileCase>([
    { model: 'llama', ftype: 'Q3_K_M', pure: true },
    { model: 'llama', ftype: 'Q4_K_M', imatrix: true },
    { model: 'experts', ftype: 'IQ4_XS', imatrix: true },
    { model: 'experts', ftype: 'Q8_0', from: 'Q4_0' },
    { model: 'llama', ftype: 'Q4_K_M', from: 'Q8_0', pure: true, imatrix: true },
  ])('$model $from $ftype', async (c) => {
    const out = join(folder, 'cli.gguf');
    const input = writeTo(folder, 'in.gguf', c.from ? await quantized(modelFile(c.model), { ftype: c.from }) : modelFile(c.model));
    const flags = [
      ...(c.pure ? ['--pure'] : []),
      ...(c.imatrix ? ['--imatrix', writeTo(folder, 'imatrix.gguf', await imatrixFile(c.model))] : []),
    ];
    if (c.from) {
      const { code, stderr } = await runCli(['quantize', ...flags, input, out, c.ftype, 2]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/--allow-requantize/)]);
    }
    const { code, stderr } = await runCli(['quantize', ...flags, ...(c.from ? ['--allow-requantize'] : []), input, out, c.ftype, 2]);
    expect([code, stderr]).toEqual([0, '']);
    await expectGolden(readFileSync(out), caseName(c));
  });
});
