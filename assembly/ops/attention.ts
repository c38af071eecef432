/**
 * Attention over keys and values in cache order: softmax(scale * q k + bias) v, for prompts and for
 * generation. Results depend neither on the batch nor on the number of threads.
 *
 * Keys are taken in KV splits: runs of KV_SPLIT cells counted from the sequence's first cell. Each
 * split gives its own (max, sum, output), as in FlashDecoding, and the splits are merged in
 * ascending order. So a result does not depend on the threads that computed the splits, nor on
 * other tokens of the batch. Within a split, a score is one chain of madds over the dimensions, and
 * an output one chain over the keys.
 *
 * Prompts: a work item is up to ATTENTION_ROWS_ITEM rows (token x query head) of a kv head, which
 * walk the splits together. Generation (up to ATTENTION_SPLIT_TOKENS tokens): an item is (token, kv
 * head, split), and attention_merge merges their states after a barrier.
 *
 * Each split takes its own maximum, which costs no more than a unified one (phi) known in advance.
 */
import { ATTENTION_ROWS_ITEM, ATTENTION_SPLIT_TOKENS, ATTENTION_STATE, KV_SPLIT } from '../layout';
import { params_of } from './attention_params';
import { state_clear, state_merge } from './attention_split';
import { first_cell, store_output, visible, walk, window_start } from './attention_walk';
import { cast_heads, cast_rows, cast_elements } from './casts';
import { next_chunk, range_end, range_start } from '../runtime/schedule';
import { MOST_CHUNKS, take } from '../runtime/sync';
import { Op } from '../runtime/tensor';

/**
 * dst [hd_out * n_head, n_tokens] f32. The parameters are AttentionParams.
 *
 *   src0 | q [head_dim, n_head, n_tokens] f32
 *   src1 | K (kv_cache.ts)
 *   src2 | V
 *   src3 | first cell i32 [n_tokens]
 *   src4 | number of visible cells i32 [n_tokens]
 *   src5 | states of the splits f32, for generation
 *   src6 | none; or mask f16 or f32 [n_kv, n_tokens, n_head or 1]; or positions i32 [n_tokens], for
 *        | ALiBi, distances, and windows to both sides
 *   src7 | none; or slopes f32 [n_head]; or biases by distance f32 [n_head, 2 most + 1]
 *   src8 | none; or sinks f32 [n_head]: a score for each head that joins the sum and has no value
 */
export function attention(op: Op, ith: i32, nth: i32, cursor_bytes: usize, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  const n_head_kv = params_of(op).n_head_kv;
  const rep = op.src0.ne1 / n_head_kv;
  if (n_tokens <= ATTENTION_SPLIT_TOKENS) return generate(op, ith, nth, cursor_bytes, scratch);
  const rows = n_tokens * rep;
  const blocks = (rows + ATTENTION_ROWS_ITEM - 1) / ATTENTION_ROWS_ITEM;
  const items = blocks * n_head_kv;
  for (let i = take(op.cursor); i < items; i = take(op.cursor)) {
    // The last tokens see the most keys, so they come first: then the threads finish together.
    const block = blocks - 1 - i / n_head_kv;
    const end = min(rows, (block + 1) * ATTENTION_ROWS_ITEM);
    for (let from = block * ATTENTION_ROWS_ITEM, to = 0; from < end; from = to) {
      // Rows of different sequences do not walk together.
      for (to = from + 1; to < end && first_cell(op, to / rep) == first_cell(op, from / rep);) to++;
      walk(op, i % n_head_kv, from, to, -1, false, scratch);
    }
  }
}

/**
 * Generation. Items are numbered in the order of memory (kv head, then split, then token), and each
 * thread begins with a range of its own, as for a product (mul_mat_packed.ts). So it reads keys and
 * values sequentially, and the CPU can prefetch them.
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
      // A thread's next split is usually for the same queries. If one walk took all of them, they
      // are still in its scratch.
      const group = kvh * n_tokens + t;
      const again = group == loaded;
      for (let h = 0; h < rep; h += ATTENTION_ROWS_ITEM)
        walk(op, kvh, t * rep + h, t * rep + min(rep, h + ATTENTION_ROWS_ITEM), split, again, scratch);
      if (rep <= ATTENTION_ROWS_ITEM) loaded = group;
    }
  }
}

/**
 * Merges the splits of generation steps; after prompts only casts the output. Threads take turns at
 * the heads, in units that fill whole blocks of the casts.
 */
export function attention_merge(op: Op, ith: i32, nth: i32, scratch: usize): void {
  const n_tokens = op.src0.ne2;
  const n_head = op.src0.ne1;
  const p = params_of(op);
  const hd = p.hd_v;
  if (n_tokens > ATTENTION_SPLIT_TOKENS) return cast_rows(op, range_start(n_tokens, ith, nth), range_end(n_tokens, ith, nth));
  const state_bytes = <usize>(hd + ATTENTION_STATE) << 2;
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
