/**
 * Graph of an encoder's transformer. It takes its weights by their GGUF names, and adapts to what
 * the file has: biases, fused products, norms of heads, layer scales, gates.
 */
import { QuantletError } from '../errors.ts';
import { flash_attn_ext, flash_attn_runs, type KeyRuns } from '../graph/attention-ops.ts';
import { add, clamp, gelu, gelu_erf, gelu_quick, mul, silu } from '../graph/elementwise-ops.ts';
import { cont, mul_mat } from '../graph/ops.ts';
import { rope, type RopeMode } from '../graph/rope.ts';
import { mean_of_rows, norm as layer_norm, rms_norm } from '../graph/row-ops.ts';
import type { Tensor } from '../graph/tensor.ts';
import { permute, reshape, view } from '../graph/views.ts';

const ACTIVATIONS = { gelu, gelu_erf, silu, gelu_quick } as const;
export type Activation = keyof typeof ACTIVATIONS;

/** Sizes of a transformer that its file says. */
export interface TransformerParams {
  /** Projector type, as in the file. */
  readonly type: string;
  readonly nEmbd: number;
  readonly nHead: number;
  readonly headDim: number;
  readonly nLayer: number;
  readonly eps: number;
  readonly act: Activation;
}

/** Properties of a transformer that its file does not say. */
export interface TransformerKind {
  /** Norms of the layers. */
  readonly norm: 'layer' | 'rms';
  /**
   * Older files of this type may have the names of the feed-forward's two products exchanged.
   * Default false.
   */
  readonly mayExchange?: boolean;
  /** Factor of attention's scores. Default 1 / sqrt(head_dim). */
  readonly scale?: number;
  /** An rms norm without weights over each head of v. Default false. */
  readonly valueNorm?: boolean;
}

/** Weights and inputs of an encoder. */
export interface WeightSource {
  /** A weight of the file. Matrices are packed; kernels of convolutions are matrices. */
  find(name: string): Tensor | undefined;
  /** Numbers of a table that only the host reads. */
  table(name: string): Float32Array | undefined;
  /** A tensor with these numbers. */
  input(name: string, type: 'f32' | 'i32', ne: readonly number[], values: Float32Array | Int32Array): Tensor;
}

/** Angles of rope, f32 [head_dim, tokens], and the pairs that rotate. */
interface Turn {
  readonly table: Float32Array;
  readonly mode: RopeMode;
  /** Each half of a head has its own pairs, (i, i + head_dim / 4) for 'neox'. Default false. */
  readonly inHalves?: boolean;
}

export interface VitOptions {
  /** Rope of queries and keys. */
  readonly angles?: Turn | undefined;
  /** Tokens that each token of a layer sees; default: all. */
  readonly runs?: (layer: number) => KeyRuns | undefined;
  /** The first layer that is computed, and the one before which to stop. Default: all. */
  readonly first?: number;
  readonly layers?: number;
  /** Called with the states after each layer. */
  readonly after?: (x: Tensor, layer: number) => void;
  /** Work before the last norm. Default: none. */
  readonly last?: (x: Tensor) => Tensor;
}

/** Largest f32: the bound of a product without one. */
const FLT_MAX = 3.4028234663852886e38;

export class Transformer<P extends TransformerParams = TransformerParams> {
  readonly p: P;
  protected readonly source: WeightSource;
  private readonly kind: TransformerKind;
  /** Beginning of the names of the layers' tensors: `v.` or `a.`. */
  private readonly prefix: string;

  constructor(p: P, kind: TransformerKind, source: WeightSource, prefix: string) {
    this.p = p;
    this.kind = kind;
    this.source = source;
    this.prefix = prefix;
  }

  has(name: string): boolean {
    return this.source.find(name) !== undefined;
  }

  weight(name: string): Tensor {
    const found = this.source.find(name);
    if (found) return found;
    throw new QuantletError('ERR_MISSING_TENSOR', `mmproj has no tensor "${name}", which projectors of type ${this.p.type} need`);
  }

  /** i32 or f32 numbers as an input of the graph. */
  input(name: string, ne: readonly number[], values: Float32Array | Int32Array): Tensor {
    return this.source.input(name, values instanceof Int32Array ? 'i32' : 'f32', ne, values);
  }

