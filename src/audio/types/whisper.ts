/**
 * Whisper's encoder: two convolutions over the frames of half a minute. Then Ultravox, Qwen 2 Audio
 * and Qwen 2.5 Omni, and Voxtral each project in a way of their own.
 */
import { joined, type Transformer } from '../../encoder/transformer.ts';
import { gelu_erf, swiglu } from '../../graph/elementwise-ops.ts';
import { im2col } from '../../graph/image-ops.ts';
import { cont } from '../../graph/ops.ts';
import { leaf, type Tensor } from '../../graph/tensor.ts';
import { permute, reshape } from '../../graph/views.ts';
import { TYPE } from '../../type-traits.ts';
import type { Work } from '../../slices.ts';
import { chunkOf, logMels, normalize, RATE, WINDOW } from '../mel.ts';
import type { AudioParams } from '../params.ts';
import type { AudioProjectorType, Chunk } from '../projector.ts';

/** Frames of half a minute. */
const FRAMES = 3000;
/** Samples that are reflected in front of the sound. */
const EDGE = WINDOW / 2;

type Ear = Transformer<AudioParams>;

/** Half a minute and an edge of silence follow the sound; the last frames that fill no chunk are dropped. */
function* halfMinutes(samples: Float32Array, { nMels }: AudioParams): Work<Chunk[]> {
  const n = Math.max(samples.length, EDGE + 1);
  const x = new Float32Array(n + 30 * RATE + 2 * EDGE);
  x.set(samples, EDGE);
  for (let i = 0; i < EDGE; i++) x[i] = x[2 * EDGE - i];
  const mels = yield* logMels(x, nMels);
  normalize(mels);
  return Array.from({ length: Math.floor(mels.frames / FRAMES) }, (_, i) => ({
    frames: FRAMES,
    mels: chunkOf(mels, i * FRAMES, FRAMES),
  }));
}

/** Three frames wide, from x [frames, channels]: gelu_erf of f32 [n_embd, frames / stride]. */
function convolved(t: Ear, x: Tensor, name: string, stride: number): Tensor {
  const shape = leaf(name, TYPE.f16, [3, x.ne[1], t.p.nEmbd, 1]);
  const columns = im2col(shape, x, { is2D: false, stride, padding: 1 });
  return gelu_erf(t.linear(reshape(columns, [columns.ne[0], columns.ne[1]]), name));
}

/** States of the layers, [n_embd, frames / 2], or pairs of them averaged. */
function states(t: Ear, mels: Tensor, average: boolean): Tensor {
  const first = convolved(t, mels, 'a.conv1d.1', 1);
  const x = convolved(t, cont(permute(first, 1, 0, 2, 3)), 'a.conv1d.2', 2);
  const rows = Int32Array.from({ length: x.ne[1] }, (_, i) => i);
  return t.vit(t.withRows(x, rows), { last: average ? (y) => t.pooled(y, 2) : undefined });
}

const stackFactor = (p: AudioParams): number => p.count('projector.stack_factor');
const whisper = {
  mostFrames: FRAMES,
  chunks: halfMinutes,
  frameFloats: ({ nEmbd, nMels }: AudioParams) => 3 * nMels + 4 * nEmbd,
  before: '',
  after: '',
} as const;

export const ultravox: AudioProjectorType = {
  ...whisper,
  names: ['ultravox'],
  tokens: (frames, p) => Math.floor(frames / 2 / stackFactor(p)),
  build(t, mels) {
    const stacked = joined(states(t, mels, false), stackFactor(t.p));
    const rms = { kind: 'rms', eps: 1e-6 } as const;
    const y = swiglu(t.linear(t.norm(stacked, 'mm.a.norm_pre', rms), 'mm.a.mlp.1'), { swapped: true });
    return t.linear(t.norm(y, 'mm.a.norm_mid', rms), 'mm.a.mlp.2');
  },
};

export const voxtral: AudioProjectorType = {
  ...whisper,
  names: ['voxtral'],
  before: '[BEGIN_AUDIO]',
  tokens: (frames, p) => Math.floor(frames / 4 / stackFactor(p)),
  build: (t, mels) => t.mlp(joined(states(t, mels, true), stackFactor(t.p)), 'mm.a.mlp.1', 'mm.a.mlp.2', gelu_erf),
};

export const qwen2a: AudioProjectorType = {
  ...whisper,
  names: ['qwen2a'],
  before: '<|audio_bos|>',
  after: '<|audio_eos|>',
  tokens: (frames) => Math.floor(frames / 4),
  build: (t, mels) => t.linear(states(t, mels, true), 'mm.a.fc'),
};
