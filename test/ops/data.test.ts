/**
 * Data written to tensors and read back: every type's own array, bytes, lists, floats of other
 * widths, arrays of other realms.
 */
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as core from 'quantlet/core';
import { createEngine, type Engine, type TypeName } from 'quantlet/core';
import { toBf16, fromBf16, fromF16, toF16 } from '../../src/core/float16.ts';
import { TYPE } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { random } from '../kernel/harness.ts';
import { f16ToNumber, numberToF16 } from '../reference/f16.ts';
import { decode, roundBrain } from '../reference/golden-ops.ts';

let engine: Engine;
beforeAll(async () => void (engine = await createEngine({ threads: 2 })));
afterAll(() => engine.dispose());

const HAS_FLOAT16 = 'Float16Array' in globalThis;

describe('a type and its array', () => {
  it.each<[TypeName, string, unknown[]]>([
    ['f32', 'Float32Array', [1.5, -2, 0]],
    ['f64', 'Float64Array', [0.1, -1e300, 5e-324]],
    ['i8', 'Int8Array', [-128, 127, 0]],
    ['i16', 'Int16Array', [-32768, 32767, 1]],
    ['i32', 'Int32Array', [-(2 ** 31), 2 ** 31 - 1, 7]],
    ['i64', 'BigInt64Array', [-(2n ** 63n), 2n ** 63n - 1n, 7n]],
  ])('%s: %s, lists, bytes', (type, name, list) => {
    const t = engine.tensor(type, [3], list as number[]);
    const got = engine.read(t);
    expect(got.constructor.name).toBe(name);
    expect([...(got as unknown as Iterable<unknown>)]).toEqual(list);
    for (const data of [got, new Uint8Array(got.buffer, got.byteOffset, got.byteLength)])
      expect(engine.read(engine.tensor(type, [3], data))).toEqual(got);
  });

  it('f16 is a Float16Array if the engine has it, else bits; bf16 is bits', () => {
    const h = engine.tensor('f16', [2], [1.5, -2]);
    const b = engine.tensor('bf16', [2], [1.5, -2]);
    expect(engine.read(h).constructor.name).toBe(HAS_FLOAT16 ? 'Float16Array' : 'Uint16Array');
    expect([...engine.read(h)]).toEqual(HAS_FLOAT16 ? [1.5, -2] : [0x3e00, 0xc000]);
    expect(engine.read(b)).toEqual(Uint16Array.of(0x3fc0, 0xc000));
    // Every engine accepts the bits.
    expect(engine.read(engine.tensor('f16', [2], Uint16Array.of(0x3e00, 0xc000)))).toEqual(engine.read(h));
    expect(engine.read(engine.tensor('f16', [2], engine.read(h)))).toEqual(engine.read(h));
  });

  it('types without kernels are copied whatever their strides', async () => {
    for (const type of ['i8', 'i16', 'i64', 'f64'] as const) {
      const t = engine.tensor(type, [3, 2], (type === 'i64' ? [1n, 2n, 3n, 4n, 5n, 6n] : [1, 2, 3, 4, 5, 6]) as number[]);
      const turned = core.cont(core.transpose(t));
      const into = engine.tensor(type, [6]);
      const plan = engine.plan(turned, core.cpy(t, into));
      await engine.compute(plan);
      expect([...(engine.read(turned) as Iterable<number | bigint>)].map(Number)).toEqual([1, 4, 2, 5, 3, 6]);
      expect([...(engine.read(into) as Iterable<number | bigint>)].map(Number)).toEqual([1, 2, 3, 4, 5, 6]);
      plan.dispose();
    }
  });
});

