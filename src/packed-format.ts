/**
 * Packed formats in the table of types. A format's code says where codes lie
 * (assembly/matmul/format/<name>.ts); everything else is in the type's row. `npm run generate`
 * writes the kernels' side from the rows, and planning reads them here, without a compiled module.
 */

/** Instruction sets that kernels are built for. Each has loops of its own. */
export type Isa = 'simd' | 'relaxed' | 'dotadd';
export const ISAS: readonly Isa[] = ['simd', 'relaxed', 'dotadd'];

/** One value for all instruction sets, or one for each. */
export type ByIsa<T> = T | Readonly<Record<Isa, T>>;

/** @returns the value of `cell` for this instruction set */
export const forIsa = <T extends string>(cell: ByIsa<T>, isa: Isa): T => (typeof cell === 'string' ? cell : cell[isa]);

/**
 * Loops of packed products. A name has the rows x columns of sums that the loop keeps, and a suffix
 * for the formats it is made for:
 *
 * | suffix | formats |
 * |---|---|
 * | s16 | a scale for every 16 weights |
 * | q2_K, q6_K | such scales, and codes of 2 or 6 bits |
 * | signs | 8-bit codes, to which the activations' signs are applied |
 * | i16, nibbles | codes as i16, or as two nibbles |
 * | bits | codes of 1 and 2 bits without integer scales |
 * | trits | codes of base 3 |
 * | grid, levels | entries of a grid, or their 4-bit levels |
 * | nvfp4 | f32 scales |
 */
export type ColumnLoop =
  | 'gemv_16x1'
  | 'gemv_16x1_s16'
  | 'gemv_16x1_q2_K'
  | 'gemv_16x1_q6_K'
  | 'gemv_16x1_signs'
  | 'gemv_16x1_bits'
  | 'gemv_16x1_grid'
  | 'gemv_16x1_trits'
  | 'gemv_16x1_nvfp4'
  | 'gemv_16x1_levels'
  | 'gemv_f32_16x1';
export type TileLoop = 'gemm_8x4' | 'gemm_8x4_i16' | 'gemm_8x4_nibbles' | 'gemm_8x4_bits' | 'gemm_8x4_grid' | 'gemm_f32_8x4';
export type Loop = ColumnLoop | TileLoop | 'gemm_16xn';

/**
 * Layout of activation columns outside of column blocks (assembly/matmul/act.ts). gemm_16xn reads
 * `few`.
 */
export type ActLayout = 'plain' | 'few' | 'signs' | 'signs_i8' | 'pairs';

/** Loops that compute a product, and the form of activations that they need. */
export interface Loops {
  /** Loop for one column. */
  readonly column: ByIsa<ColumnLoop>;
  /** Loop for four columns over a panel. */
  readonly tile: ByIsa<TileLoop>;
  /** Function that makes the panel. Default unpack_blocks. */
  readonly unpack?: 'unpack_grid' | 'unpack_levels' | 'unpack_bits' | 'unpack_trits' | 'unpack_f32';
  /** Layout of the activations; undefined: they stay f32. */
  readonly act?: ByIsa<ActLayout>;
  /** Number of activations that share a scale. */
  readonly actBlock?: 32 | 64 | 256;
}

/**
 * Properties of codes that the loops ask for (assembly/matmul/format/format.ts). Omitted ones are
 * false, or have the default stated.
 */
export interface CodeFacts {
  /** Bits of a code. 8: signed; fewer: unsigned. */
  readonly width?: number;
  /** Number subtracted from every code. Default 0. */
  readonly centre?: number;
  /** Largest code. Default: all bits of `width` set. */
  readonly largest?: number;
  /** Sub-blocks of 32 weights in a block. Default 8 in a super-block, else 1. */
  readonly subs?: number;
  /** A block has 8 sub-blocks with integer scales, whose integer products are added to one sum. */
  readonly superBlock?: true;
  /** Each half of a sub-block has its own scale (and minimum). */
  readonly s16?: true;
  /** With s16: bits of the largest scale. */
  readonly scaleBits?: number;
  /** Weights have a minimum. */
  readonly hasMin?: true;
  /** f32 scales for every 16 weights, and no d in a block. */
  readonly f32Scales?: true;
  /** Codes of one bit, of two bits, or of base 3, without integer scales. */
  readonly oneBit?: true;
  readonly twoBits?: true;
  readonly trits?: true;
  /**
   * Codes are entries of a grid. `fours`: entries have four values, not eight; `hasSigns`: with
   * signs; `even`: with even values.
   */
  readonly grid?: true;
  readonly fours?: true;
  readonly hasSigns?: true;
  readonly even?: true;
  /** Factor of a grid's values. */
  readonly factor?: number;
  /**
   * Vectors of 16 f16 at the start of a packed block, which must be finite. Default 2 with minima,
   * else 1.
   */
  readonly f16Vectors?: number;
}

