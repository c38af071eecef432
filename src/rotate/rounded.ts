/**
 * Rounding of matrices to q4_0, and a gradient of the rounding errors.
 *
 * y = d round(w / d) jumps in w, but is smooth in the step d from one number to the next: the step
 * of a block is an eighth of its largest magnitude. With f = (y - w) / d held constant, dy = dw + f
 * dd.
 *
 * For rotations the first term has no information: all rotations together do not change what the
 * network computes, so dw would only fit the errors f of the current rotation, and the next
 * rotation has others. The second term remains: smaller steps make smaller errors. So the largest
 * element of a block gets the block's sum of gradient times error, divided by the element itself.
 */
import { abs, div, mul, scale, step, sub } from '../graph/elementwise-ops.ts';
import { cast } from '../graph/ops.ts';
import { pool_1d, sum_rows } from '../graph/row-ops.ts';
import { nelements, type Tensor } from '../graph/tensor.ts';
import { reshape } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';

export interface Rounded {
  /** Rounded matrix, f32. */
  readonly x: Tensor;
  /** Gradient by the original matrix, from the gradient by the rounded one. */
  back(gradient: Tensor): Tensor;
}

/** An f32 tensor without rounding. */
export const asItIs = (x: Tensor): Rounded => ({ x, back: (gradient) => gradient });

const { blckSize } = TYPE.q4_0;
/** Avoids a division by zero for a block of zeros. */
const TINY = 1e-30;

/** f32 rows rounded to q4_0; unchanged if they are not whole blocks. */
export function rounded(w: Tensor): Rounded {
  if (w.ne[0] % blckSize !== 0) return asItIs(w);
  const x = cast(cast(w, 'q4_0'), 'f32');
  const blocks = (t: Tensor): Tensor => reshape(t, [blckSize, nelements(t) / blckSize]);
  const back = (gradient: Tensor): Tensor => {
    const largest = scale(pool_1d(abs(blocks(w)), { kind: 'max', k: blckSize, s: blckSize }), 1, { bias: TINY });
    // -1 to 1; exactly +-1 for the largest element.
    const part = div(blocks(w), largest);
    const sign = mul(step(scale(abs(part), 1, { bias: 2 ** -24 - 1 })), part);
    const errors = div(sum_rows(mul(blocks(gradient), blocks(sub(x, w)))), largest);
    return reshape(mul(sign, errors), gradient.ne);
  };
  return { x, back };
}
