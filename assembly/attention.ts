/**
 * Attention over the KV cache: softmax(scale * q k + mask) v, for prompts and for generation, batch- and thread-invariant.
 *
 * Keys are taken in parts of PART cells counted from the sequence's first cell. A part gives (max, sum, output) by itself,
 * and parts are merged in ascending order: which thread computed which part, and beside which other tokens, leaves no trace.
 * Within a part a score is one chain of madds over the dimensions, an output one chain over the keys.
 *
 * Prompts: a work item is (kv head, tile of tokens); rows of the tile walk the parts together.
 * Generation (up to SPLIT_TOKENS tokens): an item is (token, kv head, part); attention_merge joins them after a barrier.
 */
import { exp_f32x4 } from './math';
import { hsum_f32, madd } from './simd';
import { k_group, v_row } from './kv_cache';
import { Op, row_of } from './tensor';
import { take } from './sync';

/** Cells of one part: K and V of a part and head (2 x 32 KiB at head_dim 64) stay in L2, and 1024 cells give 2 threads 4 x n_head_kv items. */
export const PART: i32 = 256;
/** Up to so many tokens a step is split by parts; beyond that there are items enough without. */
export const SPLIT_TOKENS: i32 = 4;
/** Tokens of a prompt's work item. */
const TOKENS: i32 = 16;
/** Rows (token x query head) that walk the keys together: 4 rows x 8 keys are 8 accumulators, beside 2 key and 4 query registers. */
const ROWS: i32 = 4;

/** Lower than any score, finite: fast-math forbids infinities in differences. */
const LOWEST: f32 = -1e30;
/** f16 bits shifted into an f32 are the value times 2^-112; the factor is folded into q and into the probabilities. */
const F16_SCALE: u32 = 0x77800000;

// A row's state while it walks: max, sum, then head_dim outputs.
const STATE: i32 = 4; // floats before the outputs, so that these stay aligned

/** Scratch bytes of a thread: ROWS rows of queries, scores, one part's state and the merged state. */
export function attention_scratch(hd: i32): i32 {
  return ROWS * 4 * (hd + PART + 2 * (hd + STATE));
}

/** src0 q [head_dim, n_head, n_tokens] f32, src1 K, src2 V (kv_cache.ts), src3 first cell i32 [n_tokens], src4 number of visible cells i32 [n_tokens],
 *  src5 part states f32 for generation; p0 scale, p1 padded head_dim, p2 cells, p3 n_head_kv, p4 window (0: none), p5 soft cap (0: none), p6 parts a row has room for.
 *  dst [head_dim * n_head, n_tokens] f32. */
export function attention(op: Op, scratch: usize): void {
  const n_tokens = op.src0.ne2, n_head_kv = op.p3;
  if (n_tokens <= SPLIT_TOKENS) {
    let max_parts = 0;
    for (let t = 0; t < n_tokens; t++) max_parts = max(max_parts, (visible(op, t) + PART - 1) / PART);
    const items = max_parts * n_head_kv * n_tokens;
    for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
      const t = i % n_tokens, rest = i / n_tokens;
      generation_item(op, t, rest % n_head_kv, rest / n_head_kv, scratch);
    }
    return;
  }
  const tiles = (n_tokens + TOKENS - 1) / TOKENS, items = tiles * n_head_kv;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    // Late tokens see the most keys: they come first, so that threads end together.
    const tile = tiles - 1 - i / n_head_kv;
    prompt_item(op, tile * TOKENS, min(n_tokens, (tile + 1) * TOKENS), i % n_head_kv, scratch);
  }
}

// @ts-ignore: decorator
@inline
function visible(op: Op, t: i32): i32 {
  return load<i32>(op.src4.data + (<usize>t << 2));
}

// @ts-ignore: decorator
@inline
function first_cell(op: Op, t: i32): i32 {
  return load<i32>(op.src3.data + (<usize>t << 2));
}

