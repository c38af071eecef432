// ggml's operators on the golden cases, slow and obvious: f64 over tensors read element by element.
// Rounding that ggml does on purpose is kept (activations take the weights' vec_dot_type, gelu and
// gelu_quick use f16 tables); sums are exact.
import { fill } from '../golden/ops/inputs.mjs';
import type { Source } from '../golden/ops/inputs.mjs';
import { fromHalf, roundHalf } from './gguf.ts';
import { hadamard } from './hadamard.ts';

export interface OpCase {
  readonly op: string;
  readonly name: string;
  readonly src: readonly (Source | null)[];
  readonly params?: Readonly<Record<string, number>>;
  readonly dst: { readonly type: string; readonly ne: readonly number[] };
  readonly offset: number;
  readonly bytes: number;
}
type Index = [number, number, number, number];
/** A tensor as operators see it. */
export interface View {
  readonly type: string;
  readonly ne: readonly number[];
  at(i0: number, i1: number, i2: number, i3: number): number;
}

const f = Math.fround;
const roundf = (x: number) => {
  const t = Math.trunc(x);
  return Math.abs(x - t) >= 0.5 ? t + Math.sign(x) : t;
};
/** Rounds f32 to bf16: nearest, ties to even. */
export function roundBrain(x: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, x);
  const bits = view.getUint32(0);
  view.setUint32(0, (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000);
  return view.getFloat32(0);
}
function q8_0(x: readonly number[]): number[] {
  const d = f(x.reduce((a, v) => Math.max(a, Math.abs(v)), 0) / 127);
  const id = d ? f(1 / d) : 0;
  return x.map((v) => roundf(f(v * id)) * roundHalf(d));
}
function q4_0(x: readonly number[]): number[] {
  const d = f(x.reduce((a, v) => (Math.abs(v) > Math.abs(a) ? v : a), 0) / -8);
  const id = d ? f(1 / d) : 0;
  // An Inf times the reciprocal of its scale is NaN. Its code is 0, as C's conversions give on x64
  // and arm64.
  return x.map((v) => (Math.min(15, Math.trunc(f(f(v * id) + 8.5)) || 0) - 8) * roundHalf(d));
}
const sizes: Record<string, number> = { f32: 4, f16: 2, bf16: 2, i32: 4, i64: 8 };
/** Values after being stored as this type. */
export function stored(type: string, x: Float64Array): Float64Array {
  if (type === 'f16') return x.map(roundHalf);
  if (type === 'bf16') return x.map(roundBrain);
  if (type in sizes) return type === 'f32' ? x.map(f) : x;
  const out = new Float64Array(x.length);
  for (let b = 0; b < x.length; b += 32) out.set((type === 'q8_0' ? q8_0 : q4_0)([...x.subarray(b, b + 32)].map(f)), b);
  return out;
}
/** Golden bytes of this type as numbers. */
export function decode(type: string, bytes: Uint8Array): Float64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type === 'f32') return Float64Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  if (type === 'i32') return Float64Array.from({ length: bytes.length / 4 }, (_, i) => view.getInt32(4 * i, true));
  if (type === 'i64') return Float64Array.from({ length: bytes.length / 8 }, (_, i) => Number(view.getBigInt64(8 * i, true)));
  if (type === 'f16') return Float64Array.from({ length: bytes.length / 2 }, (_, i) => fromHalf(view.getUint16(2 * i, true)));
  if (type === 'bf16')
    return Float64Array.from({ length: bytes.length / 2 }, (_, i) =>
      new DataView(Uint32Array.of(view.getUint16(2 * i, true) << 16).buffer).getFloat32(0, true),
    );
  const size = type === 'q8_0' ? 34 : 18;
  const out = new Float64Array((bytes.length / size) * 32);
  out.forEach((_, i) => {
    const at = Math.floor(i / 32) * size;
    const k = i % 32;
    const d = fromHalf(view.getUint16(at, true));
    out[i] = d * (type === 'q8_0' ? view.getInt8(at + 2 + k) : ((view.getUint8(at + 2 + (k & 15)) >> (k < 16 ? 0 : 4)) & 15) - 8);
  });
  return out;
}

