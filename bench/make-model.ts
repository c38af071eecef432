/**
 * Writes a llama (or another family) with random weights for measuring: real shapes, the shipped
 * model's tokenizer, no meaning.
 *
 * Usage:
 *
 *   node --import tsx bench/make-model.ts OUT.gguf [--type q4_0] [--embd-type q4_0] [--dim 1024]
 *     [--layers 16] [--ffn 2816] [--heads 16] [--kv 8] [--ctx 2048] [--seed 1] [--arch llama]
 *     [--gate-bias 0]
 *
 * Matrices have --type (f32, f16, bf16 or any that quantlet quantises to), token_embd, which is
 * also the output, has --embd-type, and norms are f32. The same arguments give the same bytes.
 *
 * With --gate-bias, the llama's feed-forwards are PowerInfer's: ReLU, and a row of the last matrix
 * per neuron. The gates start at the bias, in standard deviations: -1.28 leaves 90 % of the neurons
 * at 0.
 *
 * Shapes of LFM2 350M and Qwen 3.5 0.8B:
 *   --arch lfm2 --dim 1024 --layers 16 --ffn 4608 --heads 16 --kv 8
 *   --arch qwen35 --dim 1024 --layers 24 --ffn 3584 --heads 8 --kv 2
 */
import { closeSync, ftruncateSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readGGUF } from '../src/gguf/read.ts';
import { layoutGGUF, tensorBytes, type WriteTensor, type WriteValue } from '../src/gguf/write.ts';
import { toBytes } from '../src/io/source.ts';
import { TYPE, rowSize, type TypeName } from '../src/type-traits.ts';
import { createQuantizer, type Quantizer } from '../src/wasm/quantizer.ts';

export interface Shape {
  readonly type: TypeName;
  readonly embdType: TypeName;
  readonly dim: number;
  readonly layers: number;
  readonly ffn: number;
  readonly heads: number;
  readonly kv: number;
  readonly ctx: number;
  readonly seed: number;
  /** Default: llama. */
  readonly arch: string;
  /** Default: 0, which means SwiGLU. */
  readonly gateBias: number;
}

const DEFAULTS: Omit<Shape, 'embdType'> = {
  type: 'q4_0',
  dim: 1024,
  layers: 16,
  ffn: 2816,
  heads: 16,
  kv: 8,
  ctx: 2048,
  seed: 1,
  arch: 'llama',
  gateBias: 0,
};
const complete = (some: Partial<Shape>): Shape => ({ ...DEFAULTS, embdType: some.type ?? DEFAULTS.type, ...some });

/** A file name with the shape. */
export function modelName(some: Partial<Shape> = {}): string {
  const { type, embdType, dim, layers, ffn, heads, kv, ctx, seed, arch, gateBias } = complete(some);
  return `bench-${arch === 'llama' ? '' : `${arch}-`}d${dim}-l${layers}-f${ffn}-h${heads}x${kv}-c${ctx}-${type}${embdType === type ? '' : `-${embdType}`}${seed === 1 ? '' : `-s${seed}`}${gateBias === 0 ? '' : `-gates${gateBias}`}.gguf`;
}

type Matrices = readonly (readonly [name: string, ...ne: number[]])[];

/** Parts of a family that differ from llama. */
interface Family {
  readonly keys: (shape: Shape) => { readonly [key: string]: number | readonly number[] };
  /** Matrices of layer i, and its f32 tensors. */
  readonly layer: (shape: Shape, i: number) => readonly [matrices: Matrices, vectors: Matrices];
  readonly outputNorm?: string;
}

const feedForward = ({ dim, ffn, gateBias }: Shape): Matrices => [
  ['ffn_gate', dim, ffn],
  ['ffn_up', dim, ffn],
  gateBias === 0 ? ['ffn_down', ffn, dim] : ['ffn_down_t', dim, ffn],
];
const attention = (dim: number, q: number, kv: number, out: number): Matrices => [
  ['attn_q', dim, q],
  ['attn_k', dim, kv],
  ['attn_v', dim, kv],
  ['attn_output', out, dim],
];
const norms = (dim: number, ...names: string[]): Matrices => names.map((name) => [name, dim] as const);

/** LFM2's layers with attention, of 16. */
const LFM2_ATTENTION = [2, 5, 8, 10, 12, 14];
/**
 * Sizes of Qwen 3.5 0.8B: attention heads are wider than dim / heads, and its delta nets have 16
 * heads of 128 x 128.
 */
const QWEN35 = { head: 256, state: 128, rank: 16, inner: 2048 };

