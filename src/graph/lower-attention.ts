/** Attention's records: the kernel and the merge of its parts; for ordinary tensors, K and V brought into the cache's order before. */
import { alignUp } from '../gguf/types.ts';
import { TYPE, type TypeTraits } from '../type-traits.ts';
import { KV_TYPES, paddedHeadDim, type KvType } from './attention-ops.ts';
import { ATTENTION_PART, ATTENTION_SPLIT_TOKENS, ATTENTION_STATE, K_CELLS, KV_STORE_SCRATCH } from './layout.ts';
import { temporary, type KernelFacts, type Record } from './record.ts';
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
}

/** q [head_dim, n_head, n_tokens] over K and V in cache order, to dst [hd_v * n_head, n_tokens]. */
export function attentionRecords({ q, k, v, first, visible, bias, slopes }: Sources, p: Readonly<{ [name: string]: number }>, dst: Tensor, facts: KernelFacts): Record[] {
  const parts = Math.ceil(k.ne[1] / ATTENTION_PART), tokens = Math.min(ATTENTION_SPLIT_TOKENS, q.ne[2]);
  const states = { ...temporary('attention parts', TYPE.f32, q, [v.ne[0] + ATTENTION_STATE, parts * q.ne[1] * tokens, 1, 1]), batch: undefined };
  const params = [{ f: p.scale }, k.ne[0], k.ne[1], k.ne[2], p.window, { f: p.soft_cap }, parts, v.ne[0], p.hd_v, p.unified, { f: p.phi }];
  const src = [q, k, v, first, visible, states, bias, slopes], scratch = facts.attention_scratch(k.ne[0], v.ne[0]);
  const how = `${k.type.name} keys, ${v.type.name} values, parts of ${ATTENTION_PART}${p.unified ? `, unified maximum ${p.phi}` : ''}`;
  return [
    { code: 'ATTENTION', dst, src, params, alsoWrites: [states], scratch, how },
    { code: 'ATTENTION_MERGE', dst, src, params, scratch },
  ];
}

/** One batch (dimension 3) of a tensor with contiguous rows. */
const batchOf = (t: Tensor, i: number): Tensor => (t.ne[3] === 1 ? t : view(t, [t.ne[0], t.ne[1], t.ne[2], 1], { nb: t.nb.slice(1), offset: i * t.nb[3] }));

/** ggml_flash_attn_ext. `rowsOf`: a tensor with contiguous rows of a type. */
export function flashAttnRecords(t: Tensor, facts: KernelFacts, rowsOf: (x: Tensor, type: TypeTraits) => Tensor, push: (record: Record) => void): void {
  const [q, k, v, first, visible, given, slopes] = t.src as readonly Tensor[], mask = given && rowsOf(given, given.type);
  const f32 = (x: Tensor): Tensor => rowsOf(x, TYPE.f32);
  const kept = (x: Tensor): KvType => KV_TYPES.find((name) => name === x.type.name) ?? (x.type.blckSize > 1 ? 'q8_0' : 'f32');
  const pack = (x: Tensor, order: 'k' | 'v', batch: number): Tensor => {
    const type = kept(x), hd = paddedHeadDim(type, x.ne[0]), cells = alignUp(x.ne[1], x.ne[1] < ATTENTION_PART ? K_CELLS : ATTENTION_PART);
    const cache = temporary(`${order} in attention's order`, TYPE[type], x, [hd, cells, x.ne[2], 1]);
    push({ code: 'KV_STORE', dst: cache, src: [permute(batchOf(f32(x), batch), 0, 2, 1, 3)], params: [hd, cells, order === 'v' ? 1 : 0], scratch: KV_STORE_SCRATCH, how: `${x.type.name} packed as ${type}` });
    return cache;
  };
  for (let batch = 0; batch < q.ne[3]; batch++) {
    const ne: Ne = [t.ne[0] * t.ne[1], t.ne[2], 1, 1];
    const dst = node('view', ne, { viewOf: t, viewOffset: batch * t.nb[3] });
    const bias = mask && batchOf(mask, mask.ne[3] === 1 ? 0 : batch);
    const sources = { q: permute(batchOf(f32(q), batch), 0, 2, 1, 3), k: pack(k, 'k', batch), v: pack(v, 'v', batch), first, visible, bias, slopes };
    attentionRecords(sources, t.params, dst, facts).forEach(push);
  }
}
