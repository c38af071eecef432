/** Llama 1 to 3, what ships under its name (Mistral, SmolLM, TinyLlama), and the layer that most decoders vary. */
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
import { sectionFactors } from './rope-table.ts';
import { reluFeedForward, reluUnit } from './sparse.ts';

export interface LayerOptions extends AttentionOptions {
  /** Where branches are normed: before their first product (default), behind their last (OLMo 2), or both (Gemma). */
  readonly norms?: 'before' | 'behind' | 'both';
  /** The norms before the two branches. Default 'attn_norm' and 'ffn_norm'; null: attention reads the states as they are. */
  readonly attnNorm?: string | null;
  readonly ffnNorm?: string;
  /** The feed-forward reads the same normed states as attention. Default false. */
  readonly parallel?: boolean;
  /** A factor of both branches. Default 1. */
  readonly residualScale?: number;
  /** What the gate goes through. */
  readonly act?: FeedForwardOptions['act'];
  /** Another first branch than attention: a recurrent one, say. */
  readonly mixer?: (h: Tensor) => Tensor;
  /** What becomes of the states behind both branches. */
  readonly result?: (t: Tensor) => Tensor;
  /** Another feed-forward than the gated one, of the normed states; what the layer was given and the states before the norm are there, too. */
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
  /** How each layer differs from Llama's. */
  readonly layer?: (il: number) => LayerOptions;
  /** What becomes of the embeddings before the first layer. */
  readonly embeddings?: (t: Tensor) => Tensor;
  /** The norm behind the last layer. Default 'output_norm'. */
  readonly outputNorm?: string;
  /** What becomes of the last product, and of the hidden states where vectors are wanted. */
  readonly logits?: (t: Tensor) => Tensor;
  readonly vectors?: (t: Tensor) => Tensor;
}

/** A model of such layers, one after the other: a decoder, or an encoder where hp.causal is false. */
export function decoder(name: string, describe: (hp: HParams, g: GraphContext) => DecoderOptions): Architecture {
  return {
    name,
    build(hp, g) {
      const { layer = () => ({}), embeddings = same, outputNorm, logits = same, vectors = same } = describe(hp, g);
      let x = embeddings(embed(g, hp));
      for (let il = 0; il < hp.nLayer; il++) x = llamaLayer(g, hp, il, x, layer(il));
      const out = decoderOutput(g, hp, x, outputNorm);
      return g.wants === 'logits' ? logits(out) : g.wants === 'embeddings' ? vectors(out) : out;
    },
  };
}

/** The angles of a file: with a divisor of each frequency where it has them (Llama 3), or one set up to the original context and another beyond (longrope). */
export function angles(hp: HParams, g: GraphContext): Tensor {
  // The context that the model is loaded with decides, for all positions: keys turned by one set are of no use beside those of the other.
  const longrope = g.contextLength > hp.rope.nCtxOrig ? 'rope_factors_long.weight' : 'rope_factors_short.weight';
  return g.ropeTable(hp.rope, g.has('rope_freqs.weight') ? 'rope_freqs.weight' : longrope);
}

/** M-RoPE's angles where the file has sections of dimensions, as the vision models' do: with text alone they are those of ordinary rope, save for pairs that do not turn. */
export function multimodalAngles(hp: HParams, g: GraphContext, interleaved = false): Tensor | undefined {
  const key = `${hp.arch}.rope.dimension_sections`;
  const sections = Array.from(getNumbers(g.gguf, key, []));
  if (sections.some((n) => !Number.isInteger(n) || n < 0))
    throw new QuantletError('ERR_GGUF_INVALID', `metadata "${key}" is [${sections.join(', ')}]; expected numbers of pairs, 0 or more`);
  if (!(sections[0] > 0 && sections[1] > 0)) return undefined;
  return g.ropeTable({ ...hp.rope, factors: sectionFactors(sections, hp.rope.nDims / 2, interleaved) });
}

/** A decoder whose layers differ from Llama's in nothing but which pairs of a head turn, and in which layers. */
export const llamaLike = (name: string, mode: RopeMode, ropeInLayer: (il: number) => boolean = () => true): Architecture =>
  decoder(name, (hp, g) => {
    const table = angles(hp, g);
    return { layer: (il) => ({ angles: ropeInLayer(il) ? table : undefined, mode }) };
  });

/** With experts, as Mixtral, where a layer has a router, and with ReLU where the file is one of PowerInfer's. */
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
/** Bamboo (PowerInfer): Mistral's layers with ReLU of gate and up both. */
export const bamboo = decoder('bamboo', (hp, g) => {
  const table = angles(hp, g);
  return {
    layer: (il) => ({ angles: table, mode: 'normal', feedForward: (h, _, states) => reluFeedForward(g, hp, il, 'drelu', h, states) }),
  };
});
export const internlm2 = llamaLike('internlm2', 'normal');
export const ernie4_5 = llamaLike('ernie4_5', 'normal');

/** No key says which layers go without: it is every fourth. */
export const smollm3 = llamaLike('smollm3', 'normal', (il) => (il + 1) % 4 !== 0);

/** Phi 3, 3.5 and 4: fused products, and mostly longrope. */
export const phi3 = llamaLike('phi3', 'neox');
