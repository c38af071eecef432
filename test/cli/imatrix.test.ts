/**
 * quantlet imatrix in a shell, compared with files of native llama-imatrix (test/golden/imatrix)
 * and with itself.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { readImatrixSums, type ImatrixSums } from '../../src/quantize/imatrix.ts';
import { llamaModel, patchedLlama, root, runCli, temporaryFolder, TOLERANCE, writeTo, type Exit } from '../support.ts';
import { TYPE } from '../../src/type-traits.ts';

const folder = temporaryFolder();
const arch = fileURLToPath(new URL('test/golden/arch/', root));
const golden = (name: string): Buffer => readFileSync(new URL(`test/golden/imatrix/${name}`, root));

const N_CTX = 64;
const WINDOWS = 15;
/** Runs in the folder of the models, so that the text has the same name as in the native run. */
const imatrix = (...args: (string | number)[]): Promise<Exit> =>
  runCli(['imatrix', '-c', N_CTX, '-ctk', 'f32', '-ctv', 'f32', ...args], { cwd: arch });
const TEXT = ['-f', '../imatrix/text.txt'];
const at = (name: string): string => join(folder, name);
const sumsIn = (file: Uint8Array): Promise<ImatrixSums> => readImatrixSums(toBytes(file));

/** Writes a file with these arguments, and reads it. */
async function measured(name: string, ...args: (string | number)[]): Promise<ImatrixSums> {
  const { code, stderr } = await imatrix('-m', llamaModel, '-o', at(name), ...args);
  expect([code, stderr]).toEqual([0, '']);
  return sumsIn(readFileSync(at(name)));
}

/** The largest difference of a tensor's sums, relative to its largest sum. */
function difference(got: ImatrixSums, want: ImatrixSums): number {
  expect([...got.entries.keys()].sort()).toEqual([...want.entries.keys()].sort());
  let worst = 0;
  for (const [name, { sums, counts }] of want.entries) {
    const mine = got.entries.get(name)!;
    expect(mine.counts, name).toEqual(counts);
    const largest = Math.max(...sums);
    sums.forEach((sum, i) => (worst = Math.max(worst, Math.abs(sum - mine.sums[i]) / largest)));
  }
  return worst;
}

/** Tolerance for F32 weights and cache: both sides add f32 values in different orders. */
const F32_TOLERANCE = 1e-5;

