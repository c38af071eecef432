/**
 * quantlet quantize in a shell: every type compared with the kernels alone, llama.cpp's files, exit
 * codes, cleanup after failures.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { FTYPES, QUANTIZERS } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import { namesOf, rowSize, TYPE, type TypeName } from '../../src/type-traits.ts';
import { gaussian, random } from '../kernel/harness.ts';
import { byKernels } from '../quantize/by-kernels.ts';
import { hasShared, llamaModel, runCli, shared, shippedModel, temporaryFolder, writeTo, type Exit } from '../support.ts';

const folder = temporaryFolder();
const quantize = (...args: (string | number)[]): Promise<Exit> => runCli(['quantize', ...args]);

const TARGETS = namesOf(QUANTIZERS);
const SOURCES: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q8_0'];
const SEED = 20;

/** Types that llama-quantize does not make without importance weights. */
const NEED_IMATRIX: readonly TypeName[] = ['iq1_s', 'iq1_m', 'iq2_xxs', 'iq2_xs', 'iq2_s', 'iq3_xxs'];

const rowsOf = (from: TypeName, to: TypeName, ne0: number, data: Uint8Array, imatrix?: Float32Array): Uint8Array =>
  byKernels({ from: TYPE[from], to: TYPE[to], ne0, nrows: data.length / rowSize(TYPE[from], ne0), data, imatrix });

/**
 * One matrix for every type that can be made, with source types in rotation. The first is large
 * enough for several jobs.
 */
const matrices = TARGETS.map((to, i) => {
  const from = SOURCES[i % SOURCES.length];
  const ne0 = 512;
  const nrows = i === 0 ? 2100 : 5;
  const x = new Uint8Array(gaussian(ne0 * nrows, SEED + i, 0.02).buffer);
  const r = random(SEED - i);
  return {
    name: `blk.${i}.ffn_up.weight`,
    from,
    to,
    ne0,
    nrows,
    data: rowsOf('f32', from, ne0, x),
    imatrix: Float32Array.from({ length: ne0 }, () => r() ** 2),
  };
});

const floats = (values: Float32Array): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
const str = (value: string): WriteValue => ({ type: 'str', value });
type Tensor = WriteTensor & { data: Uint8Array };

const model = writeTo(
  folder,
  'all.gguf',
  writeGGUF(
    new Map<string, WriteValue>([
      ['general.architecture', str('llama')],
      ['llama.block_count', { type: 'u32', value: matrices.length }],
      ['llama.attention.head_count', { type: 'u32', value: 1 }],
    ]),
    [
      ...matrices.map(({ name, from, ne0, nrows, data }): Tensor => ({ name, type: TYPE[from], ne: [ne0, nrows], data })),
      { name: 'output_norm.weight', type: TYPE.f32, ne: [512], data: floats(gaussian(512, 1)) },
    ],
  ),
);
const imatrix = writeTo(
  folder,
  'imatrix.gguf',
  writeGGUF(
    new Map<string, WriteValue>([
      ['general.type', str('imatrix')],
      ['imatrix.datasets', { type: 'arr[str]', value: ['a text'] }],
      ['imatrix.chunk_count', { type: 'u32', value: 3 }],
    ]),
    matrices.flatMap(({ name, ne0, imatrix: w }): Tensor[] => [
      { name: `${name}.in_sum2`, type: TYPE.f32, ne: [ne0], data: floats(w) },
      { name: `${name}.counts`, type: TYPE.f32, ne: [1], data: floats(Float32Array.of(1)) },
    ]),
  ),
);

async function tensorsOf(path: string): Promise<Map<string, { type: string; data: Uint8Array }>> {
  const file = readFileSync(path);
  return new Map(
    [...(await readGGUF(toBytes(file))).tensors.values()].map((t) => [
      t.name,
      { type: t.type.name, data: file.subarray(t.offset, t.offset + t.byteLength) },
    ]),
  );
}

describe('every type, from every kind of source, on two threads', () => {
  it.each([
    ['without an imatrix', false],
    ['with an imatrix', true],
  ])('%s: as the kernels alone', async (_, weighted) => {
    const out = join(folder, `all-${weighted}.gguf`);
    const targetOf = (to: TypeName): TypeName => (weighted || !NEED_IMATRIX.includes(to) ? to : 'iq3_s');
    const rules = matrices.flatMap(({ name, to }) => ['--tensor-type', `^${name.replaceAll('.', '\\.')}=${targetOf(to)}`]);
    const { code, stdout, stderr } = await quantize(
      '--allow-requantize',
      ...(weighted ? ['--imatrix', imatrix] : []),
      ...rules,
      '--json',
      model,
      out,
      'Q4_0',
      2,
    );
    expect([code, stderr]).toEqual([0, '']);
    const got = await tensorsOf(out);
    for (const { name, from, to: wanted, ne0, data, imatrix: w } of matrices) {
      const to = targetOf(wanted);
      // A tensor that already has the type is copied.
      const want = from === to ? data : rowsOf(from, to, ne0, data, weighted ? w : undefined);
      expect(got.get(name)?.type, name).toBe(to);
      const differs = want.findIndex((byte, i) => got.get(name)!.data[i] !== byte);
      expect(differs, `seed ${SEED}, ${name}: ${from} to ${to}, first byte that differs`).toBe(-1);
    }
    const summary = JSON.parse(stdout) as Record<string, unknown>;
    expect(Object.keys(summary)).toEqual([
      'input',
      'output',
      'ftype',
      'tensors',
      'types',
      'source_bytes',
      'target_bytes',
      'source_bpw',
      'target_bpw',
      'fallbacks',
      'threads',
      'seconds',
    ]);
    expect(summary).toMatchObject({ ftype: 'Q4_0', tensors: matrices.length + 1, threads: 2, fallbacks: [], types: { f32: 2, q6_K: 1 } });
  });
});

