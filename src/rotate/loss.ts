/**
 * Distance of a rotated 4-bit llama from the model, and the gradient of that distance by the
 * rotations, as one graph of the tensor API's ops.
 *
 * Every matrix W' is made of the model's W, R1 and R2 (plan.ts), then rounded: W' = W R1 for a
 * matrix that reads the residual stream, W' = R1^T W for one that writes it. The distance is the
 * mean over tokens of the Kullback-Leibler divergence. Unlike the loss of a text, it is 0 if
 * nothing is lost, so its gradient is that of the rounding errors. Matrices are written by rows: x
 * [n, m] is m rows of n elements, a row for each token.
 */
import { add, div, log, mul, scale, sigmoid, sqr, sqrt, sub } from '../graph/elementwise-ops.ts';
import { cont, get_rows, mul_mat } from '../graph/ops.ts';
import { diag_mask_inf, fwht, mean, rms_norm, soft_max, sum, sum_rows } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { permute, reshape, transpose } from '../graph/views.ts';
import type { Rounded } from './rounded.ts';

/**
 * Matrices of a layer as in the file, f32, with the norms' weights folded into the matrices that
 * read the residual stream.
 */
export const LAYER_MATRICES = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'] as const;
export type LayerMatrices = Readonly<Record<(typeof LAYER_MATRICES)[number], Tensor>>;

export interface LossGraph {
  readonly nHead: number;
  readonly nHeadKv: number;
  readonly headDim: number;
  readonly eps: number;
  /** R4: number of elements of ffn_down's input that are transformed together; 0: none. */
  readonly r4: number;
  /** Rounding of a matrix. */
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
/** Rows divided into heads, each times r. */
const headsBy = (x: Tensor, r: Tensor): Tensor => reshape(by(headsOf(x, r), r), x.ne);
const headsOf = (x: Tensor, r: Tensor): Tensor => reshape(x, [r.ne[0], (x.ne[0] * x.ne[1]) / r.ne[0]]);
const sumOf = (parts: readonly Tensor[]): Tensor => parts.reduce((a, b) => add(a, b));
/** Logarithms of probabilities; the bias keeps those of 0 finite. */
const logOf = (p: Tensor): Tensor => log(scale(p, 1, { bias: 1e-20 }));

/** Sizes of a model, and the operations of its network that use them. */
class Network {
  readonly #graph: LossGraph;
  readonly #tokens: number;
  readonly #sequences: number;
  /** Number of query heads that share a KV head; they are consecutive. */
  readonly #shared: number;
  readonly #scores: { readonly scale: number };

  constructor(graph: LossGraph) {
    this.#graph = graph;
    this.#tokens = graph.ids.ne[0];
    this.#sequences = this.#tokens / graph.window;
    this.#shared = graph.nHead / graph.nHeadKv;
    this.#scores = { scale: 1 / Math.sqrt(graph.headDim) };
  }

