// Generated from assembly/templates/fwht_passes.ts by `npm run generate`: edit the template.
/**
 * Passes of the Walsh-Hadamard transform (fwht.ts): doublings, sums and differences of pairs of
 * vectors. Vectors that lie side by side are computed together, so that turbo joins them.
 */
import { less, madd } from '../simd';

/** Transforms of four, eight or sixteen elements. */
export function short(x: usize, y: usize, end: usize, part: usize, scale: f32): void {
  const s = f32x4.splat(scale);
  for (; y < end; x += part, y += part) {
    let a = lanes(f32x4.mul(v128.load(x), s));
    if (part > 16) {
      let b = lanes(f32x4.mul(v128.load(x, 16), s));
      let t = f32x4.sub(a, b);
      a = f32x4.add(a, b);
      if (part > 32) {
        b = lanes(f32x4.mul(v128.load(x, 32), s));
        const c = lanes(f32x4.mul(v128.load(x, 48), s));
        const d = f32x4.sub(b, c);
        b = f32x4.add(b, c);
        v128.store(y, f32x4.sub(a, b), 32);
        v128.store(y, f32x4.sub(t, d), 48);
        a = f32x4.add(a, b);
        t = f32x4.add(t, d);
      }
      v128.store(y, t, 16);
    }
    v128.store(y, a);
  }
}

/** Factors of the two doublings within a vector; and -1. */
const SIGNS = memory.data<f32>([1, -1, 1, -1, 1, 1, -1, -1], 16);

/** The two doublings within a vector. */
@inline
function lanes(v: v128): v128 {
  v = madd(v, v128.load(SIGNS), i8x16.shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  return madd(v, v128.load(SIGNS, 16), i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
}

/** Three doublings of each eight vectors, from x to y .. end, times a scale. */
export function near(x: usize, y: usize, end: usize, scale: f32): void {
  const minus = v128.load32_splat(SIGNS, 4);
  const s = f32x4.splat(scale);
  for (; y < end; x += 128, y += 128) {
    let a: v128;
    let b: v128;
    a = f32x4.mul(v128.load(x, 0), s);
    b = f32x4.mul(v128.load(x, 64), s);
    const s0 = f32x4.add(a, b);
    const d0 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 16), s);
    b = f32x4.mul(v128.load(x, 80), s);
    const s1 = f32x4.add(a, b);
    const d1 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 32), s);
    b = f32x4.mul(v128.load(x, 96), s);
    const s2 = f32x4.add(a, b);
    const d2 = f32x4.sub(a, b);
    a = f32x4.mul(v128.load(x, 48), s);
    b = f32x4.mul(v128.load(x, 112), s);
    const s3 = f32x4.add(a, b);
    const d3 = f32x4.sub(a, b);
    let u: v128;
    let v: v128;
    let w: v128;
    let z: v128;
    u = f32x4.add(s0, s2);
    v = f32x4.sub(s0, s2);
    w = f32x4.add(s1, s3);
    z = f32x4.sub(s1, s3);
    v128.store(y, f32x4.add(u, w), 0);
    v128.store(y, less(u, w, minus), 16);
    v128.store(y, f32x4.add(v, z), 32);
    v128.store(y, less(v, z, minus), 48);
    u = f32x4.add(d0, d2);
    v = f32x4.sub(d0, d2);
    w = f32x4.add(d1, d3);
    z = f32x4.sub(d1, d3);
    v128.store(y, f32x4.add(u, w), 64);
    v128.store(y, less(u, w, minus), 80);
    v128.store(y, f32x4.add(v, z), 96);
    v128.store(y, less(v, z, minus), 112);
  }
}

/** The doublings within vectors. */
export function within_1(y: usize, end: usize): void {
  for (; y < end; y += 32) {
    const a0 = lanes(v128.load(y, 0));
    const a1 = lanes(v128.load(y, 16));
    v128.store(y, a0, 0);
    v128.store(y, a1, 16);
  }
}

