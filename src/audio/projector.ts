/** Interface of a projector type for sound: how a sound is cut, encoded, and written into a prompt. */
import type { Transformer } from '../encoder/transformer.ts';
import type { Tensor } from '../graph/tensor.ts';
import type { Work } from '../slices.ts';
import type { AudioParams } from './params.ts';

/** A piece of a sound that is encoded on its own. */
export interface Chunk {
  readonly frames: number;
  /** f32 [frames, n_mels] */
  readonly mels: Float32Array;
}

export interface AudioProjectorType {
  /** Values of `clip.projector_type`. */
  readonly names: readonly string[];
  /** Text before the chunks of a sound, and after them. */
  readonly before: string;
  readonly after: string;
  /** Most frames of a chunk. */
  readonly mostFrames: number;
  /** The sound, at 16 kHz, as the encoder wants it: one chunk at least. */
  chunks(samples: Float32Array, p: AudioParams): Work<Chunk[]>;
  /**
   * Numbers that convolutions have at once for each frame, from above.
   * @param ne dimensions of a tensor of the file
   */
  frameFloats(p: AudioParams, ne: (name: string) => readonly number[]): number;
  /** Tokens of a chunk. */
  tokens(frames: number, p: AudioParams): number;
  /** Graph of the encoder, from mels f32 [frames, n_mels]: f32 [n_embd of the language model, tokens]. */
  build(t: Transformer<AudioParams>, mels: Tensor): Tensor;
}
