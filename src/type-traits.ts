/**
 * ggml's tensor types, one row each. Everything else that knows types by name is derived from this
 * table. Host, tests and benches import it; `npm run generate` writes the kernels' side
 * (assembly/type/ids.ts, traits.ts and blocks.ts, assembly/matmul/by_type.ts and panel_room.ts).
 * Source: ggml.h `enum ggml_type` and ggml.c `type_traits`.
 */
import {
  BITS,
  CODES,
  CODES_FEW,
  FLOATS,
  GRID,
  HALVES,
  HALVES_2,
  HALVES_6,
  NVFP4,
  OF_LEVELS,
  SIGNED,
  SUPER_FEW,
  SUPER_SIGNED,
  TRITS,
  packedBy,
  type PackedFormat,
} from './packed-format.ts';

export interface TypeTraits<N extends string = string> {
  /** Id in GGUF, or an id that no file can have. */
  readonly id: number;
  readonly name: N;
  /** Elements of one block. */
  readonly blckSize: number;
  /** Bytes of one block. */
  readonly typeSize: number;
  /**
   * Undefined for types without kernels. Every other type can be read
   * (assembly/type/block/<name>.ts, dequantize_row_<name>).
   */
  readonly kernels?: TypeKernels;
}

/** Kernels of a type besides dequantize_row. */
export interface TypeKernels {
  /**
   * Type of activations in dot products with this type (ggml's vec_dot_type): the kernel is
   * vec_dot_<name>_<vecDotType>. Undefined: no vec_dot.
   */
  readonly vecDotType?: 'f32' | 'q8_0' | 'q8_1' | 'q8_K';
  /**
   * Kernels that convert rows of f32 to this type; undefined: none. `row` has
   * quantize_row_<name>(x, y, k). `weighted` also has quantize_imatrix_<name>(x, y, k, imatrix,
   * work), for rows with importance weights. `search` searches for scales, with and without
   * weights: quantize_row_<name>(x, y, k, work), and quantize_imatrix_<name>, whose imatrix may be
   * 0.
   */
  readonly quantizer?: 'row' | 'weighted' | 'search';
  /**
   * quantize.wasm converts rows of f32 to this type (assembly/quantize/): with importance weights,
   * and if `plain` also without (ggml_quantize_requires_imatrix).
   */
  readonly gridQuantizer?: 'plain' | 'imatrix';
  /**
   * Products have packed loops: the class <NAME> in assembly/matmul/format/<name>.ts (of f32, f16
   * and bf16: float.ts) says where codes lie.
   */
  readonly packed?: PackedFormat;
  /**
   * Selected rows (mul_mat_sparse, axpy) are multiplied as they are, without packing
   * (assembly/matmul/rows_8x1.ts).
   */
  readonly plainRows?: true;
  /**
   * Alternative packed form, which takes more memory and is faster in generation (iqWeights of
   * loadModel). Results have the same bits.
   */
  readonly fast?: TypeTraits;
  /**
   * Byte offsets of a block's f16 scales and minimums, or another kind of scale: f32, E8M0 in the
   * first byte, UE4M3 in the first four, or iq1_m's bits in four places.
   */
  readonly scales?: readonly number[] | 'f32' | 'e8m0' | 'ue4m3' | 'iq1_m';
  /**
   * llama.h's `enum llama_ftype` number of files whose matrices all have this type, if such files
   * exist.
   */
  readonly ftype?: number;
}

const row = <N extends string>(id: number, name: N, blckSize: number, typeSize: number, kernels?: TypeKernels): TypeTraits<N> => ({
  id,
  name,
  blckSize,
  typeSize,
  kernels,
});

const QK_K = 256;

/** First id of quantlet's own types, which have no number in GGUF and are never in a file. */
const OWN_TYPES = 240;

/**
 * 4-bit codes that weights of a grid can be packed as, for speed: 2 to 3 times as fast in
 * generation, at 4.3 bits a weight instead of 1.6 to 3.4. Only packed weights have these types;
 * files and other tensors never do (assembly/matmul/format/levels.ts).
 */
export const LEVELS = {
  iq1: row(240, 'iq1_levels', QK_K, 138, { packed: packedBy(OF_LEVELS, { factor: 0.125 }) }),
  iq2: row(241, 'iq2_levels', QK_K, 138, { packed: packedBy(OF_LEVELS, { factor: 0.125 }) }),
  iq3_xxs: row(242, 'iq3_xxs_levels', QK_K, 138, { packed: packedBy(OF_LEVELS, { factor: 0.5 }) }),
  iq3_s: row(243, 'iq3_s_levels', QK_K, 138, { packed: packedBy(OF_LEVELS, { factor: 1 }) }),
} as const satisfies Record<string, TypeTraits>;