const four = (ne: readonly number[]) => [...ne, 1, 1, 1].slice(0, 4);
function open(src: Source): View {
  const data = stored(src.type, fill(src));
  const plain = four(src.ne);
  const size = sizes[src.type];
  let ne = src.view ? [...src.view.ne] : plain;
  let nb = [1, plain[0], plain[0] * plain[1], plain[0] * plain[1] * plain[2]];
  const start = (src.view?.offset ?? 0) / (size ?? 1);
  if (src.view) nb = [1, ...src.view.nb.map((b) => b / size)];
  if (src.permute) {
    // dimension i becomes dimension permute[i]
    const from = src.permute.map((_, to) => src.permute!.indexOf(to));
    [ne, nb] = [from.map((i) => ne[i]), from.map((i) => nb[i])];
  }
  return { type: src.type, ne, at: (...i) => data[start + i.reduce((a, v, k) => a + v * nb[k], 0)] };
}
/** Calls `value` for all elements of ne, in order. */
function each(ne: readonly number[], value: (...i: Index) => number): Float64Array {
  const [n0, n1, n2, n3] = four(ne);
  const out = new Float64Array(n0 * n1 * n2 * n3);
  let at = 0;
  for (let i3 = 0; i3 < n3; i3++)
    for (let i2 = 0; i2 < n2; i2++) for (let i1 = 0; i1 < n1; i1++) for (let i0 = 0; i0 < n0; i0++) out[at++] = value(i0, i1, i2, i3);
  return out;
}
const rowOf = (t: View, i1: number, i2: number, i3: number) => Float64Array.from({ length: t.ne[0] }, (_, i) => t.at(i, i1, i2, i3));
/** Maps a tensor row by row. */
function rows(t: View, n0: number, map: (x: Float64Array) => ArrayLike<number>): Float64Array {
  const out = new Float64Array(n0 * t.ne[1] * t.ne[2] * t.ne[3]);
  let at = 0;
  each([1, ...t.ne.slice(1)], (_, i1, i2, i3) => {
    out.set(map(rowOf(t, i1, i2, i3)), at);
    at += n0;
    return 0;
  });
  return out;
}
const sum = (x: ArrayLike<number>) => Array.prototype.reduce.call(x, (a, v) => (a as number) + (v as number), 0) as number;
const vecDotType: Record<string, string> = { f32: 'f32', f16: 'f16', bf16: 'bf16', q4_0: 'q8_0', q8_0: 'q8_0' };

function mulMat(a: View, b: View): Float64Array {
  const r2 = b.ne[2] / a.ne[2];
  const r3 = b.ne[3] / a.ne[3];
  const left = new Map<string, Float64Array>();
  const right = new Map<string, Float64Array>();
  const cached = (m: typeof left, key: string, make: () => Float64Array) => m.get(key) ?? m.set(key, make()).get(key)!;
  return each([a.ne[1], b.ne[1], b.ne[2], b.ne[3]], (i0, i1, i2, i3) => {
    const w = cached(left, `${i0} ${Math.floor(i2 / r2)} ${Math.floor(i3 / r3)}`, () =>
      rowOf(a, i0, Math.floor(i2 / r2), Math.floor(i3 / r3)),
    );
    const x = cached(right, `${i1} ${i2} ${i3}`, () => stored(vecDotType[a.type], rowOf(b, i1, i2, i3)));
    return w.reduce((s, v, k) => s + v * x[k], 0);
  });
}
/**
 * Matrix product by expert: result column (u, t) is matrix ids[u, t] times column (u mod b.ne1, t).
 */
