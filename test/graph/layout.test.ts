/**
 * Checks that src/graph/layout.ts mirrors what the kernels read: by their source text, and by the
 * modules themselves.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  ATTENTION_PARAMS,
  ACT_4,
  ACT_BLOCK,
  ACT_LAYOUTS,
  MOST_FEW,
  ACT_COLUMNS,
  ACT_64,
  ACT_64_BLOCK,
  ACT_K,
  ACT_K_BLOCK,
  ACC_BYTES,
  AXPY_SCRATCH,
  KV_SPLIT,
  ATTENTION_SPLIT_TOKENS,
  ATTENTION_STATE,
  BINARY,
  CLOSED,
  COPY,
  COPY_CHUNK,
  COPY_SCRATCH,
  GLU,
  GROUP_COLUMNS,
  GROUP_LIST,
  GROUP_TILES,
  KV_STORE_SCRATCH,
  K_CELLS,
  LAYOUT,
  MAX_SRC,
  OP,
  OP_BARRIER,
  OP_SIZE,
  PLAN,
  PLAN_SIZE,
  RANGES,
  REACHED_STRIDE,
  ROW_BLOCK,
  PLAIN_ROWS,
  SPARSE_LIST_BYTES,
  SPARSE_TURN,
  ENDS,
  STEP_THREADS,
  SYNC,
  SYNC_SIZE,
  TENSOR,
  TENSOR_SIZE,
  TILE_ROWS,
  TYPE_ACT,
  UNARY,
  UNARY_SCRATCH,
} from '../../src/graph/layout.ts';
import { attentionScratch } from '../../src/graph/lower-attention.ts';
import { actType, loopOf } from '../../src/graph/packed-products.ts';
import { vecDotType } from '../../src/graph/vec-dot-type.ts';
import { LEVELS, TYPE, rowSize, typeById, typesWith, type TypeTraits } from '../../src/type-traits.ts';
import { MAX_THREADS } from '../../src/threads/executor.ts';
import { ARENA_BASE } from '../../src/wasm/memory.ts';
import { isaOf } from '../../src/wasm/load.ts';
import { BUILDS, instantiate } from '../kernel/harness.ts';
import { root } from '../support.ts';

const source = (name: string): string => readFileSync(new URL(`assembly/${name}.ts`, root), 'utf8');

/** Values of `const NAME: type = number;` in a file. */
const constants = (name: string): Record<string, number> =>
  Object.fromEntries([...source(name).matchAll(/^(?:export )?const (\w+): \w+ = (-?\w+);/gm)].map((m) => [m[1], Number(m[2])]));

/** Names of an unmanaged class's fields, in order. Each has four bytes. */
function fields(className: string, file = 'runtime/tensor'): string[] {
  const body = new RegExp(`export class ${className} \\{([^]*?)\\n\\}`).exec(source(file))![1];
  return [...body.matchAll(/^ {2}(\w+): (u32|i32|f32|usize|Tensor);/gm)].map((m) => m[1]);
}

describe('assembly/runtime/tensor.ts', () => {
  const at = (className: string, names: Record<string, string>): Record<string, number> =>
    Object.fromEntries(Object.entries(names).map(([ours, theirs]) => [ours, fields(className).indexOf(theirs)]));
  it('Tensor', () => {
    expect(at('Tensor', { type: 'type', layout: 'layout', ne: 'ne0', nb: 'nb0', data: 'data', next: 'next' })).toEqual(TENSOR);
    expect(fields('Tensor').length * 4).toBe(TENSOR_SIZE);
  });
  it('Op', () => {
    expect(at('Op', { code: 'code', flags: 'flags', dst: 'dst', src: 'src0', casts: 'casts', cursor: 'cursor', params: 'p0' })).toEqual(OP);
    expect(fields('Op').filter((f) => /^src\d/.test(f))).toHaveLength(MAX_SRC);
    expect(fields('Op').length * 4, 'the record has room for its fields').toBeLessThanOrEqual(OP_SIZE);
    expect(constants('runtime/tensor').OP_SIZE).toBe(OP_SIZE);
  });
  it('Plan', () => {
    expect(
      at('Plan', {
        nOps: 'n_ops',
        ops: 'ops',
        nDims: 'n_dims',
        dims: 'dims',
        cursorBytes: 'cursor_bytes',
        cursors: 'cursors',
        scratch: 'scratch',
        scratchSize: 'scratch_size',
      }),
    ).toEqual(PLAN);
    expect(fields('Plan').length * 4).toBe(PLAN_SIZE);
  });
  it('flags and layouts', () => {
    const { OP_BARRIER: barrier, LAYOUT_PLAIN, LAYOUT_PACKED } = constants('runtime/tensor');
    expect([barrier, LAYOUT_PLAIN, LAYOUT_PACKED]).toEqual([OP_BARRIER, LAYOUT.plain, LAYOUT.packed]);
  });
});