const FAMILIES: { readonly [arch: string]: Family } = {
  llama: {
    keys: ({ kv, dim, heads }) => ({ 'attention.head_count_kv': kv, 'rope.dimension_count': dim / heads }),
    layer: (s) => [
      [...attention(s.dim, s.dim, (s.dim / s.heads) * s.kv, s.dim), ...feedForward(s)],
      [...norms(s.dim, 'attn_norm.weight', 'ffn_norm.weight'), ...(s.gateBias === 0 ? [] : norms(s.ffn, 'ffn_gate.bias'))],
    ],
  },
  lfm2: {
    keys: ({ kv, layers }) => ({
      'attention.head_count_kv': Array.from({ length: layers }, (_, i) => (LFM2_ATTENTION.includes(i) ? kv : 0)),
      'shortconv.l_cache': 3,
    }),
    outputNorm: 'token_embd_norm',
    layer: (s, i) => {
      const both = norms(s.dim, 'attn_norm.weight', 'ffn_norm.weight');
      if (!LFM2_ATTENTION.includes(i))
        return [
          [['shortconv.in_proj', s.dim, 3 * s.dim], ['shortconv.out_proj', s.dim, s.dim], ...feedForward(s)],
          [...both, ['shortconv.conv.weight', 3, s.dim]],
        ];
      const head = s.dim / s.heads;
      return [
        [...attention(s.dim, s.dim, head * s.kv, s.dim), ...feedForward(s)],
        [...both, ...norms(head, 'attn_q_norm.weight', 'attn_k_norm.weight')],
      ];
    },
  },
  qwen35: {
    keys: ({ kv }) => ({
      'attention.head_count_kv': kv,
      'attention.key_length': QWEN35.head,
      'attention.value_length': QWEN35.head,
      'rope.dimension_count': 64,
      'rope.dimension_sections': [11, 11, 10, 0],
      'ssm.conv_kernel': 4,
      'ssm.state_size': QWEN35.state,
      'ssm.group_count': QWEN35.rank,
      'ssm.time_step_rank': QWEN35.rank,
      'ssm.inner_size': QWEN35.inner,
    }),
    layer: (s, i) => {
      const both = norms(s.dim, 'attn_norm.weight', 'post_attention_norm.weight');
      const { head, inner, rank, state } = QWEN35;
      if ((i + 1) % 4 === 0) {
        const q = head * s.heads;
        return [
          [...attention(s.dim, 2 * q, head * s.kv, q), ...feedForward(s)],
          [...both, ...norms(head, 'attn_q_norm.weight', 'attn_k_norm.weight')],
        ];
      }
      const mixer: Matrices = [
        ['attn_qkv', s.dim, 3 * inner],
        ['attn_gate', s.dim, inner],
        ['ssm_alpha', s.dim, rank],
        ['ssm_beta', s.dim, rank],
        ['ssm_out', inner, s.dim],
      ];
      const small: Matrices = [
        ['ssm_conv1d.weight', 4, 3 * inner],
        ['ssm_dt.bias', rank],
        ['ssm_a', rank],
        ['ssm_norm.weight', state],
      ];
      return [
        [...mixer, ...feedForward(s)],
        [...both, ...small],
      ];
    },
  },
};

/** llama.cpp's general.file_type of files with a single type. 1024 is its "guessed". */
const FTYPE: { readonly [type: string]: number } = { f32: 0, f16: 1, q4_0: 2, q4_1: 3, q8_0: 7, q5_0: 8, q5_1: 9, q6_K: 18, bf16: 32 };

/** Rows quantised at a time: bounds memory, and makes the overhead of calls negligible. */
const ROWS = 64;

export async function writeBenchModel(path: string, some: Partial<Shape> = {}): Promise<{ parameters: number; bytes: number }> {
  const shape = complete(some);
  const { dim, layers, ffn, heads, arch } = shape;
  const family = FAMILIES[arch];
  if (!family) throw new Error(`there is no family "${arch}"; expected one of ${Object.keys(FAMILIES).join(', ')}`);
  const tokenizer = readFileSync(new URL('../models/tiny-stories-q4_0.gguf', import.meta.url));
  const gguf = await readGGUF(toBytes(tokenizer));
  const nVocab = (gguf.metadata.get('tokenizer.ggml.tokens') as readonly string[]).length;
  const metadata = new Map<string, WriteValue>([
    ['general.architecture', { type: 'str', value: arch }],
    ['general.name', { type: 'str', value: `random ${dim} x ${layers} ${shape.type}` }],
    ['general.file_type', { type: 'u32', value: FTYPE[shape.type] ?? 1024 }],
    [`${arch}.attention.layer_norm_rms_epsilon`, { type: 'f32', value: 1e-5 }],
    ...Object.entries({
      context_length: shape.ctx,
      embedding_length: dim,
      block_count: layers,
      feed_forward_length: ffn,
      vocab_size: nVocab,
      'attention.head_count': heads,
      ...family.keys(shape),
    }).map(([key, value]): [string, WriteValue] => [
      `${arch}.${key}`,
      typeof value === 'number' ? { type: 'u32', value } : { type: 'arr[i32]', value: Int32Array.from(value) },
    ]),
  ]);
  for (const [key, [from, to]] of gguf.metadataRanges)
    if (key.startsWith('tokenizer.')) metadata.set(key, { raw: tokenizer.subarray(from, to) });

  const matrix = TYPE[shape.type];
  const tensors: WriteTensor[] = [
    { name: 'token_embd.weight', type: TYPE[shape.embdType], ne: [dim, nVocab] },
    { name: `${family.outputNorm ?? 'output_norm'}.weight`, type: TYPE.f32, ne: [dim] },
  ];
  for (let i = 0; i < layers; i++) {
    const [matrices, vectors] = family.layer(shape, i);
    for (const [name, ...ne] of matrices) tensors.push({ name: `blk.${i}.${name}.weight`, type: matrix, ne });
    for (const [name, ...ne] of vectors) tensors.push({ name: `blk.${i}.${name}`, type: TYPE.f32, ne });
  }
  return writeRandom(path, metadata, tensors, shape.seed, ({ name, ne }) => {
    const [ne0, n = 1] = ne;
    // Uniform with a variance of 1 / fan-in, so that activations keep their size through every
    // layer. Norms are about 1. For models with sparse neurons, token embeddings are as large as
    // what layers add to them. Otherwise attention would dominate, and all tokens would fire the
    // same neurons.
    const isVector = ne.length === 1;
    const inputs = name.includes('ffn_down_t') ? n : shape.gateBias !== 0 && name === 'token_embd.weight' ? 1 : ne0;
    const ends = { 'ffn_gate.bias': shape.gateBias, ssm_a: -1 }; // states decay
    const middle = Object.entries(ends).find(([end]) => name.endsWith(end))?.[1] ?? (isVector ? 1 : 0);
    return { middle, spread: isVector ? 0.1 : Math.sqrt(3 / inputs) };
  });
}

