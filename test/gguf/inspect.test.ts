import { expect, test } from 'vitest';
import { inspect, inspectToJson } from '../../src/cli/inspect.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { openFile, shippedModel } from './files.ts';

test('the shipped model as lines', async () => {
  await using file = await openFile(shippedModel);
  const text = inspect(await readGGUF(file)).join('\n');
  expect(text).toMatch(/^GGUF version 3, llama, 1\.\d\d MiB\n/);
  expect(text).toMatch(/\n {2}tokenizer\.ggml\.tokens +arr\[str\] +\["<unk>", "<s>", "<\/s>", .*\.\.\. \(1024\)\]\n/);
  expect(text).toMatch(/\n {2}blk\.0\.attn_q\.weight +q4_0 +\[256, 256\] +36864\n/);
  expect(text).toMatch(/\n2\.62 M parameters \(2623744\), 1\.\d\d MiB of tensors: f32 9, q6_K 1, q4_0 28\n/);
  expect(text).toMatch(/\n\d\.\d\d bits per weight$/);
});

test('the shipped model as JSON', async () => {
  await using file = await openFile(shippedModel);
  const all = JSON.parse(JSON.stringify(inspectToJson(await readGGUF(file))));
  expect(all).toMatchObject({ version: 3, architecture: 'llama', parameters: 2623744, alignment: 32, file_bytes: file.byteLength });
  expect(all.metadata['tokenizer.ggml.tokens'].length).toBe(1024);
  expect(all.tensors).toContainEqual({ name: 'blk.0.attn_q.weight', type: 'q4_0', ne: [256, 256], bytes: 36864 });
  expect(all.bits_per_weight).toBeCloseTo((all.tensor_bytes * 8) / all.parameters, 10);
});

test('odd values: nothing reaches the terminal raw, JSON stays JSON', async () => {
  const gguf = await readGGUF(
    toBytes(
      writeGGUF(
        new Map([
          ['a\u001b[31mkey', { type: 'str', value: 'clear\u001b[2J\u009b1m\u202e' }],
          ['long', { type: 'str', value: 'x'.repeat(500) }],
          ['big', { type: 'u64', value: 2n ** 63n }],
          ['nan', { type: 'f32', value: NaN }],
          ['bigs', { type: 'arr[u64]', value: BigUint64Array.of(1n) }],
          ['flags', { type: 'arr[bool]', value: Uint8Array.of(1, 0) }],
          ['nested flags', { type: 'arr[arr[bool]]', value: [Uint8Array.of(0), Uint8Array.of()] }],
          ['nested', { type: 'arr[arr[u8]]', value: [Uint8Array.of(1, 2, 3, 4, 5)] }],
        ]),
        [],
      ),
    ),
  );
  const text = inspect(gguf).join('');
  expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(text).toContain('(500 characters)');
  expect(text).toContain('[[1, 2, 3, 4, ... (5)]]');
  expect(text).toContain('[true, false]');
  expect(text).toContain('[[false], []]');
  expect(text).toContain('no architecture');
  expect(JSON.parse(JSON.stringify(inspectToJson(gguf)))).toMatchObject({
    architecture: null,
    bits_per_weight: null,
    metadata: {
      big: '9223372036854775808',
      nan: 'NaN',
      bigs: ['1'],
      flags: [true, false],
      'nested flags': [[false], []],
      nested: [[1, 2, 3, 4, 5]],
    },
  });
});
