/** quantlet/core as its callers write it: options by name, numbers and arrays as operands, names. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine, type Tensor } from 'quantlet/core';

let engine: Engine;
beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
afterAll(() => engine.dispose());

const f32 = (ne: readonly number[], data: readonly number[]): Tensor<'f32'> => engine.tensor('f32', ne, Float32Array.from(data)) as Tensor<'f32'>;

/** The elements of a result. */
async function values(t: Tensor): Promise<number[]> {
  const plan = engine.plan(t);
  await engine.compute(plan);
  const got = Array.from(engine.read(t) as ArrayLike<number>);
  plan.dispose();
  return got;
}

describe('options', () => {
  it('weights and numbers by name', async () => {
    const x = f32([2, 2], [3, 4, 0, 2]);
    expect(await values(core.rms_norm(f32([2, 2], [4, 4, -2, 2]), { eps: 0, weight: [2, 10] }))).toEqual([2, 10, -2, 10]);
    expect(await values(core.norm(x, { weight: [2, 2], bias: [1, 0], eps: 0 }))).toEqual([-1, 2, -1, 2]);
    expect(await values(core.scale(x, 2, { bias: 1 }))).toEqual([7, 9, 1, 5]);
    expect(await values(core.argsort(x, { order: 'asc' }))).toEqual([0, 1, 0, 1]);
    expect(await values(core.soft_max(x, { mask: [[-Infinity, 0], [0, -Infinity]] }))).toEqual([0, 1, 1, 0]);
    expect(await values(core.pool_1d(x, { kind: 'avg', k: 2, s: 1 }))).toEqual([3.5, 1]);
    expect(await values(core.reglu(x, { swapped: true }))).toEqual([12, 0]);
    expect(await values(core.view(x, [1], { offset: 4 }))).toEqual([4]);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['a name with other letters', () => core.soft_max(f32([2], [1, 2]), { max_bias: 8 } as never), /^soft_max: there is no option "max_bias"; did you mean maxBias\? There are mask, scale, maxBias$/],
    ['a name that is far from all', () => core.rms_norm(f32([2], [1, 2]), { tolerance: 1 } as never), /rms_norm: there is no option "tolerance"; expected eps, weight$/],
    ['an argument in place of options', () => core.argsort(f32([2], [1, 2]), 'down' as never), /argsort: the options are "down"; expected an object \{ order \}/],
    ['a value that is not among them', () => core.argsort(f32([2], [1, 2]), { order: 'down' as never }), /argsort: order is "down"; expected "asc" or "desc"/],
    ['a tensor in place of options', () => core.rms_norm(f32([2], [1, 2]), f32([2], [1, 2]) as never), /rms_norm: the options are a tensor; expected an object \{ eps, weight \}/],
    ['null in place of options', () => core.scale(f32([2], [1, 2]), 1, null as never), /scale: the options are null/],
    ['a list in place of options', () => core.view(f32([2], [1, 2]), [1], [4] as never), /view: the options are a list; expected an object \{ nb, offset \}/],
    ['numbers that are none', () => core.rope_ext(f32([2], [1, 2]), [0], { freqBase: NaN }), /rope_ext: freqBase is NaN; expected a finite number above 0/],
    ['numbers as text', () => core.soft_max(f32([2], [1, 2]), { scale: '2' as never }), /soft_max: scale is "2"; expected a number/],
    ['an option of every object', () => core.scale(f32([2], [1, 2]), 1, { toString: 1 } as never), /scale: there is no option "toString"/],
    ['another precision', () => core.mul_mat(f32([2], [1, 2]), [1, 2], { precision: 'f16' as never }), /mul_mat: precision is "f16"; expected "f32"/],
  ])('%s', (_, make, says) => expect(make).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) })));

  it('of compute: a signal alone is none', async () => {
    const plan = engine.plan(core.silu(f32([2], [1, 2])));
    await expect(engine.compute(plan, new AbortController().signal as never)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/compute: the options are an object of type AbortSignal; expected an object \{ signal \}/) });
    await expect(engine.compute(plan, { signal: 1 as never })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(/signal is 1; expected an AbortSignal/) });
    await expect(engine.compute(plan, { singal: undefined } as never)).rejects.toMatchObject({ message: expect.stringMatching(/did you mean signal/) });
    plan.dispose();
  });
});

