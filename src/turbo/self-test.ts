/**
 * Self-test of turbo: the kernels' results for fixed inputs, as one checksum for each kernel. It
 * covers packed products of every format by every loop, plain products, attention, and the other
 * ops of a model. bits.ts has the checksums of ordinary code, which turbo's code must match.
 */
import {
  attention,
  flash_attn_ext,
  hasBlocks,
  kv_store,
  FLASH_TYPES,
  KV_TYPES,
  paddedHeadDim,
  type FlashAttnOptions,
  type KvType,
} from '../graph/attention-ops.ts';
import {
  add,
  clamp,
  exp,
  gelu,
  gelu_erf,
  gelu_quick,
  geglu,
  mul,
  reglu,
  relu,
  repeat,
  scale,
  sigmoid,
  silu,
  softplus,
  sqr,
  sub,
  swiglu_oai,
  swiglu,
  tanh,
} from '../graph/elementwise-ops.ts';
import { add_id, grouped_matmul, mul_mat_id } from '../graph/grouped-ops.ts';
import { axpy, mul_mat_sparse } from '../graph/sparse-ops.ts';
import { in_sum2 } from '../graph/input-sums.ts';
import { SYNC_SIZE } from '../graph/layout.ts';
import { lower, type OpRecord } from '../graph/lower.ts';
import { cast, cpy, get_rows, mul_mat } from '../graph/ops.ts';
import { packedBytes, repackRecord } from '../graph/packing.ts';
import { createGraphPlan, expand, placePlan, planBytes, type GraphPlan, type PlacedPlan } from '../graph/plan.ts';
import { gated_delta_net, ssm_conv, ssm_scan } from '../graph/recurrent-ops.ts';
import { argmax, fwht, l2_norm, mean, norm, rms_norm, soft_max, top_k } from '../graph/row-ops.ts';
import { rope } from '../graph/rope.ts';
import { constant, leaf, nbytes, type Ne, type Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import { TYPE, rowSize, typesWith, type TypeTraits } from '../type-traits.ts';
import { instantiate, isaOf, isThreaded, type Build } from '../wasm/load.ts';
import { createAllocator } from '../wasm/allocator.ts';
import { ARENA_BASE, createMemory } from '../wasm/memory.ts';

/**
 * Elements: one panel of 512 weights and half of another. Rows: two row blocks and half of a third.
 */
const NE0 = 768;
const ROWS = 40;
/**
 * Numbers of columns for every path: 1, 2 and 3 columns, widths of gemm_16xn up to 16, and tiles of
 * four with each remainder.
 */
const COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 18, 19] as const;
const MOST_COLUMNS = Math.max(...COLUMNS);

/** f32 in [-1, 1), the same on every machine: a linear congruential generator. */
const POOL = new Float32Array(1 << 17);
for (let i = 0, state = 1; i < POOL.length; i++) {
  state = (Math.imul(state, 1664525) + 1013904223) | 0;
  POOL[i] = (state >> 8) / 2 ** 23;
}

/** Tensor of numbers in [-1, 1), which depend on the seed. */
function floats(name: string, ne: Ne, seed: number): Tensor<'f32'> {
  const at = seed * 997;
  return constant(name, TYPE.f32, ne, () => new Uint8Array(POOL.buffer, at * 4, ne[0] * ne[1] * ne[2] * ne[3] * 4));
}
const integers = (name: string, values: readonly number[]): Tensor<'i32'> =>
  constant(name, TYPE.i32, [values.length, 1, 1, 1], () => new Uint8Array(Int32Array.from(values).buffer));

/** Results to be summed up, by kernel. */
type Cases = { [name: string]: Tensor[] };

/** Arbitrary blocks. Bytes lack bit 5, so no f16 at any place in them is Inf or NaN. */
const blocks = (type: TypeTraits, ne: Ne): Tensor =>
  constant(type.name, type, ne, () => Uint8Array.from({ length: rowSize(type, ne[0]) * ne[1] }, (_, i) => (POOL[i] * 2 ** 15) & 0x5f));