/** First key the row may see: 0, or where the window begins. */
// @ts-ignore: decorator
@inline
function window_start(op: Op, n_kv: i32): i32 {
  return op.p4 > 0 ? max(0, n_kv - op.p4) : 0;
}

/** One part of one token for all query heads of a kv head; states go to src5[(t * n_head + head) * parts + part]. */
function generation_item(op: Op, t: i32, kvh: i32, part: i32, scratch: usize): void {
  const hd = op.p1, n_head = op.src0.ne1, rep = n_head / op.p3;
  const n_kv = visible(op, t), start = window_start(op, n_kv);
  if (part * PART >= n_kv || (part + 1) * PART <= start) return;
  const state_bytes = <usize>(hd + STATE) << 2;
  for (let h = kvh * rep, end = h + rep; h < end; h += ROWS) {
    const rows = min(ROWS, end - h);
    for (let r = 0; r < rows; r++) load_query(op, h + r, t, scratch, r);
    part_scores(op, kvh, first_cell(op, t), part, n_kv, rows, scratch);
    const states = scratch + <usize>(ROWS * 4 * (hd + PART));
    const width = part_width(part, n_kv);
    for (let r = 0; r < rows; r++) part_softmax(op, part, width, start, n_kv, scratch, r);
    part_values(op, kvh, first_cell(op, t), part, n_kv, rows, scratch, states);
    for (let r = 0; r < rows; r++) {
      memory.copy(op.src5.data + <usize>((t * n_head + h + r) * op.p6 + part) * state_bytes, states + <usize>r * state_bytes, state_bytes);
    }
  }
}

/** Joins the parts of generation steps; nothing to do for prompts. Rows (token, head) are taken by all threads. */
export function attention_merge(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  if (n_tokens > SPLIT_TOKENS) return;
  const hd = op.p1, n_head = op.src0.ne1;
  const state_bytes = <usize>(hd + STATE) << 2;
  for (let i = ith; i < n_tokens * n_head; i += nth) {
    const t = i / n_head, n_kv = visible(op, t), start = window_start(op, n_kv);
    state_clear(scratch, hd);
    for (let part = start / PART; part * PART < n_kv; part++) {
      state_merge(scratch, op.src5.data + <usize>(i * op.p6 + part) * state_bytes, hd);
    }
    store_output(op, scratch, i % n_head, t);
  }
}

/** Keys of a part that anyone in the tile of rows sees, in whole groups of 8. */
// @ts-ignore: decorator
@inline
function part_width(part: i32, n_kv: i32): i32 {
  return min(PART, (n_kv - part * PART + 7) & ~7);
}

/** All parts of tokens [t0, t1) for the query heads of one kv head, ROWS rows at a time. Tokens of different sequences never share a tile of rows. */
function prompt_item(op: Op, t0: i32, t1: i32, kvh: i32, scratch: usize): void {
  const hd = op.p1, rep = op.src0.ne1 / op.p3;
  const state_bytes = <usize>(hd + STATE) << 2;
  const states = scratch + <usize>(ROWS * 4 * (hd + PART)), merged = states + <usize>ROWS * state_bytes;
  let from = t0 * rep;
  const end = t1 * rep;
  while (from < end) {
    const base = first_cell(op, from / rep);
    let rows = 0, n_max = 0, start = i32.MAX_VALUE;
    for (; rows < ROWS && from + rows < end; rows++) {
      const t = (from + rows) / rep;
      if (first_cell(op, t) != base) break;
      n_max = max(n_max, visible(op, t));
      start = min(start, window_start(op, visible(op, t)));
      load_query(op, kvh * rep + (from + rows) % rep, t, scratch, rows);
      state_clear(merged + <usize>rows * state_bytes, hd);
    }
    for (let part = start / PART; part * PART < n_max; part++) {
      part_scores(op, kvh, base, part, n_max, rows, scratch);
      const width = part_width(part, n_max);
      for (let r = 0; r < rows; r++) {
        const n_kv = visible(op, (from + r) / rep);
        part_softmax(op, part, width, window_start(op, n_kv), n_kv, scratch, r);
      }
      part_values(op, kvh, base, part, n_max, rows, scratch, states);
      for (let r = 0; r < rows; r++) {
        const n_kv = visible(op, (from + r) / rep);
        if (part * PART < n_kv && (part + 1) * PART > window_start(op, n_kv)) state_merge(merged + <usize>r * state_bytes, states + <usize>r * state_bytes, hd);
      }
    }
    for (let r = 0; r < rows; r++) store_output(op, merged + <usize>r * state_bytes, kvh * rep + (from + r) % rep, (from + r) / rep);
    from += rows;
  }
}