function mulMatId(as: View, b: View, ids: View): Float64Array {
  const matrix = (u: number, t: number) => ids.at(u, t, 0, 0);
  const column = (u: number, t: number): View => ({ type: b.type, ne: [b.ne[0], 1, 1, 1], at: (k) => b.at(k, u % b.ne[1], t, 0) });
  const of = (e: number): View => ({ type: as.type, ne: [as.ne[0], as.ne[1], 1, 1], at: (k, r) => as.at(k, r, e, 0) });
  const out = new Float64Array(as.ne[1] * ids.ne[0] * ids.ne[1]).fill(NaN);
  each([1, ids.ne[0], ids.ne[1], 1], (_, u, t) => {
    if (within(matrix(u, t), 1, as.ne[2])) out.set(mulMat(of(matrix(u, t)), column(u, t)), (t * ids.ne[0] + u) * as.ne[1]);
    return 0;
  });
  return out;
}
/** Tells if an element of idx selects its row. */
const counts = (v: number, p: Readonly<Record<string, number>>) => (p.threshold === undefined ? v !== 0 : v >= p.threshold);
/**
 * Rows of weights with the index of each in idx. Without a lookup, row r has index r. With one,
 * indices come from it; if rows share an index, the last row wins.
 */
function rowsAndPlaces(n: number, lookup: View | null, limit: number): (readonly [row: number, place: number])[] {
  const places = Array.from({ length: n }, (_, r) => (lookup ? lookup.at(r, 0, 0, 0) : r));
  return [...places.keys()]
    .filter((r) => within(places[r], 1, limit) && places.lastIndexOf(places[r]) === r)
    .map((r) => [r, places[r]] as const)
    .sort((x, y) => x[1] - y[1]);
}
function mulMatSparse(
  w: View,
  x: View,
  idx: View,
  lookup: View | null,
  p: Readonly<Record<string, number>>,
  ne: readonly number[],
): Float64Array {
  const y = mulMat(w, x);
  const rowAt = new Map(rowsAndPlaces(w.ne[1], lookup, idx.ne[0]).map(([r, i]) => [i, r]));
  return each(ne, (i, t) => (rowAt.has(i) && counts(idx.at(i, t, 0, 0), p) ? y[t * w.ne[1] + rowAt.get(i)!] : 0));
}
function axpy(w: View, x: View, idx: View, lookup: View | null, p: Readonly<Record<string, number>>, ne: readonly number[]): Float64Array {
  const per = lookup ? 1 : w.ne[1] / idx.ne[0];
  const all = rowsAndPlaces(w.ne[1], lookup, lookup ? idx.ne[0] : w.ne[1]);
  return each(ne, (c, t) =>
    sum(
      all.map(([r, i]) =>
        counts(idx.at(Math.floor(i / per), t, 0, 0), p) && x.at(i, t, 0, 0) !== 0 ? w.at(c, r, 0, 0) * x.at(i, t, 0, 0) : 0,
      ),
    ),
  );
}
const slope = (h: number, n_head: number, max_bias: number) => {
  const n = 2 ** Math.floor(Math.log2(n_head));
  return max_bias === 0 ? 1 : h < n ? 2 ** ((-max_bias / n) * (h + 1)) : 2 ** ((-max_bias / 2 / n) * (2 * (h - n) + 1));
};
/**
 * Indices sorted by value, largest or smallest first. Equal values keep their order, NaNs come
 * last.
 */
const sorted = (x: Float64Array, descending: boolean): number[] =>
  [...x.keys()].sort(
    (i, j) =>
      Number(Number.isNaN(x[i])) - Number(Number.isNaN(x[j])) ||
      (Number.isNaN(x[i]) || x[i] === x[j] ? i - j : descending === x[i] > x[j] ? -1 : 1),
  );
