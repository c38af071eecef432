/**
 * Whole files compared with native llama.cpp's quantiser, tensor by tensor: every type, --pure,
 * --imatrix, --allow-requantize (files.json, written by make-files.ts).
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { quantizeFile } from '../../src/tools/quantize-file.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { at, runCli, temporaryFolder, writeTo } from '../support.ts';
import { MIX_MODELS, mixModelFile } from './mix-models.ts';
import { byKernels } from './by-kernels.ts';
import { caseName, FILE_CASES, hashOf, imatrixOf, modelFile, PROJECTOR_CASES, sha256, type FileCase } from './file-cases.ts';

const golden = JSON.parse(readFileSync(new URL('files.json', import.meta.url), 'utf8')) as Record<string, string>;
const folder = temporaryFolder();
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
    quantizeRows: byKernels,
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

test.each(PROJECTOR_CASES)('projector $file as $ftype, whole', async ({ file, ftype }) => {
  const source = readFileSync(at(`test/golden/vision/${file}`));
  expect(sha256(await quantized(source, { ftype, from: 'any' }))).toBe(golden[`${file} ${ftype}`]);
});

test('a mix that asks for the heads of a projector is refused', async () => {
  const [input, out] = [at('test/golden/vision/mmproj-idefics3.gguf'), join(folder, 'mmproj.gguf')];
  const { code, stderr } = await runCli(['quantize', input, out, 'IQ4_XS', 2]);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^quantlet: .* projector, .* mix of IQ4_XS .* --pure/)]);
  expect(existsSync(out)).toBe(false);
  expect(await runCli(['quantize', '--pure', input, out, 'IQ4_XS', 2])).toMatchObject({ code: 0 });
});

test('weights too large for the search in a grid', async () => {
  const spec = { ...MIX_MODELS.find((m) => m.name === 'llama-5')!, nLayer: 1 };
  const huge = mixModelFile(spec, (name, n) => new Float32Array(n).map((_, i) => (name.includes('ffn_up') ? 1e30 : 1) * (i % 7)));
  const out = join(folder, 'huge.gguf');
  const { code, stderr } = await runCli(['quantize', writeTo(folder, 'huge-in.gguf', huge), out, 'IQ3_S', 2]);
  expect(stderr).toMatch(/^quantlet: tensor "blk.0.ffn_up.weight", .* row 0 of 2 cannot become iq3_s: .* too large; .*choose another type/);
  expect(code).toBe(2);
  expect(existsSync(out)).toBe(false);
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
    { model: 'llama', ftype: 'IQ2_M', imatrix: true },
    { model: 'llama', ftype: 'IQ3_S' },
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