/** Copies one query to row r of the scratch, times scale (and 2^112), padded with zeros. */
function load_query(op: Op, head: i32, t: i32, scratch: usize, r: i32): void {
  const hd = op.p1, n = op.src0.ne0;
  const x = row_of(op.src0, head, t, 0), y = scratch + (<usize>(r * hd) << 2);
  const scale = reinterpret<f32>(op.p0) * reinterpret<f32>(F16_SCALE);
  for (let i = 0; i < hd; i++) store<f32>(y + (<usize>i << 2), i < n ? load<f32>(x + (<usize>i << 2)) * scale : 0);
}

// @ts-ignore: decorator
@inline
function low_f16(h: v128): v128 {
  const w = i32x4.extend_low_i16x8_s(h);
  return v128.and(i32x4.shl(w, 13), i32x4.splat(0x8fffe000));
}
// @ts-ignore: decorator
@inline
function high_f16(h: v128): v128 {
  const w = i32x4.extend_high_i16x8_s(h);
  return v128.and(i32x4.shl(w, 13), i32x4.splat(0x8fffe000));
}

function part_scores(op: Op, kvh: i32, base: i32, part: i32, n_kv: i32, rows: i32, scratch: usize): void {
  const hd = op.p1;
  const k = k_group(op.src1.data, kvh, op.p2, hd, base + part * PART);
  const groups = part_width(part, n_kv) >> 3;
  const s = scratch + <usize>(ROWS * 4 * hd);
  if (rows == 1) scores_1(scratch, k, groups, hd, s);
  else if (rows == 2) scores_2(scratch, k, groups, hd, s);
  else scores_4(scratch, k, groups, hd, s);
}

function scores_1(q: usize, k: usize, groups: i32, hd: i32, s: usize): void {
  scores(q, k, groups, hd, s, 1);
}
function scores_2(q: usize, k: usize, groups: i32, hd: i32, s: usize): void {
  scores(q, k, groups, hd, s, 2);
}
function scores_4(q: usize, k: usize, groups: i32, hd: i32, s: usize): void {
  scores(q, k, groups, hd, s, 4);
}

/** s[r][key] = sum over d of q[r][d] * k[d][key]: 8 keys at a time, `rows` rows (a constant where this is inlined). */
// @ts-ignore: decorator
@inline
function scores(q: usize, k: usize, groups: i32, hd: i32, s: usize, rows: i32): void {
  const q_row = <usize>hd << 2, s_row = <usize>PART << 2;
  for (let g = 0; g < groups; g++) {
    const zero = f32x4.splat(0);
    let a0 = zero, a1 = zero, b0 = zero, b1 = zero, c0 = zero, c1 = zero, d0 = zero, d1 = zero;
    let p = q;
    for (const end = q + q_row; p < end; p += 4, k += 16) {
      const h = v128.load(k), lo = low_f16(h), hi = high_f16(h);
      const qa = v128.load32_splat(p);
      a0 = madd(lo, qa, a0);
      a1 = madd(hi, qa, a1);
      if (rows > 1) {
        const qb = v128.load32_splat(p + q_row);
        b0 = madd(lo, qb, b0);
        b1 = madd(hi, qb, b1);
      }
      if (rows > 2) {
        const qc = v128.load32_splat(p + 2 * q_row);
        c0 = madd(lo, qc, c0);
        c1 = madd(hi, qc, c1);
        const qd = v128.load32_splat(p + 3 * q_row);
        d0 = madd(lo, qd, d0);
        d1 = madd(hi, qd, d1);
      }
    }
    v128.store(s, a0);
    v128.store(s, a1, 16);
    if (rows > 1) {
      v128.store(s + s_row, b0);
      v128.store(s + s_row, b1, 16);
    }
    if (rows > 2) {
      v128.store(s + 2 * s_row, c0);
      v128.store(s + 2 * s_row, c1, 16);
      v128.store(s + 3 * s_row, d0);
      v128.store(s + 3 * s_row, d1, 16);
    }
    s += 32;
  }
}

