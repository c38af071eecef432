/**
 * How far a rotated llama of 4 bits is from the model as it is, and the gradient of that by the rotations, as one graph of the tensor API's ops.
 *
 * Every matrix W' is made of the model's W, R1 and R2 (plan.ts), then rounded: of a reader W' = W R1, of a writer W' = R1^T W. The distance is the mean of
 * the tokens' Kullback-Leibler divergences: unlike the loss of a text it is 0 where nothing is lost, so that its gradient is that of what is.
 * Matrices are written by rows: x [n, m] is m rows of n elements, a row for each token.
 */
import { add, div, log, mul, scale, sigmoid, sqr, sqrt, sub } from '../graph/elementwise-ops.ts';
import { cont, get_rows, mul_mat } from '../graph/ops.ts';
import { diag_mask_inf, fwht, mean, rms_norm, soft_max, sum, sum_rows } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { permute, reshape, transpose } from '../graph/views.ts';
import type { Rounded } from './rounded.ts';

/** Matrices of a layer as the file has them, f32, the norms' weights folded into those that read the residual stream. */
export const LAYER_MATRICES = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'] as const;
export type LayerMatrices = Readonly<Record<(typeof LAYER_MATRICES)[number], Tensor>>;

export interface LossGraph {
  readonly nHead: number;
  readonly nHeadKv: number;
  readonly headDim: number;
  readonly eps: number;
  /** R4: elements of what ffn_down reads that are transformed together; 0: none. */
  readonly r4: number;
  /** What becomes of matrices. */
  readonly round: (w: Tensor) => Rounded;
  /** [n_embd, n_vocab] */
  readonly embeddings: Tensor;
  readonly output: Tensor;
  readonly layers: readonly LayerMatrices[];
  /** [n_embd, n_embd], and for each layer [head_dim, head_dim]. */
  readonly r1: Tensor;
  readonly r2: readonly Tensor[];
  /** Tokens of a sequence. */
  readonly window: number;
  /** The tokens, i32 [window * sequences]. */
  readonly ids: Tensor;
  /** Turns queries or keys [head_dim, heads, window * sequences] to their positions, or back. */
  readonly rope: (x: Tensor, back: boolean) => Tensor;
}

export interface Loss {
  /** [1]: the mean divergence of a token, in nats. */
  readonly divergence: Tensor<'f32'>;
  /** Its gradient, as r1 and r2. */
  readonly r1: Tensor;
  readonly r2: readonly Tensor[];
}

const turned = (x: Tensor): Tensor => cont(transpose(x));
/** x y^T, x y and x^T y of matrices by rows. */
const byTransposed = (x: Tensor, y: Tensor): Tensor => mul_mat(y, x);
const by = (x: Tensor, y: Tensor): Tensor => mul_mat(turned(y), x);
const transposedBy = (x: Tensor, y: Tensor): Tensor => mul_mat(turned(y), turned(x));
/** Rows cut into heads, each times r. */
const headsBy = (x: Tensor, r: Tensor): Tensor => reshape(by(headsOf(x, r), r), x.ne);
const headsOf = (x: Tensor, r: Tensor): Tensor => reshape(x, [r.ne[0], (x.ne[0] * x.ne[1]) / r.ne[0]]);
const sumOf = (parts: readonly Tensor[]): Tensor => parts.reduce((a, b) => add(a, b));
/** Logarithms of probabilities, of which the smallest are 0. */
const logOf = (p: Tensor): Tensor => log(scale(p, 1, { bias: 1e-20 }));

