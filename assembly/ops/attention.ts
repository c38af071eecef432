/**
 * Attention over keys and values in cache order: softmax(scale * q k + bias) v, for prompts and for generation, batch- and thread-invariant.
 *
 * Keys are taken in parts of PART cells counted from the sequence's first cell. A part gives (max, sum, output) by itself (FlashDecoding),
 * and parts are merged in ascending order: which thread computed which part, and beside which other tokens, leaves no trace.
 * Within a part a score is one chain of madds over the dimensions, an output one chain over the keys.
 *
 * Prompts: a work item is up to ITEM_ROWS rows (token x query head) of a kv head; they walk the parts together.
 * Generation (up to SPLIT_TOKENS tokens): an item is (token, kv head, part); attention_merge joins them after a barrier.
 */
import { LOG2E, STATE, alibi_row, cap_row, mask_row, softmax_row, state_clear, state_merge, state_output } from './attention_part';
import { FromF16, FromF32, score_row, score_tile, tile_rows, value_tile } from './attention_tile';
import { K_CELLS, PART, k_group, load_k, load_v, v_cell, v_plane } from './kv_cache';
import { also_heads, also_rows, also_write } from './also';
import { split_from, split_to } from '../schedule';
import { take } from '../sync';
import { Op, row_of } from '../tensor';
import { F16, F32 } from '../type_ids';

/** Up to so many tokens a step is split by parts; beyond that there are items enough without. */
export const SPLIT_TOKENS: i32 = 4;
/** Rows of a prompt's work item: 8 tiles of 6 share a part of K and V that was widened to f32 once. */
const ITEM_ROWS: i32 = 48;
/** Up to so many rows f16 is widened on the way, in registers. */
const DIRECT_ROWS: i32 = 8;
const TILE_ROWS: i32 = 6;

/**
 * Scratch bytes of a thread, laid out as
 *   queries [ITEM_ROWS][hd_k] | scores [TILE_ROWS][PART] | a part's states [TILE_ROWS] | merged states [ITEM_ROWS] | K [PART][hd_k] | V [PART][hd_v]
 */
export function attention_scratch(hd_k: i32, hd_v: i32): i32 {
  return v_at(hd_k, hd_v) + PART * hd_v * 4;
}
// @ts-ignore: decorator
@inline
function scores_at(hd_k: i32): i32 {
  return ITEM_ROWS * hd_k * 4;
}
// @ts-ignore: decorator
@inline
function states_at(hd_k: i32): i32 {
  return scores_at(hd_k) + TILE_ROWS * PART * 4;
}
// @ts-ignore: decorator
@inline
function merged_at(hd_k: i32, hd_v: i32): i32 {
  return states_at(hd_k) + TILE_ROWS * (hd_v + STATE) * 4;
}
// @ts-ignore: decorator
@inline
function k_at(hd_k: i32, hd_v: i32): i32 {
  return merged_at(hd_k, hd_v) + ITEM_ROWS * (hd_v + STATE) * 4;
}
// @ts-ignore: decorator
@inline
function v_at(hd_k: i32, hd_v: i32): i32 {
  return k_at(hd_k, hd_v) + PART * hd_k * 4;
}

/**
 * src0 q [head_dim, n_head, n_tokens] f32, src1 K, src2 V (kv_cache.ts), src3 first cell i32 [n_tokens], src4 number of visible cells i32 [n_tokens],
 * src5 part states f32 for generation, src6 mask f16 or f32 [n_kv, n_tokens, n_head or 1], or i32 [n_tokens]: positions for ALiBi, or none; src7 slopes f32 [n_head] or none.
 * p0 scale, p1 padded head_dim of K, p2 cells, p3 n_head_kv, p4 window (0: none), p5 soft cap (0: none), p6 parts a row has room for,
 * p7 padded head_dim of V, p8 head_dim of V, p9 not 0: every part takes its maximum to be p10 (FlashDecoding++).
 * dst [p8 * n_head, n_tokens] f32.
 */
export function attention(op: Op, scratch: usize): void {
  const n_tokens = op.src0.ne2, n_head_kv = op.p3, rep = op.src0.ne1 / n_head_kv;
  if (n_tokens <= SPLIT_TOKENS) {
    let max_parts = 0;
    for (let t = 0; t < n_tokens; t++) max_parts = max(max_parts, (visible(op, t) + PART - 1) / PART);
    const items = max_parts * n_head_kv * n_tokens;
    for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
      const t = i % n_tokens, kvh = i / n_tokens % n_head_kv, part = i / n_tokens / n_head_kv, n_kv = visible(op, t);
      if (part * PART >= n_kv || (part + 1) * PART <= window_start(op, n_kv)) continue;
      for (let r = 0; r < rep; r += ITEM_ROWS) walk(op, kvh, t * rep + r, t * rep + min(rep, r + ITEM_ROWS), part, scratch);
    }
    return;
  }
  const rows = n_tokens * rep, blocks = (rows + ITEM_ROWS - 1) / ITEM_ROWS, items = blocks * n_head_kv;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    // Late tokens see the most keys: they come first, so that threads end together.
    const block = blocks - 1 - i / n_head_kv, end = min(rows, (block + 1) * ITEM_ROWS);
    for (let from = block * ITEM_ROWS, to = 0; from < end; from = to) {
      // Rows of different sequences do not walk together.
      for (to = from + 1; to < end && first_cell(op, to / rep) == first_cell(op, from / rep); ) to++;
      walk(op, i % n_head_kv, from, to, -1, scratch);
    }
  }
}

