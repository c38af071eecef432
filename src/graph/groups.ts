/**
 * Grouping of the columns of a product by many matrices, and the division of its tiles among
 * threads: what the kernels do, in words and numbers, for explain() and bench/grouped.ts.
 */
import { GROUP_COLUMNS, GROUP_TILES, TILE_ROWS } from './layout.ts';
import { readGroupList } from './group-list.ts';
import type { Explained } from './record.ts';
import { nelements, type Tensor } from './tensor.ts';

/**
 * Columns of each group, from the number of columns of each matrix.
 * @param alone each column is a group of its own, as for a single token
 */
export function columnGroups(sizes: readonly number[], alone = false): number[] {
  const most = alone ? 1 : GROUP_COLUMNS;
  return sizes.flatMap((n) => Array.from({ length: Math.ceil(n / most) }, (_, i) => Math.min(most, n - i * most)));
}

/**
 * Largest number of groups that the columns of ids can form: one for each matrix in use, one for
 * ids out of range, and one more for every GROUP_COLUMNS columns, because larger groups are split.
 */
export const mostGroups = (ids: Tensor, matrices: number): number =>
  Math.max(ids.ne[0], Math.min(matrices + 1, nelements(ids)) + Math.floor(nelements(ids) / GROUP_COLUMNS));

/**
 * Tiles of packed products of this many groups: rows of a tile (assembly/ops/mul_mat_packed.ts),
 * and tiles per group.
 */
export function tilesOf(groups: number, rows: number, threads: number): { readonly rows: number; readonly perGroup: number } {
  const large = rows * groups >= TILE_ROWS.large * GROUP_TILES * threads;
  const tile = large ? TILE_ROWS.large : TILE_ROWS.small;
  return { rows: tile, perGroup: Math.ceil(rows / tile) };
}

/**
 * Number of columns of each matrix, if ids, or the list that they are made from, can be read before
 * the graph runs.
 * @throws as readGroupList()
 */
function sizesOf(ids: Tensor, matrices: number, read: Explained['ints']): number[] | undefined {
  const values = read(ids.op === 'group_list' ? ids.src[0]! : ids);
  if (!values) return undefined;
  const sizes = Array.from({ length: matrices }, () => 0);
  if (ids.op === 'group_list') for (const { group, from, to } of readGroupList(ids, values)) sizes[group] = to - from;
  else for (let i = 0; i < values.length; i++) if (values[i] in sizes) sizes[values[i]]++;
  return sizes;
}

/**
 * Groups, tiles and tail in words. The tail is the tiles that remain after all threads have had the
 * same number.
 */
export function describeGroups(ids: Tensor, matrices: number, rows: number, packed: boolean, { threads, ints }: Explained): string {
  let sizes: number[] | undefined;
  try {
    sizes = sizesOf(ids, matrices, ints);
  } catch {
    // compute() says what is wrong with the list.
  }
  if (!sizes) return `each by one of ${matrices} matrices, in groups of up to ${GROUP_COLUMNS}`;
  const without = nelements(ids) - sizes.reduce((a, b) => a + b, 0);
  const groups = columnGroups([without, ...sizes], ids.ne[1] === 1);
  const { rows: tile, perGroup } = packed
    ? tilesOf(groups.length, rows, threads)
    : { rows: TILE_ROWS.small, perGroup: Math.ceil(rows / TILE_ROWS.small) };
  const tiles = perGroup * groups.length;
  return [
    `by ${sizes.filter((n) => n > 0).length} of ${matrices} matrices`,
    ...(without > 0 ? [`${without} by none`] : []),
    `in ${groups.length} groups of ${Math.min(...groups)} to ${Math.max(...groups)} columns`,
    `${tiles} tiles of ${tile} rows`,
    `a tail of ${tiles % threads}`,
  ].join(', ');
}
