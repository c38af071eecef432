/**
 * Attention's walk: a few rows (token x query head) of one kv head and one sequence go through its
 * KV splits. For each split a row gets scores, probabilities and outputs, which are its state. The
 * state is merged with that of the splits before, or stored if an item is one split.
 */
import {
  ATTENTION_ROWS_BLOCK,
  ATTENTION_ROWS_ITEM,
  ATTENTION_ROWS_TILE,
  ATTENTION_ROWS_WIDEN,
  ATTENTION_STATE,
  KV_SPLIT,
  K_CELLS,
} from '../layout';
import { FETCHES, touch } from '../matmul/rows_8x1';
import { F16, F32, has_blocks, type_size } from '../type/ids';
import { Op, row_of } from '../runtime/tensor';
import { params_of } from './attention_params';
import {
  LOG2E,
  alibi_row,
  distance_row,
  cap_row,
  mask_row,
  softmax_row,
  state_clear,
  state_join_sink,
  state_merge,
  state_output,
} from './attention_split';
import { block_scores, block_scores_scratch, block_values, block_values_scratch, quantize_query } from './attention_blocks';
import { FromF16, FromF32, score_row, score_tile, tile_rows, value_tile } from './attention_tile';
import { fwht_row } from './fwht';
import { has_rows, k_group, v_cell, v_plane, v_scales } from './kv_cache';
import { widen_f16, widen_k_rows, widen_v, widen_v_rows } from './kv_widen';

/** Maximum number of rows for which each tile widens f16 in registers. */
const DIRECT_ROWS: i32 = 8;

/**
 * Bytes of a thread's scratch. All of it is f32:
 *
 *   queries [ATTENTION_ROWS_ITEM][hd_k] | scores [ATTENTION_ROWS_ITEM][KV_SPLIT] | a split's states [ATTENTION_ROWS_TILE]
 *   | merged states [ATTENTION_ROWS_ITEM] | K [KV_SPLIT][hd_k] | V [KV_SPLIT][hd_v]
 *
 * For block types, the scratch of attention_blocks.ts takes the place of K and V. Before a split's
 * states are computed, their place holds rows that are being widened.
 */
export function attention_scratch(hd_k: i32, hd_v: i32): i32 {
  return v_at(hd_k, hd_v) + max(KV_SPLIT * hd_v * 4, block_values_scratch(hd_v));
}
@inline
function scores_at(hd_k: i32): i32 {
  return ATTENTION_ROWS_ITEM * hd_k * 4;
}
@inline
function states_at(hd_k: i32): i32 {
  return scores_at(hd_k) + ATTENTION_ROWS_ITEM * KV_SPLIT * 4;
}
@inline
function merged_at(hd_k: i32, hd_v: i32): i32 {
  return states_at(hd_k) + max(ATTENTION_ROWS_TILE * (hd_v + ATTENTION_STATE), ATTENTION_ROWS_WIDEN * max(hd_k, hd_v)) * 4;
}
@inline
function k_at(hd_k: i32, hd_v: i32): i32 {
  return merged_at(hd_k, hd_v) + ATTENTION_ROWS_ITEM * (hd_v + ATTENTION_STATE) * 4;
}
@inline
function v_at(hd_k: i32, hd_v: i32): i32 {
  return k_at(hd_k, hd_v) + max(KV_SPLIT * hd_k * 4, block_scores_scratch());
}

/**
 * Number of cells from the first of token t's sequence to the last that the token sees: its own, or
 * the end of a window to both sides.
 */
@inline
export function visible(op: Op, t: i32): i32 {
  const n = load<i32>(op.src4.data + (<usize>t << 2));
  const window = params_of(op).window;
  return window < 0 ? min(n, position(op, t) - window) : n;
}
/** Position of token t in its sequence, for ALiBi and for windows to both sides. */
@inline
function position(op: Op, t: i32): i32 {
  return load<i32>(op.src6.data + (<usize>t << 2));
}
/** The first cell of token t's sequence. */
@inline
export function first_cell(op: Op, t: i32): i32 {
  return load<i32>(op.src3.data + (<usize>t << 2));
}
/** First key that token t sees: 0, or the start of its window. */
@inline
export function window_start(op: Op, t: i32): i32 {
  const window = params_of(op).window;
  return max(0, window < 0 ? position(op, t) + window + 1 : window > 0 ? visible(op, t) - window : 0);
}
/** Undoes the 2^-112 scale of widened f16 values and scales (kv_widen.ts). */
@inline
function factor(f16: bool): f32 {
  return f16 ? reinterpret<f32>(0x77800000) : 1;
}

