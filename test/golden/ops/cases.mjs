// The operator cases, as data. native.mjs computes them with ggml; inputs.mjs makes their inputs. A
// source is { type, ne, fill..., view?, permute? }. It is filled in storage order, converted to its
// type, then seen through view (ggml_view_4d, bytes) and permute (ggml_permute). Fills:
// - seed and scale: uniform in [-scale, scale); plus is added
// - values: these numbers
// - modulo: integers 0..modulo-1 by seed
// - causal = n_past: 0 or -inf; row i sees key j if j <= i + n_past
// - distance: -|i + n_past - j|

let seed = 1000;
const t = (type, ne, more = {}) => ({ type, ne, seed: seed++, scale: 1, ...more });
const f32 = (ne, more) => t('f32', ne, more);
const f16 = (ne, more) => t('f16', ne, more);
const ints = (list, type = 'i32') => ({ type, ne: [list.length], values: list });
const heads = [0, 2, 1, 3];
const list = [];
const add = (name, op, src, params = {}) => list.push({ name, op, src, params });

// mul_mat: src0 weights [K, M], src1 activations [K, N]
for (const type of ['f32', 'f16', 'bf16', 'q4_0', 'q8_0']) {
  add(`${type} one column`, 'mul_mat', [t(type, [64, 11]), f32([64, 1])]);
  add(`${type} many columns`, 'mul_mat', [t(type, [96, 7]), f32([96, 9])]);
  add(`${type} broadcast r2 = 2, r3 = 3`, 'mul_mat', [t(type, [32, 3, 2, 1]), f32([32, 2, 4, 3])]);
  add(`${type} permuted activations`, 'mul_mat', [t(type, [32, 5, 2]), f32([32, 4, 3], { permute: heads })]);
}
add('f32 odd K', 'mul_mat', [f32([37, 5]), f32([37, 3])]);
add('f16 odd K', 'mul_mat', [f16([37, 5]), f32([37, 3])]);
add('f16 weights, f16 activations', 'mul_mat', [f16([40, 5]), f16([40, 3])]);
add('f32 permuted weights', 'mul_mat', [f32([24, 2, 6], { permute: heads }), f32([24, 4, 5], { permute: heads })]);
add('K*Q: f16 cache [head, heads, n_kv] permuted, grouped queries', 'mul_mat', [
  f16([16, 2, 13], { permute: heads }),
  f32([16, 6, 5], { permute: heads }),
]);
add('V*P: f16 cache [n_kv, head, heads], probabilities', 'mul_mat', [f16([24, 16, 2]), f32([24, 5, 6], { plus: 1 })]);
add('f16 view into a longer cache', 'mul_mat', [
  f16([16, 2, 32], { view: { ne: [16, 7, 2, 1], nb: [64, 32, 2048], offset: 128 } }),
  f32([16, 3, 4]),
]);
add('q8_0 rows of a view', 'mul_mat', [
  t('q8_0', [64, 12]),
  f32([64, 8], { view: { ne: [64, 3, 1, 1], nb: [512, 2048, 2048], offset: 256 } }),
]);

// rope: [head, heads, tokens] and positions
const rope = (name, more = {}, src = f32([16, 3, 4]), factors = null, pos = [0, 1, 7, 130]) =>
  add(name, 'rope_ext', [src, ints(pos), factors], {
    n_dims: 16,
    mode: 0,
    n_ctx_orig: 64,
    freq_base: 10000,
    freq_scale: 1,
    ext_factor: 0,
    attn_factor: 1,
    beta_fast: 32,
    beta_slow: 1,
    ...more,
  });
for (const [mode, kind] of [
  [0, 'adjacent'],
  [2, 'neox'],
]) {
  rope(kind, { mode });
  rope(`${kind} first 8 dims`, { mode, n_dims: 8 });
  rope(`${kind} freq_scale, attn_factor`, { mode, freq_scale: 0.25, attn_factor: 1.19 });
  rope(`${kind} YaRN`, { mode, freq_base: 50, freq_scale: 0.25, ext_factor: 1 });
  rope(`${kind} YaRN half mixed, other betas`, {
    mode,
    freq_base: 1000,
    freq_scale: 0.125,
    ext_factor: 0.5,
    attn_factor: 0.9,
    beta_fast: 8,
    beta_slow: 2,
    n_ctx_orig: 256,
  });
  rope(`${kind} frequency factors`, { mode, freq_base: 500 }, f32([16, 3, 4]), f32([8], { plus: 3, scale: 2 }));
  rope(`${kind} f16`, { mode }, f16([16, 3, 4]));
  rope(`${kind} heads inside a fused row`, { mode }, f32([64, 4], { view: { ne: [16, 2, 4, 1], nb: [64, 256, 1024], offset: 64 } }));
}

