/** Layout of a quantised file, and the conversions that fill it. */
import { QuantletError } from '../errors.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import type { GGUFLayout, WriteValue } from '../gguf/write.ts';
import { layoutGGUF } from '../gguf/write.ts';
import type { Bytes } from '../io/source.ts';
import type { TypeTraits } from '../type-traits.ts';
import { rowSize, TYPE } from '../type-traits.ts';
import type { Ftype } from './ftype.ts';
import { COPY, isPlain } from './ftype.ts';
import type { Imatrix } from './imatrix.ts';
import type { PickedType, PickOptions } from './pick-types.ts';
import { inLayerOrder, pickTypes } from './pick-types.ts';

/** ggml's GGML_QNT_VERSION: version of the quantised formats. */
const QUANTIZATION_VERSION = 2;

/**
 * Metadata keys that are not copied: the new file has its own values, or the key described a split
 * of the old file.
 */
const REPLACED: ReadonlySet<string> = new Set([
  'general.quantization_version',
  'general.file_type',
  'split.no',
  'split.count',
  'split.tensors.count',
]);

export interface QuantizeOptions extends Omit<PickOptions, 'hasImatrix'> {
  /** Also converts tensors that have lost precision before (`--allow-requantize`). */
  readonly allowRequantize?: boolean;
  readonly imatrix?: Imatrix;
  /** Replacements in the file's metadata (`--override-kv`). */
  readonly overrideKv?: Readonly<Record<string, WriteValue>>;
  /** Value of `quantize.imatrix.file`. */
  readonly imatrixName?: string;
}

/**
 * Conversion of rows of a matrix from one type to another; `imatrix` weights the columns (ne0
 * floats).
 */
export interface RowsJob {
  readonly tensor: TensorInfo;
  readonly from: TypeTraits;
  readonly to: TypeTraits;
  readonly ne0: number;
  readonly nrows: number;
  readonly imatrix?: Float32Array;
  /** Source bytes: in file `tensor.part`, from `start` to `end`. */
  readonly start: number;
  readonly end: number;
  /** Offset in the new file. */
  readonly target: number;
  readonly targetBytes: number;
}

export interface QuantizePlan {
  readonly layout: GGUFLayout;
  readonly picked: readonly PickedType[];
  /** Bytes of all tensors, before and after. */
  readonly sourceBytes: number;
  readonly targetBytes: number;
  readonly parameters: number;
  /** Conversions in pieces of about `elementsPerJob` elements, in the order of the new file. */
  jobs(elementsPerJob: number): Generator<RowsJob>;
}

const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

const isLookup = (name: string): boolean => name === 'token_embd.weight' || name === 'per_layer_token_embd.weight';

/**
 * Types that llama-quantize makes only with importance weights, except for the output matrix and
 * lookup tables (tensor_requires_imatrix).
 */
const NEED_IMPORTANCE: ReadonlySet<TypeTraits> = new Set([TYPE.iq1_s, TYPE.iq1_m, TYPE.iq2_xxs, TYPE.iq2_xs, TYPE.iq2_s, TYPE.iq3_xxs]);
const needsImportance = (name: string, type: TypeTraits, ftype: Ftype): boolean => {
  if (type.kernels?.gridQuantizer === 'imatrix') return true;
  if (isLookup(name) || name === 'output.weight') return false;
  return NEED_IMPORTANCE.has(type) || (ftype.name === 'Q2_K_S' && type === TYPE.q2_K);
};

const checkTensor = ({ info, type }: PickedType, ftype: Ftype, options: QuantizeOptions): void => {
  if (type === info.type) return;
  const floats = info.type === TYPE.f32 || info.type === TYPE.f16 || info.type === TYPE.bf16;
  if (!floats && isPlain(info.type))
    throw bad(`tensor "${info.name}" is of type ${info.type.name}; expected f32, f16, bf16 or a quantised type: it cannot be quantised`);
  if (!floats && !options.allowRequantize) {
    throw bad(
      `tensor "${info.name}" is ${info.type.name} already; expected f32, f16 or bf16: quantising it again to ${type.name} loses quality; start from the original model, or add --allow-requantize`,
    );
  }
  if (importance(info, options) || !needsImportance(info.name, type, ftype)) return;
  const advice = isLookup(info.name)
    ? 'an imatrix has none for what is only looked up; choose a larger type with --token-embedding-type, q4_K, say'
    : `give them with --imatrix, or choose a larger type, ${type.name.startsWith('iq3') ? 'IQ3_S' : 'Q2_K'}, say`;
  throw bad(`tensor "${info.name}" would be ${type.name}, which needs importance weights, but there are none for it; ${advice}`);
};

const importance = (info: TensorInfo, options: QuantizeOptions): Float32Array | undefined => {
  const values = options.imatrix?.values.get(info.name);
  const expected = info.ne[0] * info.ne[2];
  if (!values || values.length === expected) return values;
  // Token embeddings are looked up, not multiplied, so weights of another length do not belong to
  // them.
  if (isLookup(info.name)) return undefined;
  throw bad(`the imatrix has ${values.length} values for tensor "${info.name}"; expected ${expected}: it was made with another model`);
};