describe('the command line', () => {
  it('says what was done; a fallback type is told; the file runs', async () => {
    const out = join(folder, 'llama.gguf');
    const { code, stdout, stderr } = await quantize(llamaModel, out, 'q4_k');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(
      /^quantized .*llama\.gguf to .*llama\.gguf as Q4_K_M\n(.*: [fq]\S+ instead of q\S+, whose blocks of 256 do not divide rows of \d+\n)+model size = [\d.]+ MiB \(32\.00 BPW\)\nquant size = [\d.]+ MiB \([\d.]+ BPW\): \d+ tensors, .*\nquantize time = [\d.]+ s\n$/,
    );
    expect((await runCli(['run', '-m', out, '-p', 'a', '-n', 4, '--no-warmup'])).code).toBe(0);
  });

  it('--help lists every type', async () => {
    const { code, stdout } = await quantize('--help');
    expect(code).toBe(0);
    for (const { name, id } of FTYPES) expect(stdout).toMatch(new RegExp(`^ +${id} {2}or {2}${name} `, 'm'));
  });

  const damaged = gaussian(32 * 4, 3);
  damaged[37] = NaN;
  const nan = writeTo(
    folder,
    'nan.gguf',
    writeGGUF(
      new Map<string, WriteValue>([
        ['general.architecture', str('llama')],
        ['llama.block_count', { type: 'u32', value: 1 }],
      ]),
      [{ name: 'blk.0.ffn_up.weight', type: TYPE.f32, ne: [32, 4], data: floats(damaged) }],
    ),
  );
  const there = join(folder, 'out');
  mkdirSync(there);
  const out = join(there, 'x.gguf');

  it.each<[string, (string | number)[], number, RegExp]>([
    ['no such type', [llamaModel, out, 'Q9_Z'], 2, /expected one of Q1_0, .*\bTQ1_0, .*\bQ4_0, .*\bF32 \(/],
    ['no such tensor type', ['--output-tensor-type', 'q7', llamaModel, out, 'Q4_0'], 2, /"q7" is not a tensor type/],
    ['a rule without a type', ['--tensor-type', 'attn_v', llamaModel, out, 'Q4_0'], 2, /expected NAME=TYPE/],
    [
      'a rule of 20,000 groups',
      ['--tensor-type', `${'(a)'.repeat(20_000)}=q4_0`, llamaModel, out, 'Q4_0'],
      2,
      /\(60005 characters\)"; expected a regular expression before the equals sign: .*Stack overflow/,
    ],
    ['a rule that is not a pattern', ['--tensor-type', '(=q4_0', llamaModel, out, 'Q4_0'], 2, /expected a regular expression/],
    ['a model that is quantised already', [shippedModel, out, 'Q8_0'], 2, /is q6_K already.*--allow-requantize/],
    ['NaN in a weight', [nan, out, 'Q8_0'], 1, /"blk\.0\.ffn_up\.weight" has NaN or infinity in its data, row 1/],
    ['no such imatrix', ['--imatrix', join(folder, 'none'), llamaModel, out, 'Q4_0'], 1, /there is no such file/],
    ['an imatrix that is a model', ['--imatrix', llamaModel, llamaModel, out, 'Q4_0'], 1, /expected "imatrix"/],
  ])('%s', async (_, args, want, message) => {
    const { code, stdout, stderr } = await quantize(...args);
    expect(code, stderr).toBe(want);
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect([stdout, readdirSync(there)]).toEqual(['', []]);
  });
});

if (hasShared) {
  describe('llama-quantize of llama.cpp', () => {
    it('stories260K as Q4_1 is its file, tensor for tensor', async () => {
      const out = join(folder, 'q4_1.gguf');
      expect((await quantize(shared('models/stories260K/stories260K.gguf'), out, 'Q4_1')).code).toBe(0);
      const [got, want] = [await tensorsOf(out), await tensorsOf(shared('models/stories260K/stories260K-Q4_1.gguf'))];
      expect([...got.keys()]).toEqual([...want.keys()]);
      for (const [name, t] of want) expect(Buffer.compare(got.get(name)!.data, t.data), name).toBe(0);
    });
  });
}
