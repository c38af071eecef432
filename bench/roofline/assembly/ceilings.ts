/**
 * Upper limits for kernels: loops that only load, or only multiply and add. bench/roofline.ts
 * compiles them for each kind of build. Not part of the package.
 *
 * Peaks have the shape of an ideal inner loop of a product: two weight vectors stay in registers,
 * four activations come from L1, and eight sums hide the latency of additions. The sums are stored
 * next to each other, as V8's revectoriser requires. Four more vectors would not fit in 16
 * registers.
 */

/** Reads [from, to) `times` times. The result depends on every byte. Sizes are multiples of 128. */
export function read(from: usize, to: usize, times: i32): i32 {
  let s0 = i64x2.splat(0);
  let s1 = s0;
  let s2 = s0;
  let s3 = s0;
  for (; times > 0; times--) {
    for (let p = from; p != to; p += 128) {
      s0 = v128.xor(s0, v128.load(p));
      s1 = v128.xor(s1, v128.load(p, 16));
      s2 = v128.xor(s2, v128.load(p, 32));
      s3 = v128.xor(s3, v128.load(p, 48));
      s0 = v128.xor(s0, v128.load(p, 64));
      s1 = v128.xor(s1, v128.load(p, 80));
      s2 = v128.xor(s2, v128.load(p, 96));
      s3 = v128.xor(s3, v128.load(p, 112));
    }
    s0 = i64x2.add(s0, s1);
  }
  return i32x4.extract_lane(v128.xor(v128.xor(s0, s1), v128.xor(s2, s3)), 0);
}

/**
 * Reads the bytes as four streams of a quarter each. If the processor's prefetcher allows it, more
 * memory requests are then in flight.
 */
export function read_streams(from: usize, to: usize, times: i32): i32 {
  let s0 = i64x2.splat(0);
  let s1 = s0;
  let s2 = s0;
  let s3 = s0;
  const quarter = (to - from) >> 2;
  for (; times > 0; times--) {
    for (let p = from, end = from + quarter; p != end; p += 32) {
      const p1 = p + quarter;
      const p2 = p1 + quarter;
      const p3 = p2 + quarter;
      s0 = v128.xor(s0, v128.load(p));
      s1 = v128.xor(s1, v128.load(p1));
      s2 = v128.xor(s2, v128.load(p2));
      s3 = v128.xor(s3, v128.load(p3));
      s0 = v128.xor(s0, v128.load(p, 16));
      s1 = v128.xor(s1, v128.load(p1, 16));
      s2 = v128.xor(s2, v128.load(p2, 16));
      s3 = v128.xor(s3, v128.load(p3, 16));
    }
    s0 = i64x2.add(s0, s1);
  }
  return i32x4.extract_lane(v128.xor(v128.xor(s0, s1), v128.xor(s2, s3)), 0);
}

/** Bytes of activations that the peaks run over repeatedly. */
const A: usize = 1024;

// One class for each kind of multiply-add: an @unmanaged type parameter inlines completely.

/** 4 f32 products, fused if there is relaxed SIMD. */
@unmanaged
class F32 {
  @inline
  mac(s: v128, a: v128, w: v128): v128 {
    if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, w, s);
    return f32x4.add(s, f32x4.mul(a, w));
  }
}

/**
 * 16 products of 8 bits with 16-bit sums; without relaxed SIMD 8 products of 16 bits with 32-bit
 * sums.
 */
@unmanaged
class Dot {
  @inline
  mac(s: v128, a: v128, w: v128): v128 {
    if (ASC_FEATURE_RELAXED_SIMD) return i16x8.add(s, i16x8.relaxed_dot_i8x16_i7x16_s(a, w));
    return i32x4.add(s, i32x4.dot_i16x8_s(a, w));
  }
}

/**
 * 16 products of 8 bits with 32-bit sums: one instruction if V8 has a dot product (ARM, AVX-VNNI),
 * otherwise five.
 */
@unmanaged
class DotAdd {
  @inline
  mac(s: v128, a: v128, w: v128): v128 {
    if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(a, w, s);
    return s;
  }
}

