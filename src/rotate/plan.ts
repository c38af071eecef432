/**
 * Plan of a rotation: the tensors of a model that it changes, and how, so that the network computes
 * the same (QuaRot, arXiv 2404.00456; SpinQuant, 2405.16406).
 *
 * R1 turns the residual stream: matrices that read it are multiplied by R1 from the right, matrices
 * that write it from the left. An rms norm does not change under R1, once its weights are folded
 * into the matrices after it. R2 turns the values of each head, and attn_output turns them back. R3
 * turns queries and keys, and R4 turns the input of ffn_down. The graph computes R3 and R4, as the
 * metadata says.
 */
import { QuantletError } from '../errors.ts';
import { readHParams, type HParams } from '../arch/hparams.ts';
import type { RotationName } from '../arch/rotation.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { largestFwhtSize, powerOfTwo } from '../graph/fwht-size.ts';
import { TYPE } from '../type-traits.ts';
import { randomNumbers } from './random.ts';

/**
 * An orthogonal matrix for each n elements, between diagonals: `matrix` by rows, or else
 * Hadamard's. Norm weights are folded into the first diagonal.
 */
export interface Rotation {
  readonly n: number;
  readonly before?: Float32Array;
  readonly after?: Float32Array;
  readonly matrix?: Float32Array;
}

/**
 * Rotations by which matrices are multiplied: of the residual stream, and of a layer's values for a
 * number of heads.
 */
export interface MatrixRotations {
  readonly r1: Rotation;
  r2(layer: number, heads: number): Rotation;
}

/** Rows [from, to) of a matrix. */
export interface Piece {
  readonly from: number;
  readonly to: number;
  /** Rotation of each row. */
  readonly rows?: Rotation | undefined;
  /** Rotation of each column of these rows. */
  readonly columns?: Rotation | undefined;
}

/** A tensor of the new file. */
export interface RotatedTensor {
  readonly name: string;
  /** Tensor of the model with its elements. */
  readonly source: TensorInfo;
  /**
   * 'copy': the same bytes; 'ones': a norm whose weights are folded; else the changes of its rows.
   */
  readonly change: 'copy' | 'ones' | readonly Piece[];
}

export interface RotationPlan {
  readonly tensors: readonly RotatedTensor[];
  /** Number of elements that each rotation transforms together, for the new file's metadata. */
  readonly sizes: ReadonlyMap<RotationName, number>;
  /** Bytes of a matrix for the output, if the file shared it with the embeddings. */
  readonly untiedBytes: number;
}

/**
 * Architectures whose graphs satisfy the rotations' conditions: rms norms before the branches, and
 * only products between values and attn_output.
 */
export const ROTATED_ARCHITECTURES: readonly string[] = ['llama', 'qwen2', 'qwen3', 'gemma3', 'phi3', 'granite'];

const refuse = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/** Random signs, the same for the same seed and stream. */
function signs(n: number, seed: number, stream: number): Float32Array {
  const next = randomNumbers(seed, stream);
  return Float32Array.from({ length: n }, () => (next() & 1 ? 1 : -1));
}

/** Randomised Hadamard matrices. */
export const hadamards = ({ nEmbd, headDim }: HParams, seed: number): MatrixRotations => ({
  r1: { n: largestFwhtSize(nEmbd), before: signs(nEmbd, seed, 0) },
  // Signs on both sides: if a cache is rotated too, Hadamard times Hadamard would cancel. They are
  // the same for all heads, since several heads read one value.
  r2(layer, heads) {
    const side = (stream: number): Float32Array => {
      const one = signs(headDim, seed, stream);
      return Float32Array.from({ length: heads * headDim }, (_, i) => one[i % headDim]);
    };
    return { n: largestFwhtSize(headDim), before: side(2 * layer + 1), after: side(2 * layer + 2) };
  },
});

/** Rotations by given matrices: R1, and one R2 for each layer. */
export const matrices = (r1: Float32Array, r2: readonly Float32Array[]): MatrixRotations => {
  const rotation = (matrix: Float32Array): Rotation => ({ n: Math.sqrt(matrix.length), matrix });
  return { r1: rotation(r1), r2: (layer) => rotation(r2[layer]) };
};

/** Matrices that read the residual stream, and the norm before each. */
const READERS: Readonly<Record<string, string>> = {
  attn_q: 'attn_norm',
  attn_k: 'attn_norm',
  attn_v: 'attn_norm',
  attn_qkv: 'attn_norm',
  ffn_gate: 'ffn_norm',
  ffn_up: 'ffn_norm',
};
/** Other tensors that stay unchanged. */
const KEPT =
  /^(rope_freqs\.weight|rope_factors_(long|short)\.weight|blk\.\d+\.(rope_freqs\.weight|attn_[qk]_norm\.weight|(attn_(q|k|v|qkv)|ffn_(gate|up))\.bias)|.*\.scale)$/;

/** Reason why R1 cannot rotate a model with this tensor. */
function obstacle(name: string): string {
  if (/post_(attention|ffw)_norm/.test(name)) return 'no matrix can take over the weights of a norm after a branch; leave --r1 out';
  if (/_exps|_shexp|gate_inp/.test(name)) return 'mixtures of experts are not rotated yet';
  return 'rotations do not know this tensor';
}

/**
 * Plans the rotation of a model.
 * @param wanted the rotations to apply
 * @param normOf returns the elements of an f32 vector of the model
 * @throws QuantletError ERR_UNSUPPORTED_ARCH, ERR_INVALID_ARGUMENT (already rotated, quantised, or
 * with weights that cannot be folded)
 */
