// Generated from src/graph/layout.ts and structures.ts by `npm run generate`: edit that table and run it again.
/** Structures and constants that host and kernels share. */

/** ggml's view of memory: ne elements and nb bytes of stride in each dimension, ne0 fastest. */
@unmanaged
export class Tensor {
  type: u32;
  layout: u32;
  ne0: i32;
  ne1: i32;
  ne2: i32;
  ne3: i32;
  nb0: u32;
  nb1: u32;
  nb2: u32;
  nb3: u32;
  data: usize;
  /** Next cast of an op's output (Op.casts), or 0. */
  next: Tensor;
}

/** One call of a kernel. */
@unmanaged
export class Op {
  code: u32;
  flags: u32;
  dst: Tensor;
  src0: Tensor;
  src1: Tensor;
  src2: Tensor;
  src3: Tensor;
  src4: Tensor;
  src5: Tensor;
  src6: Tensor;
  src7: Tensor;
  src8: Tensor;
  /**
   * dst in further types, written together with it: the first of a list linked by `next`, or 0
   * (ops/casts.ts).
   */
  casts: Tensor;
  /**
   * The op's counter of chunks taken (sync.ts), zeroed by begin(). The counters of its further
   * ranges follow, cursor_bytes apart.
   */
  cursor: usize;
  p0: i32;
  p1: i32;
  p2: i32;
  p3: i32;
  p4: i32;
  p5: i32;
  p6: i32;
  p7: i32;
  p8: i32;
  p9: i32;
  p10: i32;
  p11: i32;
  p12: i32;
  p13: i32;
  p14: i32;
  p15: i32;
  p16: i32;
  p17: i32;
}

@unmanaged
export class Plan {
  n_ops: i32;
  ops: usize;
  /** Dimensions that follow the batch: pairs (address of an ne, a BATCH_COUNT). */
  n_dims: i32;
  dims: usize;
  /**
   * Bytes from an op's cursor to the cursor of its next range: all ops' cursors for one range lie
   * side by side.
   */
  cursor_bytes: u32;
  cursors: usize;
  /** scratch_size bytes for each thread; thread ith's begin at scratch + ith * scratch_size. */
  scratch: usize;
  scratch_size: u32;
}

/** Parameters p0, p1 ... of a record of attention. */
@unmanaged
export class AttentionParams {
  /** Factor of the scores. */
  scale: f32;
  /** Padded head_dim of K. */
  hd_k: i32;
  /** Cells of the cache. */
  cells: i32;
  n_head_kv: i32;
  /**
   * Maximum number of keys that a token sees, itself included; 0: all; negative: -window - 1 keys
   * on each side of it.
   */
  window: i32;
  /** Scores become cap * tanh(score / cap); 0: none. */
  soft_cap: f32;
  /** KV splits that a row of src5 has room for. */
  splits: i32;
  /** Padded head_dim of V. */
  hd_v: i32;
  /** head_dim of V: the number of outputs of a head. */
  hd_out: i32;
  /** Not 0: all splits take phi as their maximum (FlashDecoding++). */
  unified: i32;
  phi: f32;
  /**
   * Number of elements of a query, and of an output, that are rotated together (fwht.ts), as the
   * cache's keys and values are; 0: none.
   */
  rot_k: i32;
  rot_v: i32;
}

/**
 * Flag of an op: the threads wait for each other before it, because it reads or overwrites data
 * that other threads may still be writing.
 */
export const OP_BARRIER: u32 = 1;
/**
 * Maximum number of ranges that an op's chunks are divided into, each with a cursor of its own.
 * With more threads, some share a range.
 */
export const RANGES: i32 = 8;

// Layout of a tensor's rows.
/** As GGUF stores them. */
export const LAYOUT_PLAIN: u32 = 0;
/** Interleaved in row blocks for packed products (matmul/repack.ts). */
export const LAYOUT_PACKED: u32 = 1;

// Counts of a batch: its tokens, those whose results are wanted, and the others.
export const BATCH_COUNT_TOKENS: i32 = 0;
export const BATCH_COUNT_OUTPUTS: i32 = 1;
export const BATCH_COUNT_OTHERS: i32 = 2;

