// Computes the cases with native ggml (AVX2 build, one thread). Writes golden.json and golden.bin.
// README.md says how to prepare the folder.
//   node native.mjs FOLDER_WITH_NODE_MODULES
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { cases } from './cases.mjs';
import { fill } from './inputs.mjs';

const folder = resolve(process.argv[2]);
const koffi = createRequire(join(folder, 'x.js'))('koffi');
const libs = join(folder, 'node_modules/@node-llama-cpp/linux-x64/bins/linux-x64');
const base = koffi.load(join(libs, 'libggml-base.so'), { global: true });
const cpu = koffi.load(join(libs, 'libggml-cpu-haswell.so'));
koffi.struct('ggml_init_params', { mem_size: 'size_t', mem_buffer: 'void *', no_alloc: 'bool' });

/**
 * Declares an operator by its argument letters: T tensor, f float, i int (or bool), l int64_t, z
 * size_t. The context comes first, and a tensor is returned.
 */
const letters = { T: 'void *', f: 'float', i: 'int', l: 'int64_t', z: 'size_t' };
const fn = (lib, result, name, args) => lib.func(`${result} ${name}(${args.join(', ') || 'void'})`);
const op = (name, args) => fn(base, 'void *', `ggml_${name}`, ['void *', ...[...args].map((a) => letters[a])]);
const ggml = {
  init: fn(base, 'void *', 'ggml_init', ['ggml_init_params']),
  free: fn(base, 'void', 'ggml_free', ['void *']),
  nbytes: fn(base, 'size_t', 'ggml_nbytes', ['void *']),
  data: fn(base, 'void *', 'ggml_get_data', ['void *']),
  quantize: fn(base, 'size_t', 'ggml_quantize_chunk', ['int', 'float *', 'void *', 'int64_t', 'int64_t', 'int64_t', 'void *']),
  toHalf: fn(base, 'void', 'ggml_fp32_to_fp16_row', ['float *', 'void *', 'int64_t']),
  toBrain: fn(base, 'void', 'ggml_fp32_to_bf16_row_ref', ['float *', 'void *', 'int64_t']),
  graph: fn(base, 'void *', 'ggml_new_graph', ['void *']),
  expand: fn(base, 'void', 'ggml_build_forward_expand', ['void *', 'void *']),
  tensor: op('new_tensor_4d', 'illll'),
  view: op('view_4d', 'Tllllzzzz'),
  permute: op('permute', 'Tiiii'),
  start: fn(cpu, 'void', 'ggml_cpu_init', []),
  addSinks: fn(base, 'void', 'ggml_flash_attn_ext_add_sinks', ['void *', 'void *']),
  compute: fn(cpu, 'int', 'ggml_graph_compute_with_ctx', ['void *', 'void *', 'int']),
};
const unary = Object.fromEntries(
  [
    'gelu',
    'gelu_quick',
    'gelu_erf',
    'silu',
    'relu',
    'tanh',
    'sigmoid',
    'exp',
    'softplus',
    'sqr',
    'sqrt',
    'log',
    'neg',
    'abs',
    'step',
    'sum',
    'swiglu',
    'geglu',
    'reglu',
    'sum_rows',
    'mean',
    'argmax',
    'cont',
  ].map((n) => [n, ['T']]),
);
const binary = Object.fromEntries(
  ['mul_mat', 'add', 'sub', 'mul', 'div', 'repeat', 'swiglu_split', 'geglu_split', 'reglu_split', 'get_rows', 'cpy'].map((n) => [
    n,
    ['TT'],
  ]),
);
/** name -> argument letters, then names of the parameters */
const signatures = {
  ...unary,
  ...binary,
  set_rows: ['TTT'],
  mul_mat_id: ['TTT'],
  add_id: ['TTT'],
  swiglu_oai: ['TTff', 'alpha', 'limit'],
  norm: ['Tf', 'eps'],
  rms_norm: ['Tf', 'eps'],
  l2_norm: ['Tf', 'eps'],
  scale: ['Tf', 's'],
  clamp: ['Tff', 'min', 'max'],
  diag_mask_inf: ['Ti', 'n_past'],
  concat: ['TTi', 'dim'],
  soft_max_ext: ['TTff', 'scale', 'max_bias'],
  flash_attn_ext: ['TTTTfff', 'scale', 'max_bias', 'logit_softcap'],
  ssm_conv: ['TT'],
  ssm_scan: ['TTTTTTTl', 'snapshots'],
  gated_delta_net: ['TTTTTTl', 'snapshots'],
  pool_1d: ['Tiiii', 'kind', 'k0', 's0', 'p0'],
  argsort: ['Ti', 'order'],
  pad_ext: ['Tiiiiiiii', 'lp0', 'rp0', 'lp1', 'rp1', 'lp2', 'rp2', 'lp3', 'rp3'],
  group_norm: ['Tif', 'groups', 'eps'],
  im2col: ['TTiiiiiiii', 's0', 's1', 'p0', 'p1', 'd0', 'd1', 'is_2D', 'type'],
  conv_1d: ['TTiii', 's0', 'p0', 'd0'],
  conv_2d: ['TTiiiiii', 's0', 's1', 'p0', 'p1', 'd0', 'd1'],
  rope_ext: [
    'TTTiiiffffff',
    'n_dims',
    'mode',
    'n_ctx_orig',
    'freq_base',
    'freq_scale',
    'ext_factor',
    'attn_factor',
    'beta_fast',
    'beta_slow',
  ],
};
const types = { f32: 0, f16: 1, q4_0: 2, q8_0: 8, i32: 26, i64: 27, bf16: 30 };
const typeNames = Object.fromEntries(Object.entries(types).map(([k, v]) => [v, k]));

