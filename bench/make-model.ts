/**
 * A llama with random weights for measuring: real shapes, a real tokenizer (of the model that ships), no meaning.
 *
 *   node --import tsx bench/make-model.ts OUT.gguf [--type q4_0] [--embd-type q4_0] [--dim 1024] [--layers 16] [--ffn 2816] [--heads 16] [--kv 8] [--ctx 2048] [--seed 1]
 *
 * Matrices are of --type (f32, f16, bf16 or any that quantlet quantises to), token_embd, tied to the output, of --embd-type, norms f32.
 * The same arguments give the same bytes.
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
}

const DEFAULTS: Omit<Shape, 'embdType'> = { type: 'q4_0', dim: 1024, layers: 16, ffn: 2816, heads: 16, kv: 8, ctx: 2048, seed: 1 };
const complete = (some: Partial<Shape>): Shape => ({ ...DEFAULTS, embdType: some.type ?? DEFAULTS.type, ...some });

/** A file name that tells the shape. */
export function modelName(some: Partial<Shape> = {}): string {
  const { type, embdType, dim, layers, ffn, heads, kv, ctx, seed } = complete(some);
  return `bench-d${dim}-l${layers}-f${ffn}-h${heads}x${kv}-c${ctx}-${type}${embdType === type ? '' : `-${embdType}`}${seed === 1 ? '' : `-s${seed}`}.gguf`;
}

/** llama.cpp's general.file_type of files that are all one type; 1024 is its "guessed". */
const FTYPE: { readonly [type: string]: number } = { f32: 0, f16: 1, q4_0: 2, q4_1: 3, q8_0: 7, q5_0: 8, q5_1: 9, q6_K: 18, bf16: 32 };

/** Rows quantised at a time: bounds memory, and is enough to make the calls cheap. */
const ROWS = 64;

export async function writeBenchModel(path: string, some: Partial<Shape> = {}): Promise<{ parameters: number; bytes: number }> {
  const shape = complete(some);
  const { dim, layers, ffn, heads, kv } = shape;
  const tokenizer = readFileSync(new URL('../models/tiny-stories-q4_0.gguf', import.meta.url));
  const gguf = await readGGUF(toBytes(tokenizer));
  const nVocab = (gguf.metadata.get('tokenizer.ggml.tokens') as readonly string[]).length;
  const metadata = new Map<string, WriteValue>([
    ['general.architecture', { type: 'str', value: 'llama' }],
    ['general.name', { type: 'str', value: `random ${dim} x ${layers} ${shape.type}` }],
    ['general.file_type', { type: 'u32', value: FTYPE[shape.type] ?? 1024 }],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'f32', value: 1e-5 }],
    ...Object.entries({
      context_length: shape.ctx,
      embedding_length: dim,
      block_count: layers,
      feed_forward_length: ffn,
      vocab_size: nVocab,
      'attention.head_count': heads,
      'attention.head_count_kv': kv,
      'rope.dimension_count': dim / heads,
    }).map(([key, value]) => [`llama.${key}`, { type: 'u32', value }] as const),
  ]);
  for (const [key, [from, to]] of gguf.metadataRanges)
    if (key.startsWith('tokenizer.')) metadata.set(key, { raw: tokenizer.subarray(from, to) });

  const kvDim = (dim / heads) * kv;
  const matrix = TYPE[shape.type];
  const tensors: WriteTensor[] = [
    { name: 'token_embd.weight', type: TYPE[shape.embdType], ne: [dim, nVocab] },
    { name: 'output_norm.weight', type: TYPE.f32, ne: [dim] },
  ];
  for (let i = 0; i < layers; i++) {
    for (const [name, ...ne] of [
      ['attn_q', dim, dim],
      ['attn_k', dim, kvDim],
      ['attn_v', dim, kvDim],
      ['attn_output', dim, dim],
      ['ffn_gate', dim, ffn],
      ['ffn_up', dim, ffn],
      ['ffn_down', ffn, dim],
    ] as const) {
      tensors.push({ name: `blk.${i}.${name}.weight`, type: matrix, ne });
    }
    for (const name of ['attn_norm', 'ffn_norm']) tensors.push({ name: `blk.${i}.${name}.weight`, type: TYPE.f32, ne: [dim] });
  }
  const layout = layoutGGUF(metadata, tensors);
  const rows = quantizer();
  const random = uniform(shape.seed);
  const fd = openSync(`${path}.part`, 'w');
  try {
    writeSync(fd, layout.header, 0, layout.header.length, 0);
    tensors.forEach((tensor, i) => {
      const [ne0, n = 1] = tensor.ne;
      const size = rowSize(tensor.type, ne0);
      // Uniform with a variance of 1 / fan-in: activations keep their size through every layer. Norms are about 1.
      const spread = tensor.ne.length === 1 ? 0.1 : Math.sqrt(3 / ne0);
      const middle = tensor.ne.length === 1 ? 1 : 0;
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
  const names = ['type', 'embd-type', 'dim', 'layers', 'ffn', 'heads', 'kv', 'ctx', 'seed'] as const;
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: Object.fromEntries(names.map((n) => [n, { type: 'string' as const }])),
  });
  if (positionals.length !== 1)
    throw new Error(
      'usage: make-model.ts OUT.gguf [--type q4_0] [--embd-type T] [--dim N] [--layers N] [--ffn N] [--heads N] [--kv N] [--ctx N] [--seed N]',
    );
  const { type, 'embd-type': embdType, ...sizes } = values as { [name: string]: string };
  for (const t of [type, embdType])
    if (t !== undefined && !(t in TYPE)) throw new Error(`there is no type "${t}"; expected one of ${Object.keys(TYPE).join(', ')}`);
  const some = {
    ...(type ? { type } : {}),
    ...(embdType ? { embdType } : {}),
    ...Object.fromEntries(Object.entries(sizes).map(([n, v]) => [n, Number(v)])),
  } as Partial<Shape>;
  const { parameters, bytes } = await writeBenchModel(positionals[0], some);
  console.log(`${positionals[0]}: ${(parameters / 1e6).toFixed(1)} M parameters, ${(bytes / 1e6).toFixed(1)} MB of weights`);
}
