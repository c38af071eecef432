/** vec_dot of every format against the scalar reference: exact in its integer part, and within ggml's own thresholds as a whole. */
import { describe, expect, it } from 'vitest';
import { TYPE, rowSize } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { vecDot } from '../reference/blocks.ts';
import { BUILDS, gaussian, instantiate, random } from './harness.ts';

interface Case {
  readonly kernel: string;
  readonly x: TypeName;
  readonly y: TypeName;
  /** Where a block of x holds f16 scales: set to 1 for the exact test. */
  readonly scales?: readonly number[];
}

const CASES: readonly Case[] = [
  { kernel: 'vec_dot_f32', x: 'f32', y: 'f32' },
  { kernel: 'vec_dot_f16', x: 'f16', y: 'f16' },
  { kernel: 'vec_dot_f16_f32', x: 'f16', y: 'f32' },
  { kernel: 'vec_dot_bf16', x: 'bf16', y: 'bf16' },
  { kernel: 'vec_dot_bf16_f32', x: 'bf16', y: 'f32' },
  { kernel: 'vec_dot_q8_0_q8_0', x: 'q8_0', y: 'q8_0', scales: [0] },
  { kernel: 'vec_dot_q4_0_q8_0', x: 'q4_0', y: 'q8_0', scales: [0] },
];

/** f32 sums of at most a few hundred partial sums in any order, of the sum of magnitudes: each rounding is 2^-24. */
const SUM_ORDER = 64 * 2 ** -24;

/** ggml's test-quantize-fns: |dot - dot of the f32 rows| / n for its cosine rows of 4096. */
const MAX_DOT_PRODUCT_ERROR = 0.02;
const MAX_DOT_PRODUCT_ERROR_LOWBIT = 0.04;
const LOWBIT: readonly TypeName[] = [];

const ONE = [0x00, 0x3c];

describe.each(BUILDS)('vec_dot on %s', (build) => {
  const k = instantiate(build);

  /** Bytes of a row quantised by the kernel under test (which other tests check bit for bit). */
  const quantize = (type: TypeName, values: Float32Array): Uint8Array => {
    const x = k.arena.f32(values);
    const y = k.arena.alloc(rowSize(TYPE[type], values.length));
    k.call(`quantize_row_${type}`, x, y, values.length);
    return k.arena.readBytes(y, rowSize(TYPE[type], values.length));
  };

  it.each(CASES)('$kernel: rows of many lengths, unaligned, and bit for bit the same when asked again', ({ kernel, x, y }) => {
    const step = Math.max(TYPE[x].blckSize, TYPE[y].blckSize);
    const lengths = step === 1 ? [1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 64, 100, 257, 768] : [1, 2, 3, 5, 8].map((b) => b * step);
    for (const [seed, n] of lengths.entries()) {
      k.arena.reset();
      const a = quantize(x, gaussian(n, 100 + seed, 0.1));
      const b = quantize(y, gaussian(n, 200 + seed));
      const p = k.arena.bytes(a, 1 + (seed % 3));
      const q = k.arena.bytes(b, 3);
      const got = k.call(kernel, n, p, q);
      const want = vecDot(x, a, y, b, n);
      const where = `seed ${seed}, n ${n}: got ${got}, want ${want.dot}`;
      expect(Math.abs(got - want.dot) <= SUM_ORDER * want.abs, where).toBe(true);
      const aligned = k.call(kernel, n, k.arena.bytes(a), k.arena.bytes(b));
      expect(Object.is(aligned, got), where).toBe(true);
      k.arena.checkGuards();
    }
  });

  it.each(CASES.filter((c) => c.scales))('$kernel: any bytes, -128 and 127 too, give the exact integer with scales of 1', ({ kernel, x, y, scales }) => {
    const r = random(7);
    const fills: readonly [string, () => number][] = [['random', () => r() * 256], ['0x80', () => 0x80], ['0x7f', () => 0x7f], ['0xff', () => 0xff], ['0', () => 0]];
    const bytesX = TYPE[x].typeSize;
    const bytesY = (TYPE[x].blckSize / TYPE[y].blckSize) * TYPE[y].typeSize;
    for (const [fillX, byteX] of fills) {
      for (const [fillY, byteY] of fills) {
        k.arena.reset();
        const a = Uint8Array.from({ length: bytesX }, byteX);
        const b = Uint8Array.from({ length: bytesY }, byteY);
        for (const offset of scales!) a.set(ONE, offset);
        b.set(ONE, 0);
        const got = k.call(kernel, TYPE[x].blckSize, k.arena.bytes(a, 1), k.arena.bytes(b, 1));
        expect(got, `x of ${fillX}, y of ${fillY}`).toBe(Math.fround(vecDot(x, a, y, b, TYPE[x].blckSize).dot));
      }
    }
  });

  it.each(CASES)("$kernel: ggml's threshold on its cosine rows", ({ kernel, x, y }) => {
    const n = 4096;
    k.arena.reset();
    const cosine = (offset: number): Float32Array => Float32Array.from({ length: n }, (_, i) => 0.1 + 2 * Math.cos(i + offset));
    const a = cosine(0);
    const b = cosine(1);
    const got = k.call(kernel, n, k.arena.bytes(quantize(x, a)), k.arena.bytes(quantize(y, b)));
    let want = 0;
    for (let i = 0; i < n; i++) want += a[i] * b[i];
    const limit = LOWBIT.includes(x) ? MAX_DOT_PRODUCT_ERROR_LOWBIT : MAX_DOT_PRODUCT_ERROR;
    expect(Math.abs(got - want) / n, `got ${got}, want ${want}`).toBeLessThan(limit);
  });
});
