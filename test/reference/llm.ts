// Every supported architecture in one slow scalar function: f64, one position after the other, no cache. It is the specification that
// src/arch/ is tested against, and is itself tested against native llama.cpp (test/golden/arch). Rounding that ggml does on purpose is kept:
// activations take the weights' vec_dot_type (f16, q8_0) before a product, and gelu goes through a table of f16 values.
import { roundHalf } from './gguf.ts';
import { mixerOf } from './mixers.ts';
import type { MetaValue, RefGguf, RefTensor } from './gguf.ts';

type Vec = Float64Array;
export type Pooling = 'mean' | 'cls' | 'last' | 'rank';

/** What the name of an architecture decides; everything else is in metadata, or in which tensors exist. */
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
  /** windows: the last (or first) of so many layers sees everything, unless the file has a pattern; their size where the file has none */
  readonly windows?: { readonly pattern: number; readonly size?: number; readonly first?: boolean; readonly around?: boolean };
  /** layers that see everything have no rope */
  readonly ropeless_globally?: boolean;
  /** local layers: rope without scaling, with this base where the file has none */
  readonly local?: { readonly base?: number; readonly plain?: boolean };
  /** q and k turn before their norms */
  readonly turnsFirst?: boolean;
  /** the pairs of M-RoPE's sections come by turns */
  readonly interleaved?: boolean;
  /** attention and feed-forward read the same states */
  readonly parallel?: boolean;
}
const traits: Record<string, Traits> = {
  lfm2: { rope: 'neox' },
  mamba: {},
  mamba2: {},
  qwen35: { rope: 'neox', interleaved: true },
  granitehybrid: { rope: 'norm' },
  'falcon-h1': { rope: 'neox' },
  llama: { rope: 'norm' },
  internlm2: { rope: 'norm' },
  ernie4_5: { rope: 'norm' },
  mistral3: { rope: 'norm' },
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
  granite: { rope: 'norm' },
  qwen2: { rope: 'neox' },
  qwen3: { rope: 'neox' },
  phi3: { rope: 'neox' },
  stablelm: { rope: 'neox' },
  bitnet: { rope: 'neox', subNorms: true },
  starcoder2: { rope: 'neox', gelu: true },
  gemma2: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 2, size: 4096 } },
  gemma3: { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 6 }, local: { base: 10000, plain: true } },
  'gemma-embedding': { rope: 'neox', gelu: true, scaled: true, windows: { pattern: 6, around: true }, local: { base: 10000, plain: true } },
  'modern-bert': { rope: 'neox', gelu: true, windows: { pattern: 3, first: true, around: true }, local: { base: 10000, plain: true } },
  'neo-bert': { rope: 'norm' },
  eurobert: { rope: 'neox' },
  bert: { encoder: true, gelu: true },
  'nomic-bert': { encoder: true, rope: 'neox' },
  'jina-bert-v2': { encoder: true, gelu: true, alibi: 8 },
  'jina-bert-v3': { encoder: true, rope: 'neox', gelu: true },
};

/** Norms behind the last layer by other names. */
const OUTPUT_NORMS: Record<string, string> = { 'neo-bert': 'enc.output_norm', lfm2: 'token_embd_norm' };

const silu = (x: number) => x / (1 + Math.exp(-x));
const gelu = (v: number) => {
  if (Math.abs(v) >= 10) return v < 0 ? 0 : v;
  const x = roundHalf(v);
  return roundHalf(0.5 * x * (1 + Math.tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x))));
};
const add = (a: Vec, b: Vec) => a.map((x, i) => x + b[i]);
const scale = (a: Vec, s: number) => a.map((x) => x * s);
const softCap = (x: number, cap: number) => (cap ? cap * Math.tanh(x / cap) : x);

/** As ggml stores activations beside a weight of this type. */
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

