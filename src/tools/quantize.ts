/** Quantising of a model's file, as llama-quantize does it. */
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { openModelFiles } from '../io/model-files.ts';
import { checkOptions, checkValue, KIND, required, type Kinds } from '../options.ts';
import { parseFtype, parseTensorType } from '../quantize/ftype.ts';
import { readImatrix, type Imatrix } from '../quantize/imatrix.ts';
import { defaultThreads } from '../threads/node.ts';
import { THREADS } from '../threads/executor.ts';
import { createRowsPool } from '../threads/rows-node.ts';
import type { TypeTraits } from '../type-traits.ts';
import {
  exactKernels,
  partsOf,
  PATH,
  pathOf,
  TEXTS,
  withFile,
  writtenOverrides,
  type FilePath,
  type Overrides,
  type ToolOptions,
  type ToolProgress,
} from './common.ts';
import { quantizeFile, type QuantizeSummary } from './quantize-file.ts';

/** Progress in bytes of the input. */
export interface QuantizeProgress extends ToolProgress {
  /** Name of the tensor that was converted last, and its types. */
  readonly tensor: string;
  readonly from: string;
  readonly to: string;
}

export interface QuantizeOptions extends ToolOptions<QuantizeProgress> {
  /** Kind of file: `Q4_K_M`, `IQ4_XS`, `F16` ... in any case, its number, or `COPY`. */
  type: string;
  /** Importance weights: a file of imatrix() or llama-imatrix. */
  imatrix?: FilePath | undefined;
  /** Uses importance weights only for tensors whose names contain one of these. */
  includeWeights?: readonly string[] | undefined;
  /** Uses no importance weights for tensors whose names contain one of these. */
  excludeWeights?: readonly string[] | undefined;
  /** The same type for every matrix. Default false. */
  pure?: boolean | undefined;
  /** Also converts tensors that are quantised already, which loses more. Default false. */
  allowRequantize?: boolean | undefined;
  /** Keeps the output matrix as it is. Default false. */
  leaveOutputTensor?: boolean | undefined;
  /** Tensor type (`q6_K` ...) of the output matrix, and of the token embeddings. */
  outputTensorType?: string | undefined;
  tokenEmbeddingType?: string | undefined;
  /** Types of tensors by a regular expression of their names: `['attn_v=q6_K']`. */
  tensorType?: readonly string[] | undefined;
  /** Replaces metadata in the new file. */
  overrideKv?: Overrides | undefined;
  /** Plans only, and writes nothing. Default false. */
  dryRun?: boolean | undefined;
  /** Threads that convert. Default: the cores this process may use. */
  threads?: number | undefined;
}

/** A tensor whose rows the intended type's blocks do not divide, and the type that it gets instead. */
export interface QuantizeFallback {
  readonly tensor: string;
  readonly type: string;
  readonly insteadOf: string;
  /** Elements of a block of the intended type, and of a row. */
  readonly blockSize: number;
  readonly rowLength: number;
}

export interface QuantizeResult extends Omit<QuantizeSummary, 'fallbacks'> {
  /** Name of the kind of file. */
  readonly type: string;
  readonly threads: number;
  readonly fallbacks: readonly QuantizeFallback[];
}

const QUANTIZE_OPTIONS: Kinds<QuantizeOptions> = {
  type: required(KIND.string),
  imatrix: PATH,
  includeWeights: TEXTS,
  excludeWeights: TEXTS,
  pure: KIND.boolean,
  allowRequantize: KIND.boolean,
  leaveOutputTensor: KIND.boolean,
  outputTensorType: KIND.string,
  tokenEmbeddingType: KIND.string,
  tensorType: TEXTS,
  overrideKv: KIND.object,
  dryRun: KIND.boolean,
  threads: THREADS,
  signal: KIND.signal,
  onProgress: KIND.function,
};

/** Limit for quoting a pattern in an error. */
const SHOWN_CHARACTERS = 200;

/**
 * Parses `attn_v=q6_K`. The last equals sign separates pattern and type, because the pattern may
 * contain one.
 * @throws ERR_INVALID_ARGUMENT
 */