function bytesOf(src, size) {
  const values = fill(src);
  const floats = Float32Array.from(values);
  const out = new Uint8Array(size);
  const n = values.length;
  if (src.type === 'f32') return new Uint8Array(floats.buffer);
  if (src.type === 'i32') return new Uint8Array(Int32Array.from(values).buffer);
  if (src.type === 'i64') return new Uint8Array(BigInt64Array.from(values, (v) => BigInt(v)).buffer);
  if (src.type === 'f16') ggml.toHalf(floats, out, n);
  else if (src.type === 'bf16') ggml.toBrain(floats, out, n);
  else ggml.quantize(types[src.type], floats, out, 0, n / src.ne[0], src.ne[0], null);
  return out;
}
function source(context, src) {
  if (!src) return null;
  const ne = [...src.ne, 1, 1, 1].slice(0, 4);
  let t = ggml.tensor(context, types[src.type], ...ne);
  const size = Number(ggml.nbytes(t));
  koffi.encode(ggml.data(t), koffi.array('uint8_t', size, 'Typed'), bytesOf(src, size));
  if (src.view) t = ggml.view(context, t, ...src.view.ne, ...src.view.nb, src.view.offset);
  return src.permute ? ggml.permute(context, t, ...src.permute) : t;
}

ggml.start();
const parts = [];
const index = [];
let offset = 0;
for (const { name, op: opName, src, params } of cases) {
  const context = ggml.init({ mem_size: 64 << 20, mem_buffer: null, no_alloc: false });
  const tensors = src.map((s) => source(context, s));
  const [args, ...names] = signatures[opName];
  const n = [...args].filter((letter) => letter === 'T').length;
  const result = op(opName, args)(context, ...tensors.slice(0, n), ...names.map((key) => params[key]));
  if (opName === 'flash_attn_ext' && tensors.length > n) ggml.addSinks(result, tensors[n]);
  const graph = ggml.graph(context);
  ggml.expand(graph, result);
  if (ggml.compute(context, graph, 1)) throw new Error(`${opName} ${name}`);
  const size = Number(ggml.nbytes(result));
  const bytes = Uint8Array.from(koffi.decode(ggml.data(result), koffi.array('uint8_t', size, 'Typed')));
  // struct ggml_tensor: type at byte 0, ne at 16
  const dst = {
    type: typeNames[koffi.decode(result, 0, 'int32_t')],
    ne: Array.from(koffi.decode(result, 16, koffi.array('int64_t', 4)), Number),
  };
  index.push({ op: opName, name, src, ...(names.length ? { params } : {}), dst, offset, bytes: size });
  const padded = new Uint8Array(Math.ceil(size / 8) * 8);
  padded.set(bytes);
  parts.push(padded);
  offset += padded.length;
  ggml.free(context);
}
writeFileSync(new URL('golden.bin', import.meta.url), Buffer.concat(parts));
writeFileSync(
  new URL('golden.json', import.meta.url),
  `{\n "engine": "native ggml of llama.cpp v0.5.0, AVX2, one thread",\n "cases": [\n${index.map((c) => '  ' + JSON.stringify(c)).join(',\n')}\n ]\n}\n`,
);
console.log(`${index.length} cases, ${offset} bytes`);
