// Every supported architecture in one slow scalar function: f64, one position after the other, no
// cache. It is the specification for src/arch/, and is itself compared with native llama.cpp
// (test/golden/arch). Rounding that ggml does on purpose is kept: activations take the weights'
// vec_dot_type (f16, q8_0) before a product, and gelu uses a table of f16 values.
import { roundHalf } from './gguf.ts';
import { mixerOf } from './mixers.ts';
import type { MetaValue, RefGguf, RefTensor } from './gguf.ts';

type Vec = Float64Array;
export type Pooling = 'mean' | 'cls' | 'last' | 'rank';

/**
 * Rules that follow from the architecture's name. Other rules follow from metadata or from which
 * tensors exist.
 */
interface Traits {
  readonly rope?: 'norm' | 'neox';
  readonly gelu?: boolean;
  /** residual first, norm after (BERT) */
  readonly encoder?: boolean;
  /** embeddings times sqrt(n_embd) */
  readonly scaled?: boolean;
  /** every n-th layer has no rope */
  readonly ropeless?: number;
  readonly alibi?: number;
  /** a norm before the last product of each branch */
  readonly subNorms?: boolean;
  /**
   * activation of experts' gates, if not silu; with 'none' and 'relu_sqr' experts have no gate, and
   * gelu or relu^2 follows up
   */
  readonly unit?: 'relu' | 'oai' | 'none' | 'relu_sqr';
  /** the weights of a token's experts add up to 1 */
  readonly weightsToOne?: boolean;
  /**
   * sliding windows. The last (or `first`) of `pattern` layers sees everything, unless the file has
   * a pattern; `size` if the file has none
   */
  readonly windows?: { readonly pattern: number; readonly size?: number; readonly first?: boolean; readonly around?: boolean };
  /** layers that see everything have no rope */
  readonly ropeless_globally?: boolean;
  /** local layers: rope without scaling (`plain`), with this base if the file has none */
  readonly local?: { readonly base?: number; readonly plain?: boolean };
  /** rope comes before the norms of q and k */
  readonly turnsFirst?: boolean;
  /** the pairs of M-RoPE's sections alternate */
  readonly interleaved?: boolean;
  /** norms have no weights */
  readonly bareNorms?: boolean;
  /** attention and feed-forward read the same states */
  readonly parallel?: boolean;
}
const traits: Record<string, Traits> = {
  lfm2: { rope: 'neox' },
  lfm2moe: { rope: 'neox', weightsToOne: true },
  mamba: {},
  mamba2: {},
  qwen35: { rope: 'neox', interleaved: true },
  qwen35moe: { rope: 'neox', interleaved: true, weightsToOne: true },
  qwen3next: { rope: 'neox', weightsToOne: true },
  nemotron_h: { unit: 'relu_sqr' },
  nemotron_h_moe: { unit: 'relu_sqr', weightsToOne: true },
  granitehybrid: { rope: 'norm', weightsToOne: true },
  'falcon-h1': { rope: 'neox' },
  llama: { rope: 'norm', weightsToOne: true },
  internlm2: { rope: 'norm' },
  ernie4_5: { rope: 'norm' },
  mistral3: { rope: 'norm' },
  olmo: { rope: 'norm', bareNorms: true },
  olmo2: { rope: 'neox', windows: { pattern: 4 }, local: { plain: true } },
  'command-r': { rope: 'norm', parallel: true },
  cohere2: { rope: 'norm', parallel: true, windows: { pattern: 4 }, ropeless_globally: true },
  exaone4: { rope: 'neox' },
  glm4: { rope: 'norm' },
  'hunyuan-dense': { rope: 'neox', turnsFirst: true },
  seed_oss: { rope: 'neox' },
  apertus: { rope: 'neox' },
  qwen2vl: { rope: 'neox' },
  qwen3vl: { rope: 'neox', interleaved: true },
  smollm3: { rope: 'norm', ropeless: 4 },
  deepseek2: { rope: 'norm' },
  granite: { rope: 'norm' },
  granitemoe: { rope: 'norm', weightsToOne: true },
  qwen2: { rope: 'neox' },
  qwen3: { rope: 'neox' },
  qwen2moe: { rope: 'neox' },
  qwen3moe: { rope: 'neox', weightsToOne: true },
  olmoe: { rope: 'neox' },
  'gpt-oss': { rope: 'neox', unit: 'oai', windows: { pattern: 2 } },
  smallthinker: { rope: 'neox', unit: 'relu', weightsToOne: true, windows: { pattern: 4, first: true } },
  phi3: { rope: 'neox' },
  stablelm: { rope: 'neox' },
  bamboo: { rope: 'norm' },
  falcon: { rope: 'neox', gelu: true, parallel: true },
  opt: {},
  bitnet: { rope: 'neox', subNorms: true },
  starcoder2: { rope: 'neox', gelu: true },
  gemma2: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 2, size: 4096 } },
  gemma3: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 6 }, local: { base: 10000, plain: true } },
  gemma4: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 6 }, local: { base: 10000, plain: true } },
  gemma3n: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 5 }, local: { base: 10000, plain: true } },
  'gemma-embedding': { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 6, around: true }, local: { base: 10000, plain: true } },
  'modern-bert': { rope: 'neox', gelu: true, windows: { pattern: 3, first: true, around: true }, local: { base: 10000, plain: true } },
  'neo-bert': { rope: 'norm' },
  eurobert: { rope: 'neox' },
  t5encoder: { gelu: true },
  t5: { gelu: true },
  bert: { encoder: true, gelu: true },
  'nomic-bert': { encoder: true, rope: 'neox' },
  'nomic-bert-moe': { encoder: true, rope: 'neox', gelu: true, unit: 'none' },
  'jina-bert-v2': { encoder: true, gelu: true, alibi: 8 },
  'jina-bert-v3': { encoder: true, rope: 'neox', gelu: true },
};

