/** The types of what assembly/index.ts exports. Kernels check nothing: sizes, alignment and types are up to the callers. Addresses above 2 GiB come back signed. */
export interface Kernels {
  heap_base(): number;
  /** Scratch bytes a thread needs for attention with these padded head_dims of K and V. */
  attention_scratch(hdK: number, hdV: number): number;
  /** Bytes of a column of activations for the packed kernels, of a type of theirs. */
  act_row_size(type: number, ne00: number): number;
  /** Not 0 for types whose blocks can be packed. */
  is_packable(type: number): number;
  /** The type of activations that packed weights of this type are multiplied by: f32, or one of the kernels' own (TYPE_ACT in src/graph/layout.ts). */
  packed_act_type(type: number): number;
  /** Rows of a packed group: packed matrices have whole groups of them. */
  packed_rows(): number;
  /**
   * Packs nrows plain rows of ne00 at src to w, elsewhere, as type `to`: theirs, or the `fast` one that theirs names (src/type-traits.ts). Both have room
   * for whole groups of packed_rows(): the rows that the last one misses become 0. How many packed blocks have a scale that is Inf or NaN.
   */
  repack(type: number, to: number, src: number, w: number, ne00: number, nrows: number): number;
  /** Scratch bytes a thread needs for a packed product. */
  mul_mat_packed_scratch(): number;
  /** k elements of block data at x -> f32 at y. */
  dequantize_row(type: number, x: number, y: number, k: number): void;
  quantize_work_size(): number;
  /** n f32 at x -> f64 at out: the largest, the smallest, the sum of e^(x - largest), the index of the largest. */
  sum_exp(x: number, n: number, out: number): void;
  pack_log_probs(x: number, n: number, y: number, floor: number, invScale: number): void;
  /** KL divergence of f32 at x from u16 at base; the index of base's largest as f64 at out. */
  kl_divergence(x: number, n: number, norm: number, base: number, scale: number, floor: number, out: number): number;
  begin(plan: number, nTokens: number, nOutputs: number): void;
  /** 0: done, 1: cancelled, -1: a worker was lost (ENDS in src/graph/layout.ts). */
  compute(plan: number, sync: number, ith: number, nth: number, from: number, to: number): number;
  /** Waits for the next step: its STEP word, or 0 where the threads are to return. */
  await_step(sync: number, ith: number, last: number, idleNs: bigint): number;
  /** The barrier behind what nth threads compute in a memory; gives what compute() gives. */
  meet(sync: number, ith: number, nth: number): number;
  finish_step(sync: number, step: number): void;
}

/** The types of what assembly/quantize/index.ts exports: quantize.wasm, a module of its own. */
export interface QuantizerExports {
  /** Makes the tables of a type where they are missing. The first byte behind all tables, 0 where memory ran out. */
  prepare(type: number): number;
  /** f32 rows -> block data as llama-quantize writes it; imatrix: nPerRow f32 or 0. How many rows were quantised: fewer where one's numbers are too large. */
  quantize_chunk(type: number, src: number, dst: number, nrows: number, nPerRow: number, imatrix: number): number;
}