/** The doublings within vectors, and that of elements 128 bytes apart. */
export function within_2(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 256) {
    for (let p = y; p < y + 128; p += 32) {
      const a0 = lanes(v128.load(p, 0));
      const a1 = lanes(v128.load(p, 16));
      const b0 = lanes(v128.load(p, 128));
      const b1 = lanes(v128.load(p, 144));
      v128.store(p, f32x4.add(a0, b0), 0);
      v128.store(p, f32x4.add(a1, b1), 16);
      v128.store(p, less(a0, b0, minus), 128);
      v128.store(p, less(a1, b1, minus), 144);
    }
  }
}

/** The doublings within vectors, and those of elements 128 and 256 bytes apart. */
export function within_4(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 512) for (let p = y; p < y + 128; p += 32) four(true, p, 128, minus);
}

/**
 * The doublings within vectors, and those of elements 128, 256 and 512 bytes apart. These are
 * sixteen vectors; some are spilled, but it saves a pass.
 */
export function within_8(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 1024) {
    for (let p = y; p < y + 128; p += 32) {
      let a0: v128;
      let a1: v128;
      let b0: v128;
      let b1: v128;
      a0 = lanes(v128.load(p, 0));
      a1 = lanes(v128.load(p, 16));
      b0 = lanes(v128.load(p, 512));
      b1 = lanes(v128.load(p, 528));
      const s00 = f32x4.add(a0, b0);
      const d00 = less(a0, b0, minus);
      const s01 = f32x4.add(a1, b1);
      const d01 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 128));
      a1 = lanes(v128.load(p, 144));
      b0 = lanes(v128.load(p, 640));
      b1 = lanes(v128.load(p, 656));
      const s10 = f32x4.add(a0, b0);
      const d10 = less(a0, b0, minus);
      const s11 = f32x4.add(a1, b1);
      const d11 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 256));
      a1 = lanes(v128.load(p, 272));
      b0 = lanes(v128.load(p, 768));
      b1 = lanes(v128.load(p, 784));
      const s20 = f32x4.add(a0, b0);
      const d20 = less(a0, b0, minus);
      const s21 = f32x4.add(a1, b1);
      const d21 = less(a1, b1, minus);
      a0 = lanes(v128.load(p, 384));
      a1 = lanes(v128.load(p, 400));
      b0 = lanes(v128.load(p, 896));
      b1 = lanes(v128.load(p, 912));
      const s30 = f32x4.add(a0, b0);
      const d30 = less(a0, b0, minus);
      const s31 = f32x4.add(a1, b1);
      const d31 = less(a1, b1, minus);
      let t0: v128;
      let t1: v128;
      let u0: v128;
      let u1: v128;
      let v0: v128;
      let v1: v128;
      let w0: v128;
      let w1: v128;
      t0 = f32x4.add(s00, s20);
      t1 = f32x4.add(s01, s21);
      u0 = less(s00, s20, minus);
      u1 = less(s01, s21, minus);
      v0 = f32x4.add(s10, s30);
      v1 = f32x4.add(s11, s31);
      w0 = less(s10, s30, minus);
      w1 = less(s11, s31, minus);
      v128.store(p, f32x4.add(t0, v0), 0);
      v128.store(p, f32x4.add(t1, v1), 16);
      v128.store(p, less(t0, v0, minus), 128);
      v128.store(p, less(t1, v1, minus), 144);
      v128.store(p, f32x4.add(u0, w0), 256);
      v128.store(p, f32x4.add(u1, w1), 272);
      v128.store(p, less(u0, w0, minus), 384);
      v128.store(p, less(u1, w1, minus), 400);
      t0 = f32x4.add(d00, d20);
      t1 = f32x4.add(d01, d21);
      u0 = less(d00, d20, minus);
      u1 = less(d01, d21, minus);
      v0 = f32x4.add(d10, d30);
      v1 = f32x4.add(d11, d31);
      w0 = less(d10, d30, minus);
      w1 = less(d11, d31, minus);
      v128.store(p, f32x4.add(t0, v0), 512);
      v128.store(p, f32x4.add(t1, v1), 528);
      v128.store(p, less(t0, v0, minus), 640);
      v128.store(p, less(t1, v1, minus), 656);
      v128.store(p, f32x4.add(u0, w0), 768);
      v128.store(p, f32x4.add(u1, w1), 784);
      v128.store(p, less(u0, w0, minus), 896);
      v128.store(p, less(u1, w1, minus), 912);
    }
  }
}