@inline
function peak<M>(a: usize, w: usize, out: usize, times: i32): void {
  const m = changetype<M>(0);
  const w0 = v128.load(w);
  const w1 = v128.load(w, 16);
  let s00 = i64x2.splat(0);
  let s01 = s00;
  let s10 = s00;
  let s11 = s00;
  let s20 = s00;
  let s21 = s00;
  let s30 = s00;
  let s31 = s00;
  // One loop, because V8's revectoriser cannot handle two.
  for (let n = times * <i32>(A / 16); n > 0; n--) {
    const p = a + (<usize>(n & (A / 16 - 1)) << 4);
    let x = v128.load32_splat(p);
    s00 = m.mac(s00, x, w0);
    s01 = m.mac(s01, x, w1);
    x = v128.load32_splat(p, 4);
    s10 = m.mac(s10, x, w0);
    s11 = m.mac(s11, x, w1);
    x = v128.load32_splat(p, 8);
    s20 = m.mac(s20, x, w0);
    s21 = m.mac(s21, x, w1);
    x = v128.load32_splat(p, 12);
    s30 = m.mac(s30, x, w0);
    s31 = m.mac(s31, x, w1);
  }
  v128.store(out, s00);
  v128.store(out, s01, 16);
  v128.store(out, s10, 32);
  v128.store(out, s11, 48);
  v128.store(out, s20, 64);
  v128.store(out, s21, 80);
  v128.store(out, s30, 96);
  v128.store(out, s31, 112);
}

/** Vectors that one of `times` multiplies: A / 4 activations with two weight vectors each. */
export function peak_vectors(): i32 {
  return <i32>(A / 4) * 2;
}

export function peak_f32(a: usize, w: usize, out: usize, times: i32): void {
  peak<F32>(a, w, out, times);
}

export function peak_dot(a: usize, w: usize, out: usize, times: i32): void {
  peak<Dot>(a, w, out, times);
}

export function peak_dot_add(a: usize, w: usize, out: usize, times: i32): void {
  peak<DotAdd>(a, w, out, times);
}

/** Only additions in registers. */
export function peak_add(w: usize, out: usize, times: i32): void {
  in_registers<Add>(w, out, times);
}

/** Only subtractions, which with relaxed SIMD are multiply-adds, as in the transform. */
export function peak_less(w: usize, out: usize, times: i32): void {
  in_registers<Less>(w, out, times);
}

@unmanaged
class Add {
  @inline
  of(a: v128, b: v128, minus: v128): v128 {
    return f32x4.add(a, b);
  }
}

@unmanaged
class Less {
  @inline
  of(a: v128, b: v128, minus: v128): v128 {
    if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(b, minus, a);
    return f32x4.sub(a, b);
  }
}

/** Twelve sums, which hide an operation's latency and leave registers for the operands. */
@inline
function in_registers<M>(w: usize, out: usize, times: i32): void {
  const m = changetype<M>(0);
  const x = v128.load(w);
  const y = v128.load(w, 16);
  let s0 = x;
  let s1 = x;
  let s2 = x;
  let s3 = x;
  let s4 = x;
  let s5 = x;
  let s6 = x;
  let s7 = x;
  let s8 = x;
  let s9 = x;
  let s10 = x;
  let s11 = x;
  for (; times > 0; times--) {
    s0 = m.of(s0, x, y);
    s1 = m.of(s1, x, y);
    s2 = m.of(s2, x, y);
    s3 = m.of(s3, x, y);
    s4 = m.of(s4, x, y);
    s5 = m.of(s5, x, y);
    s6 = m.of(s6, x, y);
    s7 = m.of(s7, x, y);
    s8 = m.of(s8, x, y);
    s9 = m.of(s9, x, y);
    s10 = m.of(s10, x, y);
    s11 = m.of(s11, x, y);
  }
  v128.store(out, s0);
  v128.store(out, s1, 16);
  v128.store(out, s2, 32);
  v128.store(out, s3, 48);
  v128.store(out, s4, 64);
  v128.store(out, s5, 80);
  v128.store(out, s6, 96);
  v128.store(out, s7, 112);
  v128.store(out, s8, 128);
  v128.store(out, s9, 144);
  v128.store(out, s10, 160);
  v128.store(out, s11, 176);
}
