/** Checks that what planning computes without a compiled module is what the built kernels say. */
import { describe, expect, it } from 'vitest';
import { KV_BLOCK_TYPES } from '../../src/graph/attention-ops.ts';
import { KV_STORE_SCRATCH, MAX_THREADS, RANGES, ROW_BLOCK, STEP_THREADS, TYPE_ACT } from '../../src/graph/layout.ts';
import { attentionScratch } from '../../src/graph/lower-attention.ts';
import { actType, loopOf } from '../../src/graph/packed-products.ts';
import { PLAN } from '../../src/graph/structures.ts';
import { vecDotType } from '../../src/graph/vec-dot-type.ts';
import { LEVELS, TYPE, rowSize, typeById, typesWith, type TypeTraits } from '../../src/type-traits.ts';
import { ARENA_BASE } from '../../src/wasm/memory.ts';
import { isaOf } from '../../src/wasm/load.ts';
import { BUILDS, instantiate } from '../kernel/harness.ts';

it('a step has room for the number of its threads', () => expect(MAX_THREADS).toBeLessThanOrEqual(STEP_THREADS));

it("no type of ggml's has the id of activations", () => expect(typeById(TYPE_ACT)).toBeUndefined());

it('the scratch of KV_STORE has room for a block of every cache that is stored in blocks', () => {
  for (const name of KV_BLOCK_TYPES) expect(rowSize(TYPE[name], 32), name).toBeLessThanOrEqual(KV_STORE_SCRATCH.values);
});

describe.each(BUILDS)('%s', (build) => {
  const { exports } = instantiate(build, 2);
  it('its static data ends below the arena, and the grids at its end below 64 KiB, since opened pairs have their addresses as u16', () => {
    expect(exports.heap_base()).toBeLessThanOrEqual(65536);
    expect(exports.heap_base()).toBeLessThanOrEqual(ARENA_BASE);
  });

  const target = { isa: isaOf(build) };
  it('packed weights: types of activations and their bytes, for all rows that have packed products', () => {
    for (const type of [...Object.values(TYPE), ...Object.values(LEVELS)] as TypeTraits[]) {
      const isPacked = type.kernels?.packed !== undefined;
      expect(exports.is_packable(type.id) !== 0, type.name).toBe(isPacked && type.blckSize > 1);
      if (!isPacked) {
        expect(exports.packed_act_type(type.id) >>> 0, type.name).toBe(0xffffffff);
        continue;
      }
      const act = actType(type, target);
      expect(exports.packed_act_type(type.id), type.name).toBe(act.id);
      if (act !== TYPE.f32) expect(exports.act_row_size(act.id, 2048), type.name).toBe(rowSize(act, 2048));
    }
    expect(exports.packed_rows()).toBe(ROW_BLOCK);
  });

  it('packed weights: how many columns lie in column blocks', () => {
    for (const type of typesWith((k) => k.packed?.act)) {
      const act = actType(type, target);
      const inTiles = (n: number): number =>
        Array.from({ length: n }, (_, c) => loopOf(type, target.isa, c, n)).filter((loop) => loop.startsWith('gemm_8x4')).length;
      for (let n = 1; n <= 40; n++) expect(exports.blocked_columns(act.id, n), `${type.name}, ${n} columns`).toBe(inTiles(n));
    }
  });

  it('the scratch of attention', () => {
    for (const hdK of [32, 64, 96, 128, 192, 256, 576])
      for (const hdV of [32, 64, 128, 192, 256, 512]) expect(attentionScratch(hdK, hdV, target)).toBe(exports.attention_scratch(hdK, hdV));
  });

  it("the type of activations is the kernels' for every type", () => {
    for (const type of Object.values(TYPE)) {
      const want = exports.vec_dot_type(type.id) >>> 0;
      const got = vecDotType(type)?.id ?? 0xffffffff;
      expect(got, type.name).toBe(want);
    }
  });

  it('begin() writes the dimensions that follow the batch, and takes all chunks back', () => {
    const k = instantiate(build, 4);
    k.arena.reset();
    const at = k.arena.alloc(512, 0);
    const w = new Int32Array(k.memory.buffer, at, 128);
    w.fill(77);
    const dims = at + 128;
    const cursors = at + 192;
    w[PLAN.n_dims] = 2;
    w[PLAN.dims] = dims;
    w[PLAN.cursor_bytes] = 3 * 4;
    w[PLAN.cursors] = cursors;
    // ne of one tensor follows the tokens, ne of another the outputs
    w.set([at + 80, 0, at + 84, 1], 32);
    k.call('begin', at, 19, 5);
    expect([w[20], w[21], w[22]]).toEqual([19, 5, 77]);
    expect([...w.slice(48, 49 + 3 * RANGES)]).toEqual([...new Array<number>(3 * RANGES).fill(0), 77]);
    k.arena.checkGuards();
  });
});
