/** Llama 1 to 3 and everything that ships under its name: Mistral, SmolLM, TinyLlama. Source: llama.cpp's llm_build_llama. */
import { getCount, getNumber, getString, getStrings } from '../gguf/metadata.ts';
import { add, attention, get_rows, kv_store, mul_mat, rms_norm, rope, swiglu } from '../graph/ops.ts';
import { reshape } from '../graph/tensor.ts';
import type { Architecture } from './architecture.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';

export const llama: Architecture = {
  name: 'llama',

  hparams(gguf) {
    const key = (name: string): string => `llama.${name}`;
    const nEmbd = getCount(gguf, key('embedding_length'), undefined, 1);
    const nHead = getCount(gguf, key('attention.head_count'), undefined, 1);
    const headDim = getCount(gguf, key('attention.key_length'), Math.floor(nEmbd / nHead), 1);
    const nCtxTrain = getCount(gguf, key('context_length'), undefined, 1);
    const scaling = getString(gguf, key('rope.scaling.type'), 'linear');
    const factor = getNumber(gguf, key('rope.scaling.factor'), getNumber(gguf, key('rope.scale_linear'), 1));
    return {
      nVocab: getCount(gguf, key('vocab_size'), getStrings(gguf, 'tokenizer.ggml.tokens', []).length, 1),
      nCtxTrain,
      nEmbd,
      nLayer: getCount(gguf, key('block_count'), undefined, 1),
      nHead,
      nHeadKv: getCount(gguf, key('attention.head_count_kv'), nHead, 1),
      headDim,
      nFf: getCount(gguf, key('feed_forward_length'), undefined, 1),
      eps: getNumber(gguf, key('attention.layer_norm_rms_epsilon')),
      rope: {
        ...ROPE_DEFAULTS,
        nDims: getCount(gguf, key('rope.dimension_count'), headDim, 2),
        freqBase: getNumber(gguf, key('rope.freq_base'), 10000),
        freqScale: scaling === 'none' || factor === 0 ? 1 : 1 / factor,
        extFactor: scaling === 'yarn' ? 1 : 0,
        nCtxOrig: getCount(gguf, key('rope.scaling.original_context_length'), nCtxTrain, 1),
      },
    };
  },

  build(hp, g) {
    const { nEmbd, nHead, nHeadKv, headDim, nFf } = hp;
    const { ids, pos, cells, first, visible, outputs } = g.inputs;
    const nTokens = ids.ne[0];
    const heads = { dim: 2, by: 'tokens' } as const;
    const angles = g.ropeTable(hp.rope);
    const embd = g.weight('token_embd.weight', [nEmbd, hp.nVocab]);

    let x = get_rows(embd, ids);
    for (let il = 0; il < hp.nLayer; il++) {
      const w = (name: string, ...ne: number[]) => g.weight(`blk.${il}.${name}.weight`, ne);
      const cache = g.cache(il);

      const h = rms_norm(x, w('attn_norm', nEmbd), hp.eps);
      const q = mul_mat(w('attn_q', nEmbd, nHead * headDim), h);
      const k = mul_mat(w('attn_k', nEmbd, nHeadKv * headDim), h);
      const v = mul_mat(w('attn_v', nEmbd, nHeadKv * headDim), h);
      g.expand(q, k, v); // one after the other: the three share their input and meet once

      const qr = rope(reshape(q, [headDim, nHead, nTokens, 1], heads), pos, angles, false);
      const kr = rope(reshape(k, [headDim, nHeadKv, nTokens, 1], heads), pos, angles, false);
      g.expand(qr, kr);
      g.expand(kv_store(cache.k, kr, cells, 'k'), kv_store(cache.v, reshape(v, [headDim, nHeadKv, nTokens, 1], heads), cells, 'v'));
      const attn = attention(qr, cache.k, cache.v, first, visible, { scale: 1 / Math.sqrt(headDim) });
      x = add(mul_mat(w('attn_output', nHead * headDim, nEmbd), attn), x);

      const f = rms_norm(x, w('ffn_norm', nEmbd), hp.eps);
      const gate = mul_mat(w('ffn_gate', nEmbd, nFf), f), up = mul_mat(w('ffn_up', nEmbd, nFf), f);
      g.expand(gate, up);
      x = add(mul_mat(w('ffn_down', nFf, nEmbd), swiglu(gate, up)), x);
    }
    // Only the tokens whose logits are wanted go through the largest product.
    x = rms_norm(get_rows(x, outputs), g.weight('output_norm.weight', [nEmbd]), hp.eps);
    return mul_mat(g.optional('output.weight', [nEmbd, hp.nVocab]) ?? embd, x);
  },
};
