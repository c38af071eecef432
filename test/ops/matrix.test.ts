/**
 * In the manner of ggml's test-backend-ops: every op over types, odd shapes, tails, broadcasts,
 * permutations and views with gaps, compared with scalar f64 on all builds and numbers of threads.
 * Memory next to the result must stay untouched. A failure prints fast-check's seed, the case,
 * index, got and want.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  add_inplace,
  cont,
  conv_1d,
  conv_2d,
  cpy,
  createEngine,
  div_inplace,
  group_norm,
  mean,
  mul_inplace,
  mul_mat,
  permute,
  repeat,
  reshape,
  rms_norm,
  scale,
  sub_inplace,
  sum,
  sum_rows,
  view,
  type Engine,
  type Tensor,
  type TypeName,
} from 'quantlet/core';
import { TYPE, namesOf, typesWith } from '../../src/type-traits.ts';
import { randomBlocks } from '../golden/formats-rows.ts';
import type { Source } from '../golden/ops/inputs.mjs';
import { evaluate, stored, type OpCase } from '../reference/golden-ops.ts';
import { gaussian, random } from '../kernel/harness.ts';
import { RUNS } from '../support.ts';
import { build, numbers, source } from './graph.ts';

/** ggml's own limits for f32 ops and for products of quantised weights. */
const F32_NMSE = 1e-7;
const QUANTISED_NMSE = 5e-4;
/**
 * The reference takes gelu from f16 tables and rounds activations to f16, as ggml does. Results of
 * f16 and bf16 are rounded once more.
 */
const F16_NMSE = 5e-6;
const BF16_NMSE = 5e-5;

const SIZE: Record<string, number> = { f32: 4, f16: 2, bf16: 2 };
type Layout = 'plain' | 'permuted' | 'gaps' | 'transposed';
type Four = [number, number, number, number];

/** A source that appears as ne, stored in one of several layouts. */
function laid(type: string, [a, b, c, d]: Four, layout: Layout, seed: number, more: Partial<Source> = {}): Source {
  const of = (ne: number[], rest: Partial<Source> = {}): Source => ({ type, ne, seed, scale: 2, ...more, ...rest });
  if (!(type in SIZE) || layout === 'plain') return of([a, b, c, d]);
  if (layout === 'permuted') return of([a, c, b, d], { permute: [0, 2, 1, 3] });
  if (layout === 'transposed') return of([b, a, c, d], { permute: [1, 0, 2, 3] });
  const row = (a + 3) * SIZE[type];
  const plane = row * (b + 1);
  return of([a + 3, b + 1, c, d], { view: { ne: [a, b, c, d], nb: [row, plane, plane * c], offset: row + 2 * SIZE[type] } });
}

interface Spec {
  op: string;
  ne: Four;
  type: string;
  layout: Layout;
  other: Layout;
  repeat: [boolean, boolean, boolean, boolean];
  seed: number;
}

const GLU = ['swiglu', 'geglu', 'geglu_quick', 'geglu_erf', 'reglu'];
const UNARY = [
  'gelu',
  'gelu_quick',
  'gelu_erf',
  'silu',
  'relu',
  'tanh',
  'sigmoid',
  'exp',
  'softplus',
  'sqr',
  'sqrt',
  'log',
  'neg',
  'abs',
  'step',
  'scale',
  'clamp',
  'soft_cap',
  'xielu',
  'diag_mask_inf',
  'l2_norm',
  'sum',
  'sum_rows',
  'mean',
  'cont',
  'soft_max_ext',
  'argsort',
  ...GLU,
];
const PARAMS: Record<string, Record<string, number>> = {
  scale: { s: -1.3, b: 0.25 },
  clamp: { min: -1, max: 0.5 },
  soft_cap: { cap: 1.5 },
  xielu: { alphaN: 0.3, alphaP: -0.4, beta: 0.5, eps: -1e-6 },
  diag_mask_inf: { n_past: 2 },
  norm: { eps: 1e-5 },
  rms_norm: { eps: 1e-5 },
  l2_norm: { eps: 1e-5 },
  soft_max_ext: { scale: 0.7, max_bias: 0 },
  argsort: { order: 1 },
};
const BINARY = ['add', 'sub', 'mul', 'div'];
const OPS = [
  ...UNARY,
  ...GLU.map((op) => `${op}_split`),
  ...BINARY,
  ...BINARY.map((op) => `${op}_inplace`),
  'norm',
  'rms_norm',
  'repeat',
  'concat',
  'cpy',
  'get_rows',
  'set_rows',
  'mul_mat',
  'rope_ext',
  'flash_attn_ext',
  'argmax',
  'top_k',
  'pool_1d',
  'mean_of_rows',
  'pad_ext',
  'group_norm',
  'im2col',
  'conv_1d',
  'conv_2d',
];

