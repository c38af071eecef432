/**
 * quantlet/core as its callers write it: options by name, numbers and arrays as operands, names of
 * tensors.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine, type Tensor } from 'quantlet/core';

let engine: Engine;
beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
afterAll(() => engine.dispose());

const f32 = (ne: readonly number[], data: readonly number[]): Tensor<'f32'> =>
  engine.tensor('f32', ne, Float32Array.from(data)) as Tensor<'f32'>;

/** Elements of a result, computed. */
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
    expect(
      await values(
        core.soft_max(x, {
          mask: [
            [-Infinity, 0],
            [0, -Infinity],
          ],
        }),
      ),
    ).toEqual([0, 1, 1, 0]);
    expect(await values(core.pool_1d(x, { kind: 'avg', k: 2, s: 1 }))).toEqual([3.5, 1]);
    expect(await values(core.reglu(x, { swapped: true }))).toEqual([12, 0]);
    expect(await values(core.view(x, [1], { offset: 4 }))).toEqual([4]);
  });

  it.each<[string, () => unknown, RegExp]>([
    [
      'a name with other letters',
      () => core.soft_max(f32([2], [1, 2]), { max_bias: 8 } as never),
      /^soft_max: there is no option "max_bias"; did you mean maxBias\? There are mask, scale, maxBias$/,
    ],
    [
      'a name that is far from all',
      () => core.rms_norm(f32([2], [1, 2]), { tolerance: 1 } as never),
      /rms_norm: there is no option "tolerance"; expected eps, weight$/,
    ],
    [
      'an argument in place of options',
      () => core.argsort(f32([2], [1, 2]), 'down' as never),
      /argsort: the options are "down"; expected an object \{ order \}/,
    ],
    [
      'a value that is not among them',
      () => core.argsort(f32([2], [1, 2]), { order: 'down' as never }),
      /argsort: order is "down"; expected "asc" or "desc"/,
    ],
    [
      'a tensor in place of options',
      () => core.rms_norm(f32([2], [1, 2]), f32([2], [1, 2]) as never),
      /rms_norm: the options are a tensor; expected an object \{ eps, weight \}/,
    ],
    ['null in place of options', () => core.scale(f32([2], [1, 2]), 1, null as never), /scale: the options are null/],
    [
      'a list in place of options',
      () => core.view(f32([2], [1, 2]), [1], [4] as never),
      /view: the options are a list; expected an object \{ nb, offset \}/,
    ],
    [
      'numbers that are none',
      () => core.rope_ext(f32([2], [1, 2]), [0], { freqBase: NaN }),
      /rope_ext: freqBase is NaN; expected a finite number above 0/,
    ],
    ['numbers as text', () => core.soft_max(f32([2], [1, 2]), { scale: '2' as never }), /soft_max: scale is "2"; expected a number/],
    ['an option of every object', () => core.scale(f32([2], [1, 2]), 1, { toString: 1 } as never), /scale: there is no option "toString"/],
    [
      'another precision',
      () => core.mul_mat(f32([2], [1, 2]), [1, 2], { precision: 'f16' as never }),
      /mul_mat: precision is "f16"; expected "f32"/,
    ],
  ])('%s', (_, make, says) =>
    expect(make).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) })),
  );

  it('of compute: a bare signal is not an options object', async () => {
    const plan = engine.plan(core.silu(f32([2], [1, 2])));
    await expect(engine.compute(plan, new AbortController().signal as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/compute: the options are an object of type AbortSignal; expected an object \{ signal, onProgress \}/),
    });
    await expect(engine.compute(plan, { signal: 1 as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/signal is 1; expected an AbortSignal/),
    });
    await expect(engine.compute(plan, { singal: undefined } as never)).rejects.toMatchObject({
      message: expect.stringMatching(/did you mean signal/),
    });
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
    expect(
      await values(
        core.div(
          [
            [1, 1, 1],
            [2, 2, 2],
          ],
          x,
        ),
      ),
    ).toEqual([1, 0.5, 1 / 3, 0.5, 0.4, 1 / 3].map(Math.fround));
    expect(await values(core.add_inplace(core.scale(x, 1), Float64Array.of(1, 1, 1)))).toEqual([2, 3, 4, 5, 6, 7]);
  });

  it('ids, positions, activations, gates and rows', async () => {
    const x = f32([3, 2], [1, 2, 3, 4, 5, 6]);
    expect(await values(core.get_rows(x, [1, 0, 1]))).toEqual([4, 5, 6, 1, 2, 3, 4, 5, 6]);
    expect(await values(core.set_rows(core.cont(x), [[7, 8, 9]], [1]))).toEqual([1, 2, 3, 7, 8, 9]);
    expect(await values(core.mul_mat(x, [1, 10, 100]))).toEqual([321, 654]);
    expect(await values(core.mul_mat(x, [[1, 0, 0], new Uint8Array([0, 1, 0])]))).toEqual([1, 4, 2, 5]);
    expect(
      await values(
        core.reglu(x, [
          [1, 2, 3],
          [1, 2, 3],
        ]),
      ),
    ).toEqual([1, 4, 9, 4, 10, 18]);
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
  ])('%s', (_, make, says) =>
    expect(() => make(f32([2], [1, 2]))).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) }),
    ),
  );

  it('that do not divide', () => {
    expect(() => core.sub([1, 2], f32([3], [1, 2, 3]))).toThrow(
      expect.objectContaining({
        code: 'ERR_TENSOR_SHAPE',
        message: expect.stringMatching(/sub: a f32 \[2, 1, 1, 1\] and f32 \[3, 1, 1, 1\]|sub: .*\[2, 1, 1, 1\].*\[3, 1, 1, 1\]/),
      }),
    );
  });
});

