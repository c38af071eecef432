/**
 * The loop that computes each column of a packed product, as explain() names it: every format on
 * every build, for 1 to 40 columns.
 */
import { describe, expect, it } from 'vitest';
import { lower } from '../../src/graph/lower.ts';
import { mul_mat } from '../../src/graph/ops.ts';
import { loopOf } from '../../src/graph/packed-products.ts';
import { packWeights } from '../../src/graph/packing.ts';
import { leaf } from '../../src/graph/tensor.ts';
import { TYPE, namesOf, typesWith, type TypeKernels, type TypeName, type TypeTraits } from '../../src/type-traits.ts';
import type { Loop } from '../../src/packed-format.ts';
import { isaOf } from '../../src/wasm/load.ts';
import { BUILDS, type Build } from './harness.ts';
import { CASES } from './packed-blocks.ts';

const FLOATS: readonly TypeName[] = ['f32', 'f16', 'bf16'];
/** Formats with signed 8-bit codes. */
const EIGHT_BITS: readonly TypeName[] = ['q8_0', 'iq4_nl', 'iq4_xs'];
/** Formats that have a loop for 2 to 16 columns on builds with relaxed SIMD. */
const FEW_COLUMNS: readonly TypeName[] = ['q4_0', 'q4_K', 'q5_K'];

/** Formats of 1 and 2 bits without integer scales. */
const FEW_BITS: readonly TypeName[] = ['q1_0', 'q2_0', 'tq1_0', 'tq2_0'];

/** Formats whose codes are grid entries: 7 bits, plus signs. */
const GRIDS = namesOf(typesWith((k) => k.gridQuantizer));

/** By type of levels: one of the types that can be packed as it. */
const GRID_OF = new Map<TypeTraits, TypeTraits>(GRIDS.map((name) => [(TYPE[name].kernels as TypeKernels).fast!, TYPE[name]]));

/** The loop for a single column. */
function alone(build: Build, { name }: TypeTraits): Loop {
  const type = name as TypeName;
  const isRelaxed = build.startsWith('relaxed');
  const isDotAdd = build.startsWith('dotadd');
  if (type === 'tq1_0') return 'gemv_16x1_trits';
  if (type === 'nvfp4') return 'gemv_16x1_nvfp4';
  if (GRIDS.includes(type)) return 'gemv_16x1_grid';
  if (name.endsWith('_levels')) return 'gemv_16x1_levels';
  if (FEW_BITS.includes(type)) return 'gemv_16x1_bits';
  if (EIGHT_BITS.includes(type)) return isRelaxed || isDotAdd ? 'gemv_16x1_signs' : 'gemv_16x1';
  if (type === 'q6_K') return 'gemv_16x1_q6_K';
  if (type === 'q2_K') return isRelaxed ? 'gemv_16x1_q2_K' : 'gemv_16x1_s16';
  return type === 'q3_K' ? 'gemv_16x1_s16' : 'gemv_16x1';
}

/** Loops of n columns, in order. */
function expected(build: Build, traits: TypeTraits, n: number): Loop[] {
  const type = traits.name as TypeName;
  const columns = (blocked: number, tile: Loop, one: Loop): Loop[] => Array.from({ length: n }, (_, c) => (c < blocked ? tile : one));
  if (FLOATS.includes(type)) return columns(n % 4 === 1 ? n - 1 : n, 'gemm_f32_8x4', 'gemv_f32_16x1');
  if (!build.startsWith('simd') && FEW_COLUMNS.includes(type) && n > 1 && n <= 16) return columns(n, 'gemm_16xn', 'gemm_16xn');
  const isDotAdd = build.startsWith('dotadd');
  const signed = isDotAdd ? 'gemm_8x4_nibbles' : 'gemm_8x4_i16';
  const ofGrid = isDotAdd ? 'gemm_8x4' : build.startsWith('relaxed') ? 'gemm_8x4_grid' : 'gemm_8x4_i16';
  const tile = FEW_BITS.includes(type)
    ? 'gemm_8x4_bits'
    : GRIDS.includes(type) || GRID_OF.has(traits)
      ? ofGrid
      : EIGHT_BITS.includes(type)
        ? signed
        : 'gemm_8x4';
  // A remainder of 1 or 2 columns, or 3 columns in all, is computed column by column.
  return columns(n % 4 === 3 && n > 3 ? n : n - (n % 4), tile, alone(build, traits));
}

/** "gemm_8x4 for 4 columns, gemv_16x1 for 2 columns", or only one name. */
function inWords(loops: readonly Loop[]): string {
  const names = [...new Set(loops)];
  if (names.length === 1) return names[0];
  const count = (name: Loop): number => loops.filter((loop) => loop === name).length;
  return names.map((name) => `${name} for ${count(name)} column${count(name) === 1 ? '' : 's'}`).join(', ');
}

describe.each(BUILDS)('%s', (build) => {
  const isa = isaOf(build);

  it.each([...[...FLOATS, ...CASES.map(({ type }) => type)].map((type) => TYPE[type]), ...GRID_OF.keys()])('$name', (type) => {
    for (let n = 1; n <= 40; n++) {
      const loops = Array.from({ length: n }, (_, c) => loopOf(type, isa, c, n));
      expect(loops, `${n} columns`).toEqual(expected(build, type, n));

      // No tensor has a type of levels before it is packed.
      const w = leaf('w', GRID_OF.get(type) ?? type, [256, 16, 1, 1]);
      const x = leaf('x', TYPE.f32, [256, n, 1, 1]);
      const y = mul_mat(w, x);
      expect(packWeights([y], type !== w.type)).toEqual([w]);
      const product = lower([w, x, y], { isa }).find(({ code }) => code === 'MUL_MAT_PACKED')!;
      expect((product.how as (of: object) => string)({}), `${n} columns`).toContain(
        `: packed, ${inWords(expected(build, type, n))}, ${n === 1 ? 'one column' : `${n} columns`}`,
      );
    }
  });
});