/** Tells if rows [i, i + n) exist. */
const within = (i: number, n: number, rows: number): boolean => i >= 0 && n >= 0 && i + n <= rows;
/** Softmax. `sink` is one more score that takes its share of the sum and is then dropped. */
function softMax(x: Float64Array, sink = -Infinity): Float64Array {
  const top = x.reduce((a, v) => Math.max(a, v), sink);
  const e = x.map((v) => Math.exp(v - top));
  const all = sum(e) + (sink === -Infinity ? 0 : Math.exp(sink - top));
  return e.map((v) => v / all);
}
const maskAt = (m: View | null, i0: number, i1: number, i2: number, i3: number) => (m ? m.at(i0, i1, i2 % m.ne[2], i3 % m.ne[3]) : 0);

function rope(x: View, pos: View, factors: View | null, p: Readonly<Record<string, number>>): Float64Array {
  const dim = (turns: number) => (p.n_dims * Math.log(p.n_ctx_orig / (turns * 2 * Math.PI))) / (2 * Math.log(p.freq_base));
  const low = Math.max(0, Math.floor(dim(p.beta_fast)));
  const high = Math.min(p.n_dims - 1, Math.ceil(dim(p.beta_slow)));
  return each(x.ne, (i0, i1, i2, i3) => {
    if (p.n_ctx && Math.abs(pos.at(i2, 0, 0, 0)) >= p.n_ctx) return NaN;
    if (i0 >= p.n_dims) return x.at(i0, i1, i2, i3);
    const half = p.n_dims / 2;
    const pair = p.mode === 0 ? i0 >> 1 : i0 % half;
    const second = p.mode === 0 ? i0 % 2 === 1 : i0 >= half;
    const [a, b] = p.mode === 0 ? [2 * pair, 2 * pair + 1] : [pair, pair + half];
    const u = x.at(a, i1, i2, i3);
    const v = x.at(b, i1, i2, i3);
    const own = (pos.at(i2, 0, 0, 0) * p.freq_base ** ((-2 * pair) / p.n_dims)) / (factors ? factors.at(pair, 0, 0, 0) : 1);
    const keep = p.ext_factor * (1 - Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low))));
    const theta = own * p.freq_scale * (1 - keep) + own * keep;
    const size = p.attn_factor * (p.ext_factor ? 1 + 0.1 * Math.log(1 / p.freq_scale) : 1);
    return (second ? u * Math.sin(theta) + v * Math.cos(theta) : u * Math.cos(theta) - v * Math.sin(theta)) * size;
  });
}
function flash(q: View, k: View, v: View, mask: View | null, sinks: View | null, p: Readonly<Record<string, number>>): Float64Array {
  const [, tokens, n_head, batches] = q.ne;
  const group = n_head / k.ne[2];
  const out: number[] = [];
  for (let b = 0; b < batches; b++)
    for (let t = 0; t < tokens; t++)
      for (let h = 0; h < n_head; h++) {
        const g = Math.floor(h / group);
        const x = stored(vecDotType[k.type], rowOf(q, t, h, b));
        const scores = softMax(
          Float64Array.from({ length: k.ne[1] }, (_, j) => {
            const last = k.ne[1] - tokens + t;
            if (p.causal && (j > last || (p.window && j <= last - p.window))) return -Infinity;
            const s = x.reduce((a, e, i) => a + e * k.at(i, j, g, b), 0) * p.scale;
            return (
              (p.logit_softcap ? p.logit_softcap * Math.tanh(s / p.logit_softcap) : s) +
              slope(h, n_head, p.max_bias) * maskAt(mask, j, t, h, b)
            );
          }),
          sinks?.at(h, 0, 0, 0),
        );
        // A row without visible keys is 0.
        for (let i = 0; i < v.ne[0]; i++) out.push(scores.reduce((a, s, j) => a + (s > 0 ? s * v.at(i, j, g, b) : 0), 0));
      }
  return Float64Array.from(out);
}
/** Inserts a second dimension of size 1. */
const upright = (t: View): View => ({ type: t.type, ne: [t.ne[0], 1, t.ne[1], t.ne[2]], at: (i0, _, i2, i3) => t.at(i0, i2, i3, 0) });
const LINE = { s1: 1, p1: 0, d1: 1 };
/**
 * The data element that element k of a kernel is multiplied with at one output position; 0 in the
 * padding.
 */