/**
 * Prefetches n floats of a split's keys or values by touch(). Widening computes much between loads,
 * so few cache misses would be in flight. Not done for block types, which have half the bytes and
 * gain nothing. Builds without FETCHES are slower with it.
 */
function touch_floats(type: u32, p: usize, n: i32, to: usize): void {
  if (FETCHES && (type == F16 || type == F32)) touch(p, <usize>n * type_size(type), to);
}

/**
 * Computes rows [from, to) of kv head kvh, all of one sequence: all splits, merged and stored to
 * dst; or, with only_split >= 0, that split, whose states are stored to src5. loaded: the previous
 * walk had the same rows, and their queries are in scratch.
 */
export function walk(op: Op, kvh: i32, from: i32, to: i32, only_split: i32, loaded: bool, scratch: usize): void {
  const p = params_of(op);
  const hd_k = p.hd_k;
  const hd_v = p.hd_v;
  const rep = op.src0.ne1 / p.n_head_kv;
  const base = first_cell(op, from / rep);
  const rows = to - from;
  const k_type = op.src1.type;
  const v_type = op.src2.type;
  const many = rows > DIRECT_ROWS;
  const k_f16 = k_type == F16 && !many;
  const v_f16 = v_type == F16 && !many;
  const state_bytes = <usize>(hd_v + ATTENTION_STATE) << 2;
  const merged = scratch + merged_at(hd_k, hd_v);
  if (!loaded) load_queries(op, kvh, from, to, k_f16 || v_f16, scratch);
  let start = i32.MAX_VALUE;
  let n_max = 0;
  for (let t = from / rep; t <= (to - 1) / rep; t++) {
    n_max = max(n_max, visible(op, t));
    start = min(start, window_start(op, t));
  }
  if (only_split < 0) for (let r = 0; r < rows; r++) state_clear(merged + <usize>r * state_bytes, hd_v);
  const split_end = only_split < 0 ? (n_max + KV_SPLIT - 1) / KV_SPLIT : only_split + 1;
  for (let split = only_split < 0 ? start / KV_SPLIT : only_split; split < split_end; split++) {
    const cell = base + split * KV_SPLIT;
    const n = min(KV_SPLIT, n_max - split * KV_SPLIT);
    const groups = (n + K_CELLS - 1) & -K_CELLS;
    let k = k_group(op.src1.data, k_type, kvh, p.cells, hd_k, cell);
    let v = v_cell(op.src2.data, v_type, kvh, p.cells, hd_v, cell);
    let plane = v_plane(v_type, p.cells);
    if (only_split >= 0) {
      touch_floats(k_type, k, groups * hd_k, scratch + scores_at(hd_k));
      for (let d = 0; d < hd_v; d += 16) touch_floats(v_type, v + <usize>(d >> 4) * plane, n << 4, scratch + scores_at(hd_k));
    }
    if (has_blocks(k_type)) {
      block_scores(k_type, k, hd_k, groups, scratch, hd_k << 2, rows, scratch + scores_at(hd_k), scratch + k_at(hd_k, hd_v));
    } else if (k_type == F16 && many) {
      widen_f16(k, scratch + k_at(hd_k, hd_v), <usize>(groups * hd_k));
      k = scratch + k_at(hd_k, hd_v);
    } else if (has_rows(k_type)) {
      widen_k_rows(k_type, k, groups, hd_k, scratch + k_at(hd_k, hd_v), scratch + states_at(hd_k));
      k = scratch + k_at(hd_k, hd_v);
    }
    if (has_rows(v_type) || (v_type == F16 && many)) {
      if (has_rows(v_type)) widen_v_rows(v_type, v, n, hd_v, scratch + v_at(hd_k, hd_v), scratch + states_at(hd_k));
      else widen_v(v, n, hd_v, plane, scratch + v_at(hd_k, hd_v));
      v = scratch + v_at(hd_k, hd_v);
      plane = KV_SPLIT << 6;
    }
    for (let r = from, tile = 0; r < to; r += tile) {
      tile = tile_rows(to - r, k_f16 || v_f16);
      split_tile(op, kvh, split, r, tile, r - from, k, k_f16, v, plane, v_f16, scratch);
      for (let i = 0; i < tile; i++) {
        const t = (r + i) / rep;
        const n_kv = visible(op, t);
        const state = scratch + states_at(hd_k) + <usize>i * state_bytes;
        if (split * KV_SPLIT >= n_kv || (split + 1) * KV_SPLIT <= window_start(op, t)) continue;
        if (only_split < 0) state_merge(merged + <usize>(r + i - from) * state_bytes, state, hd_v);
        else
          memory.copy(
            op.src5.data + <usize>((t * op.src0.ne1 + kvh * rep + ((r + i) % rep)) * p.splits + split) * state_bytes,
            state,
            state_bytes,
          );
      }
    }
  }
  if (only_split < 0)
    for (let r = from; r < to; r++) store_output(op, merged + <usize>(r - from) * state_bytes, kvh * rep + (r % rep), r / rep);
}