function productCases(packed: readonly Tensor[], fast: readonly Tensor[]): Cases {
  const x = floats('x', [NE0, MOST_COLUMNS, 1, 1], 1);
  const rows = floats('rows', [NE0, 16, 1, 1], 2);
  const columns = COLUMNS.map((m) => view(x, [NE0, m, 1, 1], {}));
  const few = columns[2];
  const ids = integers('ids', [15, 0, 7]);
  const read = (w: Tensor): Tensor[] => [mul_mat(w, few), get_rows(w, ids)];
  const every = (w: Tensor): Tensor[] => [...columns.map((y) => mul_mat(w, y)), get_rows(w, ids)];
  return Object.fromEntries([
    ...packed.map((w) => [`packed ${w.type.name}`, every(w)]),
    ...fast.map((w) => [`packed ${w.name} as ${w.type.name}`, every(w)]),
    ...typesWith((k) => k.vecDotType).map((type) => [`plain ${type.name}`, read(cast(rows, type.name))]),
    ...typesWith((k) => !k.vecDotType && k.packed).map((type) => [`plain ${type.name}`, read(blocks(type, [NE0, 16, 1, 1]))]),
  ]);
}

/** Three matrices, and nine tokens that use two of them each. */
function groupCases(packed: readonly Tensor[]): Cases {
  const x = floats('x', [NE0, 1, 9, 1], 20);
  const ids = reshape(integers('ids', [0, 2, 0, 1, 2, 0, 0, 1, 0, 2, 0, 0, 0, 1, 2, 0, 0, 1]), [2, 9]);
  const bias = floats('bias', [16, 3, 1, 1], 21);
  const matrices = floats('matrices', [NE0, 16, 3, 1], 22);
  const by = (w: Tensor): Tensor[] => [
    add_id(mul_mat_id(w, x, ids), bias, ids),
    mul_mat_id(w, view(x, [NE0, 1, 1], {}), view(ids, [2, 1], {})),
    grouped_matmul(view(x, [NE0, 9], {}), w, [2, 2, 9]),
  ];
  return {
    'products by many matrices': [...packed, matrices, cast(matrices, 'q8_0')].flatMap(by),
    'products of parts': [grouped_matmul(view(x, [NE0, 9], {}), view(matrices, [NE0, 16], {}), [256, 256, NE0], { split: 'k', bias })],
  };
}

/**
 * Sizes of the attention cases: 2 KV heads, and cells for two splits of at most 256, of which the
 * second is short.
 */
const HEAD = 64;
const KV_HEADS = 2;
const N_KV = 300;

function attentionCases(): Cases {
  const sources = new Map([HEAD, 80].map((hd) => [hd, [4, 5].map((seed) => floats('kv', [hd, N_KV, KV_HEADS, 1], seed))]));
  const kept = new Map(
    [...sources].flatMap(([hd, kv]) =>
      FLASH_TYPES.filter((type) => hd % TYPE[type].blckSize === 0).map((type) => [`${type} ${hd}`, kv.map((x) => cast(x, type))]),
    ),
  );
  const flash = (type: KvType, tokens: number, heads: number, options: FlashAttnOptions = {}, hd = HEAD): Tensor => {
    const [k, v] = kept.get(`${type} ${hd}`)!;
    return flash_attn_ext(floats('q', [hd, tokens, heads, 1], 3), k, v, { scale: 0.5, ...options });
  };
  const mask = floats('mask', [N_KV, 13, 1, 1], 6);
  return {
    // 1, 2 and 3 rows of a kv head, as in generation; 7 and 8 rows; 13 * 4 rows, as in a prompt.
    ...Object.fromEntries(
      FLASH_TYPES.map((type) => [
        `attention ${type}`,
        [
          [1, 2],
          [1, 4],
          [1, 6],
          [7, 2],
          [4, 4],
          [13, 8],
        ].map(([tokens, heads]) => flash(type, tokens, heads, { causal: true })),
      ]),
    ),
    'attention of a head of 80': (['f16', 'f32'] as const).flatMap((type) => [flash(type, 1, 4, {}, 80), flash(type, 5, 4, {}, 80)]),
    'attention with a mask': [flash('f16', 13, 4, { mask, maxBias: 8 }), flash('q8_0', 13, 4, { mask })],
    'attention with a cap': [flash('f16', 1, 4, { logitSoftcap: 2 }), flash('f32', 13, 4, { logitSoftcap: 2, causal: true, window: 40 })],
    'attention with sinks': [flash('f16', 1, 4, { sinks: [0, 1, -9, 9] }), flash('q8_0', 13, 4, { sinks: [0, 1, -9, 9] })],
    'attention with one maximum': [flash('f16', 1, 4, { unifiedMax: 1 }), flash('q8_0', 13, 8, { unifiedMax: 1 })],
    ...cacheCase(),
  };
}

