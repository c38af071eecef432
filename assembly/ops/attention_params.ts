/** What p0 ... p12 of a record of attention are, in their order: src/graph/layout.ts has the same list, and a test compares the two. */
import { Op } from '../runtime/tensor';

@unmanaged
export class AttentionParams {
  /** The factor of scores. */
  scale: f32;
  /** Padded head_dim of K. */
  hd_k: i32;
  /** Cells of the cache. */
  cells: i32;
  n_head_kv: i32;
  /** Keys that a token sees at most, itself included; 0: all; below 0: -window - 1 on each side of itself. */
  window: i32;
  /** Scores become cap * tanh(score / cap); 0: none. */
  soft_cap: f32;
  /** KV splits that a row of src5 has room for. */
  splits: i32;
  /** Padded head_dim of V. */
  hd_v: i32;
  /** head_dim of V: how many outputs a head has. */
  hd_out: i32;
  /** Not 0: all splits take phi for their maximum (FlashDecoding++). */
  unified: i32;
  phi: f32;
  /** Elements of a query, and of an output, that are rotated together (fwht.ts), as the cache's keys and values are; 0: none. */
  rot_k: i32;
  rot_v: i32;
}

@inline
export function params_of(op: Op): AttentionParams {
  return changetype<AttentionParams>(changetype<usize>(op) + offsetof<Op>('p0'));
}