it('assembly/ops: the functions of BINARY, UNARY and CPY', () => {
  const kinds = (name: string): string[] =>
    [...source(name).matchAll(/^@unmanaged\s+class (\w+) \{\s+\/\* (\d+) \*\//gm)].map((m) => `${m[2]} ${m[1].toLowerCase()}`);
  const listed = (kinds: Readonly<Record<string, number>>): string[] =>
    Object.entries(kinds).map(([name, code]) => `${code} ${name.replace('_', '')}`);
  /** Targets of a function's switch: a class, or a function with the unit's name. */
  const cases = (name: string, of: string): string[] => {
    const [body] = source(name).split(`function ${of}(`)[1].split('default:');
    return [...body.matchAll(/case (\d+): return (?:\w+<(\w+)>|(?:map_)?(\w+)\()/g)].map(
      (m) => `${m[1]} ${(m[2] ?? m[3]).toLowerCase().replace('_', '')}`,
    );
  };
  expect(cases('ops/unary', 'unary_vectors')).toEqual(listed(UNARY));
  expect(cases('ops/unary', 'glu_vectors')).toEqual(listed(GLU));
  const classes = kinds('ops/unary');
  expect(classes).toEqual(listed(UNARY).slice(0, classes.length));
  expect(kinds('ops/binary').slice(0, 4)).toEqual(listed(BINARY).slice(0, 4));
  const { CHUNK, WORK } = constants('ops/copy');
  expect([CHUNK, WORK]).toEqual([COPY_CHUNK, COPY_SCRATCH]);
  const modes = [...source('ops/copy').matchAll(/^ \*   (\d)  /gm)].map((m) => Number(m[1]));
  expect(modes, 'the modes that cpy documents').toEqual(Object.values(COPY));
});

it('assembly/runtime/sync.ts: the words of the sync block', () => {
  const { STEP, DONE, ARRIVED, PHASE, POISON, CANCEL, SPIN, REACHED, CLOSED: closed } = constants('runtime/sync');
  expect({
    step: STEP / 4,
    done: DONE / 4,
    arrived: ARRIVED / 4,
    phase: PHASE / 4,
    poison: POISON / 4,
    cancel: CANCEL / 4,
    spin: SPIN / 4,
    reached: REACHED / 4,
  }).toEqual(SYNC);
  expect(closed).toBe(CLOSED);
  expect(source('runtime/sync')).toContain(`<usize>ith << ${Math.log2(4 * REACHED_STRIDE)}`);
  expect(SYNC_SIZE).toBe(REACHED + 4 * REACHED_STRIDE * MAX_THREADS);
});

it('assembly/ops/unary.ts: the scratch of UNARY and GLU has room for their copies', () => {
  const offsets = [...source('ops/unary').matchAll(/copy_few\([^;]*\bscratch(?: \+ (\d+))?, left\)/g)].map((m) => Number(m[1] ?? 0));
  expect(Math.max(...offsets) + 16).toBe(UNARY_SCRATCH);
});

it('assembly/runtime/sync.ts: how steps end', () => {
  const { GO_ON, CANCELLED, LOST } = constants('runtime/sync');
  expect(ENDS).toEqual({ goOn: GO_ON, cancelled: CANCELLED, lost: LOST });
});

it('the bits of a step that count its threads', () => {
  expect(MAX_THREADS).toBeLessThanOrEqual(STEP_THREADS);
});

it('assembly/ops/groups.ts and mul_mat_packed.ts: groups and their tiles', () => {
  const { GROUP_COLUMNS: columns, OFFSETS, SPARSE } = constants('ops/groups');
  const { ROWS, CHUNK_ROWS } = constants('matmul/format/group');
  expect([columns, OFFSETS, SPARSE]).toEqual([GROUP_COLUMNS, GROUP_LIST.offset, GROUP_LIST.sparse]);
  expect([ROWS, CHUNK_ROWS, constants('ops/mul_mat_packed').FEW_CHUNKS_OF_GROUPS]).toEqual([TILE_ROWS.small, TILE_ROWS.large, GROUP_TILES]);
});

it('assembly/ops/sparse.ts and axpy.ts: scratch, plain rows, and the use of packed weights', () => {
  const { STRIPE, AT_ONCE, AS_F32, TURN, STRETCH } = constants('ops/axpy');
  const sparse = constants('ops/sparse');
  expect([sparse.TURN, TURN]).toEqual([SPARSE_TURN.mul_mat_sparse, SPARSE_TURN.axpy]);
  const { FETCHED_AT_ONCE } = constants('matmul/rows_8x1');
  expect(4 * (sparse.STRETCH + 4) + 4 * (sparse.STRETCH + FETCHED_AT_ONCE)).toBe(SPARSE_LIST_BYTES);
  expect(3 * 4 * AT_ONCE + AS_F32 * STRIPE * 4 + 4 * (STRETCH + 4)).toBe(AXPY_SCRATCH);
  expect(source('matmul/rows_8x1')).toContain(`return ${PLAIN_ROWS.map((type) => `type == id.${type.toUpperCase()}`).join(' || ')};`);
  expect([constants('matmul/format/group').ROWS, constants('matmul/format/group').ACC]).toEqual([ROW_BLOCK, ACC_BYTES]);
});

it('assembly/matmul/act.ts: ids and blocks of activations', () => {
  const { TYPE_ACT: least, ACT_K: k, ACT_64: few, ACT_4: nibbles, COLS, ...act } = constants('matmul/act');
  expect([least, k, few, nibbles, COLS]).toEqual([TYPE_ACT, ACT_K, ACT_64, ACT_4, ACT_COLUMNS]);
  const { ACT_16XN, ACT_SIGNS, ACT_PAIR_ORDER, ACT_I8, MOST_16XN } = act;
  expect(ACT_LAYOUTS).toEqual({ plain: 0, few: ACT_16XN, signs: ACT_SIGNS, pairs: ACT_PAIR_ORDER, signs_i8: ACT_SIGNS + ACT_I8 });
  expect(MOST_16XN).toBe(MOST_FEW);
  expect(source('matmul/act')).toContain(`return type & ACT_K ? ${ACT_K_BLOCK} : type & ACT_64 ? ${ACT_64_BLOCK} : ${ACT_BLOCK};`);
  expect(typeById(TYPE_ACT), "the id is none of ggml's").toBeUndefined();
});

it('assembly/ops/kv_cache.ts: the scratch of KV_STORE has room for a block, 32 values and the work of a quantiser', () => {
  const { VALUES } = constants('ops/kv_cache');
  const { LANES } = constants('type/block/work');
  expect(VALUES + 32 * 4 + LANES + (32 + 8) * 16).toBe(KV_STORE_SCRATCH);
  for (const type of [TYPE.q8_0, TYPE.q4_0]) expect(rowSize(type, 32), type.name).toBeLessThanOrEqual(VALUES);
});

it('assembly/ops/attention_params.ts: the parameters of attention', () => {
  expect(fields('AttentionParams', 'ops/attention_params')).toEqual([...ATTENTION_PARAMS]);
  expect(source('ops/attention_params')).toContain("offsetof<Op>('p0')");
});

it('assembly/ops/attention.ts: sizes in the arena', () => {
  const { KV_SPLIT: split, K_CELLS: cells } = constants('ops/kv_cache');
  const { SPLIT_TOKENS } = constants('ops/attention');
  const { STATE } = constants('ops/attention_split');
  expect([split, cells, SPLIT_TOKENS, STATE]).toEqual([KV_SPLIT, K_CELLS, ATTENTION_SPLIT_TOKENS, ATTENTION_STATE]);
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
    w[PLAN.nDims] = 2;
    w[PLAN.dims] = dims;
    w[PLAN.cursorBytes] = 3 * 4;
    w[PLAN.cursors] = cursors;
    // ne of one tensor follows the tokens, ne of another the outputs
    w.set([at + 80, 0, at + 84, 1], 32);
    k.call('begin', at, 19, 5);
    expect([w[20], w[21], w[22]]).toEqual([19, 5, 77]);
    expect([...w.slice(48, 49 + 3 * RANGES)]).toEqual([...new Array<number>(3 * RANGES).fill(0), 77]);
    k.arena.checkGuards();
  });
});