/**
 * Joins the parts of generation steps; for prompts only the second form of the output is left to do. Threads take heads by turns,
 * as many at a time as make whole blocks of that form.
 */
export function attention_merge(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const n_tokens = op.src0.ne2, n_head = op.src0.ne1, hd = op.p7;
  if (n_tokens > SPLIT_TOKENS) return also_rows(op, split_from(n_tokens, ith, nth), split_to(n_tokens, ith, nth));
  const state_bytes = <usize>(hd + STATE) << 2, heads = also_heads(op, op.p8);
  for (let i = ith * heads; i < n_tokens * n_head; i += nth * heads) {
    for (let head = i; head < i + heads; head++) {
      const t = head / n_head, n_kv = visible(op, t);
      state_clear(scratch, hd);
      for (let part = window_start(op, n_kv) / PART; part * PART < n_kv; part++) state_merge(scratch, op.src5.data + <usize>(head * op.p6 + part) * state_bytes, hd);
      store_output(op, scratch, head % n_head, t);
    }
    also_write(op, i * op.p8, heads * op.p8);
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
/** f16 values arrive times 2^-112 (kv_cache.ts): the factor that makes up for it. */
// @ts-ignore: decorator
@inline
function factor(type: u32): f32 {
  return type == F16 ? reinterpret<f32>(0x77800000) : 1;
}

/** Rows [from, to) of a kv head and one sequence: all parts, merged and stored; or, with only_part >= 0, that one, its states to src5. */
function walk(op: Op, kvh: i32, from: i32, to: i32, only_part: i32, scratch: usize): void {
  const hd_k = op.p1, hd_v = op.p7, rep = op.src0.ne1 / op.p3, base = first_cell(op, from / rep);
  const k_type = op.src1.type, v_type = op.src2.type, few = to - from <= DIRECT_ROWS;
  const k_direct = k_type == F32 || (few && k_type == F16), v_direct = v_type == F32 || (few && v_type == F16);
  const f16 = (k_direct && k_type == F16) || (v_direct && v_type == F16);
  const state_bytes = <usize>(hd_v + STATE) << 2, merged = scratch + merged_at(hd_k, hd_v);
  load_queries(op, kvh, from, to, f16, scratch);
  let start = i32.MAX_VALUE, n_max = 0;
  for (let t = from / rep; t <= (to - 1) / rep; t++) {
    n_max = max(n_max, visible(op, t));
    start = min(start, window_start(op, visible(op, t)));
  }
  if (only_part < 0) for (let r = 0; r < to - from; r++) state_clear(merged + <usize>r * state_bytes, hd_v);
  const part_end = only_part < 0 ? (n_max + PART - 1) / PART : only_part + 1;
  for (let part = only_part < 0 ? start / PART : only_part; part < part_end; part++) {
    const cell = base + part * PART, n = min(PART, n_max - part * PART);
    let k = k_group(op.src1.data, k_type, kvh, op.p2, hd_k, cell), v = v_cell(op.src2.data, v_type, kvh, op.p2, hd_v, cell), plane = v_plane(v_type, op.p2);
    if (!k_direct) {
      load_k(k_type, k, (n + K_CELLS - 1) & -K_CELLS, hd_k, scratch + k_at(hd_k, hd_v));
      k = scratch + k_at(hd_k, hd_v);
    }
    if (!v_direct) {
      const wide = scratch + v_at(hd_k, hd_v);
      load_v(v_type, v, n, hd_v, op.p2, wide);
      v = wide;
      plane = PART << 6;
    }
    for (let r = from, rows = 0; r < to; r += rows) {
      rows = tile_rows(to - r, f16);
      part_tile(op, kvh, part, r, rows, scratch + <usize>((r - from) * hd_k * 4), k, k_direct && k_type == F16, v, plane, v_direct && v_type == F16, scratch);
      for (let i = 0; i < rows; i++) {
        const t = (r + i) / rep, n_kv = visible(op, t), state = scratch + states_at(hd_k) + <usize>i * state_bytes;
        if (part * PART >= n_kv || (part + 1) * PART <= window_start(op, n_kv)) continue;
        if (only_part < 0) state_merge(merged + <usize>(r + i - from) * state_bytes, state, hd_v);
        else memory.copy(op.src5.data + <usize>((t * op.src0.ne1 + kvh * rep + (r + i) % rep) * op.p6 + part) * state_bytes, state, state_bytes);
      }
    }
  }
  if (only_part < 0) for (let r = from; r < to; r++) store_output(op, merged + <usize>(r - from) * state_bytes, kvh * rep + r % rep, r / rep);
}

/** Queries to the scratch, tile by tile [hd][rows], times scale (and log2 e where no soft cap comes between), padded with zeros. */
function load_queries(op: Op, kvh: i32, from: i32, to: i32, f16: bool, scratch: usize): void {
  const hd = op.p1, n = op.src0.ne0, rep = op.src0.ne1 / op.p3;
  const scale = reinterpret<f32>(op.p0) * (reinterpret<f32>(op.p5) > 0 ? 1 : LOG2E) * factor(op.src1.type);
  for (let r = from, rows = 0; r < to; r += rows) {
    rows = tile_rows(to - r, f16);
    for (let i = 0; i < rows; i++) {
      const x = row_of(op.src0, kvh * rep + (r + i) % rep, (r + i) / rep, 0);
      let y = scratch + (<usize>((r - from) * hd + i) << 2);
      for (let d = 0; d < hd; d++, y += <usize>rows << 2) store<f32>(y, d < n ? load<f32>(x + (<usize>d << 2)) * scale : 0);
    }
  }
}

/** One part for a tile of rows: their states, without those that see nothing of it. */
function part_tile(op: Op, kvh: i32, part: i32, r0: i32, rows: i32, q: usize, k: usize, k_f16: bool, v: usize, plane: usize, v_f16: bool, scratch: usize): void {
  const hd_k = op.p1, hd_v = op.p7, rep = op.src0.ne1 / op.p3;
  const s = scratch + scores_at(hd_k), states = scratch + states_at(hd_k), state_bytes = <usize>(hd_v + STATE) << 2;
  const n = min(PART, visible_of(op, r0, rows, rep) - part * PART), groups = (n + K_CELLS - 1) / K_CELLS * (K_CELLS >> 3);
  if (n <= 0) return;
  if (k_f16) score_tile<FromF16>(rows, q, hd_k, k, groups, s);
  else score_tile<FromF32>(rows, q, hd_k, k, groups, s);
  const unified = op.p9 != 0, phi = reinterpret<f32>(op.p10) * LOG2E;
  for (let i = 0; i < rows; i++) {
    const row = s + <usize>(i * PART * 4), state = states + <usize>i * state_bytes;
    if (softmax(op, kvh, part, r0 + i, row, groups << 3, state, unified, phi)) continue;
    // A score too far from phi: once more, the safe way.
    if (k_f16) score_row<FromF16>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, groups, row);
    else score_row<FromF32>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, groups, row);
    softmax(op, kvh, part, r0 + i, row, groups << 3, state, false, 0);
  }
  const out = states + (STATE << 2);
  if (v_f16) value_tile<FromF16>(rows, s, n, v, plane, hd_v, out, state_bytes);
  else value_tile<FromF32>(rows, s, n, v, plane, hd_v, out, state_bytes);
}

