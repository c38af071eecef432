/** One source of a case, as golden.json has it; see cases.mjs. */
export interface Source {
  readonly type: string;
  readonly ne: readonly number[];
  readonly seed?: number;
  readonly scale?: number;
  readonly plus?: number;
  readonly modulo?: number;
  readonly values?: readonly number[];
  readonly causal?: number;
  readonly distance?: number;
  readonly view?: { readonly ne: readonly number[]; readonly nb: readonly number[]; readonly offset: number };
  readonly permute?: readonly number[];
}
/** The values in storage order, before conversion to the source's type. */
export function fill(src: Source): Float64Array;
