/**
 * Constants that host and kernels share. `npm run generate` writes them to assembly/layout.ts, with
 * these comments. The entry `name` of a table TABLE becomes the constant TABLE_NAME there.
 * structures.ts has the layout of tensors, op records and plans.
 */

/** Offsets of areas that follow one another, and `size`, the bytes of all. */
function areas<N extends string>(bytes: { readonly [name in N]: number }): { readonly [name in N | 'size']: number } {
  let size = 0;
  const offsets: Record<string, number> = {};
  for (const [name, n] of Object.entries<number>(bytes)) {
    offsets[name] = size;
    size += n;
  }
  return { ...offsets, size } as { [name in N | 'size']: number };
}

// ---- Records and steps ----

/**
 * Flag of an op: the threads wait for each other before it, because it reads or overwrites data
 * that other threads may still be writing.
 */
export const OP_BARRIER = 1;
/**
 * Maximum number of ranges that an op's chunks are divided into, each with a cursor of its own.
 * With more threads, some share a range.
 */
export const RANGES = 8;
/** Layout of a tensor's rows. */
export const LAYOUT = {
  /** As GGUF stores them. */
  plain: 0,
  /** Interleaved in row blocks for packed products (matmul/repack.ts). */
  packed: 1,
} as const;
export type Layout = keyof typeof LAYOUT;
/** Counts of a batch: its tokens, those whose results are wanted, and the others. */
export const BATCH_COUNT = { tokens: 0, outputs: 1, others: 2 } as const;

/** Maximum number of threads, as in ggml (GGML_MAX_N_THREADS). Each costs a worker and scratch. */
export const MAX_THREADS = 512;
/** Low bits of a step's number: the number of threads that take part. */
export const STEP_THREAD_BITS = 10;
export const STEP_THREADS = 2 ** STEP_THREAD_BITS - 1;
/**
 * Words of the sync block. Each has a cache line of 64 bytes, so that spinning on one does not slow
 * down writers of another. The host has offsets in 32-bit words, the kernels in bytes.
 */
export const SYNC = {
  /**
   * Number of the step to run, and in its STEP_THREAD_BITS low bits how many threads take part in
   * it, from thread 0 on (few threads finish a small step sooner). CLOSED once the threads shut
   * down, which never happens during a step.
   */
  step: 0,
  /** Number of the last finished step. */
  done: 16,
  /** Threads that have reached the current barrier. */
  arrived: 32,
  /** Barriers passed. */
  phase: 48,
  /** Not 0 once a worker was lost: every wait ends, and every barrier returns END_LOST. */
  poison: 64,
  /**
   * Two words. [0] set by the host: stop this step. [1] set at a barrier by the last thread to
   * arrive, if it sees [0]: all threads obey this word.
   */
  cancel: 80,
  /** Number of times that a thread polls before it sleeps. */
  spin: 96,
  /**
   * A cache line for each thread: the record it has reached (reached() in sync.ts), which tells why a
   * step does not end.
   */
  reached: 112,
} as const;
/** From one thread's `reached` to the next. */
export const REACHED_STRIDE = 16;
/** Bytes of the sync block. */
export const SYNC_SIZE = 4 * (SYNC.reached + REACHED_STRIDE * MAX_THREADS);
/** Value of SYNC.step that makes threads return. */
export const CLOSED = -1;
/** Outcomes of a barrier or a step. */
export const END = { go_on: 0, cancelled: 1, lost: -1 } as const;

// ---- Packed products ----

/** Rows of a row block of packed weights. */
export const ROW_BLOCK = 16;
/** Bytes of one column's f32 sums of a row block. */
export const ACC_BYTES = 4 * ROW_BLOCK;
/**
 * Rows that a thread takes at a time; `large` if there are enough. These take about a microsecond
 * in a product with one column, 1024 wide: the longest time that one thread waits for another at
 * the end. Larger chunks gained nothing for prompts.
 */
export const TILE_ROWS = { small: ROW_BLOCK, large: 32 } as const;

/**
 * First type id of activations in tensors of the plan, above all of ggml's ids. The flags below are
 * added to it (matmul/act.ts).
 */
export const TYPE_ACT = 256;
/** Elements that share a scale, without ACT_K and ACT_64. */
export const ACT_BLOCK = 32;
/** Flag of activations for weights in super-blocks, and the elements that share a scale then. */
export const ACT_K = 1;
export const ACT_K_BLOCK = 256;
/** Flag of activations for formats of 1 and 2 bits, and the elements that share a scale then. */
export const ACT_64 = 8;
export const ACT_64_BLOCK = 64;
/** Flag for activations that are rounded to 4 bits. */
export const ACT_4 = 32;
/** Flag of the layout `signs_i8`. */
export const ACT_I8 = 16;
/** Layout of columns outside of column blocks (ActLayout in src/packed-format.ts). */
export const ACT = { plain: 0, few: 2, signs: 4, pairs: 6, signs_i8: 4 + ACT_I8 } as const;
/** Columns of a column block. */
export const ACT_COLUMNS = 4;
/** Maximum number of columns for gemm_16xn. With more, a panel is at least as fast. */
export const MOST_FEW = 16;

/**
 * Maximum number of columns of a group in a product by several matrices. A product unpacks weights
 * once for at least that many columns (matmul/product.ts), and again for more.
 */
export const GROUP_COLUMNS = 64;
/**
 * Large tiles per thread from which a product by several matrices uses these. The last tile is the
 * longest time that one thread waits for another (bench/grouped.ts prints it).
 */
export const GROUP_TILES = 32;
/** Kinds of lists of groups: p0 of GROUP_LIST (ops/groups.ts). */
export const GROUP_LIST = { offset: 0, length: 1, sparse: 2 } as const;

// ---- Sparse products ----

