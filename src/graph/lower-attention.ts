/**
 * Records of attention: the kernel, and the merge of its KV splits. K and V of ordinary tensors are
 * copied into the cache's order first.
 */
import { alignUp } from '../align.ts';
import { TYPE } from '../type-traits.ts';
import { FLASH_TYPES, paddedHeadDim, type KvType } from './attention-ops.ts';
import { ATTENTION_BLOCK, ATTENTION_ROWS, ATTENTION_SPLIT_TOKENS, ATTENTION_STATE, KV_SPLIT, KV_STORE_SCRATCH, K_CELLS } from './layout.ts';
import type { Lowering } from './lowering.ts';
import type { Target } from './packed-products.ts';
import { temporary, type OpRecord } from './record.ts';
import { STRUCTURES, wordsOf } from './structures.ts';
import { SIZES } from '../wasm/sizes.ts';
import { node, type Ne, type Tensor } from './tensor.ts';
import { permute, view } from './views.ts';

interface Sources {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly first: Tensor;
  readonly visible: Tensor;
  /** A mask, or positions for ALiBi. */
  readonly bias: Tensor | undefined;
  readonly slopes: Tensor | undefined;
  /** f32 [n_head]. */
  readonly sinks: Tensor | undefined;
}

/**
 * Scratch bytes of a thread, for padded head dims of K and V (layout:
 * assembly/ops/attention_walk.ts): f32 queries, scores, states of a split, merged states, K and V
 * of a split. For caches of block types, K and V are at least what attention_blocks.ts needs.
 */
export function attentionScratch(hdK: number, hdV: number, { isa }: Target): number {
  const { item, tile, widen } = ATTENTION_ROWS;
  const f32 = 4;
  const state = hdV + ATTENTION_STATE;
  const queries = item * hdK * f32;
  const scores = item * KV_SPLIT * f32;
  const states = Math.max(tile * state, widen * Math.max(hdK, hdV)) * f32;
  const merged = item * state * f32;
  const k = Math.max(KV_SPLIT * hdK * f32, SIZES[isa].packedScratch);
  const v = Math.max(KV_SPLIT * hdV * f32, (hdV / 32) * ATTENTION_BLOCK.size + KV_SPLIT * f32 + 16);
  return queries + scores + states + merged + k + v;
}

/**
 * Attention of q [head_dim, n_head, n_tokens] over K and V in cache order, into dst [hd_out *
 * n_head, n_tokens].
 */
export function attentionRecords(
  { q, k, v, first, visible, bias, slopes, sinks }: Sources,
  p: Readonly<{ [name: string]: number }>,
  dst: Tensor,
  target: Target,
): OpRecord[] {
  const splits = Math.ceil(k.ne[1] / KV_SPLIT);
  const tokens = Math.min(ATTENTION_SPLIT_TOKENS, q.ne[2]);
  const states = {
    ...temporary('states of KV splits', TYPE.f32, q, [v.ne[0] + ATTENTION_STATE, splits * q.ne[1] * tokens, 1, 1]),
    batch: undefined,
  };
  const values: { readonly [name in keyof typeof STRUCTURES.AttentionParams]: number } = {
    scale: p.scale,
    hd_k: k.ne[0],
    cells: k.ne[1],
    n_head_kv: k.ne[2],
    window: p.window,
    soft_cap: p.soft_cap,
    splits,
    hd_v: v.ne[0],
    hd_out: p.hd_out,
    unified: p.unified,
    phi: p.phi,
    rot_k: p.rot_k ?? 0,
    rot_v: p.rot_v ?? 0,
  };
  const params = wordsOf(STRUCTURES.AttentionParams, values);
  const src = [q, k, v, first, visible, states, bias, slopes, sinks];
  const scratch = attentionScratch(k.ne[0], v.ne[0], target);
  const kept = (t: Tensor, rotated: unknown): string => `${rotated ? 'rotated ' : ''}${t.type.name}`;
  const how = `${kept(k, p.rot_k)} keys, ${kept(v, p.rot_v)} values, KV splits of ${KV_SPLIT}${p.unified ? `, unified maximum ${p.phi}` : ''}`;
  return [
    { code: 'ATTENTION', dst, src, params, writtenSrc: [states], scratch, how },
    { code: 'ATTENTION_MERGE', dst, src, params, scratch },
  ];
}

/** One batch (an index of dimension 3) of a tensor with contiguous rows. */
const batchOf = (t: Tensor, i: number): Tensor =>
  t.ne[3] === 1 ? t : view(t, [t.ne[0], t.ne[1], t.ne[2], 1], { nb: t.nb.slice(1), offset: i * t.nb[3] });

/** Lowers ggml_flash_attn_ext. */
export function pushFlashAttn(t: Tensor, lowering: Lowering): void {
  const [q, k, v, first, visible, given, slopes, sinks] = t.src as readonly Tensor[];
  // Positions, of flash_attn_runs, are one row for all heads and batches.
  const positions = given?.type === TYPE.i32 ? given : undefined;
  const mask = positions ?? (given && lowering.rowsOf(given, given.type));
  const f32 = (x: Tensor): Tensor => lowering.rowsOf(x, TYPE.f32);
  const kept = (x: Tensor): KvType => FLASH_TYPES.find((name) => name === x.type.name) ?? (x.type.blckSize > 1 ? 'q8_0' : 'f32');
  const pack = (x: Tensor, order: 'k' | 'v', batch: number): Tensor => {
    const type = kept(x);
    const hd = paddedHeadDim(type, x.ne[0]);
    const cells = alignUp(x.ne[1], x.ne[1] < KV_SPLIT ? K_CELLS : KV_SPLIT);
    const cache = temporary(`${order} in attention's order`, TYPE[type], x, [hd, cells, x.ne[2], 1]);
    lowering.push({
      code: 'KV_STORE',
      dst: cache,
      src: [permute(batchOf(f32(x), batch), 0, 2, 1, 3)],
      params: [hd, cells, order === 'v' ? 1 : 0],
      scratch: KV_STORE_SCRATCH.size + lowering.quantizeWork,
      how: `${x.type.name} packed as ${type}`,
    });
    return cache;
  };
  for (let batch = 0; batch < q.ne[3]; batch++) {
    const ne: Ne = [t.ne[0] * t.ne[1], t.ne[2], 1, 1];
    const dst = node('view', ne, { viewOf: t, viewOffset: batch * t.nb[3] });
    const bias = mask && batchOf(mask, mask.ne[3] === 1 ? 0 : batch);
    const sources = {
      q: permute(batchOf(f32(q), batch), 0, 2, 1, 3),
      k: pack(k, 'k', batch),
      v: pack(v, 'v', batch),
      first,
      visible,
      bias,
      slopes,
      sinks: sinks && f32(sinks),
    };
    for (const record of attentionRecords(sources, t.params, dst, lowering.target)) lowering.push(record);
  }
}