/**
 * As in models: tokens are stored one by one in cells of a cache, and attention covers two
 * sequences in it.
 */
function cacheCase(): Cases {
  const cells = 512;
  const tokens = 2;
  const q = floats('q', [HEAD, 4, tokens, 1], 7);
  const cached = (type: KvType, order: 'k' | 'v', seed: number): Tensor => {
    const cache = floats('cache', [paddedHeadDim(type, HEAD), cells, KV_HEADS, 1], seed);
    const kept = cast(cache, type);
    return kv_store(kept, floats('new', [HEAD, KV_HEADS, 3, 1], seed + 1), integers('cells', [290, 3, 511]), order);
  };
  return {
    'attention over a cache': KV_TYPES.filter((type) => !hasBlocks(TYPE[type])).map((type) =>
      attention(q, cached(type, 'k', 8), cached(type, 'v', 10), integers('first', [0, 256]), integers('visible', [291, 256]), {
        scale: 0.125,
      }),
    ),
  };
}

function otherCases(): Cases {
  const x = scale(floats('x', [NE0 + 5, 7, 1, 1], 12), 3);
  const y = floats('y', [NE0 + 5, 7, 1, 1], 13);
  const row = floats('row', [NE0 + 5, 1, 1, 1], 14);
  const heads = floats('heads', [HEAD, 4, 5, 1], 15);
  const table = floats('table', [HEAD, 16, 1, 1], 16);
  const pos = integers('pos', [0, 3, 15, 4, 5]);
  const inputs = floats('inputs', [16, 4, 11, 1], 24);
  const gates = floats('gates', [1, 4, 11, 1], 25);
  const states = floats('states', [16, 16, 4, 1], 26);
  const wide = floats('wide', [3584, 2, 1, 1], 31);
  const some = relu(floats('some', [7, 3, 1, 1], 29));
  return {
    norms: [
      rms_norm(x, { eps: 1e-5, weight: row }),
      rms_norm(add(x, y), { eps: 1e-5 }),
      norm(x, { eps: 1e-5, weight: row, bias: row }),
      l2_norm(x, { eps: 1e-5 }),
    ],
    rope: [rope(heads, pos, table), rope(heads, pos, table, { mode: 'neox' })],
    // 28 parts of 128; every kind of second pass, and a third pass.
    fwht: [3584, 512, 256, 64, 32, 16].map((n) => fwht(wide, { n })),
    soft_max: [soft_max(x, {}), soft_max(x, { mask: floats('mask', [NE0 + 5, 7, 1, 1], 17), scale: 0.5 })],
    activations: [silu(x), gelu(x), gelu_erf(x), gelu_quick(x), sigmoid(x), tanh(x), softplus(x), exp(x), sqr(x), clamp(x, -1, 1)],
    'gated units': [swiglu(x, y), geglu(x, y), reglu(x, y), swiglu_oai(x, y)],
    elements: [add(x, row), mul(x, y), sub(x, y), scale(x, 0.3), repeat(row, [NE0 + 5, 3])],
    'recurrent layers': [
      ssm_conv(floats('sx', [14, 41, 1, 1], 20), floats('kernel', [4, 41, 1, 1], 21)),
      ...[1, 16].map((n) =>
        ssm_scan(states, inputs, floats('dt', [4, 11, 1, 1], 22), floats('A', [n, 4, 1, 1], 23), inputs, inputs, integers('ids', [0])),
      ),
      gated_delta_net(inputs, l2_norm(inputs, { eps: 1e-6 }), inputs, gates, gates, states),
    ],
    'some rows': [
      axpy(x, some, some),
      axpy(cast(floats('rows', [NE0, 7, 1, 1], 27), 'q4_0'), some, some),
      mul_mat_sparse(y, x, floats('idx', [7, 7, 1, 1], 28), { threshold: 0 }),
      ...(['q4_0', 'q8_0'] as const).map((type) =>
        mul_mat_sparse(cast(floats('rows', [NE0, 7, 1, 1], 27), type), floats('x', [NE0, 3, 1, 1], 30), some),
      ),
    ],
    reductions: [mean(x), argmax(x), top_k(x, 9), in_sum2(x, floats('sums', [NE0 + 5, 1, 1, 1], 19))],
  };
}

