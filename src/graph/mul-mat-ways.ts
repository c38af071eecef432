/** Which way a mul_mat goes, in one table (as ggml_cuda_mul_mat's): the first row that fits is taken, and explain() prints its name. */
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { hasContiguousRows, isContiguous, type Tensor } from './tensor.ts';
import { vecDotType } from './vec-dot-type.ts';

export interface MulMatWay {
  readonly code: 'MUL_MAT' | 'MUL_MAT_PACKED';
  /** Types the two sides must have, with contiguous rows. */
  readonly src0: TypeTraits;
  readonly src1: TypeTraits;
  readonly how: string;
}

/** What a packed product by weights of a type takes its activations as. */
type ActType = (weights: TypeTraits) => TypeTraits;

interface Row {
  readonly name: string;
  readonly code: MulMatWay['code'];
  readonly fits: (a: Tensor, b: Tensor, f32: boolean) => boolean;
  readonly types: (a: Tensor, b: Tensor, act: ActType) => readonly [TypeTraits, TypeTraits];
}

const quantised = (t: Tensor): boolean => t.type.blckSize > 1;

const packed = (t: Tensor): boolean => t.layout === 'packed';
const oneColumn = (t: Tensor): boolean => t.ne[1] === 1 && t.ne[2] === 1 && t.ne[3] === 1;

/** Packed floats meet f32 activations, packed blocks 8-bit ones. */
const packedTypes = (a: Tensor, _b: Tensor, act: ActType): readonly [TypeTraits, TypeTraits] => [a.type, act(a.type)];

const WAYS: readonly Row[] = [
  { name: 'packed GEMV', code: 'MUL_MAT_PACKED', fits: (a, b) => packed(a) && oneColumn(b), types: packedTypes },
  { name: 'packed GEMM (GEMV for single columns)', code: 'MUL_MAT_PACKED', fits: packed, types: packedTypes },
  { name: 'weights dequantised, f32 vec_dot', code: 'MUL_MAT', fits: (a, _b, f32) => f32 && quantised(a), types: () => [TYPE.f32, TYPE.f32] },
  { name: 'no vec_dot for the type: weights dequantised, f32 vec_dot', code: 'MUL_MAT', fits: (a) => !vecDotType(a.type), types: () => [TYPE.f32, TYPE.f32] },
  { name: 'integer vec_dot', code: 'MUL_MAT', fits: quantised, types: (a) => [a.type, vecDotType(a.type)!] },
  { name: 'f32 vec_dot', code: 'MUL_MAT', fits: () => true, types: (a) => [a.type, vecDotType(a.type)!] },
];

/** `f32`: weights are dequantised and activations stay f32. `act`: what packed products take them as. */
export function chooseMulMat(a: Tensor, b: Tensor, f32: boolean, act: ActType): MulMatWay {
  const row = WAYS.find((w) => w.fits(a, b, f32))!;
  const [src0, src1] = row.types(a, b, act), columns = b.ne[1] * b.ne[2] * b.ne[3];
  const notes = [
    b.batch ? `up to ${columns} columns` : columns === 1 ? 'one column' : `${columns} columns`,
    ...(a.ne[2] !== b.ne[2] || a.ne[3] !== b.ne[3] ? [`src0 repeated ${b.ne[2] / a.ne[2]} x ${b.ne[3] / a.ne[3]}`] : []),
    ...(hasContiguousRows(a) ? (isContiguous(a) ? [] : ['src0 strided']) : ['src0 made contiguous']),
    ...(hasContiguousRows(b) ? (isContiguous(b) ? [] : ['src1 strided']) : ['src1 made contiguous']),
    ...(src1 === b.type ? [] : [`src1 ${b.type.name} to ${src1.name}`]),
  ];
  return { code: row.code, src0, src1, how: `${a.type.name} x ${src1.name}: ${row.name}, ${notes.join(', ')}` };
}
