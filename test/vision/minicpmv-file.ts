/** Random projectors of MiniCPM-V, the same bytes everywhere: llama.cpp's answers to them are in minicpmv.json. */
import { toF16 } from '../../src/core/float16.ts';
import { writeGGUF, type WriteTensor, type WriteValue } from '../../src/gguf/write.ts';
import { TYPE } from '../../src/type-traits.ts';
import { gaussian } from '../kernel/harness.ts';
import type { Metadata } from './golden.ts';

/** Widths of the tower, its feed-forward, and the language model. */
const [W, FF, D] = [32, 48, 128];
const PATCH = 14;
/** Side of the table of positions. */
const BUCKETS = 70;

const common = {
  'general.architecture': 'clip',
  'clip.has_vision_encoder': true,
  'clip.use_gelu': true,
  'clip.vision.projection_dim': 0,
  'clip.vision.patch_size': PATCH,
  'clip.vision.embedding_length': W,
  'clip.vision.feed_forward_length': FF,
  'clip.vision.attention.head_count': 2,
  'clip.vision.attention.layer_norm_epsilon': 1e-6,
  'clip.vision.image_mean': [0.5, 0.5, 0.5],
  'clip.vision.image_std': [0.5, 0.5, 0.5],
};

/** Keys of each projector. */
export const MINICPMV: Readonly<Record<string, Metadata>> = {
  'MiniCPM-V 2.5': { ...common, 'clip.projector_type': 'resampler', 'clip.vision.image_size': 56, 'clip.vision.block_count': 2 },
  'MiniCPM-V 2.6': {
    ...common,
    'clip.projector_type': 'resampler',
    'clip.minicpmv_version': 3,
    'clip.minicpmv_query_num': 12,
    'clip.vision.image_size': 56,
    'clip.vision.block_count': 2,
  },
  'MiniCPM-V 4.6': {
    ...common,
    'clip.projector_type': 'minicpmv4_6',
    'clip.vision.projector.scale_factor': 4,
    'clip.vision.wa_layer_indexes': [1],
    'clip.vision.image_size': 112,
    'clip.vision.block_count': 3,
  },
  'MiniCPM-V 4.6, 4x': {
    ...common,
    'clip.projector_type': 'minicpmv4_6',
    'clip.vision.projector.scale_factor': 2,
    'clip.vision.image_size': 112,
    'clip.vision.block_count': 2,
  },
};

const seedOf = (name: string): number => [...name].reduce((h, c) => Math.imul(h, 31) + c.charCodeAt(0), 7) >>> 0;

type Tensors = (WriteTensor & { data: Uint8Array })[];

/** f16 for matrices, f32 for the rest. */
function tensor(name: string, ne: readonly number[], scale: number, centre = 0): Tensors[number] {
  const values = gaussian(
    ne.reduce((a, b) => a * b),
    seedOf(name),
    scale,
  ).map((x) => x + centre);
  const half = ne.length > 1 && name.endsWith('.weight') && !name.includes('position_embd');
  const data = half ? Uint16Array.from(values, toF16) : values;
  return { name, type: half ? TYPE.f16 : TYPE.f32, ne, data: new Uint8Array(data.buffer) };
}

const linear = (name: string, inputs: number, outputs: number): Tensors => [
  tensor(`${name}.weight`, [inputs, outputs], 1.3 / Math.sqrt(inputs)),
  tensor(`${name}.bias`, [outputs], 0.3),
];
const norm = (name: string, n: number): Tensors => [tensor(`${name}.weight`, [n], 0.2, 1), tensor(`${name}.bias`, [n], 0.2)];
const attention = (name: string, width: number, parts = ['q', 'k', 'v', 'out']): Tensors =>
  parts.flatMap((part) => linear(`${name}${part}`, width, width));

function projects(keys: Metadata): Tensors {
  if (keys['clip.projector_type'] === 'resampler')
    return [
      tensor('resampler.query', [D, (keys['clip.minicpmv_query_num'] as number) ?? 96], 1),
      tensor('resampler.pos_embed_k', [D, 4], 1),
      tensor('resampler.kv.weight', [W, D], 1.3 / Math.sqrt(W)),
      tensor('resampler.proj.weight', [D, D], 1.3 / Math.sqrt(D)),
      ...attention('resampler.attn.', D),
      ...['q', 'kv', 'post'].flatMap((part) => norm(`resampler.ln_${part}`, D)),
    ];
  const merger =
    keys['clip.vision.projector.scale_factor'] === 4
      ? [
          ...norm('v.vit_merger.ln1', W),
          ...attention('v.vit_merger.attn_', W),
          ...norm('v.vit_merger.ds_ln', 4 * W),
          ...linear('v.vit_merger.ds_ffn_up', 4 * W, FF),
          ...linear('v.vit_merger.ds_ffn_down', FF, W),
        ]
      : [];
  return [...merger, ...norm('mm.input_norm', 4 * W), ...linear('mm.up', 4 * W, 4 * W), ...linear('mm.down', 4 * W, D)];
}

const valueOf = (key: string, value: Metadata[string]): WriteValue => {
  if (typeof value === 'string') return { type: 'str', value };
  if (typeof value === 'boolean') return { type: 'bool', value };
  if (typeof value === 'number') return { type: key.endsWith('epsilon') ? 'f32' : key.endsWith('version') ? 'i32' : 'u32', value };
  return { type: key.endsWith('indexes') ? 'arr[i32]' : 'arr[f32]', value };
};

/** The projector of a name, with other values of some keys. */
export function minicpmvFile(name: string, more: Metadata = {}): Uint8Array {
  const keys = { ...MINICPMV[name], ...more };
  const layers = Array.from({ length: keys['clip.vision.block_count'] as number }, (_, i) => `v.blk.${i}.`);
  return writeGGUF(new Map(Object.entries(keys).map(([key, value]) => [key, valueOf(key, value)])), [
    { ...tensor('v.patch_embd.weight', [PATCH, PATCH, 3, W], 1.5 / Math.sqrt(3 * PATCH * PATCH)) },
    tensor('v.patch_embd.bias', [W], 0.3),
    tensor('v.position_embd.weight', [W, BUCKETS * BUCKETS], 0.7),
    ...layers.flatMap((layer) => [
      ...norm(`${layer}ln1`, W),
      ...attention(`${layer}attn_`, W),
      ...norm(`${layer}ln2`, W),
      ...linear(`${layer}ffn_up`, W, FF),
      ...linear(`${layer}ffn_down`, FF, W),
    ]),
    ...norm('v.post_ln', W),
    ...projects(keys),
  ]);
}