// soft_max_ext: [n_kv, tokens, heads]
const soft = (name, src, mask, scale, max_bias = 0) => add(name, 'soft_max_ext', [src, mask], { scale, max_bias });
soft('plain', f32([13, 4, 2], { scale: 5 }), null, 1);
soft('scale', f32([13, 4, 2], { scale: 9 }), null, 0.25);
soft('f32 causal mask', f32([13, 4, 3], { scale: 5 }), { type: 'f32', ne: [13, 4], causal: 6 }, 0.5);
soft('f16 causal mask', f32([13, 4, 3], { scale: 5 }), { type: 'f16', ne: [13, 4], causal: 0 }, 0.5);
soft('mask of any values', f32([21, 3, 2], { scale: 5 }), f16([21, 3], { scale: 4 }), 0.5);
soft('mask by sequence, ne3 broadcast', f32([9, 3, 2, 4], { scale: 5 }), f32([9, 3, 1, 2], { scale: 4 }), 0.5);
soft('ALiBi, 8 heads', f32([13, 4, 8], { scale: 3 }), { type: 'f32', ne: [13, 4], distance: 6 }, 0.5, 8);
soft('ALiBi, 6 heads (no power of two)', f32([13, 4, 6], { scale: 3 }), { type: 'f16', ne: [13, 4], distance: 9 }, 0.5, 8);
soft('long row', f32([517, 2, 1], { scale: 8 }), null, 1);

// flash_attn_ext: q [head, tokens, heads], k and v [head, n_kv, kv heads], mask f16 [n_kv, tokens]
function flash(
  name,
  { type = 'f16', d = 32, dv = d, n_kv = 24, tokens = 4, n_head = 4, n_kv_head = 2, past = n_kv - tokens, mask, sinks, ...params } = {},
) {
  const cache = (width) => t(type, [width, n_kv_head, n_kv], { permute: heads });
  add(
    name,
    'flash_attn_ext',
    [
      f32([d, n_head, tokens], { permute: heads, scale: 2 }),
      cache(d),
      cache(dv),
      mask === null ? null : (mask ?? { type: 'f16', ne: [n_kv, tokens], causal: past }),
      ...(sinks ? [{ type: 'f32', ne: [n_head], values: sinks }] : []),
    ],
    { scale: 1 / 4, max_bias: 0, logit_softcap: 0, ...params },
  );
}
for (const type of ['f16', 'f32', 'q8_0']) {
  flash(`${type} causal, grouped queries`, { type });
  flash(`${type} one token`, { type, tokens: 1, n_kv: 70 });
}
flash('f16 no mask', { mask: null });
flash('f32 soft cap', { type: 'f32', logit_softcap: 2 });
flash('f16 soft cap', { logit_softcap: 2 });
flash('f32 ALiBi', { type: 'f32', n_head: 6, max_bias: 8, mask: { type: 'f16', ne: [24, 4], distance: 20 } });
flash('f32 across 256 keys, one kv head', { type: 'f32', n_kv: 300, tokens: 2, n_kv_head: 1 });
flash('f16 across 256 keys', { n_kv: 521, tokens: 1 });
flash('f32 values narrower than keys', { type: 'f32', d: 48, dv: 32 });
flash('f32 first rows see one key', { type: 'f32', n_kv: 8, tokens: 8, past: 0 });

// norms
for (const op of ['norm', 'rms_norm', 'l2_norm']) {
  add('rows', op, [f32([37, 3, 2], { plus: 0.5 })], { eps: 1e-5 });
  add('large eps', op, [f32([64, 2], { scale: 0.1 })], { eps: 0.5 });
  add('view with gaps', op, [f32([64, 6], { view: { ne: [32, 3, 1, 1], nb: [512, 1536, 1536], offset: 128 } })], { eps: 1e-6 });
}

// activations
for (const op of ['gelu', 'gelu_quick', 'gelu_erf', 'silu', 'relu', 'tanh', 'sigmoid', 'exp'])
  add('rows', op, [f32([67, 3], { scale: op === 'exp' ? 4 : 12 })]);
for (const op of ['swiglu', 'geglu', 'reglu']) add('gate first in one row', op, [f32([70, 3], { scale: 6 })]);
for (const op of ['swiglu_split', 'geglu_split', 'reglu_split']) add('gate and up apart', op, [f32([35, 3], { scale: 6 }), f32([35, 3])]);