/**
 * Copies the queries to the scratch, times scale (and log2 e, unless a soft cap comes first),
 * padded with zeros. The layout is tile by tile [hd][rows]. For keys in blocks, queries are
 * quantised instead; their f32 lie where the scores will be. If keys are rotated, queries are
 * rotated first.
 */
function load_queries(op: Op, kvh: i32, from: i32, to: i32, f16: bool, scratch: usize): void {
  const p = params_of(op);
  const hd = p.hd_k;
  const n = op.src0.ne0;
  const rep = op.src0.ne1 / p.n_head_kv;
  const blocks = has_blocks(op.src1.type);
  const scale = p.scale * (p.soft_cap > 0 ? 1 : LOG2E) * factor(op.src1.type == F16);
  const scales = f32x4.splat(scale);
  for (let r = from, rows = 0; r < to; r += rows) {
    rows = blocks ? 1 : tile_rows(to - r, f16);
    const tile = scratch + <usize>(((r - from) * hd) << 2);
    for (let i = 0; i < rows; i++) {
      let x = row_of(op.src0, kvh * rep + ((r + i) % rep), (r + i) / rep, 0);
      if (p.rot_k) {
        fwht_row(x, scratch + scores_at(hd), n, p.rot_k, 0);
        x = scratch + scores_at(hd);
      }
      let y = blocks ? scratch + scores_at(hd) : tile + (<usize>i << 2);
      const step = <usize>rows << 2;
      let d = 0;
      for (; d + 4 <= n; d += 4, y += step << 2) {
        const four = f32x4.mul(v128.load(x + (<usize>d << 2)), scales);
        v128.store32_lane(y, four, 0);
        v128.store32_lane(y + step, four, 1);
        v128.store32_lane(y + 2 * step, four, 2);
        v128.store32_lane(y + 3 * step, four, 3);
      }
      for (; d < hd; d++, y += step) store<f32>(y, d < n ? load<f32>(x + (<usize>d << 2)) * scale : 0);
    }
    if (blocks) quantize_query(op.src1.type, scratch + scores_at(hd), hd, scratch, hd << 2, r - from, to - from);
  }
}

/**
 * Computes the states of one split for a tile of rows that begins with row r0 of the kv head, which
 * is row `at` in the scratch. The states of rows that see no cell of the split are undefined.
 */
