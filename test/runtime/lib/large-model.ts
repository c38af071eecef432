/**
 * Writes a llama of 4.4 GB with the shipped model's vocabulary as a sparse file: every matrix
 * begins and ends with random weights, with zeros in between.
 *
 *   node --import tsx test/runtime/lib/large-model.ts OUT.gguf
 */
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { readGGUF } from '../../../src/gguf/read.ts';
import { layoutGGUF, type WriteValue } from '../../../src/gguf/write.ts';
import { toBytes } from '../../../src/io/source.ts';
import { TYPE } from '../../../src/type-traits.ts';

const LAYERS = 32;
const [DIM, FFN, HEADS, KV_HEADS] = [4096, 16384, 32, 8];
/** Random bytes at each end of a matrix. */
const ENDS = 256 << 10;

const shipped = readFileSync(new URL('../../../models/tiny-stories-q4_0.gguf', import.meta.url));
const { metadata, metadataRanges } = await readGGUF(toBytes(shipped));
const kept = [...metadataRanges!].filter(([key]) => !key.startsWith('llama.'));
const u32 = (value: number): WriteValue => ({ type: 'u32', value });
const keys: Record<string, WriteValue> = {
  'llama.context_length': u32(512),
  'llama.embedding_length': u32(DIM),
  'llama.block_count': u32(LAYERS),
  'llama.feed_forward_length': u32(FFN),
  'llama.attention.head_count': u32(HEADS),
  'llama.attention.head_count_kv': u32(KV_HEADS),
  'llama.rope.dimension_count': u32(DIM / HEADS),
  'llama.attention.layer_norm_rms_epsilon': { type: 'f32', value: 1e-5 },
};
const nVocab = (metadata.get('tokenizer.ggml.tokens') as ArrayLike<string>).length;
const matrices = Array.from({ length: LAYERS }, (_, i) =>
  [
    ['attn_q', DIM, DIM],
    ['attn_k', DIM, (DIM / HEADS) * KV_HEADS],
    ['attn_v', DIM, (DIM / HEADS) * KV_HEADS],
    ['attn_output', DIM, DIM],
    ['ffn_gate', DIM, FFN],
    ['ffn_up', DIM, FFN],
    ['ffn_down', FFN, DIM],
  ].map(([name, ...ne]) => ({ name: `blk.${i}.${name}.weight`, type: TYPE.q4_0, ne: ne as number[] })),
).flat();
const norms = Array.from({ length: LAYERS }, (_, i) => ['attn_norm', 'ffn_norm'].map((name) => `blk.${i}.${name}.weight`)).flat();
const layout = layoutGGUF(
  new Map([...kept.map(([key, [start, end]]) => [key, { raw: shipped.subarray(start, end) }] as const), ...Object.entries(keys)]),
  [
    { name: 'token_embd.weight', type: TYPE.q4_0, ne: [DIM, nVocab] },
    ...matrices,
    { name: 'output.weight', type: TYPE.q4_0, ne: [DIM, nVocab] },
    ...[...norms, 'output_norm.weight'].map((name) => ({ name, type: TYPE.f32, ne: [DIM] })),
  ],
);

let state = 1;
/** Blocks of q4_0: a scale of about 0.01 (f16 0x2000 to 0x23ff), random codes. */
function blocks(bytes: number): Uint8Array {
  const out = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = i % 18 === 1 ? 0x20 + (state >>> 30) : state >>> 24;
  }
  return out;
}

const fd = openSync(process.argv[2], 'w');
ftruncateSync(fd, layout.byteLength);
writeSync(fd, layout.header, 0, layout.header.length, 0);
for (const { name, offset, byteLength } of layout.tensors) {
  if (name.includes('norm')) {
    writeSync(fd, new Uint8Array(new Float32Array(DIM).fill(1).buffer), 0, byteLength, offset);
    continue;
  }
  const end = Math.min(byteLength, ENDS - (ENDS % 18));
  writeSync(fd, blocks(end), 0, end, offset);
  writeSync(fd, blocks(end), 0, end, offset + byteLength - end);
}
closeSync(fd);