/** Maximum number of threads, as in ggml (GGML_MAX_N_THREADS). Each costs a worker and scratch. */
export const MAX_THREADS: i32 = 512;
/** Low bits of a step's number: the number of threads that take part. */
export const STEP_THREAD_BITS: i32 = 10;
export const STEP_THREADS: i32 = 1023;

// Words of the sync block. Each has a cache line of 64 bytes, so that spinning on one does not slow
// down writers of another. The host has offsets in 32-bit words, the kernels in bytes.
/**
 * Number of the step to run, and in its STEP_THREAD_BITS low bits how many threads take part in
 * it, from thread 0 on (few threads finish a small step sooner). CLOSED once the threads shut
 * down, which never happens during a step.
 */
export const SYNC_STEP: usize = 0;
/** Number of the last finished step. */
export const SYNC_DONE: usize = 64;
/** Threads that have reached the current barrier. */
export const SYNC_ARRIVED: usize = 128;
/** Barriers passed. */
export const SYNC_PHASE: usize = 192;
/** Not 0 once a worker was lost: every wait ends, and every barrier returns END_LOST. */
export const SYNC_POISON: usize = 256;
/**
 * Two words. [0] set by the host: stop this step. [1] set at a barrier by the last thread to
 * arrive, if it sees [0]: all threads obey this word.
 */
export const SYNC_CANCEL: usize = 320;
/** Number of times that a thread polls before it sleeps. */
export const SYNC_SPIN: usize = 384;
/**
 * A cache line for each thread: the record it has reached (reached() in sync.ts), which tells why a
 * step does not end.
 */
export const SYNC_REACHED: usize = 448;

/** From one thread's `reached` to the next. */
export const REACHED_STRIDE: usize = 64;
/** Bytes of the sync block. */
export const SYNC_SIZE: usize = 33216;
/** Value of SYNC.step that makes threads return. */
export const CLOSED: i32 = -1;

// Outcomes of a barrier or a step.
export const END_GO_ON: i32 = 0;
export const END_CANCELLED: i32 = 1;
export const END_LOST: i32 = -1;

/** Rows of a row block of packed weights. */
export const ROW_BLOCK: i32 = 16;
/** Bytes of one column's f32 sums of a row block. */
export const ACC_BYTES: usize = 64;

// Rows that a thread takes at a time; `large` if there are enough. These take about a microsecond
// in a product with one column, 1024 wide: the longest time that one thread waits for another at
// the end. Larger chunks gained nothing for prompts.
export const TILE_ROWS_SMALL: i32 = 16;
export const TILE_ROWS_LARGE: i32 = 32;

/**
 * First type id of activations in tensors of the plan, above all of ggml's ids. The flags below are
 * added to it (matmul/act.ts).
 */
export const TYPE_ACT: u32 = 256;
/** Elements that share a scale, without ACT_K and ACT_64. */
export const ACT_BLOCK: i32 = 32;
/** Flag of activations for weights in super-blocks, and the elements that share a scale then. */
export const ACT_K: u32 = 1;
export const ACT_K_BLOCK: i32 = 256;
/** Flag of activations for formats of 1 and 2 bits, and the elements that share a scale then. */
export const ACT_64: u32 = 8;
export const ACT_64_BLOCK: i32 = 64;
/** Flag for activations that are rounded to 4 bits. */
export const ACT_4: u32 = 32;
/** Flag of the layout `signs_i8`. */
export const ACT_I8: u32 = 16;

// Layout of columns outside of column blocks (ActLayout in src/packed-format.ts).
export const ACT_PLAIN: u32 = 0;
export const ACT_FEW: u32 = 2;
export const ACT_SIGNS: u32 = 4;
export const ACT_PAIRS: u32 = 6;
export const ACT_SIGNS_I8: u32 = 20;

/** Columns of a column block. */
export const ACT_COLUMNS: usize = 4;
/** Maximum number of columns for gemm_16xn. With more, a panel is at least as fast. */
export const MOST_FEW: i32 = 16;
/**
 * Maximum number of columns of a group in a product by several matrices. A product unpacks weights
 * once for at least that many columns (matmul/product.ts), and again for more.
 */