/** Turns a random spec into a case of the reference. */
function caseOf({ op, ne, type, layout, other, repeat, seed }: Spec): Omit<OpCase, 'dst'> {
  const make = (src: (Source | null)[], params = PARAMS[op] ?? {}): Omit<OpCase, 'dst'> => ({
    op,
    name: 'random',
    src,
    params,
    offset: 0,
    bytes: 0,
  });
  const [n0, n1, n2, n3] = ne;
  const a = laid(type, ne, layout, seed);
  const divided = ne.map((n, i) => (repeat[i] ? (n % 2 ? 1 : n / 2) : n)) as Four;
  if (GLU.includes(op)) return make([laid(type, [2 * n0, n1, n2, n3], layout, seed)]);
  if (op === 'soft_max_ext' && repeat[3])
    return make([a, laid(repeat[0] ? 'f16' : 'f32', [n0, n1 + 1, divided[2], divided[3]], 'plain', seed + 1)], {
      scale: 0.7,
      max_bias: repeat[1] ? 8 : 0,
    });
  if (UNARY.includes(op)) return make([a]);
  const divisor = laid(repeat[0] ? 'f32' : type, divided, other, seed + 1, { plus: 5 });
  if (BINARY.includes(op)) return make([a, divisor]);
  if (op.endsWith('_inplace')) return make([laid('f32', ne, layout, seed), divisor]);
  if (op.endsWith('_split')) return make([a, laid('f32', ne, other, seed + 1)]);
  switch (op) {
    case 'norm':
    case 'rms_norm': {
      const row = (i: number): Source | null =>
        repeat[i] ? { type: repeat[3] ? 'f16' : 'f32', ne: [n0], seed: seed + i, scale: 1 } : null;
      return make(op === 'norm' ? [a, row(1), row(2)] : [a, row(1)]);
    }
    case 'repeat':
      return make([laid(type, divided, layout, seed), { type: 'f32', ne, seed }]);
    case 'concat': {
      const dim = repeat.indexOf(true) & 3;
      return make([a, laid(type, ne.map((n, i) => (i === dim ? n + 1 : n)) as Four, other, seed + 1)], { dim });
    }
    case 'cpy': {
      const blocks = [32 * (1 + (n0 % 3)), n1, n2, n3] as Four;
      const to = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'][seed % 5];
      if (to.startsWith('q')) return make([laid(type, blocks, layout, seed), { type: to, ne: blocks, seed }], {});
      // Destinations with gaps and other shapes; block sources.
      const from = repeat[0] ? laid(repeat[1] ? 'q8_0' : 'q4_0', blocks, 'plain', seed) : a;
      const wide = repeat[0] ? blocks : ne;
      return make([from, laid(to, repeat[2] ? [wide[1], wide[0], wide[3], wide[2]] : wide, other, seed + 1)], {});
    }
    case 'get_rows': {
      const table = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'][seed % 5];
      const width = table.startsWith('q') ? 64 : n0;
      return make(
        [
          laid(table, [width, n1 + 2, n2, n3], layout === 'transposed' ? 'plain' : layout, seed),
          { type: 'i32', ne: [3, n2, n3], seed, modulo: n1 + 2 },
        ],
        {},
      );
    }
    case 'set_rows': {
      const to = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'][seed % 5];
      const width = to.startsWith('q') ? 64 : n0;
      return make(
        [
          laid(to, [width, n1 + 3, n2, n3], 'plain', seed),
          laid('f32', [width, 2, n2, n3], layout, seed + 1),
          { type: repeat[0] ? 'i64' : 'i32', ne: [2], values: [n1 + 1, 0] },
        ],
        {},
      );
    }
    case 'mul_mat': {
      const w = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'][seed % 5];
      const k = w.startsWith('q') ? 32 * (1 + (n0 % 3)) : n0;
      const x = w === 'bf16' || w === 'f16' ? w : ['f32', 'f32', 'f16', 'bf16', w.startsWith('q') ? 'q8_0' : 'f32'][(seed >> 3) % 5];
      return make(
        [
          laid(w, [k, n1 + 17 * (seed % 3), 1 + (n2 & 1), 1], layout, seed),
          laid(x, [k, 1 + (seed % 7), (1 + (n2 & 1)) * n3, n3], other, seed + 1),
        ],
        {},
      );
    }
    case 'rope_ext':
      return make(
        [
          laid(type, [16 + 2 * (n0 % 5), n1, n2, n3], layout === 'transposed' ? 'permuted' : layout, seed),
          { type: 'i32', ne: [n2], values: Array.from({ length: n2 }, (_, i) => ((seed * (i + 3)) % 399) - 199) },
          null,
        ],
        {
          n_dims: repeat[0] ? 16 : 8,
          mode: repeat[1] ? 2 : 0,
          n_ctx_orig: 64,
          freq_base: 1000,
          freq_scale: 0.5,
          ext_factor: repeat[2] ? 1 : 0,
          attn_factor: 1,
          beta_fast: 32,
          beta_slow: 1,
        },
      );
    case 'flash_attn_ext': {
      const kv = ['f32', 'f16', 'q8_0', 'q4_0'][(seed >> 2) % 4];
      const d = kv.startsWith('q') ? 32 * (1 + (n0 & 1)) : 4 + n0;
      const dv = repeat[0] ? 32 : d;
      const nKv = [1, 7, 40, 256, 300][seed % 5];
      const tokens = 1 + (seed % 9);
      const heads = 1 + (seed % 2);
      const cache = (width: number): Source =>
        laid(kv, [width, nKv, heads, 1], kv.startsWith('q') ? 'plain' : other === 'transposed' ? 'permuted' : other, seed + width);
      return make(
        [
          laid('f32', [d, tokens, heads * (1 + (n1 % 3)), 1], layout, seed),
          cache(d),
          cache(dv),
          repeat[1] ? null : { type: repeat[3] ? 'f32' : 'f16', ne: [nKv, tokens], seed: seed + 9, scale: 3 },
        ],
        {
          scale: 0.3,
          max_bias: repeat[1] || !repeat[2] ? 0 : 8,
          logit_softcap: repeat[3] ? 5 : 0,
          causal: nKv >= tokens ? seed & 1 : 0,
          window: nKv >= tokens && seed & 1 ? (seed >> 1) % 40 : 0,
        },
      );
    }
    case 'pad_ext':
      return make([a], {
        lp0: seed % 3,
        rp0: (seed >> 2) % 4,
        lp1: (seed >> 4) % 2,
        rp1: (seed >> 5) % 3,
        lp2: (seed >> 7) % 2,
        rp2: (seed >> 8) % 2,
        lp3: (seed >> 9) % 2,
        rp3: (seed >> 10) % 2,
      });
    case 'group_norm':
      return make([a], { groups: 1 + (seed % 5), eps: 1e-5 });
    case 'im2col':
    case 'conv_1d':
    case 'conv_2d': {
      const flat = op === 'conv_1d' || (op === 'im2col' && repeat[0]);
      const [kw, kh, out] = [1 + (seed % 4), 1 + ((seed >> 2) % 3), 1 + ((seed >> 4) % 3)];
      const weights = ['f32', 'f16', 'bf16'][(seed >> 6) % 3];
      const x = laid(type, flat ? [7 + (n0 % 20), n2, n3, 1] : [7 + (n0 % 20), 4 + n1, n2, n3], layout, seed);
      const kernel = laid(weights, flat ? [kw, n2, out, 1] : [kw, kh, n2, out], other, seed + 1);
      const moves = { s0: 1 + ((seed >> 8) % 3), p0: (seed >> 10) % 3, d0: 1 + ((seed >> 12) % 2) };
      const more: Record<string, number> = flat ? {} : { s1: 1 + ((seed >> 13) % 2), p1: (seed >> 14) % 3, d1: 1 + ((seed >> 16) % 2) };
      return make([kernel, x], { ...moves, ...more, type: repeat[1] ? 0 : 1, ...(op === 'im2col' ? { is_2D: flat ? 0 : 1 } : {}) });
    }
    case 'top_k':
      return make([a], { k: 1 + (seed % n0) });
    case 'mean_of_rows':
      return make(
        [
          laid(type, [n0, n1 + 3, 1, 1], layout, seed),
          { type: 'i32', ne: [3], values: [0, n1, 2] },
          { type: 'i32', ne: [3], values: [n1 + 3, 3, 0] },
        ],
        {},
      );
    case 'argmax':
      return make([laid(type, [n0, n1, 1, 1], layout, seed)], {});
    default:
      return make([laid(type, [n0 + 4, n1, n2, n3], layout, seed)], {
        kind: repeat[0] ? 1 : 0,
        k0: 1 + (seed % 4),
        s0: 1 + (seed % 3),
        p0: 0,
      });
  }
}