/**
 * If more than this many rows of 16 are selected and there are packed weights, their product is
 * faster.
 */
export const SPARSE_TURN = { mul_mat_sparse: 7, axpy: 3 } as const;
/** Rows that are prefetched side by side. */
export const FETCHED_AT_ONCE = 8;
/** Maximum number of elements of a stretch of MUL_MAT_SPARSE. */
export const SPARSE_STRETCH = 256;
/**
 * Scratch of MUL_MAT_SPARSE: sums of a row block; the list, with room for the word written past its
 * end; addresses of its rows, with room to repeat the last one. The scratch of packed products
 * follows.
 */
export const SPARSE_SCRATCH = areas({
  sums: ACC_BYTES,
  list: 4 * (SPARSE_STRETCH + 4),
  addresses: 4 * (SPARSE_STRETCH + FETCHED_AT_ONCE),
});
export const AXPY = {
  /** Rows that are added at once, of block types. */
  at_once: 16,
  /** Rows that are added at once, of types converted to f32. */
  as_f32: 4,
  /** Columns whose sums, together with rows as f32, fit the L1 cache. */
  stripe: 512,
  /**
   * Elements of a column whose rows are added at a time. Their rows (a thread's columns) are still
   * in the L2 cache for the next token.
   */
  stretch: 512,
} as const;
/**
 * Scratch of AXPY: elements, addresses of their rows, and elements times scales; rows as f32; the
 * list of a stretch.
 */
export const AXPY_SCRATCH = areas({
  elements: 4 * AXPY.at_once,
  addresses: 4 * AXPY.at_once,
  factors: 4 * AXPY.at_once,
  rows: 4 * AXPY.as_f32 * AXPY.stripe,
  list: 4 * (AXPY.stretch + 4),
});

// ---- Elements and rows ----

/** Operations of BINARY: its p0. */
export const BINARY = { add: 0, sub: 1, mul: 2, div: 3, repeat: 4 } as const;
/** Functions of UNARY: its p0. */
export const UNARY = {
  silu: 0,
  gelu: 1,
  gelu_quick: 2,
  gelu_erf: 3,
  relu: 4,
  tanh: 5,
  sigmoid: 6,
  exp: 7,
  scale: 8,
  clamp: 9,
  soft_cap: 10,
  sqr: 11,
  sqrt: 12,
  log: 13,
  neg: 14,
  abs: 15,
  step: 16,
  xielu: 17,
  softplus: 18,
} as const;
/** Gated units of GLU: its p0. All but the last are functions of UNARY, applied to the gate. */
export const GLU = { silu: 0, gelu: 1, gelu_quick: 2, gelu_erf: 3, relu: 4, swiglu_oai: 5 } as const;
/** Scratch of UNARY and GLU: the last one to three f32 of a row of each source, as a vector. */
export const UNARY_SCRATCH = areas({ x: 16, up: 16 });
/**
 * Scratch of FWHT, for up to 28 parts: a vector for each part of a half, three times (u + v, u - v
 * and u). A copy of the parts follows, for those that are shorter than a vector.
 */
export const FWHT_SCRATCH = areas({ sums: 16 * 14, differences: 16 * 14, elements: 16 * 14, lines: 16 * 28 });
/** Modes of CPY: its p0 (ops/copy.ts). */
export const COPY = { rows: 0, elements: 1, convert: 2, gather: 3, zeros: 4 } as const;
/** Elements that CPY converts at a time: whole blocks of every type. */
export const COPY_CHUNK = 256;
/** Bytes of these elements as f32 in the scratch. The work area of quantisers follows. */
export const COPY_SCRATCH = 4 * COPY_CHUNK;

// ---- Attention and recurrent layers ----

/**
 * Cells of a KV split, which attention computes on its own. K and V of a split and head (2 x 64 KiB
 * as f32 at head_dim 64) stay in L2, and 1024 cells give 2 threads 4 x n_head_kv items.
 */
export const KV_SPLIT = 256;
/** Keys that lie side by side in K. */
export const K_CELLS = 16;
/**
 * Scratch of KV_STORE: one block of at most 64 bytes; 32 values padded with zeros. The work area of
 * quantisers follows, and after it a rotated row.
 */
export const KV_STORE_SCRATCH = areas({ block: 64, values: 4 * 32 });
/**
 * Steps of at most this many tokens make an item of every KV split. Larger steps have enough items
 * without that.
 */
export const ATTENTION_SPLIT_TOKENS = 4;
/**
 * Floats before the outputs in a row's state: its maximum (log2), its sum, two unused. Then
 * head_dim outputs.
 */
export const ATTENTION_STATE = 4;
export const ATTENTION_ROWS = {
  /**
   * Rows of a prompt's work item: 8 tiles of 6 rows share a split of K and V that is widened to f32
   * once.
   */
  item: 48,
  tile: 6,
  /** Keys that are widened together, in a transposition of four by four. */
  widen: 4,
  /** Rows that share a load of values of a block type. */
  block: 2,
} as const;
/**
 * Scratch for 32 dimensions of values of a block type: the rows' weights, an i16 for every cell;
 * for each row a factor, f32, and -8 * the sum of its weights, i32.
 */
export const ATTENTION_BLOCK = areas({ weights: 2 * KV_SPLIT * ATTENTION_ROWS.block, factors: 8 * ATTENTION_ROWS.block });
/**
 * i32 words of a run of tokens in a recurrent layer: number of tokens, the cell that they continue
 * from (below 0: from zeros), the cell for their state.
 */
export const RUN_WORDS = 3;
/** Maximum number of rows of a convolution's kernel. */
export const MOST_TAPS = 16;
/** Tokens that rows of a state process before the next rows follow. */
export const RECURRENT_CHUNK = 8;