describe('lists and numbers', () => {
  it('flat, nested, one for all', () => {
    expect([
      ...engine.read(
        engine.tensor(
          'f32',
          [2, 3],
          [
            [1, 2],
            [3, 4],
            [5, 6],
          ],
        ),
      ),
    ]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...engine.read(engine.tensor('f32', [2, 1, 2], [[[1, 2]], [Float64Array.of(3, 4)]]))]).toEqual([1, 2, 3, 4]);
    expect([...engine.read(engine.tensor('i32', [4], -3))]).toEqual([-3, -3, -3, -3]);
    expect([...engine.read(engine.tensor('f16', [3], 0.5), { as: 'f32' })]).toEqual([0.5, 0.5, 0.5]);
    const t = engine.tensor('f32', [2, 2], {
      data: [
        [1, 2],
        [3, 4],
      ],
      name: 'w',
    });
    engine.write(t, 9);
    engine.write(core.view(t, [2], { offset: 8 }), [7, 8]);
    expect([...engine.read(t)]).toEqual([9, 9, 7, 8]);
  });

  it.each<[string, TypeName, number[], unknown, RegExp]>([
    ['too few', 'f32', [4], [1, 2, 3], /takes 4 numbers, got 3/],
    [
      'rows for columns',
      'f32',
      [3, 2],
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      /got lists of ne \[2, 3, 1, 1\]; the innermost list is dimension 0/,
    ],
    ['fractions of integers', 'i8', [2], [1, 1.5], /element 1 is 1\.5; .* whole numbers from -128 to 127/],
    ['beyond the type', 'i16', [1], [32768], /element 0 is 32768.*-32768 to 32767/],
    ['beyond 64 bits', 'i64', [1], [2n ** 63n], /element 0 is 9223372036854775808n/],
    ['NaN as an integer', 'i32', [1], [NaN], /element 0 is NaN/],
    ['numbers for blocks', 'q4_0', [32], new Array<number>(32).fill(1), /takes Uint8Array or its bytes .* got a list; cpy converts/],
    [
      'integers for floats',
      'f32',
      [1],
      Int32Array.of(1),
      /takes Float32Array, another array of floats, a list of numbers or its bytes as Uint8Array, got Int32Array/,
    ],
    ['floats for integers', 'i32', [1], Float32Array.of(1), /takes Int32Array, a list of numbers or its bytes .* got Float32Array/],
    ['text', 'f32', [1], 'abc', /got "abc"/],
    ['null', 'f32', [1], null, /got null/],
    ['a buffer', 'f32', [1], new ArrayBuffer(4), /got an object of type ArrayBuffer/],
    ['text in a list', 'f32', [1], ['1'], /element 0 is "1"/],
  ])('%s', (_, type, ne, data, says) => {
    const free = engine.freeBytes;
    expect(() => engine.tensor(type, ne, data as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT', message: expect.stringMatching(says) }),
    );
    expect(engine.freeBytes).toBe(free);
  });
});

