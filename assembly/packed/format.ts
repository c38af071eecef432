/**
 * A block format of packed weights as a class of inlined words: the type parameter F of gemv, gemm, repack and packed_row.
 * The defaults are those of the plainest format; a format overrides what it has. One method is one question:
 *
 *   bytes, subs      bytes of 16 rows' blocks; runs of 32 weights per block (1, or 8 of a K super-block)
 *   quads, load, lo, hi   the codes: quad t (0..3) has one vector a group; its low part is k = 4t.., its high part k = 4t + half()..
 *   bits             further code bits of a quad, merged by lo and hi
 *   d, dmin          f32 scale and minimum per row of the block;  sc, mn: their integer factors per run, sixteen bytes
 *   offset, center   the codes are unsigned: what to take off, as -center * (negated pair sums), and as a number
 */
import { low_nibbles } from './group';

@unmanaged
export abstract class Format {
  /** One vector of a quad holds both parts in 64 bytes for the 4 groups; q8_0 needs 128. */
  // @ts-ignore: decorator
  @inline
  quad_bytes(): usize { return 64; }

  // @ts-ignore: decorator
  @inline
  subs(): i32 { return 1; }

  /** Integer scales for every 16 weights: then lo and hi are 8 weights apart, and quads 0, 1 and 2, 3 are the two halves. */
  // @ts-ignore: decorator
  @inline
  is_w16(): bool { return false; }

  /** A minimum is subtracted from every weight. */
  // @ts-ignore: decorator
  @inline
  has_min(): bool { return false; }

  /** Integer factors of d for every 32 weights. */
  // @ts-ignore: decorator
  @inline
  has_sc(): bool { return false; }

  /** Codes of 8 bits, too wide for the relaxed dot: multiplied as two nibbles. */
  // @ts-ignore: decorator
  @inline
  is_wide(): bool { return false; }

  // @ts-ignore: decorator
  @inline
  mask(): v128 { return low_nibbles(); }

  // @ts-ignore: decorator
  @inline
  mask2(): v128 { return i32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  load<G>(q: usize): v128 { return v128.load(q, offsetof<G>()); }

  // @ts-ignore: decorator
  @inline
  load2<G>(q: usize, v: v128): v128 { return v; }

  // @ts-ignore: decorator
  @inline
  high(w: usize, sub: i32): usize { return 0; }

  // @ts-ignore: decorator
  @inline
  bits<G>(h: usize, t: i32): v128 { return i32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  lo(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.and(v, m); }

  // @ts-ignore: decorator
  @inline
  hi(v: v128, h: v128, m: v128, m2: v128): v128 { return v128.and(i16x8.shr_u(v, 4), m); }

  // @ts-ignore: decorator
  @inline
  dmin<G>(w: usize): v128 { return f32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  sc(w: usize, sub: i32): v128 { return i32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  mn(w: usize, sub: i32): v128 { return i32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  offset(pair: v128): v128 { return i32x4.splat(0); }

  // @ts-ignore: decorator
  @inline
  center(): f32 { return 0; }
}
