/**
 * Parameters p0 ... p12 of an attention record, in order. src/graph/layout.ts has the same list; a
 * test compares the two.
 */
import { Op } from '../runtime/tensor';

@unmanaged
export class AttentionParams {
  /** Factor of the scores. */
  scale: f32;
  /** Padded head_dim of K. */
  hd_k: i32;
  /** Cells of the cache. */
  cells: i32;
  n_head_kv: i32;
  /**
   * Most keys that a token sees, itself included; 0: all; negative: -window - 1 keys on each side
   * of it.
   */
  window: i32;
  /** Scores become cap * tanh(score / cap); 0: none. */
  soft_cap: f32;
  /** KV splits that a row of src5 has room for. */
  splits: i32;
  /** Padded head_dim of V. */
  hd_v: i32;
  /** head_dim of V: the number of outputs of a head. */
  hd_out: i32;
  /** Not 0: all splits take phi as their maximum (FlashDecoding++). */
  unified: i32;
  phi: f32;
  /**
   * Number of elements of a query, and of an output, that are rotated together (fwht.ts), as the
   * cache's keys and values are; 0: none.
   */
  rot_k: i32;
  rot_v: i32;
}

@inline
export function params_of(op: Op): AttentionParams {
  return changetype<AttentionParams>(changetype<usize>(op) + offsetof<Op>('p0'));
}
