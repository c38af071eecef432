/** f16 and bf16 conversions over all 65536 halves and every rounding border between them. */
import { describe, expect, it } from 'vitest';
import { f16ToNumber, numberToF16 } from '../reference/f16.ts';
import { BUILDS, instantiate } from './harness.ts';

const all = Uint16Array.from({ length: 65536 }, (_, h) => h);
const bitsOf = (x: number): number => new Uint32Array(Float32Array.of(x).buffer)[0];
const fromBits = (bits: number): number => new Float32Array(Uint32Array.of(bits).buffer)[0];

/** For every finite half: itself, the midpoint to the next, and the neighbours of both in f32. */
function roundingBorders(): Float32Array {
  const out: number[] = [];
  for (let h = 0; h < 0x7c00; h++) {
    const here = bitsOf(f16ToNumber(h));
    const next = h + 1 === 0x7c00 ? 65536 : f16ToNumber(h + 1);
    const middle = bitsOf((f16ToNumber(h) + next) / 2); // exact: one more bit than an f16 has
    for (const bits of [here, here + 1, middle - 1, middle, middle + 1]) out.push(fromBits(bits), -fromBits(bits));
  }
  for (const bits of [0x7f7fffff, 0x7f800000, 0x00000001, 0x007fffff, 0x00800000, 0x477fefff, 0x477ff000, 0x47800000])
    out.push(fromBits(bits), -fromBits(bits));
  return Float32Array.from(out);
}

describe.each(BUILDS)('f16 and bf16 on %s', (build) => {
  const k = instantiate(build, 256);

  it('widens all 65536 halves exactly, by vectors and one by one', () => {
    k.arena.reset();
    const x = k.arena.bytes(new Uint8Array(all.buffer), 2);
    const y = k.arena.alloc(4 * all.length, 4);
    k.call('dequantize_row_f16', x, y, all.length);
    k.arena.checkGuards();
    const byVector = k.arena.readF32(y, all.length);
    for (let h = 0; h < all.length; h++) k.call('dequantize_row_f16', x + 2 * h, y + 4 * h, 1);
    const byOne = k.arena.readF32(y, all.length);
    for (const [way, got] of [
      ['vector', byVector],
      ['scalar', byOne],
    ] as const) {
      const wrong = all.findIndex((h) => !Object.is(got[h], f16ToNumber(h)));
      expect(wrong, `${way}: half 0x${wrong.toString(16)} gave ${got[wrong]}, want ${f16ToNumber(wrong)}`).toBe(-1);
    }
  });

  it('narrows to nearest even at every border between two halves', () => {
    k.arena.reset();
    const values = roundingBorders();
    const x = k.arena.f32(values, 1);
    const y = k.arena.alloc(2 * values.length, 1);
    k.call('quantize_row_f16', x, y, values.length);
    k.arena.checkGuards();
    const got = new Uint16Array(k.arena.readBytes(y, 2 * values.length).buffer);
    const wrong = values.findIndex((v, i) => got[i] !== numberToF16(v));
    expect(
      wrong,
      `${values[wrong]} (0x${bitsOf(values[wrong]).toString(16)}) gave 0x${got[wrong]?.toString(16)}, want 0x${numberToF16(values[wrong]).toString(16)}`,
    ).toBe(-1);
  });

  it('narrows every NaN to the quiet NaN of its sign, as ggml-base does', () => {
    k.arena.reset();
    const nans = Uint32Array.of(0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffc00000, 0xffffffff);
    const x = k.arena.bytes(new Uint8Array(nans.buffer));
    const y = k.arena.alloc(2 * nans.length);
    k.call('quantize_row_f16', x, y, nans.length);
    expect([...new Uint16Array(k.arena.readBytes(y, 2 * nans.length).buffer)]).toEqual([
      0x7e00, 0x7e00, 0x7e00, 0x7e00, 0xfe00, 0xfe00, 0xfe00,
    ]);
    k.call('quantize_row_bf16', x, y, nans.length);
    expect([...new Uint16Array(k.arena.readBytes(y, 2 * nans.length).buffer)]).toEqual([
      0x7fc0, 0x7fff, 0x7fc0, 0x7fff, 0xffc0, 0xffc0, 0xffff,
    ]);
  });

  it('rounds bf16 to nearest even and widens it back', () => {
    k.arena.reset();
    const bits = Uint32Array.of(
      0x3f808000,
      0x3f818000,
      0x3f807fff,
      0x3f808001,
      0x7f7fffff,
      0x7f800000,
      0xff800000,
      0x80000000,
      0x00000001,
      0x00008000,
      0x00018000,
    );
    const want = [0x3f80, 0x3f82, 0x3f80, 0x3f81, 0x7f80, 0x7f80, 0xff80, 0x8000, 0, 0, 2];
    const x = k.arena.bytes(new Uint8Array(bits.buffer), 3);
    const y = k.arena.alloc(2 * bits.length, 1);
    const z = k.arena.alloc(4 * bits.length, 2);
    k.call('quantize_row_bf16', x, y, bits.length);
    expect([...new Uint16Array(k.arena.readBytes(y, 2 * bits.length).buffer)]).toEqual(want);
    k.call('dequantize_row_bf16', y, z, bits.length);
    k.arena.checkGuards();
    expect([...new Uint32Array(k.arena.readBytes(z, 4 * bits.length).buffer)]).toEqual(want.map((w) => (w << 16) >>> 0));
  });

  it('products see Inf and NaN wherever they stand, in vectors and in the tail', () => {
    const n = 37;
    for (const at of [0, 5, 15, 16, 31, 32, 35, 36]) {
      for (const [h, y, want] of [
        [0x7c00, 2, Infinity],
        [0xfc00, 2, -Infinity],
        [0x7c00, 0, NaN],
        [0x7e00, 1, NaN],
        [0x7c01, 1, NaN],
      ] as const) {
        k.arena.reset();
        const w = new Uint16Array(n).fill(0x3c00);
        const a = new Float32Array(n).fill(1);
        w[at] = h;
        a[at] = y;
        const x = k.arena.bytes(new Uint8Array(w.buffer), 1);
        expect(k.call('vec_dot_f16_f32', n, x, k.arena.f32(a)), `f16 0x${h.toString(16)} at ${at}`).toBe(want);
      }
    }
  });
});