export function parseTensorTypeRule(text: string): readonly [pattern: RegExp, type: TypeTraits] {
  const refuse = (message: string, options?: ErrorOptions): QuantletError =>
    new QuantletError('ERR_INVALID_ARGUMENT', `tensorType is ${message}`, options);
  const equals = text.lastIndexOf('=');
  if (equals < 1) throw refuse(`"${text}"; expected NAME=TYPE, like attn_v=q6_K`);
  const type = parseTensorType(text.slice(equals + 1));
  try {
    const pattern = new RegExp(text.slice(0, equals), 'i');
    // V8 reports too many groups only at the first use, and separately for two-byte strings.
    for (const name of ['', '\u0100']) pattern.test(name);
    return [pattern, type];
  } catch (cause) {
    const shown = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}... (${text.length} characters)` : text;
    const why = (cause as Error).message.slice(-SHOWN_CHARACTERS);
    throw refuse(`"${shown}"; expected a regular expression before the equals sign: ${why}`, { cause });
  }
}

/** Importance weights of a file, for the wanted tensors. */
async function importance(path: string, { includeWeights, excludeWeights = [], signal }: QuantizeOptions): Promise<Imatrix> {
  const wanted = (name: string): boolean =>
    (includeWeights?.some((part) => name.includes(part)) ?? true) && !excludeWeights.some((part) => name.includes(part));
  const imatrix = await withFile(path, signal, (bytes) => readImatrix(bytes, signal));
  return { ...imatrix, values: new Map([...imatrix.values].filter(([name]) => wanted(name))) };
}

/**
 * Writes a quantised copy of a model: types, mixes and bytes are those of llama-quantize. The
 * output gets its name when it is complete. Source: llama.cpp, llama_model_quantize.
 * @param input a GGUF file; of a split model, its first file
 * @throws QuantletError ERR_INVALID_ARGUMENT for wrong options, an output that is an input, or
 * tensors that cannot become the type; ERR_GGUF_INVALID for weights that are not finite;
 * ERR_IO (for example for a full disk); as reading does; `signal.reason`
 */
export async function quantize(input: FilePath, output: FilePath, options: QuantizeOptions): Promise<QuantizeResult> {
  const given = checkOptions('quantize', options, QUANTIZE_OPTIONS);
  checkValue('quantize', 'input', input, PATH);
  checkValue('quantize', 'output', output, PATH);
  const {
    type,
    includeWeights,
    excludeWeights,
    outputTensorType,
    tokenEmbeddingType,
    signal,
    onProgress,
    threads = defaultThreads(),
  } = given;
  if (includeWeights && excludeWeights)
    throw new QuantletError('ERR_INVALID_ARGUMENT', 'includeWeights and excludeWeights exclude each other; give one');
  const { pure = false, allowRequantize = false, leaveOutputTensor = false, dryRun = false } = given;
  const ftype = parseFtype(type);
  const types = {
    tensorTypes: (given.tensorType ?? []).map(parseTensorTypeRule),
    ...(outputTensorType !== undefined && { outputTensorType: parseTensorType(outputTensorType) }),
    ...(tokenEmbeddingType !== undefined && { tokenEmbeddingType: parseTensorType(tokenEmbeddingType) }),
  };
  const weights = given.imatrix === undefined ? undefined : pathOf(given.imatrix);
  const imatrix = weights === undefined ? {} : { imatrix: await importance(weights, given), imatrixName: weights };
  // All builds quantise to the same bits, so take the one that runs everywhere.
  const module = await exactKernels();
  const model = await openModelFiles(platform, pathOf(input), signal);
  const pool = createRowsPool(module, threads);
  try {
    const { fallbacks, ...summary } = await quantizeFile({
      ...{ pure, allowRequantize, leaveOutputTensor, dryRun, ...types, ...imatrix },
      ...(given.overrideKv && { overrideKv: writtenOverrides(given.overrideKv) }),
      model,
      inputs: [...partsOf(pathOf(input)), ...(weights === undefined ? [] : [weights])],
      output: pathOf(output),
      ftype,
      quantizeRows: pool.quantizeRows,
      // One more job than threads keeps all threads busy while one job reads or writes.
      nthreads: threads + 1,
      ...(signal && { signal }),
      onProgress: ({ tensor, from, to, doneBytes: done, totalBytes: total }) =>
        onProgress?.({ phase: 'quantizing', done, total, tensor, from: from.name, to: to.name }),
    });
    return {
      type: ftype.name,
      threads,
      ...summary,
      fallbacks: fallbacks.map(({ info, type: { name }, insteadOf }) => ({
        tensor: info.name,
        type: name,
        insteadOf: insteadOf!.name,
        blockSize: insteadOf!.blckSize,
        rowLength: info.ne[0],
      })),
    };
  } finally {
    await pool.dispose();
    await model.close();
  }
}
