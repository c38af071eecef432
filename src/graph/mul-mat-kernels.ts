/**
 * Table of the kernels for mul_mat (as in ggml_cuda_mul_mat): the first row that fits is used, and
 * explain() prints its name.
 */
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { describeGroups } from './groups.ts';
import { GROUP_COLUMNS } from './layout.ts';
import { actType, loopOf, type Target } from './packed-products.ts';
import type { Explained } from './record.ts';
import { hasContiguousRows, isContiguous, nelements, type Tensor } from './tensor.ts';
import { vecDotType } from './vec-dot-type.ts';

export interface MulMatKernel {
  readonly code: 'MUL_MAT' | 'MUL_MAT_PACKED';
  /** Types that the two sides must have, with contiguous rows. */
  readonly src0: TypeTraits;
  readonly src1: TypeTraits;
  /**
   * Text for explain(). Made on demand, because it looks at every number of columns, which takes
   * longer than planning a model.
   */
  readonly how: (of: Explained) => string;
}

interface Row {
  readonly name: string;
  readonly code: MulMatKernel['code'];
  readonly fits: (a: Tensor, b: Tensor, f32: boolean) => boolean;
  readonly types: (a: Tensor, b: Tensor, target: Target) => readonly [TypeTraits, TypeTraits];
}

const quantised = (t: Tensor): boolean => t.type.blckSize > 1;

const packed = (t: Tensor): boolean => t.layout === 'packed';

/** Packed floats are multiplied by f32 activations, packed blocks by 8-bit ones. */
const packedTypes = (a: Tensor, _b: Tensor, target: Target): readonly [TypeTraits, TypeTraits] => [a.type, actType(a.type, target)];

const MUL_MAT_KERNELS: readonly Row[] = [
  { name: 'packed', code: 'MUL_MAT_PACKED', fits: packed, types: packedTypes },
  {
    name: 'weights dequantised, f32 vec_dot',
    code: 'MUL_MAT',
    fits: (a, _b, f32) => f32 && quantised(a),
    types: () => [TYPE.f32, TYPE.f32],
  },
  {
    name: 'no vec_dot for the type: weights dequantised, f32 vec_dot',
    code: 'MUL_MAT',
    fits: (a) => !vecDotType(a.type),
    types: () => [TYPE.f32, TYPE.f32],
  },
  { name: 'integer vec_dot', code: 'MUL_MAT', fits: quantised, types: (a) => [a.type, vecDotType(a.type)!] },
  { name: 'f32 vec_dot', code: 'MUL_MAT', fits: () => true, types: (a) => [a.type, vecDotType(a.type)!] },
];

/** Loops that compute n columns: "gemm_8x4 for 4 columns, gemv_16x1 for 2", or one name alone. */
function loopsOf(weights: TypeTraits, n: number, target: Target): string {
  const runs: { loop: string; columns: number }[] = [];
  for (let c = 0; c < n; c++) {
    const loop = loopOf(weights, target.isa, c, n);
    const last = runs[runs.length - 1];
    if (last?.loop === loop) last.columns++;
    else runs.push({ loop, columns: 1 });
  }
  return runs.length === 1 ? runs[0].loop : runs.map((r) => `${r.loop} for ${r.columns} column${r.columns === 1 ? '' : 's'}`).join(', ');
}

/**
 * Loops for 1 to n columns, by the number of columns; loops for left-over columns follow in
 * brackets.
 */
function loopsUpTo(weights: TypeTraits, n: number, target: Target): string {
  const ranges: { loop: string; to: number }[] = [];
  const rest = new Set<string>();
  for (let m = 1; m <= n; m++) {
    const loop = loopOf(weights, target.isa, 0, m);
    const last = ranges[ranges.length - 1];
    if (last?.loop === loop) last.to = m;
    else ranges.push({ loop, to: m });
    if (loopOf(weights, target.isa, m - 1, m) !== loop) rest.add(loopOf(weights, target.isa, m - 1, m));
  }
  return `${ranges.map((r) => `${r.loop} up to ${r.to} column${r.to === 1 ? '' : 's'}`).join(', ')}${rest.size > 0 ? ` (left over: ${[...rest].join(', ')})` : ''}`;
}

/**
 * Chooses the kernel of a product.
 * @param f32 weights are dequantised and activations stay f32
 * @param ids those of mul_mat_id: the matrix of each column
 */
export function chooseMulMat(a: Tensor, b: Tensor, f32: boolean, target: Target, ids?: Tensor): MulMatKernel {
  const row = MUL_MAT_KERNELS.find((w) => w.fits(a, b, f32))!;
  const [src0, src1] = row.types(a, b, target);
  return {
    code: row.code,
    src0,
    src1,
    how: (of) => `${a.type.name} x ${src1.name}: ${row.name}, ${notesOn(a, b, src1, target, of, ids)}`,
  };
}

function notesOn(a: Tensor, b: Tensor, src1: TypeTraits, target: Target, of: Explained, ids: Tensor | undefined): string {
  const columns = ids ? nelements(ids) : b.ne[1] * b.ne[2] * b.ne[3];
  const loops = b.batch || ids ? loopsUpTo : loopsOf;
  const repeats = !ids && (a.ne[2] !== b.ne[2] || a.ne[3] !== b.ne[3]);
  const notes = [
    ...(packed(a) ? [loops(a.type, ids ? Math.min(columns, GROUP_COLUMNS) : b.ne[1], target)] : []),
    b.batch ? `up to ${columns} columns` : columns === 1 ? 'one column' : `${columns} columns`,
    ...(ids ? [describeGroups(ids, a.ne[2], a.ne[1], packed(a), of)] : []),
    ...(repeats ? [`src0 repeated ${b.ne[2] / a.ne[2]} x ${b.ne[3] / a.ne[3]}`] : []),
    ...(hasContiguousRows(a) ? (isContiguous(a) ? [] : ['src0 strided']) : ['src0 made contiguous']),
    ...(hasContiguousRows(b) ? (isContiguous(b) ? [] : ['src1 strided']) : ['src1 made contiguous']),
    ...(src1 === b.type ? [] : [`src1 ${b.type.name} to ${src1.name}`]),
  ];
  return notes.join(', ');
}