export async function planRotation(
  gguf: GGUF,
  wanted: ReadonlySet<RotationName>,
  rotations: MatrixRotations,
  normOf: (info: TensorInfo) => Promise<Float32Array>,
): Promise<RotationPlan> {
  const hp = readHParams(gguf);
  const { arch, nEmbd, nHead, nHeadKv, headDim } = hp;
  if (!ROTATED_ARCHITECTURES.includes(arch))
    throw new QuantletError(
      'ERR_UNSUPPORTED_ARCH',
      `the model's architecture is "${arch}", which is not rotated; expected one of ${ROTATED_ARCHITECTURES.join(', ')}`,
    );
  const before = [...gguf.metadata.keys()].find((key) => key.startsWith('quantlet.rotation.'));
  if (before !== undefined) throw refuse(`the model is rotated already (its metadata has "${before}"); expected the original model`);
  const nFf = gguf.tensors.get('blk.0.ffn_down.weight')?.ne[0] ?? hp.nFf;
  const size: Readonly<Record<RotationName, number>> = {
    r1: rotations.r1.n,
    r2: rotations.r2(0, 1).n,
    r3: powerOfTwo(headDim),
    r4: largestFwhtSize(nFf),
  };
  for (const name of wanted)
    if (size[name] < 2)
      throw refuse(
        `--${name} has nothing to rotate: no Hadamard matrix of 2 or more divides the model's ${name === 'r4' ? `feed-forward length of ${nFf}` : name === 'r1' ? `embeddings of ${nEmbd}` : `heads of ${headDim}`}`,
      );

  const r1 = wanted.has('r1') ? rotations.r1 : undefined;
  /** R1 after a norm, whose weights it includes. */
  const behind = async (norm: string): Promise<Rotation | undefined> => {
    const info = gguf.tensors.get(norm);
    if (!r1 || !info) return r1;
    const weights = await normOf(info);
    return { ...r1, before: weights.map((w, i) => w * (r1.before?.[i] ?? 1)) };
  };
  const r2 = (layer: number, heads: number): Rotation | undefined => (wanted.has('r2') ? rotations.r2(layer, heads) : undefined);
  const r4: Rotation | undefined = wanted.has('r4') ? { n: size.r4 } : undefined;
  /** One piece with all rows; 'copy' if nothing changes. */
  const whole = (info: TensorInfo, rows?: Rotation, columns?: Rotation): RotatedTensor['change'] =>
    rows || columns ? [{ from: 0, to: rowsOf(info), rows, columns }] : 'copy';

  const changeOf = async (info: TensorInfo): Promise<RotatedTensor['change']> => {
    const { name } = info;
    if (name === 'token_embd.weight') return whole(info, r1);
    if (name === 'output.weight') return whole(info, await behind('output_norm.weight'));
    if (/^(output_norm|blk\.\d+\.(attn|ffn)_norm)\.weight$/.test(name)) return r1 ? 'ones' : 'copy';
    const [, layer, part, kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(name) ?? [];
    const il = Number(layer);
    const matrix = kind === 'weight';
    if (part === 'attn_v') return whole(info, matrix ? await behind(`blk.${il}.attn_norm.weight`) : undefined, r2(il, nHeadKv));
    if (part === 'attn_qkv') {
      const rows = matrix ? await behind(`blk.${il}.attn_norm.weight`) : undefined;
      const values = (nHead + nHeadKv) * headDim;
      const columns = r2(il, nHeadKv);
      if (!rows && !columns) return 'copy';
      return [
        { from: 0, to: values, rows },
        { from: values, to: rowsOf(info), rows, columns },
      ];
    }
    if (part === 'attn_output') return whole(info, matrix ? r2(il, nHead) : undefined, r1);
    if (part === 'ffn_down') return whole(info, matrix ? r4 : undefined, r1);
    if (matrix && Object.hasOwn(READERS, part)) return whole(info, await behind(`blk.${il}.${READERS[part]}.weight`));
    if (r1 && !KEPT.test(name)) throw refuse(`the model has the tensor "${name}", so --r1 is refused: ${obstacle(name)}`);
    if (r4 && /_exps|_shexp/.test(name)) throw refuse(`the model has the tensor "${name}", so --r4 is refused: ${obstacle(name)}`);
    return 'copy';
  };

  const tensors: RotatedTensor[] = [];
  for (const source of gguf.tensors.values()) tensors.push({ name: source.name, source, change: await changeOf(source) });
  // Embeddings and output differ from now on: only the output includes the last norm's weights.
  const table = gguf.tensors.get('token_embd.weight');
  const untied = r1 !== undefined && table !== undefined && !gguf.tensors.has('output.weight');
  if (untied) tensors.push({ name: 'output.weight', source: table, change: whole(table, await behind('output_norm.weight')) });
  for (const { source, change } of tensors)
    if (change !== 'copy' && ![TYPE.f32, TYPE.f16, TYPE.bf16].includes(source.type as never))
      throw refuse(`tensor "${source.name}" is ${source.type.name}; expected f32, f16 or bf16: rotate the model before it is quantised`);
  return {
    tensors,
    sizes: new Map([...wanted].map((name) => [name, size[name]])),
    untiedBytes: untied ? table.byteLength : 0,
  };
}

/** Rows of a matrix. The elements of a vector are the rows of a matrix with one column. */
export const rowsOf = ({ nDims, ne }: TensorInfo): number => (nDims === 1 ? ne[0] : ne[1]);
/** Elements of a row. */
export const rowLength = ({ nDims, ne }: TensorInfo): number => (nDims === 1 ? 1 : ne[0]);