/** Row r's scores of a part -> exp(score - max) * 2^112 in place; max and sum to the row's part state. Keys outside [start, n_kv) weigh 0. */
function part_softmax(op: Op, part: i32, width: i32, start: i32, n_kv: i32, scratch: usize, r: i32): void {
  const hd = op.p1;
  const s = scratch + (<usize>(ROWS * hd + r * PART) << 2);
  const state = scratch + (<usize>(ROWS * (hd + PART) + r * (hd + STATE)) << 2);
  const lo = i32x4.splat(start - part * PART), hi = i32x4.splat(n_kv - part * PART);
  const step = i32x4.splat(4);
  const cap = reinterpret<f32>(op.p5);
  let index = i32x4(0, 1, 2, 3), top = f32x4.splat(LOWEST);
  for (let i: usize = 0; i < <usize>width << 2; i += 16) {
    let x = v128.load(s + i);
    if (cap > 0) x = soft_cap(x, cap);
    const seen = v128.and(i32x4.ge_s(index, lo), i32x4.lt_s(index, hi));
    x = v128.bitselect(x, f32x4.splat(LOWEST), seen);
    v128.store(s + i, x);
    top = f32x4.pmax(top, x);
    index = i32x4.add(index, step);
  }
  const m = max(max(f32x4.extract_lane(top, 0), f32x4.extract_lane(top, 1)), max(f32x4.extract_lane(top, 2), f32x4.extract_lane(top, 3)));
  const mm = f32x4.splat(m), scale = f32x4.splat(reinterpret<f32>(F16_SCALE));
  let sum = f32x4.splat(0);
  index = i32x4(0, 1, 2, 3);
  for (let i: usize = 0; i < <usize>width << 2; i += 16) {
    const seen = v128.and(i32x4.ge_s(index, lo), i32x4.lt_s(index, hi));
    const e = v128.and(exp_f32x4(f32x4.sub(v128.load(s + i), mm)), seen);
    sum = f32x4.add(sum, e);
    v128.store(s + i, f32x4.mul(e, scale));
    index = i32x4.add(index, step);
  }
  store<f32>(state, m);
  store<f32>(state, hsum_f32(sum), 4);
}

/** cap * tanh(x / cap), with tanh(y) = 1 - 2 / (e^2y + 1). */
// @ts-ignore: decorator
@inline
function soft_cap(x: v128, cap: f32): v128 {
  const e = exp_f32x4(f32x4.mul(x, f32x4.splat(<f32>2 / cap)));
  return f32x4.mul(f32x4.splat(cap), f32x4.sub(f32x4.splat(1), f32x4.div(f32x4.splat(2), f32x4.add(e, f32x4.splat(1)))));
}

function part_values(op: Op, kvh: i32, base: i32, part: i32, n_kv: i32, rows: i32, scratch: usize, states: usize): void {
  const hd = op.p1;
  const v = v_row(op.src2.data, kvh, op.p2, hd, base + part * PART);
  const n = min(PART, n_kv - part * PART);
  const p = scratch + <usize>(ROWS * 4 * hd);
  if (rows == 1) values_1(p, v, n, hd, states);
  else if (rows == 2) values_2(p, v, n, hd, states);
  else values_4(p, v, n, hd, states);
}