export function lossOf(g: LossGraph): Loss {
  const { r1, r2, nHead, nHeadKv, headDim, window, layers, round } = g;
  const tokens = g.ids.ne[0];
  const sequences = tokens / window;
  /** Query heads that share a KV head, one after the other. */
  const shared = nHead / nHeadKv;
  const transformed = (x: Tensor): Tensor => (g.r4 > 0 ? fwht(x, { n: g.r4 }) : x);
  const norm = (x: Tensor): Tensor => rms_norm(x, { eps: g.eps });
  /** The gradient by x of what reads y = norm(x). */
  const normBack = (x: Tensor, y: Tensor, dy: Tensor): Tensor =>
    div(sub(dy, mul(y, mean(mul(dy, y)))), sqrt(scale(mean(sqr(x)), 1, { bias: g.eps })));

  /** [heads * head_dim, tokens] as [head_dim, window, heads, sequences], and back. */
  const apart = (x: Tensor, heads: number): Tensor => cont(permute(reshape(x, [headDim, heads, window, sequences]), 0, 2, 1, 3));
  const together = (x: Tensor, heads: number): Tensor => reshape(cont(permute(x, 0, 2, 1, 3)), [headDim * heads, tokens]);
  /** All rows of query heads that share a KV head in one matrix, and back. */
  const grouped = (x: Tensor): Tensor => reshape(x, [x.ne[0], window * shared, nHeadKv, sequences]);
  const ungrouped = (x: Tensor): Tensor => reshape(x, [x.ne[0], window, nHead, sequences]);
  const rope = (x: Tensor, heads: number, back = false): Tensor =>
    reshape(g.rope(reshape(x, [headDim, heads, tokens]), back), [headDim * heads, tokens]);

  /** The network of these matrices, and all that its gradient needs. */
  const forward = (embedded: Tensor, matrices: readonly LayerMatrices[], output: Tensor, turn: (x: Tensor) => Tensor) => {
    let x = embedded;
    const states = matrices.map((w) => {
      const h = norm(x);
      const q = apart(rope(byTransposed(h, w.attn_q), nHead), nHead);
      const k = apart(rope(byTransposed(h, w.attn_k), nHeadKv), nHeadKv);
      const v = apart(byTransposed(h, w.attn_v), nHeadKv);
      const p = soft_max(diag_mask_inf(ungrouped(mul_mat(k, grouped(q))), 0), { scale: 1 / Math.sqrt(headDim) });
      const mixed = together(ungrouped(mul_mat(turned(v), grouped(p))), nHead);
      const y = add(x, byTransposed(mixed, w.attn_output));
      const f = norm(y);
      const gate = byTransposed(f, w.ffn_gate);
      const up = byTransposed(f, w.ffn_up);
      const open = sigmoid(gate);
      const silu = mul(gate, open);
      const inner = turn(mul(silu, up));
      const state = { x, h, q, k, v, p, mixed, y, f, gate, up, open, silu, inner };
      x = add(y, byTransposed(inner, w.ffn_down));
      return state;
    });
    const last = norm(x);
    return { states, x, last, probabilities: soft_max(byTransposed(last, output)) };
  };

  const embedded = get_rows(g.embeddings, g.ids);
  const want = forward(embedded, layers, g.output, (x) => x).probabilities;

  const halves = layers.map((w, il) => ({
    values: turned(by(w.attn_v, r1)),
    outer: headsBy(w.attn_output, r2[il]),
    down: transformed(w.ffn_down),
  }));
  const reader = (w: Tensor): Rounded => round(by(w, r1));
  const writer = (w: Tensor): Rounded => round(transposedBy(r1, w));
  const rotated = layers.map((w, il) => ({
    attn_q: reader(w.attn_q),
    attn_k: reader(w.attn_k),
    attn_v: round(turned(headsBy(halves[il].values, r2[il]))),
    attn_output: writer(halves[il].outer),
    ffn_gate: reader(w.ffn_gate),
    ffn_up: reader(w.ffn_up),
    ffn_down: writer(halves[il].down),
  }));
  // Rows are rounded each for themselves: those that the tokens name are all that is needed.
  const first = reader(embedded);
  const output = reader(g.output);
  const lossy = rotated.map((w) => Object.fromEntries(LAYER_MATRICES.map((name) => [name, w[name].x])) as LayerMatrices);
  const { states, x, last, probabilities } = forward(first.x, lossy, output.x, transformed);
  const divergence = scale(sum(mul(want, sub(logOf(want), logOf(probabilities)))), 1 / tokens);

  const byR1: Tensor[] = [];
  const byR2: Tensor[] = [];
  /** From here on a name with a d before it is the gradient by what has the name. */
  const dReader = (w: Tensor, rotated: Rounded, dy: Tensor, x: Tensor): void =>
    void byR1.push(transposedBy(w, rotated.back(transposedBy(dy, x))));
  const dlogits = scale(sub(probabilities, want), 1 / tokens);
  dReader(g.output, output, dlogits, last);
  let dx = normBack(x, last, by(dlogits, output.x));
  for (let il = layers.length - 1; il >= 0; il--) {
    const [m, w, r, half, turn] = [states[il], layers[il], rotated[il], halves[il], r2[il]];
    byR1.push(byTransposed(half.down, r.ffn_down.back(transposedBy(dx, m.inner))));
    const dinner = transformed(by(dx, r.ffn_down.x));
    const dup = mul(dinner, m.silu);
    const dgate = mul(mul(dinner, m.up), add(m.open, sub(m.silu, mul(m.silu, m.open))));
    dReader(w.ffn_gate, r.ffn_gate, dgate, m.f);
    dReader(w.ffn_up, r.ffn_up, dup, m.f);
    const dy = add(dx, normBack(m.y, m.f, add(by(dgate, r.ffn_gate.x), by(dup, r.ffn_up.x))));

    const dwo = r.attn_output.back(transposedBy(dy, m.mixed));
    byR1.push(byTransposed(half.outer, dwo));
    const douter = headsOf(by(r1, dwo), turn);
    const dmixed = grouped(apart(by(dy, r.attn_output.x), nHead));
    const dp = ungrouped(mul_mat(m.v, dmixed));
    const ds = scale(mul(m.p, sub(dp, sum_rows(mul(dp, m.p)))), 1 / Math.sqrt(headDim));
    const dq = rope(together(ungrouped(mul_mat(turned(m.k), grouped(ds))), nHead), nHead, true);
    const dk = rope(together(transposedBy(grouped(ds), grouped(m.q)), nHeadKv), nHeadKv, true);
    const dv = together(transposedBy(grouped(m.p), dmixed), nHeadKv);
    dReader(w.attn_q, r.attn_q, dq, m.h);
    dReader(w.attn_k, r.attn_k, dk, m.h);
    const dwv = headsOf(turned(r.attn_v.back(transposedBy(dv, m.h))), turn);
    byR2.unshift(add(transposedBy(headsOf(w.attn_output, turn), douter), transposedBy(headsOf(half.values, turn), dwv)));
    byR1.push(transposedBy(w.attn_v, turned(reshape(byTransposed(dwv, turn), half.values.ne))));
    dx = add(dy, normBack(m.x, m.h, sumOf([by(dq, r.attn_q.x), by(dk, r.attn_k.x), by(dv, r.attn_v.x)])));
  }
  byR1.push(transposedBy(embedded, first.back(dx)));
  return { divergence, r1: sumOf(byR1), r2: byR2 };
}