  /** weight x, plus the bias if there is one. Bounds that the file has clamp input and product. */
  linear(x: Tensor, name: string): Tensor {
    const y = this.bounded(mul_mat(this.weight(`${name}.weight`), this.bounded(x, `${name}.input`)), `${name}.output`);
    return this.biased(y, name);
  }

  /** x plus the bias of this name, if the file has one. */
  biased(x: Tensor, name: string): Tensor {
    const bias = this.source.find(`${name}.bias`);
    return bias ? add(x, bias) : x;
  }

  /** x between the file's bounds of this name, or x itself without them. */
  private bounded(x: Tensor, name: string): Tensor {
    const [min, max] = ['min', 'max'].map((end) => this.source.table(`${name}_${end}`));
    for (const bound of [min, max])
      if (bound && bound.length !== 1)
        throw new QuantletError('ERR_TENSOR_SHAPE', `a bound ${name}_* of mmproj has ${bound.length} numbers; expected one`);
    return min || max ? clamp(x, min?.[0] ?? -FLT_MAX, max?.[0] ?? FLT_MAX) : x;
  }

  /** Norm of the type's kind with the weight of this name, and its bias if there is one. */
  norm(x: Tensor, name: string, { kind = this.kind.norm, eps = this.p.eps }: { kind?: 'layer' | 'rms'; eps?: number } = {}): Tensor {
    const weight = this.weight(`${name}.weight`);
    return kind === 'rms' ? rms_norm(x, { weight, eps }) : layer_norm(x, { weight, bias: this.source.find(`${name}.bias`), eps });
  }

  /** x, or its norm if the file has one of this name. */
  normIfThere(x: Tensor, name: string): Tensor {
    return this.has(`${name}.weight`) ? this.norm(x, name) : x;
  }

  /** The file's activation. */
  act(x: Tensor): Tensor {
    return ACTIVATIONS[this.p.act](x);
  }

  /** Two products with an activation between them. */
  mlp(x: Tensor, first: string, second: string, act: (x: Tensor) => Tensor = gelu): Tensor {
    return this.linear(act(this.linear(x, first)), second);
  }

  /** The file's table of positions. */
  positions(): Float32Array {
    const name = `${this.prefix}position_embd.weight`;
    const table = this.source.table(name);
    if (!table) this.weight(name);
    return table!;
  }

  /** Adds row `rows[i]` of a table of positions to token i. The tensor may have several tables. */
  withRows(x: Tensor, rows: Int32Array, { part = 0, parts = 1 }: { part?: number; parts?: number } = {}): Tensor {
    const { nEmbd } = this.p;
    const table = this.positions();
    const out = new Float32Array(nEmbd * rows.length);
    const size = Math.floor(table.length / nEmbd / parts);
    const bad = rows.find((row) => row >= size);
    if (bad !== undefined)
      throw new QuantletError('ERR_TENSOR_SHAPE', `${this.prefix}position_embd.weight has ${size} rows; expected at least ${bad + 1}`);
    const first = part * size;
    rows.forEach((row, i) => out.set(table.subarray((first + row) * nEmbd, (first + row + 1) * nEmbd), i * nEmbd));
    return add(x, this.input('positions', [nEmbd, rows.length], out));
  }

  /** Means of each `size` neighbouring tokens. */
  pooled(x: Tensor, size: number): Tensor {
    const n = Math.floor(x.ne[1] / size);
    const from = Int32Array.from({ length: n }, (_, i) => i * size);
    return mean_of_rows(x, this.input('first tokens', [n], from), this.input('tokens', [n], new Int32Array(n).fill(size)));
  }

  /** All layers, with the norms before and after them that the file has. */
  vit(x: Tensor, options: VitOptions = {}): Tensor {
    const { last = (y) => y } = options;
    const y = this.layers(this.normIfThere(x, `${this.prefix}pre_ln`), options);
    return this.normIfThere(last(y), `${this.prefix}post_ln`);
  }

  /** Layers without the norms around all of them: from `first` on, up to `layers`. */
  layers(given: Tensor, { angles, runs, first = 0, layers = this.p.nLayer, after }: VitOptions = {}): Tensor {
    const turn = angles && this.turnBy(angles, given.ne[1]);
    let x = given;
    for (let il = first; il < layers; il++) {
      const name = (part: string): string => `${this.prefix}blk.${il}.${part}`;
      const scaled = (t: Tensor, part: string): Tensor =>
        this.has(name(`${part}.weight`)) ? mul(t, this.weight(name(`${part}.weight`))) : t;
      const h = this.norm(x, name('ln1'));
      const a = scaled(this.attention(h, name, turn, runs?.(il)), 'ls1');
      x = add(x, this.normIfThere(a, name('attn_post_norm')));
      const f = this.feedForward(this.norm(x, name('ln2')), name);
      x = scaled(add(x, scaled(this.normIfThere(f, name('ffn_post_norm')), 'ls2')), 'out_scale');
      after?.(x, il);
    }
    return x;
  }

