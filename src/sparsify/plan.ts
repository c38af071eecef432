/** Which tensors of a model `quantlet sparsify` changes, and how, such that the network computes what it did. */
import { readHParams, type HParams } from '../arch/hparams.ts';
import { RELU_ARCHITECTURES, reluUnit } from '../arch/sparse.ts';
import { fromBf16, fromF16 } from '../core/float16.ts';
import { QuantletError } from '../errors.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';

/**
 * What becomes of a tensor: the same bytes; its rows in a new order; a row for each column, in that order; for each head the sum of its columns' squares; or
 * rows in that order, each with the column of another tensor behind it.
 */
export type Change = 'copy' | 'rows' | 'transposed' | 'squares' | 'bundled';

/** A tensor of the new file. */
export interface SparseTensor {
  readonly name: string;
  readonly type: TypeTraits;
  readonly ne: readonly number[];
  readonly source: TensorInfo;
  /** The other tensor. */
  readonly beside?: TensorInfo | undefined;
  readonly change: Change;
  /** The layer whose neurons its new rows are; undefined: they come as they were. */
  readonly layer?: number;
}

export interface SparsePlan {
  readonly hp: HParams;
  readonly tensors: readonly SparseTensor[];
  /** Of each layer whose neurons are ordered, the weights whose inputs are what neurons give, and what a predictor reads. */
  readonly layers: readonly { readonly activations: string; readonly seen: string }[];
}

export interface PlanOptions {
  /** Rows of the neurons of feed-forwards, in an order that a text tells. */
  readonly neurons: boolean;
  /** Rows of attention's heads. */
  readonly heads: boolean;
  /** A neuron's row of `ffn_up` and its row of `ffn_down_t` as one. */
  readonly bundle: boolean;
  /** Of predictors; 0: there are none. */
  readonly rank: number;
}

/** Mixtures whose experts have ReLU. */
const EXPERT_ARCHITECTURES: readonly string[] = ['smallthinker'];

/** Types whose elements can be transposed. */
const FLOATS: readonly unknown[] = [TYPE.f32, TYPE.f16, TYPE.bf16];
const refuse = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

const sparseAlready = (name: string): QuantletError =>
  refuse(`the model is sparse already (it has "${name}"); expected the one that it was made from`);
const unknownFactor = (name: string): QuantletError =>
  refuse(`the model has the tensor "${name}", a factor or bias that sparse products do not know`);

function mustBeFloat({ name, type }: TensorInfo): void {
  if (!FLOATS.includes(type))
    throw refuse(`tensor "${name}" is ${type.name}; expected f32, f16 or bf16: sparsify the model before it is quantised`);
}

/** @throws QuantletError ERR_UNSUPPORTED_ARCH, ERR_INVALID_ARGUMENT (no ReLU, sparse or rotated before, or quantised), ERR_MISSING_TENSOR */
export function planSparsify(gguf: GGUF, { neurons, heads, bundle, rank }: PlanOptions): SparsePlan {
  const hp = readHParams(gguf);
  const experts = EXPERT_ARCHITECTURES.includes(hp.arch);
  if (neurons && experts)
    throw refuse(`the neurons of this ${hp.arch} model are those of experts, which are read one by one in any order; leave out the text`);
  if (!neurons && !experts && !heads) throw new QuantletError('ERR_USAGE', 'give the text that tells which neurons fire with -f FILE');
  if (neurons) mustBeRelu(gguf, hp);
  if (bundle && rank === 0 && reluUnit(gguf) === 'plain')
    throw refuse(
      `feed-forwards of this ${hp.arch} model have no gate, so that ffn_up is read whole; leave out --bundle, or train predictors`,
    );
  const tensors = [...gguf.tensors.values()].flatMap((source) => [
    ...(experts ? [ofExperts(source)] : neurons ? ofNeurons(source, bundle ? gguf : undefined) : [unchanged(source)]),
    ...(heads ? ofHeads(source, hp) : []),
  ]);
  if (heads && !tensors.some(({ change }) => change === 'squares'))
    throw refuse(`this ${hp.arch} model has no attn_output whose heads could be left out; leave out --heads`);
  return { hp, tensors, layers: neurons ? neuronLayers(gguf, hp) : [] };
}