const tq2_0 = row(35, 'tq2_0', QK_K, 66, {
  quantizer: 'row',
  packed: packedBy(BITS, { width: 2, centre: 1, subs: 8, twoBits: true }, 'TwoBits'),
  scales: [64],
  ftype: 37,
});

/** Keyed by ggml's own names, in lower case except for the K (`q4_0`, `q4_K`, `iq4_nl`). */
export const TYPE = {
  f32: row(0, 'f32', 1, 4, { vecDotType: 'f32', quantizer: 'row', packed: FLOATS, ftype: 0 }),
  f16: row(1, 'f16', 1, 2, { vecDotType: 'f32', quantizer: 'row', packed: FLOATS, ftype: 1 }),
  q4_0: row(2, 'q4_0', 32, 18, {
    vecDotType: 'q8_0',
    quantizer: 'weighted',
    packed: packedBy(CODES_FEW, { width: 4, centre: 8 }),
    plainRows: true,
    scales: [0],
    ftype: 2,
  }),
  q4_1: row(3, 'q4_1', 32, 20, {
    vecDotType: 'q8_1',
    quantizer: 'weighted',
    packed: packedBy(CODES, { width: 4, hasMin: true }),
    scales: [0, 2],
    ftype: 3,
  }),
  q5_0: row(6, 'q5_0', 32, 22, {
    vecDotType: 'q8_0',
    quantizer: 'weighted',
    packed: packedBy(CODES, { width: 5, centre: 16 }),
    scales: [0],
    ftype: 8,
  }),
  q5_1: row(7, 'q5_1', 32, 24, {
    vecDotType: 'q8_1',
    quantizer: 'weighted',
    packed: packedBy(CODES, { width: 5, hasMin: true }),
    scales: [0, 2],
    ftype: 9,
  }),
  q8_0: row(8, 'q8_0', 32, 34, {
    vecDotType: 'q8_0',
    quantizer: 'row',
    packed: packedBy(SIGNED, { width: 8 }),
    plainRows: true,
    scales: [0],
    ftype: 7,
  }),
  q8_1: row(9, 'q8_1', 32, 36, { quantizer: 'row', scales: [0, 2] }),
  q2_K: row(10, 'q2_K', QK_K, 84, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(HALVES_2, { width: 2, scaleBits: 4, hasMin: true }),
    scales: [80, 82],
  }),
  q3_K: row(11, 'q3_K', QK_K, 110, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(HALVES, { width: 3, centre: 4, scaleBits: 5 }),
    scales: [108],
  }),
  q4_K: row(12, 'q4_K', QK_K, 144, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(SUPER_FEW, { width: 4 }, 'KScales'),
    scales: [0, 2],
  }),
  q5_K: row(13, 'q5_K', QK_K, 176, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(SUPER_FEW, { width: 5 }, 'KScales'),
    scales: [0, 2],
  }),
  q6_K: row(14, 'q6_K', QK_K, 210, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(HALVES_6, { width: 6, centre: 32, scaleBits: 7 }),
    scales: [208],
    ftype: 18,
  }),
  q8_K: row(15, 'q8_K', QK_K, 292, { quantizer: 'row', scales: 'f32' }),
  iq2_xxs: row(16, 'iq2_xxs', QK_K, 66, {
    gridQuantizer: 'imatrix',
    packed: packedBy(GRID, { hasSigns: true, factor: 0.125 }),
    fast: LEVELS.iq2,
    scales: [0],
  }),
  iq2_xs: row(17, 'iq2_xs', QK_K, 74, {
    gridQuantizer: 'imatrix',
    packed: packedBy(GRID, { hasSigns: true, factor: 0.125 }),
    fast: LEVELS.iq2,
    scales: [0],
  }),
  iq3_xxs: row(18, 'iq3_xxs', QK_K, 98, {
    gridQuantizer: 'plain',
    packed: packedBy(GRID, { hasSigns: true, fours: true, even: true, factor: 0.25 }),
    fast: LEVELS.iq3_xxs,
    scales: [0],
  }),
  iq1_s: row(19, 'iq1_s', QK_K, 50, { gridQuantizer: 'imatrix', packed: packedBy(GRID, { factor: 0.125 }), fast: LEVELS.iq1, scales: [0] }),
  iq4_nl: row(20, 'iq4_nl', 32, 18, {
    vecDotType: 'q8_0',
    quantizer: 'search',
    packed: packedBy(SIGNED, { width: 8 }, 'Levels'),
    scales: [0],
    ftype: 25,
  }),
  iq3_s: row(21, 'iq3_s', QK_K, 110, {
    gridQuantizer: 'plain',
    packed: packedBy(GRID, { hasSigns: true, fours: true, factor: 1 }),
    fast: LEVELS.iq3_s,
    scales: [0],
  }),
  iq2_s: row(22, 'iq2_s', QK_K, 82, {
    gridQuantizer: 'plain',
    packed: packedBy(GRID, { hasSigns: true, factor: 0.125 }),
    fast: LEVELS.iq2,
    scales: [0],
  }),
  iq4_xs: row(23, 'iq4_xs', QK_K, 136, {
    vecDotType: 'q8_K',
    quantizer: 'search',
    packed: packedBy(SUPER_SIGNED, { width: 8 }, 'Levels'),
    scales: [0],
    ftype: 30,
  }),
  i8: row(24, 'i8', 1, 1),
  i16: row(25, 'i16', 1, 2),
  i32: row(26, 'i32', 1, 4),
  i64: row(27, 'i64', 1, 8),
  f64: row(28, 'f64', 1, 8),
  iq1_m: row(29, 'iq1_m', QK_K, 56, {
    gridQuantizer: 'plain',
    packed: packedBy(GRID, { factor: 0.125 }),
    fast: LEVELS.iq1,
    scales: 'iq1_m',
  }),
  bf16: row(30, 'bf16', 1, 2, { vecDotType: 'f32', quantizer: 'row', packed: FLOATS, ftype: 32 }),
  tq1_0: row(34, 'tq1_0', QK_K, 54, {
    quantizer: 'row',
    packed: packedBy(TRITS, { width: 2, centre: 1, largest: 2, subs: 8 }),
    fast: tq2_0,
    scales: [52],
    ftype: 36,
  }),
  tq2_0,
  mxfp4: row(39, 'mxfp4', 32, 17, {
    quantizer: 'row',
    packed: packedBy(CODES, { width: 5, centre: 12, largest: 24, f16Vectors: 0 }),
    scales: 'e8m0',
  }),
  nvfp4: row(40, 'nvfp4', 64, 36, {
    quantizer: 'row',
    packed: packedBy(NVFP4, { width: 5, centre: 12, largest: 24, subs: 2, f16Vectors: 0 }),
    scales: 'ue4m3',
  }),
  q1_0: row(41, 'q1_0', 128, 18, {
    quantizer: 'row',
    packed: packedBy(BITS, { width: 2, centre: 1, subs: 4, oneBit: true }),
    scales: [0],
    ftype: 40,
  }),
  q2_0: row(42, 'q2_0', 64, 18, {
    quantizer: 'row',
    packed: packedBy(BITS, { width: 2, centre: 1, subs: 2, twoBits: true }, 'TwoBits'),
    scales: [0],
    ftype: 41,
  }),
  mxfp8_e5m2: row(254, 'mxfp8_e5m2', 32, 33, { quantizer: 'row', scales: 'e8m0' }),
  mxfp8_e4m3: row(255, 'mxfp8_e4m3', 32, 33, { quantizer: 'row', scales: 'e8m0' }),
} as const satisfies Record<string, TypeTraits>;

