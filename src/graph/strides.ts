/**
 * Checks that kernels accept the operands of records (kernels.ts). lower.ts copies operands whose
 * strides do not fit; records that still do not fit are refused.
 */
import { KERNELS, type Operands, type Strides } from './kernels.ts';
import { COPY } from './layout.ts';
import type { OpRecord } from './record.ts';
import { baseOf, hasContiguousRows, isContiguous, list, nbytes, refuse, type Tensor } from './tensor.ts';

/** Modes of CPY by their p0 (layout.ts COPY). */
const COPIES: { readonly [mode: number]: Operands } = {
  [COPY.rows]: { dst: 'rows', src: ['rows'], inPlace: [0] },
  [COPY.elements]: { dst: 'any', src: ['any'], inPlace: [0] },
  [COPY.convert]: { dst: 'rows', src: ['rows'] },
  [COPY.gather]: { dst: 'any', src: ['any'] },
  [COPY.zeros]: { dst: 'rows', src: [] },
};

export const operandsOf = ({ code, params }: OpRecord): Operands => (code === 'CPY' ? COPIES[params[0] as number] : KERNELS[code]);

const meets = (strides: Strides, t: Tensor): boolean => strides === 'any' || (strides === 'rows' ? hasContiguousRows(t) : isContiguous(t));

/**
 * True if two tensors may share bytes: they are views of the same memory, and their ranges of bytes
 * overlap.
 */
export const shareMemory = (a: Tensor, b: Tensor): boolean =>
  baseOf(a) === baseOf(b) && a.viewOffset < b.viewOffset + nbytes(b) && b.viewOffset < a.viewOffset + nbytes(a);

/** True if both tensors have the same elements in the same places. */
const isSame = (a: Tensor, b: Tensor): boolean =>
  baseOf(a) === baseOf(b) &&
  a.viewOffset === b.viewOffset &&
  a.type === b.type &&
  a.ne.every((n, i) => n === b.ne[i] && (n === 1 || a.nb[i] === b.nb[i]));

/**
 * True if the kernel can read source i of a record without a copy: the strides fit, and the source
 * shares no memory with dst, or is dst where the kernel allows that.
 */
export function fits(record: OpRecord, i: number): boolean {
  const { dst, src } = record;
  const s = src[i];
  const { src: strides, inPlace = [], written = [] } = operandsOf(record);
  if (!s) return true;
  if (!strides[i] || !meets(strides[i], s)) return false;
  return written.includes(i) || !shareMemory(s, dst) || (inPlace.includes(i) && isSame(s, dst));
}

const EXPECTED: { readonly [S in Strides]: string } = { any: 'any strides', rows: 'contiguous rows', dense: 'contiguous elements' };

/** @throws ERR_TENSOR_SHAPE for a record that its kernel cannot compute */
export function mustFit(record: OpRecord): void {
  const { code, dst, src, casts, writtenSrc = [] } = record;
  const { dst: strides, src: accepted, written = [] } = operandsOf(record);
  const fail = (why: string, ...tensors: readonly (Tensor | undefined)[]): never =>
    refuse(code, `${why}; this is a defect of the graph's lowering (src/graph/lower.ts)`, ...tensors);
  if (!meets(strides, dst)) fail(`the result has the strides ${list(dst.nb)}; expected ${EXPECTED[strides]}`, dst);
  if (casts?.length && !isContiguous(dst)) fail('the result is cast to other types; expected contiguous elements', dst);
  src.forEach((s, i) => {
    if (!fits(record, i)) {
      const expected = accepted[i] ? `${EXPECTED[accepted[i]]}, and no memory of the result` : 'no such source';
      fail(`source ${i} has the strides ${list(s?.nb)}; expected ${expected}`, s, dst);
    }
    if (s && !written.includes(i) && writtenSrc.some((w) => shareMemory(s, w)))
      fail(`source ${i} shares memory with a source that the op writes; expected memory of its own`, s, dst);
  });
}