const unchanged = (source: TensorInfo): SparseTensor => {
  const { name, type, ne, nDims } = source;
  return { name, type, ne: ne.slice(0, nDims), source, change: 'copy' };
};

/** @param bundle the file, where two tensors of it become one */
function ofNeurons(source: TensorInfo, bundle?: GGUF): SparseTensor[] {
  const { name, ne } = source;
  const same = unchanged(source);
  const [, il, part, kind] = /^blk\.(\d+)\.(ffn_\w+|fc[12])\.(\w+)$/.exec(name) ?? [];
  if (part === undefined) return [same];
  const layer = Number(il);
  if (/_t$|^fc/.test(part)) throw sparseAlready(name);
  if (/_exps$|_shexp$|gate_inp/.test(part)) throw refuse(`the model has the tensor "${name}": mixtures of experts are not sparsified`);
  if (kind === 'scale') throw unknownFactor(name);
  if (part === 'ffn_up' && kind === 'weight' && bundle) {
    const beside = bundle.tensors.get(name.replace(part, 'ffn_down'));
    mustBeFloat(source);
    if (beside?.type !== source.type)
      throw refuse(
        `tensor "${name}" is ${source.type.name}, and ffn_down ${beside?.type.name ?? 'missing'}; --bundle expects both of one type`,
      );
    return [{ ...same, name: name.replace(part, 'ffn_up_down'), ne: [2 * ne[0], ne[1]], beside, change: 'bundled', layer }];
  }
  if (part === 'ffn_gate' || part === 'ffn_up') return [{ ...same, change: 'rows', layer }];
  if (part !== 'ffn_down') return [same];
  const turned = { ...same, name: name.replace(part, 'ffn_down_t') };
  if (kind !== 'weight') return [turned];
  mustBeFloat(source);
  return bundle ? [] : [{ ...turned, ne: [ne[1], ne[0]], change: 'transposed', layer }];
}

function ofExperts(source: TensorInfo): SparseTensor {
  const { name, ne } = source;
  const same = unchanged(source);
  const [, part, kind] = /^blk\.\d+\.(ffn_\w+_exps(?:_t)?)\.(\w+)$/.exec(name) ?? [];
  if (part === undefined) return same;
  if (part.endsWith('_t')) throw sparseAlready(name);
  if (kind !== 'weight') throw unknownFactor(name);
  if (part !== 'ffn_down_exps') return same;
  mustBeFloat(source);
  return { ...same, name: name.replace(part, `${part}_t`), ne: [ne[1], ne[0], ne[2]], change: 'transposed' };
}

/** What comes behind a tensor where heads can be left out: of attention's last product. */
function ofHeads(source: TensorInfo, { nHead }: HParams): SparseTensor[] {
  const { name, ne } = source;
  if (/\.attn_output_t\./.test(name))
    throw refuse(`the model has rows of heads already ("${name}"); expected the one that it was made from`);
  if (!/^blk\.\d+\.attn_output\.weight$/.test(name) || ne[0] % nHead !== 0) return [];
  mustBeFloat(source);
  const named = (end: string): SparseTensor => ({ ...unchanged(source), name: name.replace('attn_output.weight', `attn_output_t.${end}`) });
  return [
    { ...named('weight'), ne: [ne[1], ne[0]], change: 'transposed' },
    { ...named('squares'), type: TYPE.f32, ne: [nHead], change: 'squares' },
  ];
}

function mustBeRelu(gguf: GGUF, hp: HParams): void {
  if (!RELU_ARCHITECTURES.includes(hp.arch))
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `the model's architecture is "${hp.arch}"; expected one that PowerInfer has: ${RELU_ARCHITECTURES.join(', ')}`,
    );
  if (!reluUnit(gguf))
    throw refuse(
      `nothing in this ${hp.arch} model says that its activation is ReLU, and of another all neurons count; if it is, say so with --override-kv powerinfer.sparse_threshold=float:0`,
    );
  if (hp.rotations.feedForward > 0)
    throw refuse('the model is rotated by R4, which leaves no neuron at 0; sparsify the model it was made from, or rotate it without --r4');
}

