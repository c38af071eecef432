/**
 * Llama 1 to 3 and models of that architecture (Mistral, SmolLM, TinyLlama), and the layer that
 * most other decoders vary.
 */
import { QuantletError } from '../errors.ts';
import { getNumbers } from '../gguf/metadata.ts';
import { add } from '../graph/elementwise-ops.ts';
import type { RopeMode } from '../graph/rope.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import {
  decoderOutput,
  embed,
  gatedFeedForward,
  norm,
  selfAttention,
  times,
  type AttentionOptions,
  type FeedForwardOptions,
} from './blocks.ts';
import { experts } from './experts.ts';
import type { HParams } from './hparams.ts';
import { anglesOfTokens, withDeepstack, withImages, type TokenAngles } from './images.ts';
import { sectionFactors, sectionOfPairs } from './rope-table.ts';
import { reluFeedForward, reluUnit } from './sparse.ts';

export interface LayerOptions extends AttentionOptions {
  /**
   * Norms of a branch: before its first product (default), after its last one (OLMo 2), or both
   * (Gemma).
   */
  readonly norms?: 'before' | 'behind' | 'both';
  /**
   * Names of the norms before the two branches. Default 'attn_norm' and 'ffn_norm'; null: attention
   * reads the states without a norm.
   */
  readonly attnNorm?: string | null;
  readonly ffnNorm?: string;
  /** Attention and feed-forward read the same normed states. Default false. */
  readonly parallel?: boolean;
  /** Factor of both branches. Default 1. */
  readonly residualScale?: number;
  /** Activation of the gate. */
  readonly act?: FeedForwardOptions['act'];
  /** Replaces attention, for example by a recurrent mixer. */
  readonly mixer?: (h: Tensor) => Tensor;
  /** Maps the states after both branches. */
  readonly result?: (t: Tensor) => Tensor;
  /**
   * Replaces the gated feed-forward. Gets the normed states, the layer's input, and the states
   * before the norm.
   */
  readonly feedForward?: (h: Tensor, layerInput: Tensor, states: Tensor) => Tensor;
}

const same = (t: Tensor): Tensor => t;

/** The common decoder layer: x += attention(norm(x)), x += gated(norm(x)). */
export function llamaLayer(g: GraphContext, hp: HParams, il: number, x: Tensor, options: LayerOptions): Tensor {
  const {
    norms = 'before',
    attnNorm = 'attn_norm',
    ffnNorm = 'ffn_norm',
    parallel = false,
    residualScale = 1,
    act,
    mixer,
    feedForward,
    result = same,
  } = options;
  const before = (t: Tensor, name: string): Tensor => (norms === 'behind' ? t : norm(g, hp, t, `blk.${il}.${name}`));
  const behind = (t: Tensor, name: string): Tensor => times(norms === 'before' ? t : norm(g, hp, t, `blk.${il}.${name}`), residualScale);
  const h = attnNorm === null ? x : before(x, attnNorm);
  const y = add(behind(mixer ? mixer(h) : selfAttention(g, hp, il, h, options), 'post_attention_norm'), x);
  const f = parallel ? h : before(y, ffnNorm);
  return result(add(behind(feedForward ? feedForward(f, x, y) : gatedFeedForward(g, hp, il, f, { act }), 'post_ffw_norm'), y));
}

export interface DecoderOptions {
  /** Differences of each layer from Llama's. */
  readonly layer?: (il: number) => LayerOptions;
  /** Maps the embeddings before the first layer. */
  readonly embeddings?: (t: Tensor) => Tensor;
  /** Called with the states before the first layer, which are those of images, too. */
  readonly start?: (x: Tensor) => void;
  /** True: `embeddings` also maps those of images. Default false. */
  readonly mapsImages?: boolean;
  /** Name of the norm after the last layer. Default 'output_norm'. */
  readonly outputNorm?: string;
  /**
   * Map of the logits (`logits`), and of the hidden states if embeddings are wanted (`vectors`).
   */
  readonly logits?: (t: Tensor) => Tensor;
  readonly vectors?: (t: Tensor) => Tensor;
}

