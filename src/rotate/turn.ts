import { mul_inplace } from '../graph/elementwise-ops.ts';
import { cont, mul_mat } from '../graph/ops.ts';
import { fwht_inplace } from '../graph/row-ops.ts';
import { constant, type Tensor } from '../graph/tensor.ts';
import { reshape, transpose } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';
import type { Rotation } from './plan.ts';

/**
 * Multiplies f32 rows x by the rotation. x may be overwritten.
 */
export function turned(x: Tensor, rotation: Rotation | undefined): Tensor {
  if (!rotation) return x;
  const { n, before, after, matrix } = rotation;
  const y = before ? mul_inplace(x, before) : x;
  if (matrix) {
    const r = constant('rotation', TYPE.f32, [n, n, 1, 1], () => new Uint8Array(matrix.buffer, matrix.byteOffset, matrix.byteLength));
    const rows = reshape(y, [n, (y.ne[0] * y.ne[1]) / n]);
    return reshape(mul_mat(cont(transpose(r)), rows), y.ne);
  }
  const z = fwht_inplace(y, { n });
  return after ? mul_inplace(z, after) : z;
}