/** Three doublings of elements h, 2 h and 4 h bytes apart. */
export function pass_of_8(y: usize, end: usize, h: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  const far = h << 2;
  for (; y < end; y += h << 3) {
    for (let p = y; p < y + h; p += 16) {
      const p1 = p + h;
      const p2 = p1 + h;
      const p3 = p2 + h;
      let a: v128;
      let b: v128;
      a = v128.load(p);
      b = v128.load(p + far);
      const s0 = f32x4.add(a, b);
      const d0 = f32x4.sub(a, b);
      a = v128.load(p2);
      b = v128.load(p2 + far);
      const s2 = f32x4.add(a, b);
      const d2 = f32x4.sub(a, b);
      let u = f32x4.add(s0, s2);
      let v = f32x4.sub(s0, s2);
      a = v128.load(p1);
      b = v128.load(p1 + far);
      const s1 = f32x4.add(a, b);
      const d1 = f32x4.sub(a, b);
      a = v128.load(p3);
      b = v128.load(p3 + far);
      const s3 = f32x4.add(a, b);
      const d3 = f32x4.sub(a, b);
      let w = f32x4.add(s1, s3);
      let z = f32x4.sub(s1, s3);
      v128.store(p, f32x4.add(u, w));
      v128.store(p1, less(u, w, minus));
      v128.store(p2, f32x4.add(v, z));
      v128.store(p3, less(v, z, minus));
      u = f32x4.add(d0, d2);
      v = f32x4.sub(d0, d2);
      w = f32x4.add(d1, d3);
      z = f32x4.sub(d1, d3);
      v128.store(p + far, f32x4.add(u, w));
      v128.store(p1 + far, less(u, w, minus));
      v128.store(p2 + far, f32x4.add(v, z));
      v128.store(p3 + far, less(v, z, minus));
    }
  }
}

/** Two doublings of elements h and 2 h bytes apart. */
export function pass_of_4(y: usize, end: usize, h: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += h << 2) for (let p = y; p < y + h; p += 32) four(false, p, h, minus);
}

/**
 * Two doublings of the vectors at four places h bytes apart, for two vectors side by side, which
 * turbo joins.
 */
@inline
function four(inside: bool, y: usize, h: usize, minus: v128): void {
  const y1 = y + h;
  const y2 = y1 + h;
  const y3 = y2 + h;
  const a0 = get(inside, v128.load(y, 0));
  const a1 = get(inside, v128.load(y, 16));
  const b0 = get(inside, v128.load(y1, 0));
  const b1 = get(inside, v128.load(y1, 16));
  const c0 = get(inside, v128.load(y2, 0));
  const c1 = get(inside, v128.load(y2, 16));
  const d0 = get(inside, v128.load(y3, 0));
  const d1 = get(inside, v128.load(y3, 16));
  const s0 = f32x4.add(a0, c0);
  const s1 = f32x4.add(a1, c1);
  const t0 = less(a0, c0, minus);
  const t1 = less(a1, c1, minus);
  const u0 = f32x4.add(b0, d0);
  const u1 = f32x4.add(b1, d1);
  const v0 = less(b0, d0, minus);
  const v1 = less(b1, d1, minus);
  v128.store(y, f32x4.add(s0, u0), 0);
  v128.store(y, f32x4.add(s1, u1), 16);
  v128.store(y1, less(s0, u0, minus), 0);
  v128.store(y1, less(s1, u1, minus), 16);
  v128.store(y2, f32x4.add(t0, v0), 0);
  v128.store(y2, f32x4.add(t1, v1), 16);
  v128.store(y3, less(t0, v0, minus), 0);
  v128.store(y3, less(t1, v1, minus), 16);
}

@inline
function get(inside: bool, v: v128): v128 {
  return inside ? lanes(v) : v;
}
