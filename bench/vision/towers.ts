/** Projectors with random weights in the shapes of models that people use. */
import type { WriteTensor, WriteValue } from '../../src/gguf/write.ts';
import { TYPE, type TypeName } from '../../src/type-traits.ts';
import { writeRandom } from '../make-model.ts';

export interface Tower {
  readonly about: string;
  readonly projector: string;
  readonly width: number;
  readonly ffn: number;
  readonly layers: number;
  readonly heads: number;
  readonly patch: number;
  /** Side of the images that learned positions are for. */
  readonly image: number;
  /** Side of the encoded image. */
  readonly side: number;
  /** Width of the language model. */
  readonly out: number;
  readonly merge: number;
  /** Layers whose states also go to the language model. */
  readonly deepstack?: readonly number[];
}

export const TOWERS: { readonly [name: string]: Tower } = {
  smolvlm: {
    about: 'SigLIP base/16, 512 px (SmolVLM 256M)',
    projector: 'idefics3',
    width: 768,
    ffn: 3072,
    layers: 12,
    heads: 12,
    patch: 16,
    image: 512,
    side: 512,
    out: 576,
    merge: 4,
  },
  gemma3: {
    about: 'SigLIP so400m/14, 896 px (Gemma 3)',
    projector: 'gemma3',
    width: 1152,
    ffn: 4304,
    layers: 27,
    heads: 16,
    patch: 14,
    image: 896,
    side: 896,
    out: 2560,
    merge: 4,
  },
  qwen3vl: {
    about: 'Qwen3-VL 2B, 1024 x 1024',
    projector: 'qwen3vl_merger',
    width: 1024,
    ffn: 4096,
    layers: 24,
    heads: 16,
    patch: 16,
    image: 768,
    side: 1024,
    out: 2048,
    merge: 2,
    deepstack: [5, 11, 17],
  },
};

const isQwen = ({ projector }: Tower): boolean => projector === 'qwen3vl_merger';

function metadataOf(tower: Tower): Map<string, WriteValue> {
  const u32 = (value: number): WriteValue => ({ type: 'u32', value });
  const channels: WriteValue = { type: 'arr[f32]', value: new Float32Array(3).fill(0.5) };
  const { width, ffn, layers, heads, patch, image, out, merge } = tower;
  const vision: { readonly [key: string]: WriteValue } = {
    image_size: u32(image),
    patch_size: u32(patch),
    embedding_length: u32(width),
    feed_forward_length: u32(ffn),
    block_count: u32(layers),
    projection_dim: u32(out),
    'attention.head_count': u32(heads),
    'attention.layer_norm_epsilon': { type: 'f32', value: 1e-6 },
    image_mean: channels,
    image_std: channels,
    [isQwen(tower) ? 'spatial_merge_size' : 'projector.scale_factor']: u32(merge),
    ...(tower.projector === 'idefics3' ? { preproc_image_size: u32(4 * image) } : {}),
  };
  return new Map<string, WriteValue>([
    ['general.architecture', { type: 'str', value: 'clip' }],
    ['general.type', { type: 'str', value: 'mmproj' }],
    ['clip.has_vision_encoder', { type: 'bool', value: true }],
    ['clip.projector_type', { type: 'str', value: tower.projector }],
    ['clip.use_gelu', { type: 'bool', value: true }],
    ...Object.entries(vision).map(([key, value]): [string, WriteValue] => [`clip.vision.${key}`, value]),
  ]);
}

function tensorsOf(tower: Tower, type: TypeName): WriteTensor[] {
  const { width, ffn, layers, patch, image, out, merge, deepstack = [] } = tower;
  const tensors: WriteTensor[] = [];
  const put = (name: string, ne: readonly number[], kind: TypeName): void => void tensors.push({ name, ne, type: TYPE[kind] });
  const linear = (name: string, inputs: number, outputs: number): void => {
    put(`${name}.weight`, [inputs, outputs], inputs % 32 === 0 ? type : 'f16');
    put(`${name}.bias`, [outputs], 'f32');
  };
  const norm = (name: string, n = width): void => ['weight', 'bias'].forEach((kind) => put(`${name}.${kind}`, [n], 'f32'));
  put('v.patch_embd.weight', [patch, patch, 3, width], 'f16');
  if (isQwen(tower)) put('v.patch_embd.weight.1', [patch, patch, 3, width], 'f16');
  put('v.patch_embd.bias', [width], 'f32');
  put('v.position_embd.weight', [width, (image / patch) ** 2], 'f32');
  for (let i = 0; i < layers; i++) {
    const block = `v.blk.${i}.`;
    norm(`${block}ln1`);
    if (isQwen(tower)) linear(`${block}attn_qkv`, width, 3 * width);
    else for (const name of ['q', 'k', 'v']) linear(`${block}attn_${name}`, width, width);
    linear(`${block}attn_out`, width, width);
    norm(`${block}ln2`);
    linear(`${block}ffn_up`, width, ffn);
    linear(`${block}ffn_down`, ffn, width);
  }
  norm('v.post_ln');
  const merged = merge * merge * width;
  if (tower.projector === 'idefics3') put('mm.model.fc.weight', [merged, out], type);
  if (tower.projector === 'gemma3') {
    put('mm.soft_emb_norm.weight', [width], 'f32');
    put('mm.input_projection.weight', [out, width], 'f16');
  }
  if (isQwen(tower)) {
    linear('mm.0', merged, merged);
    linear('mm.2', merged, out);
    for (const i of deepstack) {
      norm(`v.deepstack.${i}.norm`, merged);
      linear(`v.deepstack.${i}.fc1`, merged, merged);
      linear(`v.deepstack.${i}.fc2`, merged, out);
    }
  }
  return tensors;
}

/** Writes a projector. Its matrices have `type`, except those that converters always write as f16. */
export const writeTower = (path: string, tower: Tower, type: TypeName): { parameters: number; bytes: number } =>
  writeRandom(path, metadataOf(tower), tensorsOf(tower, type), 1, ({ name, ne }) => {
    if (ne.length > 1) return { middle: 0, spread: Math.sqrt(3 / (name.startsWith('v.patch') ? 3 * tower.patch ** 2 : ne[0])) };
    return { middle: name.endsWith('.bias') ? 0 : 1, spread: 0.1 };
  });
