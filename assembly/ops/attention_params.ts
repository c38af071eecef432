/** Parameters of an attention record. */
import { AttentionParams, Op } from '../layout';

@inline
export function params_of(op: Op): AttentionParams {
  return changetype<AttentionParams>(changetype<usize>(op) + offsetof<Op>('p0'));
}
