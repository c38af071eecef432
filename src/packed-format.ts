/**
 * What the table of types says of packed weights: where codes lie is code (assembly/matmul/format/<name>.ts), everything else is a cell of the type's row.
 * `npm run generate` writes the kernels' side of it, and planning reads it here: no compiled module is asked.
 */

/** Sets of instructions that kernels are built for: each has loops of its own. */
export type Isa = 'simd' | 'relaxed' | 'dotadd';
export const ISAS: readonly Isa[] = ['simd', 'relaxed', 'dotadd'];

/** The same for all instructions, or one for each. */
export type ByIsa<T> = T | Readonly<Record<Isa, T>>;

/** @returns what `cell` says for these instructions */
export const forIsa = <T extends string>(cell: ByIsa<T>, isa: Isa): T => (typeof cell === 'string' ? cell : cell[isa]);

/**
 * The loops of packed products, named for the rows x columns of sums that they keep and for what they are made for: formats with a scale for every 16
 * weights (s16), signs of activations moved to 8-bit codes (signs), codes as i16 or as two nibbles, formats of 2 bits like q2_K and of 6 bits like q6_K,
 * codes of 1 and 2 bits without integer scales (bits), codes of base 3 (trits), entries of a grid (grid) or levels (levels), f32 scales (nvfp4).
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

/** How columns of activations lie that are not in column blocks (assembly/matmul/act.ts): `few` are read by gemm_16xn. */
export type ActLayout = 'plain' | 'few' | 'signs' | 'signs_i8' | 'pairs';

/** Which loops compute a product, and how they want its activations. */
export interface Loops {
  /** One column. */
  readonly column: ByIsa<ColumnLoop>;
  /** Four columns over a panel. */
  readonly tile: ByIsa<TileLoop>;
  /** What makes the panel. unpack_blocks */
  readonly unpack?: 'unpack_grid' | 'unpack_levels' | 'unpack_bits' | 'unpack_trits' | 'unpack_f32';
  /** Absent: activations stay f32. */
  readonly act?: ByIsa<ActLayout>;
  /** Elements of activations that share a scale. */
  readonly actBlock?: 32 | 64 | 256;
}

/** What codes are, as the loops ask for it (assembly/matmul/format/format.ts). Without a fact it is false, or what stands there. */
export interface CodeFacts {
  /** Bits of a code; 8: signed, fewer: unsigned. */
  readonly width?: number;
  /** What is taken off every code. 0 */
  readonly centre?: number;
  /** The largest code. All bits of `width` */
  readonly largest?: number;
  /** Sub-blocks of 32 weights in a block. 8 in a super-block, else 1 */
  readonly subs?: number;
  /** A block is 8 sub-blocks with integer scales, whose integer products are one sum. */
  readonly superBlock?: true;
  /** Each half of a sub-block has a scale, and a minimum, of its own. */
  readonly s16?: true;
  /** With s16: bits of the largest scale. */
  readonly scaleBits?: number;
  /** Weights have a minimum. */
  readonly hasMin?: true;
  /** Scales of 16 weights are f32, and a block has no d. */
  readonly f32Scales?: true;
  /** Codes of one bit, of two, or digits of base 3, without integer scales. */
  readonly oneBit?: true;
  readonly twoBits?: true;
  readonly trits?: true;
  /** Codes are entries of a grid: of four values and not eight, with signs, with even values. */
  readonly grid?: true;
  readonly fours?: true;
  readonly hasSigns?: true;
  readonly even?: true;
  /** What the values of a grid are multiplied by. */
  readonly factor?: number;
  /** Vectors of 16 f16 at the start of a packed block, which must be finite. 2 with minima, else 1 */
  readonly f16Vectors?: number;
}

export interface PackedFormat extends Loops {
  readonly facts: CodeFacts;
  /** The class of assembly/matmul/format/ with what several formats do alike. */
  readonly kind?: Kind | undefined;
}

/** Classes that formats' own extend. */
export type Kind = 'KScales' | 'Levels' | 'TwoBits';
/** The files that have them. */
export const KINDS: { readonly [kind in Kind]: string } = { KScales: 'k_scales', Levels: 'nibble_levels', TwoBits: 'few_bits' };

interface LoopsOf extends Loops {
  /** Facts of all formats that these loops are for. */
  readonly facts?: CodeFacts;
}

export const packedBy = (loops: LoopsOf, facts: CodeFacts, kind?: Kind): PackedFormat => ({
  ...loops,
  facts: { ...loops.facts, ...facts },
  kind,
});

// ---- Loops, and the formats that they are for ----

/** f32, f16 and bf16, whose activations are f32. */
export const FLOATS: PackedFormat = { column: 'gemv_f32_16x1', tile: 'gemm_f32_8x4', unpack: 'unpack_f32', facts: {} };

/** Unsigned codes of up to 7 bits. */
export const CODES: LoopsOf = { column: 'gemv_16x1', tile: 'gemm_8x4', act: 'plain', actBlock: 32 };

/**
 * The same with gemm_16xn for few columns, which costs 1.5 KB of code for each: the formats in which most models are. Without relaxed SIMD there are too few
 * registers for its 16-bit codes.
 */
export const CODES_FEW: LoopsOf = { ...CODES, act: { simd: 'plain', relaxed: 'few', dotadd: 'few' } };
/** The same in super-blocks with minima. */
export const SUPER_FEW: LoopsOf = { ...CODES_FEW, actBlock: 256, facts: { superBlock: true, hasMin: true } };

/** Scales of 16 weights: codes of 3 and 4 bits, of 2 and of 6. */
export const HALVES: LoopsOf = { ...CODES, column: 'gemv_16x1_s16', actBlock: 256, facts: { superBlock: true, s16: true } };
export const HALVES_2: LoopsOf = {
  ...HALVES,
  column: { simd: 'gemv_16x1_s16', relaxed: 'gemv_16x1_q2_K', dotadd: 'gemv_16x1_s16' },
  act: { simd: 'plain', relaxed: 'pairs', dotadd: 'plain' },
};
export const HALVES_6: LoopsOf = { ...HALVES, column: 'gemv_16x1_q6_K' };
/** Scales of 16 weights that are f32. */
export const NVFP4: LoopsOf = { ...HALVES, column: 'gemv_16x1_nvfp4', actBlock: 64, facts: { ...HALVES.facts, f32Scales: true } };

/** Signed codes of 8 bits, too wide for the 7-bit operand of the relaxed dot (assembly/matmul/dot_signed.ts). */
export const SIGNED: LoopsOf = {
  column: { simd: 'gemv_16x1', relaxed: 'gemv_16x1_signs', dotadd: 'gemv_16x1_signs' },
  tile: { simd: 'gemm_8x4_i16', relaxed: 'gemm_8x4_i16', dotadd: 'gemm_8x4_nibbles' },
  act: { simd: 'plain', relaxed: 'signs', dotadd: 'signs' },
  actBlock: 32,
};
export const SUPER_SIGNED: LoopsOf = { ...SIGNED, actBlock: 256, facts: { superBlock: true } };

/** Codes of 1 and 2 bits, and digits of base 3: one f32 step for 64 weights. */
export const BITS: LoopsOf = { column: 'gemv_16x1_bits', tile: 'gemm_8x4_bits', unpack: 'unpack_bits', act: 'plain', actBlock: 64 };
export const TRITS: LoopsOf = { ...BITS, column: 'gemv_16x1_trits', unpack: 'unpack_trits', facts: { trits: true } };

/** Entries of a grid, by their addresses; and the same as 4-bit codes of levels. */
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
