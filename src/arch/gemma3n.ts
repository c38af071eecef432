/**
 * Gemma 3n (E2B, E4B): Gemma's layers over four states of each token at once ("AltUp", arXiv
 * 2301.13310). A layer predicts all four, computes the first, and corrects the others by the
 * difference. Each layer also has a low-rank product parallel to attention ("Laurel"), and an
 * embedding of each token for that layer.
 */
import { getCount, getNumber } from '../gguf/metadata.ts';
import { add, div, geglu, gelu, mul, relu, scale, soft_cap, sqr, sqrt, sub, tanh } from '../graph/elementwise-ops.ts';
import { mul_mat_id } from '../graph/grouped-ops.ts';
import { concat } from '../graph/ops.ts';
import { mean, sum_rows, weighted_sum } from '../graph/row-ops.ts';
import { constant, type BatchDim, type Tensor } from '../graph/tensor.ts';
import { reshape, view } from '../graph/views.ts';
import { TYPE } from '../type-traits.ts';
import type { Architecture, GraphContext } from './architecture.ts';
import { decoderOutput, embed, linear, linears, norm, selfAttention, times } from './blocks.ts';
import { lentKeys, perLayerEmbeddings } from './gemma4.ts';
import type { HParams } from './hparams.ts';
import { ROPE_DEFAULTS } from './rope-table.ts';
import { slidingWindows } from './windows.ts';

/**
 * Constants that no metadata key states: states of a token, Laurel's rank, layers with keys of
 * their own, and layers whose feed-forward lets only the largest gates pass.
 */
const STATES = 4;
const RANK = 64;
const OWN_KEYS = 20;
const SPARSE_LAYERS = 10;
/** Standard deviations above the mean that a gate must exceed: 5 % of a normal distribution do. */
const DEVIATIONS = 1.6448533535003662;

const byTokens = (dim: BatchDim['dim']): BatchDim => ({ dim, by: 'tokens' });
const magnitude = (x: Tensor): Tensor => sqrt(sum_rows(sqr(x)));
/** x [n, states, n_tokens], scaled to the magnitude of `like` [n, 1, n_tokens]. */
const asLarge = (x: Tensor, like: Tensor): Tensor => div(mul(x, magnitude(like)), magnitude(x));
/** States from .. from + count of x [n, STATES, n_tokens]. */
const states = (x: Tensor, from: number, count: number): Tensor =>
  view(x, [x.ne[0], count, x.ne[2], 1], { nb: [x.nb[1], x.nb[2]], offset: from * x.nb[1] });
/** The first state, the one that a layer computes: [n, n_tokens]. */
const active = (x: Tensor): Tensor => view(x, [x.ne[0], x.ne[2], 1, 1], { nb: [x.nb[2]] }, byTokens(1));
const asState = (x: Tensor): Tensor => reshape(x, [x.ne[0], 1, x.ne[1], 1], byTokens(2));

/**
 * Multiplies each state but the first by a matrix of its own. If x has only the first state, that
 * state is used for each.
 */
function eachOther(g: GraphContext, { nEmbd }: HParams, x: Tensor, name: string): Tensor {
  const others = constant('states but the first', TYPE.i32, [STATES - 1, 1, 1, 1], () => new Uint8Array(Int32Array.of(0, 1, 2).buffer));
  const ids = view(others, [STATES - 1, x.ne[2], 1, 1], { nb: [0] }, byTokens(1));
  return mul_mat_id(g.weight(`${name}.weight`, [nEmbd, nEmbd, STATES - 1]), x, ids);
}

/**
 * Excess of each gate above the token's threshold (mean + DEVIATIONS standard deviations); 0 below.
 */
function largest(gate: Tensor): Tensor {
  const centre = mean(gate);
  const variance = times(sum_rows(sqr(sub(gate, centre))), 1 / (gate.ne[0] - 1));
  return relu(sub(gate, add(centre, times(sqrt(variance), DEVIATIONS))));
}