// sums
for (const op of ['sum_rows', 'mean', 'argmax']) add('rows', op, [f32([45, 4].concat(op === 'argmax' ? [] : [2, 2]))]);
add('average of 3, step 2', 'pool_1d', [f32([21, 2])], { kind: 1, k0: 3, s0: 2, p0: 0 });
add('largest of 2', 'pool_1d', [f32([20, 3])], { kind: 0, k0: 2, s0: 2, p0: 0 });
add('rows', 'argsort', [f32([19, 3])], { order: 0 });
add('rows, descending', 'argsort', [f32([19, 3])], { order: 1 });

// binary operators with broadcast
for (const op of ['add', 'sub', 'mul', 'div']) {
  add('same shape', op, [f32([33, 3, 2]), f32([33, 3, 2], { plus: 2 })]);
  add('one row', op, [f32([33, 3, 2]), f32([33], { plus: 2 })]);
  add('every dimension repeated', op, [f32([12, 4, 6, 4]), f32([4, 2, 3, 2], { plus: 2 })]);
  add('permuted src0', op, [f32([10, 3, 4], { permute: heads }), f32([10, 4, 1], { plus: 2 })]);
}
add('one value', 'add', [f32([17, 2]), f32([1])]);
add('f16 and f32', 'add', [f16([24, 3]), f32([24, 3])]);
add('f16 and f16', 'mul', [f16([24, 3]), f16([24])]);
add('transposed src1', 'mul', [f32([9, 5]), f32([5, 9], { permute: [1, 0, 2, 3] })]);
add('to a multiple', 'repeat', [f32([3, 2, 1, 2]), f32([9, 4, 5, 2])]);
for (const dim of [0, 1, 2])
  add(`dimension ${dim}`, 'concat', [f32([6, 3, 2]), f32([6, 3, 2].map((n, i) => (i === dim ? 4 : n)))], { dim });

// one source
add('rows', 'scale', [f32([21, 3])], { s: -1.7 });
add('rows', 'clamp', [f32([21, 3], { scale: 3 })], { min: -1, max: 0.5 });
add('n_past 2', 'diag_mask_inf', [f32([9, 5, 2])], { n_past: 2 });

// rows by index
for (const type of ['f32', 'f16', 'q4_0', 'q8_0']) add(type, 'get_rows', [t(type, [64, 9]), ints([3, 0, 8, 3])]);
add('by batch', 'get_rows', [f32([16, 5, 3]), { type: 'i32', ne: [4, 3], seed: seed++, modulo: 5 }]);
for (const type of ['f32', 'f16', 'q8_0', 'q4_0'])
  add(`into ${type}`, 'set_rows', [t(type, [32, 6]), f32([32, 3]), ints([4, 1, 5], 'i64')]);

// copies: src0 into the type and shape of src1, element by element in order
for (const type of ['f32', 'f16', 'bf16', 'q8_0', 'q4_0']) add(`f32 to ${type}`, 'cpy', [f32([64, 3]), t(type, [64, 3])]);
for (const type of ['f16', 'bf16', 'q8_0', 'q4_0']) add(`${type} to f32`, 'cpy', [t(type, [64, 3]), f32([64, 3])]);
add('f32 permuted to f16', 'cpy', [f32([8, 3, 5], { permute: heads }), f16([8, 5, 3])]);
add('f32 transposed to f32', 'cpy', [f32([7, 5], { permute: [1, 0, 2, 3] }), f32([5, 7])]);
add('f32 permuted to q8_0', 'cpy', [f32([32, 3, 4], { permute: heads }), t('q8_0', [32, 4, 3])]);
add('f32 to f16, other shape', 'cpy', [f32([6, 10]), f16([15, 4])]);
add('f16 transposed to bf16', 'cpy', [f16([7, 5], { permute: [1, 0, 2, 3] }), t('bf16', [5, 7])]);
add('f32 with rounding cases', 'cpy', [
  { type: 'f32', ne: [12], values: [0, -0, 1e-8, 6e-8, 65504, 65519, 65520, 2049, 2051, -1e30, 0.1, 3.0517578125e-5] },
  f16([12]),
]);
add('permuted', 'cont', [f32([6, 4, 3], { permute: [2, 0, 1, 3] })]);
add('f16 transposed', 'cont', [f16([6, 5], { permute: [1, 0, 2, 3] })]);

// element by element, and reductions over all elements
for (const op of ['sqr', 'neg', 'abs', 'step'])
  add('rows', op, [{ type: 'f32', ne: [6, 2], values: [0, 3e38, 1.5, -2.5, 1e30, -1e-30, 3, -4, 1e-40, 7.25, -0.1, 65504] }]);
