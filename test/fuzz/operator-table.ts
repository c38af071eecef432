/**
 * Operators of random graphs. A row has the reference's name (test/reference/golden-ops.ts), the
 * operands and the tolerance.
 */
import type { TypeName } from '../../src/type-traits.ts';
import type { Four } from '../reference/memory.ts';
import type { Generator, Operand } from './operator-graphs.ts';

export interface Taken {
  readonly src: readonly (Operand | null)[];
  readonly params?: Readonly<{ [name: string]: number }>;
  /** Index of the source that is written: the result is a view of it. */
  readonly into?: number;
  /** Noise of this call, if not the row's. */
  readonly noise?: number;
}

export interface OpRow {
  readonly op: string;
  /** @see Step.noise; default: that of sums and products of f32. */
  readonly noise?: number;
  /** Chooses the sources; undefined if no shape of the graph fits. */
  readonly take: (g: Generator) => Taken | undefined;
}

const FLOATS: readonly TypeName[] = ['f32', 'f32', 'f16', 'bf16'];
const SIDES: readonly TypeName[] = ['f32', 'f16', 'bf16', 'q8_0', 'q4_0'];
const F32 = 2 ** -16;
/**
 * Noise of norms that subtract a mean. If a row is little more than its mean, the rest is divided
 * by sqrt(eps).
 */
const SHIFTED = 2 ** -11;
/** Noise of products: 8-bit activations may round to the reference's neighbouring code. */
const PRODUCT: { readonly [type: string]: number } = { f32: F32, f16: F32, bf16: F32, q8_0: 2 ** -5, q4_0: 2 ** -4 };
/** Noise of attention, whose kernels have their own exp. */
const SCORES = 2 ** -12;

const one = (op: string, params: Taken['params'] = {}, noise = F32): OpRow => ({
  op,
  noise,
  take: (g) => ({ src: [g.any(FLOATS)], params }),
});
/** Ops for which a small error of an operand could change the answer entirely. */
const exact = (op: string, noise = F32): OpRow => ({ op, noise, take: (g) => ({ src: [g.exact(FLOATS)] }) });
const row1 = (g: Generator, n: number): Operand | null => (g.chance(0.7) ? g.of([n, 1, 1, 1], FLOATS) : null);
const dividing = (g: Generator, ne: Four): Four =>
  ne.map((n) => (g.chance(0.4) ? (n % 2 || g.chance(0.5) ? 1 : n / 2) : n)) as unknown as Four;
const matrix = (g: Generator): Operand => {
  const a = g.any(FLOATS);
  const [n0, n1, n2, n3] = a.window.ne;
  return n2 * n3 === 1 ? a : g.of([n0, n1, 1, 1], FLOATS);
};
const binary = (op: string): OpRow[] => [
  {
    op,
    noise: 0,
    take: (g) => {
      const a = g.any(FLOATS);
      return { src: [a, g.of(dividing(g, a.window.ne), FLOATS)] };
    },
  },
  {
    op: `${op}_inplace`,
    noise: 0,
    take: (g) => {
      const a = g.writable(g.shape(), ['f32']);
      return { src: [a, g.of(dividing(g, a.window.ne), FLOATS)], into: 0 };
    },
  },
];
const glu = (op: string): OpRow[] => [
  {
    op,
    take: (g) => {
      const [n0, n1, n2, n3] = g.shape();
      return { src: [g.of([2 * n0, n1, n2, n3], FLOATS)] };
    },
  },
  {
    op: `${op}_split`,
    take: (g) => {
      const a = g.any(FLOATS);
      return { src: [a, g.of(a.window.ne, FLOATS)] };
    },
  },
];

/** A kernel of random size and the data it moves over. */
function convolution(g: Generator, flat: boolean): Taken {
  const [w, h, channels, n] = [g.int(3, 20), g.int(3, 6), g.int(1, 3), g.int(1, 2)];
  const [kw, kh, out] = [g.int(1, 3), g.int(1, 3), g.int(1, 3)];
  const moves = {
    s0: g.int(1, 3),
    p0: g.int(0, 2),
    d0: w > 2 * kw ? g.int(1, 2) : 1,
    ...(flat ? {} : { s1: g.int(1, 2), p1: g.int(0, 2), d1: 1 }),
  };
  const kernel = g.of(flat ? [kw, channels, out, 1] : [kw, kh, channels, out], FLOATS);
  const x = g.of(flat ? [w, channels, n, 1] : [w, h, channels, n], FLOATS);
  return { src: [kernel, x], params: { ...moves, type: g.int(0, 1), is_2D: flat ? 0 : 1 } };
}
/** Noise of f16 columns of convolutions: one rounding that falls the other way. */
const COLUMNS = 2 ** -9;