function split_tile(
  op: Op,
  kvh: i32,
  split: i32,
  r0: i32,
  rows: i32,
  at: i32,
  k: usize,
  k_f16: bool,
  v: usize,
  plane: usize,
  v_f16: bool,
  scratch: usize,
): void {
  const p = params_of(op);
  const hd_k = p.hd_k;
  const hd_v = p.hd_v;
  const rep = op.src0.ne1 / p.n_head_kv;
  const v_type = op.src2.type;
  const q = scratch + <usize>((at * hd_k) << 2);
  const s = scratch + scores_at(hd_k) + <usize>((at * KV_SPLIT) << 2);
  const states = scratch + states_at(hd_k);
  const state_bytes = <usize>(hd_v + ATTENTION_STATE) << 2;
  const n = min(KV_SPLIT, visible_of(op, r0, rows, rep) - split * KV_SPLIT);
  const width = (n + K_CELLS - 1) & -K_CELLS;
  if (n <= 0) return;
  if (k_f16) score_tile<FromF16>(rows, q, hd_k, k, width >> 3, s);
  else if (!has_blocks(op.src1.type)) score_tile<FromF32>(rows, q, hd_k, k, width >> 3, s);
  const unified = p.unified != 0;
  const phi = p.phi * LOG2E;
  for (let i = 0; i < rows; i++) {
    const row = s + <usize>(i * KV_SPLIT * 4);
    const state = states + <usize>i * state_bytes;
    const kept = scratch + k_at(hd_k, hd_v);
    if (unified && has_blocks(op.src1.type)) memory.copy(kept, row, width << 2);
    if (softmax(op, kvh, split, r0 + i, row, width, state, unified, phi)) continue;
    // A score is too far from phi: compute the row again with its own maximum.
    if (has_blocks(op.src1.type)) memory.copy(row, kept, width << 2);
    else if (k_f16) score_row<FromF16>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, width >> 3, row);
    else score_row<FromF32>(q + (<usize>i << 2), <usize>rows << 2, hd_k, k, width >> 3, row);
    softmax(op, kvh, split, r0 + i, row, width, state, false, 0);
  }
  const out = states + (ATTENTION_STATE << 2);
  if (has_blocks(v_type)) {
    const step = <usize>min(KV_SPLIT, p.cells) << 1;
    for (let i = 0; i < rows; i += ATTENTION_ROWS_BLOCK) {
      block_values(
        v_type,
        min(ATTENTION_ROWS_BLOCK, rows - i),
        s + <usize>((i * KV_SPLIT) << 2),
        n,
        v,
        plane,
        v + v_scales(v_type, p.cells, hd_v),
        step,
        hd_v,
        out + <usize>i * state_bytes,
        state_bytes,
        scratch + v_at(hd_k, hd_v),
      );
    }
  } else if (v_f16) value_tile<FromF16>(rows, s, n, v, plane, hd_v, out, state_bytes);
  else value_tile<FromF32>(rows, s, n, v, plane, hd_v, out, state_bytes);
}

/** Largest number of cells that one of the rows sees. */
function visible_of(op: Op, r0: i32, rows: i32, rep: i32): i32 {
  let n = 0;
  for (let t = r0 / rep; t <= (r0 + rows - 1) / rep; t++) n = max(n, visible(op, t));
  return n;
}

/**
 * Turns a row's raw scores into probabilities: soft cap, mask or ALiBi, and the window of the row.
 * Returns the result of softmax_row.
 */
function softmax(op: Op, kvh: i32, split: i32, r: i32, s: usize, width: i32, state: usize, unified: bool, phi: f32): bool {
  const p = params_of(op);
  const rep = op.src0.ne1 / p.n_head_kv;
  const t = r / rep;
  const h = kvh * rep + (r % rep);
  const n_kv = visible(op, t);
  const key = split * KV_SPLIT;
  const lo = min(width, max(0, window_start(op, t) - key));
  const hi = max(lo, min(width, n_kv - key));
  if (p.soft_cap > 0) cap_row(s, width, p.soft_cap);
  if (changetype<usize>(op.src6)) {
    const of_heads = op.src7;
    const of_head = changetype<usize>(of_heads) ? of_heads.data + (<usize>h << 2) : 0;
    const slope = of_head ? load<f32>(of_head) : <f32>1;
    const bias = op.src6;
    if (bias.type == F16 || bias.type == F32) mask_row(s, hi, row_of(bias, t, h % bias.ne2, 0) + <usize>key * bias.nb0, bias.type, slope);
    else if (of_head) {
      const pos = position(op, t);
      if (of_heads.ne1 > 1) distance_row(s, hi, pos, key, of_head, of_heads.nb1, of_heads.ne1 >> 1);
      else alibi_row(s, hi, pos, key, slope);
    }
  }
  return softmax_row(s, width, lo, hi, state, unified, phi);
}

/**
 * Stores the outputs of a row to dst after all of its splits are merged. The head's sink is added
 * last. Sums of rotated values are rotated back.
 */
export function store_output(op: Op, state: usize, head: i32, t: i32): void {
  const p = params_of(op);
  const hd = p.hd_out;
  const y = row_of(op.dst, t, 0, 0) + (<usize>(head * hd) << 2);
  if (changetype<usize>(op.src8)) state_join_sink(state, load<f32>(op.src8.data + (<usize>head << 2)));
  state_output(state, y, hd, factor(op.src2.type == F16 || has_blocks(op.src2.type)));
  if (p.rot_v) fwht_row(y, y, hd, p.rot_v, 0);
}