export const gemma3n: Architecture = {
  name: 'gemma3n',
  build(hp, g) {
    const { nEmbd, nFf } = hp;
    const key = (k: string): string => `gemma3n.${k}`;
    const nPerLayer = getCount(g.gguf, key('embedding_length_per_layer_input'), 256, 1);
    const finalCap = getNumber(g.gguf, key('final_logit_softcapping'), 30);
    const window = slidingWindows(g.gguf, 'gemma3n', { pattern: 5 });
    const keysOf = lentKeys(hp, window, OWN_KEYS);
    const globalAngles = g.ropeTable(hp.rope);
    const freqBase = getNumber(g.gguf, key('rope.freq_base_swa'), 10000);
    const localAngles = g.ropeTable({ ...ROPE_DEFAULTS, nDims: hp.rope.nDims, freqBase });
    const x0 = times(embed(g, hp), Math.sqrt(nEmbd));
    const perLayer = perLayerEmbeddings(g, hp, nPerLayer, x0);
    const nTokens = x0.ne[1];

    const layer = (x: Tensor, il: number): Tensor => {
      const name = (part: string): string => `blk.${il}.${part}`;
      const normed = (t: Tensor, part: string): Tensor => norm(g, hp, t, name(part));
      /** Router weights of the four states, computed from one of them. */
      const modalities = (t: Tensor): Tensor =>
        tanh(linear(g, times(normed(t, 'altup_router_norm'), 1 / nEmbd), name('altup_router'), STATES));

      const mix = reshape(
        linear(g, modalities(active(x)), name('altup_predict_coef'), STATES ** 2),
        [1, STATES, STATES, nTokens],
        byTokens(3),
      );
      const each = view(x, [nEmbd, STATES, STATES, nTokens], { nb: [x.nb[1], 0, x.nb[2]] }, byTokens(3));
      const predicted = add(weighted_sum(each, mix), x);

      const first = active(predicted);
      const h = normed(first, 'attn_norm');
      const lowRank = linear(g, linear(g, h, name('laurel_l'), RANK), name('laurel_r'), nEmbd);
      const laurel = add(normed(lowRank, 'laurel_post_norm'), h);
      const attended = selfAttention(g, hp, il, h, {
        angles: window(il) ? localAngles : globalAngles,
        scale: 1,
        window: window(il),
        keysOf: keysOf(il),
        valueNorm: true,
      });
      const y = times(add(add(normed(attended, 'post_attention_norm'), first), laurel), Math.SQRT1_2);
      const [gate, up] = linears(g, normed(y, 'ffn_norm'), [
        [name('ffn_gate'), nFf],
        [name('ffn_up'), nFf],
      ]);
      const down = linear(g, geglu(il < SPARSE_LAYERS ? largest(gate) : gate, up), name('ffn_down'), nEmbd);
      const result = add(normed(down, 'post_ffw_norm'), y);

      const shares = reshape(
        scale(linear(g, modalities(result), name('altup_correct_coef'), STATES), 1, { bias: 1 }),
        [1, STATES, nTokens, 1],
        byTokens(2),
      );
      const news = sub(result, first);
      const corrected = add(mul(view(news, [nEmbd, STATES, nTokens, 1], { nb: [0, news.nb[1]] }, byTokens(2)), shares), predicted);
      const scaled = mul(active(corrected), g.weight(name('altup_correct_scale.weight'), [nEmbd]));
      const gated = mul(gelu(linear(g, scaled, name('inp_gate'), nPerLayer)), perLayer(il));
      const added = normed(linear(g, gated, name('proj'), nEmbd), 'post_norm');
      return concat(states(corrected, 0, 1), add(states(corrected, 1, STATES - 1), asState(added)), 1);
    };

    const start = asState(x0);
    let x: Tensor = concat(start, asLarge(eachOther(g, hp, start, 'altup_proj'), start), 1);
    for (let il = 0; il < hp.nLayer; il++) x = layer(x, il);
    const end = states(x, 0, 1);
    const all = concat(end, asLarge(eachOther(g, hp, states(x, 1, STATES - 1), 'altup_unembd_proj'), end), 1);
    const equal = constant(
      'equal shares',
      TYPE.f32,
      [1, STATES, 1, 1],
      () => new Uint8Array(new Float32Array(STATES).fill(1 / STATES).buffer),
    );
    const shares = view(equal, [1, STATES, nTokens, 1], { nb: [4, 0] }, byTokens(2));
    const out = decoderOutput(g, hp, weighted_sum(all, shares));
    return g.wants === 'logits' && finalCap > 0 ? soft_cap(out, finalCap) : out;
  },
};
