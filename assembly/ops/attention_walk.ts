/**
 * Attention's walk: a few rows (token x query head) of one kv head and one sequence over its parts of keys. For each part the rows' scores,
 * their probabilities, their outputs: a state that is merged with those of the parts before, or stored where an item is one part.
 */
import { F16, F32 } from '../type_ids';
import { Op, row_of } from '../tensor';
import { LOG2E, STATE, alibi_row, cap_row, mask_row, softmax_row, state_clear, state_merge, state_output } from './attention_part';
import { BLOCK_ROWS, block_scores, block_scores_scratch, block_values, block_values_scratch, has_blocks, quantize_query } from './attention_blocks';
import { FromF16, FromF32, score_row, score_tile, tile_rows, value_tile } from './attention_tile';
import { K_CELLS, PART, k_group, v_cell, v_plane, v_scales } from './kv_cache';
import { widen_f16, widen_v } from './kv_widen';

/** Rows of a prompt's work item: 8 tiles of 6 share a part of K and V that was widened to f32 once. */
export const ITEM_ROWS: i32 = 48;
/** Up to so many rows f16 is widened on the way, in registers. */
const DIRECT_ROWS: i32 = 8;
const TILE_ROWS: i32 = 6;

/**
 * Scratch bytes of a thread, laid out as
 *   queries [ITEM_ROWS][hd_k] | scores [ITEM_ROWS][PART] | a part's states [TILE_ROWS] | merged states [ITEM_ROWS] | K [PART][hd_k] | V [PART][hd_v]
 * where block types have what attention_blocks.ts needs in the place of a part of K and V.
 */
export function attention_scratch(hd_k: i32, hd_v: i32): i32 {
  return v_at(hd_k, hd_v) + max(PART * hd_v * 4, block_values_scratch(hd_v));
}
// @ts-ignore: decorator
@inline
function scores_at(hd_k: i32): i32 {
  return ITEM_ROWS * hd_k * 4;
}
// @ts-ignore: decorator
@inline
function states_at(hd_k: i32): i32 {
  return scores_at(hd_k) + ITEM_ROWS * PART * 4;
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
  return k_at(hd_k, hd_v) + max(PART * hd_k * 4, block_scores_scratch());
}

// @ts-ignore: decorator
@inline
export function visible(op: Op, t: i32): i32 {
  return load<i32>(op.src4.data + (<usize>t << 2));
}
// @ts-ignore: decorator
@inline
export function first_cell(op: Op, t: i32): i32 {
  return load<i32>(op.src3.data + (<usize>t << 2));
}
/** First key the row may see: 0, or where the window begins. */
// @ts-ignore: decorator
@inline
export function window_start(op: Op, n_kv: i32): i32 {
  return op.p4 > 0 ? max(0, n_kv - op.p4) : 0;
}
/** f16 arrives times 2^-112 (kv_widen.ts), values as well as their scales: the factor that makes up for it. */
// @ts-ignore: decorator
@inline
function factor(f16: bool): f32 {
  return f16 ? reinterpret<f32>(0x77800000) : 1;
}

/**
 * Rows [from, to) of a kv head and one sequence: all parts, merged and stored; or, with only_part >= 0, that one, its states to src5.
 * loaded: the walk before was one of the same rows.
 */
export function walk(op: Op, kvh: i32, from: i32, to: i32, only_part: i32, loaded: bool, scratch: usize): void {
  const hd_k = op.p1, hd_v = op.p7, rep = op.src0.ne1 / op.p3, base = first_cell(op, from / rep), rows = to - from;
  const k_type = op.src1.type, v_type = op.src2.type, many = rows > DIRECT_ROWS;
  const k_f16 = k_type == F16 && !many, v_f16 = v_type == F16 && !many;
  const state_bytes = <usize>(hd_v + STATE) << 2, merged = scratch + merged_at(hd_k, hd_v);
  if (!loaded) load_queries(op, kvh, from, to, k_f16 || v_f16, scratch);
  let start = i32.MAX_VALUE, n_max = 0;
  for (let t = from / rep; t <= (to - 1) / rep; t++) {
    n_max = max(n_max, visible(op, t));
    start = min(start, window_start(op, visible(op, t)));
  }
  if (only_part < 0) for (let r = 0; r < rows; r++) state_clear(merged + <usize>r * state_bytes, hd_v);
  const part_end = only_part < 0 ? (n_max + PART - 1) / PART : only_part + 1;
  for (let part = only_part < 0 ? start / PART : only_part; part < part_end; part++) {
    const cell = base + part * PART, n = min(PART, n_max - part * PART), groups = n + K_CELLS - 1 & -K_CELLS;
    let k = k_group(op.src1.data, k_type, kvh, op.p2, hd_k, cell), v = v_cell(op.src2.data, v_type, kvh, op.p2, hd_v, cell), plane = v_plane(v_type, op.p2);
    if (has_blocks(k_type)) {
      block_scores(k_type, k, hd_k, groups, scratch, hd_k << 2, rows, scratch + scores_at(hd_k), scratch + k_at(hd_k, hd_v));
    } else if (k_type == F16 && many) {
      widen_f16(k, scratch + k_at(hd_k, hd_v), <usize>(groups * hd_k));
      k = scratch + k_at(hd_k, hd_v);
    }
    if (v_type == F16 && many) {
      widen_v(v, n, hd_v, plane, scratch + v_at(hd_k, hd_v));
      v = scratch + v_at(hd_k, hd_v);
      plane = PART << 6;
    }
    for (let r = from, tile = 0; r < to; r += tile) {
      tile = tile_rows(to - r, k_f16 || v_f16);
      part_tile(op, kvh, part, r, tile, r - from, k, k_f16, v, plane, v_f16, scratch);
      for (let i = 0; i < tile; i++) {
        const t = (r + i) / rep, n_kv = visible(op, t), state = scratch + states_at(hd_k) + <usize>i * state_bytes;
        if (part * PART >= n_kv || (part + 1) * PART <= window_start(op, n_kv)) continue;
        if (only_part < 0) state_merge(merged + <usize>(r + i - from) * state_bytes, state, hd_v);
        else memory.copy(op.src5.data + <usize>((t * op.src0.ne1 + kvh * rep + (r + i) % rep) * op.p6 + part) * state_bytes, state, state_bytes);
      }
    }
  }
  if (only_part < 0) for (let r = from; r < to; r++) store_output(op, merged + <usize>(r - from) * state_bytes, kvh * rep + r % rep, r / rep);
}