describe("native llama-imatrix's file", () => {
  it.each([
    ['llama', F32_TOLERANCE],
    ['bitnet', TOLERANCE.f16],
    ['qwen3moe', F32_TOLERANCE],
  ])('%s: the same header byte for byte, the same sums', async (model, tolerance) => {
    const got = at(`${model}.gguf`);
    const { code, stdout, stderr } = await imatrix('-m', `${model}.gguf`, ...TEXT, '--process-output', '-o', got);
    expect([code, stderr]).toEqual([0, '']);
    const [mine, native] = [readFileSync(got), golden(`${model}.gguf`)];
    const data = Math.min(...[...(await readGGUF(toBytes(native))).tensors.values()].map((t) => t.offset));
    expect(mine.length).toBe(native.length);
    expect(Buffer.compare(mine.subarray(0, data), native.subarray(0, data))).toBe(0);
    expect(difference(await sumsIn(mine), await sumsIn(native))).toBeLessThan(tolerance);
    expect(stdout).toContain(`wrote ${got}: ${{ llama: 15, bitnet: 14 }[model] ?? 16} matrices, ${WINDOWS} windows of ${N_CTX} tokens\n`);
  });

  it('the old format', async () => {
    expect((await imatrix('-m', 'llama.gguf', ...TEXT, '--output-format', 'dat', '-o', at('llama.dat'))).code).toBe(0);
    const [mine, native] = [readFileSync(at('llama.dat')), golden('llama.dat')];
    expect(mine.length).toBe(native.length);
    let bytes = 4;
    expect(mine.readInt32LE(0)).toBe(14);
    for (let entry = 0; entry < 14; entry++) {
      const head = 4 + native.readInt32LE(bytes) + 8;
      expect(mine.subarray(bytes, bytes + head)).toEqual(native.subarray(bytes, bytes + head));
      const n = native.readInt32LE(bytes + head - 4);
      bytes += head;
      for (const end = bytes + 4 * n; bytes < end; bytes += 4)
        expect(Math.abs(mine.readFloatLE(bytes) / native.readFloatLE(bytes) - 1)).toBeLessThan(F32_TOLERANCE);
    }
    expect(mine.subarray(bytes)).toEqual(native.subarray(bytes));
  });

  it("native's lines: the value of each window, and the perplexity", async () => {
    const { stdout } = await imatrix('-m', 'llama.gguf', ...TEXT, '-o', at('lines.gguf'));
    const native = [
      25828.757, 28921.7096, 40606.6655, 43347.4144, 33810.9743, 29415.1603, 31947.2741, 27619.6051, 29291.8718, 29625.4739, 30597.5818,
      30102.7296, 30438.1668, 31352.5914, 31736.8096,
    ];
    const [, running, ppl, spread] = /^(\[1\][^\n]*,)\nFinal estimate: PPL = ([\d.]+) \+\/- ([\d.]+)\nwrote /.exec(stdout)!;
    const values = [...running.matchAll(/\[(\d+)\](\d+\.\d{4}),/g)].map(([, n, value]) => [Number(n), Number(value)]);
    expect(values.map(([n]) => n)).toEqual(native.map((_, i) => i + 1));
    // Relative error of e^NLL, from native's f32 sum of exponentials.
    values.forEach(([n, value]) => expect(Math.abs(value / native[n - 1] - 1), `window ${n}`).toBeLessThan(1e-4));
    expect(Math.abs(Number(ppl) / 31736.8096 - 1)).toBeLessThan(1e-4);
    expect(Math.abs(Number(spread) / 4327.68055 - 1)).toBeLessThan(1e-4);
  });
});

describe('the sums', () => {
  it('are the same bits for any batch and number of threads, with or without the perplexity', async () => {
    const want = await measured('want.gguf', ...TEXT, '-t', 1);
    for (const [i, args] of [
      ['-t', 2, '-b', 64],
      ['-t', 3, '-b', 37, '--no-ppl'],
      ['-t', 2, '-b', 1024],
    ].entries())
      expect(await measured(`other-${i}.gguf`, ...TEXT, ...args), args.join(' ')).toEqual(want);
  });

  it('of parts of a text are joined with --in-file; --chunk and --chunks say which', async () => {
    const whole = await measured('whole.gguf', ...TEXT);
    const first = await measured('first.gguf', ...TEXT, '--chunks', 6);
    const rest = await measured('rest.gguf', ...TEXT, '--from-chunk', 6, '--in-file', at('first.gguf'));
    expect([first.chunkCount, rest.chunkCount, whole.chunkCount]).toEqual([6, WINDOWS, WINDOWS]);
    expect(rest.datasets).toEqual(['../imatrix/text.txt', '../imatrix/text.txt']);
    expect(difference(rest, whole)).toBeLessThan(F32_TOLERANCE);
    // Without a text nothing is computed. Lists are comma-separated, as in llama.cpp.
    const { stdout } = await runCli([
      'imatrix',
      '--in-file',
      `${at('first.gguf')},${at('first.gguf')}`,
      '-c',
      N_CTX,
      '-o',
      at('both.gguf'),
    ]);
    expect(stdout).toBe(`wrote ${at('both.gguf')}: 14 matrices, 12 windows of 64 tokens\n`);
    for (const [name, { sums }] of (await sumsIn(readFileSync(at('both.gguf')))).entries)
      expect(sums).toEqual(first.entries.get(name)!.sums.map((x) => 2 * x));
  });

  it('--save-frequency keeps what there was; --json is one object', async () => {
    const { stdout } = await imatrix('-m', llamaModel, ...TEXT, '-b', N_CTX, '--save-frequency', 6, '-o', at('kept.gguf'), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ output: at('kept.gguf'), matrices: 14, chunks: WINDOWS, n_ctx: N_CTX });
    expect(readdirSync(folder).filter((name) => name.startsWith('kept'))).toEqual(['kept.gguf', 'kept.gguf.at_12', 'kept.gguf.at_6']);
    expect(await sumsIn(readFileSync(at('kept.gguf.at_6')))).toEqual(await measured('six.gguf', ...TEXT, '--chunks', 6));
  });

  it('are what quantize takes', async () => {
    await measured('importance.gguf', ...TEXT);
    const bytes = async (name: string, ...args: string[]): Promise<Buffer> => {
      const { code, stderr } = await runCli(['quantize', '--pure', ...args, llamaModel, at(name), 'Q4_0']);
      expect([code, stderr]).toEqual([0, '']);
      return readFileSync(at(name));
    };
    const weighted = await bytes('weighted.gguf', '--imatrix', at('importance.gguf'));
    const { metadata } = await readGGUF(toBytes(weighted));
    expect([metadata.get('quantize.imatrix.entries_count'), metadata.get('quantize.imatrix.chunks_count')]).toEqual([14, WINDOWS]);
    const end = (file: Buffer): Buffer => file.subarray(-4096);
    expect(Buffer.compare(end(weighted), end(await bytes('plain.gguf')))).not.toBe(0);
  });
});

