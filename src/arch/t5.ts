/**
 * T5 (arXiv 1910.10683): no position embeddings, but a learnt bias of each head, added to scores by
 * the distance of tokens. The encoder alone makes embeddings (t5encoder); with the decoder, T5
 * generates. When the encoder has read a prompt, the keys and values that the decoder's layers
 * compute from it are stored.
 */
import { getCount } from '../gguf/metadata.ts';
import { attention, kv_store } from '../graph/attention-ops.ts';
import { add, relu } from '../graph/elementwise-ops.ts';
import { get_rows } from '../graph/ops.ts';
import { constant, type Tensor } from '../graph/tensor.ts';
import { reshape } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';
import type { Architecture, GraphContext, KvCache } from './architecture.ts';
import {
  decoderOutput,
  embed,
  gatedFeedForward,
  linear,
  linears,
  norm,
  plainFeedForward,
  selfAttention,
  TOKENS_OF_HEADS,
} from './blocks.ts';
import type { HParams } from './hparams.ts';

/** Distances from here on share a bucket. */
const MOST = 128;

/**
 * Bucket (of n) of a key at distance d after the token (d < 0: before it). The nearest distances
 * have a bucket each; farther buckets grow logarithmically up to MOST. For bidirectional attention,
 * each direction has half of the buckets.
 */
function bucketOf(d: number, nBuckets: number, bothSides: boolean): number {
  const n = bothSides ? nBuckets >> 1 : nBuckets;
  const exact = n >> 1;
  const far = Math.abs(d);
  const wide = (Math.fround(Math.log(far / exact)) * (n - exact)) / Math.log(MOST / exact);
  return (bothSides && d > 0 ? n : 0) + (far < exact ? far : Math.min(n - 1, Math.floor(exact + wide)));
}

/**
 * Bias of a layer's scores by distance, f32 [n_head, 2 MOST + 1]. Layers without a table use the
 * first layer's.
 */
function distances(g: GraphContext, { arch, nHead }: HParams, bothSides: boolean): (il: number) => Tensor {
  const nBuckets = getCount(g.gguf, `${arch}.attention.relative_buckets_count`, undefined, 4, 2 ** 16);
  const ne = [2 * MOST + 1, 1, 1, 1] as const;
  const buckets = constant(
    'buckets of distances',
    TYPE.i32,
    ne,
    () => new Uint8Array(Int32Array.from({ length: ne[0] }, (_, i) => bucketOf(i - MOST, nBuckets, bothSides)).buffer),
  );
  const ofTable = (il: number): Tensor => get_rows(g.weight(`blk.${il}.attn_rel_b.weight`, [nHead, nBuckets]), buckets);
  const first = ofTable(0);
  return (il) => (il > 0 && g.has(`blk.${il}.attn_rel_b.weight`) ? ofTable(il) : first);
}

/** Weights of the encoder or the decoder under the names that blocks use. */
function half(g: GraphContext, prefix: 'enc' | 'dec', cache: GraphContext['cache'] = g.cache): GraphContext {
  const own = (name: string): string => (/^(blk|output_norm)\./.test(name) ? `${prefix}.${name.replace('.attn_output', '.attn_o')}` : name);
  return {
    ...g,
    cache,
    has: (name) => g.has(own(name)),
    shapeOf: (name) => g.shapeOf(own(name)),
    weight: (name, ne) => g.weight(own(name), ne),
    optional: (name, ne) => g.optional(own(name), ne),
    loras: (name) => g.loras(own(name)),
  };
}

/** x + branch(norm(x)). */
const branch = (g: GraphContext, hp: HParams, x: Tensor, name: string, of: (h: Tensor) => Tensor): Tensor =>
  add(of(norm(g, hp, x, name)), x);

/**
 * Layers of encoder or decoder: self-attention, then `between` (cross-attention), then a
 * feed-forward, which has a gate since T5 1.1.
 */
function layers(g: GraphContext, hp: HParams, bothSides: boolean, between = (_: number, x: Tensor): Tensor => x): Tensor {
  const distancesOf = distances(g, hp, bothSides);
  let x = embed(g, hp);
  for (let il = 0; il < hp.nLayer; il++) {
    const name = (part: string): string => `blk.${il}.${part}`;
    x = branch(g, hp, x, name('attn_norm'), (h) => selfAttention(g, hp, il, h, { scale: 1, distances: distancesOf(il) }));
    x = between(il, x);
    x = branch(g, hp, x, name('ffn_norm'), (h) =>
      g.has(name('ffn_gate.weight')) ? gatedFeedForward(g, hp, il, h, { act: 'gelu' }) : plainFeedForward(g, hp, il, h, { act: relu }),
    );
  }
  return x;
}

export const t5encoder: Architecture = {
  name: 't5encoder',
  build(hp, g) {
    const enc = half(g, 'enc');
    return decoderOutput(enc, hp, layers(enc, hp, true));
  },
};

/** Cache of the keys and values that a decoder layer computes from the encoder's output. */
const promptCache = (g: GraphContext, hp: HParams, il: number): KvCache => g.cache(il, hp.headDim, hp.valueDim, 'prompt');

/** Cross-attention: a decoder layer attends to the prompt. */
function crossAttention(g: GraphContext, hp: HParams, il: number, h: Tensor): Tensor {
  const { nHead, headDim } = hp;
  const { first, encoded } = g.inputs;
  const { k, v, rotation } = promptCache(g, hp, il);
  const q = linear(g, h, `blk.${il}.cross_attn_q`, nHead * headDim);
  const heads = reshape(q, [headDim, nHead, h.ne[1], 1], TOKENS_OF_HEADS);
  const out = attention(heads, k, v, first, encoded, { scale: 1, unifiedMax: g.unifiedMax, rotation });
  return linear(g, out, `blk.${il}.cross_attn_o`, hp.nEmbd);
}

export const t5: Architecture = {
  name: 't5',
  encode(hp, g) {
    const { headDim, nHeadKv } = hp;
    const enc = half(g, 'enc', (layer, keyDim, valueDim) => g.cache(layer, keyDim, valueDim, 'step'));
    const states = norm(enc, hp, layers(enc, hp, true), 'output_norm');
    const dec = half(g, 'dec');
    for (let il = 0; il < hp.decoder!.nLayer; il++) {
      const cache = promptCache(g, hp, il);
      const name = (part: string): string => `blk.${il}.cross_attn_${part}`;
      const [k, v] = linears(dec, states, [
        [name('k'), nHeadKv * headDim],
        [name('v'), nHeadKv * headDim],
      ]);
      const heads = (x: Tensor): Tensor => reshape(x, [headDim, nHeadKv, x.ne[1], 1], TOKENS_OF_HEADS);
      const { cells } = g.inputs;
      g.expand(kv_store(cache.k, heads(k), cells, 'k', cache.rotation.k), kv_store(cache.v, heads(v), cells, 'v', cache.rotation.v));
    }
  },
  build(hp, g) {
    const dec = half(g, 'dec');
    const own = { ...hp, nLayer: hp.decoder!.nLayer };
    const x = layers(dec, own, false, (il, y) => branch(dec, own, y, `blk.${il}.cross_attn_norm`, (h) => crossAttention(dec, own, il, h)));
    return decoderOutput(dec, own, x);
  },
};