function met(kernel: View, x: View, p: Readonly<Record<string, number>>, k: number, ow: number, oh: number, n: number): number {
  const [kw, kh] = kernel.ne;
  const w = ow * p.s0 + (k % kw) * p.d0 - p.p0;
  const h = oh * p.s1 + (Math.floor(k / kw) % kh) * p.d1 - p.p1;
  return w < 0 || w >= x.ne[0] || h < 0 || h >= x.ne[1] ? 0 : x.at(w, h, Math.floor(k / kw / kh), n);
}
/**
 * Convolution. Columns and kernels are rounded to f16 as in ggml, except for bf16 kernels and
 * p.type 0.
 */
function conv(kernel: View, x: View, p: Readonly<Record<string, number>>, where: (i: Index) => Index, ne: readonly number[]): Float64Array {
  const [kw, kh, channels] = kernel.ne;
  const size = kw * kh * channels;
  const type = kernel.type === 'bf16' || p.type === 0 ? 'f32' : 'f16';
  return each(ne, (...i) => {
    const [ow, oh, oc, n] = where(i);
    const at = Array.from({ length: size }, (_, k) => k);
    const cols = stored(
      type,
      Float64Array.from(at, (k) => met(kernel, x, p, k, ow, oh, n)),
    );
    return sum(
      stored(
        type,
        Float64Array.from(at, (k) => kernel.at(k % kw, Math.floor(k / kw) % kh, Math.floor(k / kw / kh), oc)),
      ).map((w, k) => w * cols[k]),
    );
  });
}
/** Mamba's scan, state by state. The new states follow the result. */
function scan([s, x, dt, A, B, C, ids]: readonly View[]): Float64Array {
  const [dim, heads, tokens, sequences] = x.ne;
  const [dState, groups] = B.ne;
  const y: number[] = [];
  const states: number[] = [];
  const at = (i: number, h: number, t: number, q: number) => i + dim * (h + heads * (t + tokens * q));
  each([dim, heads, sequences], (i, h, q) => {
    const cell = ids.at(q, 0, 0, 0);
    const state = Array.from({ length: dState }, (_, j) => (within(cell, 1, s.ne[3]) ? s.at(j, i, h, cell) : NaN));
    const g = Math.floor(h / (heads / groups));
    for (let t = 0; t < tokens; t++) {
      const step = unary.softplus(dt.at(h, t, q, 0));
      state.forEach((v, j) => {
        state[j] = v * f(Math.exp(step * A.at(A.ne[0] === 1 ? 0 : j, h, 0, 0))) + step * x.at(i, h, t, q) * B.at(j, g, t, q);
      });
      y[at(i, h, t, q)] = sum(state.map((v, j) => v * C.at(j, g, t, q)));
    }
    states.push(...state);
    return 0;
  });
  return Float64Array.from([...y, ...states]);
}
/** The gated delta rule. Row j of a state belongs to value j. */
function deltaNet([q, k, v, gate, beta, s]: readonly View[]): Float64Array {
  const [n, heads, tokens, sequences] = v.ne;
  const y: number[] = [];
  const states: number[] = [];
  each([heads, sequences], (h, seq) => {
    const state = Array.from({ length: n }, (_, j) => Array.from({ length: n }, (__, i) => s.at(i, j, h, seq)));
    for (let t = 0; t < tokens; t++)
      state.forEach((row, j) => {
        const key = row.map((_, i) => k.at(i, h % k.ne[1], t, seq));
        const kept = row.map((x, i) => x * f(Math.exp(gate.at(gate.ne[0] === 1 ? 0 : i, h, t, seq))));
        const delta = (v.at(j, h, t, seq) - sum(kept.map((x, i) => x * key[i]))) * beta.at(0, h, t, seq);
        state[j] = kept.map((x, i) => x + delta * key[i]);
        y[j + n * (h + heads * (t + tokens * seq))] = sum(state[j].map((x, i) => x * q.at(i, h % q.ne[1], t, seq))) / Math.sqrt(n);
      });
    states.push(...state.flat());
    return 0;
  });
  return Float64Array.from([...y, ...states]);
}
function erf(x: number): number {
  // Taylor series; arguments stay small enough
  if (Math.abs(x) > 5) return Math.sign(x);
  let term = x;
  let total = x;
  for (let n = 1; n < 200; n++) {
    term *= (-x * x) / n;
    total += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
}
const table = (g: (x: number) => number) => (v: number) => roundHalf(g(roundHalf(v)));
const tanhOf = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x)));
const quickOf = (x: number) => x / (1 + Math.exp(-1.702 * x));
const tanhGelu = table(tanhOf);
const unary: Record<string, (x: number) => number> = {
  gelu: (x) => (x <= -10 ? 0 : x >= 10 ? x : tanhGelu(x)),
  gelu_quick: table(quickOf),
  gelu_erf: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  silu: (x) => x / (1 + Math.exp(-x)),
  relu: (x) => Math.max(0, x),
  tanh: Math.tanh,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  exp: Math.exp,
  softplus: (x) => (x > 20 ? x : Math.log1p(Math.exp(x))),
  sqr: (x) => x * x,
  sqrt: Math.sqrt,
  log: Math.log,
  neg: (x) => -x,
  abs: Math.abs,
  step: (x) => (x > 0 ? 1 : 0),
};
/** The functions without ggml's f16 tables. */
const precise: Record<string, (x: number) => number> = { gelu: tanhOf, gelu_quick: quickOf, geglu: tanhOf, geglu_quick: quickOf };
const gates: Record<string, (x: number) => number> = {
  swiglu: unary.silu,
  geglu: unary.gelu,
  geglu_quick: unary.gelu_quick,
  geglu_erf: unary.gelu_erf,
  reglu: unary.relu,
};
const binary: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
};

