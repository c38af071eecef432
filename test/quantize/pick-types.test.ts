import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readGGUF } from '../../src/gguf/read.ts';
import type { GGUF } from '../../src/gguf/types.ts';
import { FTYPES, parseFtype, parseTensorType } from '../../src/quantize/ftype.ts';
import type { PickOptions } from '../../src/quantize/pick-types.ts';
import { pickTypes } from '../../src/quantize/pick-types.ts';
import { toBytes } from '../../src/io/source.ts';
import { TYPE } from '../../src/type-traits.ts';
import { hasShared, sharedFiles } from '../gguf/files.ts';
import type { MixCase } from './mix-models.ts';
import { caseName, MIX_CASES, MIX_MODELS, mixModelFile, summarise } from './mix-models.ts';

const read = (file: Uint8Array): Promise<GGUF> => readGGUF(toBytes(file));

const OPTIONS: Record<NonNullable<MixCase['options']>, PickOptions> = {
  pure: { pure: true },
  'leave-output': { leaveOutputTensor: true },
  imatrix: { hasImatrix: true },
  'output-q5_0': { outputTensorType: TYPE.q5_0 },
  'embedding-q5_1': { tokenEmbeddingType: TYPE.q5_1 },
};

describe('the mixes of native llama.cpp (mixes.json, v0.5.0)', () => {
  const golden = JSON.parse(readFileSync(new URL('mixes.json', import.meta.url), 'utf8')) as Record<
    string,
    Record<string, Record<string, string>>
  >;
  test.each(MIX_MODELS.map((model) => [model.name, model] as const))('%s', async (_, model) => {
    const gguf = await read(mixModelFile(model));
    for (const mix of MIX_CASES) {
      const ftype = parseFtype(mix.ftype);
      const got = (): unknown => {
        try {
          const picked = pickTypes(gguf, ftype, mix.options && OPTIONS[mix.options]);
          return summarise(
            picked.map(({ info, type }) => [info.name, type]),
            ftype.type,
          );
        } catch (error) {
          expect(error).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
          return 'error'; // native refuses it
        }
      };
      expect({ mix: caseName(mix), got: got() }).toEqual({ mix: caseName(mix), got: golden[model.name][caseName(mix)] });
    }
  });
});

if (hasShared) {
  describe('files that llama-quantize made, in ../shared', () => {
    const families = [
      ['models/stories260K/', 'stories260K.gguf', /^stories260K-(.*)\.gguf$/],
      ['models/tiny-stories/', 'tiny-stories-F32.gguf', /^tiny-stories-(.*)\.gguf$/],
    ] as const;
    const cases = families.flatMap(([folder, original, pattern]) => {
      const files = sharedFiles(folder);
      const from = files.find((path) => basename(path) === original);
      return from
        ? files
            .filter((path) => path !== from && pattern.test(basename(path)))
            .map((path) => [basename(path), path, from, pattern.exec(basename(path))?.[1] ?? ''] as const)
        : [];
    });
    test.each(cases)('%s', async (_, path, from, type) => {
      const [original, native] = [await read(readFileSync(from)), await read(readFileSync(path))];
      const ftype = parseFtype(type);
      expect(ftype.id).toBe(native.metadata.get('general.file_type'));
      const types = (list: Iterable<readonly [string, string]>): string => Array.from(list, ([name, t]) => `${name} ${t}`).join('\n');
      const got = pickTypes(original, ftype);
      expect(types(got.map((p) => [p.info.name, p.type.name]))).toBe(
        types(Array.from(native.tensors.values(), (t) => [t.name, t.type.name] as const)),
      );
    });
  });
}

