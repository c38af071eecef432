/**
 * Packed f32, f16 and bf16 weights: 16 rows side by side, k after k. Each k has one number of every
 * row: 64 bytes of f32, 32 of f16 or bf16. f16 stays f16 in memory and is converted when loaded. It
 * must be finite (repack.ts counts row blocks that are not).
 */
import { f16x4_finite } from './group';

@unmanaged
export class F32 {
  @inline
  bytes(): usize {
    return 4;
  }

  /** Group G's weights of one k, at p, as f32. */
  @inline
  load<G>(p: usize): v128 {
    return v128.load(p, offsetof<G>());
  }

  @inline
  number(p: usize): f32 {
    return load<f32>(p);
  }

  pack(src: usize, stride: usize, n: i32, w: usize): void {
    for (let r: usize = 0; r < 16; r += 4) {
      let p = src + r * stride;
      let q = w + (r << 2);
      let k = n;
      for (; k >= 4; k -= 4) {
        const r0 = v128.load(p);
        const r1 = v128.load(p + stride);
        const r2 = v128.load(p + stride * 2);
        const r3 = v128.load(p + stride * 3);
        const a = i32x4.shuffle(r0, r1, 0, 4, 1, 5);
        const b = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
        const c = i32x4.shuffle(r0, r1, 2, 6, 3, 7);
        const d = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
        v128.store(q, i64x2.shuffle(a, b, 0, 2));
        v128.store(q, i64x2.shuffle(a, b, 1, 3), 64);
        v128.store(q, i64x2.shuffle(c, d, 0, 2), 128);
        v128.store(q, i64x2.shuffle(c, d, 1, 3), 192);
        p += 16;
        q += 256;
      }
      for (; k > 0; k--, p += 4, q += 64) {
        for (let i: usize = 0; i < 4; i++) store<u32>(q + (i << 2), load<u32>(p + i * stride));
      }
    }
  }
}

/** Packs 16 rows of n u16, `stride` bytes apart at src, to w. */
function pack_u16(src: usize, stride: usize, n: i32, w: usize): void {
  for (let r: usize = 0; r < 16; r += 4) {
    let p = src + r * stride;
    let q = w + (r << 1);
    let k = n;
    for (; k >= 8; k -= 8) {
      const r0 = v128.load(p);
      const r1 = v128.load(p + stride);
      const r2 = v128.load(p + stride * 2);
      const r3 = v128.load(p + stride * 3);
      const a = i16x8.shuffle(r0, r1, 0, 8, 1, 9, 2, 10, 3, 11);
      const b = i16x8.shuffle(r2, r3, 0, 8, 1, 9, 2, 10, 3, 11);
      const c = i16x8.shuffle(r0, r1, 4, 12, 5, 13, 6, 14, 7, 15);
      const d = i16x8.shuffle(r2, r3, 4, 12, 5, 13, 6, 14, 7, 15);
      pairs(q, i32x4.shuffle(a, b, 0, 4, 1, 5), i32x4.shuffle(a, b, 2, 6, 3, 7));
      pairs(q + 128, i32x4.shuffle(c, d, 0, 4, 1, 5), i32x4.shuffle(c, d, 2, 6, 3, 7));
      p += 16;
      q += 256;
    }
    for (; k > 0; k--, p += 2, q += 32) {
      for (let i: usize = 0; i < 4; i++) store<u16>(q + (i << 1), load<u16>(p + i * stride));
    }
  }
}

/** Stores four k of a group's rows, two k in each vector. */
@inline
function pairs(q: usize, a: v128, b: v128): void {
  v128.store64_lane(q, a, 0);
  v128.store64_lane(q, a, 1, 32);
  v128.store64_lane(q, b, 0, 64);
  v128.store64_lane(q, b, 1, 96);
}

@unmanaged
export class F16 {
  /** Marker: numbers must be finite. */
  finite: bool;

  @inline
  bytes(): usize {
    return 2;
  }

  @inline
  load<G>(p: usize): v128 {
    return f16x4_finite(v128.load16x4_s(p, offsetof<G>() >> 1));
  }

  @inline
  number(p: usize): f32 {
    return f32x4.extract_lane(f16x4_finite(i32x4.splat(<i32>load<i16>(p))), 0);
  }

  pack(src: usize, stride: usize, n: i32, w: usize): void {
    pack_u16(src, stride, n, w);
  }
}

@unmanaged
export class BF16 {
  @inline
  bytes(): usize {
    return 2;
  }

  @inline
  load<G>(p: usize): v128 {
    return i32x4.shl(v128.load16x4_u(p, offsetof<G>() >> 1), 16);
  }

  @inline
  number(p: usize): f32 {
    return reinterpret<f32>(<u32>load<u16>(p) << 16);
  }

  pack(src: usize, stride: usize, n: i32, w: usize): void {
    pack_u16(src, stride, n, w);
  }
}