/** A sum of two tensors of one shape, which can fuse into a norm that follows. */
const SUM: OpRow = {
  op: 'add',
  noise: 0,
  take: (g) => {
    const a = g.any(['f32']);
    return { src: [a, g.of(a.window.ne, ['f32'])] };
  },
};

export const OPS: readonly OpRow[] = [
  SUM,
  SUM,
  SUM,
  ...['silu', 'tanh', 'sigmoid', 'gelu', 'gelu_quick', 'gelu_erf'].map((op) => one(op)),
  { op: 'exp', take: (g) => ({ src: [g.of(g.shape(), FLOATS)] }) },
  one('softplus'),
  one('relu', {}, 0),
  one('sqr', {}, 0),
  one('neg', {}, 0),
  one('abs', {}, 0),
  one('sum'),
  exact('step', 0),
  exact('sqrt', 0),
  exact('log'),
  {
    op: 'pad_ext',
    noise: 0,
    take: (g) => ({
      src: [g.any([...FLOATS, 'i32'])],
      params: Object.fromEntries(
        [0, 1, 2, 3].flatMap((i) => [
          [`lp${i}`, g.int(0, 2)],
          [`rp${i}`, g.int(0, 2)],
        ]),
      ),
    }),
  },
  { op: 'group_norm', noise: SHIFTED, take: (g) => ({ src: [g.any(FLOATS)], params: { groups: g.int(1, 4), eps: 1e-3 } }) },
  { op: 'im2col', noise: 0, take: (g) => convolution(g, g.chance(0.5)) },
  { op: 'conv_1d', noise: COLUMNS, take: (g) => convolution(g, true) },
  { op: 'conv_2d', noise: COLUMNS, take: (g) => convolution(g, false) },
  one('scale', { s: -1.3, b: 0.25 }),
  one('clamp', { min: -1, max: 0.5 }, 0),
  one('soft_cap', { cap: 1.5 }),
  one('xielu', { alphaN: 0.3, alphaP: -0.4, beta: 0.5, eps: -1e-6 }),
  ...binary('add'),
  ...binary('sub'),
  ...binary('mul'),
  ...binary('div'),
  ...glu('swiglu'),
  ...glu('geglu'),
  ...glu('geglu_quick'),
  ...glu('geglu_erf'),
  ...glu('reglu'),
  {
    op: 'swiglu_oai',
    take: (g) => {
      const a = g.any(FLOATS);
      return { src: [a, g.of(a.window.ne, FLOATS)], params: { alpha: 1.702, limit: 7 } };
    },
  },
  {
    op: 'rms_norm',
    take: (g) => {
      const a = g.any(FLOATS);
      return { src: [a, row1(g, a.window.ne[0])], params: { eps: 1e-3 } };
    },
  },
  {
    op: 'norm',
    noise: SHIFTED,
    take: (g) => {
      const a = g.any(FLOATS);
      const n = a.window.ne[0];
      return { src: [a, row1(g, n), row1(g, n)], params: { eps: 1e-3 } };
    },
  },
  one('l2_norm', { eps: 1e-3 }),
  ...['fwht', 'fwht_inplace'].map((op): OpRow => ({
    op,
    take: (g) => {
      const [, ...others] = g.shape();
      const n = g.pick([1, 2, 4, 8, 12, 16, 20, 24, 28, 40, 56, 64]);
      const ne: Four = [n * g.int(1, 2), ...others];
      const inplace = op === 'fwht_inplace';
      return { src: [inplace ? g.writable(ne, ['f32']) : g.of(ne, FLOATS)], params: { n }, ...(inplace ? { into: 0 } : {}) };
    },
  })),
  one('sum_rows'),
  one('mean'),
  { op: 'diag_mask_inf', noise: 0, take: (g) => ({ src: [g.any(FLOATS)], params: { n_past: g.int(-1, 4) } }) },
  {
    op: 'soft_max_ext',
    take(g) {
      const a = g.any(FLOATS);
      const [n0, n1, n2, n3] = a.window.ne;
      const [, , d2, d3] = dividing(g, a.window.ne);
      const mask = g.chance(0.6) ? g.mask([n0, n1 + g.int(0, 2), d2, d3]) : null;
      return { src: [a, mask], params: { scale: 0.7, max_bias: mask && g.chance(0.4) && n2 > 0 && n3 > 0 ? 8 : 0 } };
    },
  },
  { op: 'argsort', noise: 0, take: (g) => ({ src: [g.exact(FLOATS)], params: { order: g.int(0, 1) } }) },
  {
    op: 'top_k',
    noise: 0,
    take: (g) => {
      const a = g.exact(FLOATS);
      return { src: [a], params: { k: g.int(1, a.window.ne[0]) } };
    },
  },
  {
    op: 'argmax',
    noise: 0,
    take: (g) => {
      const [n0, n1] = g.shape();
      return { src: [g.of([n0, n1, 1, 1], FLOATS, { exact: true })] };
    },
  },
  {
    op: 'pool_1d',
    take: (g) => {
      const a = g.any(FLOATS);
      return { src: [a], params: { kind: g.int(0, 1), k0: g.int(1, a.window.ne[0]), s0: g.int(1, 3), p0: 0 } };
    },
  },
  {
    op: 'weighted_sum',
    take: (g) => {
      const a = g.any(FLOATS);
      const [, n1, n2, n3] = a.window.ne;
      return { src: [a, g.of([1, n1, n2, n3], FLOATS)] };
    },
  },
  {
    op: 'mean_of_rows',
    take(g) {
      const a = matrix(g);
      const rows = a.window.ne[1];
      const k = g.int(1, 4);
      const from = Array.from({ length: k }, () => g.int(0, rows - 1));
      return {
        src: [
          a,
          g.ints([k, 1, 1, 1], from),
          g.ints(
            [k, 1, 1, 1],
            from.map((f) => g.int(0, rows - f)),
          ),
        ],
      };
    },
  },
  {
    op: 'repeat',
    noise: 0,
    take: (g) => {
      const ne = g.shape();
      return { src: [g.of(dividing(g, ne), FLOATS), g.like(ne)] };
    },
  },
  {
    op: 'concat',
    noise: 0,
    take(g) {
      const a = g.any([...FLOATS, 'i32']);
      const dim = g.int(0, 3);
      const ne = a.window.ne.map((n, i) => (i === dim ? g.int(1, 4) : n)) as unknown as Four;
      return { src: [a, g.of(ne, [a.window.buffer.type])], params: { dim } };
    },
  },
  { op: 'cont', noise: 0, take: (g) => ({ src: [g.any([...SIDES, 'i32'])] }) },
  {
    op: 'cast',
    noise: 0,
    take: (g) => {
      const a = g.any(SIDES);
      return { src: [a], params: { type: g.int(0, a.window.ne[0] % 32 === 0 ? 4 : 2) } };
    },
  },
  {
    op: 'cpy',
    noise: 0,
    take(g) {
      const a = g.any([...SIDES, 'i32']);
      const type = a.window.buffer.type;
      const ne = g.chance(0.3) ? g.reordered(a.window.ne) : a.window.ne;
      const to: readonly TypeName[] = type === 'i32' ? ['i32'] : ne[0] % 32 === 0 ? [...SIDES, type] : FLOATS;
      return type.startsWith('q') && ne[0] % 32 !== 0 ? undefined : { src: [a, g.writable(ne, to)], into: 1 };
    },
  },
  {
    op: 'get_rows',
    noise: 0,
    take(g) {
      const a = g.any(SIDES);
      const [, rows, n2, n3] = a.window.ne;
      return { src: [a, g.ids([g.int(1, 5), n2, n3, 1], rows)] };
    },
  },
  {
    op: 'set_rows',
    noise: 0,
    take(g) {
      const [n0, n1, n2, n3] = g.shape();
      const a = g.writable([n0, n1, n2, n3], n0 % 32 === 0 ? SIDES : FLOATS);
      const k = g.int(1, 6);
      return {
        src: [a, g.of([n0, k, n2, n3], FLOATS), g.ids([k, g.chance(0.5) ? 1 : n2, g.chance(0.5) ? 1 : n3, 1], n1, { i64: true })],
        into: 0,
      };
    },
  },
  {
    op: 'mul_mat',
    take(g) {
      const blocks = g.chance(0.2);
      const b = g.any(blocks ? ['q8_0'] : FLOATS);
      const [k, , n2, n3] = b.window.ne;
      const type = g.pick<TypeName>(k % 32 ? FLOATS : blocks || g.chance(0.5) ? ['q8_0', 'q4_0'] : SIDES);
      const packed = g.chance(0.6) && (type === 'f32' || k % 32 === 0);
      const batches: Four = packed ? [k, g.int(1, 40), 1, 1] : [k, g.int(1, 20), g.chance(0.5) ? n2 : 1, g.chance(0.5) ? n3 : 1];
      return { src: [packed ? g.packed(batches, type) : g.of(batches, [type]), b], noise: PRODUCT[type] };
    },
  },
  {
    op: 'mul_mat_id',
    take(g) {
      const b = g.of(
        [g.chance(0.5) ? 32 * g.int(1, 3) : g.int(1, 40), g.int(1, 3), g.chance(0.1) ? g.int(60, 80) : g.int(1, 9), 1],
        FLOATS,
      );
      const [k, n1, tokens] = b.window.ne;
      const type = g.pick<TypeName>(k % 32 ? FLOATS : SIDES);
      const packed = g.chance(0.6) && (type === 'f32' || k % 32 === 0);
      const as: Four = [k, packed ? 16 * g.int(1, 2) : g.int(1, 20), g.int(1, 5), 1];
      const ids = g.ids([n1 * g.int(1, 2), tokens, 1, 1], as[2], { i64: false });
      return { src: [packed ? g.packed(as, type) : g.of(as, [type]), b, ids], noise: PRODUCT[type] };
    },
  },
  {
    op: 'mul_mat_sparse',
    take(g) {
      const x = matrix(g);
      const [k, tokens] = x.window.ne;
      const type = g.pick<TypeName>(k % 32 ? FLOATS : SIDES);
      const ne: Four = [k, g.int(1, 40), 1, 1];
      const n = g.int(ne[1], 40);
      return {
        src: [
          g.chance(0.3) && (type === 'f32' || k % 32 === 0) ? g.packed(ne, type) : g.of(ne, [type]),
          x,
          g.mask([n, tokens, 1, 1]),
          n > ne[1] || g.chance(0.3) ? g.ids([ne[1], 1, 1, 1], n) : null,
        ],
        params: { threshold: g.pick([-1, -2, 0, -Infinity, Infinity]) },
        noise: PRODUCT[type],
      };
    },
  },
  {
    op: 'axpy',
    take(g) {
      const x = matrix(g);
      const [n, tokens] = x.window.ne;
      const rows = g.chance(0.5) ? n : g.int(1, n);
      const params: Taken['params'] = g.chance(0.3) ? {} : { threshold: g.pick([-1, -2, -Infinity]) };
      return {
        src: [
          g.of([g.pick([1, 3, 31, 32, 64, 544]), rows, 1, 1], SIDES),
          x,
          g.mask([n, tokens, 1, 1]),
          rows < n || g.chance(0.3) ? g.ids([rows, 1, 1, 1], n) : null,
        ],
        params,
      };
    },
  },
  {
    op: 'axpy_head',
    take(g) {
      const x = matrix(g);
      const [n, tokens] = x.window.ne;
      const heads = g.pick([1, 2, 4, 8, n].filter((h) => n % h === 0));
      return {
        src: [g.of([g.pick([5, 32, 96]), n, 1, 1], SIDES), x, g.mask([heads, tokens, 1, 1])],
        params: { threshold: g.pick([-1, -2]) },
      };
    },
  },
  {
    op: 'add_id',
    noise: 0,
    take(g) {
      const [n, used, tokens] = g.shape();
      const rows = g.int(1, 5);
      return { src: [g.of([n, used, tokens, 1], FLOATS), g.of([n, rows, 1, 1], FLOATS), g.ids([used, tokens, 1, 1], rows)] };
    },
  },
  {
    op: 'rope_ext',
    noise: 2 ** -13,
    take(g) {
      const [n0, n1, n2, n3] = g.shape();
      const width = n0 + (n0 % 2);
      const turned = 2 * g.int(1, width / 2);
      const params = {
        n_dims: turned,
        mode: g.chance(0.5) ? 2 : 0,
        n_ctx_orig: 64,
        freq_base: 1000,
        freq_scale: 0.5,
        ext_factor: g.int(0, 1),
        attn_factor: 1,
        beta_fast: 32,
        beta_slow: 1,
        n_ctx: 256,
      };
      return {
        src: [
          g.of([width, n1, n2, n3], FLOATS),
          g.ids([n2, 1, 1, 1], 200, { outside: [256, -256, 1 << 30, -(2 ** 31)], below: true }),
          null,
        ],
        params,
      };
    },
  },
  {
    op: 'ssm_conv',
    take(g) {
      const taps = g.int(2, 5);
      const n = g.int(1, 40);
      return { src: [g.of([taps - 1 + g.int(1, 9), n, g.int(1, 3), 1], FLOATS), g.of([taps, n, 1, 1], FLOATS)] };
    },
  },
  {
    op: 'ssm_scan',
    noise: SCORES,
    take(g) {
      const dState = 4 * g.int(1, 5);
      const groups = g.int(1, 2);
      const heads = groups * g.int(1, 3);
      const [dim, tokens, sequences] = [g.pick([1, 2, 4, 7, 12]), g.int(1, 11), g.int(1, 2)];
      const rows: Four = [dState, groups, tokens, sequences];
      const cells = g.int(1, 3);
      return {
        src: [
          g.of([dState, dim, heads, cells], FLOATS),
          g.of([dim, heads, tokens, sequences], FLOATS),
          g.of([heads, tokens, sequences, 1], FLOATS),
          g.of([g.chance(0.5) ? 1 : dState, heads, 1, 1], FLOATS),
          g.of(rows, FLOATS),
          g.of(rows, FLOATS),
          g.ids([sequences, 1, 1, 1], cells),
        ],
      };
    },
  },
  {
    op: 'gated_delta_net',
    noise: SCORES,
    take(g) {
      const n = 4 * g.int(1, 6);
      const headsK = g.int(1, 2);
      const heads = headsK * g.int(1, 2);
      const [tokens, sequences] = [g.int(1, 11), g.int(1, 2)];
      const keys: Four = [n, headsK, tokens, sequences];
      return {
        src: [
          g.of(keys, FLOATS),
          g.of(keys, FLOATS),
          g.of([n, heads, tokens, sequences], FLOATS),
          g.of([g.chance(0.5) ? 1 : n, heads, tokens, sequences], FLOATS),
          g.of([1, heads, tokens, sequences], FLOATS),
          g.of([n, n, heads, sequences], FLOATS),
        ],
      };
    },
  },
  {
    op: 'flash_attn_ext',
    take(g) {
      const type = g.pick<TypeName>(['f32', 'f16', 'bf16', 'q8_0', 'q4_0']);
      const blocks = type.startsWith('q');
      const d = blocks ? 32 : g.pick([4, 5, 16, 20, 32]);
      const dv = g.chance(0.3) ? 32 : d;
      const nKv = g.chance(0.04) ? g.int(250, 300) : g.int(1, 24);
      const tokens = g.int(1, 6);
      const kvHeads = g.int(1, 2);
      const heads = kvHeads * g.int(1, 3);
      const batches = g.chance(0.3) ? 2 : 1;
      const causal = nKv >= tokens && g.chance(0.4);
      const mask = g.chance(0.6) ? g.mask([nKv, tokens + g.int(0, 2), g.chance(0.5) ? heads : 1, g.chance(0.5) ? batches : 1]) : null;
      const q = g.of([d, tokens, heads, batches], FLOATS);
      const k = g.of([d, nKv, kvHeads, batches], [type]);
      const v = g.of([dv, nKv, kvHeads, batches], [type]);
      const params = {
        scale: 0.3,
        max_bias: mask && g.chance(0.3) ? 8 : 0,
        logit_softcap: g.chance(0.3) ? 5 : 0,
        causal: causal ? 1 : 0,
        window: causal && g.chance(0.5) ? g.int(1, 40) : 0,
      };
      const sinks = g.chance(0.3) ? g.of([heads, 1, 1, 1], FLOATS) : null;
      return { src: [q, k, v, mask, sinks], params, noise: blocks ? 2 ** -4 : SCORES };
    },
  },
];

/** Ops that fuse with a step, and are then applied to its own result. */
export const FOLLOWERS: { readonly [op: string]: readonly string[] } = {
  add: ['rms_norm'],
  add_inplace: ['rms_norm'],
  rms_norm: ['mul_mat'],
  norm: ['mul_mat'],
  silu: ['mul_mat'],
  swiglu: ['mul_mat'],
  swiglu_split: ['mul_mat'],
  fwht: ['mul_mat'],
  scale: ['mul_mat', 'add'],
  cast: ['mul_mat', 'get_rows'],
};
