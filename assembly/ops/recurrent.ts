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
import { MOST_TAPS, RECURRENT_CHUNK, RUN_WORDS } from '../layout';
import { silu_f32x4 } from '../math';
import { range_end, range_start } from '../runtime/schedule';
import { Op, Tensor, row_of } from '../runtime/tensor';
import { madd } from '../simd';
import { delta_4, prepare_token, scan_1, scan_4, token_of, token_work } from './recurrent_rows';

/** Bytes of a run. */
const RUN: usize = <usize>RUN_WORDS << 2;
/** Channels of a convolution that one thread takes together: a cache line. */
const LINE: i32 = 16;

/** silu without inlining, because it is used three times. */
function silu_of(x: v128): v128 {
  return silu_f32x4(x);
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
  const weights = scratch + (<usize>MOST_TAPS << 2);
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
      for (let from = begin; from < end; from += RECURRENT_CHUNK) {
        const to = min(end, from + RECURRENT_CHUNK);
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
