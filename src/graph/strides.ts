/**
 * What each kernel takes its operands as: one table of the strides it looks at, and of the sources that its result may replace. Whatever is
 * pushed as a record is held against it: lower.ts copies operands that do not fit, and a record that still breaks its row is no record.
 */
import { COPY, type OpCode } from './layout.ts';
import type { Record } from './record.ts';
import { hasContiguousRows, isContiguous, nbytes, refuse, type Tensor } from './tensor.ts';

/** 'any': all four strides are looked at; 'rows': a row's elements lie side by side, rows lie anywhere; 'dense': no gaps, in order. */
export type Strides = 'any' | 'rows' | 'dense';

export interface Operands {
  readonly dst: Strides;
  readonly src: readonly Strides[];
  /** Sources that may be dst itself: each element is read by the thread that writes it, before it does. All others keep clear of what is written. */
  readonly inPlace?: readonly number[];
  /** Sources that the kernel writes beside dst (the record's alsoWrites). */
  readonly written?: readonly number[];
}

const ATTENTION: Operands = { dst: 'rows', src: ['rows', 'dense', 'dense', 'dense', 'dense', 'dense', 'rows', 'dense'], written: [5] };

const OPERANDS: { readonly [K in Exclude<OpCode, 'CPY'>]: Operands } = {
  GET_ROWS: { dst: 'rows', src: ['rows', 'any'] },
  QUANTIZE: { dst: 'rows', src: ['rows'] },
  MUL_MAT: { dst: 'rows', src: ['rows', 'rows'] },
  MUL_MAT_PACKED: { dst: 'rows', src: ['dense', 'rows'] },
  RMS_NORM: { dst: 'rows', src: ['rows', 'rows', 'rows', 'rows'], written: [3] },
  NORM: { dst: 'rows', src: ['rows', 'rows', 'rows'] },
  L2_NORM: { dst: 'rows', src: ['rows'] },
  ROPE: { dst: 'rows', src: ['rows', 'any', 'dense'] },
  KV_STORE: { dst: 'dense', src: ['rows', 'dense'] },
  ATTENTION,
  ATTENTION_MERGE: ATTENTION,
  BINARY: { dst: 'any', src: ['any', 'any'], inPlace: [0, 1] },
  GLU: { dst: 'rows', src: ['rows', 'rows'] },
  UNARY: { dst: 'rows', src: ['rows'] },
  SET_ROWS: { dst: 'any', src: ['rows', 'any'] },
  SOFT_MAX: { dst: 'rows', src: ['rows', 'rows', 'dense'] },
  DIAG_MASK_INF: { dst: 'rows', src: ['rows'] },
  SUM_ROWS: { dst: 'rows', src: ['rows'] },
  ARGMAX: { dst: 'any', src: ['rows'] },
  TOP_K: { dst: 'rows', src: ['rows'] },
  POOL_1D: { dst: 'rows', src: ['rows'] },
  MEAN_OF_ROWS: { dst: 'rows', src: ['rows', 'any', 'any'] },
  IM2COL: { dst: 'rows', src: ['any'] },
  REPACK: { dst: 'dense', src: [] },
};

/** CPY's ways by their p0 (layout.ts COPY). */
const COPIES: { readonly [way: number]: Operands } = {
  [COPY.rows]: { dst: 'rows', src: ['rows'], inPlace: [0] },
  [COPY.elements]: { dst: 'any', src: ['any'], inPlace: [0] },
  [COPY.convert]: { dst: 'rows', src: ['rows'] },
  [COPY.gather]: { dst: 'any', src: ['any'] },
  [COPY.zeros]: { dst: 'rows', src: [] },
};

export const operandsOf = ({ code, params }: Record): Operands => (code === 'CPY' ? COPIES[params[0] as number] : OPERANDS[code]);

const meets = (strides: Strides, t: Tensor): boolean => strides === 'any' || (strides === 'rows' ? hasContiguousRows(t) : isContiguous(t));

export const baseOf = (t: Tensor): Tensor => t.viewOf ?? t;

/** Whether two tensors may have bytes in common: they look into one memory, and the ranges from first to last byte meet. */
export const shareMemory = (a: Tensor, b: Tensor): boolean =>
  baseOf(a) === baseOf(b) && a.viewOffset < b.viewOffset + nbytes(b) && b.viewOffset < a.viewOffset + nbytes(a);

/** Whether element i of one is element i of the other, for every i. */
const isSame = (a: Tensor, b: Tensor): boolean =>
  baseOf(a) === baseOf(b) && a.viewOffset === b.viewOffset && a.type === b.type && a.ne.every((n, i) => n === b.ne[i] && (n === 1 || a.nb[i] === b.nb[i]));

/** Whether source i of a record is as its kernel takes it: its strides, and clear of what is written or in the very place of dst. */
export function fits(record: Record, i: number): boolean {
  const { dst, src } = record, s = src[i], { src: strides, inPlace = [], written = [] } = operandsOf(record);
  if (!s) return true;
  if (!strides[i] || !meets(strides[i], s)) return false;
  return written.includes(i) || !shareMemory(s, dst) || (inPlace.includes(i) && isSame(s, dst));
}

/** @throws ERR_TENSOR_SHAPE for a record that its kernel would compute something else of */
export function mustFit(record: Record): void {
  const { code, dst, src, also, alsoWrites = [] } = record, { written = [] } = operandsOf(record);
  const check = (ok: boolean, what: string, ...tensors: readonly (Tensor | undefined)[]): void => {
    if (!ok) refuse(code, `${what}; the graph's lowering must not make such a record (src/graph/strides.ts)`, ...tensors);
  };
  check(meets(operandsOf(record).dst, dst), `its kernel writes ${operandsOf(record).dst} strides, got [${dst.nb.join(', ')}]`, dst);
  check(!also?.length || isContiguous(dst), 'other forms are written of contiguous results only', dst);
  src.forEach((s, i) => {
    check(fits(record, i), `its kernel takes source ${i} with ${operandsOf(record).src[i] ?? 'no'} strides and clear of what it writes, got [${s?.nb.join(', ')}]`, s, dst);
    check(!s || written.includes(i) || !alsoWrites.some((w) => shareMemory(s, w)), `source ${i} lies in what is written beside the result`, s, dst);
  });
}
