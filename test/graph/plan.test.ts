/**
 * Plans: tensors that are alive at the same time never share bytes, and threads meet (barriers)
 * exactly where data requires it.
 */
import { describe, expect, it } from 'vitest';
import { llama } from '../../src/arch/llama.ts';
import type { HParams } from '../../src/arch/hparams.ts';
import type { GGUF } from '../../src/gguf/types.ts';
import { ROPE_DEFAULTS } from '../../src/arch/rope-table.ts';
import { BATCH_COUNT, OP_BARRIER, RANGES } from '../../src/graph/layout.ts';
import { OP, OP_SIZE, PLAN, PLAN_SIZE, TENSOR, TENSOR_SIZE } from '../../src/graph/structures.ts';
import type { Target } from '../../src/graph/packed-products.ts';
import { lower, type OpRecord } from '../../src/graph/lower.ts';
import { attention, kv_store } from '../../src/graph/attention-ops.ts';
import { add, swiglu } from '../../src/graph/elementwise-ops.ts';
import { concat, cont, get_rows, mul_mat } from '../../src/graph/ops.ts';
import { rope } from '../../src/graph/rope.ts';
import { rms_norm } from '../../src/graph/row-ops.ts';
import { barriers, createGraphPlan, encodePlan, expand, place, type GraphPlan } from '../../src/graph/plan.ts';
import { leaf, nbytes, type BatchCount, type Ne, type Tensor } from '../../src/graph/tensor.ts';
import { reshape, transpose } from '../../src/graph/views.ts';
import { TYPE, type TypeTraits } from '../../src/type-traits.ts';
import { randomIds } from '../support.ts';

const TARGET: Target = { isa: 'relaxed' };
const COMPUTE_AT = 1 << 20;
/** llama's graph reads no metadata except its hparams. */
const EMPTY: GGUF = {
  version: 3,
  metadata: new Map(),
  metadataTypes: new Map(),
  metadataRanges: new Map(),
  tensors: new Map(),
  alignment: 32,
  dataOffset: 0,
  byteLength: 0,
};

const base = (t: Tensor): Tensor => t.viewOf ?? t;
const written = (r: OpRecord): Tensor[] => [r.dst, ...(r.casts ?? []), ...(r.writtenSrc ?? [])];
const read = (r: OpRecord): Tensor[] => r.src.filter((t): t is Tensor => t !== undefined);
const overlap = (a: Tensor, b: Tensor): boolean => a.data < b.data + nbytes(b) && b.data < a.data + nbytes(a);
const describeRecord = (r: OpRecord, i: number): string => `${i} ${r.code} ${r.dst.name}`;

function planOf(roots: readonly Tensor[], keep: readonly Tensor[], leaves: readonly Tensor[] = []): GraphPlan {
  const plan = createGraphPlan(lower(expand(roots), TARGET), keep);
  // Leaves lie one after another below the compute region.
  let at = 4096;
  for (const t of new Set([...leaves, ...plan.tensors.map(base).filter((x) => x.op === 'leaf')])) {
    t.data = at;
    at += Math.ceil(nbytes(t) / 64) * 64;
  }
  expect(at).toBeLessThan(COMPUTE_AT);
  place(plan, COMPUTE_AT);
  return plan;
}

/** The first pair of results that are alive at the same time and share bytes, or ''. */
function sharing(plan: GraphPlan, keep: readonly Tensor[]): string {
  const born = new Map<Tensor, number>();
  const dies = new Map<Tensor, number>();
  plan.records.forEach((r, i) => {
    written(r)
      .map(base)
      .forEach((t) => t.op !== 'leaf' && !born.has(t) && born.set(t, i));
    [...written(r), ...read(r)].map(base).forEach((t) => dies.set(t, i));
  });
  keep.map(base).forEach((t) => dies.set(t, Infinity));
  const all = [...born.keys()];
  for (const [i, a] of all.entries()) {
    if (a.data < COMPUTE_AT || a.data + nbytes(a) > COMPUTE_AT + plan.computeBytes || a.data % 64 !== 0)
      return `${a.name} lies outside or is not aligned: ${a.data}`;
    for (const b of all.slice(i + 1)) {
      if (born.get(a)! <= dies.get(b)! && born.get(b)! <= dies.get(a)! && overlap(a, b))
        return `${a.name} [${born.get(a)}, ${dies.get(a)}] and ${b.name} [${born.get(b)}, ${dies.get(b)}] share bytes`;
    }
  }
  return '';
}

/**
 * A pair of records that touch the same bytes without a barrier in between, or a barrier that no
 * pair needs; '' if there is no fault.
 */
