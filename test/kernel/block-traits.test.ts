/**
 * The wasm side's table of types compared with the host's, and dispatch by type id compared with
 * the kernels themselves.
 */
import { describe, expect, it } from 'vitest';
import { TYPE, namesOf, rowSize, typeById, typesWith } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import { BUILDS, gaussian, instantiate, quantized } from './harness.ts';

const READ_ONLY = namesOf(typesWith((k) => !k.vecDotType && !k.quantizer));

describe.each(BUILDS)('traits on %s', (build) => {
  const k = instantiate(build);

  it('block sizes and vec_dot_type are those of src/type-traits.ts, and none for every other id', () => {
    for (let id = 0; id < 64; id++) {
      const type = typeById(id);
      const { vecDotType } = type?.kernels ?? {};
      expect([k.call('blck_size', id), k.call('type_size', id)], `type ${id}`).toEqual(
        type?.kernels ? [type.blckSize, type.typeSize] : [0, 0],
      );
      expect(k.call('vec_dot_type', id) >>> 0, `type ${id}`).toBe(vecDotType ? TYPE[vecDotType].id : 0xffffffff);
    }
  });

  it.each(typesWith((t) => t.vecDotType).map((t) => [t.name, t.kernels!.vecDotType!] as const))(
    'vec_dot of %s is the kernel for %s',
    (x, y) => {
      const n = 512;
      k.arena.reset();
      const a = k.arena.bytes(quantized(x, gaussian(n, 1), n), 2);
      const b = k.arena.bytes(quantized(y, gaussian(n, 2), n), 2);
      const kernel = x === 'f32' ? 'vec_dot_f32' : `vec_dot_${x}_${y}`;
      expect(Object.is(k.call('vec_dot', TYPE[x].id, n, a, b), k.call(kernel, n, a, b))).toBe(true);
    },
  );

  it.each([...READ_ONLY, 'q4_K', 'q8_0'] as const)('vec_dot_dequantized of %s is the product of its dequantised row', (type) => {
    const n = 1024;
    k.arena.reset();
    const x = k.arena.bytes(randomBlocks(type, TYPE[type].typeSize, n / TYPE[type].blckSize, 5), 1);
    const y = gaussian(n, 6);
    const row = k.arena.alloc(4 * n);
    k.call('dequantize_row', TYPE[type].id, x, row, n);
    const w = k.arena.readF32(row, n);
    let want = 0;
    let abs = 0;
    for (let i = 0; i < n; i++) {
      want += w[i] * y[i];
      abs += Math.abs(w[i] * y[i]);
    }
    const got = k.call('vec_dot_dequantized', TYPE[type].id, n, x, k.arena.f32(y, 4), k.arena.alloc(1024));
    k.arena.checkGuards();
    // f32 sums of a few hundred partial sums
    expect(Math.abs(got - want) <= 64 * 2 ** -24 * abs, `got ${got}, want ${want}`).toBe(true);
  });

  it('rows of files are made one by one: many rows are the bytes of each', () => {
    const [n, rows] = [512, 3];
    const values = gaussian(n * rows, 9);
    const imatrix = gaussian(n, 10).map((v) => v * v);
    for (const type of namesOf(typesWith((t) => t.quantizer !== undefined && t.quantizer !== 'row'))) {
      const bytes = rowSize(TYPE[type], n);
      const all = quantized(type, values, n, imatrix);
      for (let r = 0; r < rows; r++)
        expect(all.subarray(r * bytes, (r + 1) * bytes), `${type}, row ${r}`).toEqual(
          quantized(type, values.subarray(r * n, (r + 1) * n), n, imatrix),
        );
    }
  });
});
