/**
 * Plan of `quantlet sparsify`: the tensors that it changes, and how, such that the network computes
 * the same result.
 */
import { readHParams, type HParams } from '../arch/hparams.ts';
import { RELU_ARCHITECTURES, reluUnit } from '../arch/sparse.ts';
import { fromBf16, fromF16 } from '../core/float16.ts';
import { QuantletError } from '../errors.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';

/**
 * Change of a tensor. `copy` keeps its bytes. `rows` puts rows in the new order. `transposed` makes
 * rows of its columns, in the new order. `squares` gives the sum of squares of the columns of each
 * head. `bundled` puts rows in the new order, each followed by the matching column of another
 * tensor (`beside`).
 */
export type Change = 'copy' | 'rows' | 'transposed' | 'squares' | 'bundled';

/** A tensor of the new file. */
export interface SparseTensor {
  readonly name: string;
  readonly type: TypeTraits;
  readonly ne: readonly number[];
  readonly source: TensorInfo;
  /** With `bundled`: the tensor whose columns follow the rows. */
  readonly beside?: TensorInfo | undefined;
  readonly change: Change;
  /** Layer whose neurons the new rows are; undefined: the order of rows stays. */
  readonly layer?: number;
}

export interface SparsePlan {
  readonly hp: HParams;
  readonly tensors: readonly SparseTensor[];
  /**
   * For each layer whose neurons are ordered: the weight whose inputs are the neurons' activations,
   * and the weight whose inputs a predictor reads.
   */
  readonly layers: readonly { readonly activations: string; readonly seen: string }[];
}

export interface PlanOptions {
  /** Stores rows of feed-forwards' neurons, in an order learnt from a text. */
  readonly neurons: boolean;
  /** Stores rows of attention's heads. */
  readonly heads: boolean;
  /** Stores a neuron's rows of `ffn_up` and `ffn_down_t` as one row. */
  readonly bundle: boolean;
  /** Rank of the predictors; 0: no predictors. */
  readonly rank: number;
}

/** Mixtures of experts whose experts have ReLU. */
const EXPERT_ARCHITECTURES: readonly string[] = ['smallthinker'];

/** Types whose elements can be transposed. */
const FLOATS: readonly unknown[] = [TYPE.f32, TYPE.f16, TYPE.bf16];
const refuse = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

const sparseAlready = (name: string): QuantletError =>
  refuse(`the model is sparse already (it has "${name}"); expected the original model`);
const unknownFactor = (name: string): QuantletError =>
  refuse(`the model has the tensor "${name}", a factor or bias that sparse products do not support`);

function mustBeFloat({ name, type }: TensorInfo): void {
  if (!FLOATS.includes(type))
    throw refuse(`tensor "${name}" is ${type.name}; expected f32, f16 or bf16: sparsify the model before it is quantised`);
}

/**
 * @throws QuantletError ERR_UNSUPPORTED_ARCH, ERR_INVALID_ARGUMENT (no ReLU, sparse or rotated
 * already, or quantised), ERR_MISSING_TENSOR
 */
export function planSparsify(gguf: GGUF, { neurons, heads, bundle, rank }: PlanOptions): SparsePlan {
  const hp = readHParams(gguf);
  const experts = EXPERT_ARCHITECTURES.includes(hp.arch);
  if (neurons && experts)
    throw refuse(`the neurons of this ${hp.arch} model belong to experts, which cannot be grouped; leave out the text`);
  if (!neurons && !experts && !heads) throw refuse('a text is missing; give one for which neurons fire (the option text, -f FILE)');
  if (neurons) mustBeRelu(gguf, hp);
  if (bundle && rank === 0 && reluUnit(gguf) === 'plain')
    throw refuse(`feed-forwards of this ${hp.arch} model have no gate, so ffn_up is read whole; leave out --bundle, or train predictors`);
  const tensors = [...gguf.tensors.values()].flatMap((source) => [
    ...(experts ? [ofExperts(source)] : neurons ? ofNeurons(source, bundle ? gguf : undefined) : [unchanged(source)]),
    ...(heads ? ofHeads(source, hp) : []),
  ]);
  if (heads && !tensors.some(({ change }) => change === 'squares'))
    throw refuse(`this ${hp.arch} model has no attn_output with heads; leave out --heads`);
  return { hp, tensors, layers: neurons ? neuronLayers(gguf, hp) : [] };
}

const unchanged = (source: TensorInfo): SparseTensor => {
  const { name, type, ne, nDims } = source;
  return { name, type, ne: ne.slice(0, nDims), source, change: 'copy' };
};

/** @param bundle the file, if two of its tensors are to become one */
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

/** Tensors added after attention's last product, so that heads can be left out. */
function ofHeads(source: TensorInfo, { nHead }: HParams): SparseTensor[] {
  const { name, ne } = source;
  if (/\.attn_output_t\./.test(name)) throw refuse(`the model has rows of heads already ("${name}"); expected the original model`);
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
      `the model's architecture is "${hp.arch}"; expected one of PowerInfer's: ${RELU_ARCHITECTURES.join(', ')}`,
    );
  if (!reluUnit(gguf))
    throw refuse(
      `nothing in this ${hp.arch} model says that its activation is ReLU, and other activations need all neurons; if it is ReLU, add --override-kv powerinfer.sparse_threshold=float:0`,
    );
  if (hp.rotations.feedForward > 0)
    throw refuse('the model is rotated by R4, so no neuron is 0; sparsify the original model, or rotate it without --r4');
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

/**
 * Bytes of a tensor of the new file, from its source and the other tensor.
 * @param order order of the layer's neurons
 */
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

/** Sums of squares of each of n equal parts of rows of k elements. */
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

/** n rows: row i of each matrix, concatenated. */
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

/** Columns of float matrices (`size` bytes each element), in this order, as rows. */
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