for (const op of ['sqrt', 'log']) add('rows above 0', op, [f32([67, 3], { scale: 3, plus: 3.0001 })]);
add('far numbers', 'log', [{ type: 'f32', ne: [9], values: [1e-45, 1e-38, 1e-7, 0.9999999, 1, 1.0000001, 2.718281828, 1e38, 0] }]);
add('all elements', 'sum', [f32([37, 3, 2, 2], { plus: 0.5 })]);
add('numbers that cancel', 'sum', [{ type: 'f32', ne: [6], values: [1e8, 1, -1e8, 1, 3e7, -3e7] }]);

// zeros around a tensor
const pad = (name, src, p) => add(name, 'pad_ext', [src], { lp0: 0, rp0: 0, lp1: 0, rp1: 0, lp2: 0, rp2: 0, lp3: 0, rp3: 0, ...p });
pad('behind every dimension', f32([5, 3, 2, 2]), { rp0: 3, rp1: 1, rp2: 2, rp3: 1 });
pad('before and behind', f32([5, 3, 2]), { lp0: 2, rp0: 1, lp1: 1, rp1: 0, lp2: 1, rp2: 1 });
pad('nothing', f32([5, 3]), {});

// groups of channels
add('one group', 'group_norm', [f32([7, 5, 4, 2], { plus: 0.5 })], { groups: 1, eps: 1e-6 });
add('groups of two channels', 'group_norm', [f32([7, 5, 6, 2], { plus: 3 })], { groups: 3, eps: 1e-5 });
add('a smaller last group', 'group_norm', [f32([4, 3, 5])], { groups: 3, eps: 1e-5 });

// convolutions: kernel, data
const line = { s0: 1, p0: 0, d0: 1 };
const square = { s0: 1, s1: 1, p0: 0, p1: 0, d0: 1, d1: 1 };
add('one dimension', 'im2col', [f16([3, 4, 2]), f32([9, 4, 2])], { ...line, s1: 0, p1: 0, d1: 0, p0: 1, is_2D: 0, type: 1 });
add('one dimension, stride and dilation, f32', 'im2col', [f32([3, 2, 1]), f32([17, 2])], {
  s0: 2,
  s1: 0,
  p0: 2,
  p1: 0,
  d0: 3,
  d1: 0,
  is_2D: 0,
  type: 0,
});
add('two dimensions', 'im2col', [f16([3, 3, 2, 1]), f32([6, 5, 2, 2])], { ...square, p0: 1, p1: 1, is_2D: 1, type: 1 });
add('two dimensions, all numbers different, f32', 'im2col', [f32([3, 2, 2, 1]), f32([11, 9, 2, 2])], {
  s0: 2,
  s1: 1,
  p0: 1,
  p1: 2,
  d0: 2,
  d1: 3,
  is_2D: 1,
  type: 0,
});
for (const type of ['f16', 'f32']) {
  add(`${type}`, 'conv_1d', [t(type, [3, 4, 5]), f32([19, 4])], { s0: 2, p0: 1, d0: 1 });
  add(`${type}, dilation`, 'conv_1d', [t(type, [2, 3, 4]), f32([11, 3])], { s0: 1, p0: 0, d0: 3 });
  add(`${type}`, 'conv_2d', [t(type, [3, 3, 4, 5]), f32([8, 7, 4])], { ...square, p0: 1, p1: 1 });
  add(`${type}, two images, all numbers different`, 'conv_2d', [t(type, [3, 2, 2, 3]), f32([9, 8, 2, 2])], {
    s0: 2,
    s1: 1,
    p0: 1,
    p1: 2,
    d0: 1,
    d1: 2,
  });
}

// rope at positions below 0
for (const [mode, kind] of [
  [0, 'adjacent'],
  [2, 'neox'],
]) {
  rope(`${kind} below 0`, { mode }, f32([16, 3, 4]), null, [-1, -130, 5, 0]);
  rope(
    `${kind} below 0, first 6 dims, YaRN`,
    { mode, n_dims: 6, freq_base: 50, freq_scale: 0.25, ext_factor: 1 },
    f32([16, 2, 4]),
    null,
    [-3, 3, -200, -7],
  );
  rope(`${kind} below 0, f16`, { mode }, f16([16, 3, 4]), null, [-1, -9, -64, 2]);
}