/** Norms after the last layer that have other names. */
const OUTPUT_NORMS: Record<string, string> = { 'neo-bert': 'enc.output_norm', lfm2: 'token_embd_norm', lfm2moe: 'token_embd_norm' };

const silu = (x: number) => x / (1 + Math.exp(-x));
const gelu = (v: number) => {
  if (Math.abs(v) >= 10) return v < 0 ? 0 : v;
  const x = roundHalf(v);
  return roundHalf(0.5 * x * (1 + Math.tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))));
};
const relu = (x: number) => Math.max(0, x);
const reluSqr = (x: number) => relu(x) ** 2;
const add = (a: Vec, b: Vec) => a.map((x, i) => x + b[i]);
const scale = (a: Vec, s: number) => a.map((x) => x * s);
const softCap = (x: number, cap: number) => (cap ? cap * Math.tanh(x / cap) : x);

/** Rounds activations as ggml does before a product with weights of this type. */
function toVecDotType(x: Vec, type: number): Vec {
  if (type === 0) return x;
  if (type === 1) return x.map(roundHalf);
  const out = new Float64Array(x.length);
  for (let b = 0; b < x.length; b += 32) {
    const block = x.subarray(b, b + 32);
    const d = block.reduce((a, v) => Math.max(a, Math.abs(v)), 0) / 127;
    block.forEach((v, i) => {
      out[b + i] = d ? roundHalf(d) * Math.sign(v) * Math.floor(Math.abs(v) / d + 0.5) : 0;
    });
  }
  return out;
}

export interface ReferenceOptions {
  /** From token `from` on, each attention layer keeps only this share of its heads. */
  readonly attnHeads?: { readonly share: number; readonly from: number };
}

