/**
 * Types of the exports of assembly/index.ts. Kernels check nothing: callers must get sizes,
 * alignment and types right. Addresses above 2 GiB are returned as negative numbers.
 */
export interface Kernels {
  heap_base(): number;
  /** Bytes of scratch that a thread needs for attention with these padded head_dims of K and V. */
  attention_scratch(hdK: number, hdV: number): number;
  /** Bytes of a column of activations of one of the packed kernels' types. */
  act_row_size(type: number, ne00: number): number;
  /** Not 0 for types whose blocks can be packed. */
  is_packable(type: number): number;
  /**
   * Type of the activations by which packed weights of this type are multiplied: f32, or one of the
   * kernels' own types (TYPE_ACT in src/graph/layout.ts).
   */
  packed_act_type(type: number): number;
  /** Rows of a packed group. A packed matrix has whole groups. */
  packed_rows(): number;
  /**
   * Packs nrows plain rows of ne00 at src to w, which does not overlap src. `to` is the same type,
   * or the `fast` one of the type (src/type-traits.ts). Both places have room for whole groups of
   * packed_rows(): rows missing in the last one become 0. Returns the number of packed blocks with
   * an Inf or NaN scale.
   */
  repack(type: number, to: number, src: number, w: number, ne00: number, nrows: number): number;
  /** Bytes of scratch that a thread needs for a packed product. */
  mul_mat_packed_scratch(): number;
  /** Converts k elements of block data at x to f32 at y. */
  dequantize_row(type: number, x: number, y: number, k: number): void;
  quantize_work_size(): number;
  /**
   * Stores four f64 at out for the n f32 at x: the largest, the smallest, the sum of e^(x -
   * largest), the index of the largest.
   */
  sum_exp(x: number, n: number, out: number): void;
  pack_log_probs(x: number, n: number, y: number, floor: number, invScale: number): void;
  /**
   * KL divergence of the f32 at x from the u16 at base. Stores the index of base's largest at out,
   * as f64.
   */
  kl_divergence(x: number, n: number, norm: number, base: number, scale: number, floor: number, out: number): number;
  begin(plan: number, nTokens: number, nOutputs: number): void;
  /** Returns 0: done, 1: cancelled, -1: a worker was lost (END in src/graph/layout.ts). */
  compute(plan: number, sync: number, ith: number, nth: number, from: number, to: number): number;
  /** Waits for the next step. Returns its STEP word, or 0 if the thread shall return. */
  await_step(sync: number, ith: number, last: number, idleNs: bigint): number;
  /**
   * The barrier after the records that nth threads compute in a memory. Returns what compute()
   * returns.
   */
  meet(sync: number, ith: number, nth: number): number;
  finish_step(sync: number, step: number): void;
}

/** Types of the exports of assembly/quantize/index.ts: quantize.wasm, a module of its own. */
export interface QuantizerExports {
  /**
   * Makes the tables of a type if they are missing. Returns the end of all tables, 0 if memory ran
   * out.
   */
  prepare(type: number): number;
  /**
   * Converts f32 rows to block data as llama-quantize writes it; imatrix: nPerRow f32, or 0.
   * Returns the number of rows quantised, fewer than nrows if the numbers of the next row are too
   * large.
   */
  quantize_chunk(type: number, src: number, dst: number, nrows: number, nPerRow: number, imatrix: number): number;
}