export const GROUP_COLUMNS: i32 = 64;
/**
 * Large tiles per thread from which a product by several matrices uses these. The last tile is the
 * longest time that one thread waits for another (bench/grouped.ts prints it).
 */
export const GROUP_TILES: i32 = 32;

// Kinds of lists of groups: p0 of GROUP_LIST (ops/groups.ts).
export const GROUP_LIST_OFFSET: i32 = 0;
export const GROUP_LIST_LENGTH: i32 = 1;
export const GROUP_LIST_SPARSE: i32 = 2;

// If more than this many rows of 16 are selected and there are packed weights, their product is
// faster.
export const SPARSE_TURN_MUL_MAT_SPARSE: i32 = 7;
export const SPARSE_TURN_AXPY: i32 = 3;

/** Rows that are prefetched side by side. */
export const FETCHED_AT_ONCE: i32 = 8;
/** Maximum number of elements of a stretch of MUL_MAT_SPARSE. */
export const SPARSE_STRETCH: i32 = 256;

// Scratch of MUL_MAT_SPARSE: sums of a row block; the list, with room for the word written past its
// end; addresses of its rows, with room to repeat the last one. The scratch of packed products
// follows.
export const SPARSE_SCRATCH_SUMS: usize = 0;
export const SPARSE_SCRATCH_LIST: usize = 64;
export const SPARSE_SCRATCH_ADDRESSES: usize = 1104;
export const SPARSE_SCRATCH_SIZE: usize = 2160;

/** Rows that are added at once, of block types. */
export const AXPY_AT_ONCE: i32 = 16;
/** Rows that are added at once, of types converted to f32. */
export const AXPY_AS_F32: i32 = 4;
/** Columns whose sums, together with rows as f32, fit the L1 cache. */
export const AXPY_STRIPE: i32 = 512;
/**
 * Elements of a column whose rows are added at a time. Their rows (a thread's columns) are still
 * in the L2 cache for the next token.
 */
export const AXPY_STRETCH: i32 = 512;

// Scratch of AXPY: elements, addresses of their rows, and elements times scales; rows as f32; the
// list of a stretch.
export const AXPY_SCRATCH_ELEMENTS: usize = 0;
export const AXPY_SCRATCH_ADDRESSES: usize = 64;
export const AXPY_SCRATCH_FACTORS: usize = 128;
export const AXPY_SCRATCH_ROWS: usize = 192;
export const AXPY_SCRATCH_LIST: usize = 8384;
export const AXPY_SCRATCH_SIZE: usize = 10448;

// Operations of BINARY: its p0.
export const BINARY_ADD: i32 = 0;
export const BINARY_SUB: i32 = 1;
export const BINARY_MUL: i32 = 2;
export const BINARY_DIV: i32 = 3;
export const BINARY_REPEAT: i32 = 4;

// Functions of UNARY: its p0.
export const UNARY_SILU: i32 = 0;
export const UNARY_GELU: i32 = 1;
export const UNARY_GELU_QUICK: i32 = 2;
export const UNARY_GELU_ERF: i32 = 3;
export const UNARY_RELU: i32 = 4;
export const UNARY_TANH: i32 = 5;
export const UNARY_SIGMOID: i32 = 6;
export const UNARY_EXP: i32 = 7;
export const UNARY_SCALE: i32 = 8;
export const UNARY_CLAMP: i32 = 9;
export const UNARY_SOFT_CAP: i32 = 10;
export const UNARY_SQR: i32 = 11;
export const UNARY_SQRT: i32 = 12;
export const UNARY_LOG: i32 = 13;
export const UNARY_NEG: i32 = 14;
export const UNARY_ABS: i32 = 15;
export const UNARY_STEP: i32 = 16;
export const UNARY_XIELU: i32 = 17;
export const UNARY_SOFTPLUS: i32 = 18;