function neuronLayers(gguf: GGUF, hp: HParams): SparsePlan['layers'] {
  const seen = hp.arch === 'falcon' ? 'attn_norm' : 'ffn_norm';
  const layers = Array.from({ length: hp.nLayer }, (_, il) => ({
    activations: `blk.${il}.ffn_down.weight`,
    seen: `blk.${il}.${seen}.weight`,
  }));
  const lacking = layers.flatMap(({ activations, seen }) => [activations, seen]).find((name) => !gguf.tensors.has(name));
  if (lacking !== undefined)
    throw new QuantletError('ERR_MISSING_TENSOR', `the file has no tensor "${lacking}", which ${hp.arch} models need; it is incomplete`);
  return layers;
}

/** The bytes of a tensor of the new file, from those of its source and of the other tensor. `order`: that of its layer's neurons. */
export function changed(
  { change, source: { type, ne }, ne: [n] }: SparseTensor,
  [data, beside]: readonly Uint8Array[],
  order?: Uint32Array,
): Uint8Array {
  if (change === 'squares') return new Uint8Array(squares(floats(data, type), ne[0], n).buffer);
  const [rows, columns] = [ne[1], ne[0]].map((of) => order ?? Uint32Array.from({ length: of }, (_, i) => i));
  if (change === 'rows') return ordered(data, rows);
  if (change === 'bundled') return interleaved([ordered(data, rows), transposed(beside, rows, type.typeSize as 2 | 4)], rows.length);
  return change === 'transposed' ? transposed(data, columns, type.typeSize as 2 | 4, ne[2]) : data;
}

/** The elements of a tensor of floats. */
function floats(data: Uint8Array, type: TypeTraits): Float32Array {
  const { buffer } = data.slice();
  return type === TYPE.f32 ? new Float32Array(buffer) : Float32Array.from(new Uint16Array(buffer), type === TYPE.f16 ? fromF16 : fromBf16);
}

/** Of rows of k elements, n parts side by side: the sum of the squares of each part. */
function squares(w: Float32Array, k: number, n: number): Float32Array {
  const sums = new Float64Array(n);
  w.forEach((v, i) => (sums[Math.floor((i % k) / (k / n))] += v * v));
  return Float32Array.from(sums);
}

/** Rows of a matrix, or elements of a vector, in this order. */
export function ordered(data: Uint8Array, order: Uint32Array): Uint8Array {
  const row = data.length / order.length;
  const out = new Uint8Array(data.length);
  order.forEach((from, to) => out.set(data.subarray(from * row, (from + 1) * row), to * row));
  return out;
}

/** n rows, each of them the row of every matrix. */
function interleaved(matrices: readonly Uint8Array[], n: number): Uint8Array {
  const lengths = matrices.map(({ length }) => length / n);
  const out = new Uint8Array(matrices.reduce((sum, { length }) => sum + length, 0));
  for (let r = 0, at = 0; r < n; r++)
    for (const [m, data] of matrices.entries()) {
      out.set(data.subarray(r * lengths[m], (r + 1) * lengths[m]), at);
      at += lengths[m];
    }
  return out;
}

/** The columns of matrices of floats, `size` bytes each, in this order, as rows. */
export function transposed(data: Uint8Array, order: Uint32Array, size: 2 | 4, matrices = 1): Uint8Array {
  const Elements = size === 2 ? Uint16Array : Uint32Array;
  const from = new Elements(data.slice().buffer);
  const out = new Elements(from.length);
  const columns = order.length;
  const each = from.length / matrices;
  const rows = each / columns;
  for (let at = 0; at < from.length; at += each)
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) out[at + c * rows + r] = from[at + r * columns + order[c]];
  return new Uint8Array(out.buffer);
}