/** FNV-1a over 32-bit words. */
function checksum(words: Uint32Array, seed: number): number {
  let h = seed;
  for (const word of words) h = Math.imul(h ^ word, 0x01000193);
  return h >>> 0;
}

/**
 * Runs everything once on the calling thread.
 * @returns a hexadecimal checksum for each kernel's name
 */
export function selfTest(module: WebAssembly.Module, build: Build): { [name: string]: string } {
  const shared = isThreaded(build);
  const target = { isa: isaOf(build) };
  const arena = createAllocator(ARENA_BASE);
  const sync = arena.take(SYNC_SIZE);
  const source = floats('source', [NE0, ROWS, 1, 1], 18);
  const sources = floats('sources', [NE0, 16, 3, 1], 23);
  const weights = typesWith((k) => k.packed).map((type): Tensor => leaf(type.name, type, [NE0, ROWS, 1, 1]));
  // For these types, any bytes serve as plain rows too.
  const slower = typesWith((k) => k.fast);
  const fast = slower.map((type): Tensor => leaf(type.name, type.kernels!.fast!, [NE0, ROWS, 1, 1]));
  const matrices = [TYPE.f32, TYPE.q4_0, TYPE.q6_K].map((type) => leaf(`matrices ${type.name}`, type as TypeTraits, [NE0, 16, 3, 1]));
  const all: readonly Tensor[] = [...weights, ...fast, ...matrices];
  for (const w of all) w.data = arena.take(packedBytes(w));

  // Types of grids are quantised by another module, so they get arbitrary blocks.
  const values = [
    ...[...weights, ...fast].map((w) => cpy(weights.includes(w) && w.type.kernels?.quantizer ? source : blocks(w.type, [...w.ne]), w)),
    ...matrices.map((w) => cpy(sources, w)),
  ];
  const packing = lower(expand(values), target);
  packing.push(...all.map((w) => repackRecord({ ...w }, undefined, slower[fast.indexOf(w)])));
  for (const w of all) w.layout = 'packed';
  const cases = {
    ...productCases(weights, fast),
    ...groupCases(matrices),
    ...attentionCases(),
    ...otherCases(),
  };
  const results = Object.values(cases).flat();
  const plans = [planned(packing, []), planned(lower(expand(results), target), results)];

  const memory = createMemory(arena.end, shared);
  const kernels = instantiate(module, memory);
  for (const { plan, at, encode } of plans) {
    for (const c of plan.constants) new Uint8Array(memory.buffer).set(c.values!(), c.data);
    new Uint8Array(memory.buffer).set(encode(), at);
    kernels.begin(at, 0, 0);
    kernels.compute(at, sync, 0, 1, 0, plan.records.length);
  }
  return Object.fromEntries(
    Object.entries(cases).map(([name, tensors]) => {
      const sum = tensors.reduce((h, t) => checksum(new Uint32Array(memory.buffer, t.data, nbytes(t) >> 2), h), 0x811c9dc5);
      return [name, sum.toString(16).padStart(8, '0')];
    }),
  );

  function planned(records: readonly OpRecord[], keep: readonly Tensor[]): PlacedPlan & { plan: GraphPlan } {
    const plan = createGraphPlan(records, keep);
    for (const c of plan.constants) c.data = arena.take(nbytes(c));
    return { plan, ...placePlan(plan, arena.take(planBytes(plan, 1)), 1) };
  }
}