/** Result of a case as numbers in the order of dst, before they are stored as dst's type. */
export const evaluate = (c: OpCase): Float64Array =>
  evaluateOn(
    c.op,
    c.src.map((s) => (s ? open(s) : null)),
    c.params ?? {},
    c.dst.ne,
  );

/**
 * The same for sources given as views. ne: that of dst. p.precise: gelu and gelu_quick without
 * ggml's f16 tables.
 */
export function evaluateOn(
  op: string,
  src: readonly (View | null)[],
  p: Readonly<Record<string, number>>,
  ne: readonly number[],
): Float64Array {
  const [a, b, m, k] = src as [View, View, View | null, View | null];
  const all = (g: (...i: Index) => number) => each(ne, g);
  const of = (table: Record<string, (x: number) => number>, name: string) => (p.precise ? precise[name] : undefined) ?? table[name];
  if (op in unary) return all((...i) => of(unary, op)(a.at(...i)));
  const pair = binary[op.replace('_inplace', '')];
  if (pair) return all((...i) => pair(a.at(...i), b.at(...(i.map((v, d) => v % b.ne[d]) as Index))));
  if (op in gates) return all((i0, ...i) => of(gates, op)(a.at(i0, ...i)) * a.at(i0 + a.ne[0] / 2, ...i));
  if (op.endsWith('_split')) return all((...i) => of(gates, op.slice(0, -6))(a.at(...i)) * b.at(...i));
  switch (op) {
    case 'swiglu_oai':
      return all((...i) => {
        const gate = Math.min(a.at(...i), p.limit);
        return (gate / (1 + Math.exp(-p.alpha * gate))) * (Math.min(Math.max(b.at(...i), -p.limit), p.limit) + 1);
      });
    case 'mul_mat':
      return mulMat(a, b);
    case 'mul_mat_id':
      return mulMatId(a, b, m!);
    case 'mul_mat_sparse':
      return mulMatSparse(a, b, m!, k, p, ne);
    case 'axpy':
    case 'axpy_head':
      return axpy(a, b, m!, k, p, ne);
    case 'add_id':
      return all((i0, u, t) => a.at(i0, u, t, 0) + (within(m!.at(u, t, 0, 0), 1, b.ne[1]) ? b.at(i0, m!.at(u, t, 0, 0), 0, 0) : NaN));
    case 'rope_ext':
      return rope(a, b, m, p);
    case 'soft_max_ext': {
      const [n0, n1, n2] = a.ne;
      let r = 0;
      return rows(a, n0, (x) => {
        const i1 = r % n1;
        const i2 = Math.floor(r / n1) % n2;
        const i3 = Math.floor(r++ / n1 / n2);
        return softMax(x.map((v, i) => v * p.scale + slope(i2, n2, p.max_bias) * maskAt(b, i, i1, i2, i3)));
      });
    }
    case 'flash_attn_ext':
      return flash(a, b, m!, k, src[4] ?? null, p);
    case 'ssm_conv':
      return all((i0, i1, i2) => sum(Array.from({ length: b.ne[0] }, (_, tap) => b.at(tap, i0, 0, 0) * a.at(i1 + tap, i0, i2, 0))));
    case 'ssm_scan':
      return scan(src as readonly View[]);
    case 'gated_delta_net':
      return deltaNet(src as readonly View[]);
    case 'norm':
      return rows(a, a.ne[0], (x) => {
        const mean = sum(x) / x.length;
        const s = Math.sqrt(sum(x.map((v) => (v - mean) ** 2)) / x.length + p.eps);
        return x.map((v, i) => ((v - mean) / s) * (b ? b.at(i, 0, 0, 0) : 1) + (m ? m.at(i, 0, 0, 0) : 0));
      });
    case 'rms_norm':
      return rows(a, a.ne[0], (x) => {
        const s = Math.sqrt(sum(x.map((v) => v * v)) / x.length + p.eps);
        return x.map((v, i) => (v / s) * (b ? b.at(i, 0, 0, 0) : 1));
      });
    case 'l2_norm':
      return rows(a, a.ne[0], (x) => {
        const s = Math.max(Math.sqrt(sum(x.map((v) => v * v))), p.eps);
        return x.map((v) => v / s);
      });
    case 'fwht':
    case 'fwht_inplace':
      return rows(a, a.ne[0], (x) => {
        const n = p.n ?? x.length;
        return x.map((_, i) => sum(Float64Array.from({ length: n }, (_, j) => x[i - (i % n) + j] * hadamard(n, i % n, j))));
      });
    case 'sum_rows':
      return rows(a, 1, (x) => [sum(x)]);
    case 'mean':
      return rows(a, 1, (x) => [sum(x) / x.length]);
    case 'argmax':
      return rows(a, 1, (x) => sorted(x, true).slice(0, 1));
    case 'argsort':
      return rows(a, a.ne[0], (x) => sorted(x, p.order === 1));
    case 'top_k':
      return rows(a, p.k, (x) => sorted(x, true).slice(0, p.k));
    case 'weighted_sum':
      return all((i0, i1, i2) => sum(Float64Array.from({ length: a.ne[1] }, (_, r) => a.at(i0, r, i1, i2) * b.at(0, r, i1, i2))));
    case 'mean_of_rows':
      return all((i0, i1) => {
        const first = b.at(i1, 0, 0, 0);
        const count = m!.at(i1, 0, 0, 0);
        return within(first, count, a.ne[1])
          ? sum(Float64Array.from({ length: count }, (_, r) => a.at(i0, first + r, 0, 0))) / Math.max(1, count)
          : NaN;
      });
    case 'pool_1d':
      return rows(a, ne[0], (x) =>
        Array.from({ length: ne[0] }, (_, i) => {
          const part = x.subarray(i * p.s0, i * p.s0 + p.k0);
          return p.kind ? sum(part) / p.k0 : Math.max(...part);
        }),
      );
    case 'repeat':
      return all((...i) => a.at(...(i.map((v, d) => v % a.ne[d]) as Index)));
    case 'concat':
      return all((...i) => (i[p.dim] < a.ne[p.dim] ? a.at(...i) : b.at(...(i.map((v, d) => (d === p.dim ? v - a.ne[d] : v)) as Index))));
    case 'scale':
      return all((...i) => a.at(...i) * p.s + (p.b ?? 0));
    case 'soft_cap':
      return all((...i) => p.cap * Math.tanh(a.at(...i) / p.cap));
    case 'xielu': {
      const softplus = (x: number) => Math.log(1 + Math.exp(x));
      const side = (x: number) =>
        x > 0 ? softplus(p.alphaP) * x * x : (p.beta + softplus(p.alphaN)) * (Math.expm1(Math.min(x, p.eps)) - x);
      return all((...i) => side(a.at(...i)) + p.beta * a.at(...i));
    }
    case 'clamp':
      return all((...i) => Math.min(p.max, Math.max(p.min, a.at(...i))));
    case 'diag_mask_inf':
      return all((...i) => (i[0] > i[1] + p.n_past ? -Infinity : a.at(...i)));
    case 'get_rows':
      return all((i0, i1, i2, i3) => (within(b.at(i1, i2, i3, 0), 1, a.ne[1]) ? a.at(i0, b.at(i1, i2, i3, 0), i2, i3) : NaN));
    case 'set_rows': {
      const where = (i2: number, i3: number) => Array.from({ length: m!.ne[0] }, (_, i) => m!.at(i, i2 % m!.ne[1], i3 % m!.ne[2], 0));
      return all((i0, i1, i2, i3) => {
        const from = where(i2, i3).lastIndexOf(i1);
        return from >= 0 ? b.at(i0, from, i2, i3) : a.at(i0, i1, i2, i3);
      });
    }
    case 'sum':
      return Float64Array.of(sum(each(a.ne, a.at)));
    case 'pad_ext':
      return all((...i) => {
        const from = i.map((v, d) => v - p[`lp${d}`]);
        return from.every((v, d) => v >= 0 && v < a.ne[d]) ? a.at(...(from as Index)) : 0;
      });
    case 'group_norm': {
      const size = Math.ceil(a.ne[2] / p.groups);
      const groups = new Map<string, { mean: number; s: number }>();
      const of = (i2: number, i3: number) => {
        const g = Math.floor(i2 / size);
        const key = `${g} ${i3}`;
        const to = Math.min(a.ne[2], (g + 1) * size);
        if (!groups.has(key)) {
          const x = each([a.ne[0], a.ne[1], to - g * size, 1], (i0, i1, c) => a.at(i0, i1, g * size + c, i3));
          const mean = sum(x) / x.length;
          groups.set(key, { mean, s: Math.sqrt(sum(x.map((v) => (v - mean) ** 2)) / x.length + p.eps) });
        }
        return groups.get(key)!;
      };
      return all((i0, i1, i2, i3) => (a.at(i0, i1, i2, i3) - of(i2, i3).mean) / of(i2, i3).s);
    }
    case 'im2col':
      return p.is_2D
        ? all((k, ow, oh, n) => met(a, b, p, k, ow, oh, n))
        : all((k, ow, n) => met(upright(a), upright(b), { ...p, ...LINE }, k, ow, 0, n));
    case 'conv_1d':
      return conv(upright(a), upright(b), { ...p, ...LINE }, ([ow, oc, n]) => [ow, 0, oc, n], ne);
    case 'conv_2d':
      return conv(a, b, p, (i) => i, ne);
    case 'cpy':
    case 'cont':
    case 'cast':
      return each(a.ne, a.at);
    default:
      throw new Error(`no reference for ${op}`);
  }
}