// recurrent layers. ssm_conv: for each channel the last d_conv - 1 values and the new ones; weights
add('softplus', 'softplus', [f32([33, 3], { scale: 30 })]);
add('kernel of 4', 'ssm_conv', [f32([4 - 1 + 6, 37]), f32([4, 37])], {});
add('kernel of 3, three sequences', 'ssm_conv', [f32([3 - 1 + 5, 16, 3]), f32([3, 16])], {});
// ssm_scan: states, x, dt, A, B, C, and the state of each sequence
const scan = (name, dState, dim, heads, groups, tokens, sequences, decays) =>
  add(
    name,
    'ssm_scan',
    [
      f32([dState, dim, heads, sequences + 1]),
      f32([dim, heads, tokens, sequences]),
      f32([heads, tokens, sequences], { scale: 2 }),
      f32([decays, heads], { plus: -1.1 }),
      f32([dState, groups, tokens, sequences]),
      f32([dState, groups, tokens, sequences]),
      ints([1, 0, 2].slice(0, sequences)),
    ],
    { snapshots: 1 },
  );
scan('Mamba 1', 16, 1, 22, 1, 9, 2, 16);
scan('Mamba 2', 32, 12, 6, 2, 11, 2, 1);
scan('Mamba 2, one token', 64, 6, 4, 1, 1, 3, 1);
// gated_delta_net: q, k, v, g, beta, states
const delta = (name, n, headsK, heads, tokens, sequences, gates) =>
  add(
    name,
    'gated_delta_net',
    [
      f32([n, headsK, tokens, sequences]),
      f32([n, headsK, tokens, sequences], { scale: 0.25 }),
      f32([n, heads, tokens, sequences]),
      f32([gates, heads, tokens, sequences], { plus: -1 }),
      f32([1, heads, tokens, sequences], { scale: 0.5, plus: 0.5 }),
      f32([n, n, heads, sequences], { scale: 0.5 }),
    ],
    { snapshots: 1 },
  );
delta('a decay for each head', 32, 4, 4, 13, 1, 1);
delta('heads share keys', 16, 2, 6, 5, 1, 1);
delta('a decay for each row', 16, 3, 3, 9, 2, 16);
delta('one token', 20, 2, 4, 1, 3, 1);

// mul_mat_id: matrices [K, R, E], activations [K, 1 or U, T], ids [U, T]
// add_id: [R, U, T], biases [R, E], ids
const ids = (used, tokens, matrices) => t('i32', [used, tokens], { modulo: matrices });
for (const type of ['f32', 'f16', 'bf16', 'q4_0', 'q8_0']) {
  add(`${type} one token, one activation for all`, 'mul_mat_id', [t(type, [64, 16, 6]), f32([64, 1, 1]), ids(3, 1, 6)]);
  add(`${type} one activation for all`, 'mul_mat_id', [t(type, [96, 16, 4]), f32([96, 1, 9]), ids(2, 9, 4)]);
  add(`${type} an activation each, odd rows`, 'mul_mat_id', [t(type, [32, 7, 5]), f32([32, 3, 6]), ids(3, 6, 5)]);
}
add('ids of a longer list', 'mul_mat_id', [
  f32([24, 5, 6]),
  f32([24, 1, 4]),
  t('i32', [6, 4], { modulo: 6, view: { ne: [2, 4, 1, 1], nb: [24, 96, 96], offset: 0 } }),
]);
add('many of one matrix', 'mul_mat_id', [f32([17, 18, 2]), f32([17, 1, 80]), ids(1, 80, 2)]);
add('one token', 'add_id', [f32([13, 3, 1]), f32([13, 5]), ids(3, 1, 5)]);
add('many tokens', 'add_id', [f32([32, 2, 7]), f32([32, 4]), ids(2, 7, 4)]);

// gpt-oss: limits of 7, and heads with sinks far below all scores, among them, and far above
const limits = { alpha: 1.702, limit: 7 };
add('gate and up apart', 'swiglu_oai', [f32([35, 3], { scale: 12 }), f32([35, 3], { scale: 12 })], limits);
add(
  'limits',
  'swiglu_oai',
  [
    { type: 'f32', ne: [8], values: [7, 7.0001, 300, -7, -300, 0, -0, 1e-3] },
    { type: 'f32', ne: [8], values: [7, -7, -300, 7.5, 300, -1, 0, -7.5] },
  ],
  limits,
);
const sinks = [-90, 0.5, 2, 60];
for (const type of ['f32', 'q8_0']) flash(`${type} with sinks`, { type, sinks });
flash('f32 one token with sinks, across 256 keys', { type: 'f32', tokens: 1, n_kv: 300, sinks });
flash('f32 soft cap and sinks', { type: 'f32', logit_softcap: 2, sinks });
flash('f32 ALiBi and sinks', { type: 'f32', max_bias: 8, mask: { type: 'f16', ne: [24, 4], distance: 20 }, sinks });

export const cases = list;