function limit(c: OpCase): number {
  const types = c.src.map((s) => s?.type);
  const first = types[c.op === 'flash_attn_ext' ? 1 : 0]!;
  if ((c.op === 'mul_mat' || c.op === 'flash_attn_ext') && first.startsWith('q')) return QUANTISED_NMSE;
  if (c.dst.type === 'bf16') return BF16_NMSE;
  return c.dst.type === 'f16' || /gelu|geglu|flash|conv/.test(c.op) ? F16_NMSE : F32_NMSE;
}

const GUARD = 0xa5;

/**
 * Runs a plan of the result. Returns its elements, and a description of the first written byte next
 * to it or of a source that changed ('' if none).
 */
async function guarded(engine: Engine, result: Tensor, sources: readonly Tensor[]): Promise<{ got: Float64Array; touched: string }> {
  const plan = engine.plan(result);
  const bases = sources.map((t) => t.viewOf ?? t);
  const bytes = new Uint8Array(engine.view(bases[0]).buffer);
  const { type, ne } = result;
  const end = result.data + (ne[0] / type.blckSize) * type.typeSize * ne[1] * ne[2] * ne[3];
  // With temporaries, the result may lie where one of them was. Then its neighbours cannot be
  // guards.
  const padding = result.viewOf || plan.explain().includes('\n') ? end : Math.ceil(end / 64) * 64;
  if (!result.viewOf) bytes.fill(GUARD, result.data, padding);
  const before = bases.map((t) => engine.read(t));
  await engine.compute(plan);
  const got = numbers(engine, result);
  const behind = bytes.subarray(end, padding).findIndex((v) => v !== GUARD);
  const changed = bases.findIndex((t, i) => t !== result.viewOf && !same(before[i], engine.read(t)));
  plan.dispose();
  return { got, touched: behind >= 0 ? `byte ${behind} behind the result was written` : changed >= 0 ? `source ${changed} changed` : '' };
}