/** A model that can be evaluated. Tensors are dequantised when first used. */
export function reference(gguf: RefGguf, { attnHeads }: ReferenceOptions = {}) {
  const cache = new Map<RefTensor, Vec[]>();
  const rowsOf = (t: RefTensor) => {
    const known = cache.get(t) ?? Array.from({ length: t.ne.slice(1).reduce((a, n) => a * n, 1) }, (_, i) => t.row(i));
    cache.set(t, known);
    return known;
  };
  const arch = gguf.meta.get('general.architecture') as string;
  const isT5 = arch.startsWith('t5');
  /** T5: the half that is being computed. */
  let half: 'enc' | 'dec' = 'enc';
  const optional = (name: string) =>
    gguf.tensors.get(isT5 && /^(blk|output_norm)\./.test(name) ? `${half}.${name.replace('attn_output', 'attn_o')}` : name);
  const rows = (name: string) => {
    const t = optional(name);
    if (!t) throw new Error(`no tensor ${name}`);
    return rowsOf(t);
  };
  const vector = (name: string) => {
    const t = optional(name);
    return t && rowsOf(t)[0];
  };
  const is = traits[arch];
  if (!is) throw new Error(`no reference for ${arch}`);
  const raw = (key: string): MetaValue | undefined => gguf.meta.get(`${arch}.${key}`);
  const num = (key: string, otherwise: number) => (raw(key) as number | undefined) ?? otherwise;

  const n_embd = num('embedding_length', 0);
  const n_layer = num('block_count', 0) - num('nextn_predict_layers', 0);
  const n_head = num('attention.head_count', 0);
  const headsKv = raw('attention.head_count_kv') ?? n_head;
  const n_head_kv =
    Array.isArray(headsKv) || ArrayBuffer.isView(headsKv) ? Math.max(...(headsKv as ArrayLike<number> as number[])) : (headsKv as number);
  const head = num('attention.key_length', n_embd / n_head);
  const n_rot_global = num('rope.dimension_count', head);
  const n_ff = num('feed_forward_length', 0);
  const eps = num('attention.layer_norm_rms_epsilon', num('attention.layer_norm_epsilon', arch === 'opt' ? 1e-5 : 0));
  const isNemotron = arch.startsWith('nemotron_h');
  const rms = isNemotron || raw('attention.layer_norm_rms_epsilon') !== undefined;
  const causal = () => (isT5 ? half === 'dec' : ((raw('attention.causal') as boolean | undefined) ?? true));
  const act = is.gelu ? gelu : silu;
  const attnCap = arch === 'gemma2' ? num('attn_logit_softcapping', 50) : 0;
  const finalCap = num('final_logit_softcapping', arch === 'gemma2' || arch === 'gemma3n' ? 30 : 0);
  // The 27B models of gemma2 and gemma3 scale scores by n_embd / n_head instead of the head size.
  const wide = (arch === 'gemma2' && n_layer === 46) || (arch === 'gemma3' && n_layer === 62);
  const isGranite = arch.startsWith('granite');
  const attnScale =
    (isGranite && num('attention.scale', 0)) ||
    ((arch === 'gemma4' || arch === 'gemma3n' || isT5) && 1) ||
    1 / Math.sqrt(wide ? n_embd / n_head : head);

  // llama and phi3 files may have the key, but native ignores it.
  const given = is.windows ? num('attention.sliding_window', is.windows.size ?? 0) : 0;
  // smallthinker's windows are 4096, whatever the key says.
  const window = arch === 'smallthinker' && given > 0 ? 4096 : given;
  const pattern = raw('attention.sliding_window_pattern') ?? is.windows?.pattern;
  const isGlobal = (il: number) =>
    Array.isArray(pattern) ? !pattern[il] : pattern !== 0 && il % (pattern as number) === (is.windows?.first ? 0 : (pattern as number) - 1);
  const isNear = (back: number) => (is.windows?.around ? Math.abs(back) <= Math.floor(window / 2) : back < window);
  const isSwa = (il: number) => window > 0 && !isGlobal(il);

  /**
   * gemma4: local layers have heads of another size; the last layers read the keys and values of
   * earlier ones.
   */
  const headOf = (il: number) => (isSwa(il) ? num('attention.key_length_swa', head) : head);
  const own = arch === 'gemma3n' ? 20 : n_layer - num('attention.shared_kv_layers', 0);
  const keysOf = (il: number) => (il < own ? il : own - (isSwa(il) ? 2 : 1));
  const kept = new Map<number, { k: Vec; v: Vec }[]>();

  /** cos and sin of each pair at one position. */
  function angles(pos: number, il: number, n_ctx: number): [number, number][] {
    const n_rot = isSwa(il) ? num('rope.dimension_count_swa', n_rot_global) : n_rot_global;
    const type = raw('rope.scaling.type') ?? 'linear';
    const orig = num('rope.scaling.original_context_length', num('context_length', 0));
    const factor = type === 'none' ? 1 : num('rope.scaling.factor', num('rope.scale_linear', 0)) || 1;
    const trained = num('rope.freq_base', 10000);
    const local = isSwa(il);
    const base = local && arch !== 'olmo2' && arch !== 'cohere2' ? num('rope.freq_base_swa', is.local?.base ?? trained) : trained;
    const freqScale = local && is.local?.plain ? 1 : 1 / factor;
    const factors =
      (arch === 'gemma4' && local ? undefined : vector('rope_freqs.weight')) ??
      vector(n_ctx > orig ? 'rope_factors_long.weight' : 'rope_factors_short.weight');
    const yarn = type === 'yarn';
    const dim = (turns: number) => (n_rot * Math.log(orig / (turns * 2 * Math.PI))) / (2 * Math.log(base));
    const mix = arch === 'olmo2' && local ? 0 : num('rope.scaling.yarn_ext_factor', yarn ? 1 : 0);
    const low = Math.max(0, Math.floor(dim(num('rope.scaling.yarn_beta_fast', 32))));
    const high = Math.min(n_rot - 1, Math.ceil(dim(num('rope.scaling.yarn_beta_slow', 1))));
    // YaRN's magnitude, as llama_context and rope_yarn together compute it: a logarithm of the
    // factor, or the file's attn_factor if ext_factor is 0.
    const logMul = num('rope.scaling.yarn_log_multiplier', 0);
    const magnitude = (m: number) => 1 + 0.1 * m * Math.log(Math.max(1, factor));
    const ofScores = arch === 'deepseek2' && logMul ? logMul : 1;
    const grown = mix === 0 ? num('rope.scaling.yarn_attn_factor', 1) : magnitude(ofScores) / magnitude(logMul);
    const size = num('rope.scaling.attn_factor', 1) * grown;
    const sections = raw('rope.dimension_sections') as number[] | undefined;
    return Array.from({ length: n_rot / 2 }, (_, i) => {
      if (sections && !isText(i, sections)) return [size, 0];
      const own = (pos * base ** ((-2 * i) / n_rot)) / (factors ? factors[i] : 1);
      const keep = mix * (1 - Math.min(1, Math.max(0, (i - low) / Math.max(0.001, high - low))));
      const theta = own * freqScale * (1 - keep) + own * keep;
      return [Math.cos(theta) * size, Math.sin(theta) * size];
    });
  }
  /**
   * M-RoPE: tells if a pair rotates by time, height or width, which for text are all the token's
   * position. The fourth section is always 0.
   */
  function isText(pair: number, [t, h, w, e]: number[]): boolean {
    const at = pair % (t + h + w + e);
    if (!is.interleaved) return at < t + h + w;
    return (at % 3 === 0 && at < 3 * t) || (at % 3 === 1 && at < 3 * h) || (at % 3 === 2 && at < 3 * w);
  }
  function rope(x: Vec, pairs: [number, number][], head: number): Vec {
    const out = x.slice();
    const n_rot = 2 * pairs.length;
    for (let h = 0; h < x.length; h += head) {
      pairs.forEach(([cos, sin], i) => {
        const [a, b] = is.rope === 'norm' && !raw('rope.dimension_sections') ? [h + 2 * i, h + 2 * i + 1] : [h + i, h + i + n_rot / 2];
        out[a] = x[a] * cos - x[b] * sin;
        out[b] = x[a] * sin + x[b] * cos;
      });
    }
    return out;
  }

  function normed(x: Vec, kind: 'rms' | 'layer', weight?: Vec, bias?: Vec): Vec {
    const mean = kind === 'rms' ? 0 : x.reduce((a, v) => a + v, 0) / x.length;
    const spread = Math.sqrt(x.reduce((a, v) => a + (v - mean) ** 2, 0) / x.length + eps);
    return x.map((v, i) => ((v - mean) / spread) * (weight ? weight[i] : 1) + (bias ? bias[i] : 0));
  }
  const norm = (x: Vec, name: string) =>
    is.bareNorms ? normed(x, 'layer') : normed(x, rms ? 'rms' : 'layer', vector(name) ?? rows(`${name}.weight`)[0], vector(`${name}.bias`));
  /** Matrix product with bias and scale. e: matrix number in a stack of experts. */
  function linear(x: Vec, name: string, e = 0): Vec {
    const t = optional(`${name}.weight`);
    const all = rows(`${name}.weight`);
    const y = toVecDotType(x, t!.type);
    const n = t!.ne[1] ?? 1;
    const bias = optional(`${name}.bias`) && rows(`${name}.bias`)[e];
    const scale = vector(`${name}.scale`)?.[e] ?? 1;
    return Float64Array.from(
      all.slice(e * n, (e + 1) * n),
      (w, i) => w.reduce((a, v, j) => a + v * y[j], 0) * scale + (bias ? bias[i] : 0),
    );
  }
  /**
   * Norms of q or k. One row of weights for all heads (qwen3, gemma3: rms), one row per head
   * (stablelm), or the whole vector with bias (jina-bert-v2).
   */
  function headNorm(x: Vec, name: string): Vec {
    const t = optional(`${name}.weight`);
    if (!t) return x;
    const w = rowsOf(t);
    const width = t.ne[0];
    const out = new Float64Array(x.length);
    for (let h = 0; h < x.length; h += width)
      out.set(normed(x.subarray(h, h + width), rms ? 'rms' : 'layer', w[(h / width) % w.length], vector(`${name}.bias`)), h);
    return out;
  }

  function normedHeads(x: Vec, width: number): Vec {
    const out = new Float64Array(x.length);
    for (let h = 0; h < x.length; h += width) out.set(normed(x.subarray(h, h + width), 'rms'), h);
    return out;
  }

  function attention(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    const head = headOf(il);
    const nq = n_head * head;
    const nk = n_head_kv * head;
    const sinks = vector(`${b}attn_sinks.weight`);
    const roped =
      is.rope &&
      !(is.ropeless_globally && !isSwa(il)) &&
      !(is.ropeless && (il + 1) % is.ropeless === 0) &&
      !(arch === 'smallthinker' && window > 0 && il % 4 === 0) &&
      (!isGranite || raw('rope.scaling.finetuned') !== false);
    const qkv = xs.map((x, pos) => {
      const all = optional(`${b}attn_qkv.weight`) && linear(x, `${b}attn_qkv`);
      const [q, k, v] = all
        ? [all.slice(0, nq), all.slice(nq, nq + nk), all.slice(nq + nk)]
        : ['q', 'k', 'v'].map((t) => (t === 'q' || il < own ? linear(x, `${b}attn_${t}`) : new Float64Array(nk)));
      // each head's query is followed by its gate
      const gated = q.length === 2 * nq;
      const half = (from: number) => Float64Array.from({ length: nq }, (_, i) => q[2 * head * Math.floor(i / head) + from + (i % head)]);
      const limit = num('attention.clamp_kqv', 0) || Infinity;
      const within = (t: Vec) => t.map((one) => Math.min(limit, Math.max(-limit, one)));
      const turn = (t: Vec) => (roped ? rope(t, angles(pos, il, n_ctx), head) : t);
      const ready = (t: Vec, name: string) => (is.turnsFirst ? headNorm(turn(t), b + name) : turn(headNorm(t, b + name)));
      const heat = num('attention.temperature_scale', 0) * Math.log(Math.floor(pos / num('rope.scaling.original_context_length', 1)) + 1);
      return {
        gate: gated ? half(head) : undefined,
        q: scale(ready(within(gated ? half(0) : q), 'attn_q_norm'), arch === 'mistral3' ? 1 + heat : 1),
        k: ready(within(k), 'attn_k_norm'),
        v: arch === 'gemma4' || arch === 'gemma3n' ? normedHeads(v, head) : within(v),
      };
    });
    kept.set(il, qkv);
    const kv = kept.get(keysOf(il))!;
    return qkv.map(({ q, gate }, pos) => {
      const out = new Float64Array(nq);
      for (let h = 0; h < n_head; h++) {
        const g = Math.floor(h / (n_head / n_head_kv)) * head;
        const slope = is.alibi ? alibi(h) : 0;
        const scores = kv.map(({ k }, other) => {
          if ((causal() && other > pos) || (isSwa(il) && !isNear(pos - other))) return -Infinity;
          let dot = 0;
          for (let i = 0; i < head; i++) dot += q[h * head + i] * k[g + i];
          return softCap(dot * attnScale, attnCap) - slope * Math.abs(pos - other) + (isT5 ? relative(il, h, other - pos) : 0);
        });
        const sink = sinks ? sinks[h] : -Infinity;
        const top = Math.max(sink, ...scores);
        const e = scores.map((s) => Math.exp(s - top));
        const sum = e.reduce((a, v) => a + v, Math.exp(sink - top));
        e.forEach((p, other) => {
          for (let i = 0; i < head; i++) out[h * head + i] += (p / sum) * kv[other].v[g + i];
        });
      }
      const open = gate ? out.map((v, i) => v / (1 + Math.exp(-gate[i]))) : out;
      const x = is.subNorms ? norm(open, `${b}attn_sub_norm`) : open;
      return linear(attnHeads && pos >= attnHeads.from ? largestHeads(x, `${b}attn_output`, attnHeads.share) : x, `${b}attn_output`);
    });
  }
  /**
   * Sets the heads to 0 that can contribute least, by the length of a head's output times the norm
   * of its part of the output matrix.
   */
  function largestHeads(x: Vec, name: string, share: number): Vec {
    const width = x.length / n_head;
    const size = (t: Vec, h: number) => Math.hypot(...t.subarray(h * width, (h + 1) * width));
    const sizes = Array.from({ length: n_head }, (_, h) => size(x, h) * Math.hypot(...rows(`${name}.weight`).map((w) => size(w, h))));
    const least = [...sizes].sort((a, z) => z - a)[Math.max(1, Math.round(share * n_head)) - 1];
    return x.map((v, i) => (sizes[Math.floor(i / width)] >= least ? v : 0));
  }
  /**
   * deepseek2: keys and values of all heads are computed from one vector, by one matrix for all or
   * by two per head. Only part of a head gets rope.
   */
  function latentAttention(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.attn_`;
    const rank = num('attention.kv_lora_rank', 0);
    const split = optional(`${b}k_b.weight`) !== undefined;
    const nk = num('attention.key_length_mla', head);
    const nv = num('attention.value_length_mla', num('attention.value_length', head));
    const plain = nk - n_rot_global;
    const factor = num('rope.scaling.factor', 1);
    const grows = 1 + num('rope.scaling.yarn_log_multiplier', 0) * Math.log(factor);
    const turn = (t: Vec, pos: number) => rope(t, angles(pos, il, n_ctx), t.length);
    /**
     * YaRN's magnitude. For the part with rope, the angles include it already; the scores are
     * multiplied by its square once more.
     */
    const size = Math.hypot(...angles(0, il, n_ctx)[0]);
    const factorOfScores = (size * grows) ** 2 / Math.sqrt(nk);
    const tokens = xs.map((x, pos) => {
      const q = optional(`${b}q.weight`) ? linear(x, `${b}q`) : linear(norm(linear(x, `${b}q_a`), `${b}q_a_norm`), `${b}q_b`);
      const kv = linear(x, `${b}kv_a_mqa`);
      const c = norm(kv.slice(0, rank), `${b}kv_a_norm`);
      const shared = turn(kv.slice(rank), pos);
      const all = split ? undefined : linear(c, `${b}kv_b`);
      const join = (a: Vec, z: Vec) => Float64Array.from([...a, ...z]);
      return Array.from({ length: n_head }, (_, h) => {
        const own = q.slice(h * nk, (h + 1) * nk);
        const query = own.slice(0, plain);
        const at = h * (plain + nv);
        return {
          q: join(all ? query : linear(query, `${b}k_b`, h), turn(own.slice(plain), pos)),
          k: join(all ? all.slice(at, at + plain) : c, shared),
          v: all ? all.slice(at + plain, at + plain + nv) : c,
        };
      });
    });
    return tokens.map((heads, pos) => {
      const outs = heads.map(({ q }, h) => {
        const scores = tokens.slice(0, pos + 1).map((other) => other[h].k.reduce((a, v, i) => a + v * q[i], 0) * factorOfScores);
        const e = scores.map((s) => Math.exp(s - Math.max(...scores)));
        const sum = e.reduce((a, v) => a + v, 0);
        const out = e.map((p, i) => scale(tokens[i][h].v, p / sum)).reduce(add);
        return split ? linear(out, `${b}v_b`, h) : out;
      });
      return linear(Float64Array.from(outs.flatMap((o) => [...o])), `${b}output`);
    });
  }
  function alibi(h: number): number {
    const n = 2 ** Math.floor(Math.log2(n_head));
    return h < n ? 2 ** ((-is.alibi! / n) * (h + 1)) : 2 ** ((-is.alibi! / 2 / n) * (2 * (h - n) + 1));
  }
  /**
   * T5: bias that a head adds to the score of a key `d` tokens after the query. Half of the
   * encoder's table is for keys before the query, half for keys after it.
   */
  function relative(il: number, h: number, d: number): number {
    const table = rows(`${optional(`blk.${il}.attn_rel_b.weight`) ? `blk.${il}` : 'blk.0'}.attn_rel_b.weight`);
    const side = half === 'enc' ? table.length / 2 : table.length;
    const near = Math.floor(side / 2);
    const far = Math.abs(d);
    // From `near` on, buckets grow geometrically; the last ends at 128.
    const bucket =
      far < near ? far : Math.min(side - 1, near + Math.floor(((side - near) * Math.log2(far / near)) / Math.log2(128 / near)));
    return table[(d > 0 ? side : 0) + bucket][h];
  }
  /**
   * T5: the prompt after the encoder's last norm, and a decoder token's cross-attention over it.
   */
  let read: Vec[] = [];
  function lookBack(x: Vec, b: string): Vec {
    const [q, ks, vs] = [linear(x, `${b}q`), read.map((s) => linear(s, `${b}k`)), read.map((s) => linear(s, `${b}v`))];
    const out = new Float64Array(q.length);
    for (let h = 0; h < q.length; h += head) {
      const scores = ks.map((k) => q.subarray(h, h + head).reduce((sum, v, i) => sum + v * k[h + i], 0));
      const e = scores.map((s) => Math.exp(s - Math.max(...scores)));
      const sum = e.reduce((a, v) => a + v, 0);
      e.forEach((p, at) => vs[at].subarray(h, h + head).forEach((v, i) => (out[h + i] += (p / sum) * v)));
    }
    return linear(out, `${b}output`);
  }
  /** Called with the experts selected for a token, if set. */
  let told: ((layer: string, chosen: readonly number[], of: number) => void) | undefined;
  /** The experts of one token. The router reads `seen`. */
  function mixture(x: Vec, seen: Vec, b: string): Vec {
    const used = num('expert_used_count', 0);
    const raws = linear(seen, `${b}ffn_gate_inp`);
    const gating = arch === 'gpt-oss' ? 3 : isNemotron ? 2 : num('expert_gating_func', 1);
    const softmax = (v: readonly number[]) => {
      const e = v.map((s) => Math.exp(s - Math.max(...v)));
      return e.map((one) => one / e.reduce((a, n) => a + n, 0));
    };
    const probs = gating === 1 ? softmax([...raws]) : gating === 2 ? [...raws].map((s) => 1 / (1 + Math.exp(-s))) : [...raws];
    const best = (of: readonly number[], n: number) => [...of.keys()].sort((i, j) => of[j] - of[i] || i - j).slice(0, n);
    const groups = num('expert_group_count', 0);
    const bias = vector(`${b}exp_probs_b.bias`);
    let open = bias ? probs.map((p, i) => p + bias[i]) : probs;
    if (groups > 1) {
      const size = probs.length / groups;
      const worth = Array.from({ length: groups }, (_, i) => {
        const group = open.slice(i * size, (i + 1) * size).sort((p, q) => q - p);
        return group[0] + group[1];
      });
      const kept = best(worth, num('expert_group_used_count', 0));
      open = open.map((p, i) => (kept.includes(Math.floor(i / size)) ? p : -Infinity));
    }
    const chosen = best(open, used);
    told?.(b, chosen, raws.length);
    let weights = chosen.map((e) => probs[e]);
    if (gating === 3) weights = softmax(weights);
    if (raw('expert_weights_norm') ?? is.weightsToOne)
      weights = weights.map(
        (w) =>
          w /
          Math.max(
            2 ** -14,
            weights.reduce((p, q) => p + q),
          ),
      );
    weights = weights.map((w) => w * (num('expert_weights_scale', 0) || 1));
    const plain = is.unit === 'none' ? gelu : is.unit === 'relu_sqr' ? reluSqr : undefined;
    const unit = (gate: number, up: number) => {
      if (is.unit === 'relu') return Math.max(0, gate) * up;
      if (is.unit !== 'oai') return silu(gate) * up;
      const low = Math.min(gate, 7);
      return (low / (1 + Math.exp(-1.702 * low))) * (Math.min(7, Math.max(-7, up)) + 1);
    };
    const latent = optional(`${b}ffn_latent_down.weight`) ? linear(x, `${b}ffn_latent_down`) : x;
    const parts = chosen.map((e, i) => {
      const up = linear(latent, `${b}ffn_up_exps`, e);
      const mid = plain ? up.map(plain) : linear(latent, `${b}ffn_gate_exps`, e).map((g, j) => unit(g, up[j]));
      return scale(linear(mid, `${b}ffn_down_exps`, e), weights[i]);
    });
    const added = parts.reduce(add);
    const sum = latent === x ? added : linear(added, `${b}ffn_latent_up`);
    if (!optional(`${b}ffn_up_shexp.weight`)) return sum;
    const sharedUp = linear(x, `${b}ffn_up_shexp`);
    const shared = linear(
      plain ? sharedUp.map(plain) : linear(x, `${b}ffn_gate_shexp`).map((g, j) => silu(g) * sharedUp[j]),
      `${b}ffn_down_shexp`,
    );
    const door = optional(`${b}ffn_gate_inp_shexp.weight`) ? linear(x, `${b}ffn_gate_inp_shexp`)[0] : Infinity;
    return add(sum, scale(shared, 1 / (1 + Math.exp(-door))));
  }
  /** Feed-forward of one token. `states`: x before its norm, read by PowerInfer's predictors. */
  function feedForward(x: Vec, b: string, layerInput: Vec, states = layerInput): Vec {
    if (optional(`${b}ffn_gate_inp.weight`)) return mixture(x, arch === 'smallthinker' ? layerInput : x, b);
    const up = linear(x, `${b}ffn_up`);
    // PowerInfer's layers have ReLU. Some store a row of the last product per neuron, and
    // predictors select the neurons whose score reaches the threshold.
    const least = gguf.meta.get('powerinfer.sparse_threshold') as number | undefined;
    const hot = (gguf.meta.get('quantlet.sparse.hot_neurons') as number | undefined) ?? 0;
    const down = optional(`${b}ffn_down_t.weight`) && rows(`${b}ffn_down_t.weight`);
    if (least !== undefined || down || arch === 'bamboo' || arch === 'opt') {
      const predicted = optional(`${b}fc1.weight`) && linear(linear(states, `${b}fc1`).map(relu), `${b}fc2`);
      const gate = optional(`${b}ffn_gate.weight`) && linear(x, `${b}ffn_gate`);
      const h = up.map((u, i) => {
        if (predicted && i >= hot && !(predicted[i] >= (least ?? 0))) return 0;
        return gate ? relu(gate[i]) * (arch === 'bamboo' ? relu(u) : u) : relu(u);
      });
      if (!down) return linear(h, `${b}ffn_down`);
      return h.reduce((sum, v, i) => sum.map((y, j) => y + v * down[i][j]), vector(`${b}ffn_down_t.bias`) ?? new Float64Array(n_embd));
    }
    if (arch === 'apertus') return linear(xielu(up, Number(b.split('.')[1])), `${b}ffn_down`);
    if (isNemotron) return linear(up.map(reluSqr), `${b}ffn_down`);
    const gate = optional(`${b}ffn_gate.weight`) && linear(x, `${b}ffn_gate`);
    const mid = gate
      ? gate.map((g, i) => act(g) * up[i])
      : up.length === 2 * n_ff
        ? up.slice(0, n_ff).map((g, i) => act(g) * up[n_ff + i])
        : up.map(isT5 ? (v) => Math.max(0, v) : act);
    return linear(is.subNorms ? norm(mid, `${b}ffn_sub_norm`) : mid, `${b}ffn_down`);
  }

  const n_per_layer = num('embedding_length_per_layer_input', 0);
  let perLayer: Vec[] | undefined;
  function xielu(x: Vec, il: number): Vec {
    const [an, ap, beta, eps] = ['alpha_n', 'alpha_p', 'beta', 'eps'].map((k) => (gguf.meta.get(`xielu.${k}`) as number[])[il]);
    const softplus = (v: number) => Math.log(1 + Math.exp(v));
    return x.map((v) => beta * v + (v > 0 ? softplus(ap) * v * v : (beta + softplus(an)) * (Math.exp(Math.min(v, eps)) - 1 - v)));
  }

  function decoderLayer(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    const before = (x: Vec, name: string) => (is.bareNorms || (optional(`${name}.weight`) ?? optional(name)) ? norm(x, name) : x);
    const ns = xs.map((x) => before(x, `${b}attn_norm`));
    const residual = isGranite ? num('residual_scale', 1) || 1 : 1;
    const post = (x: Vec, name: string) => scale(is.bareNorms ? x : before(x, name), residual);
    /** gemma4: adds the token's embedding of this layer, then multiplies by the layer's factor. */
    const behind = (x: Vec, i: number) => {
      if (!perLayer) return x;
      const inp = perLayer[i].subarray(il * n_per_layer, (il + 1) * n_per_layer);
      const gated = linear(x, `${b}inp_gate`).map((v, j) => gelu(v) * inp[j]);
      return scale(add(x, norm(linear(gated, `${b}proj`), `${b}post_norm`)), vector(`${b}layer_output_scale.weight`)?.[0] ?? 1);
    };
    const mixer = mixerOf({ linear, rows, vector, num, raw, rms: (x, w) => normed(x, 'rms', w), eps }, (name) => gguf.tensors.has(name), b);
    const mixed = mixer?.(ns);
    const attend = optional(`${b}attn_kv_a_mqa.weight`) ? latentAttention : attention;
    if (isNemotron) {
      const branch = mixed ?? (optional(`${b}attn_q.weight`) ? attention(ns, il, n_ctx) : ns.map((n) => feedForward(n, b, n)));
      return branch.map((o, i) => add(xs[i], o));
    }
    // Falcon 40B has a second norm for attention
    const seen = optional(`${b}attn_norm_2.weight`) ? xs.map((x) => norm(x, `${b}attn_norm_2`)) : ns;
    const attended = mixed && !optional(`${b}attn_q.weight`) ? mixed : attend(seen, il, n_ctx);
    return attended.map((a, i) => {
      const o = mixed && mixed !== attended ? add(a, mixed[i]) : a;
      if (n_ff === 0) return add(xs[i], o);
      if (arch === 'seed_oss' || arch.startsWith('qwen35') || arch === 'qwen3next' || arch === 'gpt-oss') {
        const x = add(xs[i], o);
        return add(x, feedForward(norm(x, `${b}post_attention_norm`), b, xs[i]));
      }
      let x = add(xs[i], post(o, `${b}post_attention_norm`));
      if (isT5 && half === 'dec') x = add(x, lookBack(norm(x, `${b}cross_attn_norm`), `${b}cross_attn_`));
      const parallel = is.parallel || (arch === 'stablelm' && !optional(`${b}ffn_norm.weight`));
      const n = parallel ? ns[i] : before(x, `${b}ffn_norm`);
      return behind(add(x, post(feedForward(n, b, xs[i], parallel ? xs[i] : x), `${b}post_ffw_norm`)), i);
    });
  }
  /** gemma3n: a layer over the four states of each token. */
  function altupLayer(all: Vec[][], il: number, n_ctx: number): Vec[][] {
    const b = `blk.${il}.`;
    const modalities = (x: Vec) => linear(scale(norm(x, `${b}altup_router_norm`), 1 / n_embd), `${b}altup_router`).map(Math.tanh);
    const predicted = all.map((states) => {
      const by = linear(modalities(states[0]), `${b}altup_predict_coef`);
      return states.map((own, j) => states.reduce((sum, s, k) => add(sum, scale(s, by[4 * j + k])), own));
    });
    const ns = predicted.map(([first]) => norm(first, `${b}attn_norm`));
    return attention(ns, il, n_ctx).map((o, t) => {
      const [first] = predicted[t];
      const laurel = add(norm(linear(linear(ns[t], `${b}laurel_l`), `${b}laurel_r`), `${b}laurel_post_norm`), ns[t]);
      const x = scale(add(add(norm(o, `${b}post_attention_norm`), first), laurel), Math.SQRT1_2);
      const n = norm(x, `${b}ffn_norm`);
      const gates = linear(n, `${b}ffn_gate`);
      const centre = gates.reduce((p, q) => p + q) / gates.length;
      const deviation = Math.sqrt(gates.reduce((p, q) => p + (q - centre) ** 2, 0) / (gates.length - 1));
      const open = il < 10 ? gates.map((v) => Math.max(0, v - (centre + deviation * 1.6448533535003662))) : gates;
      const up = linear(n, `${b}ffn_up`);
      const down = linear(
        open.map((v, i) => gelu(v) * up[i]),
        `${b}ffn_down`,
      );
      const result = add(norm(down, `${b}post_ffw_norm`), x);
      const by = linear(modalities(result), `${b}altup_correct_coef`);
      const corrected = predicted[t].map((p, j) => add(p, scale(add(result, scale(first, -1)), by[j] + 1)));
      const inp = perLayer![t].subarray(il * n_per_layer, (il + 1) * n_per_layer);
      const scaled = corrected[0].map((v, i) => v * rows(`${b}altup_correct_scale.weight`)[0][i]);
      const more = norm(linear(linear(scaled, `${b}inp_gate`).map((v, i) => gelu(v) * inp[i]), `${b}proj`), `${b}post_norm`); // prettier-ignore
      return corrected.map((c, j) => (j ? add(c, more) : c));
    });
  }
  /**
   * gemma3n: expands each token to four states of equal length (one, and one per matrix), and
   * reduces them to one at the end.
   */
  function altup(xs: Vec[], n_ctx: number): Vec[] {
    const asLarge = (x: Vec, like: Vec) => scale(x, Math.hypot(...like) / Math.hypot(...x));
    let all = xs.map((x) => [x, ...[0, 1, 2].map((e) => asLarge(linear(x, 'altup_proj', e), x))]);
    for (let il = 0; il < n_layer; il++) all = altupLayer(all, il, n_ctx);
    return all.map(([x, ...others]) => scale(others.map((o, e) => asLarge(linear(o, 'altup_unembd_proj', e), x)).reduce(add, x), 1 / 4));
  }
  function encoderLayer(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    return attention(xs, il, n_ctx).map((o, i) => {
      let x = norm(add(o, xs[i]), `${b}attn_output_norm`);
      if (optional(`${b}attn_norm_2.weight`)) x = norm(add(x, xs[i]), `${b}attn_norm_2`);
      return norm(add(feedForward(x, b, x), x), `${b}layer_output_norm`);
    });
  }

  /**
   * Hidden states of all positions after the last norm. n_ctx selects phi3's long or short rope
   * factors.
   */
  function hidden(ids: readonly number[], n_ctx: number): Vec[] {
    const table = rows('token_embd.weight');
    const types = vector('token_types.weight');
    const positions = (is.encoder && arch === 'bert') || arch === 'opt' ? rows('position_embd.weight') : undefined;
    const factor = is.scaled ? Math.sqrt(n_embd) : (isGranite && num('embedding_scale', 0)) || 1;
    let xs = ids.map((id, pos) => {
      let x = scale(table[id], factor);
      if (types) x = add(x, types);
      if (positions) x = add(x, positions[arch === 'opt' ? pos + 2 : pos]);
      return optional('token_embd_norm.weight') && !arch.startsWith('lfm2') ? norm(x, 'token_embd_norm') : x;
    });
    if (n_per_layer > 0) {
      const own = rows('per_layer_token_embd.weight');
      perLayer = xs.map((x, pos) => {
        const projected = scale(linear(x, 'per_layer_model_proj'), 1 / Math.sqrt(n_embd));
        const out = new Float64Array(projected.length);
        for (let at = 0; at < out.length; at += n_per_layer)
          out.set(norm(projected.subarray(at, at + n_per_layer), 'per_layer_proj_norm'), at);
        return out.map((v, i) => (v + own[ids[pos]][i] * Math.sqrt(n_per_layer)) / Math.SQRT2);
      });
    }
    if (arch === 'gemma3n') xs = altup(xs, n_ctx);
    else
      for (let il = 0; il < (half === 'dec' ? num('decoder_block_count', n_layer) : n_layer); il++)
        xs = is.encoder ? encoderLayer(xs, il, n_ctx) : decoderLayer(xs, il, n_ctx);
    return is.encoder ? xs : xs.map((x) => norm(x, OUTPUT_NORMS[arch] ?? 'output_norm'));
  }
  function writes(prompt: readonly number[], written: readonly number[], n_ctx: number): Vec[] {
    half = 'enc';
    read = hidden(prompt, n_ctx);
    half = 'dec';
    return hidden([num('decoder_start_token_id', 0), ...written], n_ctx);
  }
  /**
   * Logits of every position. Models with an encoder read ids, and the decoder gets its start token
   * and the ids `written`.
   */
  function logits(ids: readonly number[], n_ctx: number, written = ids): Vec[] {
    const tied = !optional('output.weight');
    const divisor = isGranite ? num('logit_scale', 1) : 1 / num('logit_scale', 1);
    const bias = tied && vector('output.bias');
    return (arch === 't5' ? writes(ids, written, n_ctx) : hidden(ids, n_ctx)).map((x) =>
      linear(x, tied ? 'token_embd' : 'output').map((v, i) => softCap((v + (bias ? bias[i] : 0)) / divisor, finalCap)),
    );
  }
  /** The pooled vector, normalised to length one; for 'rank' the scores of the head. */
  function embed(ids: readonly number[], n_ctx: number, pooling: Pooling): Vec {
    const xs = hidden(ids, n_ctx);
    const last = pooling === 'last' || (pooling === 'rank' && arch === 'qwen3');
    let x = pooling === 'mean' ? scale(xs.reduce(add), 1 / xs.length) : xs[last ? xs.length - 1 : 0];
    for (const name of pooling === 'rank' ? [] : ['dense_2', 'dense_3']) if (optional(`${name}.weight`)) x = linear(x, name);
    if (pooling !== 'rank') return scale(x, 1 / Math.hypot(...x));
    if (optional('cls.weight')) x = linear(x, 'cls').map(Math.tanh);
    if (optional('cls.output.weight')) x = linear(x, 'cls.output');
    if (arch !== 'qwen3') return x;
    const e = x.map((v) => Math.exp(v - Math.max(...x)));
    return scale(e, 1 / e.reduce((a, v) => a + v, 0));
  }
  /** Number of tokens routed to each expert, by layer. */
  function expertUse(ids: readonly number[], n_ctx: number): number[][] {
    const layers = new Map<string, number[]>();
    told = (layer, chosen, of) => {
      const counts = layers.get(layer) ?? new Array<number>(of).fill(0);
      layers.set(layer, counts);
      for (const e of chosen) counts[e]++;
    };
    hidden(ids, n_ctx);
    told = undefined;
    return [...layers.values()];
  }
  return { hidden, logits, embed, expertUse };
}
