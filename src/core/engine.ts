/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Interface of quantlet/core's engine: a memory with tensors, plans over them, and threads that
 * compute. create.ts implements it.
 */
import type { Tensor } from '../graph/tensor.ts';
import type { Turbo } from '../platform.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { TypeName } from '../type-traits.ts';
import type { Build } from '../wasm/load.ts';
import type { Data, DataByType, DataOf, ReadAs } from './data.ts';

export interface EngineOptions {
  /**
   * Number of threads. Results are the same bits for any number. Default: the cores that this
   * process may use.
   */
  threads?: number | undefined;
  /**
   * Bytes for tensors, intermediate results and plans. Allocated once, never grown; untouched pages
   * cost nothing on most systems. Default 64 MiB.
   */
  memoryBytes?: number | undefined;
  /** Build to use instead of the best one that runs here. @see BUILDS */
  build?: Build | undefined;
  /** @see LoadOptions.turbo */
  turbo?: Turbo | undefined;
}

/** A graph that is ready to run, any number of times; made by engine.plan(). */
export interface Plan {
  /**
   * Describes each record in a line: the kernel chosen and why, its operands and results, and where
   * threads meet.
   */
  explain(): string;
  /**
   * Frees the plan's memory. Its results are then read from the newest other plan that has them, if
   * there is one.
   * @throws ERR_BUSY while the plan runs or waits to run
   */
  dispose(): void;
}

export interface TensorOptions {
  /** Content of the tensor. Default: zeros. */
  data?: Data | undefined;
  /** Name in messages and explain(). @see set_name */
  name?: string | undefined;
}

export interface LoadTensorOptions {
  /** Aborts loading, which then rejects with signal.reason. */
  signal?: AbortSignal | undefined;
}

export interface ComputeOptions {
  /** Aborts the run, which then rejects with signal.reason. */
  signal?: AbortSignal | undefined;
  /**
   * Called while a long plan runs, with the fraction of its ops that is computed. The last call has
   * 1. The plan then runs in up to 64 parts.
   */
  onProgress?: ((fraction: number) => void) | undefined;
}

export interface Engine {
  readonly build: Build;
  readonly threads: number;
  /** True if the kernels have 256-bit code, by V8's revectoriser. */
  readonly turbo: boolean;
  /** Bytes that neither tensors nor plans use. */
  readonly freeBytes: number;
  /**
   * ggml_new_tensor: a tensor of this engine, zeroed or with the given data.
   * @param ne one to four dimensions, ne[0] the fastest; ne[0] is a multiple of the type's block
   * @param data content of the tensor, or { data, name }
   * @throws ERR_TENSOR_SHAPE, ERR_INVALID_ARGUMENT (data of another type or length),
   * ERR_OUT_OF_MEMORY, ERR_DISPOSED
   */
  tensor<T extends TypeName>(type: T, ne: readonly number[], data?: Data | TensorOptions): Tensor<T>;
  /**
   * Loads tensors of a GGUF file (or split model) by their names, each unchanged. Reads only the
   * file's header and the bytes of these tensors.
   * @param source as for loadModel: a path, a URL, bytes, a Blob, a list of the parts, or
   * { byteLength, slice(start, end) }
   * @throws ERR_MISSING_TENSOR with similar names, ERR_OUT_OF_MEMORY, what loadModel throws for the
   * file, or signal.reason
   */
  load(source: ModelSource | readonly ModelSource[], name: string, options?: LoadTensorOptions): Promise<Tensor>;
  load(source: ModelSource | readonly ModelSource[], names: readonly string[], options?: LoadTensorOptions): Promise<Tensor[]>;
  /**
   * Frees a tensor's memory. Plans that read it refuse to run.
   * @throws ERR_BUSY while a plan runs
   */
  free(t: Tensor): void;
  /**
   * Copies data into a tensor of tensor(), or into a view of one.
   * @throws ERR_INVALID_ARGUMENT, ERR_TENSOR_SHAPE (a view with gaps), ERR_BUSY while a plan runs
   */
  write(t: Tensor, data: Data): void;
  /**
   * Copies the elements, in ne order, of a tensor of tensor(), a result of a plan, or a view of
   * either. While a plan that writes them runs, the copy can be half old and half new. The array
   * has the type of DataByType. With { as: 'f32' } or { as: 'f64' }, it has numbers for any type;
   * blocks are dequantised.
   * @throws ERR_INVALID_ARGUMENT for any other tensor, ERR_TENSOR_SHAPE for a packed matrix
   */
  read<T extends string>(t: Tensor<T>): DataOf<T>;
  read<A extends ReadAs>(t: Tensor, options: { as: A }): DataByType[A];
  /**
   * The elements themselves, without a copy; for contiguous tensors only. With threads, the array's
   * buffer is a SharedArrayBuffer. Valid until the tensor is freed or the plan disposed of.
   */
  view<T extends string>(t: Tensor<T>): DataOf<T>;
  /**
   * Rearranges a matrix for the packed kernels, if there are any for its type. Products by the
   * matrix then use these kernels: GEMM and GEMV over blocks, and over f32, f16 and bf16 weights
   * (where ggml uses BLAS). A packed matrix can only be multiplied by (as the first operand of
   * mul_mat) and looked up in (get_rows), not viewed or read. Plans made before refuse to run. If
   * this throws, nothing has changed.
   * @returns true if there are packed kernels for its type, shape and scales (finite ones)
   * @throws ERR_OUT_OF_MEMORY, ERR_TENSOR_SHAPE, ERR_BUSY while a plan runs
   */
  pack(t: Tensor): Promise<boolean>;
  /**
   * Plans the computation of these results: lowers their graph to records, and allocates memory for
   * its intermediate tensors (ggml_graph_plan). A result is read from the newest plan that has it
   * and was not disposed of.
   * @throws ERR_INVALID_ARGUMENT for tensors of another engine, ERR_OUT_OF_MEMORY
   */
  plan(...results: Tensor[]): Plan;
  /**
   * Runs a plan (ggml_graph_compute). Concurrent calls run one after the other.
   * @throws ERR_INVALID_ARGUMENT (not a plan of this engine, a wrong option, an index out of
   * range), ERR_DISPOSED, or signal.reason
   */
  compute(plan: Plan, options?: ComputeOptions): Promise<void>;
  /** Ends the threads and frees the memory. Everything else then throws ERR_DISPOSED. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