/** A model of consecutive layers: a decoder, or an encoder if hp.causal is false. */
export function decoder(name: string, describe: (hp: HParams, g: GraphContext) => DecoderOptions): Architecture {
  return {
    name,
    build(hp, g) {
      const {
        layer = () => ({}),
        embeddings = same,
        mapsImages = false,
        start,
        outputNorm,
        logits = same,
        vectors = same,
      } = describe(hp, g);
      const rows = embed(g, hp);
      let x = mapsImages ? embeddings(withImages(g, hp, rows)) : withImages(g, hp, embeddings(rows));
      start?.(x);
      for (let il = 0; il < hp.nLayer; il++) x = withDeepstack(g, hp, il, llamaLayer(g, hp, il, x, layer(il)));
      const out = decoderOutput(g, hp, x, outputNorm);
      return g.wants === 'logits' ? logits(out) : g.wants === 'embeddings' ? vectors(out) : out;
    },
  };
}

/**
 * Angles of a file. Frequencies have divisors if the file has them (Llama 3), or one of two sets,
 * for contexts up to the original one and for longer ones (longrope).
 */
export function angles(hp: HParams, g: GraphContext): Tensor {
  // One set serves all positions, chosen by the loaded context: keys rotated by one set do not
  // match queries rotated by the other.
  const longrope = g.contextLength > hp.rope.nCtxOrig ? 'rope_factors_long.weight' : 'rope_factors_short.weight';
  return g.ropeTable(hp.rope, g.has('rope_freqs.weight') ? 'rope_freqs.weight' : longrope);
}

/**
 * Angles of M-RoPE, if the file has sections of dimensions, as vision models do. For text alone
 * they equal ordinary rope, except that some pairs are not rotated.
 */
export function multimodalAngles(hp: HParams, g: GraphContext, interleaved = false): Tensor | TokenAngles | undefined {
  const key = `${hp.arch}.rope.dimension_sections`;
  const sections = Array.from(getNumbers(g.gguf, key, []));
  if (sections.some((n) => !Number.isInteger(n) || n < 0))
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" is [${sections.join(', ')}]; expected numbers of pairs, 0 or more`);
  if (!(sections[0] > 0 && sections[1] > 0)) return undefined;
  const nPairs = hp.rope.nDims / 2;
  if (!g.images) return g.ropeTable({ ...hp.rope, factors: sectionFactors(sections, nPairs, interleaved) });
  return anglesOfTokens(g.images, g.inputs.pos, g.ropeTable(hp.rope), sectionOfPairs(sections, nPairs, interleaved));
}

/**
 * A decoder that differs from Llama only in the pairs that rope rotates, and in the layers that
 * have rope.
 */
export const llamaLike = (name: string, mode: RopeMode, ropeInLayer: (il: number) => boolean = () => true): Architecture =>
  decoder(name, (hp, g) => {
    const table = angles(hp, g);
    return { layer: (il) => ({ angles: ropeInLayer(il) ? table : undefined, mode }) };
  });

/** With experts in layers that have a router (Mixtral), and with ReLU in PowerInfer's files. */
export const llama = decoder('llama', (hp, g) => {
  const table = angles(hp, g);
  const unit = reluUnit(g.gguf);
  return {
    layer: (il) => ({
      angles: table,
      mode: 'normal',
      ...(unit && { feedForward: (h, _, states) => reluFeedForward(g, hp, il, unit, h, states) }),
      ...(g.has(`blk.${il}.ffn_gate_inp.weight`) && { feedForward: (h) => experts(g, hp, il, h, { normalised: true, nFf: hp.nFf }) }),
    }),
  };
});
/** Bamboo (PowerInfer): Mistral's layers with ReLU of both gate and up. */
export const bamboo = decoder('bamboo', (hp, g) => {
  const table = angles(hp, g);
  return {
    layer: (il) => ({ angles: table, mode: 'normal', feedForward: (h, _, states) => reluFeedForward(g, hp, il, 'drelu', h, states) }),
  };
});
export const internlm2 = llamaLike('internlm2', 'normal');
export const ernie4_5 = llamaLike('ernie4_5', 'normal');

/** Every fourth layer has no rope; no metadata key says so. */
export const smollm3 = llamaLike('smollm3', 'normal', (il) => (il + 1) % 4 !== 0);

/** Phi 3, 3.5 and 4: fused products, usually longrope. */
export const phi3 = llamaLike('phi3', 'neox');
