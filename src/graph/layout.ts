/** Byte layout of what the host writes for the kernels: the mirror of assembly/tensor.ts and assembly/sync.ts. */

export const TENSOR_SIZE = 48;
export const OP_SIZE = 128;
export const PLAN_SIZE = 32;
export const MAX_SRC = 6;

/** Offsets in 32-bit words. */
export const TENSOR = { type: 0, layout: 1, ne: 2, nb: 6, data: 10 } as const;
export const OP = { code: 0, flags: 1, dst: 2, src: 3, cursor: 9, params: 10 } as const;
export const PLAN = { nOps: 0, ops: 1, nDims: 2, dims: 3, nCursors: 4, cursors: 5, scratch: 6, scratchSize: 7 } as const;

export const OP_BARRIER = 1;

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
  ADD: 9,
  SWIGLU: 10,
  MUL_MAT_PACKED: 11,
  REPACK: 12,
} as const;
export type OpCode = keyof typeof CODE;

/** Type id of the packed kernels' activations (assembly/act.ts): behind all of ggml's. */
export const TYPE_ACT = 256;

export const LAYOUT = { plain: 0, packed: 1 } as const;
export type Layout = keyof typeof LAYOUT;

/** The sync block: one 64-byte line a word; offsets in 32-bit words. */
export const SYNC = { step: 0, done: 16, arrived: 32, phase: 48, poison: 64, cancel: 80, plan: 96, spin: 99 } as const;
export const SYNC_SIZE = 448;
/** SYNC.step's value when the threads have gone home. */
export const CLOSED = -1;

/** Cells of one attention part (assembly/attention.ts PART): the cache is cut into these. */
export const ATTENTION_PART = 256;
/** Steps of up to so many tokens store their parts' states (assembly/attention.ts SPLIT_TOKENS). */
export const ATTENTION_SPLIT_TOKENS = 4;
/** Floats before a state's outputs (assembly/attention.ts STATE). */
export const ATTENTION_STATE = 4;
