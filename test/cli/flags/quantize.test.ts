/** The flags of quantlet quantize. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { ggufHash } from '../../../src/cli/gguf-hash.ts';
import { quantize } from '../../../src/cli/quantize.ts';
import { readGGUF } from '../../../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../../../src/gguf/write.ts';
import { toBytes } from '../../../src/io/source.ts';
import { TYPE } from '../../../src/type-traits.ts';
import { failure, llamaModel, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { folder, golden, describeFlags } from './support.ts';

describeFlags(quantize, (effect) => {
  const there = join(folder, 'quantize');
  mkdirSync(there);
  let files = 0;
  const typesOf = async (args: Args, input = llamaModel, type = 'Q4_0'): Promise<Record<string, string>> => {
    const out = join(there, `${files++}.gguf`);
    await invoke(quantize, [...args, input, out, type, 1]);
    return Object.fromEntries([...(await readGGUF(toBytes(readFileSync(out)))).tensors.values()].map((t) => [t.name, t.type.name]));
  };
  effect(['outputTensorType', 'tokenEmbeddingType', 'tensorType', 'leaveOutputTensor', 'pure'], 'the types of the tensors', async () => {
    const plain = await typesOf([]);
    expect([plain['output.weight'], plain['token_embd.weight'], plain['blk.0.attn_v.weight']]).not.toContain('q5_0');
    expect((await typesOf(['--output-tensor-type', 'q5_0']))['output.weight']).toBe('q5_0');
    expect((await typesOf(['--token-embedding-type', 'q5_0']))['token_embd.weight']).toBe('q5_0');
    const ruled = await typesOf(['--tensor-type', 'attn_v=q5_0', '--tensor-type', 'ffn_up=q8_0']);
    expect([ruled['blk.0.attn_v.weight'], ruled['blk.1.ffn_up.weight'], ruled['blk.0.attn_q.weight']]).toEqual([
      'q5_0',
      'q8_0',
      plain['blk.0.attn_q.weight'],
    ]);
    expect((await typesOf(['--leave-output-tensor']))['output.weight']).toBe('f32');
    expect(plain['output.weight']).not.toBe('q4_0');
    expect((await typesOf(['--pure']))['output.weight']).toBe('q4_0');
  });
  effect(['allowRequantize'], 'a quantised model again', async () => {
    const q4 = golden('llama-q4_0.gguf');
    expect((await failure(() => typesOf([], q4, 'Q8_0'))).code).toBe('ERR_INVALID_ARGUMENT');
    expect((await typesOf(['--allow-requantize'], q4, 'Q8_0'))['blk.0.attn_q.weight']).toBe('q8_0');
  });
  effect(['imatrix'], 'importance is part of the rounding, and named in the file', async () => {
    const entries: [string, WriteValue][] = [
      ['general.type', { type: 'str', value: 'imatrix' }],
      ['imatrix.datasets', { type: 'arr[str]', value: ['x'] }],
      ['imatrix.chunk_count', { type: 'u32', value: 1 }],
    ];
    const source = (await readGGUF(toBytes(readFileSync(llamaModel)))).tensors.get('blk.0.attn_q.weight')!;
    const n = source.ne[0];
    const sums = Float32Array.from({ length: n }, (_, i) => (i % 4 === 0 ? 1000 : 0.001));
    const tensor = (name: string, values: Float32Array) => ({
      name,
      type: TYPE.f32,
      ne: [values.length],
      data: new Uint8Array(values.buffer),
    });
    const imatrix = writeTo(
      folder,
      'imatrix.gguf',
      writeGGUF(new Map(entries), [tensor('blk.0.attn_q.weight.in_sum2', sums), tensor('blk.0.attn_q.weight.counts', Float32Array.of(1))]),
    );
    const made = async (...args: Args): Promise<Awaited<ReturnType<typeof readGGUF>> & { bytes: Buffer }> => {
      const out = join(there, `${files++}.gguf`);
      await invoke(quantize, [...args, llamaModel, out, 'Q4_0', 1]);
      const bytes = readFileSync(out);
      return Object.assign(await readGGUF(toBytes(bytes)), { bytes });
    };
    const [plain, weighted] = [await made(), await made('--imatrix', imatrix)];
    const data = ({ tensors, bytes }: typeof plain): string => {
      const t = tensors.get('blk.0.attn_q.weight')!;
      return bytes.subarray(t.offset, t.offset + t.byteLength).toString('hex');
    };
    expect(data(weighted)).not.toBe(data(plain));
    expect(weighted.metadata.get('quantize.imatrix.file')).toBe(imatrix);
    expect(data(await made('--imatrix', imatrix, '--exclude-weights', 'attn_q'))).toBe(data(plain));
    expect(data(await made('--imatrix', imatrix, '--include-weights', 'ffn_up'))).toBe(data(plain));
    expect(data(await made('--imatrix', imatrix, '--include-weights', 'attn_q'))).toBe(data(weighted));
  });
  effect(
    ['tensorTypeFile', 'dryRun', 'overrideKv', 'includeWeights', 'excludeWeights'],
    'types from a file, plans, metadata, weights',
    async () => {
      const list = writeTo(there, 'types.txt', 'attn_v=q5_0\nffn_up=q8_0\n');
      const ruled = await typesOf(['--tensor-type-file', list]);
      expect([ruled['blk.0.attn_v.weight'], ruled['blk.1.ffn_up.weight']]).toEqual(['q5_0', 'q8_0']);
      const out = join(there, 'never.gguf');
      expect((await invoke(quantize, ['--dry-run', llamaModel, out, 'Q4_0'])).stdout).toMatch(/would be as Q4_0\n[^]*quant size = /);
      expect(() => readFileSync(out)).toThrow();
      const copy = join(there, 'copy.gguf');
      await invoke(quantize, ['--override-kv', 'llama.x=int:5,llama.y=str:a', llamaModel, copy, 'COPY']);
      const [before, after] = await Promise.all([llamaModel, copy].map((file) => readGGUF(toBytes(readFileSync(file)))));
      expect(new Map([...before.metadata, ['llama.x', 5], ['llama.y', 'a']])).toEqual(after.metadata);
      expect(
        (await failure(() => invoke(quantize, ['--include-weights', 'a', '--exclude-weights', 'b', llamaModel, out, 'Q4_0']))).code,
      ).toBe('ERR_USAGE');
      expect((await invoke(ggufHash, ['--no-layer', copy])).stdout.split(/\s+/)[1]).toBeTruthy();
    },
  );
  effect(['json'], 'one object', async () => {
    const { stdout } = await invoke(quantize, ['--json', llamaModel, join(there, 'json.gguf'), 'Q8_0']);
    expect(JSON.parse(stdout)).toMatchObject({ ftype: 'Q8_0', input: llamaModel });
  });
});
