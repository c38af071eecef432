/**
 * Byte layout of what the host writes for kernels; mirrors assembly/runtime/tensor.ts and
 * assembly/runtime/sync.ts.
 */

export const TENSOR_SIZE = 48;
export const OP_SIZE = 128;
export const PLAN_SIZE = 32;
export const MAX_SRC = 9;

/** Offsets in 32-bit words. */
export const TENSOR = { type: 0, layout: 1, ne: 2, nb: 6, data: 10, next: 11 } as const;
export const OP = { code: 0, flags: 1, dst: 2, src: 3, casts: 12, cursor: 13, params: 14 } as const;
export const PLAN = { nOps: 0, ops: 1, nDims: 2, dims: 3, cursorBytes: 4, cursors: 5, scratch: 6, scratchSize: 7 } as const;

export const OP_BARRIER = 1;
/** Most ranges that an op's work is divided into; each has a cursor of its own. */
export const RANGES = 8;

/**
 * Lowest type id of the packed kernels' activations (assembly/matmul/act.ts), above all ids of
 * ggml.
 */
export const TYPE_ACT = 256;

/**
 * Flag in the type id of activations for weights in super-blocks: one f32 scale for ACT_K_BLOCK
 * elements instead of ACT_BLOCK.
 */
export const ACT_K = 1;
/** The same for formats of 1 and 2 bits: one f32 scale for ACT_64_BLOCK elements. */
export const ACT_64 = 8;
export const ACT_64_BLOCK = 64;
/** Flag for activations that are rounded to 4 bits. */
export const ACT_4 = 32;
export const ACT_BLOCK = 32;
export const ACT_K_BLOCK = 256;
/** Layout of the columns of activations (packed-format.ts ActLayout); added to the type id. */
export const ACT_LAYOUTS = { plain: 0, few: 2, signs: 4, pairs: 6, signs_i8: 20 } as const;
/** Most columns of gemm_16xn (assembly/matmul/act.ts MOST_16XN). */
export const MOST_FEW = 16;
/** Columns of a column block of activations (assembly/matmul/act.ts COLS). */
export const ACT_COLUMNS = 4;

/** Most columns of a group in a product by several matrices (assembly/ops/groups.ts). */
export const GROUP_COLUMNS = 64;
/**
 * Rows of a tile of such a product, and the number of large tiles per thread from which they are
 * used (assembly/ops/mul_mat_packed.ts FEW_CHUNKS_OF_GROUPS).
 */
export const TILE_ROWS = { small: 16, large: 32 } as const;
export const GROUP_TILES = 32;
/** Kinds of lists of groups: GROUP_LIST's p0 (assembly/ops/groups.ts). */
export const GROUP_LIST = { offset: 0, length: 1, sparse: 2 } as const;

/**
 * Rows of a row block of packed weights, and bytes of a row block's sums
 * (assembly/matmul/format/group.ts ROWS, ACC).
 */
export const ROW_BLOCK = 16;
export const ACC_BYTES = 64;
/**
 * Most selected rows of 16 that are computed one by one if there are also packed weights
 * (assembly/ops/sparse.ts TURN, axpy.ts TURN).
 */
export const SPARSE_TURN = { mul_mat_sparse: 7, axpy: 3 } as const;
/**
 * Types whose plain rows are multiplied without packing, eight at a time
 * (assembly/matmul/rows_8x1.ts takes_rows).
 */
export const PLAIN_ROWS: readonly string[] = ['q4_0', 'q8_0'];
/**
 * Scratch bytes. MUL_MAT_SPARSE: a list of 256 elements and the addresses of their rows. AXPY: 16
 * elements, with the addresses of their rows and factors, 512 f32 of four rows, and a list of 512.
 */
export const SPARSE_LIST_BYTES = 4 * (256 + 4) + 4 * (256 + 8);
export const AXPY_SCRATCH = 3 * 4 * 16 + 4 * 512 * 4 + 4 * (512 + 4);

