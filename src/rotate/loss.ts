/**
 * The loss of a rotated llama with quantised matrices, and its gradient by the rotations, as one graph of the tensor API's ops.
 *
 * Every matrix W' is made of the model's W, R1 and R2 (plan.ts), then quantised; its gradient passes the quantiser as if that were not there (straight
 * through). So no gradient of a matrix is ever made: of a reader W' = W R1, whose product is x W'^T, the loss's gradient by R1 is (dy W)^T x; of a writer
 * W' = R1^T W it is (x W^T)^T dy. Matrices are written by rows: x [n, m] is m rows of n elements, a row for each token.
 */
import { add, div, mul, scale, sigmoid, sqr, sqrt, sub } from '../graph/elementwise-ops.ts';
import { cast, cont, get_rows, mul_mat } from '../graph/ops.ts';
import { diag_mask_inf, fwht, mean, rms_norm, soft_max, sum_rows } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { permute, reshape, transpose } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';

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
  /** What matrices are quantised to, where their rows are whole blocks of it; none: they stay f32. */
  readonly type?: 'q4_0' | undefined;
  /** [n_embd, n_vocab] */
  readonly embeddings: Tensor;
  readonly output: Tensor;
  readonly layers: readonly LayerMatrices[];
  /** [n_embd, n_embd], and for each layer [head_dim, head_dim]. */
  readonly r1: Tensor;
  readonly r2: readonly Tensor[];
  /** Tokens of a sequence. */
  readonly window: number;
  /** i32 [window * sequences]: the tokens, and what follows each. */
  readonly ids: Tensor;
  readonly targets: Tensor;
  /** Turns queries or keys [head_dim, heads, window * sequences] to their positions, or back. */
  readonly rope: (x: Tensor, back: boolean) => Tensor;
}

export interface Loss {
  /** [n_vocab, tokens]: the probabilities of what follows each token. */
  readonly probabilities: Tensor;
  /** The gradient of the mean of -ln p, as r1 and r2. */
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

export function lossOf(g: LossGraph): Loss {
  const { r1, r2, nHead, nHeadKv, headDim, window, layers } = g;
  const tokens = g.ids.ne[0];
  const sequences = tokens / window;
  /** Query heads that share a KV head, one after the other. */
  const shared = nHead / nHeadKv;
  const quantised = (w: Tensor): Tensor => (g.type && w.ne[0] % TYPE[g.type].blckSize === 0 ? cast(cast(w, g.type), 'f32') : w);
  const reader = (w: Tensor): Tensor => quantised(by(w, r1));
  const writer = (w: Tensor): Tensor => quantised(transposedBy(r1, w));
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

  const embeddings = reader(g.embeddings);
  const output = reader(g.output);
  let x: Tensor = get_rows(embeddings, g.ids);

  const forward = layers.map((w, il) => {
    const turn = r2[il];
    const values = by(w.attn_v, r1);
    const half = headsBy(w.attn_output, turn);
    const down = transformed(w.ffn_down);
    const [wq, wk, wgate, wup] = [w.attn_q, w.attn_k, w.ffn_gate, w.ffn_up].map(reader);
    const wv = quantised(turned(headsBy(turned(values), turn)));
    const wo = writer(half);
    const wdown = writer(down);

    const h = norm(x);
    const q = apart(rope(byTransposed(h, wq), nHead), nHead);
    const k = apart(rope(byTransposed(h, wk), nHeadKv), nHeadKv);
    const v = apart(byTransposed(h, wv), nHeadKv);
    const p = soft_max(diag_mask_inf(ungrouped(mul_mat(k, grouped(q))), 0), { scale: 1 / Math.sqrt(headDim) });
    const mixed = together(ungrouped(mul_mat(turned(v), grouped(p))), nHead);
    const y = add(x, byTransposed(mixed, wo));
    const f = norm(y);
    const gate = byTransposed(f, wgate);
    const up = byTransposed(f, wup);
    const open = sigmoid(gate);
    const silu = mul(gate, open);
    const inner = transformed(mul(silu, up));
    const made = {
      w,
      turn,
      values,
      half,
      down,
      wq,
      wk,
      wv,
      wo,
      wgate,
      wup,
      wdown,
      x,
      h,
      q,
      k,
      v,
      p,
      mixed,
      y,
      f,
      gate,
      up,
      open,
      silu,
      inner,
    };
    x = add(y, byTransposed(inner, wdown));
    return made;
  });

  const last = norm(x);
  const probabilities = soft_max(byTransposed(last, output));
  /** The gradient by the logits is (p - 1 at the target) / tokens: here it is multiplied by a matrix. */
  const fromLogits = (w: Tensor): Tensor => scale(sub(by(probabilities, w), get_rows(w, g.targets)), 1 / tokens);
  const sumOf = (parts: readonly Tensor[]): Tensor => parts.reduce((a, b) => add(a, b));
  const byR1 = [transposedBy(fromLogits(g.output), last)];
  const byR2: Tensor[] = [];
  let dx = normBack(x, last, fromLogits(output));
  for (const m of forward.toReversed()) {
    const { w, turn } = m;
    byR1.push(transposedBy(byTransposed(m.inner, m.down), dx));
    const dinner = transformed(by(dx, m.wdown));
    const dup = mul(dinner, m.silu);
    const dgate = mul(mul(dinner, m.up), add(m.open, sub(m.silu, mul(m.silu, m.open))));
    byR1.push(transposedBy(add(by(dgate, w.ffn_gate), by(dup, w.ffn_up)), m.f));
    const dy = add(dx, normBack(m.y, m.f, add(by(dgate, m.wgate), by(dup, m.wup))));

    byR1.push(transposedBy(byTransposed(m.mixed, m.half), dy));
    const outer = headsOf(by(byTransposed(dy, r1), w.attn_output), turn);
    const dmixed = grouped(apart(by(dy, m.wo), nHead));
    const dp = ungrouped(mul_mat(m.v, dmixed));
    const ds = scale(mul(m.p, sub(dp, sum_rows(mul(dp, m.p)))), 1 / Math.sqrt(headDim));
    const dq = rope(together(ungrouped(mul_mat(turned(m.k), grouped(ds))), nHead), nHead, true);
    const dk = rope(together(transposedBy(grouped(ds), grouped(m.q)), nHeadKv), nHeadKv, true);
    const dv = together(transposedBy(grouped(m.p), dmixed), nHeadKv);
    byR2.unshift(
      add(transposedBy(outer, headsOf(m.mixed, turn)), transposedBy(headsOf(byTransposed(m.h, m.values), turn), headsOf(dv, turn))),
    );
    const plain = reshape(byTransposed(headsOf(dv, turn), turn), dv.ne);
    byR1.push(transposedBy(sumOf([by(dq, w.attn_q), by(dk, w.attn_k), by(plain, w.attn_v)]), m.h));
    dx = add(dy, normBack(m.x, m.h, sumOf([by(dq, m.wq), by(dk, m.wk), by(dv, m.wv)])));
  }
  byR1.push(transposedBy(get_rows(g.embeddings, g.ids), dx));
  return { probabilities, r1: sumOf(byR1), r2: byR2 };
}