/**
 * Queries to the scratch times scale (and log2 e where no soft cap comes between), padded with zeros: tile by tile [hd][rows], or quantised
 * as columns for keys in blocks, by way of where scores will be.
 */
function load_queries(op: Op, kvh: i32, from: i32, to: i32, f16: bool, scratch: usize): void {
  const hd = op.p1, n = op.src0.ne0, rep = op.src0.ne1 / op.p3, blocks = has_blocks(op.src1.type);
  const scale = reinterpret<f32>(op.p0) * (reinterpret<f32>(op.p5) > 0 ? 1 : LOG2E) * factor(op.src1.type == F16);
  for (let r = from, rows = 0; r < to; r += rows) {
    rows = blocks ? 1 : tile_rows(to - r, f16);
    const tile = scratch + <usize>((r - from) * hd << 2);
    for (let i = 0; i < rows; i++) {
      const x = row_of(op.src0, kvh * rep + (r + i) % rep, (r + i) / rep, 0);
      let y = blocks ? scratch + scores_at(hd) : tile + (<usize>i << 2);
      for (let d = 0; d < hd; d++, y += <usize>rows << 2) store<f32>(y, d < n ? load<f32>(x + (<usize>d << 2)) * scale : 0);
    }
    if (blocks) quantize_query(op.src1.type, scratch + scores_at(hd), hd, scratch, hd << 2, r - from, to - from);
  }
}

/** One part for a tile of rows, r0 being number `at` of the walk: their states, without those that see nothing of it. */
function part_tile(op: Op, kvh: i32, part: i32, r0: i32, rows: i32, at: i32, k: usize, k_f16: bool, v: usize, plane: usize, v_f16: bool, scratch: usize): void {
  const hd_k = op.p1, hd_v = op.p7, rep = op.src0.ne1 / op.p3, v_type = op.src2.type, q = scratch + <usize>(at * hd_k << 2);
  const s = scratch + scores_at(hd_k) + <usize>(at * PART << 2), states = scratch + states_at(hd_k), state_bytes = <usize>(hd_v + STATE) << 2;
  const n = min(PART, visible_of(op, r0, rows, rep) - part * PART), width = n + K_CELLS - 1 & -K_CELLS;
  if (n <= 0) return;
  if (k_f16) score_tile<FromF16>(rows, q, hd_k, k, width >> 3, s);
  else if (!has_blocks(op.src1.type)) score_tile<FromF32>(rows, q, hd_k, k, width >> 3, s);
  const unified = op.p9 != 0, phi = reinterpret<f32>(op.p10) * LOG2E;
  for (let i = 0; i < rows; i++) {
    const row = s + <usize>(i * PART * 4), state = states + <usize>i * state_bytes, kept = scratch + k_at(hd_k, hd_v);
    if (unified && has_blocks(op.src1.type)) memory.copy(kept, row, width << 2);
    if (softmax(op, kvh, part, r0 + i, row, width, state, unified, phi)) continue;
    // A score too far from phi: once more, the safe way.
    if (has_blocks(op.src1.type)) memory.copy(row, kept, width << 2);
    else if (k_f16) score_row<FromF16>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, width >> 3, row);
    else score_row<FromF32>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, width >> 3, row);
    softmax(op, kvh, part, r0 + i, row, width, state, false, 0);
  }
  const out = states + (STATE << 2);
  if (has_blocks(v_type)) {
    const step = <usize>min(PART, op.p2) << 1;
    for (let i = 0; i < rows; i += BLOCK_ROWS) {
      block_values(v_type, min(BLOCK_ROWS, rows - i), s + <usize>(i * PART << 2), n, v, plane, v + v_scales(v_type, op.p2, hd_v), step, hd_v, out + <usize>i * state_bytes, state_bytes, scratch + v_at(hd_k, hd_v));
    }
  } else if (v_f16) value_tile<FromF16>(rows, s, n, v, plane, hd_v, out, state_bytes);
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
export function store_output(op: Op, state: usize, head: i32, t: i32): void {
  state_output(state, row_of(op.dst, t, 0, 0) + (<usize>(head * op.p8) << 2), op.p8, factor(op.src2.type != F32));
}