describe('options and names', () => {
  const model = async (name: string): Promise<GGUF> => read(mixModelFile(MIX_MODELS.find((m) => m.name === name) ?? MIX_MODELS[0]));

  test('--tensor-type: the first pattern that matches wins over the mix', async () => {
    const picked = pickTypes(await model('llama-5'), parseFtype('Q4_K_M'), {
      tensorTypes: [
        [/attn_v/, TYPE.q8_0],
        [/attn/, TYPE.q5_K],
      ],
    });
    const types = new Map(picked.map((p) => [p.info.name, p.type]));
    expect(types.get('blk.0.attn_v.weight')).toBe(TYPE.q8_0);
    expect(types.get('blk.0.attn_q.weight')).toBe(TYPE.q5_K);
    expect(types.get('blk.0.attn_norm.weight')).toBe(TYPE.f32);
    expect(types.get('blk.1.ffn_up.weight')).toBe(TYPE.q4_K);
  });

  test('MXFP4 is every matrix, MXFP4_MOE only experts', async () => {
    const mixtral = await model('mixtral');
    const count = (name: string): number => pickTypes(mixtral, parseFtype(name)).filter((p) => p.type === TYPE.mxfp4).length;
    expect(count('MXFP4_MOE')).toBe(32 * 3);
    expect(count('MXFP4')).toBe(32 * 7 + 2);
  });

  test('MXFP4_MOE of bailingmoe3: its projections of three dimensions are not experts', async () => {
    const gguf = await read(mixModelFile({ ...MIX_MODELS.find((m) => m.name === 'mixtral')!, arch: 'bailingmoe3' }));
    const k = gguf.tensors.get('blk.0.attn_k.weight')!;
    const projection = { ...k, name: 'blk.0.attn_k_b.weight', ne: [k.ne[0], 2, 4, 1] as const };
    const picked = pickTypes({ ...gguf, tensors: new Map([...gguf.tensors, [projection.name, projection]]) }, parseFtype('MXFP4_MOE'));
    expect(picked.find((p) => p.info === projection)?.type).toBe(TYPE.q8_0);
    expect(picked.filter((p) => p.type === TYPE.mxfp4).length).toBe(32 * 3);
  });

  test('per_layer_token_embd follows --token-embedding-type unless --tensor-type names it', async () => {
    const gguf = await model('llama-5');
    const own = { ...gguf.tensors.get('token_embd.weight')!, name: 'per_layer_token_embd.weight' };
    const typeOf = (tensorTypes: PickOptions['tensorTypes']): unknown =>
      pickTypes({ ...gguf, tensors: new Map([...gguf.tensors, [own.name, own]]) }, parseFtype('Q4_0'), {
        tokenEmbeddingType: TYPE.q5_1,
        tensorTypes,
      }).find((p) => p.info === own)?.type;
    expect(typeOf([])).toBe(TYPE.q5_1);
    expect(typeOf([[/token_embd/, TYPE.q6_K]])).toBe(TYPE.q6_K);
  });

  test('a fallback names the type that it replaces', async () => {
    const picked = pickTypes(await model('rows-of-172'), parseFtype('Q4_0'));
    expect(picked.find((p) => p.info.name === 'blk.0.ffn_down.weight')).toMatchObject({ type: TYPE.f16, insteadOf: TYPE.q4_0 });
    expect(picked.find((p) => p.info.name === 'blk.0.ffn_up.weight')?.insteadOf).toBeUndefined();
  });

  test('rows that a type does not divide, and for which llama.cpp has no other type, are refused by name', async () => {
    const rows = await model('rows-of-172');
    const whole = await model('llama-5');
    expect(() => pickTypes(rows, parseFtype('Q1_0'))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringMatching(/"[\w.]+" have 172 elements; .* 128 for q1_0/),
      }),
    );
    expect(() => pickTypes(rows, parseFtype('Q8_0'), { tensorTypes: [[/ffn_down/, TYPE.nvfp4]] })).toThrow(/ffn_down.* 64 for nvfp4/);
    expect(pickTypes(whole, parseFtype('Q1_0')).some((p) => p.type === TYPE.q1_0)).toBe(true);
  });

  test('names of types, in any case, by number and by alias', () => {
    for (const ftype of FTYPES) expect(parseFtype(ftype.name.toLowerCase())).toBe(ftype);
    expect(parseFtype('q4_k').name).toBe('Q4_K_M');
    expect(parseFtype('15').name).toBe('Q4_K_M');
    expect(parseFtype('38').name).toBe('MXFP4_MOE');
    expect(() => parseFtype('Q9')).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/"Q9" is not a type .* Q4_0, .*Q4_1, /) }),
    );
    expect(parseTensorType('Q6_k')).toBe(TYPE.q6_K);
    expect(parseTensorType('IQ2_xs')).toBe(TYPE.iq2_xs);
    expect(parseFtype('28')).toMatchObject({ name: 'IQ2_S', type: TYPE.iq2_xs });
    expect(() => parseTensorType('q8_1')).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });
});
