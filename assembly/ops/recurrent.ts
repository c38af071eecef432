/**
 * Recurrent layers, with a state of fixed size: a causal convolution (ssm_conv), Mamba's selective
 * scan (ssm_scan) and the gated delta rule (gated_delta_net).
 *
 * A step's tokens come in consecutive runs, i32 [3, n]: the number of tokens, the cell with the
 * initial state (negative: zeros), and the cell that receives the final state. Runs express
 * sequences, checkpoints of a state, and the rest of a prompt. A run may write the cell that it
 * reads.
 *
 * One thread computes each element of a result, token by token in the sequence's order, for any run
 * and batch. So its bits do not depend on them. The rows of a state are independent: a thread takes
 * some rows and a few tokens at a time, so that the rows stay in the L1 cache in long prompts.
 * (Chunked forms, which use matrix products over 64 tokens, add in another order and need more
 * operations.)
 */
import { exp_of, silu_f32x4 } from '../math';
import { range_end, range_start } from '../runtime/schedule';
import { Op, Tensor, row_of } from '../runtime/tensor';
import { hsum_f32, madd } from '../simd';

/** Bytes of a run. */
const RUN: usize = 12;
/** Tokens that rows of a state process before the next rows follow. */
const CHUNK: i32 = 8;
/** Channels of a convolution that one thread takes together: a cache line. */
const LINE: i32 = 16;

/** silu without inlining, because it is used three times. */
function silu_of(x: v128): v128 {
  return silu_f32x4(x);
}

/** Address of token t of [ne0, ne1, n_tokens, n_seqs], counting sequence by sequence. */
function token_of(x: Tensor, t: i32): usize {
  return row_of(x, 0, t % x.ne2, t / x.ne2);
}

/** Copies part of a run's initial state to the place where it is updated, or clears that place. */
function take_state(from: Tensor, cell: i32, to: usize, offset: usize, bytes: usize): void {
  if (cell < 0) return memory.fill(to, 0, bytes);
  const at = row_of(from, 0, 0, cell) + offset;
  if (at != to) memory.copy(to, at, bytes);
}

/**
 * dst [n, 1, n_tokens, n_seqs] = sum over k of weight[k] * the channel's value taps - 1 - k tokens
 * earlier, plus the bias, if there is one; p0 = 1: silu of that.
 *
 *   src0 | x, shaped as dst
 *   src1 | weights [taps, n]
 *   src2 | none, or bias [n]
 *   src3 | states [n, taps - 1, 1, cells]: the last rows of x, the oldest first
 *   src4 | runs
 *   src5 | none, or states that are written
 */
export function ssm_conv(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const x = op.src0;
  const dst = op.dst;
  const n = dst.ne0;
  const taps = op.src1.ne0;
  const lines = (n + LINE - 1) / LINE;
  const from = range_start(lines, ith, nth) * LINE;
  const to = min(n, range_end(lines, ith, nth) * LINE);
  if (from >= to) return;
  const width = <usize>(to - from) << 2;
  // Scratch: address of each tap's row; the weights by taps; the state's rows.
  const weights = scratch + 64;
  const history = weights + <usize>taps * width;
  for (let c = from; c < to; c++) {
    const w = row_of(op.src1, c, 0, 0);
    for (let k = 0; k < taps; k++) store<f32>(weights + <usize>k * width + (<usize>(c - from) << 2), load<f32>(w + (<usize>k << 2)));
  }
  const bias = changetype<usize>(op.src2) ? op.src2.data + (<usize>from << 2) : 0;
  const offset = <usize>from << 2;
  let run = op.src4.data;
  const total = x.ne2 * x.ne3;
  for (let t = 0; t < total; run += RUN) {
    const count = load<i32>(run);
    if (count < 1) return;
    const begin = t;
    const cell = load<i32>(run, 4);
    for (let k = 0; k < taps - 1; k++) {
      const row = history + <usize>k * width;
      if (cell < 0) memory.fill(row, 0, width);
      else memory.copy(row, row_of(op.src3, k, 0, cell) + offset, width);
    }
    for (const end = t + count; t < end; t++) {
      for (let k = 0; k < taps; k++)
        store<usize>(scratch + (<usize>k << 2), row_before(x, history, begin, t - (taps - 1) + k, taps, width, offset));
      const y = token_of(dst, t) + offset;
      convolve(scratch, weights, bias, y, taps, width, op.p0 != 0);
    }
    if (!changetype<usize>(op.src5)) continue;
    for (let k = 0; k < taps - 1; k++) {
      const row = row_before(x, history, begin, t - (taps - 1) + k, taps, width, offset);
      memory.copy(row_of(op.src5, k, 0, load<i32>(run, 8)) + offset, row, width);
    }
  }
}

/** Row t of a run that begins with row `begin`. Earlier rows come from the history. */
function row_before(x: Tensor, history: usize, begin: i32, t: i32, taps: i32, width: usize, offset: usize): usize {
  return t < begin ? history + <usize>(t - begin + taps - 1) * width : token_of(x, t) + offset;
}