describe('what goes wrong', () => {
  it.each<[string, () => (string | number)[], number, RegExp]>([
    ['no text', () => ['-m', llamaModel], 2, /give the text to measure with -f FILE, or files to join with --in-file/],
    ['a text that is too short', () => ['-m', llamaModel, '-p', 'the cat'], 2, /expected at least one window of 64/],
    ['nothing left of it', () => ['-m', llamaModel, ...TEXT, '--chunk', 15], 2, /expected at least one window of 64/],
    ['another format', () => [...TEXT, '--output-format', 'json'], 2, /--output-format is "json"; expected gguf or dat/],
    ['the model as output', () => ['-m', llamaModel, ...TEXT, '-o', llamaModel], 2, /is also the input; expected another file/],
    ['a model that makes vectors', () => ['-m', 'bert.gguf', ...TEXT], 2, /makes embeddings and does not predict text/],
    [
      'a model that was measured',
      () => ['-m', llamaModel, ...TEXT, '--in-file', llamaModel],
      1,
      /general.type .* is "model"; expected "imatrix"/,
    ],
    [
      'two models',
      () => ['-m', llamaModel.replace('llama.gguf', 'llama-q4_0.gguf'), ...TEXT, '--in-file', '../imatrix/llama.gguf'],
      2,
      /the imatrices have 32 and 64 sums, .* they belong to different models/,
    ],
    [
      'statistics',
      () => ['--show-statistics', '--in-file', '../imatrix/llama.gguf'],
      2,
      /--show-statistics is not supported here: llama-imatrix/,
    ],
  ])('%s', async (_, args, code, message) => {
    const got = await imatrix('-o', at('wrong.gguf'), ...args());
    expect(got.stderr).toMatch(message);
    expect([got.code, got.stdout, got.stderr.trim().split('\n').length]).toEqual([code, '', 1]);
    expect(existsSync(at('wrong.gguf'))).toBe(false);
  });

  it('weights whose products overflow are told by the matrix that reads them', async () => {
    const huge = { type: TYPE.f32, ne: [32], data: new Uint8Array(new Float32Array(32).fill(1e30).buffer) };
    const model = writeTo(folder, 'huge.gguf', await patchedLlama({ tensors: { 'blk.1.ffn_norm.weight': huge } }));
    const { code, stderr } = await imatrix('-m', model, ...TEXT, '--no-ppl', '-o', at('wrong.gguf'));
    expect([code, stderr]).toEqual([1, expect.stringMatching(/the inputs of "blk\.1\.ffn_gate\.weight" have no finite sum/)]);
    expect(existsSync(at('wrong.gguf'))).toBe(false);
  });
});
