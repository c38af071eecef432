/** Random projectors for sound over the language model of test/golden/vision. */
import { toF16 } from '../../src/core/float16.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { TYPE } from '../../src/type-traits.ts';
import { gaussian } from '../kernel/harness.ts';

/** Widths of the encoder and of its feed-forward, numbers of mels, and width of the language model. */
export const [W, FF, MELS, D] = [40, 48, 16, 64];
export const HEADS = 5;
export const LAYERS = 2;
/** Channels of the convolutions of qwen3a. */
export const CHANNELS = 8;
export const STACK: Readonly<Record<string, number>> = { ultravox: 8, voxtral: 4 };

/** A tensor as the file has it. */
export interface Weight {
  readonly ne: readonly number[];
  readonly values: Float32Array;
  readonly half: boolean;
}

const linear = (name: string, n: number, m: number, bias = true): (readonly [string, readonly number[], number])[] => [
  [`${name}.weight`, [n, m], 1.3 / Math.sqrt(n)],
  ...(bias ? ([[`${name}.bias`, [m], 0.3]] as const) : []),
];
const norm = (name: string, n: number, bias = true): (readonly [string, readonly number[], number])[] => [
  [`${name}.weight`, [n], 0.2],
  ...(bias ? ([[`${name}.bias`, [n], 0.2]] as const) : []),
];

const PROJECTS: Readonly<Record<string, readonly (readonly [string, readonly number[], number])[]>> = {
  ultravox: [
    ...norm('mm.a.norm_pre', 8 * W, false),
    ...linear('mm.a.mlp.1', 8 * W, 2 * FF, false),
    ...norm('mm.a.norm_mid', FF, false),
    ...linear('mm.a.mlp.2', FF, D, false),
  ],
  voxtral: [...linear('mm.a.mlp.1', 4 * W, FF, false), ...linear('mm.a.mlp.2', FF, D, false)],
  qwen2a: linear('mm.a.fc', W, D),
  qwen3a: [...linear('mm.a.mlp.1', W, W), ...linear('mm.a.mlp.2', W, D)],
};

const shapesOf = (type: string): readonly (readonly [string, readonly number[], number])[] => [
  ...(type === 'qwen3a'
    ? [
        ...[1, 2, 3].flatMap((i): (readonly [string, readonly number[], number])[] => [
          [`a.conv2d.${i}.weight`, [3, 3, i === 1 ? 1 : CHANNELS, CHANNELS], 0.6],
          [`a.conv2d.${i}.bias`, [1, 1, CHANNELS], 0.3],
        ]),
        ['a.conv_out.weight', [CHANNELS * Math.ceil(MELS / 8), W], 0.3] as const,
      ]
    : [
        ['a.conv1d.1.weight', [3, MELS, W], 0.3] as const,
        ['a.conv1d.1.bias', [1, W], 0.3] as const,
        ['a.conv1d.2.weight', [3, W, W], 0.15] as const,
        ['a.conv1d.2.bias', [1, W], 0.3] as const,
      ]),
  ['a.position_embd.weight', [W, type === 'qwen3a' ? 13 : 1500], 0.7],
  ...Array.from({ length: LAYERS }, (_, i) => `a.blk.${i}.`).flatMap((b) => [
    ...norm(`${b}ln1`, W),
    ...['q', 'k', 'v', 'out'].flatMap((part) => linear(`${b}attn_${part}`, W, W, part !== 'k')),
    ...norm(`${b}ln2`, W),
    ...linear(`${b}ffn_up`, W, FF),
    ...linear(`${b}ffn_down`, FF, W),
  ]),
  ...norm('a.post_ln', W),
  ...PROJECTS[type],
];

/** The weights of a type, by their names. */
export const weightsOf = (type: string): Map<string, Weight> =>
  new Map(
    shapesOf(type).map(([name, ne, scale], i) => {
      const n = ne.reduce((a, b) => a * b, 1);
      const centre = /(ln\d|norm_\w+|post_ln)\.weight$/.test(name) ? 1 : 0;
      const half = ne.length > 1 && name.endsWith('.weight') && !name.includes('position_embd');
      return [name, { ne, half, values: gaussian(n, i + 1, scale).map((x) => x + centre) }];
    }),
  );

/** The projector file of a type; `more` are other keys. */
export function audioFile(type: string, more: Readonly<Record<string, WriteValue>> = {}): Uint8Array {
  const u32 = (value: number): WriteValue => ({ type: 'u32', value });
  const keys: Record<string, WriteValue> = {
    'general.architecture': { type: 'str', value: 'clip' },
    'clip.has_audio_encoder': { type: 'bool', value: true },
    'clip.projector_type': { type: 'str', value: type },
    'clip.audio.embedding_length': u32(W),
    'clip.audio.block_count': u32(LAYERS),
    'clip.audio.attention.head_count': u32(HEADS),
    'clip.audio.attention.layer_norm_epsilon': { type: 'f32', value: 1e-5 },
    'clip.audio.num_mel_bins': u32(MELS),
    ...(STACK[type] ? { 'clip.audio.projector.stack_factor': u32(STACK[type]) } : {}),
    ...more,
  };
  const tensors = [...weightsOf(type)].map(([name, { ne, values, half }]) => {
    const data = half ? Uint16Array.from(values, toF16) : values;
    return { name, type: half ? TYPE.f16 : TYPE.f32, ne, data: new Uint8Array(data.buffer) };
  });
  return writeGGUF(new Map(Object.entries(keys)), tensors);
}