describe('numbers and arrays as operands', () => {
  it('on either side', async () => {
    const x = f32([3, 2], [1, 2, 3, 4, 5, 6]);
    expect(await values(core.mul(x, 2))).toEqual([2, 4, 6, 8, 10, 12]);
    expect(await values(core.add(x, [1, 2, 3]))).toEqual([2, 4, 6, 5, 7, 9]);
    expect(await values(core.add(x, [[10], [20]]))).toEqual([11, 12, 13, 24, 25, 26]);
    expect(await values(core.sub(1, x))).toEqual([0, -1, -2, -3, -4, -5]);
    expect(await values(core.div([6, 6, 6], x))).toEqual([6, 3, 2, 1.5, Math.fround(1.2), 1]);
    expect(await values(core.div([[1, 1, 1], [2, 2, 2]], x))).toEqual([1, 0.5, 1 / 3, 0.5, 0.4, 1 / 3].map(Math.fround));
    expect(await values(core.add_inplace(core.scale(x, 1), Float64Array.of(1, 1, 1)))).toEqual([2, 3, 4, 5, 6, 7]);
  });

  it('ids, positions, activations, gates and rows', async () => {
    const x = f32([3, 2], [1, 2, 3, 4, 5, 6]);
    expect(await values(core.get_rows(x, [1, 0, 1]))).toEqual([4, 5, 6, 1, 2, 3, 4, 5, 6]);
    expect(await values(core.set_rows(core.cont(x), [[7, 8, 9]], [1]))).toEqual([1, 2, 3, 7, 8, 9]);
    expect(await values(core.mul_mat(x, [1, 10, 100]))).toEqual([321, 654]);
    expect(await values(core.mul_mat(x, [[1, 0, 0], new Uint8Array([0, 1, 0])]))).toEqual([1, 4, 2, 5]);
    expect(await values(core.reglu(x, [[1, 2, 3], [1, 2, 3]]))).toEqual([1, 4, 9, 4, 10, 18]);
    expect(await values(core.mean_of_rows(x, [0], [2]))).toEqual([2.5, 3.5, 4.5]);
    expect(await values(core.rope_ext(f32([2, 1, 2], [1, 2, 3, 4]), [0, 0]))).toEqual([1, 2, 3, 4]);
    expect(await values(core.cpy([1, 2, 3], f32([3], [0, 0, 0])))).toEqual([1, 2, 3]);
  });

  it.each<[string, (x: Tensor) => unknown, RegExp]>([
    ['lists of different lengths', (x) => core.add(x, [[1, 2], [3]]), /add: b: the lists differ: one has 2 elements, another is 1 long/],
    ['an empty list', (x) => core.add(x, []), /add: b: a list is empty/],
    ['five deep', (x) => core.add(x, [[[[[1]]]]]), /add: b: the lists are nested too deeply/],
    ['text inside', (x) => core.add(x, ['1'] as never), /add: b: element 0 is "1"; expected numbers/],
    ['half an id', (x) => core.get_rows(x, [0.5]), /get_rows: ids: element 0 is 0\.5; expected whole numbers/],
    ['numbers alone', () => core.add(1 as never, 2 as never), /add: a is 1; expected a tensor/],
    ['in place of what is changed', () => core.add_inplace([1, 2] as never, [1, 2]), /add_inplace: a is a list; expected a tensor/],
    ['in place of the only operand', () => core.silu(3 as never), /silu: a is 3; expected a tensor/],
  ])('%s', (_, make, says) => expect(() => make(f32([2], [1, 2]))).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) })));

  it('that do not divide', () => {
    expect(() => core.sub([1, 2], f32([3], [1, 2, 3]))).toThrow(expect.objectContaining({ code: 'ERR_TENSOR_SHAPE', message: expect.stringMatching(/sub: a f32 \[2, 1, 1, 1\] and f32 \[3, 1, 1, 1\]|sub: .*\[2, 1, 1, 1\].*\[3, 1, 1, 1\]/) }));
  });
});