function barrierFault({ records }: GraphPlan): string {
  const meet = barriers(records);
  const clash = (a: OpRecord, b: OpRecord): boolean =>
    written(a).some((w) => [...read(b), ...written(b)].some((t) => overlap(w, t))) ||
    read(a).some((t) => written(b).some((w) => overlap(t, w)));
  let since = 0;
  for (const [i, r] of records.entries()) {
    const needed = records.slice(since, i).some((earlier) => clash(earlier, r));
    if (needed !== meet[i])
      return `record ${describeRecord(r, i)}: ${needed ? 'needs a meeting that is not there' : 'has a meeting that nothing needs'}`;
    if (meet[i]) since = i;
  }
  return '';
}

/** Layers of random operators over random earlier results, some of them in other shapes. */
function randomGraph(seed: number): { roots: Tensor[]; keep: Tensor[] } {
  const numbers = randomIds(400, 1 << 16, seed);
  let n = 0;
  const pick = (most: number): number => numbers[n++ % numbers.length] % most;
  const width = 32 * (1 + pick(3));
  const tokens = 1 + pick(9);
  const weight = (type: TypeTraits = TYPE.f32, rows = width): Tensor => leaf(`w${n}`, type, [width, rows, 1, 1]);
  const results: Tensor[] = [get_rows(weight(), leaf('ids', TYPE.i32, [tokens, 1, 1, 1], { dim: 0, by: 'tokens' }))];
  const some = (): Tensor => {
    const t = results[Math.max(0, results.length - 1 - pick(6))];
    return pick(4) === 0 ? reshape(t, t.ne, t.batch) : t;
  };
  for (let i = 0; i < 10 + pick(30); i++) {
    const op = pick(7);
    if (op === 0) results.push(mul_mat(weight([TYPE.f32, TYPE.q8_0, TYPE.q4_0][pick(3)]), some()));
    else if (op === 1) results.push(add(some(), some()));
    else if (op === 2) results.push(swiglu(some(), some()));
    else if (op === 3) {
      const sum = add(some(), some()); // fused with the norm that follows
      results.push(sum, rms_norm(sum, { weight: leaf(`norm${i}`, TYPE.f32, [width, 1, 1, 1]), eps: 1e-5 }));
    } else if (op === 4)
      results.push(cont(transpose(cont(transpose(some()))))); // transposed twice
    else if (op === 5) {
      const [a, b] = [some(), some()];
      results.push(mul_mat(leaf(`w${n}`, TYPE.f32, [2 * width, width, 1, 1]), concat(a, b, 0)), add(a, b));
    } else results.push(rms_norm(some(), { weight: leaf(`norm${i}`, TYPE.f32, [width, 1, 1, 1]), eps: 1e-5 }));
  }
  results.forEach((t, i) => Object.assign(t, { name: `t${i}` }));
  return { roots: results, keep: [results[results.length - 1], results[pick(results.length)]] };
}

describe('random graphs', () => {
  it('results alive at the same time never share bytes; barriers are where bytes need them', () => {
    for (let seed = 1; seed <= 150; seed++) {
      const { roots, keep } = randomGraph(seed);
      const plan = planOf(roots, keep);
      expect(sharing(plan, keep), `seed ${seed}`).toBe('');
      expect(barrierFault(plan), `seed ${seed}`).toBe('');
      const all = new Set(plan.records.flatMap(written).map(base));
      expect(plan.computeBytes, `seed ${seed}: no more than all results side by side`).toBeLessThanOrEqual(
        [...all].reduce((sum, t) => sum + Math.ceil(nbytes(t) / 64) * 64, 0),
      );
    }
  });

  it('a record comes after everything it reads', () => {
    for (let seed = 1; seed <= 50; seed++) {
      const { roots, keep } = randomGraph(seed);
      const done = new Set<Tensor>();
      for (const [i, r] of planOf(roots, keep).records.entries()) {
        for (const t of read(r).map(base))
          if (t.op !== 'leaf' && !written(r).map(base).includes(t))
            expect(done.has(t), `seed ${seed}, record ${describeRecord(r, i)} reads ${t.name}`).toBe(true);
        written(r)
          .map(base)
          .forEach((t) => done.add(t));
      }
    }
  });
});