// Gated units of GLU: its p0. All but the last are functions of UNARY, applied to the gate.
export const GLU_SILU: i32 = 0;
export const GLU_GELU: i32 = 1;
export const GLU_GELU_QUICK: i32 = 2;
export const GLU_GELU_ERF: i32 = 3;
export const GLU_RELU: i32 = 4;
export const GLU_SWIGLU_OAI: i32 = 5;

// Scratch of UNARY and GLU: the last one to three f32 of a row of each source, as a vector.
export const UNARY_SCRATCH_X: usize = 0;
export const UNARY_SCRATCH_UP: usize = 16;
export const UNARY_SCRATCH_SIZE: usize = 32;

// Scratch of FWHT, for up to 28 parts: a vector for each part of a half, three times (u + v, u - v
// and u). A copy of the parts follows, for those that are shorter than a vector.
export const FWHT_SCRATCH_SUMS: usize = 0;
export const FWHT_SCRATCH_DIFFERENCES: usize = 224;
export const FWHT_SCRATCH_ELEMENTS: usize = 448;
export const FWHT_SCRATCH_LINES: usize = 672;
export const FWHT_SCRATCH_SIZE: usize = 1120;

// Modes of CPY: its p0 (ops/copy.ts).
export const COPY_ROWS: i32 = 0;
export const COPY_ELEMENTS: i32 = 1;
export const COPY_CONVERT: i32 = 2;
export const COPY_GATHER: i32 = 3;
export const COPY_ZEROS: i32 = 4;

/** Elements that CPY converts at a time: whole blocks of every type. */
export const COPY_CHUNK: i32 = 256;
/** Bytes of these elements as f32 in the scratch. The work area of quantisers follows. */
export const COPY_SCRATCH: usize = 1024;
/**
 * Cells of a KV split, which attention computes on its own. K and V of a split and head (2 x 64 KiB
 * as f32 at head_dim 64) stay in L2, and 1024 cells give 2 threads 4 x n_head_kv items.
 */
export const KV_SPLIT: i32 = 256;
/** Keys that lie side by side in K. */
export const K_CELLS: i32 = 16;

// Scratch of KV_STORE: one block of at most 64 bytes; 32 values padded with zeros. The work area of
// quantisers follows, and after it a rotated row.
export const KV_STORE_SCRATCH_BLOCK: usize = 0;
export const KV_STORE_SCRATCH_VALUES: usize = 64;
export const KV_STORE_SCRATCH_SIZE: usize = 192;

/**
 * Steps of at most this many tokens make an item of every KV split. Larger steps have enough items
 * without that.
 */
export const ATTENTION_SPLIT_TOKENS: i32 = 4;
/**
 * Floats before the outputs in a row's state: its maximum (log2), its sum, two unused. Then
 * head_dim outputs.
 */
export const ATTENTION_STATE: i32 = 4;

/**
 * Rows of a prompt's work item: 8 tiles of 6 rows share a split of K and V that is widened to f32
 * once.
 */
export const ATTENTION_ROWS_ITEM: i32 = 48;
export const ATTENTION_ROWS_TILE: i32 = 6;
/** Keys that are widened together, in a transposition of four by four. */
export const ATTENTION_ROWS_WIDEN: i32 = 4;
/** Rows that share a load of values of a block type. */
export const ATTENTION_ROWS_BLOCK: i32 = 2;

// Scratch for 32 dimensions of values of a block type: the rows' weights, an i16 for every cell;
// for each row a factor, f32, and -8 * the sum of its weights, i32.
export const ATTENTION_BLOCK_WEIGHTS: usize = 0;
export const ATTENTION_BLOCK_FACTORS: usize = 1024;
export const ATTENTION_BLOCK_SIZE: usize = 1040;

/**
 * i32 words of a run of tokens in a recurrent layer: number of tokens, the cell that they continue
 * from (below 0: from zeros), the cell for their state.
 */
export const RUN_WORDS: i32 = 3;
/** Maximum number of rows of a convolution's kernel. */
export const MOST_TAPS: i32 = 16;
/** Tokens that rows of a state process before the next rows follow. */
export const RECURRENT_CHUNK: i32 = 8;
