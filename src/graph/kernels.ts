/**
 * Kernels that records call, one row each. A record's code is the number of its row, counted from
 * 1. `npm run generate` writes the dispatch (assembly/runtime/dispatch.ts): the kernel NAME is the
 * function `name` (or `name_op`) of assembly/ops/ that takes an Op.
 */
import { FWHT_SCRATCH, UNARY_SCRATCH } from './layout.ts';

/**
 * 'any': the kernel reads all four strides; 'rows': a row's elements are contiguous, rows lie
 * anywhere; 'dense': contiguous, in order.
 */
export type Strides = 'any' | 'rows' | 'dense';

/**
 * Operands that a kernel accepts: their strides, and the sources that its result may replace.
 * Records are checked against this (strides.ts).
 */
export interface Operands {
  readonly dst: Strides;
  readonly src: readonly Strides[];
  /**
   * Sources that may be dst itself: the thread that writes an element reads it first. All other
   * sources must not share memory with dst.
   */
  readonly inPlace?: readonly number[];
  /** Sources that the kernel also writes (the record's writtenSrc). */
  readonly written?: readonly number[];
}

export interface Kernel extends Operands {
  /**
   * True if the kernel can cast its f32 result to further types while it is in the cache
   * (assembly/ops/casts.ts).
   */
  readonly writesMore?: true;
  /**
   * Parameters of a node that become p0, p1 ...; `f` marks f32. For kernels to which a node of the
   * same name (in lower case) is lowered as one record, with f32 sources and an f32 or i32 result.
   * Nodes of other kernels are lowered by hand (lower.ts).
   */
  readonly params?: readonly (string | { readonly f: string })[];
  /** With params: scratch bytes of a thread. */
  readonly scratch?: number;
}

const kernels = <C extends string>(rows: { readonly [K in C]: Kernel }): { readonly [K in C]: Kernel } => rows;

const ATTENTION: Kernel = {
  dst: 'rows',
  src: ['rows', 'dense', 'dense', 'dense', 'dense', 'dense', 'rows', 'dense', 'dense'],
  written: [5],
};

export const KERNELS = kernels({
  GET_ROWS: { dst: 'rows', src: ['rows', 'any'] },
  QUANTIZE: { dst: 'rows', src: ['rows'] },
  MUL_MAT: { dst: 'rows', src: ['rows', 'rows', 'dense'] },
  MUL_MAT_PACKED: { dst: 'rows', src: ['dense', 'rows', 'dense'] },
  REPACK: { dst: 'dense', src: ['dense'], written: [0] },
  RMS_NORM: { dst: 'rows', src: ['rows', 'rows', 'rows', 'rows'], written: [3], writesMore: true, params: [{ f: 'eps' }] },
  NORM: { dst: 'rows', src: ['rows', 'rows', 'rows'], writesMore: true, params: [{ f: 'eps' }] },
  L2_NORM: { dst: 'rows', src: ['rows'], params: [{ f: 'eps' }] },
  FWHT: { dst: 'rows', src: ['rows'], inPlace: [0], writesMore: true, params: ['n'], scratch: FWHT_SCRATCH.size },
  ROPE: { dst: 'rows', src: ['rows', 'any', 'dense'] },
  KV_STORE: { dst: 'dense', src: ['rows', 'dense'] },
  ATTENTION,
  ATTENTION_MERGE: { ...ATTENTION, writesMore: true },
  BINARY: { dst: 'any', src: ['any', 'any'], inPlace: [0, 1] },
  UNARY: {
    dst: 'rows',
    src: ['rows'],
    writesMore: true,
    params: ['kind', { f: 'a' }, { f: 'b' }, { f: 'c' }, { f: 'd' }],
    scratch: UNARY_SCRATCH.size,
  },
  GLU: { dst: 'rows', src: ['rows', 'rows'], writesMore: true, params: ['kind', 'swapped'], scratch: UNARY_SCRATCH.size },
  CPY: { dst: 'any', src: ['any'] }, // the weakest requirements of all its modes (strides.ts COPIES)
  SET_ROWS: { dst: 'any', src: ['rows', 'any'] },
  SOFT_MAX: { dst: 'rows', src: ['rows', 'rows', 'dense'] },
  DIAG_MASK_INF: { dst: 'rows', src: ['rows'], params: ['n_past'] },
  SUM_ROWS: { dst: 'rows', src: ['rows'], params: [{ f: 'scale' }] },
  ARGMAX: { dst: 'any', src: ['rows'], params: [] },
  TOP_K: { dst: 'rows', src: ['rows'], params: ['ascending'] },
  POOL_1D: { dst: 'rows', src: ['rows'], params: ['avg', 'k', 's'] },
  MEAN_OF_ROWS: { dst: 'rows', src: ['rows', 'any', 'any'] },
  WEIGHTED_SUM: { dst: 'rows', src: ['rows', 'rows'], params: [] },
  IM2COL: { dst: 'rows', src: ['any'] },
  SSM_CONV: { dst: 'rows', src: ['rows', 'rows', 'rows', 'rows', 'dense', 'dense'], written: [3, 5] },
  SSM_SCAN: { dst: 'rows', src: ['rows', 'rows', 'rows', 'rows', 'rows', 'dense', 'dense', 'dense'], written: [5, 7] },
  GATED_DELTA_NET: { dst: 'rows', src: ['rows', 'rows', 'rows', 'rows', 'rows', 'dense', 'dense', 'dense'], written: [5, 7] },
  IN_SUM2: { dst: 'dense', src: ['rows', 'rows', 'dense'], written: [2] },
  GROUP_LIST: { dst: 'dense', src: ['any'] },
  MUL_MAT_PARTS: { dst: 'rows', src: ['rows', 'rows', 'dense'] },
  GROUP_IDS: { dst: 'dense', src: ['any'] },
  QUANTIZE_GROUPS: { dst: 'rows', src: ['rows', 'dense'] },
  ADD_ID: { dst: 'rows', src: ['any', 'any', 'any'], inPlace: [0] },
  INVERSE_LOOKUP: { dst: 'dense', src: ['dense'] },
  MUL_MAT_SPARSE: { dst: 'rows', src: ['rows', 'rows', 'rows', 'dense', 'dense', 'rows'] },
  AXPY: { dst: 'rows', src: ['rows', 'rows', 'rows', 'dense', 'dense'] },
});
export type OpCode = keyof typeof KERNELS;

export const CODE = Object.fromEntries(Object.keys(KERNELS).map((name, i) => [name, i + 1])) as { readonly [K in OpCode]: number };
