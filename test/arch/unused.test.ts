/** Unused tensors: no architecture has one in its model, and a model that has some reports them. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { canRun } from '../../src/plan/can-run.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { llamaModel, patchedLlama, shippedModel } from '../support.ts';
import { folder, goldenModel } from './golden-models.ts';

const machine = { isa: 'simd' as const, threads: 1, free: Infinity };
const unused = async (bytes: Uint8Array): Promise<readonly string[] | string | undefined> => {
  const verdict = canRun(await readGGUF(toBytes(bytes)), machine);
  return verdict.runs ? verdict.unused_tensors : verdict.reason;
};

const { cases } = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8')) as { cases: { model: string }[] };
const models = [...new Set(cases.map(({ model }) => model))];
const bytesOf = (model: string): Uint8Array => (model.endsWith('.gguf') ? readFileSync(new URL(model, folder)) : goldenModel(model));

it.each([...models, shippedModel])('%s: none', async (model) => {
  expect(await unused(model === shippedModel ? readFileSync(model) : bytesOf(model))).toBeUndefined();
});

it('names them, except those of layers that predict further tokens', async () => {
  const row = { type: TYPE.f32, ne: [32] };
  expect(
    await unused(
      await patchedLlama(
        { tensors: { 'blk.0.attn_sinks.weight': row, 'blk.1.odd.bias': row, 'blk.9.attn_norm.weight': row, vision: row } },
        llamaModel,
      ),
    ),
  ).toEqual(['blk.0.attn_sinks.weight', 'blk.1.odd.bias', 'vision']);
});