/** Most cells that one of the rows sees. */
function visible_of(op: Op, r0: i32, rows: i32, rep: i32): i32 {
  let n = 0;
  for (let t = r0 / rep; t <= (r0 + rows - 1) / rep; t++) n = max(n, visible(op, t));
  return n;
}

/** A row's raw scores to probabilities: soft cap, mask or ALiBi, what it may see. */
function softmax(op: Op, kvh: i32, part: i32, r: i32, s: usize, width: i32, state: usize, unified: bool, phi: f32): bool {
  const rep = op.src0.ne1 / op.p3, t = r / rep, h = kvh * rep + r % rep, n_kv = visible(op, t), key = part * PART;
  const lo = min(width, max(0, window_start(op, n_kv) - key)), hi = max(lo, min(width, n_kv - key));
  if (reinterpret<f32>(op.p5) > 0) cap_row(s, width, reinterpret<f32>(op.p5));
  if (changetype<usize>(op.src6)) {
    const slope = changetype<usize>(op.src7) ? load<f32>(op.src7.data + (<usize>h << 2)) : <f32>1, bias = op.src6;
    if (bias.type == F16 || bias.type == F32) mask_row(s, hi, row_of(bias, t, h % bias.ne2, 0) + <usize>key * bias.nb0, bias.type, slope);
    else alibi_row(s, hi, load<i32>(bias.data + (<usize>t << 2)), key, slope);
  }
  return softmax_row(s, width, lo, hi, state, unified, phi);
}

// @ts-ignore: decorator
@inline
function store_output(op: Op, state: usize, head: i32, t: i32): void {
  state_output(state, row_of(op.dst, t, 0, 0) + (<usize>(head * op.p8) << 2), op.p8, factor(op.src2.type));
}
