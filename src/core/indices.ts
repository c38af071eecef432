/**
 * Checks indices before a plan runs, if the host can read them. For other indices, kernels only
 * make sure that wrong ones do no harm.
 */
import { QuantletError } from '../errors.ts';
import { baseOf, isContiguous, nelements, shape, type Tensor } from '../graph/tensor.ts';
import { readGroupList } from '../graph/group-list.ts';
import type { TensorData } from './data.ts';

export interface IndexCheck {
  readonly op: string;
  readonly indices: Tensor;
  readonly table: Tensor;
  readonly limit: number;
  /** Smallest valid index. Default 0. */
  readonly from?: number;
  /** Number of rows from each index on. Default: one. */
  readonly counts?: Tensor;
}

/**
 * Look-ups of a graph whose indices are leaves, or views of leaves, that the graph does not write.
 */
export function indexChecks(nodes: readonly Tensor[]): IndexCheck[] {
  const written = new Set(nodes.filter((n) => n.op !== 'view').map((n) => n.viewOf));
  const isReadable = (t: Tensor): boolean => baseOf(t).op === 'leaf' && isContiguous(t) && !written.has(baseOf(t));
  const checks = nodes.flatMap((n): IndexCheck[] => {
    const [a, b, c] = n.src as readonly Tensor[];
    if (n.op === 'get_rows') return [{ op: 'get_rows', indices: b, table: a, limit: a.ne[1] }];
    if (n.op === 'set_rows') return [{ op: 'set_rows', indices: b, table: c, limit: c.ne[1] }];
    if (n.op === 'mean_of_rows') return [{ op: 'mean_of_rows', indices: b, table: a, limit: a.ne[1], counts: c }];
    if (n.op === 'group_list') return [{ op: n.op, indices: a, table: n, limit: n.params.limit }];
    if (n.op === 'mul_mat_id') return [{ op: 'mul_mat_id', indices: c, table: a, limit: a.ne[2] }];
    if (n.op === 'add_id') return [{ op: 'add_id', indices: c, table: b, limit: b.ne[1] }];
    return n.op === 'rope' ? [{ op: 'rope', indices: b, table: c, limit: c.ne[1], from: 1 - c.ne[1] }] : [];
  });
  return checks.filter(({ indices, counts }) => isReadable(indices) && (!counts || isReadable(counts)));
}

/** @throws ERR_INVALID_ARGUMENT for the first index out of range */
export function checkIndices({ op, indices, table, limit, from = 0 }: IndexCheck, values: TensorData, counts?: TensorData): void {
  if (op === 'group_list') return void readGroupList(table, values);
  for (let i = 0; i < nelements(indices); i++) {
    const v = Number(values[i]);
    const n = counts ? Number(counts[i]) : 1;
    if (counts && (v < 0 || n < 0 || v + n > limit))
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${op}: ${shape(table)} and ${shape(indices)}: element ${i} means rows ${v} to ${v + n}; expected some of 0 to ${limit}`,
      );
    if (!counts && (v < from || v >= limit))
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `${op}: ${shape(table)} and ${shape(indices)}: element ${i} is ${v}; expected ${from} to ${limit - 1}`,
      );
  }
}
