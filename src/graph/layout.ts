/** Byte layout of what the host writes for the kernels: the mirror of assembly/tensor.ts and assembly/sync.ts. */

export const TENSOR_SIZE = 48;
export const OP_SIZE = 128;
export const PLAN_SIZE = 32;
export const MAX_SRC = 8;

/** Offsets in 32-bit words. */
export const TENSOR = { type: 0, layout: 1, ne: 2, nb: 6, data: 10, next: 11 } as const;
export const OP = { code: 0, flags: 1, dst: 2, src: 3, also: 11, cursor: 12, params: 13 } as const;
export const PLAN = { nOps: 0, ops: 1, nDims: 2, dims: 3, cursorBytes: 4, cursors: 5, scratch: 6, scratchSize: 7 } as const;

export const OP_BARRIER = 1;
/** Cursors an op has, for the ranges its work is parted in. */
export const RANGES = 8;

/** Op codes of assembly/compute.ts. */
export const CODE = {
  GET_ROWS: 1,
  QUANTIZE: 2,
  MUL_MAT: 3,
  RMS_NORM: 4,
  ROPE: 5,
  KV_STORE: 6,
  ATTENTION: 7,
  ATTENTION_MERGE: 8,
  BINARY: 9,
  GLU: 10,
  UNARY: 11,
  NORM: 12,
  L2_NORM: 13,
  CPY: 14,
  SET_ROWS: 15,
  SOFT_MAX: 16,
  DIAG_MASK_INF: 17,
  SUM_ROWS: 18,
  ARGMAX: 19,
  TOP_K: 20,
  POOL_1D: 21,
  MEAN_OF_ROWS: 22,
  MUL_MAT_PACKED: 23,
  REPACK: 24,
  IM2COL: 25,
} as const;
export type OpCode = keyof typeof CODE;

/** The least type id of the packed kernels' activations (assembly/act.ts): behind all of ggml's. */
export const TYPE_ACT = 256;

/** The loops of packed products (assembly/loops.ts), as explain() names them. */
export const LOOPS = ['gemv_16x1', 'gemv_16x1_s16', 'gemv_16x1_q2_K', 'gemv_16x1_q6_K', 'gemv_16x1_signs', 'gemm_16xn', 'gemm_8x4', 'gemm_8x4_i16', 'gemm_8x4_nibbles', 'gemv_f32_16x1', 'gemm_f32_8x4'] as const;

/** What BINARY does (assembly/ops/binary.ts), its p0. */
export const BINARY = { add: 0, sub: 1, mul: 2, div: 3, repeat: 4 } as const;
/** What UNARY does (assembly/ops/unary.ts), its p0; GLU takes those of the gates. */
export const UNARY = { silu: 0, gelu: 1, gelu_quick: 2, gelu_erf: 3, relu: 4, tanh: 5, sigmoid: 6, exp: 7, scale: 8, clamp: 9, soft_cap: 10, sqr: 11, sqrt: 12, log: 13, neg: 14, abs: 15, step: 16 } as const;
/** Scratch of UNARY and GLU: four elements of one and of two sources. */
export const FOURS_SCRATCH = 32;
/** CPY's p0 (assembly/ops/copy.ts). */
export const COPY = { rows: 0, elements: 1, convert: 2, gather: 3, zeros: 4 } as const;
/** Elements CPY converts at once, and the scratch that takes. */
export const COPY_CHUNK = 256;
export const COPY_SCRATCH = 4 * COPY_CHUNK;

export const LAYOUT = { plain: 0, packed: 1 } as const;
export type Layout = keyof typeof LAYOUT;

/** The sync block: one 64-byte line a word; offsets in 32-bit words. */
export const SYNC = { step: 0, done: 16, arrived: 32, phase: 48, poison: 64, cancel: 80, plan: 96, spin: 99, reached: 112 } as const;
/** Words from one thread's `reached` to the next. */
export const REACHED_STRIDE = 16;
/** With a line for each thread there can be (threads/executor.ts MAX_THREADS). */
export const SYNC_SIZE = 4 * (SYNC.reached + REACHED_STRIDE * 512);
/** SYNC.step's value when the threads have gone home. */
export const CLOSED = -1;

/** Cells of one attention part (assembly/ops/kv_cache.ts PART): the cache is cut into these. */
export const ATTENTION_PART = 256;
/** Keys that lie side by side in the cache: K_CELLS in assembly/ops/kv_cache.ts. */
export const K_CELLS = 16;
/** Steps of up to so many tokens store their parts' states (assembly/ops/attention.ts SPLIT_TOKENS). */
export const ATTENTION_SPLIT_TOKENS = 4;
/** Floats before a state's outputs (assembly/ops/attention.ts STATE). */
export const ATTENTION_STATE = 4;
/** Scratch of assembly/ops/kv_cache.ts kv_store. */
export const KV_STORE_SCRATCH = 192;