describe('llama', () => {
  const hparams: HParams = {
    arch: 'llama',
    norm: 'rms',
    causal: true,
    decoder: undefined,
    pooling: 'none',
    nVocab: 272,
    nCtxTrain: 512,
    nEmbd: 64,
    nLayer: 3,
    nHead: 4,
    isRecurrent: () => false,
    nHeadKv: 2,
    headDim: 16,
    valueDim: 16,
    nFf: 96,
    nExpert: 0,
    nExpertUsed: [0, 0, 0],
    nExpertGroups: 0,
    nExpertGroupsUsed: 0,
    nFfExpert: 0,
    eps: 1e-5,
    rotations: { queries: 0, feedForward: 0 },
    rope: { ...ROPE_DEFAULTS, nDims: 16, freqBase: 10000, nCtxOrig: 512 },
  };
  const build = (type: (typeof TYPE)['f32' | 'q8_0']): { plan: GraphPlan; logits: Tensor } => {
    const nTokens = 32;
    const input = (name: string, by: BatchCount, n: number): Tensor => leaf(name, TYPE.i32, [n, 1, 1, 1], { dim: 0, by });
    const inputs = {
      ids: input('ids', 'tokens', nTokens),
      pos: input('pos', 'tokens', nTokens),
      cells: input('cells', 'tokens', nTokens),
      first: input('first', 'tokens', nTokens),
      visible: input('visible', 'tokens', nTokens),
      encoded: input('encoded', 'tokens', nTokens),
      outputs: input('outputs', 'outputs', 2),
      others: input('others', 'others', nTokens),
      runs: leaf('runs', TYPE.i32, [3, nTokens, 1, 1]),
    };
    const roots: Tensor[] = [];
    const caches = new Map<string, Tensor>();
    const cache = (name: string): Tensor => caches.get(name) ?? caches.set(name, leaf(name, TYPE.f16, [16, 256, 2, 1])).get(name)!;
    const weight = (name: string, ne: readonly number[]): Tensor =>
      leaf(name, ne.length > 1 ? type : TYPE.f32, [...ne, 1, 1, 1].slice(0, 4) as unknown as Ne);
    const logits = llama.build(hparams, {
      gguf: EMPTY,
      wants: 'logits',
      contextLength: 256,
      has: (name) => name.endsWith('ffn_gate.weight') || name === 'output.weight',
      shapeOf: () => undefined,
      neuronsFromFile: false,
      inputs,
      weight,
      optional: () => undefined,
      rowsOf: () => undefined,
      tokenRows: (table) => get_rows(table, inputs.ids),
      loras: () => [],
      cache: (layer) => ({ k: cache(`k${layer}`), v: cache(`v${layer}`), rotation: { k: 0, v: 0 }, holds: 'sequence' }),
      states: () => {
        throw new Error('llama has no recurrent layers');
      },
      ropeTable: () => leaf('angles', TYPE.f32, [16, 256, 1, 1]),
      expand: (...nodes) => void roots.push(...nodes),
    });
    return { plan: planOf([...roots, logits], [logits]), logits };
  };

  it.each(['f32', 'q8_0'] as const)('%s: memory and barriers', (name) => {
    const { plan, logits } = build(TYPE[name]);
    expect(sharing(plan, [logits])).toBe('');
    expect(barrierFault(plan)).toBe('');
  });

  it('q, k and v share a barrier; so do rope of q and k, the two stores, and gate and up', () => {
    const { records } = build(TYPE.q8_0).plan;
    const meet = barriers(records);
    const where = (weightName: RegExp): number => records.findIndex((r) => r.src.some((t) => t && weightName.test(t.name)));
    const q = where(/blk\.1\.attn_q/);
    const k = where(/blk\.1\.attn_k/);
    const v = where(/blk\.1\.attn_v/);
    expect([q + 1, q + 2], 'one after the other').toEqual([k, v]);
    expect([meet[q], meet[k], meet[v]]).toEqual([true, false, false]);
    const ropes = records.map((r, i) => (r.code === 'ROPE' ? i : -1)).filter((i) => i >= 0);
    const stores = records.map((r, i) => (r.code === 'KV_STORE' ? i : -1)).filter((i) => i >= 0);
    expect([meet[ropes[2]], meet[ropes[3]]]).toEqual([true, false]);
    expect([meet[stores[2]], meet[stores[3]]]).toEqual([true, false]);
    const gate = where(/blk\.1\.ffn_gate/);
    const up = where(/blk\.1\.ffn_up/);
    expect([up, meet[gate], meet[up]]).toEqual([gate + 1, true, false]);
  });

  it('activations are quantised once for products that share them, by the kernels that make them', () => {
    const { records } = build(TYPE.q8_0).plan;
    expect(
      records.filter((r) => r.casts?.some((t) => t.type === TYPE.q8_0)),
      'h, attention, f, swiglu of each layer; the last norm',
    ).toHaveLength(3 * 4 + 1);
    expect(
      records.filter((r) => r.code === 'QUANTIZE'),
      'their kernels write them on the way',
    ).toHaveLength(0);
    expect(build(TYPE.f32).plan.records.filter((r) => r.casts || r.code === 'QUANTIZE')).toHaveLength(0);
  });

  it('the encoded plan has the fields of the records', () => {
    const { plan } = build(TYPE.q8_0);
    const at = 1 << 16;
    const bytes = encodePlan(plan, at, 12345);
    const w = new Uint32Array(bytes.buffer);
    expect(bytes.length).toBe(plan.byteLength);
    const word = (address: number): number => w[(address - at) / 4];
    expect([w[PLAN.n_ops], w[PLAN.scratch], w[PLAN.scratch_size]]).toEqual([plan.records.length, 12345, plan.scratchSize]);
    expect(w[PLAN.dims] - w[PLAN.cursors], "every range's cursors fit before what follows").toBe(w[PLAN.cursor_bytes] * RANGES);
    const meet = barriers(plan.records);
    const cursors = new Set<number>();
    for (const [i, r] of plan.records.entries()) {
      const op = w[PLAN.ops] + i * OP_SIZE;
      expect((word(op + 4 * OP.flags) & OP_BARRIER) !== 0).toBe(meet[i]);
      for (const [j, t] of [r.dst, ...r.src].entries()) {
        const tensor = word(op + 4 * (OP.dst + j));
        if (!t) continue;
        const seen = (field: number): number => word(tensor + 4 * field);
        expect(
          [seen(TENSOR.type), seen(TENSOR.ne), seen(TENSOR.ne + 3), seen(TENSOR.nb + 1), seen(TENSOR.data)],
          describeRecord(r, i),
        ).toEqual([t.type.id, t.ne[0], t.ne[3], t.nb[1], t.data]);
      }
      cursors.add(word(op + 4 * OP.cursor));
    }
    expect(cursors.size, 'every op has a cursor of its own').toBe(plan.records.length);
    expect(Math.max(...cursors) + 4 - w[PLAN.cursors], 'in the first range').toBeLessThanOrEqual(w[PLAN.cursor_bytes]);
    const dims = Array.from({ length: w[PLAN.n_dims] }, (_, i) => [word(w[PLAN.dims] + 8 * i), word(w[PLAN.dims] + 8 * i + 4)]);
    for (const [address, by] of dims) {
      const index = Math.floor((address - at - PLAN_SIZE) / TENSOR_SIZE);
      const t = plan.tensors.find(
        (x, i) =>
          i >= index - 1 && x.batch && address === at + Math.ceil(PLAN_SIZE / 64) * 64 + i * TENSOR_SIZE + 4 * (TENSOR.ne + x.batch.dim),
      );
      expect(t?.batch && BATCH_COUNT[t.batch.by]).toBe(by);
    }
    expect(dims).toHaveLength(plan.tensors.filter((t) => t.batch).length);
  });
});