/** Operations of BINARY (assembly/ops/binary.ts): its p0. */
export const BINARY = { add: 0, sub: 1, mul: 2, div: 3, repeat: 4 } as const;
/** Functions of UNARY (assembly/ops/unary.ts): its p0. */
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
/** Gated units of GLU: its p0. The first ones are functions of UNARY, applied to the gate. */
export const GLU = { silu: 0, gelu: 1, gelu_quick: 2, gelu_erf: 3, relu: 4, swiglu_oai: 5 } as const;
/** Scratch bytes of UNARY and GLU: four f32 for each of up to two sources. */
export const UNARY_SCRATCH = 32;
/**
 * Scratch bytes of FWHT, for up to 28 parts: a vector each of 14 sums, 14 differences and 14
 * elements, and lines of 28 (assembly/ops/fwht_mix.ts).
 */
export const FWHT_SCRATCH = 16 * (3 * 14 + 28);
/** Modes of CPY (assembly/ops/copy.ts): its p0. */
export const COPY = { rows: 0, elements: 1, convert: 2, gather: 3, zeros: 4 } as const;
/** Elements that CPY converts at once, and scratch bytes for them in f32. */
export const COPY_CHUNK = 256;
export const COPY_SCRATCH = 4 * COPY_CHUNK;

export const LAYOUT = { plain: 0, packed: 1 } as const;
export type Layout = keyof typeof LAYOUT;

/** The sync block: each word has a 64-byte line of its own; offsets in 32-bit words. */
export const SYNC = { step: 0, done: 16, arrived: 32, phase: 48, poison: 64, cancel: 80, spin: 96, reached: 112 } as const;
/** Words from one thread's `reached` to the next. */
export const REACHED_STRIDE = 16;
/**
 * Bytes of the sync block: after the words, a line for each possible thread (threads/executor.ts
 * MAX_THREADS).
 */
export const SYNC_SIZE = 4 * (SYNC.reached + REACHED_STRIDE * 512);
/**
 * Low bits of a step's number: the number of threads that take part (assembly/runtime/sync.ts
 * STEP).
 */
export const STEP_THREAD_BITS = 10;
export const STEP_THREADS = 2 ** STEP_THREAD_BITS - 1;
/** Result of a barrier or a step (assembly/runtime/sync.ts). */
export const ENDS = { goOn: 0, cancelled: 1, lost: -1 } as const;
/** Value of SYNC.step that makes threads return. */
export const CLOSED = -1;

/** Names of p0 ... p12 of a record of attention (assembly/ops/attention_params.ts). */
export const ATTENTION_PARAMS = [
  'scale',
  'hd_k',
  'cells',
  'n_head_kv',
  'window',
  'soft_cap',
  'splits',
  'hd_v',
  'hd_out',
  'unified',
  'phi',
  'rot_k',
  'rot_v',
] as const;
/** Cells of a KV split (assembly/ops/kv_cache.ts); attention computes each split by itself. */
export const KV_SPLIT = 256;
/** Keys that are interleaved in the cache: K_CELLS in assembly/ops/kv_cache.ts. */
export const K_CELLS = 16;
/**
 * Most tokens of steps that store a state per KV split, to be merged later
 * (assembly/ops/attention.ts SPLIT_TOKENS).
 */
export const ATTENTION_SPLIT_TOKENS = 4;
/** Floats of a split's state before its outputs (assembly/ops/attention_split.ts STATE). */
export const ATTENTION_STATE = 4;
/** Scratch bytes of KV_STORE (assembly/ops/kv_cache.ts); a rotated cache needs another row. */
export const KV_STORE_SCRATCH = 192 + 1280;
/**
 * Tokens that the delta rule prepares together in a thread's scratch (assembly/ops/recurrent.ts
 * CHUNK).
 */
export const RECURRENT_CHUNK = 8;
/**
 * Rows of attention: that share a split of K and V, of a tile, and that are widened together
 * (assembly/ops/attention_walk.ts, kv_widen.ts).
 */
export const ATTENTION_ROWS = { item: 48, tile: 6, widen: 4 } as const;
/**
 * Scratch bytes for 32 dimensions of values of a block type: weights and factors of two rows
 * (assembly/ops/attention_blocks.ts BLOCK).
 */
export const ATTENTION_BLOCK_VALUES = 2 * 2 * KV_SPLIT + 16;
