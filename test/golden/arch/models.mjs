// Metadata and tensors of every golden model, by name. They are small enough to commit and shaped
// so that each rule of their architecture changes the numbers.
import { normal } from './gguf.mjs';

const words = ['▁', 'e', 't', 'a', 'h', 's', 'c', '▁t', 'he', '▁the', '▁a', 'at', '▁s'];
const spm = {
  'tokenizer.ggml.model': ['str', 'llama'],
  'tokenizer.ggml.pre': ['str', 'default'],
  'tokenizer.ggml.tokens': [
    'str',
    ['<unk>', '<s>', '</s>', ...Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`), ...words],
  ],
  'tokenizer.ggml.scores': ['f32', [...new Array(259).fill(0), ...words.map((_, i) => i - 13)]],
  'tokenizer.ggml.token_type': ['i32', [2, 3, 3, ...new Array(256).fill(6), ...words.map(() => 1)]],
  'tokenizer.ggml.bos_token_id': ['u32', 1],
  'tokenizer.ggml.eos_token_id': ['u32', 2],
  'tokenizer.ggml.unknown_token_id': ['u32', 0],
  'tokenizer.ggml.add_bos_token': ['bool', true],
  'tokenizer.ggml.add_eos_token': ['bool', false],
};
const pieces = ['the', 'cat', 'hat', 'sat', 'on', 'a', 'mat', 'and', 'ran', 'to', 'see', 'red', 'sun', '.', ',', '?'];
const tails = ['s', 'ed', 'ing', 'er', 'ly', 'c', 'h', 'm', 'r', 't', 'n'];
const wordpiece = {
  'tokenizer.ggml.model': ['str', 'bert'],
  'tokenizer.ggml.pre': ['str', 'default'],
  'tokenizer.ggml.token_type_count': ['u32', 2],
  'tokenizer.ggml.tokens': ['str', ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...pieces.map((p) => '▁' + p), ...tails]],
  'tokenizer.ggml.token_type': ['i32', [3, 2, 3, 3, 3, ...pieces.map(() => 1), ...tails.map(() => 1)]],
  'tokenizer.ggml.padding_token_id': ['u32', 0],
  'tokenizer.ggml.unknown_token_id': ['u32', 1],
  'tokenizer.ggml.bos_token_id': ['u32', 2],
  'tokenizer.ggml.cls_token_id': ['u32', 2],
  'tokenizer.ggml.eos_token_id': ['u32', 3],
  'tokenizer.ggml.seperator_token_id': ['u32', 3],
  'tokenizer.ggml.mask_token_id': ['u32', 4],
};
const unigram = {
  // XLM-RoBERTa's order of special tokens
  'tokenizer.ggml.model': ['str', 't5'],
  'tokenizer.ggml.pre': ['str', 'default'],
  'tokenizer.ggml.token_type_count': ['u32', 1],
  'tokenizer.ggml.tokens': ['str', ['<s>', '<pad>', '</s>', '<unk>', '▁', ...pieces.map((p) => '▁' + p), ...tails]],
  'tokenizer.ggml.scores': ['f32', [0, 0, 0, 0, -3, ...pieces.map((_, i) => -4 - i / 8), ...tails.map((_, i) => -7 - i / 8)]],
  'tokenizer.ggml.token_type': ['i32', [3, 3, 3, 2, 1, ...pieces.map(() => 1), ...tails.map(() => 1)]],
  'tokenizer.ggml.bos_token_id': ['u32', 0],
  'tokenizer.ggml.padding_token_id': ['u32', 1],
  'tokenizer.ggml.eos_token_id': ['u32', 2],
  'tokenizer.ggml.seperator_token_id': ['u32', 2],
  'tokenizer.ggml.unknown_token_id': ['u32', 3],
  'tokenizer.ggml.add_bos_token': ['bool', true],
  'tokenizer.ggml.add_eos_token': ['bool', true],
  'tokenizer.ggml.add_space_prefix': ['bool', true],
};

/**
 * Collects the tensors of a model. Matrices get `type`; vectors stay f32, as converters write them.
 */
function maker(seed, type) {
  const next = normal(seed);
  const tensors = [];
  const put = (name, ne, values, kind) =>
    tensors.push({ name, ne, type: kind, data: Array.from({ length: ne.reduce((a, b) => a * b) }, values) });
  return {
    tensors,
    /** W with random values, scaled so that y = W x has gain times the deviation of x */
    matrix: (name, inputs, outputs, gain = 1, kind = type) => put(name, [inputs, outputs], () => (next() * gain) / Math.sqrt(inputs), kind),
    /**
     * an embedding table; specials (ids below `quiet`) get small rows, so that greedy text never
     * ends early
     */
    table: (name, width, rows, deviation, quiet = 0, kind = type) =>
      put(name, [width, rows], (_, i) => next() * deviation * (i < quiet * width ? 0.1 : 1), kind),
    vector: (name, n, centre, deviation) => put(name, [n], () => centre + next() * deviation, 'f32'),
    /** any values, in the order of ne */
    tensor: (name, ne, value) => put(name, ne, () => value(next()), 'f32'),
    /** one matrix per expert */
    matrices: (name, inputs, outputs, count, gain = 1, kind = type) =>
      put(name, [inputs, outputs, count], () => (next() * gain) / Math.sqrt(inputs), kind),
    /** a router that selects some experts often and some rarely */
    router: (name, inputs, count) =>
      put(
        name,
        [inputs, count],
        (_, i) => (next() * (0.6 + (1.8 * ((5 * Math.floor(i / inputs)) % count)) / count)) / Math.sqrt(inputs),
        'f32',
      ),
    values: (name, list) => put(name, [list.length], (_, i) => list[i], 'f32'),
  };
}

const name = (arch, type, extra) => ({
  'general.architecture': ['str', arch],
  'general.name': ['str', 'golden model'],
  'general.file_type': ['u32', { f32: 0, f16: 1, q4_0: 2, q8_0: 7 }[type]],
  'general.quantization_version': ['u32', 2],
  ...extra,
});
const prefix = (arch, list) => Object.fromEntries(Object.entries(list).map(([k, v]) => [`${arch}.${k}`, v]));

/**
 * A causal model. Options: sizes; norm 'rms' | 'layer'; flags for biases, fused and optional
 * tensors. kv adds metadata, extra adds tensors.
 */
function decoder(arch, o) {
  const {
    type = 'f32',
    seed,
    n_embd = 32,
    n_layer = 2,
    n_head = 4,
    n_head_kv = 2,
    head = n_embd / n_head,
    n_ff = 40,
    layer: layered = false,
    mixture,
  } = o;
  const vocab = spm['tokenizer.ggml.tokens'][1].length;
  const m = maker(seed, type);
  const kv = name(arch, type, {
    ...prefix(arch, {
      context_length: ['u32', 512],
      embedding_length: ['u32', n_embd],
      block_count: ['u32', n_layer],
      feed_forward_length: ['u32', n_ff],
      'attention.head_count': ['u32', n_head],
      'attention.head_count_kv': ['u32', n_head_kv],
      ...(layered ? { 'attention.layer_norm_epsilon': ['f32', 1e-5] } : { 'attention.layer_norm_rms_epsilon': ['f32', 1e-5] }),
      ...(head === n_embd / n_head ? {} : { 'attention.key_length': ['u32', head], 'attention.value_length': ['u32', head] }),
      'rope.dimension_count': ['u32', head],
      'rope.freq_base': ['f32', 10000],
      ...(mixture ? { expert_count: ['u32', mixture.count], expert_used_count: ['u32', mixture.used] } : {}),
      ...o.kv,
    }),
    ...o.meta,
    ...spm,
  });
  /** Sizes of layer i, which o.ofLayer may override. */
  const ofLayer = (i) => {
    const { head: width = head, n_ff: wide = n_ff, keys = true } = o.ofLayer?.(i) ?? {};
    return { head: width, q: n_head * width, k: n_head_kv * width, n_ff: wide, keys };
  };
  const norm = (at, centre = 1, n = n_embd, bias = layered && !o.biasless) => {
    if (o.bareNorms) return;
    m.vector(`${at}.weight`, n, centre, 0.2 * centre);
    if (bias) m.vector(`${at}.bias`, n, 0, 0.2);
  };
  const linear = (at, i, out, bias, gain) => {
    m.matrix(`${at}.weight`, i, out, gain);
    if (bias) m.vector(`${at}.bias`, out, 0, 0.3);
  };
  // A tied table is small compared to what the blocks add; otherwise every token would predict
  // itself. The last norm restores the size of the logits.
  const embed = o.embed ?? (o.tied ? 0.2 : 1);
  m.table('token_embd.weight', n_embd, vocab, embed, o.tied ? 3 : 0);
  if (o.embedNorm) norm('token_embd_norm');
  for (let i = 0; i < n_layer; i++) {
    const b = `blk.${i}.`;
    const { head, q, k, n_ff, keys } = ofLayer(i);
    if (!o.behind && !(o.embedNorm && i === 0)) norm(b + 'attn_norm');
    if (o.attention) o.attention(m, b, norm);
    else if (o.fused) linear(b + 'attn_qkv', n_embd, q + 2 * k, o.qkvBias, 1.3);
    else
      for (const [t, out] of [
        ['q', q],
        ['k', k],
        ['v', k],
      ].slice(0, keys ? 3 : 1))
        linear(`${b}attn_${t}`, n_embd, out, o.qkvBias, t === 'v' ? 1.2 : (o.qkGain ?? 1.3));
    for (const t of o.qkNorm ? ['q', 'k'].slice(0, keys ? 2 : 1) : []) m.vector(`${b}attn_${t}_norm.weight`, head, o.qkCentre ?? 1.2, 0.2);
    if (o.sinks) m.vector(`${b}attn_sinks.weight`, n_head, 0.5, 1);
    if (o.wideNorm) m.vector(`${b}attn_q_norm.weight`, q, 1.2, 0.2);
    if (o.wideNorm) m.vector(`${b}attn_k_norm.weight`, k, 1.2, 0.2);
    for (const [t, h] of o.headNorm
      ? [
          ['q', n_head],
          ['k', n_head_kv],
        ]
      : []) {
      m.table(`${b}attn_${t}_norm.weight`, head, h, 0.2, 0, 'f32');
      m.tensors.at(-1).data = m.tensors.at(-1).data.map((v) => v + 1.2);
    }
    if (o.subNorm) norm(b + 'attn_sub_norm', 1, q);
    linear(b + 'attn_output', o.attended ?? q, n_embd, o.outBias);
    if (o.postNorm) norm(b + 'post_attention_norm', o.postCentre);
    if (!o.parallel && !o.behind) norm(b + (o.ffnNorm ?? 'ffn_norm'));
    if (mixture && i >= (o.dense ?? 0)) {
      experts(m, b, n_embd, mixture);
      continue;
    }
    if (o.gateless) linear(b + 'ffn_up', n_embd, n_ff, o.ffnBias, 1.3);
    else if (o.fused || o.fusedUp) linear(b + 'ffn_up', n_embd, 2 * n_ff, false, 1.3);
    else for (const t of ['gate', 'up']) linear(`${b}ffn_${t}`, n_embd, n_ff, o.ffnBias, 1.3);
    if (o.subNorm) norm(b + 'ffn_sub_norm', 1, n_ff);
    linear(b + 'ffn_down', n_ff, n_embd, o.ffnBias, 1.3);
    if (o.postNorm) norm(b + 'post_ffw_norm', o.postCentre);
    o.layerExtra?.(m, b);
  }
  norm(o.outputNorm ?? 'output_norm', o.tied ? 3 / embed / Math.sqrt(n_embd) : 1);
  if (!o.tied) m.table('output.weight', n_embd, vocab, 3 / Math.sqrt(n_embd), 3, type === 'q4_0' ? 'q8_0' : type);
  o.extra?.(m);
  return { kv, tensors: m.tensors };
}

/**
 * The experts of a layer. `count` experts have `width` neurons each, and a gate and biases if
 * `gate` and `bias` are set. `probsBias`: deviation of the biases that change only the selection.
 * `shared`: width of the shared expert (0: none), with a gate if `sharedGate`. `latent`: dimensions
 * that experts work on, if not n_embd. `kind`: type of the matrices.
 */
function experts(m, b, n_embd, { count, width, gate = true, bias = false, probsBias = 0, shared = 0, sharedGate = false, latent, kind }) {
  m.router(b + 'ffn_gate_inp.weight', n_embd, count);
  if (probsBias) m.vector(b + 'exp_probs_b.bias', count, 0, probsBias);
  const n_in = latent ?? n_embd;
  if (latent) m.matrix(b + 'ffn_latent_down.weight', n_embd, latent, 1.3);
  if (latent) m.matrix(b + 'ffn_latent_up.weight', latent, n_embd);
  if (bias) m.vector(b + 'ffn_gate_inp.bias', count, 0, 0.5);
  for (const t of gate ? ['gate', 'up'] : ['up']) m.matrices(`${b}ffn_${t}_exps.weight`, n_in, width, count, 1.5, kind);
  m.matrices(b + 'ffn_down_exps.weight', width, n_in, count, 2, kind);
  for (const [t, n] of bias
    ? [
        ['gate', width],
        ['up', width],
        ['down', n_embd],
      ]
    : [])
    m.table(`${b}ffn_${t}_exps.bias`, n, count, 0.4, 0, 'f32');
  if (!shared) return;
  for (const t of gate ? ['gate', 'up'] : ['up']) m.matrix(`${b}ffn_${t}_shexp.weight`, n_embd, shared, 1.3);
  m.matrix(b + 'ffn_down_shexp.weight', shared, n_embd);
  if (sharedGate) m.vector(b + 'ffn_gate_inp_shexp.weight', n_embd, 0, 0.4);
}

/** A bidirectional encoder of the BERT family. */
function encoder(arch, o) {
  const { type = 'f32', seed, tokenizer = wordpiece, n_embd = 32, n_layer = 2, n_head = 4, n_ff = 64 } = o;
  const vocab = tokenizer['tokenizer.ggml.tokens'][1].length;
  const m = maker(seed, type);
  const context = 64;
  const kv = name(arch, type, {
    ...prefix(arch, {
      context_length: ['u32', context],
      embedding_length: ['u32', n_embd],
      block_count: ['u32', n_layer],
      feed_forward_length: ['u32', n_ff],
      'attention.head_count': ['u32', n_head],
      'attention.layer_norm_epsilon': ['f32', 1e-12],
      'attention.causal': ['bool', false],
      ...(o.mixture
        ? { expert_count: ['u32', o.mixture.count], expert_used_count: ['u32', o.mixture.used], moe_every_n_layers: ['u32', 2] }
        : {}),
      pooling_type: ['u32', o.pooling],
      ...o.kv,
    }),
    ...tokenizer,
  });
  const norm = (at) => {
    m.vector(`${at}.weight`, n_embd, 1, 0.2);
    m.vector(`${at}.bias`, n_embd, 0, 0.2);
  };
  const linear = (at, i, out, bias, gain) => {
    m.matrix(`${at}.weight`, i, out, gain);
    if (bias) m.vector(`${at}.bias`, out, 0, 0.3);
  };
  m.table('token_embd.weight', n_embd, vocab, 1);
  if (o.types) m.table('token_types.weight', n_embd, o.types, 0.5, 0, 'f32');
  if (o.positions) m.table('position_embd.weight', n_embd, context, 0.7, 0, 'f32');
  norm('token_embd_norm');
  for (let i = 0; i < n_layer; i++) {
    const b = `blk.${i}.`;
    if (o.fused) linear(b + 'attn_qkv', n_embd, 3 * n_embd, o.bias, 1.3);
    else for (const t of ['q', 'k', 'v']) linear(`${b}attn_${t}`, n_embd, n_embd, o.bias, 1.3);
    for (const t of o.qkNorm ? ['q', 'k'] : []) norm(`${b}attn_${t}_norm`);
    linear(b + 'attn_output', n_embd, n_embd, o.bias);
    norm(b + 'attn_output_norm');
    if (o.secondNorm) norm(b + 'attn_norm_2');
    if (o.mixture && i % 2 === 1) experts(m, b, n_embd, { ...o.mixture, width: n_ff, gate: false });
    else {
      if (o.gate) linear(b + 'ffn_gate', n_embd, n_ff, false, 1.3);
      linear(b + 'ffn_up', n_embd, o.fusedGate ? 2 * n_ff : n_ff, o.upBias, 1.3);
      linear(b + 'ffn_down', n_ff, n_embd, o.downBias, 1.3);
    }
    norm(b + 'layer_output_norm');
  }
  if (o.head) {
    linear('cls', n_embd, n_embd, true);
    linear('cls.output', n_embd, 1, true);
  }
  return { kv, tensors: m.tensors };
}

const ramp = (n, from, to) => Array.from({ length: n }, (_, i) => Math.fround(from + ((to - from) * i) / (n - 1)));
const rank = {
  extra: (m) => m.matrix('cls.output.weight', 32, 2, 1.5),
  kv: { pooling_type: ['u32', 4], 'classifier.output_labels': ['str', ['yes', 'no']] },
};

const bitnetScales = [
  ['attn_q', 0.7],
  ['attn_k', 1.4],
  ['attn_v', 1.7],
  ['attn_output', 0.6],
  ['ffn_gate', 1.5],
  ['ffn_up', 0.8],
  ['ffn_down', 1.6],
];

const graniteFactors = {
  embedding_scale: ['f32', 6],
  residual_scale: ['f32', 0.8],
  'attention.scale': ['f32', 0.5],
  logit_scale: ['f32', 1.5],
};
/** gpt-oss: biases everywhere, sinks, windows shorter than the prompt. */
const ossRules = { head: 16, n_head: 4, qkvBias: true, outBias: true, sinks: true, ffnNorm: 'post_attention_norm', n_layer: 3 };
const ossKeys = (width) => ({
  'rope.freq_base': ['f32', 50],
  'rope.scaling.type': ['str', 'yarn'],
  'rope.scaling.factor': ['f32', 4],
  'rope.scaling.original_context_length': ['u32', 64],
  'attention.sliding_window': ['u32', 8],
  expert_feed_forward_length: ['u32', width],
});
const nomicMoe = { pooling: 1, types: 2, fused: true, bias: true, upBias: true, downBias: true, kv: { 'rope.freq_base': ['f32', 1000] } };

/** Models of context.mjs. Their heads are as wide as a block of a quantised cache. */
export const contexts = {
  'llama-head32': (seed = 41) => decoder('llama', { seed, head: 32, n_head: 2, n_head_kv: 1, tied: true }),
  // Heads that native rotates in quantised caches: keys 128 dimensions at a time, values 64.
  'llama-head128': (seed = 42) =>
    decoder('llama', { seed, n_embd: 16, n_ff: 16, n_layer: 1, head: 128, n_head: 2, n_head_kv: 1, tied: true }),
};

/**
 * name -> (seed) => { kv, tensors }. Seeds are chosen so that greedy margins are larger than the
 * tolerance.
 */
export const models = {
  llama: (seed = 11) => decoder('llama', { seed }),
  'llama-rope-freqs': (seed = 112) =>
    decoder('llama', {
      seed,
      type: 'f16',
      tied: true,
      extra: (m) => m.values('rope_freqs.weight', [1, 1, 3.5, 8]),
      kv: { 'rope.freq_base': ['f32', 500], 'attention.sliding_window': ['u32', 8] },
    }),
  'llama-q4_0': (seed = 8314) => decoder('llama', { seed, type: 'q4_0', n_embd: 64, n_ff: 64 }),
  smollm3: (seed = 215) => decoder('smollm3', { seed, type: 'f16', n_layer: 4, n_ff: 24, tied: true }),
  qwen2: (seed = 216) => decoder('qwen2', { seed, tied: true, qkvBias: true, kv: { 'rope.freq_base': ['f32', 1e6] } }),
  'qwen2-yarn': (seed = 817) =>
    decoder('qwen2', {
      seed,
      type: 'f16',
      qkvBias: true,
      tied: true,
      kv: {
        'rope.freq_base': ['f32', 50],
        'rope.scaling.type': ['str', 'yarn'],
        'rope.scaling.factor': ['f32', 4],
        'rope.scaling.original_context_length': ['u32', 64],
      },
    }),
  qwen3: (seed = 1018) =>
    decoder('qwen3', { seed, type: 'f16', head: 16, n_head: 4, tied: true, qkNorm: true, kv: { 'rope.freq_base': ['f32', 1e6] } }),
  gemma2: (seed = 119) =>
    decoder('gemma2', {
      seed,
      head: 16,
      n_head: 2,
      n_head_kv: 1,
      n_layer: 3,
      type: 'f16',
      tied: true,
      embed: 0.08,
      postNorm: true,
      qkGain: 2,
      kv: { 'attention.sliding_window': ['u32', 8], attn_logit_softcapping: ['f32', 4], final_logit_softcapping: ['f32', 8] },
    }),
  gemma3: (seed = 1520) =>
    decoder('gemma3', {
      seed,
      type: 'f16',
      head: 16,
      n_head: 2,
      n_head_kv: 1,
      n_layer: 6,
      n_ff: 24,
      tied: true,
      embed: 0.08,
      postNorm: true,
      qkNorm: true,
      kv: {
        'attention.sliding_window': ['u32', 8],
        'rope.freq_base': ['f32', 1e6],
        'rope.scaling.type': ['str', 'linear'],
        'rope.scaling.factor': ['f32', 8],
      },
    }),
  phi3: (seed = 621) => decoder('phi3', { seed, n_head_kv: 4, fused: true, type: 'f16', kv: { 'attention.sliding_window': ['u32', 8] } }),
  'phi3-longrope': (seed = 3322) =>
    decoder('phi3', {
      seed,
      type: 'f16',
      tied: true,
      fused: true,
      extra: (m) => {
        m.values('rope_factors_long.weight', ramp(4, 1.1, 24));
        m.values('rope_factors_short.weight', ramp(4, 1, 2.5));
      },
      kv: {
        context_length: ['u32', 1024],
        'rope.freq_base': ['f32', 100],
        'rope.scaling.original_context_length': ['u32', 256],
        'rope.scaling.attn_factor': ['f32', 1.19],
      },
    }),
  granite: (seed = 723) =>
    decoder('granite', {
      seed,
      type: 'f16',
      tied: true,
      embed: 0.06,
      kv: { embedding_scale: ['f32', 6], residual_scale: ['f32', 0.8], 'attention.scale': ['f32', 0.5], logit_scale: ['f32', 1.5] },
    }),
  starcoder2: (seed = 2124) =>
    decoder('starcoder2', { seed, layer: true, qkvBias: true, outBias: true, ffnBias: true, gateless: true, tied: true, n_ff: 48 }),
  stablelm: (seed = 25) =>
    decoder('stablelm', { seed, type: 'f16', layer: true, n_head_kv: 4, qkvBias: true, kv: { 'rope.dimension_count': ['u32', 4] } }),
  'stablelm-parallel': (seed = 1626) =>
    decoder('stablelm', {
      seed,
      type: 'f16',
      layer: true,
      headNorm: true,
      parallel: true,
      kv: { 'rope.dimension_count': ['u32', 4], use_parallel_residual: ['bool', true] },
    }),
  // Scales of products are optional: the first layer has none.
  bitnet: (seed = 2228) =>
    decoder('bitnet', {
      seed,
      type: 'f16',
      tied: true,
      subNorm: true,
      extra: (m) => bitnetScales.forEach(([t, factor]) => m.values(`blk.1.${t}.scale`, [factor])),
    }),
  // Mixtures of experts, each once in F32 and, where another rule changes with it, once quantised.
  'llama-moe': (seed = 251) =>
    decoder('llama', {
      seed,
      tied: true,
      mixture: { count: 5, used: 2, width: 24 },
      n_ff: 24,
      // NVFP4 files have a scale per expert; the first layer has none.
      extra: (m) => ['gate', 'up', 'down'].forEach((t, i) => m.values(`blk.1.ffn_${t}_exps.scale`, ramp(5, 0.6 + 0.1 * i, 1.6))),
    }),
  'llama-moe-q4_0': (seed = 1652) =>
    decoder('llama', { seed, type: 'q4_0', n_embd: 64, n_ff: 32, mixture: { count: 4, used: 2, width: 32 } }),
  qwen2moe: (seed = 853) =>
    decoder('qwen2moe', {
      seed,
      qkvBias: true,
      n_ff: 40,
      mixture: { count: 6, used: 3, width: 16, shared: 24, sharedGate: true },
      kv: { 'rope.freq_base': ['f32', 1e6], expert_feed_forward_length: ['u32', 16], expert_shared_feed_forward_length: ['u32', 24] },
    }),
  'qwen2moe-q8_0': (seed = 1754) =>
    decoder('qwen2moe', {
      seed,
      type: 'q8_0',
      qkvBias: true,
      n_ff: 64,
      mixture: { count: 4, used: 2, width: 32, shared: 64, sharedGate: true },
    }),
  qwen3moe: (seed = 455) =>
    decoder('qwen3moe', {
      seed,
      head: 16,
      tied: true,
      qkNorm: true,
      mixture: { count: 8, used: 2, width: 16 },
      kv: { 'rope.freq_base': ['f32', 1e6], expert_feed_forward_length: ['u32', 16] },
    }),
  'qwen3moe-q8_0': (seed = 256) =>
    decoder('qwen3moe', {
      seed,
      type: 'q8_0',
      head: 16,
      tied: true,
      qkNorm: true,
      mixture: { count: 8, used: 3, width: 32 },
      kv: { expert_feed_forward_length: ['u32', 32] },
    }),
  olmoe: (seed = 257) =>
    decoder('olmoe', { seed, n_head_kv: 4, tied: false, wideNorm: true, n_ff: 16, mixture: { count: 6, used: 3, width: 16 } }),
  'olmoe-q4_0': (seed = 158) =>
    decoder('olmoe', {
      seed,
      type: 'q4_0',
      n_embd: 64,
      n_head_kv: 4,
      wideNorm: true,
      n_ff: 32,
      mixture: { count: 4, used: 2, width: 32 },
    }),
  granitemoe: (seed = 259) =>
    decoder('granitemoe', {
      seed,
      tied: true,
      embed: 0.06,
      n_ff: 16,
      mixture: { count: 6, used: 2, width: 16, shared: 24 },
      kv: { ...graniteFactors, expert_shared_feed_forward_length: ['u32', 24] },
    }),
  'granitemoe-q8_0': (seed = 2660) =>
    decoder('granitemoe', {
      seed,
      type: 'q8_0',
      tied: true,
      embed: 0.06,
      n_ff: 32,
      mixture: { count: 5, used: 2, width: 32 },
      kv: graniteFactors,
    }),
  'gpt-oss': (seed = 361) =>
    decoder('gpt-oss', {
      ...ossRules,
      seed,
      mixture: { count: 5, used: 2, width: 24, bias: true },
      kv: { ...ossKeys(24), 'rope.freq_base_swa': ['f32', 500] },
    }),
  'gpt-oss-mxfp4': (seed = 1763) =>
    decoder('gpt-oss', {
      ...ossRules,
      seed,
      type: 'q8_0',
      mixture: { count: 6, used: 3, width: 32, bias: true, kind: 'mxfp4' },
      kv: ossKeys(32),
    }),
  smallthinker: (seed = 1363) =>
    decoder('smallthinker', {
      seed,
      tied: true,
      n_layer: 5,
      mixture: { count: 8, used: 3, width: 8 },
      // The window is always 4096, longer than any prompt here. Only the layers without rope show.
      kv: {
        'rope.freq_base': ['f32', 1e6],
        expert_feed_forward_length: ['u32', 8],
        expert_gating_func: ['u32', 2],
        expert_group_count: ['u32', 4],
        expert_group_used_count: ['u32', 2],
        'attention.sliding_window': ['u32', 8],
        'rope.freq_base_swa': ['f32', 100],
      },
    }),
  'smallthinker-q8_0': (seed = 2664) =>
    decoder('smallthinker', {
      seed,
      type: 'q8_0',
      tied: true,
      mixture: { count: 6, used: 3, width: 32 },
      kv: { expert_feed_forward_length: ['u32', 32], expert_gating_func: ['u32', 1] },
    }),
  'nomic-bert-moe': (seed = 65) => encoder('nomic-bert-moe', { ...nomicMoe, seed, n_ff: 24, mixture: { count: 5, used: 2 } }),
  'nomic-bert-moe-q8_0': (seed = 66) =>
    encoder('nomic-bert-moe', { ...nomicMoe, seed, type: 'q8_0', n_ff: 32, mixture: { count: 4, used: 2 } }),
  'qwen3-rank': (seed = 27) => decoder('qwen3', { seed, type: 'f16', n_ff: 24, tied: true, qkNorm: true, ...rank }),
  bert: (seed = 31) => encoder('bert', { seed, pooling: 2, types: 2, positions: true, bias: true, upBias: true, downBias: true }),
  'xlm-roberta-rank': (seed = 32) =>
    encoder('bert', {
      seed,
      type: 'f16',
      tokenizer: unigram,
      pooling: 4,
      types: 1,
      positions: true,
      bias: true,
      upBias: true,
      downBias: true,
      head: true,
    }),
  'nomic-bert': (seed = 33) =>
    encoder('nomic-bert', {
      seed,
      type: 'f16',
      pooling: 1,
      types: 2,
      fused: true,
      gate: true,
      n_ff: 48,
      kv: { 'rope.freq_base': ['f32', 1000] },
    }),
  'jina-bert-v2': (seed = 34) =>
    encoder('jina-bert-v2', { seed, type: 'f16', pooling: 1, types: 2, bias: true, gate: true, downBias: true, n_ff: 48 }),
  'jina-bert-v2-code': (seed = 35) =>
    encoder('jina-bert-v2', {
      seed,
      type: 'f16',
      pooling: 1,
      types: 2,
      bias: true,
      qkNorm: true,
      secondNorm: true,
      fusedGate: true,
      downBias: true,
      n_ff: 48,
      n_head: 2,
    }),
  'jina-bert-v3': (seed = 36) =>
    encoder('jina-bert-v3', {
      seed,
      type: 'f16',
      tokenizer: unigram,
      pooling: 1,
      types: 1,
      fused: true,
      bias: true,
      upBias: true,
      downBias: true,
      kv: { 'rope.freq_base': ['f32', 20000] },
    }),
};

const window = (size, pattern) => ({
  'attention.sliding_window': ['u32', size],
  ...(pattern ? { 'attention.sliding_window_pattern': pattern } : {}),
});
const vectors = { pooling_type: ['u32', 1], 'attention.causal': ['bool', false] };
/**
 * A family: its model by type of weights and seed. Rows are a multiple of 32 long, so that q4_0
 * fits.
 */
const family = (make, f32, q4_0) => ({ make, seeds: { f32, q4_0 } });
const small = { n_ff: 32, tied: true };

const yarn = (factor, logMultiplier) => ({
  'rope.scaling.type': ['str', 'yarn'],
  'rope.scaling.factor': ['f32', factor],
  'rope.scaling.original_context_length': ['u32', 64],
  'rope.scaling.yarn_log_multiplier': ['f32', logMultiplier],
});
/**
 * Latent attention: 4 heads with 32 dimensions without rope, 16 with rope and values of 32,
 * computed from vectors of 64. `rankQ`: rank of the two query matrices (0: one matrix). `split`:
 * keys and values have a matrix per head.
 */
const latent = ({ rankQ = 0, split = false, ...o }, f32, q4_0) =>
  family(
    (type, seed) =>
      decoder('deepseek2', {
        n_embd: 64,
        n_ff: 64,
        dense: 1,
        tied: true,
        ...o,
        type,
        seed,
        attended: 4 * 32,
        attention(m, b, norm) {
          if (rankQ > 0) {
            m.matrix(`${b}attn_q_a.weight`, 64, rankQ);
            norm(`${b}attn_q_a_norm`, 1.2, rankQ);
            m.matrix(`${b}attn_q_b.weight`, rankQ, 4 * 48, 1.5);
          } else m.matrix(`${b}attn_q.weight`, 64, 4 * 48, 1.5);
          m.matrix(`${b}attn_kv_a_mqa.weight`, 64, 64 + 16, 1.3);
          norm(`${b}attn_kv_a_norm`, 1.2, 64);
          if (split) {
            m.matrices(`${b}attn_k_b.weight`, 32, 64, 4, 1.2);
            m.matrices(`${b}attn_v_b.weight`, 64, 32, 4, 1.2);
          } else m.matrix(`${b}attn_kv_b.weight`, 64, 4 * (32 + 32), 1.2);
        },
        kv: {
          'rope.dimension_count': ['u32', 16],
          'attention.kv_lora_rank': ['u32', 64],
          leading_dense_block_count: ['u32', 1],
          expert_feed_forward_length: ['u32', 32],
          ...o.kv,
        },
      }),
    f32,
    q4_0,
  );

/**
 * Models that are not committed: tests make them when needed, as F32 and (`-q4_0`) quantised. name
 * -> { make(type, seed), seeds: by type }. Seeds are chosen as for `models`.
 */
export const families = {
  'gemma-embedding': family(
    (type, seed) =>
      decoder('gemma-embedding', {
        ...small,
        type,
        seed,
        n_layer: 3,
        head: 16,
        n_head: 2,
        n_head_kv: 1,
        postNorm: true,
        qkNorm: true,
        extra(m) {
          m.matrix('dense_2.weight', 32, 64);
          m.matrix('dense_3.weight', 64, 32);
        },
        kv: {
          ...window(8, ['u32', 3]),
          ...vectors,
          'rope.freq_base': ['f32', 1e6],
          dense_2_feat_in: ['u32', 32],
          dense_2_feat_out: ['u32', 64],
          dense_3_feat_in: ['u32', 64],
          dense_3_feat_out: ['u32', 32],
        },
      }),
    1,
    1,
  ),
  gemma4: family(
    (type, seed) =>
      decoder('gemma4', {
        ...small,
        type,
        seed,
        n_layer: 6,
        head: 16,
        postNorm: true,
        qkNorm: true,
        qkCentre: 0.4,
        ofLayer: (i) => ({ head: i % 2 ? 16 : 8, keys: i < 4, n_ff: i < 3 ? 32 : 64 }),
        layerExtra(m, b) {
          m.matrix(`${b}inp_gate.weight`, 32, 32, 1.3);
          m.matrix(`${b}proj.weight`, 32, 32, 1.3);
          m.vector(`${b}post_norm.weight`, 32, 1, 0.2);
          m.vector(`${b}layer_output_scale.weight`, 1, 0.8, 0.2);
        },
        extra(m) {
          m.table('per_layer_token_embd.weight', 32 * 6, 272, 0.2);
          m.matrix('per_layer_model_proj.weight', 32, 32 * 6);
          m.vector('per_layer_proj_norm.weight', 32, 1, 0.2);
          m.values('rope_freqs.weight', [1, 1, 2, 1, 1e30, 1e30, 1e30, 1e30]);
        },
        kv: {
          ...window(8, ['bool', [0, 1, 2, 3, 4, 5].map((i) => i % 2 === 0)]),
          feed_forward_length: ['u32', [32, 32, 32, 64, 64, 64]],
          'attention.shared_kv_layers': ['u32', 2],
          'attention.key_length_swa': ['u32', 8],
          'attention.value_length_swa': ['u32', 8],
          'rope.dimension_count_swa': ['u32', 8],
          'rope.freq_base': ['f32', 500],
          'rope.freq_base_swa': ['f32', 50],
          embedding_length_per_layer_input: ['u32', 32],
          final_logit_softcapping: ['f32', 8],
        },
      }),
    5,
    12,
  ),
  'modern-bert': family(
    (type, seed) =>
      decoder('modern-bert', {
        ...small,
        type,
        seed,
        n_layer: 3,
        n_head_kv: 4,
        layer: true,
        biasless: true,
        fused: true,
        embedNorm: true,
        kv: { ...window(8), ...vectors, 'rope.freq_base': ['f32', 500], 'rope.freq_base_swa': ['f32', 50] },
      }),
    1,
    1,
  ),
  'neo-bert': family(
    (type, seed) => decoder('neo-bert', { ...small, type, seed, n_head_kv: 4, fused: true, outputNorm: 'enc.output_norm', kv: vectors }),
    1,
    1,
  ),
  eurobert: family((type, seed) => decoder('eurobert', { ...small, type, seed, kv: { ...vectors, pooling_type: ['u32', 3] } }), 1, 1),
  olmo: family(
    (type, seed) =>
      decoder('olmo', { ...small, tied: false, type, seed, layer: true, bareNorms: true, kv: { 'attention.clamp_kqv': ['f32', 0.8] } }),
    28,
    30,
  ),
  olmo2: family(
    (type, seed) =>
      decoder('olmo2', {
        ...small,
        tied: false,
        type,
        seed,
        n_layer: 4,
        behind: true,
        postNorm: true,
        wideNorm: true,
        kv: { ...window(8), 'rope.scaling.type': ['str', 'linear'], 'rope.scaling.factor': ['f32', 4] },
      }),
    3,
    138,
  ),
  'command-r': family(
    (type, seed) =>
      decoder('command-r', { ...small, type, seed, layer: true, biasless: true, parallel: true, kv: { logit_scale: ['f32', 0.7] } }),
    2,
    19,
  ),
  cohere2: family(
    (type, seed) =>
      decoder('cohere2', {
        ...small,
        type,
        seed,
        n_layer: 3,
        layer: true,
        biasless: true,
        parallel: true,
        kv: { ...window(8, ['bool', [true, false, true]]), logit_scale: ['f32', 0.7] },
      }),
    24,
    3,
  ),
  exaone4: family(
    (type, seed) =>
      decoder('exaone4', {
        ...small,
        type,
        seed,
        behind: true,
        postNorm: true,
        qkNorm: true,
        extra: (m) => m.values('rope_freqs.weight', [1, 1, 3.5, 8]),
      }),
    5,
    2,
  ),
  glm4: family(
    (type, seed) =>
      decoder('glm4', { ...small, type, seed, postNorm: true, fusedUp: true, qkvBias: true, kv: { 'rope.dimension_count': ['u32', 4] } }),
    11,
    4,
  ),
  'glm4-vision': family(
    (type, seed) =>
      decoder('glm4', {
        ...small,
        type,
        seed,
        postNorm: true,
        fusedUp: true,
        kv: { 'rope.dimension_sections': ['i32', [1, 1, 1, 1]], 'rope.freq_base': ['f32', 50] },
      }),
    2,
    144,
  ),
  internlm2: family((type, seed) => decoder('internlm2', { ...small, tied: false, type, seed }), 5, 30),
  ernie4_5: family((type, seed) => decoder('ernie4_5', { ...small, type, seed, head: 16, n_head: 4 }), 2, 20),
  'hunyuan-dense': family((type, seed) => decoder('hunyuan-dense', { ...small, type, seed, qkNorm: true }), 3, 9),
  seed_oss: family((type, seed) => decoder('seed_oss', { ...small, type, seed, qkvBias: true, ffnNorm: 'post_attention_norm' }), 1, 41),
  apertus: family(
    (type, seed) =>
      decoder('apertus', {
        ...small,
        tied: false,
        type,
        seed,
        gateless: true,
        qkNorm: true,
        extra: (m) => m.values('rope_freqs.weight', [1, 1, 3.5, 8]),
        meta: {
          'xielu.alpha_n': ['f32', [0.4, 0.1]],
          'xielu.alpha_p': ['f32', [-0.6, 0.3]],
          'xielu.beta': ['f32', [0.5, 0.7]],
          'xielu.eps': ['f32', [-1e-6, -0.2]],
        },
      }),
    5,
    4,
  ),
  mistral3: family(
    (type, seed) =>
      decoder('mistral3', {
        ...small,
        type,
        seed,
        kv: {
          'rope.freq_base': ['f32', 50],
          'rope.scaling.type': ['str', 'yarn'],
          'rope.scaling.factor': ['f32', 16],
          'rope.scaling.original_context_length': ['u32', 7],
          'rope.scaling.yarn_log_multiplier': ['f32', 0.6],
          'rope.scaling.yarn_beta_fast': ['f32', 2],
          'rope.scaling.yarn_beta_slow': ['f32', 0.2],
          'attention.temperature_scale': ['f32', 0.4],
        },
      }),
    2,
    15,
  ),
  'phi4-mini': family(
    (type, seed) => decoder('phi3', { ...small, type, seed, fused: true, kv: { 'rope.dimension_count': ['u32', 6] } }),
    12,
    9,
  ),
  qwen2vl: family(
    (type, seed) =>
      decoder('qwen2vl', {
        ...small,
        type,
        seed,
        qkvBias: true,
        // Native does not read the epsilon of this architecture and uses 0.
        kv: {
          'rope.dimension_sections': ['i32', [1, 1, 1, 1]],
          'rope.freq_base': ['f32', 50],
          'attention.layer_norm_rms_epsilon': ['f32', 1e-12],
        },
      }),
    3,
    137,
  ),
  deepseek2: latent(
    {
      n_head_kv: 4,
      mixture: { count: 5, used: 2, width: 32, shared: 64 },
      kv: {
        'attention.key_length': ['u32', 48],
        'attention.value_length': ['u32', 32],
        'attention.q_lora_rank': ['u32', 0],
        expert_shared_count: ['u32', 2],
        expert_weights_scale: ['f32', 1.5],
        ...yarn(8, 0.0707),
      },
    },
    23,
    23,
  ),
  'deepseek2-mla': latent(
    {
      n_head_kv: 1,
      rankQ: 32,
      split: true,
      mixture: { count: 8, used: 3, width: 32, shared: 32, probsBias: 0.3 },
      kv: {
        'attention.key_length': ['u32', 80],
        'attention.value_length': ['u32', 64],
        'attention.key_length_mla': ['u32', 48],
        'attention.value_length_mla': ['u32', 32],
        'attention.q_lora_rank': ['u32', 32],
        expert_shared_count: ['u32', 1],
        expert_gating_func: ['u32', 2],
        expert_weights_norm: ['bool', true],
        expert_weights_scale: ['f32', 1.6],
        expert_group_count: ['u32', 4],
        expert_group_used_count: ['u32', 2],
        ...yarn(4, 0.1),
      },
    },
    49,
    2,
  ),
  qwen3vl: family(
    (type, seed) =>
      decoder('qwen3vl', {
        ...small,
        type,
        seed,
        head: 16,
        n_head: 4,
        qkNorm: true,
        kv: { 'rope.dimension_sections': ['i32', [3, 2, 2, 1]], 'rope.freq_base': ['f32', 3] },
      }),
    7,
    178,
  ),
};

/**
 * A model with recurrent layers. `mixers(il)` lists the mixers of a layer: 'attention', or a
 * function that makes a mixer's tensors from (m, prefix). Without n_ff a layer has only its mixer.
 */
function recurrent(arch, { type, seed, n_layer = 3, n_ff = 64, n_head = 4, n_head_kv = 2, head = 16, mixers, mixture, ...o }) {
  const n_embd = 64;
  const vocab = spm['tokenizer.ggml.tokens'][1].length;
  const m = maker(seed, type);
  const attends = (il) => mixers(il).includes('attention');
  const layers = Array.from({ length: n_layer }, (_, il) => il);
  const kv = name(arch, type, {
    ...prefix(arch, {
      context_length: ['u32', 512],
      embedding_length: ['u32', n_embd],
      block_count: ['u32', n_layer],
      feed_forward_length: ['u32', n_ff],
      'attention.head_count': ['u32', layers.some(attends) ? n_head : 0],
      ...(layers.some(attends)
        ? {
            'attention.head_count_kv': o.heads ?? ['u32', layers.map((il) => (attends(il) ? n_head_kv : 0))],
            'rope.freq_base': ['f32', 500],
          }
        : {}),
      [o.epsilon ?? 'attention.layer_norm_rms_epsilon']: ['f32', 1e-5],
      ...(mixture ? { expert_count: ['u32', mixture.count], expert_used_count: ['u32', mixture.used] } : {}),
      ...o.kv,
    }),
    ...spm,
  });
  m.table('token_embd.weight', n_embd, vocab, 0.2, 3);
  for (const il of layers) {
    const b = `blk.${il}.`;
    m.vector(`${b}attn_norm.weight`, n_embd, 1, 0.2);
    for (const mixer of mixers(il)) {
      if (mixer !== 'attention') {
        mixer(m, b);
        continue;
      }
      m.matrix(`${b}attn_q.weight`, n_embd, n_head * head * (o.outputGate ? 2 : 1), 1.3);
      m.matrix(`${b}attn_k.weight`, n_embd, n_head_kv * head, 1.3);
      m.matrix(`${b}attn_v.weight`, n_embd, n_head_kv * head, 1.2);
      if (o.qkNorm) for (const t of ['q', 'k']) m.vector(`${b}attn_${t}_norm.weight`, head, 1.2, 0.2);
      m.matrix(`${b}attn_output.weight`, n_head * head, n_embd);
    }
    if (n_ff === 0) continue;
    m.vector(b + (o.ffnNorm ?? 'ffn_norm.weight'), n_embd, 1, 0.2);
    if (mixture && il >= (o.dense ?? 0)) {
      experts(m, b, n_embd, mixture);
      continue;
    }
    for (const t of ['gate', 'up']) m.matrix(`${b}ffn_${t}.weight`, n_embd, n_ff, 1.3);
    m.matrix(`${b}ffn_down.weight`, n_ff, n_embd, 1.3);
  }
  m.vector(`${o.outputNorm ?? 'output_norm'}.weight`, n_embd, 3 / 0.2 / 8, 0.2);
  return { kv, tensors: m.tensors };
}
const ssm = (state_size, inner_size, time_step_rank, group_count) =>
  Object.fromEntries(
    Object.entries({ conv_kernel: 4, state_size, inner_size, time_step_rank, ...(group_count ? { group_count } : {}) }).map(([k, v]) => [
      `ssm.${k}`,
      ['u32', v],
    ]),
  );
const shortConv = (m, b) => {
  m.matrix(`${b}shortconv.in_proj.weight`, 64, 192, 1.3);
  m.table(`${b}shortconv.conv.weight`, 3, 64, 0.8, 0, 'f32');
  m.matrix(`${b}shortconv.out_proj.weight`, 64, 64, 1.5);
};
const convolution = (m, b, n, bias, gain = 0.7) => {
  m.table(`${b}ssm_conv1d.weight`, 4, n, gain, 0, 'f32');
  if (bias) m.vector(`${b}ssm_conv1d.bias`, n, 0, 0.3);
};
/** Mamba: a state of 16 for each of 128 channels. */
const mixer1 = (m, b) => {
  m.matrix(`${b}ssm_in.weight`, 64, 256, 1);
  convolution(m, b, 128, true);
  m.matrix(`${b}ssm_x.weight`, 128, 4 + 32, 0.7);
  m.matrix(`${b}ssm_dt.weight`, 4, 128, 1, 'f32');
  m.vector(`${b}ssm_dt.bias`, 128, -1, 0.7);
  m.tensor(`${b}ssm_a`, [16, 128], (x) => -Math.exp(0.7 * x));
  m.vector(`${b}ssm_d`, 128, 1, 0.3);
  m.matrix(`${b}ssm_out.weight`, 128, 64);
};
/** Mamba 2: 8 heads of 16 x 16 in 2 groups. */
const mixer2 = (m, b) => {
  m.matrix(`${b}ssm_in.weight`, 64, 2 * 128 + 2 * 32 + 8, 1.3);
  convolution(m, b, 128 + 64, true);
  m.vector(`${b}ssm_dt.bias`, 8, -1, 0.7);
  m.tensor(`${b}ssm_a`, [1, 8], (x) => -Math.exp(0.7 * x));
  m.tensor(`${b}ssm_d`, [1, 8], (x) => 1 + 0.3 * x);
  m.tensor(`${b}ssm_norm.weight`, [64, 2], (x) => 1 + 0.2 * x);
  m.matrix(`${b}ssm_out.weight`, 128, 64);
};
/**
 * Gated delta net: 4 heads of 32 x 32, two of which share a key. fused: beta and alpha are one
 * matrix, as in Qwen 3 Next.
 */
const delta = (fused) => (m, b) => {
  m.matrix(`${b}attn_qkv.weight`, 64, 2 * 64 + 128);
  m.matrix(`${b}attn_gate.weight`, 64, 128);
  // Large values: silu makes keys and queries mostly positive, so that their products stay clear of
  // 0, where the norm that follows would amplify rounding errors.
  convolution(m, b, 256, false, 2);
  for (const t of fused ? ['ba'] : ['alpha', 'beta']) m.matrix(`${b}ssm_${t}.weight`, 64, fused ? 8 : 4, 0.5);
  m.vector(`${b}ssm_dt.bias`, 4, -1, 0.7);
  m.tensor(`${b}ssm_a`, [4], (x) => -Math.exp(0.7 * x));
  m.vector(`${b}ssm_norm.weight`, 32, 0.5, 0.1);
  m.matrix(`${b}ssm_out.weight`, 128, 64);
};
const deltaNet = delta(false);
const nemotronFeedForward = (m, b) => {
  m.matrix(`${b}ffn_up.weight`, 64, 64, 1.3);
  m.matrix(`${b}ffn_down.weight`, 64, 64);
};
const nemotronExperts = (m, b) => experts(m, b, 64, { count: 5, width: 32, gate: false, probsBias: 0.2, shared: 64, latent: 32 });
const every = (n, mixer) => (il) => [(il + 1) % n ? mixer : 'attention'];
const qwenHybrid = (arch, type, seed, mixer, kv) =>
  recurrent(arch, {
    type,
    seed,
    n_layer: 2,
    mixers: every(2, mixer),
    heads: ['u32', 2],
    qkNorm: true,
    outputGate: true,
    ffnNorm: 'post_attention_norm.weight',
    mixture: { count: 5, used: 2, width: 32, shared: 64, sharedGate: true },
    kv: {
      ...ssm(32, 128, 4, 2),
      full_attention_interval: ['u32', 2],
      'rope.dimension_count': ['u32', 8],
      expert_feed_forward_length: ['u32', 32],
      expert_shared_feed_forward_length: ['u32', 64],
      ...kv,
    },
  });
const hybrid = {
  mixers: every(3, mixer2),
  kv: {
    ...ssm(16, 128, 8, 2),
    embedding_scale: ['f32', 3],
    residual_scale: ['f32', 0.8],
    'attention.scale': ['f32', 0.4],
    logit_scale: ['f32', 1.5],
  },
};

Object.assign(families, {
  lfm2: family(
    (type, seed) =>
      recurrent('lfm2', {
        type,
        seed,
        mixers: every(3, shortConv),
        qkNorm: true,
        outputNorm: 'token_embd_norm',
        kv: { 'shortconv.l_cache': ['u32', 3] },
      }),
    3,
    3,
  ),
  mamba: family(
    (type, seed) => recurrent('mamba', { type, seed, n_layer: 2, n_ff: 0, mixers: () => [mixer1], kv: ssm(16, 128, 4) }),
    8,
    10,
  ),
  'mamba-falcon': family(
    (type, seed) =>
      recurrent('mamba', {
        type,
        seed,
        n_layer: 2,
        n_ff: 0,
        mixers: () => [mixer1],
        kv: { ...ssm(16, 128, 4), 'ssm.dt_b_c_rms': ['bool', true] },
      }),
    4,
    39,
  ),
  mamba2: family(
    (type, seed) => recurrent('mamba2', { type, seed, n_layer: 2, n_ff: 0, mixers: () => [mixer2], kv: ssm(16, 128, 8, 2) }),
    4,
    12,
  ),
  qwen35: family(
    (type, seed) =>
      recurrent('qwen35', {
        type,
        seed,
        n_layer: 2,
        mixers: every(2, deltaNet),
        heads: ['u32', 2],
        qkNorm: true,
        outputGate: true,
        ffnNorm: 'post_attention_norm.weight',
        kv: {
          ...ssm(32, 128, 4, 2),
          full_attention_interval: ['u32', 2],
          'rope.dimension_count': ['u32', 8],
          'rope.dimension_sections': ['i32', [2, 1, 1, 0]],
        },
      }),
    15,
    15,
  ),
  lfm2moe: family(
    (type, seed) =>
      recurrent('lfm2moe', {
        type,
        seed,
        mixers: every(3, shortConv),
        qkNorm: true,
        outputNorm: 'token_embd_norm',
        dense: 1,
        mixture: { count: 5, used: 2, width: 32, probsBias: 0.2 },
        kv: {
          'shortconv.l_cache': ['u32', 3],
          leading_dense_block_count: ['u32', 1],
          expert_feed_forward_length: ['u32', 32],
          expert_gating_func: ['u32', 2],
        },
      }),
    40,
    36,
  ),
  qwen35moe: family(
    (type, seed) => qwenHybrid('qwen35moe', type, seed, deltaNet, { 'rope.dimension_sections': ['i32', [2, 1, 1, 0]] }),
    47,
    6,
  ),
  qwen3next: family((type, seed) => qwenHybrid('qwen3next', type, seed, delta(true)), 46, 2),
  nemotron_h: family(
    (type, seed) =>
      recurrent('nemotron_h', {
        type,
        seed,
        n_layer: 4,
        n_ff: 0,
        mixers: (il) => [[mixer2, nemotronFeedForward, 'attention', nemotronFeedForward][il]],
        epsilon: 'attention.layer_norm_epsilon',
        kv: { ...ssm(16, 128, 8, 2), feed_forward_length: ['u32', [0, 64, 0, 64]] },
      }),
    27,
    33,
  ),
  nemotron_h_moe: family(
    (type, seed) =>
      recurrent('nemotron_h_moe', {
        type,
        seed,
        n_layer: 4,
        n_ff: 0,
        mixers: (il) => [[mixer2, nemotronExperts, 'attention', nemotronExperts][il]],
        kv: {
          ...ssm(16, 128, 8, 2),
          feed_forward_length: ['u32', [0, 32, 0, 32]],
          'attention.layer_norm_epsilon': ['f32', 1e-5],
          expert_count: ['u32', 5],
          expert_used_count: ['u32', 2],
          expert_feed_forward_length: ['u32', 32],
          expert_shared_feed_forward_length: ['u32', 64],
          expert_weights_norm: ['bool', true],
          expert_weights_scale: ['f32', 1.5],
          moe_latent_size: ['u32', 32],
        },
      }),
    15,
    34,
  ),
  granitehybrid: family((type, seed) => recurrent('granitehybrid', { type, seed, ...hybrid }), 13, 14),
  'granitehybrid-moe': family(
    (type, seed) =>
      recurrent('granitehybrid', {
        type,
        seed,
        ...hybrid,
        n_ff: 32,
        mixture: { count: 5, used: 2, width: 32, shared: 64 },
        kv: { ...hybrid.kv, expert_shared_feed_forward_length: ['u32', 64] },
      }),
    13,
    14,
  ),
  'falcon-h1': family(
    (type, seed) =>
      recurrent('falcon-h1', {
        type,
        seed,
        n_layer: 2,
        heads: ['u32', 2],
        mixers: () => ['attention', mixer2],
        ffnNorm: 'ffn_norm',
        kv: ssm(16, 128, 8, 2),
      }),
    4,
    7,
  ),
});

/**
 * Gemma 3n with four states per token. It has 22 layers because the first 20 have keys of their
 * own.
 */
function gemma3n({ type, seed }) {
  const local = Array.from({ length: 22 }, (_, i) => i % 5 !== 4 && i !== 19 && i !== 21);
  return decoder('gemma3n', {
    ...small,
    type,
    seed,
    n_layer: 22,
    head: 16,
    embed: 0.02,
    n_head: 2,
    n_head_kv: 1,
    postNorm: true,
    qkNorm: true,
    qkCentre: 0.4,
    // 22 layers over four states multiply one rounding of gelu's table, so the branches are small.
    postCentre: 0.2,
    layerExtra(m, b) {
      m.matrix(`${b}inp_gate.weight`, 32, 256, 1.3);
      m.matrix(`${b}proj.weight`, 256, 32, 1.3);
      m.vector(`${b}post_norm.weight`, 32, 0.2, 0.05);
      m.matrix(`${b}laurel_l.weight`, 32, 64, 1, 'f32');
      m.matrix(`${b}laurel_r.weight`, 64, 32, 1, 'f32');
      m.vector(`${b}laurel_post_norm.weight`, 32, 0.15, 0.04);
      m.vector(`${b}altup_router_norm.weight`, 32, 20, 4);
      m.matrix(`${b}altup_router.weight`, 32, 4, 1, 'f32');
      m.matrix(`${b}altup_predict_coef.weight`, 4, 16, 0.1, 'f32');
      m.matrix(`${b}altup_correct_coef.weight`, 4, 4, 0.3, 'f32');
      m.vector(`${b}altup_correct_scale.weight`, 32, 1, 0.2);
    },
    extra(m) {
      m.table('per_layer_token_embd.weight', 256 * 22, 272, 0.1, 0, 'q8_0');
      m.matrix('per_layer_model_proj.weight', 32, 256 * 22);
      m.vector('per_layer_proj_norm.weight', 256, 1, 0.2);
      for (const t of ['altup_proj', 'altup_unembd_proj']) m.matrices(`${t}.weight`, 32, 32, 3, 1, 'f32');
    },
    kv: {
      ...window(8, ['bool', local]),
      'attention.shared_kv_layers': ['u32', 2],
      'rope.freq_base': ['f32', 500],
      'rope.freq_base_swa': ['f32', 50],
      embedding_length_per_layer_input: ['u32', 256],
    },
  });
}

/**
 * T5. n_dec: decoder layers (0: encoder only). gated: T5 1.1, where only the first layer has a
 * table of distances. Otherwise each layer has one, and the embeddings are the output matrix too.
 */
function t5({ type, seed, gated, n_layer = 2, n_dec = 0 }) {
  const [n_embd, n_head, head, n_ff] = [32, 4, 16, 64];
  const arch = n_dec > 0 ? 't5' : 't5encoder';
  const n_vocab = unigram['tokenizer.ggml.tokens'][1].length;
  const m = maker(seed, type);
  const kv = name(arch, type, {
    ...prefix(arch, {
      context_length: ['u32', 512],
      embedding_length: ['u32', n_embd],
      block_count: ['u32', n_layer],
      feed_forward_length: ['u32', n_ff],
      'attention.head_count': ['u32', n_head],
      'attention.key_length': ['u32', head],
      'attention.value_length': ['u32', head],
      'attention.layer_norm_rms_epsilon': ['f32', 1e-6],
      'attention.relative_buckets_count': ['u32', 16],
      ...(n_dec > 0
        ? { decoder_start_token_id: ['u32', 1], ...(n_dec === n_layer ? {} : { decoder_block_count: ['u32', n_dec] }) }
        : { pooling_type: ['u32', 1] }),
    }),
    ...unigram,
  });
  const attention = (b, spread) => {
    for (const t of ['q', 'k', 'v']) m.matrix(`${b}attn_${t}.weight`, n_embd, n_head * head, t === 'v' ? 1.2 : spread);
    m.matrix(`${b}attn_o.weight`, n_head * head, n_embd);
  };
  m.table('token_embd.weight', n_embd, n_vocab, n_dec > 0 && !gated ? 0.3 : 1, n_dec > 0 ? 3 : 0);
  for (const [part, n] of [
    ['enc', n_layer],
    ['dec', n_dec],
  ]) {
    for (let i = 0; i < n; i++) {
      const b = `${part}.blk.${i}.`;
      m.vector(`${b}attn_norm.weight`, n_embd, 1, 0.2);
      if (i === 0 || !gated) m.table(`${b}attn_rel_b.weight`, n_head, 16, 1.5, 0, 'f32');
      attention(b, 0.6);
      if (part === 'dec') {
        m.vector(`${b}cross_attn_norm.weight`, n_embd, 1, 0.2);
        attention(`${b}cross_`, 0.7);
      }
      m.vector(`${b}ffn_norm.weight`, n_embd, 1, 0.2);
      for (const t of gated ? ['gate', 'up'] : ['up']) m.matrix(`${b}ffn_${t}.weight`, n_embd, n_ff, 1.3);
      m.matrix(`${b}ffn_down.weight`, n_ff, n_embd, 1.3);
    }
    if (n > 0) m.vector(`${part}.output_norm.weight`, n_embd, 1, 0.2);
  }
  if (n_dec > 0 && gated) m.table('output.weight', n_embd, n_vocab, 0.5, 3);
  return { kv, tensors: m.tensors };
}

Object.assign(families, {
  gemma3n: family((type, seed) => gemma3n({ type, seed }), 1, 4),
  t5encoder: family((type, seed) => t5({ type, seed, gated: true }), 1, 1),
  't5encoder-relu': family((type, seed) => t5({ type, seed, gated: false }), 1, 1),
  t5: family((type, seed) => t5({ type, seed, gated: true, n_layer: 3, n_dec: 2 }), 4, 4),
  't5-relu': family((type, seed) => t5({ type, seed, gated: false, n_dec: 2 }), 7, 7),
});

const falcon = { ...small, n_head: 4, layer: true, fused: true, gateless: true, parallel: true };
Object.assign(families, {
  falcon: family((type, seed) => decoder('falcon', { ...falcon, type, seed, n_head_kv: 1 }), 72, 1),
  'falcon-40b': family(
    (type, seed) =>
      decoder('falcon', {
        ...falcon,
        type,
        seed,
        layerExtra(m, b) {
          m.vector(`${b}attn_norm_2.weight`, 32, 1, 0.2);
          m.vector(`${b}attn_norm_2.bias`, 32, 0, 0.2);
        },
      }),
    24,
    1,
  ),
});

/**
 * Converts a model to PowerInfer's layout. rows: the last product is stored with a row per neuron;
 * without it the model stays dense and only states that it has ReLU. rank: rank of the predictors
 * (0: none).
 */
function powerinferOf({ kv, tensors }, { rows = true, rank = 0, threshold = 0.5 }) {
  const m = maker(99, 'f32');
  const n_layer = kv[`${kv['general.architecture'][1]}.block_count`][1];
  const turned = ({ name, ne: [n, k], type, data }) => ({
    name: name.replace('ffn_down', 'ffn_down_t'),
    ne: [k, n],
    type,
    data: data.map((_, i) => data[(i % k) * n + Math.floor(i / k)]),
  });
  const all = tensors.map((t) =>
    !rows || !t.name.includes('ffn_down') ? t : t.ne.length === 2 ? turned(t) : { ...t, name: t.name.replace('ffn_down', 'ffn_down_t') },
  );
  const [n_embd, n_ff] = tensors.find(({ name }) => name === 'blk.0.ffn_up.weight').ne;
  for (let il = 0; il < n_layer && rank > 0; il++) {
    m.matrix(`blk.${il}.fc1.weight`, n_embd, rank);
    m.matrix(`blk.${il}.fc2.weight`, rank, n_ff);
  }
  return { kv: { ...kv, 'powerinfer.sparse_threshold': ['f32', threshold] }, tensors: [...all, ...m.tensors] };
}

/** Dense models of PowerInfer's architectures. Native llama.cpp lacks two of them (bamboo, opt). */
const relus = {
  llama: () => decoder('llama', { seed: 71 }),
  bamboo: () => decoder('bamboo', { seed: 72 }),
  falcon: () => families['falcon-40b'].make('f32', 73),
  // PowerInfer's converter writes no epsilon and counts the two rows before the first position.
  opt() {
    const { kv, tensors } = decoder('opt', {
      seed: 74,
      n_head_kv: 4,
      n_ff: 48,
      layer: true,
      tied: true,
      qkvBias: true,
      outBias: true,
      ffnBias: true,
      gateless: true,
      extra: (m) => m.table('position_embd.weight', 32, 66, 0.3, 0, 'f32'),
      kv: { context_length: ['u32', 66] },
    });
    const { 'opt.attention.layer_norm_epsilon': _, ...rest } = kv;
    return { kv: rest, tensors };
  },
};
/**
 * Models with ReLU that tests make: `NAME-relu` dense, `NAME-rows` with a row of the last product
 * per neuron, `NAME-predicted` with predictors as well. name -> () => { kv, tensors }. No native
 * program has answers for them, so they are compared with the scalar reference.
 */
export const sparse = Object.fromEntries(
  Object.entries(relus).flatMap(([name, make]) => [
    [`${name}-relu`, () => powerinferOf(make(), { rows: false })],
    [`${name}-rows`, () => powerinferOf(make(), {})],
    [`${name}-predicted`, () => powerinferOf(make(), { rank: 6 })],
  ]),
);

/** name -> () => { kv, tensors } of all models that tests make. */
export const made = Object.fromEntries(
  Object.entries(families).flatMap(([name, { make, seeds }]) => [
    [name, () => make('f32', seeds.f32)],
    [`${name}-q4_0`, () => make('q4_0', seeds.q4_0)],
  ]),
);

/**
 * A LoRA adapter as convert_lora_to_gguf.py writes it. `weights`: [name, inputs, outputs] of each
 * adapted matrix; for token_embd [name, rows, width].
 */
function adapter(arch, { type = 'f32', seed, rank, alpha, weights }) {
  const m = maker(seed, type);
  for (const [at, n_in, n_out] of weights) {
    if (at === 'token_embd') m.table('token_embd.weight.lora_a', rank, n_in, 1);
    else m.matrix(`${at}.weight.lora_a`, n_in, rank);
    m.matrix(`${at}.weight.lora_b`, rank, n_out);
  }
  const kv = {
    'general.type': ['str', 'adapter'],
    'general.architecture': ['str', arch],
    'general.name': ['str', 'golden adapter'],
    'adapter.type': ['str', 'lora'],
    ...(alpha ? { 'adapter.lora.alpha': ['f32', alpha] } : {}),
  };
  return { kv, tensors: m.tensors };
}

/** name -> { model: file that it adapts, scale, make(seed) }. */
export const adapters = {
  'llama-lora': {
    model: 'llama',
    scale: 0.75,
    make: (seed = 604) =>
      adapter('llama', {
        seed,
        rank: 4,
        alpha: 2,
        weights: [
          ['token_embd', 272, 32],
          ['blk.0.attn_q', 32, 32],
          ['blk.0.attn_v', 32, 16],
          ['blk.1.ffn_down', 40, 32],
          ['output', 32, 272],
        ],
      }),
  },
  'llama-q4_0-lora': {
    model: 'llama-q4_0',
    scale: -0.5,
    make: (seed = 560) =>
      adapter('llama', {
        seed,
        type: 'f16',
        rank: 8,
        weights: ['attn_k', 'attn_output', 'ffn_gate', 'ffn_up'].map((w) => [`blk.1.${w}`, 64, w === 'attn_k' ? 32 : 64]),
      }),
  },
  'bert-lora': {
    model: 'bert',
    scale: 1,
    make: (seed = 53) =>
      adapter('bert', {
        seed,
        type: 'f16',
        rank: 2,
        alpha: 1,
        weights: [
          ['blk.0.attn_v', 32, 32],
          ['blk.1.ffn_up', 32, 64],
        ],
      }),
  },
};