  norm(x: Tensor): Tensor {
    return rms_norm(x, { eps: this.#graph.eps });
  }

  /** Gradient by x, from the gradient by y = norm(x). */
  normBack(x: Tensor, y: Tensor, dy: Tensor): Tensor {
    return div(sub(dy, mul(y, mean(mul(dy, y)))), sqrt(scale(mean(sqr(x)), 1, { bias: this.#graph.eps })));
  }

  /** [heads * head_dim, tokens] as [head_dim, window, heads, sequences]. */
  splitHeads(x: Tensor, heads: number): Tensor {
    const { headDim, window } = this.#graph;
    return cont(permute(reshape(x, [headDim, heads, window, this.#sequences]), 0, 2, 1, 3));
  }

  /** The reverse of splitHeads(). */
  joinHeads(x: Tensor, heads: number): Tensor {
    return reshape(cont(permute(x, 0, 2, 1, 3)), [this.#graph.headDim * heads, this.#tokens]);
  }

  /** All rows of query heads that share a KV head in one matrix. */
  grouped(x: Tensor): Tensor {
    const { window, nHeadKv } = this.#graph;
    return reshape(x, [x.ne[0], window * this.#shared, nHeadKv, this.#sequences]);
  }

  /** The reverse of grouped(). */
  ungrouped(x: Tensor): Tensor {
    const { window, nHead } = this.#graph;
    return reshape(x, [x.ne[0], window, nHead, this.#sequences]);
  }

  rope(x: Tensor, heads: number, back = false): Tensor {
    const { headDim, rope } = this.#graph;
    return reshape(rope(reshape(x, [headDim, heads, this.#tokens]), back), [headDim * heads, this.#tokens]);
  }

  /** The probabilities of attention. */
  attend(q: Tensor, k: Tensor): Tensor {
    return soft_max(diag_mask_inf(this.ungrouped(mul_mat(k, this.grouped(q))), 0), this.#scores);
  }

  /** Gradient by the scores before they are scaled, from the gradient by the probabilities p. */
  attendBack(p: Tensor, dp: Tensor): Tensor {
    return scale(mul(p, sub(dp, sum_rows(mul(dp, p)))), this.#scores.scale);
  }

  /** A layer, with all values that its gradient needs. */
  #layer(x: Tensor, w: LayerMatrices, turn: (x: Tensor) => Tensor) {
    const { nHead, nHeadKv } = this.#graph;
    const h = this.norm(x);
    const q = this.splitHeads(this.rope(byTransposed(h, w.attn_q), nHead), nHead);
    const k = this.splitHeads(this.rope(byTransposed(h, w.attn_k), nHeadKv), nHeadKv);
    const v = this.splitHeads(byTransposed(h, w.attn_v), nHeadKv);
    const p = this.attend(q, k);
    const mixed = this.joinHeads(this.ungrouped(mul_mat(turned(v), this.grouped(p))), nHead);
    const y = add(x, byTransposed(mixed, w.attn_output));
    const f = this.norm(y);
    const gate = byTransposed(f, w.ffn_gate);
    const up = byTransposed(f, w.ffn_up);
    const open = sigmoid(gate);
    const silu = mul(gate, open);
    const inner = turn(mul(silu, up));
    return { x, h, q, k, v, p, mixed, y, f, gate, up, open, silu, inner, out: add(y, byTransposed(inner, w.ffn_down)) };
  }

  /** The network of these matrices. @param turn transforms ffn_down's input */
  forward(embedded: Tensor, matrices: readonly LayerMatrices[], output: Tensor, turn: (x: Tensor) => Tensor) {
    let x = embedded;
    const states = matrices.map((w) => {
      const state = this.#layer(x, w, turn);
      x = state.out;
      return state;
    });
    const last = this.norm(x);
    return { states, x, last, probabilities: soft_max(byTransposed(last, output)) };
  }
}
type LayerState = ReturnType<Network['forward']>['states'][number];

/**
 * Matrices of a layer, rotated and rounded, and their products with the first rotation or transform
 * only.
 */
function rotateLayer(w: LayerMatrices, r2: Tensor, { reader, writer, round, r1, transformed }: Rotation) {
  const values = turned(by(w.attn_v, r1));
  const outer = headsBy(w.attn_output, r2);
  const down = transformed(w.ffn_down);
  const rounded = {
    attn_q: reader(w.attn_q),
    attn_k: reader(w.attn_k),
    attn_v: round(turned(headsBy(values, r2))),
    attn_output: writer(outer),
    ffn_gate: reader(w.ffn_gate),
    ffn_up: reader(w.ffn_up),
    ffn_down: writer(down),
  };
  const lossy = Object.fromEntries(LAYER_MATRICES.map((name) => [name, rounded[name].x])) as LayerMatrices;
  return { w, r2, values, outer, down, rounded, lossy };
}
type RotatedLayer = ReturnType<typeof rotateLayer>;

interface Rotation {
  readonly r1: Tensor;
  readonly round: LossGraph['round'];
  /** Rotates and rounds a matrix that reads the residual stream, or one that writes it. */
  readonly reader: (w: Tensor) => Rounded;
  readonly writer: (w: Tensor) => Rounded;
  /** Transforms the input of ffn_down (R4). */
  readonly transformed: (x: Tensor) => Tensor;
}

const rotationOf = ({ r1, r4, round }: LossGraph): Rotation => ({
  r1,
  round,
  reader: (w) => round(by(w, r1)),
  writer: (w) => round(transposedBy(r1, w)),
  transformed: (x) => (r4 > 0 ? fwht(x, { n: r4 }) : x),
});

/**
 * Adds up the gradient by R1 and R2 from the last layer to the first. A name that begins with d is
 * the gradient by the value with the rest of the name.
 */
class Gradient {
  readonly #graph: LossGraph;
  readonly #network: Network;
  readonly #rotation: Rotation;
  /** Terms of the gradient by R1, and each layer's by R2. */
  readonly byR1: Tensor[] = [];
  readonly byR2: Tensor[] = [];

  constructor(graph: LossGraph, network: Network, rotation: Rotation) {
    this.#graph = graph;
    this.#network = network;
    this.#rotation = rotation;
  }

  /** Adds the term of a matrix w that reads x and writes y. */
  reader(w: Tensor, rotated: Rounded, dy: Tensor, x: Tensor): void {
    this.byR1.push(transposedBy(w, rotated.back(transposedBy(dy, x))));
  }

  /** Adds a layer's terms. Returns the gradient by the layer's input. */
  layer(layer: RotatedLayer, m: LayerState, dx: Tensor): Tensor {
    return this.#attention(layer, m, this.#feedForward(layer, m, dx));
  }

  #feedForward({ w, rounded: r, down }: RotatedLayer, m: LayerState, dx: Tensor): Tensor {
    this.byR1.push(byTransposed(down, r.ffn_down.back(transposedBy(dx, m.inner))));
    const dinner = this.#rotation.transformed(by(dx, r.ffn_down.x));
    const dup = mul(dinner, m.silu);
    const dgate = mul(mul(dinner, m.up), add(m.open, sub(m.silu, mul(m.silu, m.open))));
    this.reader(w.ffn_gate, r.ffn_gate, dgate, m.f);
    this.reader(w.ffn_up, r.ffn_up, dup, m.f);
    return add(dx, this.#network.normBack(m.y, m.f, add(by(dgate, r.ffn_gate.x), by(dup, r.ffn_up.x))));
  }

  #attention({ w, r2, values, outer, rounded: r }: RotatedLayer, m: LayerState, dy: Tensor): Tensor {
    const { nHead, nHeadKv, r1 } = this.#graph;
    const net = this.#network;
    const dwo = r.attn_output.back(transposedBy(dy, m.mixed));
    this.byR1.push(byTransposed(outer, dwo));
    const douter = headsOf(by(r1, dwo), r2);
    const dmixed = net.grouped(net.splitHeads(by(dy, r.attn_output.x), nHead));
    const ds = net.attendBack(m.p, net.ungrouped(mul_mat(m.v, dmixed)));
    const dq = net.rope(net.joinHeads(net.ungrouped(mul_mat(turned(m.k), net.grouped(ds))), nHead), nHead, true);
    const dk = net.rope(net.joinHeads(transposedBy(net.grouped(ds), net.grouped(m.q)), nHeadKv), nHeadKv, true);
    const dv = net.joinHeads(transposedBy(net.grouped(m.p), dmixed), nHeadKv);
    this.reader(w.attn_q, r.attn_q, dq, m.h);
    this.reader(w.attn_k, r.attn_k, dk, m.h);
    const dwv = headsOf(turned(r.attn_v.back(transposedBy(dv, m.h))), r2);
    this.byR2.unshift(add(transposedBy(headsOf(w.attn_output, r2), douter), transposedBy(headsOf(values, r2), dwv)));
    this.byR1.push(transposedBy(w.attn_v, turned(reshape(byTransposed(dwv, r2), values.ne))));
    return add(dy, net.normBack(m.x, m.h, sumOf([by(dq, r.attn_q.x), by(dk, r.attn_k.x), by(dv, r.attn_v.x)])));
  }
}

/**
 * Divergence of the rotated, rounded model from the model in the file, and its gradient by the
 * rotations.
 */
export function lossOf(g: LossGraph): Loss {
  const tokens = g.ids.ne[0];
  const network = new Network(g);
  const rotation = rotationOf(g);
  const embedded = get_rows(g.embeddings, g.ids);
  const want = network.forward(embedded, g.layers, g.output, (x) => x).probabilities;
  const layers = g.layers.map((w, il) => rotateLayer(w, g.r2[il], rotation));
  // Each row is rounded on its own, so only the rows of the given tokens are needed.
  const first = rotation.reader(embedded);
  const output = rotation.reader(g.output);
  const got = network.forward(
    first.x,
    layers.map(({ lossy }) => lossy),
    output.x,
    rotation.transformed,
  );
  const divergence = scale(sum(mul(want, sub(logOf(want), logOf(got.probabilities)))), 1 / tokens);

  const gradient = new Gradient(g, network, rotation);
  const dlogits = scale(sub(got.probabilities, want), 1 / tokens);
  gradient.reader(g.output, output, dlogits, got.last);
  let dx = network.normBack(got.x, got.last, by(dlogits, output.x));
  for (let il = layers.length - 1; il >= 0; il--) dx = gradient.layer(layers[il], got.states[il], dx);
  gradient.byR1.push(transposedBy(embedded, first.back(dx)));
  return { divergence, r1: sumOf(gradient.byR1), r2: gradient.byR2 };
}