describe('floats of other widths', () => {
  const values = [0.1, -1 / 3, 65519.99, 65520, 1e-8, 6e-8, -0, Infinity, 2049, 2051];

  it('are rounded once', () => {
    const data = Float64Array.from(values);
    expect([...engine.read(engine.tensor('f32', [10], data))]).toEqual(values.map(Math.fround));
    expect([...engine.read(engine.tensor('f64', [10], Float32Array.from(values)))]).toEqual(values.map(Math.fround));
    expect([...engine.read(engine.tensor('f16', [10], data), { as: 'f64' })]).toEqual(values.map((v) => f16ToNumber(numberToF16(v))));
    expect([...engine.read(engine.tensor('bf16', [10], data), { as: 'f64' })]).toEqual(values.map(roundBrain));
    expect([...engine.read(engine.tensor('f64', [10], data), { as: 'f32' })]).toEqual(values.map(Math.fround));
    expect([...engine.read(engine.tensor('i64', [2], [7n, -1n]), { as: 'f32' })]).toEqual([7, -1]);
  });

  it('every f16 and bf16 goes there and back; neighbours and ties round to even', () => {
    const r = random(5);
    const bits = Array.from({ length: 0x10000 }, (_, i) => i);
    const same = (a: number, b: number): boolean => Object.is(a, b);
    expect(
      bits.find((b) => !same(fromF16(b), f16ToNumber(b)) || !(Number.isNaN(fromF16(b)) || toF16(fromF16(b)) === b)),
      'f16',
    ).toBe(undefined);
    expect(
      bits.find((b) => !(Number.isNaN(fromBf16(b)) || toBf16(fromBf16(b)) === b)),
      'bf16',
    ).toBe(undefined);
    for (let i = 0; i < 20_000; i++) {
      const x = (r() - 0.5) * 2 ** (60 * r() - 40);
      const tie = (fromF16(i) + fromF16(i + 1)) / 2;
      if (toF16(x) !== numberToF16(x) || toF16(tie) !== numberToF16(tie) || toBf16(Math.fround(x)) !== toBf16(roundBrain(x)))
        expect.fail(`${x} or ${tie} is rounded wrongly`);
    }
    // Via f32 this would be rounded twice.
    expect(toF16(1 + 2 ** -11 + 2 ** -40)).toBe(toF16(1 + 2 ** -10));
    expect([NaN, -NaN].map(toBf16)).toEqual([0x7fc0, 0x7fc0]);
    expect([1e300, -1e300, 3.4e38].map(toBf16)).toEqual([0x7f80, 0xff80, 0x7f80]);
  });

  it('blocks are read as numbers, permuted and cut', async () => {
    for (const type of ['q8_0', 'q4_0'] as const) {
      const bytes = randomBlocks(type, TYPE[type].typeSize, 6, 3);
      const t = engine.tensor(type, [64, 3], bytes);
      const want = decode(type, bytes);
      const free = engine.freeBytes;
      expect(Float64Array.from(engine.read(t, { as: 'f32' }))).toEqual(want);
      expect(engine.read(t, { as: 'f64' })).toEqual(want);
      expect(
        Float64Array.from(
          engine.read(core.view(t, [32, 2], { nb: [2 * TYPE[type].typeSize], offset: TYPE[type].typeSize }), { as: 'f32' }),
        ),
      ).toEqual(Float64Array.from([...want.subarray(32, 64), ...want.subarray(96, 128)]));
      expect(engine.freeBytes).toBe(free);
    }
    const k = engine.tensor('q4_K', [256, 2], randomBlocks('q4_K', 144, 2, 4));
    for (const t of [k, engine.tensor('q2_0', [64, 2], randomBlocks('q2_0', 18, 2, 4))]) {
      const plain = core.cast(t, 'f32');
      const plan = engine.plan(plain);
      await engine.compute(plan);
      expect(engine.read(t, { as: 'f32' })).toEqual(engine.read(plain));
      plan.dispose();
    }
    expect(() => engine.read(k, { as: 'f16' as never })).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARGUMENT',
        message: expect.stringMatching(/read: as is "f16"; expected "f32" or "f64"/),
      }),
    );
  });
});

describe('another realm', () => {
  const there = <T>(code: string): T => runInNewContext(code) as T;

  it('its typed arrays, lists and options are as ours', async () => {
    const t = engine.tensor('f32', [2], there<Float32Array>('Float32Array.of(1, 2)'));
    engine.write(t, there<Float32Array>('new Float32Array([3, 4])'));
    expect([...engine.read(t)]).toEqual([3, 4]);
    expect([...engine.read(engine.tensor('q8_0', [32], there<Uint8Array>('new Uint8Array(34)')))]).toHaveLength(34);
    expect([...engine.read(engine.tensor('f32', there<number[]>('[2]'), there<number[]>('[[5, 6]]')))]).toEqual([5, 6]);
    const y = core.add(core.scale(t, 1, there<{ bias: number }>('({ bias: 1 })')), there<Float64Array>('Float64Array.of(10, 20)'));
    const plan = engine.plan(y);
    await engine.compute(plan, there<object>('({})'));
    expect([...engine.read(y)]).toEqual([14, 25]);
  });
});