describe('shapes that do not fit are refused', () => {
  const f = (...ne: number[]): Tensor => leaf(`[${ne}]`, TYPE.f32, [...ne, 1, 1, 1].slice(0, 4) as unknown as Ne);
  const i32 = (n: number): Tensor => leaf(`${n} numbers`, TYPE.i32, [n, 1, 1, 1]);
  it.each<[string, () => unknown]>([
    ['mul_mat', () => mul_mat(f(32, 4), f(31, 4))],
    ['mul_mat broadcast', () => mul_mat(f(32, 4, 2), f(32, 4, 3))],
    ['rms_norm', () => rms_norm(f(32, 4), { weight: f(16), eps: 1e-5 })],
    ['rope of more than the head', () => rope(f(16, 4, 3), i32(3), f(32, 9))],
    ['rope of odd dimensions', () => rope(f(16, 4, 3), i32(3), f(7, 9))],
    ['rope positions', () => rope(f(16, 4, 3), i32(4), f(16, 9))],
    ['attention heads', () => attention(f(16, 5, 3), f(16, 256, 2), f(16, 256, 2), f(3), f(3), { scale: 1 })],
    ['add', () => add(f(32, 4), f(32, 5))],
    ['swiglu', () => swiglu(f(32, 4), f(16, 4))],
    ['reshape', () => reshape(f(32, 4), [32, 5, 1, 1])],
  ])('%s', (_, make) => expect(make).toThrow(expect.objectContaining({ code: 'ERR_TENSOR_SHAPE' })));

  it('kv_store and views have the memory of their bases', () => {
    const cache = f(16, 256, 2);
    const x = f(16, 2, 3);
    expect(kv_store(cache, x, f(3), 'k').viewOf).toBe(cache);
    const view = reshape(reshape(x, [32, 3, 1, 1]), [96, 1, 1, 1]);
    expect(view.viewOf).toBe(x);
  });
});