/** Computes one token for `width` bytes of channels. */
function convolve(rows: usize, weights: usize, bias: usize, y: usize, taps: i32, width: usize, silu: bool): void {
  const end = width & ~31;
  let o: usize = 0;
  for (; o < end; o += 32) {
    let a = bias ? v128.load(bias + o) : f32x4.splat(0);
    let b = bias ? v128.load(bias + o, 16) : f32x4.splat(0);
    let w = weights + o;
    for (let k = 0; k < taps; k++, w += width) {
      const x = load<usize>(rows + (<usize>k << 2)) + o;
      a = madd(v128.load(x), v128.load(w), a);
      b = madd(v128.load(x, 16), v128.load(w, 16), b);
    }
    v128.store(y + o, silu ? silu_of(a) : a);
    v128.store(y + o, silu ? silu_of(b) : b, 16);
  }
  for (; o < width; o += 4) {
    let a = bias ? v128.load32_splat(bias + o) : f32x4.splat(0);
    let w = weights + o;
    for (let k = 0; k < taps; k++, w += width)
      a = madd(v128.load32_splat(load<usize>(rows + (<usize>k << 2)) + o), v128.load32_splat(w), a);
    v128.store32_lane(y + o, silu ? silu_of(a) : a, 0);
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

/**
 * dst [dim, n_head, n_tokens, n_seqs]: s = s * e^(dt A) + dt x B; y = s . C, for every row s of a
 * head's state. d_state is a multiple of 4.
 *
 *   src0       | x, shaped as dst
 *   src1       | dt [1, n_head, n_tokens, n_seqs]
 *   src2       | A [d_state or 1, n_head]
 *   src3, src4 | B and C [d_state, n_group, n_tokens, n_seqs]
 *   src5       | states [d_state, dim, n_head, cells]
 *   src6       | runs
 *   src7       | states that are written
 */
export function ssm_scan(op: Op, ith: i32, nth: i32): void {
  walk(op, ith, nth, 0);
}

/**
 * dst [n, n_head, n_tokens, n_seqs]: a head's state S [n, n], whose row j belongs to value j,
 * becomes S e^g. Then delta = (v - S k) beta, S += delta k^T, and y = S q p0. n is a multiple of 4.
 *
 *   src0, src1 | q and k [n, a divisor of n_head, n_tokens, n_seqs]; head h uses number h modulo theirs
 *   src2       | v, shaped as dst
 *   src3       | g [1 or n, n_head, n_tokens, n_seqs]
 *   src4       | beta [1, n_head, n_tokens, n_seqs]
 *   src5       | states [n, n, n_head, cells]
 *   src6       | runs
 *   src7       | states that are written
 *
 */
export function gated_delta_net(op: Op, ith: i32, nth: i32, scratch: usize): void {
  walk(op, ith, nth, scratch);
}

/**
 * Walks over runs, heads, tokens and rows of states. work: a thread's scratch for the delta rule, 0
 * for a scan.
 */
function walk(op: Op, ith: i32, nth: i32, work: usize): void {
  const dst = op.dst;
  const out = op.src7;
  const dim = dst.ne0;
  const tokens = dst.ne2 * dst.ne3;
  const bytes = <usize>out.nb1;
  // Four rows of a head at a time; the remainder one by one.
  const tiles = (dim + 3) >> 2;
  const last = range_end(dst.ne1 * tiles, ith, nth);
  let run = op.src6.data;
  for (let begin = 0; begin < tokens; run += RUN) {
    const end = begin + load<i32>(run);
    if (end <= begin) return;
    let next = 0;
    for (let tile = range_start(dst.ne1 * tiles, ith, nth); tile < last; tile = next) {
      const h = tile / tiles;
      next = min(last, (h + 1) * tiles);
      const first = (tile - h * tiles) << 2;
      const behind = min(dim, (next - h * tiles) << 2);
      const offset = <usize>h * out.nb2 + <usize>first * bytes;
      const state = row_of(out, 0, 0, load<i32>(run, 8)) + offset;
      take_state(op.src5, load<i32>(run, 4), state, offset, <usize>(behind - first) * bytes);
      for (let from = begin; from < end; from += CHUNK) {
        const to = min(end, from + CHUNK);
        if (work) for (let t = from; t < to; t++) prepare_token(op, h, t, work + <usize>(t - from) * token_work(bytes), bytes);
        let row = first;
        let s = state;
        if (work || op.src2.ne0 == 1)
          for (; row + 4 <= behind; row += 4, s += bytes << 2) {
            if (work) delta_4(op, h, row, s, bytes, work, from, to);
            else scan_4(op, h, row, s, bytes, from, to);
          }
        for (; row < behind; row++, s += bytes) scan_1(op, h, row, s, bytes, from, to);
      }
    }
    begin = end;
  }
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
function scan_4(op: Op, h: i32, row: i32, s: usize, bytes: usize, from: i32, to: i32): void {
  const a = v128.load32_splat(row_of(op.src2, h, 0, 0));
  const group = group_of(op, h);
  const s1 = s + bytes;
  const s2 = s1 + bytes;
  const s3 = s2 + bytes;
  for (let t = from; t < to; t++) {
    const dt = v128.load32_splat(head_of(op.src1, h, t));
    const decay = exp_of(f32x4.mul(dt, a));
    const x = f32x4.mul(dt, v128.load(head_of(op.src0, h, t) + (<usize>row << 2)));
    const x0 = lane(x, 0);
    const x1 = lane(x, 1);
    const x2 = lane(x, 2);
    const x3 = lane(x, 3);
    const b = head_of(op.src3, group, t);
    const c = head_of(op.src4, group, t);
    let y0 = f32x4.splat(0);
    let y1 = y0;
    let y2 = y0;
    let y3 = y0;
    for (let o: usize = 0; o < bytes; o += 16) {
      const vb = v128.load(b + o);
      const vc = v128.load(c + o);
      const r0 = madd(vb, x0, f32x4.mul(v128.load(s + o), decay));
      const r1 = madd(vb, x1, f32x4.mul(v128.load(s1 + o), decay));
      const r2 = madd(vb, x2, f32x4.mul(v128.load(s2 + o), decay));
      const r3 = madd(vb, x3, f32x4.mul(v128.load(s3 + o), decay));
      v128.store(s + o, r0);
      v128.store(s1 + o, r1);
      v128.store(s2 + o, r2);
      v128.store(s3 + o, r3);
      y0 = madd(r0, vc, y0);
      y1 = madd(r1, vc, y1);
      y2 = madd(r2, vc, y2);
      y3 = madd(r3, vc, y3);
    }
    v128.store(head_of(op.dst, h, t) + (<usize>row << 2), hsums(y0, y1, y2, y3));
  }
}

/** One row of a state whose head has a decay for each element (Mamba 1), or one decay for all. */
function scan_1(op: Op, h: i32, row: i32, s: usize, bytes: usize, from: i32, to: i32): void {
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
function token_work(bytes: usize): usize {
  return (bytes << 2) + 16;
}

function prepare_token(op: Op, h: i32, t: i32, work: usize, bytes: usize): void {
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
function delta_4(op: Op, h: i32, row: i32, s: usize, bytes: usize, work: usize, from: i32, to: i32): void {
  const s1 = s + bytes;
  const s2 = s1 + bytes;
  const s3 = s2 + bytes;
  const scale = f32x4.splat(reinterpret<f32>(op.p0));
  const column = <usize>row << 2;
  for (let t = from; t < to; t++, work += token_work(bytes)) {
    const key = work + bytes;
    const decayed_key = key + bytes;
    const decayed_query = decayed_key + bytes;
    const numbers = decayed_query + bytes;
    let k0 = f32x4.splat(0);
    let k1 = k0;
    let k2 = k0;
    let k3 = k0;
    let q0 = k0;
    let q1 = k0;
    let q2 = k0;
    let q3 = k0;
    for (let o: usize = 0; o < bytes; o += 16) {
      const vk = v128.load(decayed_key + o);
      const vq = v128.load(decayed_query + o);
      const r0 = v128.load(s + o);
      const r1 = v128.load(s1 + o);
      const r2 = v128.load(s2 + o);
      const r3 = v128.load(s3 + o);
      k0 = madd(r0, vk, k0);
      k1 = madd(r1, vk, k1);
      k2 = madd(r2, vk, k2);
      k3 = madd(r3, vk, k3);
      q0 = madd(r0, vq, q0);
      q1 = madd(r1, vq, q1);
      q2 = madd(r2, vq, q2);
      q3 = madd(r3, vq, q3);
    }
    const v = v128.load(head_of(op.src2, h, t) + column);
    const delta = f32x4.mul(f32x4.sub(v, hsums(k0, k1, k2, k3)), v128.load32_splat(numbers));
    const y = madd(delta, v128.load32_splat(numbers, 4), hsums(q0, q1, q2, q3));
    v128.store(head_of(op.dst, h, t) + column, f32x4.mul(y, scale));
    k0 = lane(delta, 0);
    k1 = lane(delta, 1);
    k2 = lane(delta, 2);
    k3 = lane(delta, 3);
    for (let o: usize = 0; o < bytes; o += 16) {
      const decay = v128.load(work + o);
      const vk = v128.load(key + o);
      v128.store(s + o, madd(vk, k0, f32x4.mul(v128.load(s + o), decay)));
      v128.store(s1 + o, madd(vk, k1, f32x4.mul(v128.load(s1 + o), decay)));
      v128.store(s2 + o, madd(vk, k2, f32x4.mul(v128.load(s2 + o), decay)));
      v128.store(s3 + o, madd(vk, k3, f32x4.mul(v128.load(s3 + o), decay)));
    }
  }
}
