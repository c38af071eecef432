/**
 * Wrong calls are refused before any kernel runs, by a message with the op, the shapes and what was
 * expected.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine, type Tensor } from 'quantlet/core';

let engine: Engine, other: Engine;
beforeAll(async () => void ([engine, other] = [await createEngine({ threads: 2 }), await createEngine({ build: 'simd' })]));
afterAll(() => Promise.all([engine.dispose(), other.dispose()]));

const t = (type: core.TypeName, ...ne: number[]): Tensor => engine.tensor(type, ne);
const f32 = (...ne: number[]): Tensor => t('f32', ...ne);

describe('shapes and types', () => {
  it.each<[string, () => unknown, string, RegExp]>([
    [
      'mul_mat: wrong ne0',
      () => core.mul_mat(f32(32, 4), f32(31, 5)),
      'ERR_TENSOR_SHAPE',
      /mul_mat: .*\[32, 4, 1, 1\].*\[31, 5, 1, 1\].*ne0/,
    ],
    [
      'mul_mat: broadcast does not divide',
      () => core.mul_mat(f32(32, 4, 2), f32(32, 4, 3)),
      'ERR_TENSOR_SHAPE',
      /mul_mat: .*\[32, 4, 2, 1\].*\[32, 4, 3, 1\].*divide/,
    ],
    [
      'mul_mat: no kernel',
      () => core.mul_mat(t('i32', 32, 4), f32(32, 4)),
      'ERR_UNSUPPORTED_TYPE',
      /mul_mat: .*i32 \[32, 4, 1, 1\] and .*f32 \[32, 4, 1, 1\].*no kernel for i32.*q4_0/,
    ],
    [
      'mul_mat: activations of a wrong type',
      () => core.mul_mat(f32(32, 4), t('i32', 32, 4)),
      'ERR_UNSUPPORTED_TYPE',
      /mul_mat: .*i32 \[32, 4, 1, 1\].*expected activations of f32/,
    ],
    [
      'add: broadcast does not divide',
      () => core.add(f32(32, 4), f32(32, 3)),
      'ERR_TENSOR_SHAPE',
      /add: .*\[32, 4, 1, 1\].*\[32, 3, 1, 1\].*divide/,
    ],
    ['div: integers', () => core.div(t('i32', 4), t('i32', 4)), 'ERR_UNSUPPORTED_TYPE', /div: .*i32 \[4, 1, 1, 1\]/],
    ['mul_inplace of f16', () => core.mul_inplace(t('f16', 4), f32(4)), 'ERR_TENSOR_SHAPE', /mul_inplace/],
    ['swiglu: shapes', () => core.swiglu(f32(32, 4), f32(16, 4)), 'ERR_TENSOR_SHAPE', /swiglu: .*\[32, 4, 1, 1\].*\[16, 4, 1, 1\]/],
    ['geglu: odd row', () => core.geglu(f32(33, 4)), 'ERR_TENSOR_SHAPE', /geglu: .*\[33, 4, 1, 1\].*even/],
    [
      'rms_norm: weight',
      () => core.rms_norm(f32(32, 4), { weight: f32(16), eps: 1e-5 }),
      'ERR_TENSOR_SHAPE',
      /rms_norm: .*\[32, 4, 1, 1\].*\[16, 1, 1, 1\]/,
    ],
    ['rope_ext: odd dimensions', () => core.rope_ext(f32(16, 2, 3), t('i32', 3), { nDims: 7 }), 'ERR_TENSOR_SHAPE', /rope_ext: .*7.*even/],
    ['rope_ext: positions', () => core.rope_ext(f32(16, 2, 3), t('i32', 4)), 'ERR_TENSOR_SHAPE', /rope: .*\[16, 2, 3, 1\].*\[4, 1, 1, 1\]/],
    [
      'soft_max: mask',
      () => core.soft_max(f32(8, 4), { mask: f32(7, 4) }),
      'ERR_TENSOR_SHAPE',
      /soft_max: .*\[8, 4, 1, 1\].*\[7, 4, 1, 1\]/,
    ],
    ['soft_max: ALiBi without mask', () => core.soft_max(f32(8, 4), { maxBias: 8 }), 'ERR_TENSOR_SHAPE', /maxBias/],
    [
      'flash_attn_ext: heads',
      () => core.flash_attn_ext(f32(8, 4, 3), f32(8, 9, 2), f32(8, 9, 2)),
      'ERR_TENSOR_SHAPE',
      /flash_attn_ext: .*\[8, 4, 3, 1\].*\[8, 9, 2, 1\]/,
    ],
    [
      'flash_attn_ext: mask type',
      () => core.flash_attn_ext(f32(8, 4, 2), f32(8, 9, 2), f32(8, 9, 2), { mask: t('i32', 9, 4) }),
      'ERR_UNSUPPORTED_TYPE',
      /flash_attn_ext: .*i32/,
    ],
    [
      'weighted_sum: a weight too few',
      () => core.weighted_sum(f32(8, 4, 2), f32(1, 3, 2)),
      'ERR_TENSOR_SHAPE',
      /weighted_sum: .*one weight for each row/,
    ],
    [
      'flash_attn_ext: sinks',
      () => core.flash_attn_ext(f32(8, 4, 2), f32(8, 9, 2), f32(8, 9, 2), { sinks: [1, 2, 3] }),
      'ERR_TENSOR_SHAPE',
      /flash_attn_ext: .*one sink for each head/,
    ],
    [
      'flash_attn_ext: window without causal',
      () => core.flash_attn_ext(f32(8, 4, 2), f32(8, 9, 2), f32(8, 9, 2), { window: 3 }),
      'ERR_TENSOR_SHAPE',
      /causal/,
    ],
    ['get_rows: ids', () => core.get_rows(f32(8, 4), f32(3)), 'ERR_UNSUPPORTED_TYPE', /get_rows: .*i32 ids/],
    [
      'set_rows: rows',
      () => core.set_rows(f32(8, 4), f32(7, 2), t('i32', 2)),
      'ERR_TENSOR_SHAPE',
      /set_rows: .*\[8, 4, 1, 1\].*\[7, 2, 1, 1\]/,
    ],
    ['cpy: counts', () => core.cpy(f32(8, 4), f32(8, 5)), 'ERR_TENSOR_SHAPE', /cpy: .*\[8, 4, 1, 1\].*\[8, 5, 1, 1\]/],
    [
      'cpy: no quantiser without an importance matrix',
      () => core.cpy(f32(256, 2), t('iq2_xs', 256, 2)),
      'ERR_UNSUPPORTED_TYPE',
      /cpy: .*iq2_xs/,
    ],
    ['cast: cut blocks', () => core.cast(f32(40, 2), 'q8_0'), 'ERR_TENSOR_SHAPE', /cast: .*\[40, 2, 1, 1\].*32/],
    [
      'concat: other dimensions',
      () => core.concat(f32(8, 4), f32(8, 5), 0),
      'ERR_TENSOR_SHAPE',
      /concat: .*\[8, 4, 1, 1\].*\[8, 5, 1, 1\]/,
    ],
    ['reshape: counts', () => core.reshape(f32(8, 4), [8, 5, 1, 1]), 'ERR_TENSOR_SHAPE', /reshape: .*40 elements; expected 32/],
    ['reshape: gaps', () => core.reshape(core.transpose(f32(8, 4)), [32, 1, 1, 1]), 'ERR_TENSOR_SHAPE', /reshape: .*cont/],
    [
      'view: beyond the end',
      () => core.view(f32(8, 4), [8, 4, 1, 1], { offset: 4 }),
      'ERR_TENSOR_SHAPE',
      /view: .*byte 132; expected at most 128/,
    ],
    [
      'view: half a block',
      () => core.view(t('q8_0', 64, 2), [32, 2, 1, 1], { nb: [68], offset: 17 }),
      'ERR_TENSOR_SHAPE',
      /view: .*34 bytes/,
    ],
    ['view: half a row', () => core.view(f32(8, 4), [8, 1.5, 1, 1]), 'ERR_TENSOR_SHAPE', /view: ne is \[8, 1.5, 1, 1\].*whole numbers/],
    ['view: backwards', () => core.view(f32(8, 4), [8, 4], { nb: [-32], offset: 96 }), 'ERR_TENSOR_SHAPE', /view: .*\[8, 4, 1, 1\].*-32/],
    ['reshape: less than no rows', () => core.reshape(f32(8, 4), [-8, -4]), 'ERR_TENSOR_SHAPE', /reshape: ne is \[-8, -4\]/],
    ['repeat: not once', () => core.repeat(f32(8, 4), [0, 4]), 'ERR_TENSOR_SHAPE', /repeat: ne is \[0, 4\]/],
    ['repeat: no multiple', () => core.repeat(f32(8, 4), [12, 4]), 'ERR_TENSOR_SHAPE', /repeat: .*\[8, 4, 1, 1\].*\[12, 4, 1, 1\]/],
    ['concat: between two dimensions', () => core.concat(f32(8, 4), f32(8, 4), 0.5), 'ERR_TENSOR_SHAPE', /concat: .*0\.5/],
    [
      'concat: blocks',
      () => core.concat(t('q8_0', 32), t('q8_0', 32), 0),
      'ERR_UNSUPPORTED_TYPE',
      /concat: .*q8_0 \[32, 1, 1, 1\] and .*q8_0/,
    ],
    ['cast: no such type', () => core.cast(f32(32), 'q9' as never), 'ERR_UNSUPPORTED_TYPE', /cast: .*f32.*type is "q9"; expected one of/],
    [
      'cpy: integers to floats',
      () => core.cpy(t('i32', 8), f32(8)),
      'ERR_UNSUPPORTED_TYPE',
      /cpy: .*i32 \[8, 1, 1, 1\] and .*f32 \[8, 1, 1, 1\].*no kernel/,
    ],
    ['silu: blocks', () => core.silu(t('q4_0', 32)), 'ERR_UNSUPPORTED_TYPE', /silu: .*q4_0 \[32, 1, 1, 1\]/],
    ['scale: by nothing', () => core.scale(f32(8), undefined as never), 'ERR_INVALID_ARGUMENT', /scale: s is undefined; expected a number/],
    [
      'fwht: a row of 36',
      () => core.fwht(f32(36, 2)),
      'ERR_TENSOR_SHAPE',
      /fwht: .*\[36, 2, 1, 1\]: n is 36; expected 2\^k, or 12, 20 or 28 times 2\^k/,
    ],
    ['fwht: n divides no row', () => core.fwht(f32(48, 2), { n: 32 }), 'ERR_TENSOR_SHAPE', /fwht: .*\[48, 2, 1, 1\]: n is 32; expected/],
    [
      'fwht: n is no size',
      () => core.fwht(f32(8), { n: 0 }),
      'ERR_INVALID_ARGUMENT',
      /fwht: n is 0; expected a whole number of at least 1/,
    ],
    ['rms_norm: no eps', () => core.rms_norm(f32(8, 4), {} as never), 'ERR_INVALID_ARGUMENT', /rms_norm: the option eps is missing/],
    ['rms_norm: eps is no number', () => core.rms_norm(f32(8, 4), { eps: NaN }), 'ERR_INVALID_ARGUMENT', /rms_norm: eps is NaN/],
    ['norm: a negative eps', () => core.norm(f32(8, 4), { eps: -1 }), 'ERR_INVALID_ARGUMENT', /norm: .*eps is -1/],
    ['diag_mask_inf: half a token', () => core.diag_mask_inf(f32(8, 4), 0.5), 'ERR_INVALID_ARGUMENT', /diag_mask_inf: .*0\.5/],
    [
      'pad: less than nothing',
      () => core.pad(f32(8, 4), [1, -1]),
      'ERR_INVALID_ARGUMENT',
      /pad: right\[1\] is -1; expected a whole number of at least 0/,
    ],
    ['pad: no list', () => core.pad(f32(8, 4), 1 as never), 'ERR_INVALID_ARGUMENT', /pad: right is 1; expected a list of one to four/],
    ['pad: blocks', () => core.pad(t('q8_0', 64, 2), [0, 1]), 'ERR_UNSUPPORTED_TYPE', /pad: .*q8_0 \[64, 2, 1, 1\].*unquantised/],
    ['pad: a wrong name', () => core.pad(f32(8, 4), [1], { lefts: [1] } as never), 'ERR_INVALID_ARGUMENT', /pad: .*lefts.*left/],
    [
      'group_norm: no groups',
      () => core.group_norm(f32(8, 4, 2), { eps: 1e-5 } as never),
      'ERR_INVALID_ARGUMENT',
      /group_norm: .*groups is missing/,
    ],
    [
      'group_norm: none of them',
      () => core.group_norm(f32(8, 4, 2), { groups: 0, eps: 1e-5 }),
      'ERR_INVALID_ARGUMENT',
      /group_norm: groups is 0/,
    ],
    [
      'im2col: channels',
      () => core.im2col(f32(3, 3, 2), f32(8, 8, 3)),
      'ERR_TENSOR_SHAPE',
      /im2col: .*\[3, 3, 2, 1\].*\[8, 8, 3, 1\].*channels/,
    ],
    [
      'im2col: two strides in one dimension',
      () => core.im2col(f32(3, 2), f32(8, 2), { is2D: false, stride: [1, 1] }),
      'ERR_INVALID_ARGUMENT',
      /im2col: stride is/,
    ],
    [
      'conv_1d: a kernel that is too long',
      () => core.conv_1d(f32(9, 2, 3), f32(8, 2)),
      'ERR_TENSOR_SHAPE',
      /im2col: .*\[9, 2, 3, 1\].*larger than/,
    ],
    ['conv_1d: images', () => core.conv_1d(f32(3, 2, 3), f32(8, 2, 1, 2)), 'ERR_TENSOR_SHAPE', /conv_1d: .*ne3 of the tensor to be 1/],
    [
      'conv_2d: a kernel of blocks',
      () => core.conv_2d(t('q8_0', 32, 3, 2, 1), f32(40, 8, 2)),
      'ERR_UNSUPPORTED_TYPE',
      /conv_2d: .*q8_0 \[32, 3, 2, 1\].*a kernel of f32/,
    ],
    [
      'conv_2d: no stride',
      () => core.conv_2d(f32(3, 3, 2, 1), f32(8, 8, 2), { stride: 0 }),
      'ERR_INVALID_ARGUMENT',
      /conv_2d: stride is 0.*two of them/,
    ],
    [
      'conv_2d: nothing to move over',
      () => core.conv_2d(f32(3, 3, 2, 1), undefined as never),
      'ERR_INVALID_ARGUMENT',
      /conv_2d: x is undefined; expected a tensor/,
    ],
    ['sqr: of a number', () => core.sqr(3 as never), 'ERR_INVALID_ARGUMENT', /sqr: a is 3; expected a tensor/],
    ['sum: integers', () => core.sum(t('i32', 4)), 'ERR_UNSUPPORTED_TYPE', /sum: .*i32 \[4, 1, 1, 1\]/],
    [
      'pool_1d: half an element',
      () => core.pool_1d(f32(8, 4), { kind: 'max', k: 1.5, s: 1 }),
      'ERR_INVALID_ARGUMENT',
      /pool_1d: k is 1\.5; expected a whole number/,
    ],
    ['argmax: more than a matrix', () => core.argmax(f32(8, 4, 2)), 'ERR_TENSOR_SHAPE', /argmax: .*\[8, 4, 2, 1\].*matrix/],
    [
      'mean_of_rows: counts',
      () => core.mean_of_rows(f32(8, 4), t('i32', 3), t('i32', 2)),
      'ERR_TENSOR_SHAPE',
      /mean_of_rows: .*\[8, 4, 1, 1\].*\[3, 1, 1, 1\].*\[2, 1, 1, 1\]/,
    ],
    [
      'rope_ext: an unknown mode',
      () => core.rope_ext(f32(16, 2, 3), t('i32', 3), { mode: 'mrope' as never }),
      'ERR_INVALID_ARGUMENT',
      /rope_ext: .*mrope/,
    ],
    [
      'rope_ext: a table of no positions',
      () => core.rope_ext(f32(16, 2, 3), t('i32', 3), { nCtx: 0 }),
      'ERR_INVALID_ARGUMENT',
      /rope_ext: nCtx is 0/,
    ],
    [
      'flash_attn_ext: keys without a kernel',
      () => core.flash_attn_ext(f32(8, 4, 2), t('i32', 8, 9, 2), t('i32', 8, 9, 2)),
      'ERR_UNSUPPORTED_TYPE',
      /flash_attn_ext: .*i32 \[8, 9, 2, 1\]/,
    ],
    [
      'flash_attn_ext: half a window',
      () => core.flash_attn_ext(f32(8, 4, 2), f32(8, 9, 2), f32(8, 9, 2), { causal: true, window: 1.5 }),
      'ERR_INVALID_ARGUMENT',
      /flash_attn_ext: .*window is 1\.5/,
    ],
    ['permute: the same axis twice', () => core.permute(f32(8, 4), 0, 0, 2, 3), 'ERR_TENSOR_SHAPE', /permute/],
    ['transpose of blocks', () => core.transpose(t('q8_0', 64, 2)), 'ERR_TENSOR_SHAPE', /permute: .*q8_0/],
    ['top_k: more than there are', () => core.top_k(f32(8, 4), 9), 'ERR_TENSOR_SHAPE', /top_k: .*\[8, 4, 1, 1\].*9/],
    ['tensor: half a block', () => t('q4_0', 33), 'ERR_TENSOR_SHAPE', /q4_0.*33.*32/],
    ['tensor: no size', () => f32(4, 0), 'ERR_TENSOR_SHAPE', /\[4, 0\]/],
    ['tensor: five dimensions', () => f32(1, 1, 1, 1, 1), 'ERR_TENSOR_SHAPE', /one to four/],
    ['tensor: unknown type', () => t('f31' as never, 4), 'ERR_INVALID_ARGUMENT', /"f31".*f32/],
    ['tensor: no ne', () => engine.tensor('f32', 4 as never), 'ERR_TENSOR_SHAPE', /tensor: ne is 4; expected one to four/],
    ['plan: a list', () => engine.plan([f32(4)] as never), 'ERR_INVALID_ARGUMENT', /plan: expected a tensor, got a list/],
    ['read: nothing', () => engine.read(undefined as never), 'ERR_INVALID_ARGUMENT', /read: expected a tensor, got undefined/],
    ['tensor: too large', () => f32(1 << 20, 1 << 10), 'ERR_OUT_OF_MEMORY', /4096 MiB.*memoryBytes/],
  ])('%s', (_, make, code, says) => {
    let error: unknown;
    try {
      make();
    } catch (e) {
      error = e;
    }
    expect(error).toBeInstanceOf(core.QuantletError);
    expect((error as core.QuantletError).code, String(error)).toBe(code);
    expect((error as Error).message).toMatch(says);
  });
});

const refused = async (work: () => unknown): Promise<{ code?: string; message?: string }> => {
  try {
    await work();
  } catch (e) {
    return e as { code: string; message: string };
  }
  return {};
};

describe('engines, data and plans', () => {
  it('a tensor of another engine', async () => {
    expect(await refused(() => core.add(f32(4), other.tensor('f32', [4])))).toMatchObject({
      code: 'ERR_TENSOR_SHAPE',
      message: expect.stringMatching(/add: .*\[4, 1, 1, 1\].*expected tensors of one engine/),
    });
    expect(await refused(() => engine.plan(core.silu(other.tensor('f32', [4]))))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/another engine/),
    });
    expect(await refused(() => engine.read(other.tensor('f32', [4])))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    const plan = other.plan(core.silu(other.tensor('f32', [4])));
    expect(await refused(() => engine.compute(plan))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('a disposed engine', async () => {
    const gone = await createEngine({ build: 'simd' });
    const x = gone.tensor('f32', [4]);
    const plan = gone.plan(core.silu(x));
    await gone.dispose();
    await gone.dispose();
    for (const work of [
      () => gone.tensor('f32', [4]),
      () => gone.plan(core.silu(x)),
      () => gone.compute(plan),
      () => gone.read(x),
      () => gone.write(x, new Float32Array(4)),
      () => gone.free(x),
    ]) {
      expect(await refused(work)).toMatchObject({ code: 'ERR_DISPOSED' });
    }
  });

  it('data of another type or length', async () => {
    expect(await refused(() => engine.tensor('f32', [4], new Int32Array(4)))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/Float32Array.*Int32Array/),
    });
    expect(await refused(() => engine.write(f32(4), new Float32Array(5)))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/16 bytes, got 20/),
    });
    expect(await refused(() => engine.write(core.transpose(f32(4, 3)), new Float32Array(12)))).toMatchObject({ code: 'ERR_TENSOR_SHAPE' });
  });

  it('freed tensors, disposed plans, intermediate results', async () => {
    const x = f32(4);
    const mid = core.silu(x);
    const y = core.scale(mid, 2);
    const plan = engine.plan(y);
    expect(await refused(() => engine.read(mid))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/intermediate/),
    });
    engine.free(x);
    expect(await refused(() => engine.compute(plan))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/freed/),
    });
    plan.dispose();
    plan.dispose();
    expect(await refused(() => engine.compute(plan))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    expect(await refused(() => engine.read(y))).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
  });

  it('indices outside their table', async () => {
    const ids = engine.tensor('i32', [2], Int32Array.of(0, 4));
    const plan = engine.plan(core.get_rows(f32(8, 4), ids));
    expect(await refused(() => engine.compute(plan))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/get_rows: .*element 1 is 4.*0 to 3/),
    });
    const [from, count] = [engine.tensor('i32', [2], Int32Array.of(0, 2)), engine.tensor('i32', [2], Int32Array.of(4, 3))];
    expect(await refused(() => engine.compute(engine.plan(core.mean_of_rows(f32(8, 4), from, count))))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/mean_of_rows: .*\[8, 4, 1, 1\].*element 1 means rows 2 to 5.*0 to 4/),
    });
    const pos = engine.tensor('i32', [3], Int32Array.of(0, 1, 64));
    expect(await refused(() => engine.compute(engine.plan(core.rope_ext(f32(16, 2, 3), pos, { nCtx: 64 }))))).toMatchObject({
      code: 'ERR_INVALID_ARGUMENT',
      message: expect.stringMatching(/rope: .*element 2 is 64/),
    });
  });

  it('indices that are computed: NaN from get_rows and mean_of_rows, nothing from set_rows', async () => {
    const x = engine.tensor('f32', [8, 4], new Float32Array(32).fill(1));
    const ids = core.argmax(engine.tensor('f32', [8, 2], Float32Array.of(0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)));
    const rows = core.get_rows(x, ids);
    const mean = core.mean_of_rows(x, ids, core.argmax(engine.tensor('f32', [2, 2], Float32Array.of(0, 1, 0, 1))));
    const into = core.set_rows(core.cont(x), core.scale(rows, 2), ids);
    await engine.compute(engine.plan(rows, mean, into));
    for (const t of [rows, mean])
      expect([...(engine.read(t) as Float32Array)]).toEqual([...Array<number>(8).fill(1), ...Array<number>(8).fill(NaN)]);
    expect([...(engine.read(into) as Float32Array)]).toEqual(Array.from({ length: 32 }, (_, i) => (i >> 3 === 1 ? 2 : 1)));
  });

  it('a plan made before a matrix was packed', async () => {
    const w = engine.tensor(
      'f32',
      [5, 3],
      Float32Array.from({ length: 15 }, (_, i) => i),
    );
    const x = engine.tensor('f32', [5], Float32Array.of(1, 1, 1, 1, 1));
    const y = core.mul_mat(w, x);
    const early = engine.plan(y);
    expect(await engine.pack(w)).toBe(true);
    expect(await refused(() => engine.compute(early))).toMatchObject({
      code: 'ERR_TENSOR_SHAPE',
      message: expect.stringMatching(/compute: .*\[5, 3, 1, 1\].*packed after/),
    });
    await engine.compute(engine.plan(y));
    expect([...(engine.read(y) as Float32Array)]).toEqual([10, 35, 60]);
    engine.free(w);
  });

  it('a matrix with an infinite scale stays plain', async () => {
    const bytes = new Uint8Array(36).fill(0x11);
    const w = engine.tensor('q4_0', [32, 2], bytes);
    const x = engine.tensor('f32', [32], new Float32Array(32).fill(1));
    const y = core.mul_mat(w, x);
    bytes.set([0x00, 0x7c], 18);
    engine.write(w, bytes);
    expect(await engine.pack(w)).toBe(false);
    await engine.compute(engine.plan(y));
    expect((engine.read(y) as Float32Array)[1]).toBe(-Infinity);
  });

  it('packed tensors are only multiplied by and looked up in', async () => {
    const w = t('q4_0', 64, 20);
    expect(await engine.pack(w)).toBe(true);
    expect(await refused(() => engine.read(w))).toMatchObject({ code: 'ERR_TENSOR_SHAPE', message: expect.stringMatching(/packed/) });
    expect(await refused(() => engine.plan(core.cast(w, 'f32')))).toMatchObject({
      code: 'ERR_TENSOR_SHAPE',
      message: expect.stringMatching(/packed/),
    });
    expect(await refused(() => engine.pack(w))).toMatchObject({ code: 'ERR_TENSOR_SHAPE' });
  });

  it('too much memory, invalid numbers of threads', async () => {
    expect(await refused(() => createEngine({ memoryBytes: 2 ** 32 }))).toMatchObject({ code: 'ERR_OUT_OF_MEMORY' });
    for (const options of [
      { threads: 0 },
      { threads: 1.5 },
      { threads: 100_000 },
      { memoryBytes: NaN },
      { memoryBytes: 1000.5 },
      { memoryBytes: -1 },
    ]) {
      expect(await refused(() => createEngine(options)), JSON.stringify(options)).toMatchObject({ code: 'ERR_INVALID_ARGUMENT' });
    }
  });

  it.each(['simd', 'relaxed'] as const)('a signal that is aborted already stops %s before it computes', async (build) => {
    await using single = await createEngine({ build });
    const x = single.tensor('f32', [4], Float32Array.of(1, 2, 3, 4));
    const plan = single.plan(core.add_inplace(x, x));
    expect(await refused(() => single.compute(plan, { signal: AbortSignal.abort(new Error('enough')) }))).toMatchObject({
      message: 'enough',
    });
    expect(single.read(x)).toEqual(Float32Array.of(1, 2, 3, 4));
  });

  it.each([
    ['simd', 1],
    ['relaxed-threads', 3],
  ] as const)('more batches than a cursor counts, %s', async (build, threads) => {
    await using many = await createEngine({ build, threads });
    const n = 3 * 70_000;
    const w = many.tensor('q8_0', [32, 16]);
    const blocks = new Uint8Array(16 * 34);
    // scale 1, first weight r + 1
    for (let r = 0; r < 16; r++) blocks.set([0, 0x3c, r + 1], 34 * r);
    many.write(w, blocks);
    await many.pack(w);
    const x = many.tensor('f32', [32, 1, n]);
    const y = core.mul_mat(w, x);
    many.write(
      x,
      Float32Array.from({ length: 32 * n }, (_, i) => (i % 32 === 0 ? 1 : 0)),
    );
    await many.compute(many.plan(y));
    // Activations have 8 bits: 1 becomes 127 / 127.
    expect((many.view(y) as Float32Array).findIndex((v, i) => Math.abs(v - 1 - (i % 16)) > 0.01)).toBe(-1);
  });

  it('more threads than the sync block counts are refused', async () => {
    for (const threads of [0, 1.5, 513, 1024])
      expect(await refused(() => createEngine({ threads }))).toMatchObject({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringContaining('512'),
      });
  });

  it('while a plan runs, nothing that it needs is changed or given back', async () => {
    const w = engine.tensor('q4_0', [256, 512]);
    const x = engine.tensor('f32', [256, 64]);
    const y = core.mul_mat(w, x);
    const plan = engine.plan(y);
    const done = engine.compute(plan);
    for (const work of [
      () => plan.dispose(),
      () => engine.free(x),
      () => engine.write(x, new Float32Array(256 * 64)),
      () => engine.pack(w),
    ])
      expect(await refused(work)).toMatchObject({ code: 'ERR_BUSY' });
    await done;
    plan.dispose();
  });

  it('a run tells its progress, and may be aborted in it', async () => {
    let y: Tensor<'f32'> = engine.tensor('f32', [4], Float32Array.of(1, 2, 3, 4));
    for (let i = 0; i < 100; i++) y = core.add(y, 1);
    const plan = engine.plan(y);
    const told: number[] = [];
    await engine.compute(plan, { onProgress: (fraction) => void told.push(fraction) });
    expect([...engine.read(y)]).toEqual([101, 102, 103, 104]);
    expect([told.length > 8 && told.length <= 64, told.at(-1), told.every((one, i) => one > (told[i - 1] ?? 0))]).toEqual([true, 1, true]);
    const stop = new AbortController();
    const onProgress = (): void => stop.abort(new Error('enough'));
    expect(await refused(() => engine.compute(plan, { signal: stop.signal, onProgress }))).toMatchObject({ message: 'enough' });
  });

  it('calls take turns, and an aborted signal stops one', async () => {
    const x = engine.tensor('f32', [64], new Float32Array(64).fill(1));
    const y = core.scale(x, 3);
    const plan = engine.plan(y);
    await Promise.all([engine.compute(plan), engine.compute(plan), engine.compute(plan)]);
    expect(engine.read(y)[63]).toBe(3);
    expect(await refused(() => engine.compute(plan, { signal: AbortSignal.abort(new Error('enough')) }))).toMatchObject({
      message: 'enough',
    });
    await engine.compute(plan);
  });
});

it('examples/tensors.ts runs and prints the kernels that it used', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    'tsx',
    fileURLToPath(new URL('../../examples/tensors.ts', import.meta.url)),
  ]);
  expect(stdout).toMatch(/integer vec_dot/);
  expect(stdout).toMatch(/: packed, gemv/);
  const far = stdout
    .match(/product: ([\d.]+), ([\d.]+), ([\d.]+)/)!
    .slice(1)
    .map(Number);
  far.forEach((d) => expect(d).toBeLessThan(0.15)); // 4 bits
  expect(stdout).toMatch(/matrix q4_0 \[256, 64, 1, 1\], x as activations/);
  expect(stdout).toMatch(/rms_norm with output_norm\.weight: -?[\d.]+, /);
});
