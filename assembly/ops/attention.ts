/**
 * Attention over keys and values in cache order: softmax(scale * q k + bias) v, for prompts and for generation, batch- and thread-invariant.
 *
 * Keys are taken in KV splits: runs of KV_SPLIT cells counted from the sequence's first cell. Each split gives a (max, sum, output) of its own
 * (FlashDecoding), and these are merged in ascending order, so a result does not depend on which thread computed which split or on the other tokens of
 * the batch. Within a split, a score is one chain of madds over the dimensions and an output one chain over the keys.
 *
 * Prompts: a work item is up to ITEM_ROWS rows (token x query head) of a kv head, which walk the splits together.
 * Generation (up to SPLIT_TOKENS tokens): an item is (token, kv head, split); attention_merge merges their states after a barrier.
 *
 * Each split takes its own maximum, which costs the same as a unified one (phi) that is known before.
 */
import { params_of } from './attention_params';
import { STATE, state_clear, state_merge } from './attention_split';
import { ITEM_ROWS, first_cell, store_output, visible, walk, window_start } from './attention_walk';
import { cast_heads, cast_rows, cast_elements } from './casts';
import { KV_SPLIT } from './kv_cache';
import { next_chunk, range_end, range_start } from '../runtime/schedule';
import { MOST_CHUNKS, take } from '../runtime/sync';
import { Op } from '../runtime/tensor';

/** Steps of up to so many tokens make an item of every KV split; with more tokens there are items enough without. */
export const SPLIT_TOKENS: i32 = 4;
/**
 * src0 q [head_dim, n_head, n_tokens] f32, src1 K, src2 V (kv_cache.ts), src3 first cell i32 [n_tokens], src4 number of visible cells i32 [n_tokens],
 * src5 split states f32 for generation, src6 mask f16 or f32 [n_kv, n_tokens, n_head or 1], or i32 [n_tokens]: positions for ALiBi, distances and windows to both sides, or none; src7 slopes f32 [n_head], or
 * what distances add, f32 [n_head, 2 most + 1], or none;
 * src8 sinks f32 [n_head] or none: a score for each head that joins the sum and has no value.
 * The parameters are those of attention_params.ts.
 * dst [hd_out * n_head, n_tokens] f32.
 */
export function attention(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  const n_head_kv = params_of(op).n_head_kv;
  const rep = op.src0.ne1 / n_head_kv;
  if (n_tokens <= SPLIT_TOKENS) return generate(op, ith, nth, cursor_bytes, scratch);
  const rows = n_tokens * rep;
  const blocks = (rows + ITEM_ROWS - 1) / ITEM_ROWS;
  const items = blocks * n_head_kv;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    // The last tokens see the most keys. They come first, so that the threads finish together.
    const block = blocks - 1 - i / n_head_kv;
    const end = min(rows, (block + 1) * ITEM_ROWS);
    for (let from = block * ITEM_ROWS, to = 0; from < end; from = to) {
      // Rows of different sequences do not walk together.
      for (to = from + 1; to < end && first_cell(op, to / rep) == first_cell(op, from / rep);) to++;
      walk(op, i % n_head_kv, from, to, -1, false, scratch);
    }
  }
}

/**
 * Generation. Items are numbered in the order of memory (kv head, then split, then token), and each thread begins with a range of its own, as for a
 * product (mul_mat_packed.ts): it reads keys and values from one end to the other, which processors prefetch.
 */
function generate(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  const n_head_kv = params_of(op).n_head_kv;
  const rep = op.src0.ne1 / n_head_kv;
  let splits = 0;
  for (let t = 0; t < n_tokens; t++) splits = max(splits, (visible(op, t) + KV_SPLIT - 1) / KV_SPLIT);
  const items = splits * n_head_kv * n_tokens;
  const size = items / MOST_CHUNKS + 1;
  const chunks = (items + size - 1) / size;
  let loaded = -1;
  for (let c = next_chunk(op, chunks, ith, nth, cursor_bytes); c >= 0; c = next_chunk(op, chunks, ith, nth, cursor_bytes)) {
    for (let i = c * size; i < min(items, (c + 1) * size); i++) {
      const t = i % n_tokens;
      const split = (i / n_tokens) % splits;
      const kvh = i / n_tokens / splits;
      const n_kv = visible(op, t);
      if (split * KV_SPLIT >= n_kv || (split + 1) * KV_SPLIT <= window_start(op, t)) continue;
      // A thread's next split is mostly one for the same queries, which are still in its scratch if one walk took them all.
      const group = kvh * n_tokens + t;
      const again = group == loaded;
      for (let h = 0; h < rep; h += ITEM_ROWS) walk(op, kvh, t * rep + h, t * rep + min(rep, h + ITEM_ROWS), split, again, scratch);
      if (rep <= ITEM_ROWS) loaded = group;
    }
  }
}

/**
 * Merges the splits of generation steps; for prompts only the casts of the output are left to do. Threads take turns at the heads, as many at a time
 * as make whole blocks of the casts.
 */
export function attention_merge(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  const n_head = op.src0.ne1;
  const p = params_of(op);
  const hd = p.hd_v;
  if (n_tokens > SPLIT_TOKENS) return cast_rows(op, range_start(n_tokens, ith, nth), range_end(n_tokens, ith, nth));
  const state_bytes = <usize>(hd + STATE) << 2;
  const heads = cast_heads(op, p.hd_out);
  for (let i = ith * heads; i < n_tokens * n_head; i += nth * heads) {
    for (let head = i; head < i + heads; head++) {
      const t = head / n_head;
      const n_kv = visible(op, t);
      state_clear(scratch, hd);
      for (let split = window_start(op, t) / KV_SPLIT; split * KV_SPLIT < n_kv; split++)
        state_merge(scratch, op.src5.data + <usize>(head * p.splits + split) * state_bytes, hd);
      store_output(op, scratch, head % n_head, t);
    }
    cast_elements(op, i * p.hd_out, heads * p.hd_out);
  }
}
