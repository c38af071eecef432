/** Which tensors of a model `quantlet sparsify` changes, and how, such that the network computes what it did. */
import { readHParams, type HParams } from '../arch/hparams.ts';
import { RELU_ARCHITECTURES, reluUnit } from '../arch/sparse.ts';
import { QuantletError } from '../errors.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { TYPE } from '../type-traits.ts';

/** A tensor of the new file. */
export interface SparseTensor {
  readonly name: string;
  readonly source: TensorInfo;
  /** -1: of no layer. */
  readonly layer: number;
  /** 'copy': the same bytes; 'rows': rows in the order of the neurons; 'transposed': a row for each column, in that order. */
  readonly change: 'copy' | 'rows' | 'transposed';
}

export interface SparsePlan {
  readonly hp: HParams;
  readonly tensors: readonly SparseTensor[];
  /** Of each layer, the weights whose inputs are what neurons give, and what a predictor reads. */
  readonly layers: readonly { readonly activations: string; readonly seen: string }[];
}

/** Types whose elements can be transposed. */
const FLOATS: readonly unknown[] = [TYPE.f32, TYPE.f16, TYPE.bf16];
const refuse = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/** @throws QuantletError ERR_UNSUPPORTED_ARCH, ERR_INVALID_ARGUMENT (no ReLU, sparse or rotated before, or quantised), ERR_MISSING_TENSOR */
export function planSparsify(gguf: GGUF): SparsePlan {
  const hp = readHParams(gguf);
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
  const tensors: SparseTensor[] = [];
  for (const source of gguf.tensors.values()) {
    const { name, type } = source;
    const [, layer = '-1', part, kind] = /^blk\.(\d+)\.(ffn_\w+|fc[12])\.(\w+)$/.exec(name) ?? [];
    if (part !== undefined && /_t$|^fc|_exps$|_shexp$|gate_inp/.test(part))
      throw refuse(
        part.includes('_t') || part.startsWith('fc')
          ? `the model is sparse already (it has "${name}"); expected the one that it was made from`
          : `the model has the tensor "${name}": mixtures of experts are not sparsified`,
      );
    if (part !== undefined && kind === 'scale')
      throw refuse(`the model has the tensor "${name}", a factor that sparse products do not know`);
    const down = part === 'ffn_down';
    if (down && kind === 'weight' && !FLOATS.includes(type))
      throw refuse(`tensor "${name}" is ${type.name}; expected f32, f16 or bf16: sparsify the model before it is quantised`);
    tensors.push({
      name: down ? name.replace('ffn_down', 'ffn_down_t') : name,
      source,
      layer: Number(layer),
      change: down && kind === 'weight' ? 'transposed' : part === 'ffn_gate' || part === 'ffn_up' ? 'rows' : 'copy',
    });
  }
  const seen = hp.arch === 'falcon' ? 'attn_norm' : 'ffn_norm';
  const layers = Array.from({ length: hp.nLayer }, (_, il) => ({
    activations: `blk.${il}.ffn_down.weight`,
    seen: `blk.${il}.${seen}.weight`,
  }));
  const lacking = layers.flatMap(({ activations, seen }) => [activations, seen]).find((name) => !gguf.tensors.has(name));
  if (lacking !== undefined)
    throw new QuantletError('ERR_MISSING_TENSOR', `the file has no tensor "${lacking}", which ${hp.arch} models need; it is incomplete`);
  return { hp, tensors, layers };
}

/** Rows of a matrix, or elements of a vector, in this order. */
export function ordered(data: Uint8Array, order: Uint32Array): Uint8Array {
  const row = data.length / order.length;
  const out = new Uint8Array(data.length);
  order.forEach((from, to) => out.set(data.subarray(from * row, (from + 1) * row), to * row));
  return out;
}

/** The columns of a matrix of floats, `size` bytes each, in this order, as rows. */
export function transposed(data: Uint8Array, order: Uint32Array, size: 2 | 4): Uint8Array {
  const Elements = size === 2 ? Uint16Array : Uint32Array;
  const from = new Elements(data.slice().buffer);
  const out = new Elements(from.length);
  const columns = order.length;
  const rows = from.length / columns;
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) out[c * rows + r] = from[r * columns + order[c]];
  return new Uint8Array(out.buffer);
}