export interface PackedFormat extends Loops {
  readonly facts: CodeFacts;
  /** Class in assembly/matmul/format/ that several formats share. */
  readonly kind?: Kind | undefined;
}

/** Classes that formats extend. */
export type Kind = 'KScales' | 'Levels' | 'TwoBits';
/** Files of these classes. */
export const KINDS: { readonly [kind in Kind]: string } = { KScales: 'k_scales', Levels: 'nibble_levels', TwoBits: 'few_bits' };

interface LoopsOf extends Loops {
  /** Properties of all formats of these loops. */
  readonly facts?: CodeFacts;
}

export const packedBy = (loops: LoopsOf, facts: CodeFacts, kind?: Kind): PackedFormat => ({
  ...loops,
  facts: { ...loops.facts, ...facts },
  kind,
});

// ---- Loops, and their formats ----

/** f32, f16 and bf16, with f32 activations. */
export const FLOATS: PackedFormat = { column: 'gemv_f32_16x1', tile: 'gemm_f32_8x4', unpack: 'unpack_f32', facts: {} };

/** Unsigned codes of up to 7 bits. */
export const CODES: LoopsOf = { column: 'gemv_16x1', tile: 'gemm_8x4', act: 'plain', actBlock: 32 };

/**
 * CODES with gemm_16xn for few columns, which costs 1.5 KB of code for each format; for the formats
 * of most models. Without relaxed SIMD there are too few registers for its 16-bit codes.
 */
export const CODES_FEW: LoopsOf = { ...CODES, act: { simd: 'plain', relaxed: 'few', dotadd: 'few' } };
/** CODES_FEW in super-blocks with minima. */
export const SUPER_FEW: LoopsOf = { ...CODES_FEW, actBlock: 256, facts: { superBlock: true, hasMin: true } };

/** Scales of 16 weights: codes of 3 and 4 bits (HALVES), of 2, and of 6. */
export const HALVES: LoopsOf = { ...CODES, column: 'gemv_16x1_s16', actBlock: 256, facts: { superBlock: true, s16: true } };
export const HALVES_2: LoopsOf = {
  ...HALVES,
  column: { simd: 'gemv_16x1_s16', relaxed: 'gemv_16x1_q2_K', dotadd: 'gemv_16x1_s16' },
  act: { simd: 'plain', relaxed: 'pairs', dotadd: 'plain' },
};
export const HALVES_6: LoopsOf = { ...HALVES, column: 'gemv_16x1_q6_K' };
/** Scales of 16 weights, as f32. */
export const NVFP4: LoopsOf = { ...HALVES, column: 'gemv_16x1_nvfp4', actBlock: 64, facts: { ...HALVES.facts, f32Scales: true } };

/**
 * Signed codes of 8 bits, which do not fit the 7-bit operand of the relaxed dot
 * (assembly/matmul/dot_signed.ts).
 */
export const SIGNED: LoopsOf = {
  column: { simd: 'gemv_16x1', relaxed: 'gemv_16x1_signs', dotadd: 'gemv_16x1_signs' },
  tile: { simd: 'gemm_8x4_i16', relaxed: 'gemm_8x4_i16', dotadd: 'gemm_8x4_nibbles' },
  act: { simd: 'plain', relaxed: 'signs', dotadd: 'signs' },
  actBlock: 32,
};
export const SUPER_SIGNED: LoopsOf = { ...SIGNED, actBlock: 256, facts: { superBlock: true } };

/** Codes of 1 and 2 bits, and of base 3: f32 sums are updated once for 64 weights. */
export const BITS: LoopsOf = { column: 'gemv_16x1_bits', tile: 'gemm_8x4_bits', unpack: 'unpack_bits', act: 'plain', actBlock: 64 };
export const TRITS: LoopsOf = { ...BITS, column: 'gemv_16x1_trits', unpack: 'unpack_trits', facts: { trits: true } };

/** Entries of a grid, by address; and the same weights as 4-bit codes of levels. */
export const GRID: LoopsOf = {
  column: 'gemv_16x1_grid',
  tile: { simd: 'gemm_8x4_i16', relaxed: 'gemm_8x4_grid', dotadd: 'gemm_8x4' },
  unpack: 'unpack_grid',
  act: 'plain',
  actBlock: 256,
  facts: { grid: true },
};
export const OF_LEVELS: LoopsOf = {
  ...GRID,
  column: 'gemv_16x1_levels',
  unpack: 'unpack_levels',
  act: { simd: 'plain', relaxed: 'signs_i8', dotadd: 'plain' },
  facts: {},
};