const same = (a: ArrayLike<unknown>, b: ArrayLike<unknown>): boolean => Array.prototype.every.call(a, (v, i) => Object.is(v, b[i]));

function nmse(got: ArrayLike<number>, want: ArrayLike<number>): number {
  let diff = 0;
  let power = 0;
  for (let i = 0; i < want.length; i++) {
    if (!Number.isFinite(want[i]) || !Number.isFinite(got[i])) {
      if (!Object.is(got[i], want[i])) return Infinity;
    } else {
      diff += (want[i] - got[i]) ** 2;
      power += want[i] ** 2;
    }
  }
  return diff && diff / power;
}

const dims = fc.tuple(
  fc.integer({ min: 1, max: 70 }),
  fc.integer({ min: 1, max: 5 }),
  fc.integer({ min: 1, max: 4 }),
  fc.integer({ min: 1, max: 3 }),
);
const layouts = fc.constantFrom<Layout>('plain', 'permuted', 'gaps', 'transposed');
const specs = (op: string): fc.Arbitrary<Spec> =>
  fc.record({
    op: fc.constant(op),
    ne: dims,
    type: fc.constantFrom('f32', 'f32', 'f16', 'bf16'),
    layout: layouts,
    other: layouts,
    repeat: fc.tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.boolean()),
    seed: fc.integer({ min: 1, max: 1 << 20 }),
  });

