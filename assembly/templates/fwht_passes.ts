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
    // $for i of 0..4
    a = f32x4.mul(v128.load(x, $(16 * i)), s);
    b = f32x4.mul(v128.load(x, $(16 * i + 64)), s);
    const s$i = f32x4.add(a, b);
    const d$i = f32x4.sub(a, b);
    // $end
    let u: v128;
    let v: v128;
    let w: v128;
    let z: v128;
    // $for x, at of [['s', 0], ['d', 64]]
    u = f32x4.add($x0, $x2);
    v = f32x4.sub($x0, $x2);
    w = f32x4.add($x1, $x3);
    z = f32x4.sub($x1, $x3);
    v128.store(y, f32x4.add(u, w), $at);
    v128.store(y, less(u, w, minus), $(at + 16));
    v128.store(y, f32x4.add(v, z), $(at + 32));
    v128.store(y, less(v, z, minus), $(at + 48));
    // $end
  }
}

/** The doublings within vectors. */
export function within_1(y: usize, end: usize): void {
  for (; y < end; y += 32) {
    const a$j = lanes(v128.load(y, $(16 * j))); // $for j of 0..2
    v128.store(y, a$j, $(16 * j)); // $for j of 0..2
  }
}

/** The doublings within vectors, and that of elements 128 bytes apart. */
export function within_2(y: usize, end: usize): void {
  const minus = v128.load32_splat(SIGNS, 4);
  for (; y < end; y += 256) {
    for (let p = y; p < y + 128; p += 32) {
      // $for x, at of [['a', 0], ['b', 128]]
      const $x$j = lanes(v128.load(p, $(at + 16 * j))); // $for j of 0..2
      // $end
      v128.store(p, f32x4.add(a$j, b$j), $(16 * j)); // $for j of 0..2
      v128.store(p, less(a$j, b$j, minus), $(128 + 16 * j)); // $for j of 0..2
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
      // $for x of ['a', 'b']
      let $x$j: v128; // $for j of 0..2
      // $end
      // $for i of 0..4
      // $for x, at of [['a', 0], ['b', 512]]
      $x$j = lanes(v128.load(p, $(at + 128 * i + 16 * j))); // $for j of 0..2
      // $end
      // $for j of 0..2
      const s$i$j = f32x4.add(a$j, b$j);
      const d$i$j = less(a$j, b$j, minus);
      // $end
      // $end
      // $for x of ['t', 'u', 'v', 'w']
      let $x$j: v128; // $for j of 0..2
      // $end
      // $for x, at of [['s', 0], ['d', 512]]
      // $for sum, difference, i, k of [['t', 'u', 0, 2], ['v', 'w', 1, 3]]
      $sum$j = f32x4.add($x$i$j, $x$k$j); // $for j of 0..2
      $difference$j = less($x$i$j, $x$k$j, minus); // $for j of 0..2
      // $end
      // $for x, y, to of [['t', 'v', at], ['u', 'w', at + 256]]
      v128.store(p, f32x4.add($x$j, $y$j), $(to + 16 * j)); // $for j of 0..2
      v128.store(p, less($x$j, $y$j, minus), $(to + 128 + 16 * j)); // $for j of 0..2
      // $end
      // $end
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
      // $let P = ['p', 'p1', 'p2', 'p3']
      let a: v128;
      let b: v128;
      // $for x, y, i, k of [['u', 'v', 0, 2], ['w', 'z', 1, 3]]
      // $for j of [i, k]
      a = v128.load($(P[j]));
      b = v128.load($(P[j]) + far);
      const s$j = f32x4.add(a, b);
      const d$j = f32x4.sub(a, b);
      // $end
      let $x = f32x4.add(s$i, s$k);
      let $y = f32x4.sub(s$i, s$k);
      // $end
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
  // $for x, y of [['a', 'y'], ['b', 'y1'], ['c', 'y2'], ['d', 'y3']]
  const $x$j = get(inside, v128.load($y, $(16 * j))); // $for j of 0..2
  // $end
  // $for sum, difference, x, z of [['s', 't', 'a', 'c'], ['u', 'v', 'b', 'd']]
  const $sum$j = f32x4.add($x$j, $z$j); // $for j of 0..2
  const $difference$j = less($x$j, $z$j, minus); // $for j of 0..2
  // $end
  // $for x, z, y, w of [['s', 'u', 'y', 'y1'], ['t', 'v', 'y2', 'y3']]
  v128.store($y, f32x4.add($x$j, $z$j), $(16 * j)); // $for j of 0..2
  v128.store($w, less($x$j, $z$j, minus), $(16 * j)); // $for j of 0..2
  // $end
}

@inline
function get(inside: bool, v: v128): v128 {
  return inside ? lanes(v) : v;
}