export type TypeName = keyof typeof TYPE;

const byId = new Map<number, TypeTraits>(
  Object.values(TYPE)
    .filter((t) => t.id < OWN_TYPES)
    .map((t) => [t.id, t]),
);

/** Traits of a GGUF type id; undefined for ids that ggml does not have (or has retired). */
export const typeById = (id: number): TypeTraits | undefined => byId.get(id);

/** Traits of a type by name; undefined for an unknown name. */
export const typeNamed = (name: string): TypeTraits | undefined => (Object.hasOwn(TYPE, name) ? TYPE[name as TypeName] : undefined);

/** Types for which `is` returns true, in the table's order. */
export const typesWith = (is: (kernels: TypeKernels, type: TypeTraits) => unknown): readonly TypeTraits<TypeName>[] =>
  Object.values(TYPE).filter((t) => t.kernels && is(t.kernels, t));

/** True for types of the OCP Microscaling Formats, whose scale is a power of two (E8M0). */
export const isMx = ({ kernels }: TypeTraits): boolean => kernels?.scales === 'e8m0';

/** Names of types, for messages and tests. */
export const namesOf = (types: readonly TypeTraits<TypeName>[]): readonly TypeName[] => types.map((t) => t.name);

/** Bytes of one row of `ne0` elements (ggml_row_size). `ne0` must be a multiple of the block. */
export const rowSize = (type: TypeTraits, ne0: number): number => (ne0 / type.blckSize) * type.typeSize;
