// $let ROWS = 4
/**
 * Rows of recurrent layers' states (recurrent.ts): Mamba's selective scan and the gated delta rule,
 * a few tokens at a time, four rows side by side.
 */
import { exp_of } from '../math';
import { Op, Tensor, row_of } from '../runtime/tensor';
import { hsum_f32, madd } from '../simd';

/** Address of token t of [ne0, ne1, n_tokens, n_seqs], counting sequence by sequence. */
export function token_of(x: Tensor, t: i32): usize {
  return row_of(x, 0, t % x.ne2, t / x.ne2);
}

/** Address of head h of token t. */
function head_of(x: Tensor, h: i32, t: i32): usize {
  return token_of(x, t) + <usize>h * x.nb1;
}

/** Number of the group of B and C that a head uses. */
function group_of(op: Op, h: i32): i32 {
  return h / (op.dst.ne1 / op.src3.ne1);
}

/** Four rows of a state whose head has one decay (Mamba 2). */
export function scan_4(op: Op, h: i32, row: i32, s: usize, bytes: usize, from: i32, to: i32): void {
  const a = v128.load32_splat(row_of(op.src2, h, 0, 0));
  const group = group_of(op, h);
  const s0 = s;
  const s$r = s$previous + bytes; // $for r, previous of [[1, 0], [2, 1], [3, 2]]
  for (let t = from; t < to; t++) {
    const dt = v128.load32_splat(head_of(op.src1, h, t));
    const decay = exp_of(f32x4.mul(dt, a));
    const x = f32x4.mul(dt, v128.load(head_of(op.src0, h, t) + (<usize>row << 2)));
    const x$r = lane(x, $r); // $for r of 0..ROWS
    const b = head_of(op.src3, group, t);
    const c = head_of(op.src4, group, t);
    let y0 = f32x4.splat(0);
    let y$r = y0; // $for r of 1..ROWS
    for (let o: usize = 0; o < bytes; o += 16) {
      const vb = v128.load(b + o);
      const vc = v128.load(c + o);
      const r$r = madd(vb, x$r, f32x4.mul(v128.load(s$r + o), decay)); // $for r of 0..ROWS
      v128.store(s$r + o, r$r); // $for r of 0..ROWS
      y$r = madd(r$r, vc, y$r); // $for r of 0..ROWS
    }
    v128.store(head_of(op.dst, h, t) + (<usize>row << 2), hsums(y0, y1, y2, y3));
  }
}

/** One row of a state whose head has a decay for each element (Mamba 1), or one decay for all. */
export function scan_1(op: Op, h: i32, row: i32, s: usize, bytes: usize, from: i32, to: i32): void {
  const a = row_of(op.src2, h, 0, 0);
  const group = group_of(op, h);
  const one = op.src2.ne0 == 1;
  for (let t = from; t < to; t++) {
    const dt = v128.load32_splat(head_of(op.src1, h, t));
    const x = f32x4.mul(dt, v128.load32_splat(head_of(op.src0, h, t) + (<usize>row << 2)));
    const b = head_of(op.src3, group, t);
    const c = head_of(op.src4, group, t);
    let y = f32x4.splat(0);
    for (let o: usize = 0; o < bytes; o += 16) {
      const decay = exp_of(f32x4.mul(dt, one ? v128.load32_splat(a) : v128.load(a + o)));
      const r = madd(v128.load(b + o), x, f32x4.mul(v128.load(s + o), decay));
      v128.store(s + o, r);
      y = madd(r, v128.load(c + o), y);
    }
    store<f32>(head_of(op.dst, h, t) + (<usize>row << 2), hsum_f32(y));
  }
}

/** Bytes of a token's vectors for a head: e^g, k, e^g k, e^g q, and beta and k . q. */
@inline
export function token_work(bytes: usize): usize {
  return (bytes << 2) + 16;
}

export function prepare_token(op: Op, h: i32, t: i32, work: usize, bytes: usize): void {
  const q = head_of(op.src0, h % op.src0.ne1, t);
  const k = head_of(op.src1, h % op.src1.ne1, t);
  const g = head_of(op.src3, h, t);
  const one = op.src3.ne0 == 1;
  let decay = exp_of(v128.load32_splat(g));
  let kq = f32x4.splat(0);
  for (let o: usize = 0; o < bytes; o += 16) {
    if (!one) decay = exp_of(v128.load(g + o));
    const vk = v128.load(k + o);
    const vq = v128.load(q + o);
    const w = work + o;
    v128.store(w, decay);
    v128.store(w + bytes, vk);
    v128.store(w + (bytes << 1), f32x4.mul(decay, vk));
    v128.store(w + bytes * 3, f32x4.mul(decay, vq));
    kq = madd(vk, vq, kq);
  }
  store<f32>(work + (bytes << 2), load<f32>(head_of(op.src4, h, t)));
  store<f32>(work + (bytes << 2), hsum_f32(kq), 4);
}

/**
 * Four rows of a state. The output is (S e^g) q + delta (k . q), so that both products need one
 * pass over the state.
 */
export function delta_4(op: Op, h: i32, row: i32, s: usize, bytes: usize, work: usize, from: i32, to: i32): void {
  const s0 = s;
  const s$r = s$previous + bytes; // $for r, previous of [[1, 0], [2, 1], [3, 2]]
  const scale = f32x4.splat(reinterpret<f32>(op.p0));
  const column = <usize>row << 2;
  for (let t = from; t < to; t++, work += token_work(bytes)) {
    const key = work + bytes;
    const decayed_key = key + bytes;
    const decayed_query = decayed_key + bytes;
    const numbers = decayed_query + bytes;
    let k0 = f32x4.splat(0);
    let k$r = k0; // $for r of 1..ROWS
    let q$r = k0; // $for r of 0..ROWS
    for (let o: usize = 0; o < bytes; o += 16) {
      const vk = v128.load(decayed_key + o);
      const vq = v128.load(decayed_query + o);
      const r$r = v128.load(s$r + o); // $for r of 0..ROWS
      k$r = madd(r$r, vk, k$r); // $for r of 0..ROWS
      q$r = madd(r$r, vq, q$r); // $for r of 0..ROWS
    }
    const v = v128.load(head_of(op.src2, h, t) + column);
    const delta = f32x4.mul(f32x4.sub(v, hsums(k0, k1, k2, k3)), v128.load32_splat(numbers));
    const y = madd(delta, v128.load32_splat(numbers, 4), hsums(q0, q1, q2, q3));
    v128.store(head_of(op.dst, h, t) + column, f32x4.mul(y, scale));
    k$r = lane(delta, $r); // $for r of 0..ROWS
    for (let o: usize = 0; o < bytes; o += 16) {
      const decay = v128.load(work + o);
      const vk = v128.load(key + o);
      v128.store(s$r + o, madd(vk, k$r, f32x4.mul(v128.load(s$r + o), decay))); // $for r of 0..ROWS
    }
  }
}

/** The sums of the lanes of four vectors, each added as by hsum_f32. */
function hsums(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(
    i8x16.shuffle(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
  const cd = f32x4.add(
    i8x16.shuffle(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
  return f32x4.add(
    i8x16.shuffle(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
    i8x16.shuffle(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31),
  );
}

@inline
function lane(v: v128, i: i32): v128 {
  if (i == 0) return i8x16.shuffle(v, v, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  if (i == 1) return i8x16.shuffle(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  if (i == 2) return i8x16.shuffle(v, v, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11);
  return i8x16.shuffle(v, v, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15);
}
