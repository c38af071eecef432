/**
 * Qwen3-ASR and Qwen3-Omni: three convolutions over pieces of one second, each with the same
 * positions, and layers over all pieces of eight seconds.
 */
import type { Transformer } from '../../encoder/transformer.ts';
import { gelu_erf } from '../../graph/elementwise-ops.ts';
import { im2col } from '../../graph/image-ops.ts';
import { cont } from '../../graph/ops.ts';
import { leaf, type Tensor } from '../../graph/tensor.ts';
import { permute, reshape } from '../../graph/views.ts';
import type { Work } from '../../slices.ts';
import { TYPE } from '../../type-traits.ts';
import { chunkOf, HOP, logMels, normalize, WINDOW } from '../mel.ts';
import type { AudioParams } from '../params.ts';
import type { AudioProjectorType, Chunk } from '../projector.ts';

/** Frames of a piece, and of all pieces that see each other. */
const PIECE = 100;
const FRAMES = 800;
/** Halves, rounded up, of the frames of a piece and of the mels. */
const halved = (n: number): number => Math.ceil(n / 2);
const eighth = (n: number): number => halved(halved(halved(n)));
const PIECE_TOKENS = eighth(PIECE);

/** The sound with half a window reflected on either side, in windows of eight seconds. */
function* windows(samples: Float32Array, { nMels }: AudioParams): Work<Chunk[]> {
  const edge = WINDOW / 2;
  const n = samples.length;
  const x = new Float32Array(n + 2 * edge);
  x.set(samples, edge);
  const at = (i: number): number => (i >= 0 && i < n ? samples[i] : 0);
  for (let i = 0; i < edge; i++) {
    x[i] = at(edge - i);
    x[edge + n + i] = at(n - 2 - i);
  }
  const mels = yield* logMels(x, nMels);
  normalize(mels);
  const frames = Math.min(mels.frames, Math.floor(n / HOP) + 1);
  const chunks: Chunk[] = [];
  for (let first = 0; first < frames; first += FRAMES) {
    const count = Math.min(FRAMES, frames - first);
    const whole = Math.ceil(count / PIECE) * PIECE;
    chunks.push({ frames: whole, mels: chunkOf({ ...mels, frames }, first, whole) });
  }
  return chunks;
}

/** 3 x 3, every second place, of x [w, h, channels, pieces]: gelu_erf of [channels, w / 2, h / 2, pieces]. */
function convolved(t: Transformer<AudioParams>, x: Tensor, name: string): Tensor {
  const channels = t.weight(`${name}.weight`).ne[1];
  const shape = leaf(name, TYPE.f16, [3, 3, x.ne[2], channels]);
  const columns = im2col(shape, x, { stride: 2, padding: 1 });
  const [n, w, h, pieces] = columns.ne;
  return reshape(gelu_erf(t.linear(reshape(columns, [n, w * h * pieces]), name)), [channels, w, h, pieces]);
}

export const qwen3a: AudioProjectorType = {
  names: ['qwen3a'],
  before: '<|audio_start|>',
  after: '<|audio_end|>',
  mostFrames: FRAMES,
  chunks: windows,
  // Columns of the second convolution, and the result of the first one, which is moved once.
  frameFloats: ({ nMels }, ne) => (ne('a.conv2d.1.weight').at(-1) ?? 1) * nMels,
  tokens: (frames) => (frames / PIECE) * PIECE_TOKENS,
  build(t, mels) {
    const [frames, nMels] = mels.ne;
    const pieces = frames / PIECE;
    // [frames, mels] to [frames of a piece, mels, 1, pieces]
    let x: Tensor = reshape(cont(permute(reshape(mels, [PIECE, pieces, nMels]), 0, 2, 1, 3)), [PIECE, nMels, 1, pieces]);
    for (const i of [1, 2]) x = cont(permute(convolved(t, x, `a.conv2d.${i}`), 2, 0, 1, 3));
    const last = convolved(t, x, 'a.conv2d.3');
    const [channels, , height] = last.ne;
    const rows = reshape(cont(permute(last, 1, 2, 0, 3)), [height * channels, PIECE_TOKENS * pieces]);
    const places = Int32Array.from({ length: PIECE_TOKENS * pieces }, (_, i) => i % PIECE_TOKENS);
    return t.mlp(t.vit(t.withRows(t.linear(rows, 'a.conv_out'), places)), 'mm.a.mlp.1', 'mm.a.mlp.2', gelu_erf);
  },
};
