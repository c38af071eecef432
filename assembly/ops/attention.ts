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
import { STATE, state_clear, state_merge } from './attention_part';
import { ITEM_ROWS, first_cell, store_output, visible, walk, window_start } from './attention_walk';
import { also_heads, also_rows, also_write } from './also';
import { PART } from './kv_cache';
import { split_from, split_to } from '../schedule';
import { MOST_CHUNKS, take, take_of } from '../sync';
import { Op, RANGES } from '../tensor';

/** Up to so many tokens a step is split by parts; beyond that there are items enough without. */
export const SPLIT_TOKENS: i32 = 4;
/**
 * src0 q [head_dim, n_head, n_tokens] f32, src1 K, src2 V (kv_cache.ts), src3 first cell i32 [n_tokens], src4 number of visible cells i32 [n_tokens],
 * src5 part states f32 for generation, src6 mask f16 or f32 [n_kv, n_tokens, n_head or 1], or i32 [n_tokens]: positions for ALiBi, or none; src7 slopes f32 [n_head] or none.
 * p0 scale, p1 padded head_dim of K, p2 cells, p3 n_head_kv, p4 window (0: none), p5 soft cap (0: none), p6 parts a row has room for,
 * p7 padded head_dim of V, p8 head_dim of V, p9 not 0: every part takes its maximum to be p10 (FlashDecoding++).
 * dst [p8 * n_head, n_tokens] f32.
 */
export function attention(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n_tokens = op.src0.ne2, n_head_kv = op.p3, rep = op.src0.ne1 / n_head_kv;
  if (n_tokens <= SPLIT_TOKENS) return split(op, ith, nth, cursor_bytes, scratch);
  const rows = n_tokens * rep, blocks = (rows + ITEM_ROWS - 1) / ITEM_ROWS, items = blocks * n_head_kv;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    // Late tokens see the most keys: they come first, so that threads end together.
    const block = blocks - 1 - i / n_head_kv, end = min(rows, (block + 1) * ITEM_ROWS);
    for (let from = block * ITEM_ROWS, to = 0; from < end; from = to) {
      // Rows of different sequences do not walk together.
      for (to = from + 1; to < end && first_cell(op, to / rep) == first_cell(op, from / rep); ) to++;
      walk(op, i % n_head_kv, from, to, -1, false, scratch);
    }
  }
}

/**
 * Generation. Items in the order of memory (of a part the tokens, of a kv head the parts), and each thread begins with a range of its own,
 * as for a product (mul_mat_packed.ts): it reads keys and values from one end to the other, which is what processors read ahead for.
 */
function split(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n_tokens = op.src0.ne2, n_head_kv = op.p3, rep = op.src0.ne1 / n_head_kv, ranges = min(nth, RANGES);
  let parts = 0;
  for (let t = 0; t < n_tokens; t++) parts = max(parts, (visible(op, t) + PART - 1) / PART);
  const items = parts * n_head_kv * n_tokens, size = items / MOST_CHUNKS + 1, chunks = (items + size - 1) / size;
  let loaded = -1;
  for (let r = 0; r < ranges; r++) {
    const range = (ith + r) % ranges, from = split_from(chunks, range, ranges), count = split_to(chunks, range, ranges) - from;
    const cursor = op.cursor + <usize>range * cursor_bytes;
    for (let c = take_of(cursor, count, r > 0); c >= 0; c = take_of(cursor, count, r > 0)) {
      for (let i = (from + c) * size; i < min(items, (from + c + 1) * size); i++) {
        const t = i % n_tokens, part = i / n_tokens % parts, kvh = i / n_tokens / parts, n_kv = visible(op, t);
        if (part * PART >= n_kv || (part + 1) * PART <= window_start(op, n_kv)) continue;
        // A thread's next part mostly is one of the same queries: they are in its scratch, if one walk took them all.
        const group = kvh * n_tokens + t, again = group == loaded;
        for (let h = 0; h < rep; h += ITEM_ROWS) walk(op, kvh, t * rep + h, t * rep + min(rep, h + ITEM_ROWS), part, again, scratch);
        if (rep <= ITEM_ROWS) loaded = group;
      }
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