describe('names', () => {
  it('of tensors and results, in errors and in explain()', async () => {
    const w = engine.tensor('f32', [4, 2], { name: 'weights' });
    const x = engine.tensor('f32', [4], { data: [1, 2, 3, 4], name: 'input' });
    const hidden = core.set_name(core.mul_mat(w, x), 'hidden');
    expect(hidden.name).toBe('hidden');
    expect(core.explain(engine.plan(core.silu(hidden)))).toMatch(
      /weights f32 \[4, 2, 1, 1\], input f32 \[4, 1, 1, 1\] -> hidden f32 \[2, 1, 1, 1\]/,
    );
    expect(() => core.add(hidden, x)).toThrow(/add: hidden f32 \[2, 1, 1, 1\] and input f32 \[4, 1, 1, 1\]/);
    expect(() => engine.read(hidden)).toThrow(/hidden f32 .* intermediate/);
    expect(() => engine.write(w, [1])).toThrow(/weights f32 \[4, 2, 1, 1\] takes 8 numbers, got 1/);
    expect(() => core.set_name(x, 3 as never)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    expect(() => engine.tensor('f32', [4], { nam: 'x' } as never)).toThrow(/tensor: there is no option "nam"; did you mean name/);
    expect(() => engine.tensor('f32', [4], { name: 3 } as never)).toThrow(/name is 3; expected a string/);
  });
});

const EXPORTED = Object.entries(core)
  .filter(([, v]) => typeof v === 'function' && !/^[A-Z]/.test(v.name))
  .map(([name]) => name);
const OPS = EXPORTED.filter((name) => !['createEngine', 'loadModel', 'explain', 'similarity', 'topK'].includes(name));

/**
 * A valid call of every op, with tensors and numbers (one tensor, if not said otherwise). Arguments
 * that are undefined are optional.
 */
const CALLS = (): { readonly [name: string]: readonly unknown[] } => {
  const x = engine.tensor('f32', [4, 2], 1);
  const row = engine.tensor('f32', [4], 1);
  const ids = engine.tensor('i32', [2], 0);
  const cube = engine.tensor('f32', [4, 1, 2], 1);
  const numbers = engine.tensor('f32', [1, 1, 2], 1);
  const some = { eps: 1e-5 };
  const plain = Object.fromEntries(OPS.map((op) => [op, [x]]));
  const pairs = Object.fromEntries(
    ['add', 'sub', 'mul', 'div'].flatMap((op) => [
      [op, [x, row]],
      [`${op}_inplace`, [x, row]],
    ]),
  );
  const gates = Object.fromEntries(['swiglu', 'geglu', 'geglu_quick', 'geglu_erf', 'reglu', 'swiglu_oai'].map((op) => [op, [x, x, {}]]));
  return {
    ...plain,
    ...pairs,
    ...gates,
    argsort: [x, {}],
    scale: [x, 2, {}],
    clamp: [x, 0, 1],
    soft_cap: [x, 2],
    xielu: [x, 0.3, -0.4, 0.5, -1e-6],
    repeat: [x, [4, 4]],
    cpy: [x, x],
    cast: [x, 'f16'],
    concat: [x, x, 1],
    get_rows: [x, ids],
    set_rows: [x, x, ids],
    mul_mat: [x, row, {}],
    mul_mat_id: [cube, row, [[0, 1]]],
    add_id: [x, row, [[0, 0]]],
    grouped_matmul: [x, row, [2], {}],
    mul_mat_sparse: [x, row, [1, 0], {}],
    axpy: [x, [1, 0], [1, 0], {}],
    axpy_head: [x, [1, 0], [1], {}],
    rms_norm: [x, { ...some, weight: row }],
    norm: [x, { ...some, weight: row, bias: row }],
    l2_norm: [x, some],
    fwht: [x, { n: 2 }],
    fwht_inplace: [x, { n: 2 }],
    soft_max: [x, { mask: x }],
    diag_mask_inf: [x, 0],
    top_k: [x, 1],
    pool_1d: [x, { kind: 'max', k: 2, s: 1 }],
    mean_of_rows: [x, ids, ids],
    weighted_sum: [x, engine.tensor('f32', [1, 2], 1)],
    rope_ext: [cube, ids, {}],
    flash_attn_ext: [cube, cube, cube, {}],
    ssm_conv: [x, engine.tensor('f32', [2, 2], 1)],
    ssm_scan: [engine.tensor('f32', [4, 4, 1, 2], 1), cube, engine.tensor('f32', [1, 2], 1), [[1]], cube, cube, [1]],
    gated_delta_net: [cube, cube, cube, numbers, numbers, engine.tensor('f32', [4, 4], 1)],
    reshape: [x, [8]],
    view: [x, [4], {}],
    permute: [x, 1, 0, 2, 3],
    set_name: [x, 'x'],
    pad: [x, [1], {}],
    group_norm: [cube, { ...some, groups: 2 }],
    im2col: [cube, cube, {}],
    conv_1d: [cube, engine.tensor('f32', [4, 1], 1), {}],
    conv_2d: [cube, engine.tensor('f32', [4, 1, 2], 1), {}],
  };
};
/** Values that no op accepts as tensor, number, list or options. */
const ODD: readonly unknown[] = [
  null,
  undefined,
  'text',
  {},
  { length: 1 },
  Symbol('s'),
  () => 1,
  1n,
  NaN,
  [],
  [[]],
  ['1'],
  new Map(),
  new Date(),
  { ne: [1] },
];
/** Ops that accept numbers on either side. */
const OPERANDS = /^(add|sub|mul|div)$/;
const isOptions = (value: unknown): boolean => Object.prototype.toString.call(value) === '[object Object]' && !('ne' in (value as object));
const isEmpty = (value: unknown): boolean => isOptions(value) && Object.keys(value as object).length === 0;

describe('wrong operands', () => {
  it('there is a call of every op', () => expect(Object.keys(CALLS()).sort()).toEqual([...OPS].sort()));

  it.each(OPS)('%s', (name) => {
    const op = (core as unknown as { readonly [op: string]: (...args: unknown[]) => unknown })[name];
    const right = CALLS()[name];
    expect(right.length, 'CALLS has an argument for each parameter').toBeGreaterThanOrEqual(op.length);
    op(...right);
    for (let at = 0; at < right.length; at++) {
      for (const odd of ODD) {
        let error: unknown;
        try {
          op(...right.with(at, odd));
        } catch (e) {
          error = e;
        }
        const fits =
          odd === undefined
            ? at > 0
            : Number.isNaN(odd)
              ? at > 0 || OPERANDS.test(name)
              : (odd === 'text' && name === 'set_name') || (isEmpty(odd) && isOptions(right[at]));
        const accepted = error === undefined && fits;
        if (!accepted) expect(error, `argument ${at}: ${String(odd)}`).toBeInstanceOf(core.QuantletError);
      }
    }
  });

  it.each<[string, (odd: never) => unknown]>([
    ['tensor: type', (odd) => engine.tensor(odd, [4])],
    ['tensor: ne', (odd) => engine.tensor('f32', odd)],
    ['free', (odd) => engine.free(odd)],
    ['write', (odd) => engine.write(odd, [1])],
    ['read', (odd) => engine.read(odd)],
    ['view', (odd) => engine.view(odd)],
    ['pack', (odd) => engine.pack(odd)],
    ['plan', (odd) => engine.plan(odd)],
    ['compute', (odd) => engine.compute(odd)],
    ['explain', (odd) => core.explain(odd)],
    ['load', (odd) => engine.load(odd, 'x')],
    ['load: name', (odd) => engine.load(new Uint8Array(4), odd)],
  ])('engine.%s', async (_, call) => {
    for (const odd of ODD)
      await expect(
        Promise.resolve().then(() => call(odd as never)),
        String(odd),
      ).rejects.toBeInstanceOf(core.QuantletError);
  });

  it('createEngine', async () => {
    for (const odd of [null, 'text', 3, [], new Map()])
      await expect(createEngine(odd as never), String(odd)).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    await expect(createEngine({ thread: 2 } as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/createEngine: there is no option "thread"; did you mean threads/),
    });
    await expect(createEngine({ contextLength: 512 } as never)).rejects.toMatchObject({
      message: expect.stringMatching(/there is no option "contextLength"; expected threads, memoryBytes, build, turbo, wasm/),
    });
    await expect(createEngine({ threads: '2' as never })).rejects.toMatchObject({
      message: expect.stringMatching(/threads is "2"; expected a whole number/),
    });
    await expect(createEngine({ build: 5 as never })).rejects.toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    for (const wasm of [null, 5, 'nothing', new Uint8Array(8)])
      await expect(createEngine({ wasm: wasm as never }), String(wasm)).rejects.toBeInstanceOf(core.QuantletError);
  });

  it("messages say nothing of models' options", async () => {
    const told: string[] = [];
    for (const options of [{ memoryBytes: 2 ** 33 }, { memoryBytes: 2 ** 32 - 65536 * 3 }, { threads: 0 }, { build: 'none' as never }])
      await createEngine(options).then(
        (e) => e.dispose(),
        (e: Error) => told.push(e.message),
      );
    expect(told.length).toBeGreaterThanOrEqual(3);
    for (const message of told) expect(message).not.toMatch(/contextLength|loadModel|quantisation|the model/);
  });
});