/** Keys that state the kind of file. A copy keeps the old values. */
const KINDS: ReadonlySet<string> = new Set(['general.file_type', 'general.quantization_version']);

const metadataOf = async (
  gguf: GGUF,
  bytes: Bytes,
  ftype: Ftype,
  options: QuantizeOptions,
  signal?: AbortSignal,
): Promise<Map<string, WriteValue>> => {
  const metadata = new Map<string, WriteValue>();
  for (const [key, [start, end]] of gguf.metadataRanges) {
    if (!REPLACED.has(key) || (ftype === COPY && KINDS.has(key))) metadata.set(key, { raw: await bytes.read(start, end, signal) });
  }
  if (ftype !== COPY) {
    metadata.set('general.quantization_version', { type: 'u32', value: QUANTIZATION_VERSION });
    metadata.set('general.file_type', { type: 'u32', value: ftype.id });
  }
  const { imatrix, imatrixName } = options;
  if (imatrix) {
    if (imatrixName !== undefined) metadata.set('quantize.imatrix.file', { type: 'str', value: imatrixName });
    if (imatrix.datasets.length > 0) metadata.set('quantize.imatrix.dataset', { type: 'str', value: imatrix.datasets[0] });
    metadata.set('quantize.imatrix.entries_count', { type: 'u32', value: imatrix.values.size });
    if (imatrix.chunkCount > 0) metadata.set('quantize.imatrix.chunks_count', { type: 'u32', value: imatrix.chunkCount });
  }
  for (const [key, value] of Object.entries(options.overrideKv ?? {})) metadata.set(key, value);
  return metadata;
};

const nElements = ({ ne }: TensorInfo): number => ne[0] * ne[1] * ne[2] * ne[3];

/**
 * Splits a tensor's rows into pieces that never cross from one matrix to the next, because each
 * matrix has its own importance weights.
 */
function* jobsOf({ info, type }: PickedType, target: number, values: Float32Array | undefined, elementsPerJob: number): Generator<RowsJob> {
  const [ne0, ne1, ne2, ne3] = info.ne;
  const [sourceRow, targetRow] = [rowSize(info.type, ne0), rowSize(type, ne0)];
  const rowsPerJob = Math.max(1, Math.floor(elementsPerJob / ne0));
  for (let matrix = 0; matrix < ne2 * ne3; matrix++) {
    const at = (matrix % ne2) * ne0;
    const imatrix = values?.subarray(at, at + ne0);
    for (let row = 0; row < ne1; row += rowsPerJob) {
      const nrows = Math.min(rowsPerJob, ne1 - row);
      const firstRow = matrix * ne1 + row;
      const start = info.offset + firstRow * sourceRow;
      yield {
        tensor: info,
        from: info.type,
        to: type,
        ne0,
        nrows,
        imatrix,
        start,
        end: start + nrows * sourceRow,
        target: target + firstRow * targetRow,
        targetBytes: nrows * targetRow,
      };
    }
  }
}

/**
 * Everything about a quantised file except its bytes: types, header, offsets, and the conversions
 * in pieces. Metadata is kept byte for byte, except `general.file_type`,
 * `general.quantization_version` and the keys of a split.
 *
 * @param gguf the model's header; `bytes` is the file it was read from (the first part of a split
 * model)
 * @throws QuantletError ERR_INVALID_ARGUMENT if the model cannot or should not be converted to this
 * type; and as pickTypes
 */
export const planQuantize = async (
  gguf: GGUF,
  bytes: Bytes,
  ftype: Ftype,
  options: QuantizeOptions = {},
  signal?: AbortSignal,
): Promise<QuantizePlan> => {
  const picked =
    ftype === COPY
      ? inLayerOrder(gguf.tensors.values()).map((info): PickedType => ({ info, type: info.type }))
      : pickTypes(gguf, ftype, { ...options, hasImatrix: options.imatrix !== undefined });
  for (const tensor of picked) checkTensor(tensor, ftype, options);
  const values = picked.map(({ info }) => importance(info, options));
  const metadata = await metadataOf(gguf, bytes, ftype, options, signal);
  const layout = layoutGGUF(
    metadata,
    picked.map(({ info, type }) => ({ name: info.name, type, ne: info.ne.slice(0, info.nDims) })),
  );
  return {
    layout,
    picked,
    sourceBytes: picked.reduce((sum, { info }) => sum + info.byteLength, 0),
    targetBytes: layout.tensors.reduce((sum, t) => sum + t.byteLength, 0),
    parameters: picked.reduce((sum, { info }) => sum + nElements(info), 0),
    *jobs(elementsPerJob) {
      for (const [i, tensor] of picked.entries()) yield* jobsOf(tensor, layout.tensors[i].offset, values[i], elementsPerJob);
    },
  };
};
