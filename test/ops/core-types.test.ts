/**
 * Types of tensors that TypeScript infers without a cast. This file is in the type check, and its
 * assertions hold at run time too.
 */
import { expect, expectTypeOf, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Data, type Halves, type Operand, type Tensor, type TensorData } from 'quantlet/core';

it('read gives the array of its type', async () => {
  await using engine = await createEngine({ build: 'simd' });
  const x: Tensor<'f32'> = engine.tensor('f32', [4], [1, 2, 3, 4]);
  const h: Tensor<'f16'> = core.cast(x, 'f16');
  const ids: Tensor<'i32'> = core.argsort(x);
  const y: Tensor<'f32'> = core.mul(core.add(core.mul_mat(core.cont(x), x), 1), 2);
  const sum: Tensor<'f16'> = core.add(h, x);
  const blocks = engine.tensor('q8_0', [32]);
  const some: Tensor = blocks;
  const turned: Tensor<'f16'> = core.transpose(core.reshape(sum, [2, 2]));
  const copied: Tensor<'f16'> = core.cpy(x, engine.tensor('f16', [4]));
  const plan = engine.plan(y, ids, sum, core.rms_norm(x, { eps: 1e-5, weight: x }), copied);
  await engine.compute(plan, { signal: new AbortController().signal });

  const floats: Float32Array = engine.read(y);
  const indices: Int32Array = engine.read(ids);
  const halves: Halves = engine.read(turned);
  const bytes: Uint8Array = engine.read(blocks);
  const anything: TensorData = engine.read(some);
  const seen: Float32Array = engine.view(x);
  const wide: Float64Array = engine.read(sum, { as: 'f64' });
  const narrow: Float32Array = engine.read(some, { as: 'f32' });
  const i64: BigInt64Array = engine.read(engine.tensor('i64', [1], [1n]));
  const f64: Float64Array = engine.read(engine.tensor('f64', [1], 0.1));
  const i8: Int8Array = engine.read(engine.tensor('i8', [1]));
  const i16: Int16Array = engine.read(engine.tensor('i16', [1], [7]));
  expect([
    floats[0],
    indices[0],
    bytes.length,
    anything.length,
    seen[3],
    wide[1],
    narrow[0],
    i64[0],
    f64[0],
    i8[0],
    i16[0],
    halves.length,
  ]).toEqual([62, 3, 34, 34, 4, 4, 0, 1n, 0.1, 0, 7, 4]);

  expectTypeOf(core.pad(h, [1])).toEqualTypeOf<Tensor<'f16'>>();
  expectTypeOf(core.sum(core.sqr(h))).toEqualTypeOf<Tensor<'f32'>>();
  const image = core.reshape(x, [2, 2, 1]);
  const kernel = [
    [1, 0],
    [0, 1],
  ];
  expectTypeOf(core.conv_2d(kernel, image)).toEqualTypeOf<Tensor<'f32'>>();
  expectTypeOf(core.im2col(image, image)).toEqualTypeOf<Tensor<'f16'>>();
  expectTypeOf(core.im2col(image, image, { type: 'f32', padding: [1, 0] })).toEqualTypeOf<Tensor<'f32'>>();
  expectTypeOf(core.swiglu(x, x)).toEqualTypeOf<Tensor<'f32'>>();
  expectTypeOf(core.sub(1, x)).toEqualTypeOf<Tensor<'f32'>>();
  const untold: Tensor = x;
  expectTypeOf(core.add(untold, x)).toEqualTypeOf<Tensor<'f32' | 'f16'>>();
  expectTypeOf(core.rope_ext(core.reshape(h, [2, 1, 2]), [0, 1])).toEqualTypeOf<Tensor<'f16'>>();
  expectTypeOf(core.set_name(x, 'x')).toEqualTypeOf<Tensor<'f32'>>();
  expectTypeOf<readonly (readonly number[])[]>().toExtend<Operand & Data>();
  expectTypeOf<Float64Array>().toExtend<Operand & Data>();
});

it('the compiler rejects wrong uses too', async () => {
  await using engine = await createEngine({ build: 'simd' });
  const x = engine.tensor('f32', [4]);
  // @ts-expect-error an option's name
  expect(() => core.rms_norm(x, { epsilon: 1e-5 })).toThrow();
  // @ts-expect-error eps is required
  expect(() => core.norm(x, {})).toThrow();
  // @ts-expect-error an option's value
  expect(() => core.argsort(x, { order: 'down' })).toThrow();
  // @ts-expect-error an unknown type
  expect(() => engine.tensor('f31', [4])).toThrow();
  // @ts-expect-error only numbers
  expect(() => core.silu(3)).toThrow();
  // @ts-expect-error text
  expect(() => engine.write(x, 'abc')).toThrow();
});
