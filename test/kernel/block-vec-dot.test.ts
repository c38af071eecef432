/**
 * vec_dot of every format compared with the scalar reference: exact in its integer part, and as a
 * whole within ggml's own thresholds.
 */
import { describe, expect, it } from 'vitest';
import { TYPE, rowSize, typesWith } from '../../src/type-traits.ts';
import type { TypeName } from '../../src/type-traits.ts';
import { vecDot } from '../reference/blocks.ts';
import { numberToF16 } from '../reference/f16.ts';
import { BUILDS, gaussian, instantiate, random } from './harness.ts';

interface Case {
  readonly kernel: string;
  readonly x: TypeName;
  readonly y: TypeName;
  /**
   * Offsets of the f16 scales in a block of x, which the exact test sets to 1. (mxfp4 and nvfp4
   * have byte scales, which are set separately.)
   */
  readonly scales?: readonly number[];
}

const CASES: readonly Case[] = [
  ...typesWith((k) => k.vecDotType).map(({ name, blckSize, kernels }): Case => {
    const { vecDotType: y, scales } = kernels!;
    return {
      kernel: name === 'f32' ? 'vec_dot_f32' : `vec_dot_${name}_${y}`,
      x: name,
      y: y!,
      ...(blckSize > 1 && { scales: Array.isArray(scales) ? (scales as readonly number[]) : [] }),
    };
  }),
];

/**
 * Tolerance of f32 sums of at most a few hundred partial sums in any order, as a fraction of the
 * sum of magnitudes. Each rounding is 2^-24.
 */
const SUM_ORDER = 64 * 2 ** -24;

/**
 * From ggml's test-quantize-fns: |dot - dot of the f32 rows| / n for its cosine rows of 4096.
 * Looser for 2 and 3 bits, trits, nvfp4 and signs.
 */
const MAX_DOT_PRODUCT_ERROR = 0.02;
const MAX_DOT_PRODUCT_ERROR_LOWBIT = 0.04;
const MAX_DOT_PRODUCT_ERROR_TERNARY = 0.15;
const MAX_DOT_PRODUCT_ERROR_FP4 = 0.03;
const MAX_DOT_PRODUCT_ERROR_BINARY = 0.4;

const maxDotProductError = (type: TypeName): number => {
  if (type === 'q1_0') return MAX_DOT_PRODUCT_ERROR_BINARY;
  if (type === 'nvfp4') return MAX_DOT_PRODUCT_ERROR_FP4;
  if (type.startsWith('tq') || type === 'q2_0') return MAX_DOT_PRODUCT_ERROR_TERNARY;
  const { typeSize, blckSize } = TYPE[type];
  return (8 * typeSize) / blckSize < 4 ? MAX_DOT_PRODUCT_ERROR_LOWBIT : MAX_DOT_PRODUCT_ERROR;
};

const ONE = [0x00, 0x3c];

/** `n` elements of activation blocks of `type`, with d = 1, random codes, and the matching sums. */
function unitActivations(type: TypeName, n: number, code: () => number): Uint8Array {
  const { blckSize, typeSize } = TYPE[type];
  const out = new Uint8Array((n / blckSize) * typeSize);
  const view = new DataView(out.buffer);
  for (let p = 0; p < out.length; p += typeSize) {
    const qs = p + (type === 'q8_0' ? 2 : 4);
    for (let j = 0; j < blckSize; j++) out[qs + j] = code();
    const sum = (from: number, count: number): number => {
      let s = 0;
      for (let j = 0; j < count; j++) s += view.getInt8(qs + from + j);
      return s;
    };
    if (type === 'q8_K') {
      view.setFloat32(p, 1, true);
      for (let j = 0; j < 16; j++) view.setInt16(p + 260 + 2 * j, sum(16 * j, 16), true);
    } else {
      out.set(ONE, p);
      if (type === 'q8_1') view.setUint16(p + 2, numberToF16(sum(0, 32)), true);
    }
  }
  return out;
}

describe.each(BUILDS)('vec_dot on %s', (build) => {
  const k = instantiate(build);

  /** A row quantised by the kernel under test, which other tests check bit by bit. */
  const quantize = (type: TypeName, values: Float32Array): Uint8Array => {
    const x = k.arena.f32(values);
    const y = k.arena.alloc(rowSize(TYPE[type], values.length));
    k.call(`quantize_row_${type}`, x, y, values.length, k.arena.alloc(k.call('quantize_work_size')));
    return k.arena.readBytes(y, rowSize(TYPE[type], values.length));
  };

  it.each(CASES)('$kernel: rows of many lengths, unaligned, and bit for bit the same when repeated', ({ kernel, x, y }) => {
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

  it.each(CASES.filter((c) => c.scales))(
    '$kernel: any bytes, -128 and 127 too, give the exact integer with scales of 1',
    ({ kernel, x, y, scales }) => {
      const r = random(7);
      const fills: readonly [string, () => number][] = [
        ['random', () => r() * 256],
        ['0x80', () => 0x80],
        ['0x7f', () => 0x7f],
        ['0xff', () => 0xff],
        ['0', () => 0],
      ];
      const n = TYPE[x].blckSize;
      for (const [fillX, byteX] of fills) {
        for (const [fillY, byteY] of fills) {
          k.arena.reset();
          const a = Uint8Array.from({ length: TYPE[x].typeSize }, byteX);
          for (const offset of scales!) a.set(ONE, offset);
          if (x === 'mxfp4') a[0] = 127;
          if (x === 'nvfp4') a.fill(0x38, 0, 4);
          const b = unitActivations(y, n, byteY);
          const got = k.call(kernel, n, k.arena.bytes(a, 1), k.arena.bytes(b, 1));
          expect(got, `x of ${fillX}, y of ${fillY}`).toBe(Math.fround(vecDot(x, a, y, b, n).dot));
        }
      }
    },
  );

  it.each(CASES)("$kernel: ggml's threshold on its cosine rows", ({ kernel, x, y }) => {
    const n = 4096;
    k.arena.reset();
    const cosine = (offset: number): Float32Array => Float32Array.from({ length: n }, (_, i) => 0.1 + 2 * Math.cos(i + offset));
    const a = cosine(0);
    const b = cosine(1);
    const got = k.call(kernel, n, k.arena.bytes(quantize(x, a)), k.arena.bytes(quantize(y, b)));
    let want = 0;
    for (let i = 0; i < n; i++) want += a[i] * b[i];
    expect(Math.abs(got - want) / n, `got ${got}, want ${want}`).toBeLessThan(maxDotProductError(x));
  });
});
