/**
 * Matrices on their way through q4_0, and the gradient of what they lose there.
 *
 * Of y = d round(w / d) the step d from one number to the next is smooth: a block's is an eighth of its largest element, by size. With f = (y - w) / d held
 * for a moment as it is, dy = dw + f dd. Of rotations the first part says nothing: together they leave alone what the network computes, so that it only
 * tells of this turn's errors f, and the next turn has others. What stays is the second, by which smaller steps make smaller errors: the largest element
 * of a block has the block's sum of gradient times error, over itself.
 */
import { abs, div, mul, scale, step, sub } from '../graph/elementwise-ops.ts';
import { cast } from '../graph/ops.ts';
import { pool_1d, sum_rows } from '../graph/row-ops.ts';
import { nelements, type Tensor } from '../graph/tensor.ts';
import { reshape } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';

export interface Rounded {
  /** What comes out, f32. */
  readonly x: Tensor;
  /** The gradient by what went in, of that by what came out. */
  back(gradient: Tensor): Tensor;
}

/** An f32 tensor as it is. */
export const asItIs = (x: Tensor): Rounded => ({ x, back: (gradient) => gradient });

const { blckSize } = TYPE.q4_0;
/** Keeps a block of zeros from being divided by its largest element. */
const TINY = 1e-30;

/** f32 rows as q4_0 has them; as they are where they are no whole blocks. */
export function rounded(w: Tensor): Rounded {
  if (w.ne[0] % blckSize !== 0) return asItIs(w);
  const x = cast(cast(w, 'q4_0'), 'f32');
  const blocks = (t: Tensor): Tensor => reshape(t, [blckSize, nelements(t) / blckSize]);
  const back = (gradient: Tensor): Tensor => {
    const largest = scale(pool_1d(abs(blocks(w)), { kind: 'max', k: blckSize, s: blckSize }), 1, { bias: TINY });
    // -1 to 1: exactly one of them where the element is the largest.
    const part = div(blocks(w), largest);
    const sign = mul(step(scale(abs(part), 1, { bias: 2 ** -24 - 1 })), part);
    const errors = div(sum_rows(mul(blocks(gradient), blocks(sub(x, w)))), largest);
    return reshape(mul(sign, errors), gradient.ne);
  };
  return { x, back };
}