  private turnBy({ table, mode, inHalves = false }: Turn, n: number): (t: Tensor) => Tensor {
    const { headDim, nHead } = this.p;
    // Pairs of a half become pairs of the head. Queries and keys are sorted alike, so their
    // products stay the same.
    const sorted = (t: Tensor): Tensor =>
      reshape(cont(permute(reshape(t, [headDim / 4, 2, 2, nHead * n]), 0, 2, 1, 3)), [headDim, nHead, n, 1]);
    const angles = this.input('angles', [headDim, n], table);
    const rows = this.input(
      'rows of angles',
      [n],
      Int32Array.from({ length: n }, (_, i) => i),
    );
    return (t) => rope(inHalves ? sorted(t) : t, rows, angles, { mode });
  }

  /** Self-attention by weights whose names end with attn_q, attn_out ... */
  attention(h: Tensor, nameOf: (part: string) => string, turn?: (t: Tensor) => Tensor, runs?: KeyRuns): Tensor {
    const { headDim, nHead, nEmbd } = this.p;
    const n = h.ne[1];
    const name = (part: string): string => nameOf(`attn_${part}`);
    const heads = (x: Tensor, from = 0): Tensor => view(x, [headDim, nHead, n, 1], { nb: [4 * headDim, x.nb[1]], offset: 4 * from });
    const fused = this.has(`${name('qkv')}.weight`) ? this.linear(h, name('qkv')) : undefined;
    const [q, k, v] = ['q', 'k', 'v'].map((part, i) => (fused ? heads(fused, i * nEmbd) : heads(this.linear(h, name(part)))));
    const ready = (t: Tensor, part: string): Tensor => {
      const normed = this.normIfThere(t, name(part));
      return turn ? turn(normed) : normed;
    };
    const values = this.kind.valueNorm ? rms_norm(v, { eps: this.p.eps }) : v;
    return this.attend(ready(q, 'q_norm'), ready(k, 'k_norm'), values, name('out'), runs);
  }

  /**
   * Attention of queries over keys and values, all f32 [head_dim, heads, tokens], then the product
   * of this name.
   */
  attend(q: Tensor, k: Tensor, v: Tensor, name: string, runs?: KeyRuns): Tensor {
    const [headDim, nHead, n] = q.ne;
    const sources = [permute(q, 0, 2, 1, 3), permute(k, 0, 2, 1, 3), permute(v, 0, 2, 1, 3)] as const;
    const out = runs ? flash_attn_runs(...sources, runs) : flash_attn_ext(...sources, { scale: this.kind.scale });
    return this.linear(reshape(out, [headDim * nHead, n]), name);
  }

  private feedForward(h: Tensor, name: (part: string) => string): Tensor {
    const exchanged = this.kind.mayExchange && this.weight(name('ffn_down.weight')).ne[0] === this.p.nEmbd;
    const [up, down] = exchanged ? ['ffn_down', 'ffn_up'] : ['ffn_up', 'ffn_down'];
    const y = this.linear(h, name(up));
    const gate = this.has(name('ffn_gate.weight')) ? this.act(this.linear(h, name('ffn_gate'))) : undefined;
    return this.linear(gate ? mul(gate, y) : this.act(y), name(down));
  }
}

/** Joins n neighbouring tokens to one: [n_embd, tokens] -> [n * n_embd, tokens / n]. What is left over is dropped. */
export const joined = (x: Tensor, n: number): Tensor => {
  const whole = Math.floor(x.ne[1] / n);
  return reshape(whole * n === x.ne[1] ? x : rowsFrom(x, 0, whole * n), [n * x.ne[0], whole]);
};

/** Rows of a matrix from row `from` on. */
export const rowsFrom = (x: Tensor, from: number, count: number): Tensor =>
  view(x, [x.ne[0], count], { nb: [x.nb[1]], offset: from * x.nb[1] });
