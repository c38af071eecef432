import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import type { QuantizeFileOptions, QuantizeFileProgress, QuantizeRows } from '../../src/tools/quantize-file.ts';
import { temporaryName } from '../../src/tools/new-file.ts';
import { quantizeFile } from '../../src/tools/quantize-file.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { readSplitGGUF } from '../../src/gguf/split.ts';
import type { GGUFValue } from '../../src/gguf/types.ts';
import type { WriteTensor, WriteValue } from '../../src/gguf/write.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import { parseFtype } from '../../src/quantize/ftype.ts';
import { toBytes } from '../../src/io/source.ts';
import type { TypeTraits } from '../../src/type-traits.ts';
import { TYPE } from '../../src/type-traits.ts';
import { hasShared, quantletError, sharedFiles, shippedModel } from '../gguf/files.ts';
import { hasFullDisk } from '../support.ts';
import { MIX_MODELS, mixModelFile } from './mix-models.ts';
import { quantizeRows } from './q8_0.ts';

const folder = mkdtempSync(join(tmpdir(), 'quantlet-quantize-'));
const output = join(folder, 'out', 'model.gguf');
beforeEach(() => {
  rmSync(join(folder, 'out'), { recursive: true, force: true });
  mkdirSync(join(folder, 'out'));
});
afterAll(() => rmSync(folder, { recursive: true }));
const left = (): string[] => readdirSync(join(folder, 'out'));

/** Reproducible numbers from about -1 to 1. */
const numbers = (n: number, seed: number): Float32Array => {
  let state = seed >>> 0;
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
};

interface Extra {
  readonly weight?: (x: Float32Array) => void;
  readonly type?: TypeTraits;
  readonly metadata?: readonly (readonly [string, WriteValue])[];
}

/** A llama of two layers, with some matrices too large for one job. */
const model = ({ weight, type = TYPE.f32, metadata = [] }: Extra = {}): Uint8Array => {
  const scalar = (t: 'u32' | 'str', value: GGUFValue): WriteValue => ({ type: t, value });
  const tensors: (WriteTensor & { data: Uint8Array })[] = [];
  const add = (name: string, ne: number[]): void => {
    const x = numbers(
      ne.reduce((a, b) => a * b, 1),
      name.length,
    );
    if (name === 'blk.1.ffn_up.weight') weight?.(x);
    const own = ne.length > 1 && name === 'blk.1.ffn_up.weight' ? type : TYPE.f32;
    const data = own === TYPE.f32 ? new Uint8Array(x.buffer) : new Uint8Array((x.length / own.blckSize) * own.typeSize);
    tensors.push({ name, type: own, ne, data });
  };
  for (const i of [0, 1]) {
    add(`blk.${i}.ffn_up.weight`, [64, 7]);
    add(`blk.${i}.ffn_norm.weight`, [64]);
    add(`blk.${i}.ffn_down_exps.weight`, [32, 5, 3]);
  }
  add('token_embd.weight', [512, 2100]);
  add('output.weight', [64, 40]);
  return writeGGUF(
    new Map<string, WriteValue>([
      ['general.architecture', scalar('str', 'llama')],
      ['general.file_type', scalar('u32', 0)],
      ['llama.block_count', scalar('u32', 2)],
      ['tokenizer.bytes', { raw: Uint8Array.of(8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xc3) }],
      ...metadata,
    ]),
    tensors,
  );
};

const optionsFor = async (file: Uint8Array, more: Partial<QuantizeFileOptions> = {}): Promise<QuantizeFileOptions> => {
  const bytes = toBytes(file);
  return {
    model: { gguf: await readGGUF(bytes), parts: [bytes] },
    inputs: [],
    output,
    ftype: parseFtype('Q8_0'),
    quantizeRows,
    nthreads: 3,
    ...more,
  };
};

