/**
 * Packed products from the view of planning: the form of their activations, and the loop that
 * computes a column (assembly/matmul/).
 */
import { forIsa, type ActLayout, type Isa, type Loop } from '../packed-format.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { SIZES } from '../wasm/sizes.ts';
import { ACT, ACT_4, ACT_64, ACT_64_BLOCK, ACT_BLOCK, ACT_COLUMNS, ACT_K, ACT_K_BLOCK, MOST_FEW, TYPE_ACT } from './layout.ts';

const FLAG_OF_BLOCK = { [ACT_BLOCK]: 0, [ACT_64_BLOCK]: ACT_64, [ACT_K_BLOCK]: ACT_K } as const;
const BLOCK_NAME = { [ACT_BLOCK]: '', [ACT_64_BLOCK]: ' in blocks of 64', [ACT_K_BLOCK]: ' in super-blocks' } as const;

/** Target of lowering. */
export interface Target {
  /** Instructions of the build that computes the graph. */
  readonly isa: Isa;
  /** Bits that products of block types round activations to. Default 8. */
  readonly actBits?: 4 | 8 | undefined;
}

const acts = new Map<string, TypeTraits>();

/**
 * Type of the activations that weights of a type are multiplied by: f32, or a type of the kernels'
 * own, which has no GGUF number.
 */
export function actType({ kernels }: TypeTraits, { isa, actBits: bits = 8 }: Target): TypeTraits {
  const { act, actBlock } = kernels!.packed!;
  if (!act || !actBlock) return TYPE.f32;
  const layout = forIsa(act, isa);
  const key = [isa, layout, actBlock, bits].join();
  const type = acts.get(key) ?? {
    id: TYPE_ACT + FLAG_OF_BLOCK[actBlock] + ACT[layout] + (bits === 4 ? ACT_4 : 0),
    name: `${bits === 4 ? '4-bit ' : ''}activations${BLOCK_NAME[actBlock]}`,
    blckSize: actBlock,
    typeSize: (actBlock / ACT_BLOCK) * SIZES[isa].actBytes[layout],
  };
  acts.set(key, type);
  return type;
}

/**
 * Number of columns, out of n, that lie in column blocks. One or two columns beyond a multiple of 4
 * do not, nor do 3 columns alone (assembly/matmul/act.ts).
 */
function blockedColumns(layout: ActLayout, n: number): number {
  const rest = n % ACT_COLUMNS;
  if (layout === 'few' && n <= MOST_FEW) return 0;
  return rest < 3 || n < ACT_COLUMNS ? n - rest : n;
}

/** Loop that computes column c of ncols. */
export function loopOf({ kernels }: TypeTraits, isa: Isa, c: number, ncols: number): Loop {
  const { column, tile, act } = kernels!.packed!;
  const layout = act && forIsa(act, isa);
  if (layout === 'few' && ncols > 1 && ncols <= MOST_FEW) return 'gemm_16xn';
  // A tile of floats also has room for two or three columns.
  const inTiles = layout ? blockedColumns(layout, ncols) : ncols % ACT_COLUMNS === 1 ? ncols - 1 : ncols;
  return c < inTiles ? forIsa(tile, isa) : forIsa(column, isa);
}