/** Uniform numbers of a tensor: middle - spread to middle + spread. */
export interface Spread {
  readonly middle: number;
  readonly spread: number;
}

/** Writes a file whose tensors have random numbers. */
export function writeRandom(
  path: string,
  metadata: ReadonlyMap<string, WriteValue>,
  tensors: readonly WriteTensor[],
  seed: number,
  spreadOf: (tensor: WriteTensor) => Spread,
): { parameters: number; bytes: number } {
  const layout = layoutGGUF(metadata, tensors);
  const rows = quantizer();
  const random = uniform(seed);
  const fd = openSync(`${path}.part`, 'w');
  try {
    writeSync(fd, layout.header, 0, layout.header.length, 0);
    tensors.forEach((tensor, i) => {
      const [ne0, ...more] = tensor.ne;
      const n = more.reduce((a, b) => a * b, 1);
      const size = rowSize(tensor.type, ne0);
      const { middle, spread } = spreadOf(tensor);
      for (let row = 0; row < n; row += ROWS) {
        const count = Math.min(ROWS, n - row);
        const x = new Float32Array(count * ne0);
        for (let j = 0; j < x.length; j++) x[j] = middle + spread * random();
        writeSync(fd, rows.quantize(tensor.type, x, ne0) as Uint8Array, 0, count * size, layout.tensors[i].offset + row * size);
      }
    });
    ftruncateSync(fd, layout.byteLength);
  } finally {
    closeSync(fd);
  }
  renameSync(`${path}.part`, path);
  return {
    parameters: tensors.reduce((s, t) => s + t.ne.reduce((a, b) => a * b, 1), 0),
    bytes: tensors.reduce((s, t) => s + tensorBytes(t), 0),
  };
}

/** The package's own quantisers. */
const quantizer = (): Quantizer =>
  createQuantizer(new WebAssembly.Module(readFileSync(new URL('../dist/wasm/quantize.wasm', import.meta.url))));

/** Numbers in [-1, 1) from Marsaglia's xorshift32. */
function uniform(seed: number): () => number {
  let s = (seed * 2654435769) | 0 || 1;
  return () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return s / 2 ** 31;
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const names = ['type', 'embd-type', 'dim', 'layers', 'ffn', 'heads', 'kv', 'ctx', 'seed', 'arch', 'gate-bias'] as const;
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: Object.fromEntries(names.map((n) => [n, { type: 'string' as const }])),
  });
  if (positionals.length !== 1)
    throw new Error(
      'usage: make-model.ts OUT.gguf [--type q4_0] [--embd-type T] [--dim N] [--layers N] [--ffn N] [--heads N] [--kv N] [--ctx N] [--seed N] [--arch llama|lfm2|qwen35] [--gate-bias X]',
    );
  const { type, 'embd-type': embdType, arch, 'gate-bias': gateBias, ...sizes } = values as { [name: string]: string };
  for (const t of [type, embdType])
    if (t !== undefined && !(t in TYPE)) throw new Error(`there is no type "${t}"; expected one of ${Object.keys(TYPE).join(', ')}`);
  const some = {
    ...(type ? { type } : {}),
    ...(embdType ? { embdType } : {}),
    ...(arch ? { arch } : {}),
    ...(gateBias ? { gateBias: Number(gateBias) } : {}),
    ...Object.fromEntries(Object.entries(sizes).map(([n, v]) => [n, Number(v)])),
  } as Partial<Shape>;
  const { parameters, bytes } = await writeBenchModel(positionals[0], some);
  console.log(`${positionals[0]}: ${(parameters / 1e6).toFixed(1)} M parameters, ${(bytes / 1e6).toFixed(1)} MB of weights`);
}