describe('a quantised copy', () => {
  test('has every tensor quantised as in one piece, metadata kept, and no temporary file stays', async () => {
    const file = model();
    const seen: QuantizeFileProgress[] = [];
    const summary = await quantizeFile(await optionsFor(file, { onProgress: (p) => seen.push(p) }));
    expect(left()).toEqual(['model.gguf']);
    const written = new Uint8Array(readFileSync(output));
    const [before, after] = [await readGGUF(toBytes(file)), await readGGUF(toBytes(written))];
    expect([...after.metadata.keys()]).toEqual([
      'general.architecture',
      'llama.block_count',
      'tokenizer.bytes',
      'general.quantization_version',
      'general.file_type',
    ]);
    expect(after.metadata.get('general.file_type')).toBe(7);
    const [start, end] = after.metadataRanges.get('tokenizer.bytes') as readonly [number, number];
    expect([...written.subarray(start + 12, end)]).toEqual([0xff, 0xc3]);
    expect([...after.tensors.keys()].slice(0, 3)).toEqual(['output.weight', 'token_embd.weight', 'blk.0.ffn_down_exps.weight']);
    for (const [name, t] of after.tensors) {
      const source = before.tensors.get(name);
      if (!source) throw new Error(`${name} is new`);
      const data = file.subarray(source.offset, source.offset + source.byteLength);
      const nrows = source.ne[1] * source.ne[2];
      const want = name.includes('norm') ? data : await quantizeRows({ from: TYPE.f32, to: TYPE.q8_0, ne0: source.ne[0], nrows, data });
      expect(t.type.name, name).toBe(name.includes('norm') ? 'f32' : 'q8_0');
      expect(Buffer.compare(written.subarray(t.offset, t.offset + t.byteLength), want), name).toBe(0);
    }
    const done = seen.map((p) => p.doneBytes);
    expect(done).toEqual([...done].sort((a, b) => a - b));
    expect(done.at(-1)).toBe(seen[0].totalBytes);
    expect(summary).toMatchObject({ tensors: 8, fallbacks: [], sourceBytes: seen[0].totalBytes });
    expect(summary.sourceBitsPerWeight).toBe(32);
    expect(summary.targetBitsPerWeight).toBeGreaterThan(8.5);
    expect(summary.targetBitsPerWeight).toBeLessThan(8.6);
  });

  test('comes in jobs of bounded size, no more at a time than threads, each expert with its own importance', async () => {
    let running = 0;
    let most = 0;
    const importance = numbers(32 * 3, 5);
    const experts: (Float32Array | undefined)[] = [];
    const rows: QuantizeRows = async (job) => {
      most = Math.max(most, ++running);
      expect(job.data.length).toBeLessThanOrEqual(4 * 1024 * 1024);
      if (job.ne0 === 32) experts.push(job.imatrix);
      await new Promise((resolve) => setTimeout(resolve, 1));
      running--;
      return quantizeRows(job);
    };
    const imatrix = {
      values: new Map([
        ['blk.0.ffn_down_exps.weight', importance],
        ['token_embd.weight', numbers(7, 1)],
      ]),
      datasets: ['some text', 'more'],
      chunkCount: 12,
    };
    await quantizeFile(await optionsFor(model(), { quantizeRows: rows, imatrix, imatrixName: 'x.imatrix.gguf' }));
    expect(most).toBe(3);
    expect(experts.filter((e) => e).map((e) => [...(e as Float32Array)])).toEqual(
      [0, 1, 2].map((i) => [...importance.subarray(i * 32, i * 32 + 32)]),
    );
    expect(experts.length).toBe(6);
    const { metadata } = await readGGUF(toBytes(readFileSync(output)));
    expect(Object.fromEntries([...metadata].filter(([key]) => key.startsWith('quantize.')))).toEqual({
      'quantize.imatrix.file': 'x.imatrix.gguf',
      'quantize.imatrix.dataset': 'some text',
      'quantize.imatrix.entries_count': 2,
      'quantize.imatrix.chunks_count': 12,
    });
  });

  test('of a split model is one file', async () => {
    const scalar = (type: 'u16' | 'i32' | 'str' | 'u32', value: GGUFValue): WriteValue => ({ type, value });
    const part = (no: number): Uint8Array =>
      writeGGUF(
        new Map<string, WriteValue>([
          ['general.architecture', scalar('str', 'llama')],
          ['llama.block_count', scalar('u32', 2)],
          ['split.no', scalar('u16', no)],
          ['split.count', scalar('u16', 2)],
          ['split.tensors.count', scalar('i32', 2)],
        ]),
        [{ name: `blk.${1 - no}.ffn_up.weight`, type: TYPE.f32, ne: [32, 2], data: new Uint8Array(numbers(64, no).buffer) }],
      );
    const parts = [toBytes(part(0)), toBytes(part(1))];
    const gguf = await readSplitGGUF(parts);
    await quantizeFile({ model: { gguf, parts }, inputs: [], output, ftype: parseFtype('F32'), quantizeRows, nthreads: 1 });
    const written = new Uint8Array(readFileSync(output));
    const after = await readGGUF(toBytes(written));
    expect([...after.metadata.keys()].some((key) => key.startsWith('split.'))).toBe(false);
    for (const no of [0, 1]) {
      const t = after.tensors.get(`blk.${1 - no}.ffn_up.weight`);
      expect(new Float32Array(written.slice(t?.offset, (t?.offset ?? 0) + 256).buffer)).toEqual(numbers(64, no));
    }
  });

  if (hasShared) {
    test("of stories260K as Q8_0 and F16 is llama-quantize's, byte for byte", async () => {
      const files = new Map(sharedFiles('models/stories260K/').map((path) => [basename(path), path]));
      for (const type of ['Q8_0', 'F16']) {
        const source = new Uint8Array(readFileSync(files.get('stories260K.gguf') ?? ''));
        await quantizeFile(await optionsFor(source, { ftype: parseFtype(type) }));
        expect(Buffer.compare(readFileSync(output), readFileSync(files.get(`stories260K-${type}.gguf`) ?? '')), type).toBe(0);
      }
    });
  }
});