function values_1(p: usize, v: usize, n: i32, hd: i32, states: usize): void {
  values(p, v, n, hd, states, 1);
}
function values_2(p: usize, v: usize, n: i32, hd: i32, states: usize): void {
  values(p, v, n, hd, states, 2);
}
function values_4(p: usize, v: usize, n: i32, hd: i32, states: usize): void {
  values(p, v, n, hd, states, 4);
}

/** out[r][d] = sum over keys of p[r][key] * v[key][d]: 8 dimensions at a time. */
// @ts-ignore: decorator
@inline
function values(p: usize, v: usize, n: i32, hd: i32, states: usize, rows: i32): void {
  const row = <usize>PART << 2, out_row = <usize>(hd + STATE) << 2, v_bytes = <usize>hd << 1;
  let out = states + (STATE << 2);
  for (const end = v + v_bytes; v < end; v += 16, out += 32) {
    const zero = f32x4.splat(0);
    let a0 = zero, a1 = zero, b0 = zero, b1 = zero, c0 = zero, c1 = zero, d0 = zero, d1 = zero;
    let x = p, w = v;
    for (const stop = p + (<usize>n << 2); x < stop; x += 4, w += v_bytes) {
      const h = v128.load(w), lo = low_f16(h), hi = high_f16(h);
      const pa = v128.load32_splat(x);
      a0 = madd(lo, pa, a0);
      a1 = madd(hi, pa, a1);
      if (rows > 1) {
        const pb = v128.load32_splat(x + row);
        b0 = madd(lo, pb, b0);
        b1 = madd(hi, pb, b1);
      }
      if (rows > 2) {
        const pc = v128.load32_splat(x + 2 * row);
        c0 = madd(lo, pc, c0);
        c1 = madd(hi, pc, c1);
        const pd = v128.load32_splat(x + 3 * row);
        d0 = madd(lo, pd, d0);
        d1 = madd(hi, pd, d1);
      }
    }
    v128.store(out, a0);
    v128.store(out, a1, 16);
    if (rows > 1) {
      v128.store(out + out_row, b0);
      v128.store(out + out_row, b1, 16);
    }
    if (rows > 2) {
      v128.store(out + 2 * out_row, c0);
      v128.store(out + 2 * out_row, c1, 16);
      v128.store(out + 3 * out_row, d0);
      v128.store(out + 3 * out_row, d1, 16);
    }
  }
}

function state_clear(state: usize, hd: i32): void {
  memory.fill(state, 0, <usize>(hd + STATE) << 2);
  store<f32>(state, LOWEST);
}

/** Joins one more part to a row's state: both are brought to the larger maximum. */
function state_merge(state: usize, part: usize, hd: i32): void {
  const m0 = load<f32>(state), m1 = load<f32>(part), m = max(m0, m1);
  const e = exp_f32x4(f32x4(m0 - m, m1 - m, 0, 0));
  const a = f32x4.extract_lane(e, 0), b = f32x4.extract_lane(e, 1);
  store<f32>(state, m);
  store<f32>(state, load<f32>(state, 4) * a + load<f32>(part, 4) * b, 4);
  const aa = f32x4.splat(a), bb = f32x4.splat(b);
  for (let i: usize = STATE << 2; i < <usize>(hd + STATE) << 2; i += 16) {
    v128.store(state + i, f32x4.add(f32x4.mul(v128.load(state + i), aa), f32x4.mul(v128.load(part + i), bb)));
  }
}

/** dst[head][0..head_dim) of token t = outputs / sum. */
function store_output(op: Op, state: usize, head: i32, t: i32): void {
  const n = op.src0.ne0;
  const scale = <f32>1 / load<f32>(state, 4);
  const x = state + (STATE << 2), y = row_of(op.dst, t, 0, 0) + (<usize>(head * n) << 2);
  for (let i = 0; i < n; i++) store<f32>(y + (<usize>i << 2), load<f32>(x + (<usize>i << 2)) * scale);
}