describe.each(RUNS)('%s, %i threads', (name, threads) => {
  let engine: Engine;
  beforeAll(async () => void (engine = await createEngine({ build: name, threads })));
  afterAll(() => engine.dispose());

  it.each([...new Set(OPS)])('%s', async (op) => {
    await fc.assert(
      fc.asyncProperty(specs(op), async (spec) => {
        const c = caseOf(spec);
        const free = engine.freeBytes;
        const src = [];
        for (const s of c.src) src.push(s ? await source(engine, s) : undefined);
        const result = build(c as OpCase, src);
        const whole: OpCase = { ...c, dst: { type: result.type.name, ne: result.ne } };
        const held = src.filter((t) => t !== undefined);
        const { got, touched } = await guarded(engine, result, held);
        const want = stored(result.type.name, evaluate(whole));
        for (const t of held) engine.free(t.viewOf ?? t);
        expect(engine.freeBytes, 'everything is given back').toBe(free);
        expect(touched, JSON.stringify(whole)).toBe('');
        const at = want.findIndex((w, i) => !(Math.abs(w - got[i]) <= 1e-3 * Math.abs(w) + 1e-3));
        expect(nmse(got, want), `index ${at}: got ${got[at]}, want ${want[at]}; ${JSON.stringify(whole)}`).toBeLessThanOrEqual(
          limit(whole),
        );
      }),
      { seed: 20260 + op.length, numRuns: op === 'mul_mat' || op === 'flash_attn_ext' || op === 'cpy' ? 24 : 8 },
    );
  });

  it.each<[string, typeof add_inplace, (a: number, b: number) => number]>([
    ['add', add_inplace, (a, b) => a + b],
    ['sub', sub_inplace, (a, b) => a - b],
    ['mul', mul_inplace, (a, b) => a * b],
    ['div', div_inplace, (a, b) => a / b],
  ])('%s in place: a window in the middle of a tensor, and nothing around it', async (_, op, want) => {
    const [n0, n1, w0, w1, at] = [41, 5, 37, 3, 43];
    const x = gaussian(n0 * n1, 3);
    const y = gaussian(w0 * w1, 4);
    const a = engine.tensor('f32', [n0, n1], x);
    const b = engine.tensor('f32', [w0, w1], y);
    const window = view(a, [w0, w1], { nb: [n0 * 4], offset: at * 4 });
    const plan = engine.plan(op(window, b));
    await engine.compute(plan);
    const got = engine.read(a) as Float32Array;
    x.forEach((v, i) => {
      const column = (i - at) % n0;
      const row = Math.floor((i - at) / n0);
      const inside = i >= at && column < w0 && row < w1;
      expect(got[i], `index ${i}`).toBe(inside ? Math.fround(want(v, y[row * w0 + column])) : v);
    });
    plan.dispose();
    for (const t of [a, b]) engine.free(t);
  });

  const READ_ONLY = namesOf(typesWith((k) => !k.quantizer));
  const INTEGER = namesOf(typesWith((k, { blckSize }) => k.vecDotType && blckSize > 1));
  it.each([...INTEGER, ...READ_ONLY])('mul_mat of %s: plain, packed and dequantised', async (type) => {
    const [k, n, m] = [512, 37, 3];
    const { typeSize, blckSize } = TYPE[type];
    const x = gaussian(k * m, 6);
    const q = engine.tensor(type, [k, n], randomBlocks(type, typeSize, (k * n) / blckSize, 5));
    const back = engine.tensor('f32', [k, n]);
    const xs = engine.tensor('f32', [k, m], x);
    await engine.compute(engine.plan(cpy(q, back)));
    const d = engine.read(back) as Float32Array;
    const want = Float64Array.from({ length: n * m }, (_, i) => {
      let sum = 0;
      for (let j = 0; j < k; j++) sum += d[(i % n) * k + j] * x[Math.floor(i / n) * k + j];
      return sum;
    });
    const product = async (t: Tensor): Promise<Float32Array> => {
      await engine.compute(engine.plan(t));
      return engine.read(t) as Float32Array;
    };
    // Both precisions: activations of 8 bits, and weights dequantised.
    const dequantised = mul_mat(q, xs, { precision: 'f32' });
    const readOnly = READ_ONLY.includes(type);
    expect(engine.plan(mul_mat(q, xs)).explain()).toMatch(readOnly ? /no vec_dot for the type: weights dequantised/ : /integer vec_dot/);
    expect(engine.plan(dequantised).explain()).toMatch(/weights dequantised, f32 vec_dot/);
    expect(nmse(await product(mul_mat(q, xs)), want)).toBeLessThanOrEqual(readOnly ? F32_NMSE : QUANTISED_NMSE);
    expect(nmse(await product(dequantised), want)).toBeLessThanOrEqual(F32_NMSE);
    const packed = await engine.pack(q);
    const y = mul_mat(q, xs);
    const plan = engine.plan(y);
    if (packed) expect(plan.explain()).toMatch(/: packed, gem/);
    expect(packed).toBe(TYPE[type].kernels!.packed !== undefined);
    await engine.compute(plan);
    expect(nmse(engine.read(y) as Float32Array, want)).toBeLessThanOrEqual(QUANTISED_NMSE);
    const batches = engine.tensor('f32', [k, 1, m], x);
    expect(await product(mul_mat(q, batches)), 'a column in each of three batches').toEqual(engine.read(y));
    for (const t of [q, back, xs, batches]) engine.free(t);
  });

  it.each<TypeName>(['f32', 'f16', 'bf16'])('mul_mat of %s: packed and plain give the same', async (type) => {
    const [k, n, m] = [96, 37, 5];
    const wf = engine.tensor('f32', [k, n], gaussian(k * n, 7));
    const w = engine.tensor(type, [k, n]);
    const xs = engine.tensor('f32', [k, m], gaussian(k * m, 8));
    await engine.compute(engine.plan(cpy(wf, w)));
    const product = async (): Promise<Float32Array> => {
      const y = mul_mat(w, xs);
      await engine.compute(engine.plan(y));
      return engine.read(y) as Float32Array;
    };
    const plain = await product();
    expect(await engine.pack(w)).toBe(true);
    expect(engine.plan(mul_mat(w, xs)).explain()).toMatch(new RegExp(`${type} x f32: packed, gemm_f32_8x4`));
    expect(nmse(await product(), Float64Array.from(plain))).toBeLessThanOrEqual(F32_NMSE);
    for (const t of [wf, w, xs]) engine.free(t);
  });

  it.each<TypeName>(['f32', 'i32', 'bf16', 'q8_0', 'q4_K', 'iq2_xs', 'mxfp4'])(
    'cpy of %s to another shape moves its bytes',
    async (type) => {
      const { typeSize, blckSize } = TYPE[type];
      const src = engine.tensor(type, [512, 6]);
      const r = random(9);
      const bytes = Uint8Array.from({ length: (3072 / blckSize) * typeSize }, () => 256 * r());
      engine.write(src, bytes);
      const before = engine.read(src);
      const rows = reshape(src, [512, 3, 2]);
      const dst = engine.tensor(type, [1024, 3]);
      await engine.compute(engine.plan(cpy(src, dst)));
      expect(same(engine.read(dst), before)).toBe(true);
      const turned = cont(permute(rows, 0, 2, 1, 3));
      await engine.compute(engine.plan(turned));
      const got = new Uint8Array(engine.read(turned).buffer);
      const row = (512 / blckSize) * typeSize;
      for (let r = 0; r < 6; r++)
        expect(
          same(got.subarray(r * row, (r + 1) * row), bytes.subarray(((r & 1) * 3 + (r >> 1)) * row, ((r & 1) * 3 + (r >> 1) + 1) * row)),
          `row ${r}`,
        ).toBe(true);
      for (const t of [src, dst]) engine.free(t);
    },
  );

  it('a kernel of plain numbers: the differences of a row, and the mean of a window', async () => {
    const x = engine.tensor('f32', [5], Float32Array.of(1, 4, 9, 16, 25));
    const y = conv_1d([-1, 1], x);
    const z = conv_2d(
      [
        [1 / 4, 1 / 4],
        [1 / 4, 1 / 4],
      ],
      reshape(repeat(x, [5, 2]), [5, 2, 1]),
      { stride: [2, 1] },
    );
    await engine.compute(engine.plan(y, z));
    expect([engine.read(y), engine.read(z)]).toEqual([Float32Array.of(3, 5, 7, 9), Float32Array.of(2.5, 12.5)]);
    engine.free(x);
  });

  it('sums of millions lose nothing: sum_rows, mean, sum, norms', async () => {
    const n = 1 << 20;
    const x = engine.tensor('f32', [n], new Float32Array(n).fill(0.1));
    const wide = reshape(x, [1 << 8, 1 << 8, 16]);
    const run = async (t: Tensor): Promise<number> => {
      const plan = engine.plan(t);
      await engine.compute(plan);
      const first = (engine.read(t) as Float32Array)[0];
      plan.dispose();
      return first;
    };
    const value = Math.fround(0.1);
    expect(await run(sum_rows(x))).toBe(Math.fround(value * n));
    expect(await run(mean(x))).toBe(value);
    expect(await run(sum(wide))).toBe(Math.fround(value * n));
    expect(await run(rms_norm(x, { eps: 0 }))).toBeCloseTo(1, 7);
    // All elements equal the mean, so the rest is the mean's error.
    expect(await run(group_norm(wide, { groups: 1, eps: 1 }))).toBe(0);
    engine.free(x);
  });

  it('results that are computed twice, and from results of other plans', async () => {
    const x = engine.tensor('f32', [5], Float32Array.of(1, 2, 3, 4, 5));
    const twice = scale(x, 2);
    const plan = engine.plan(twice);
    await engine.compute(plan);
    await engine.compute(plan);
    expect([...(engine.read(twice) as Float32Array)]).toEqual([2, 4, 6, 8, 10]);
  });
});