describe('what goes wrong leaves nothing behind', () => {
  test.each<[string, Extra, Partial<QuantizeFileOptions>, string, RegExp]>([
    [
      'NaN in a weight',
      {
        weight: (x) => {
          x[100] = NaN;
        },
      },
      {},
      'ERR_GGUF_INVALID',
      /"blk.1.ffn_up.weight" has NaN or infinity in its data, row 1 of the 7/,
    ],
    [
      'infinity in a weight',
      {
        weight: (x) => {
          x[0] = -Infinity;
        },
      },
      {},
      'ERR_GGUF_INVALID',
      /row 0/,
    ],
    [
      'a weight too large for f16',
      {
        weight: (x) => {
          x[447] = 1e6;
        },
      },
      { ftype: parseFtype('F16') },
      'ERR_GGUF_INVALID',
      /quantised data, row 6/,
    ],
    [
      'quantised before',
      { type: TYPE.q4_0 },
      {},
      'ERR_INVALID_ARGUMENT',
      /"blk.1.ffn_up.weight" is q4_0 already; expected f32, f16 or bf16: .*--allow-requantize/,
    ],
    ['integers', { type: TYPE.i32 }, { allowRequantize: true }, 'ERR_INVALID_ARGUMENT', /is of type i32; expected f32/],
    [
      'importance of another model',
      {},
      { imatrix: { values: new Map([['blk.0.ffn_up.weight', numbers(65, 1)]]), datasets: [], chunkCount: 0 } },
      'ERR_INVALID_ARGUMENT',
      /has 65 values for tensor "blk.0.ffn_up.weight"; expected 64/,
    ],
    ['no such folder', {}, { output: join(folder, 'none', 'x.gguf') }, 'ERR_IO', /opening .*none.* failed \(ENOENT/],
  ])('%s', async (_, extra, more, code, message) => {
    const error = await quantletError(quantizeFile(await optionsFor(model(extra), more)));
    expect(error.message).toMatch(message);
    expect(error.code).toBe(code);
    expect(left()).toEqual([]);
  });

  test('Q2_K_S without importance weights', async () => {
    const error = await quantletError(quantizeFile(await optionsFor(mixModelFile(MIX_MODELS[0]), { ftype: parseFtype('Q2_K_S') })));
    expect(error).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(
        /would be q2_K, which needs importance weights, .* give them with --imatrix, or choose a larger type, Q2_K, say/,
      ),
    });
  });

  const refusal = async (ftype: string, more: Partial<QuantizeFileOptions> = {}): Promise<unknown> =>
    quantletError(quantizeFile(await optionsFor(mixModelFile(MIX_MODELS[0]), { ftype: parseFtype(ftype), ...more })));
  const imatrixOf = (names: RegExp): Pick<QuantizeFileOptions, 'imatrix'> => ({
    imatrix: {
      values: new Map(
        ['output', ...[...Array(32).keys()].flatMap((i) => MIX_MODELS[0].block.map((part) => `blk.${i}.${part}`))]
          .map((part) => `${part}.weight`)
          .filter((name) => names.test(name))
          .map((name) => [name, new Float32Array(256).fill(1)]),
      ),
      datasets: [],
      chunkCount: 0,
    },
  });

  test.each(['IQ1_S', 'IQ1_M', 'IQ2_XXS', 'IQ2_XS', 'IQ2_S', 'IQ2_M', 'IQ3_XXS', 'IQ3_XS'])(
    '%s without importance weights, or without those of one tensor',
    async (ftype) => {
      const message = (tensor: string): object => ({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringMatching(
          new RegExp(
            `^tensor "blk\\.${tensor}\\.[^"]*" would be iq\\w+, which needs importance weights.*--imatrix, or choose a larger type, (IQ3_S|Q2_K), say$`,
          ),
        ),
      });
      expect(await refusal(ftype)).toMatchObject(message('0'));
      expect(await refusal(ftype, imatrixOf(/^(?!blk\.4\.)/))).toMatchObject(message('4'));
    },
  );

  test.each(['IQ1_S', 'IQ2_XXS', 'IQ2_XS'])('%s for token embeddings, which have no importance weights', async (ftype) => {
    expect(await refusal(ftype, { pure: true, ...imatrixOf(/./) })).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(
        /^tensor "token_embd.weight" would be iq.*needs importance weights.*--token-embedding-type, q4_K, say$/,
      ),
    });
  });

  test('a shipped model that is quantised already', async () => {
    const error = await quantletError(quantizeFile(await optionsFor(new Uint8Array(readFileSync(shippedModel)))));
    expect(error.message).toContain('--allow-requantize');
  });

  test('an abort, with the reason; an existing file of that name is kept', async () => {
    writeFileSync(output, 'old');
    const reason = new Error('enough');
    const controller = new AbortController();
    const rows: QuantizeRows = (job) => {
      controller.abort(reason);
      return quantizeRows(job);
    };
    await expect(quantizeFile(await optionsFor(model(), { quantizeRows: rows, signal: controller.signal }))).rejects.toBe(reason);
    expect(left()).toEqual(['model.gguf']);
    expect(readFileSync(output, 'utf8')).toBe('old');
  });

  test('a kernel that fails', async () => {
    const failure = new Error('the kernel stopped');
    await expect(quantizeFile(await optionsFor(model(), { quantizeRows: () => Promise.reject(failure) }))).rejects.toBe(failure);
    expect(left()).toEqual([]);
  });

  test('the input as output', async () => {
    const input = join(folder, 'in.gguf');
    writeFileSync(input, model());
    symlinkSync(input, output);
    const error = await quantletError(quantizeFile(await optionsFor(model(), { inputs: [input] })));
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/is also the input/) });
    expect(readFileSync(input).length).toBe(model().length);
  });

  // Linux has a device that is always full; the temporary file links to it.
  test.runIf(hasFullDisk)('a full disk', async () => {
    symlinkSync('/dev/full', temporaryName(output));
    const error = await quantletError(quantizeFile(await optionsFor(model())));
    expect(error).toMatchObject({ code: 'ERR_IO', message: expect.stringMatching(/writing .* failed \(ENOSPC.*the disk is full/) });
    expect(left()).toEqual([]);
  });
});
