/// <reference lib="esnext.disposable" preserve="true" />
/** quantlet/core's engine as its callers see it: a memory with tensors in it, plans over them, threads that compute. create.ts makes it. */
import type { Tensor } from '../graph/tensor.ts';
import type { Turbo } from '../engine/platform.ts';
import type { ModelSource } from '../io/model-files.ts';
import type { TypeName } from '../type-traits.ts';
import type { Build } from '../wasm/load.ts';
import type { Data, DataByType, DataOf, ReadAs } from './data.ts';

export interface EngineOptions {
  /** Threads that compute; default: the cores this process may use. Results are the same bits for any number. */
  threads?: number | undefined;
  /** Bytes for tensors, intermediate results and plans. Made once, never grown; untouched pages cost nothing on most systems. Default 64 MiB. */
  memoryBytes?: number | undefined;
  /** A build instead of the best one that runs here. @see BUILDS */
  build?: Build | undefined;
  /** @see LoadOptions.turbo */
  turbo?: Turbo | undefined;
}

/** A graph ready to run, as often as wanted; made by engine.plan(). */
export interface Plan {
  /** One line a record: the kernel chosen and why, what it reads and writes, and where threads meet. */
  explain(): string;
  /** Gives its memory back; its results are then read from the newest other plan that has them, if there is one. @throws ERR_BUSY while it runs or waits to */
  dispose(): void;
}

export interface TensorOptions {
  /** What fills it; zeros without. */
  data?: Data | undefined;
  /** What messages and explain() call it. @see set_name */
  name?: string | undefined;
}

export interface LoadTensorOptions {
  /** Ends loading with signal.reason. */
  signal?: AbortSignal | undefined;
}

export interface ComputeOptions {
  /** Ends the run, which then rejects with signal.reason. */
  signal?: AbortSignal | undefined;
}

export interface Engine {
  readonly build: Build;
  readonly threads: number;
  /** Whether the kernels have 256-bit code by V8's revectoriser. */
  readonly turbo: boolean;
  /** Bytes not taken by tensors and plans. */
  readonly freeBytes: number;
  /**
   * ggml_new_tensor: a tensor of this engine, zeroed or with the given data.
   * @param ne one to four dimensions, ne[0] the fastest; a multiple of the type's block in ne[0]
   * @param data what fills it, or { data, name }
   * @throws ERR_TENSOR_SHAPE, ERR_INVALID_ARGUMENT (data of another type or length), ERR_OUT_OF_MEMORY, ERR_DISPOSED
   */
  tensor<T extends TypeName>(type: T, ne: readonly number[], data?: Data | TensorOptions): Tensor<T>;
  /**
   * Tensors of a GGUF file (or split model) by their names, each as the file has it. The file's header is read, and these tensors' bytes.
   * @param source whatever loadModel takes: a path, a URL, bytes, a Blob, { byteLength, slice(start, end) }, a list of the parts
   * @throws ERR_MISSING_TENSOR naming those that are alike, ERR_OUT_OF_MEMORY, what loadModel throws for the file, or signal.reason
   */
  load(source: ModelSource | readonly ModelSource[], name: string, options?: LoadTensorOptions): Promise<Tensor>;
  load(source: ModelSource | readonly ModelSource[], names: readonly string[], options?: LoadTensorOptions): Promise<Tensor[]>;
  /** Gives a tensor's memory back. Plans that read it refuse to run. @throws ERR_BUSY while a plan runs */
  free(t: Tensor): void;
  /** Copies data into a tensor of tensor(), or a view of one. @throws ERR_INVALID_ARGUMENT, ERR_TENSOR_SHAPE (a view with gaps), ERR_BUSY while a plan runs */
  write(t: Tensor, data: Data): void;
  /**
   * A copy of the elements, in ne order, of a tensor of tensor(), a result of a plan, or a view of either; half written while a plan that writes it runs.
   * The array is the type's own, see DataByType; with { as: 'f32' } or { as: 'f64' } it is numbers whatever the type is, blocks dequantised.
   * @throws ERR_INVALID_ARGUMENT for what is none of these, ERR_TENSOR_SHAPE for a packed matrix
   */
  read<T extends string>(t: Tensor<T>): DataOf<T>;
  read<A extends ReadAs>(t: Tensor, options: { as: A }): DataByType[A];
  /** The elements themselves, without a copy; contiguous tensors only. With threads the array lies on a SharedArrayBuffer. Valid until the tensor or plan is given back. */
  view<T extends string>(t: Tensor<T>): DataOf<T>;
  /**
   * Rearranges a matrix for the packed kernels, which products take from then on where its type has them: GEMM and GEMV over blocks, and
   * over f32, f16 and bf16 weights (ggml's BLAS way). It can then only be multiplied by (as the first operand of mul_mat) and looked up in
   * (get_rows), not viewed or read; plans made before refuse to run. Where it throws, nothing has changed.
   * @returns whether there are packed kernels for its type, shape and scales (finite ones) @throws ERR_OUT_OF_MEMORY, ERR_TENSOR_SHAPE, ERR_BUSY while a plan runs
   */
  pack(t: Tensor): Promise<boolean>;
  /**
   * Lowers the graph of the results to records and gives its intermediate tensors memory (ggml_graph_plan).
   * A result is read from the newest plan that has it and was not disposed of. @throws ERR_INVALID_ARGUMENT for tensors of another engine, ERR_OUT_OF_MEMORY
   */
  plan(...results: Tensor[]): Plan;
  /** Runs a plan (ggml_graph_compute). Calls take turns. @throws ERR_INVALID_ARGUMENT (no plan of this engine, an option, an index outside its table), ERR_DISPOSED, or signal.reason */
  compute(plan: Plan, options?: ComputeOptions): Promise<void>;
  /** Ends the threads and gives the memory back; everything else throws ERR_DISPOSED afterwards. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