/** A model ready to be asked. Tensors are dequantised when first used. */
export function reference(gguf: RefGguf) {
  const cache = new Map<RefTensor, Vec[]>();
  const rowsOf = (t: RefTensor) => {
    const known = cache.get(t) ?? Array.from({ length: t.ne[1] ?? 1 }, (_, i) => t.row(i));
    cache.set(t, known);
    return known;
  };
  const optional = (name: string) => gguf.tensors.get(name);
  const rows = (name: string) => {
    const t = optional(name);
    if (!t) throw new Error(`no tensor ${name}`);
    return rowsOf(t);
  };
  const vector = (name: string) => {
    const t = optional(name);
    return t && rowsOf(t)[0];
  };
  const arch = gguf.meta.get('general.architecture') as string;
  const is = traits[arch];
  if (!is) throw new Error(`no reference for ${arch}`);
  const raw = (key: string): MetaValue | undefined => gguf.meta.get(`${arch}.${key}`);
  const num = (key: string, otherwise: number) => (raw(key) as number | undefined) ?? otherwise;

  const n_embd = num('embedding_length', 0);
  const n_layer = num('block_count', 0);
  const n_head = num('attention.head_count', 0);
  const headsKv = raw('attention.head_count_kv') ?? n_head;
  const n_head_kv =
    Array.isArray(headsKv) || ArrayBuffer.isView(headsKv) ? Math.max(...(headsKv as ArrayLike<number> as number[])) : (headsKv as number);
  const head = num('attention.key_length', n_embd / n_head);
  const n_rot = num('rope.dimension_count', head);
  const n_ff = num('feed_forward_length', 0);
  const eps = num('attention.layer_norm_rms_epsilon', num('attention.layer_norm_epsilon', 0));
  const rms = raw('attention.layer_norm_rms_epsilon') !== undefined;
  const causal = (raw('attention.causal') as boolean | undefined) ?? true;
  const act = is.gelu ? gelu : silu;
  const attnCap = arch === 'gemma2' ? num('attn_logit_softcapping', 50) : 0;
  const finalCap = num('final_logit_softcapping', arch === 'gemma2' ? 30 : 0);
  // the two 27B models of the gemma family scale by the width per head instead of the head's own size
  const wide = (arch === 'gemma2' && n_layer === 46) || (arch === 'gemma3' && n_layer === 62);
  const attnScale = (arch.startsWith('granite') && num('attention.scale', 0)) || 1 / Math.sqrt(wide ? n_embd / n_head : head);

  // llama and phi3 files may carry the key, and native ignores it.
  const window = is.windows ? num('attention.sliding_window', is.windows.size ?? 0) : 0;
  const pattern = raw('attention.sliding_window_pattern') ?? is.windows?.pattern;
  const isGlobal = (il: number) =>
    Array.isArray(pattern) ? !pattern[il] : pattern !== 0 && il % (pattern as number) === (is.windows?.first ? 0 : (pattern as number) - 1);
  const isNear = (back: number) => (is.windows?.around ? Math.abs(back) <= Math.floor(window / 2) : back < window);
  const isSwa = (il: number) => window > 0 && !isGlobal(il);

  /** cos and sin of each pair at one position. */
  function angles(pos: number, il: number, n_ctx: number): [number, number][] {
    const type = raw('rope.scaling.type') ?? 'linear';
    const orig = num('rope.scaling.original_context_length', num('context_length', 0));
    const factor = type === 'none' ? 1 : num('rope.scaling.factor', num('rope.scale_linear', 0)) || 1;
    const trained = num('rope.freq_base', 10000);
    const local = isSwa(il);
    const base = local && arch !== 'olmo2' && arch !== 'cohere2' ? num('rope.freq_base_swa', is.local?.base ?? trained) : trained;
    const freqScale = local && is.local?.plain ? 1 : 1 / factor;
    const factors = vector('rope_freqs.weight') ?? vector(n_ctx > orig ? 'rope_factors_long.weight' : 'rope_factors_short.weight');
    const yarn = type === 'yarn';
    const dim = (turns: number) => (n_rot * Math.log(orig / (turns * 2 * Math.PI))) / (2 * Math.log(base));
    const mix = arch === 'olmo2' && local ? 0 : num('rope.scaling.yarn_ext_factor', yarn ? 1 : 0);
    const low = Math.max(0, Math.floor(dim(num('rope.scaling.yarn_beta_fast', 32))));
    const high = Math.min(n_rot - 1, Math.ceil(dim(num('rope.scaling.yarn_beta_slow', 1))));
    // llama_context and rope_yarn together: the logarithm where the context grows, the factor of the file where nothing is mixed
    const logMul = num('rope.scaling.yarn_log_multiplier', 0);
    const magnitude = (m: number) => 1 + 0.1 * m * Math.log(Math.max(1, factor));
    const grown = mix === 0 ? num('rope.scaling.yarn_attn_factor', 1) : magnitude(1) / magnitude(logMul);
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
  /** M-RoPE: whether a pair turns by time, height or width, which are all a token's position; the fourth is 0. */
  function isText(pair: number, [t, h, w, e]: number[]): boolean {
    const at = pair % (t + h + w + e);
    if (!is.interleaved) return at < t + h + w;
    return (at % 3 === 0 && at < 3 * t) || (at % 3 === 1 && at < 3 * h) || (at % 3 === 2 && at < 3 * w);
  }
  function rope(x: Vec, pairs: [number, number][]): Vec {
    const out = x.slice();
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
    normed(x, rms ? 'rms' : 'layer', vector(name) ?? rows(`${name}.weight`)[0], vector(`${name}.bias`));
  function linear(x: Vec, name: string): Vec {
    const t = optional(`${name}.weight`)!;
    const y = toVecDotType(x, t?.type ?? 0);
    const bias = vector(`${name}.bias`);
    const scale = vector(`${name}.scale`)?.[0] ?? 1;
    return Float64Array.from(rows(`${name}.weight`), (w, i) => w.reduce((a, v, j) => a + v * y[j], 0) * scale + (bias ? bias[i] : 0));
  }
  /** q/k norms: one weight row for all heads (qwen3, gemma3: rms), one row a head (stablelm), or the whole vector with bias (jina-bert-v2). */
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

  function attention(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    const nq = n_head * head;
    const nk = n_head_kv * head;
    const roped =
      is.rope &&
      !(is.ropeless_globally && !isSwa(il)) &&
      !(is.ropeless && (il + 1) % is.ropeless === 0) &&
      (!arch.startsWith('granite') || raw('rope.scaling.finetuned') !== false);
    const qkv = xs.map((x, pos) => {
      const all = optional(`${b}attn_qkv.weight`) && linear(x, `${b}attn_qkv`);
      const [q, k, v] = all
        ? [all.slice(0, nq), all.slice(nq, nq + nk), all.slice(nq + nk)]
        : ['q', 'k', 'v'].map((t) => linear(x, `${b}attn_${t}`));
      // a gate behind each head's query
      const gated = q.length === 2 * nq;
      const half = (from: number) => Float64Array.from({ length: nq }, (_, i) => q[2 * head * Math.floor(i / head) + from + (i % head)]);
      const turn = (t: Vec) => (roped ? rope(t, angles(pos, il, n_ctx)) : t);
      const ready = (t: Vec, name: string) => (is.turnsFirst ? headNorm(turn(t), b + name) : turn(headNorm(t, b + name)));
      const heat = num('attention.temperature_scale', 0) * Math.log(Math.floor(pos / num('rope.scaling.original_context_length', 1)) + 1);
      return {
        gate: gated ? half(head) : undefined,
        q: scale(ready(gated ? half(0) : q, 'attn_q_norm'), arch === 'mistral3' ? 1 + heat : 1),
        k: ready(k, 'attn_k_norm'),
        v,
      };
    });
    return qkv.map(({ q, gate }, pos) => {
      const out = new Float64Array(nq);
      for (let h = 0; h < n_head; h++) {
        const g = Math.floor(h / (n_head / n_head_kv)) * head;
        const slope = is.alibi ? alibi(h) : 0;
        const scores = qkv.map(({ k }, other) => {
          if ((causal && other > pos) || (isSwa(il) && !isNear(pos - other))) return -Infinity;
          let dot = 0;
          for (let i = 0; i < head; i++) dot += q[h * head + i] * k[g + i];
          return softCap(dot * attnScale, attnCap) - slope * Math.abs(pos - other);
        });
        const top = Math.max(...scores);
        const e = scores.map((s) => Math.exp(s - top));
        const sum = e.reduce((a, v) => a + v, 0);
        e.forEach((p, other) => {
          for (let i = 0; i < head; i++) out[h * head + i] += (p / sum) * qkv[other].v[g + i];
        });
      }
      const open = gate ? out.map((v, i) => v / (1 + Math.exp(-gate[i]))) : out;
      return linear(is.subNorms ? norm(open, `${b}attn_sub_norm`) : open, `${b}attn_output`);
    });
  }
  function alibi(h: number): number {
    const n = 2 ** Math.floor(Math.log2(n_head));
    return h < n ? 2 ** ((-is.alibi! / n) * (h + 1)) : 2 ** ((-is.alibi! / 2 / n) * (2 * (h - n) + 1));
  }
  function feedForward(x: Vec, b: string): Vec {
    const up = linear(x, `${b}ffn_up`);
    if (arch === 'apertus') return linear(xielu(up, Number(b.split('.')[1])), `${b}ffn_down`);
    const gate = optional(`${b}ffn_gate.weight`) && linear(x, `${b}ffn_gate`);
    const mid = gate
      ? gate.map((g, i) => act(g) * up[i])
      : up.length === 2 * n_ff
        ? up.slice(0, n_ff).map((g, i) => act(g) * up[n_ff + i])
        : up.map(act);
    return linear(is.subNorms ? norm(mid, `${b}ffn_sub_norm`) : mid, `${b}ffn_down`);
  }

  function xielu(x: Vec, il: number): Vec {
    const [an, ap, beta, eps] = ['alpha_n', 'alpha_p', 'beta', 'eps'].map((k) => (gguf.meta.get(`xielu.${k}`) as number[])[il]);
    const softplus = (v: number) => Math.log(1 + Math.exp(v));
    return x.map((v) => beta * v + (v > 0 ? softplus(ap) * v * v : (beta + softplus(an)) * (Math.exp(Math.min(v, eps)) - 1 - v)));
  }

  function decoderLayer(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    const before = (x: Vec, name: string) => ((optional(`${name}.weight`) ?? optional(name)) ? norm(x, name) : x);
    const ns = xs.map((x) => before(x, `${b}attn_norm`));
    const residual = arch.startsWith('granite') ? num('residual_scale', 1) || 1 : 1;
    const post = (x: Vec, name: string) => scale(before(x, name), residual);
    const mixer = mixerOf({ linear, rows, vector, num, raw, rms: (x, w) => normed(x, 'rms', w), eps }, (name) => gguf.tensors.has(name), b);
    const mixed = mixer?.(ns);
    const attended = mixed && !optional(`${b}attn_q.weight`) ? mixed : attention(ns, il, n_ctx);
    return attended.map((a, i) => {
      const o = mixed && mixed !== attended ? add(a, mixed[i]) : a;
      if (n_ff === 0) return add(xs[i], o);
      if (arch === 'seed_oss' || arch === 'qwen35') {
        const x = add(xs[i], o);
        return add(x, feedForward(norm(x, `${b}post_attention_norm`), b));
      }
      const x = add(xs[i], post(o, `${b}post_attention_norm`));
      const parallel = is.parallel || (arch === 'stablelm' && !optional(`${b}ffn_norm.weight`));
      const n = parallel ? ns[i] : before(x, `${b}ffn_norm`);
      return add(x, post(feedForward(n, b), `${b}post_ffw_norm`));
    });
  }
  function encoderLayer(xs: Vec[], il: number, n_ctx: number): Vec[] {
    const b = `blk.${il}.`;
    return attention(xs, il, n_ctx).map((o, i) => {
      let x = norm(add(o, xs[i]), `${b}attn_output_norm`);
      if (optional(`${b}attn_norm_2.weight`)) x = norm(add(x, xs[i]), `${b}attn_norm_2`);
      return norm(add(feedForward(x, b), x), `${b}layer_output_norm`);
    });
  }

  /** Hidden states of all positions behind the last norm. n_ctx decides between phi3's long and short rope factors. */
  function hidden(ids: readonly number[], n_ctx: number): Vec[] {
    const table = rows('token_embd.weight');
    const types = vector('token_types.weight');
    const positions = is.encoder && arch === 'bert' ? rows('position_embd.weight') : undefined;
    const factor = is.scaled ? Math.sqrt(n_embd) : (arch.startsWith('granite') && num('embedding_scale', 0)) || 1;
    let xs = ids.map((id, pos) => {
      let x = scale(table[id], factor);
      if (types) x = add(x, types);
      if (positions) x = add(x, positions[pos]);
      return optional('token_embd_norm.weight') && arch !== 'lfm2' ? norm(x, 'token_embd_norm') : x;
    });
    for (let il = 0; il < n_layer; il++) xs = is.encoder ? encoderLayer(xs, il, n_ctx) : decoderLayer(xs, il, n_ctx);
    return is.encoder ? xs : xs.map((x) => norm(x, OUTPUT_NORMS[arch] ?? 'output_norm'));
  }
  /** Logits of every position. */
  function logits(ids: readonly number[], n_ctx: number): Vec[] {
    const tied = !optional('output.weight');
    const divisor = arch.startsWith('granite') ? num('logit_scale', 1) : 1 / num('logit_scale', 1);
    const bias = tied && vector('output.bias');
    return hidden(ids, n_ctx).map((x) =>
      linear(x, tied ? 'token_embd' : 'output').map((v, i) => softCap((v + (bias ? bias[i] : 0)) / divisor, finalCap)),
    );
  }
  /** The pooled vector of length one; for 'rank' the scores of the head. */
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
  return { hidden, logits, embed };
}
