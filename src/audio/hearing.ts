/** Sounds for a model: the encoder of a projector file, and sounds as tokens of a prompt. */
import { Encoder, isBound, planBytes, shapesOf, type EncoderGraph, type EncoderOptions, type WeightRules } from '../encoder/encoder.ts';
import { projectorType } from '../encoder/projector-file.ts';
import { Transformer, type WeightSource } from '../encoder/transformer.ts';
import { QuantletError } from '../errors.ts';
import type { GGUF, TensorInfo } from '../gguf/types.ts';
import { leaf, type Tensor } from '../graph/tensor.ts';
import type { ModelFiles } from '../io/model-files.ts';
import type { Platform } from '../platform.ts';
import { idsOfRun, PromptImage, type AudioSource, type ImageRun, type ImageTokens } from '../run/image-tokens.ts';
import { inSlices } from '../slices.ts';
import type { Tokenizer } from '../tokenize/tokenizer.ts';
import { TYPE } from '../type-traits.ts';
import { readAudioParams, type AudioParams } from './params.ts';
import type { AudioProjectorType, Chunk } from './projector.ts';
import { readSound } from './read-sound.ts';
import { audioProjectorNamed } from './registry.ts';

/** Dimensions of a weight in the graph: kernels of convolutions are matrices, their biases are lists. */
function shapeOf({ name, ne }: TensorInfo): readonly number[] {
  const all = ne.reduce((a, b) => a * b, 1);
  if (/\.conv[12]d\.\d+\.bias$/.test(name)) return [all];
  if (!/\.conv[12]d\.\d+\.weight$/.test(name)) return ne;
  const out = ne[name.includes('.conv2d.') ? 3 : 2] ?? 1;
  return [all / out, out];
}

const weightRules = (gguf: GGUF): WeightRules => ({
  tensors: [...gguf.tensors.values()].filter(({ name }) => /^(a|mm\.a)\./.test(name)),
  isTable: (name) => name === 'a.position_embd.weight' || isBound(name),
  shapeOf,
});

/** A projector for sound, its header read and checked. */
export interface AudioProjector {
  readonly p: AudioParams;
  readonly type: AudioProjectorType;
  /** Numbers of an embedding. */
  readonly width: number;
}

const graphOf = ({ p, type }: Pick<AudioProjector, 'p' | 'type'>, mels: Tensor, source: WeightSource): Tensor =>
  type.build(new Transformer(p, { norm: 'layer' }, source, 'a.'), mels);

/** @throws ERR_UNSUPPORTED_ARCH, ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE; errors of metadata */
export function audioProjector(gguf: GGUF): AudioProjector {
  const type = audioProjectorNamed(projectorType(gguf, 'audio'));
  const p = readAudioParams(gguf);
  const mels = leaf('mels', TYPE.f32, [type.mostFrames, p.nMels, 1, 1]);
  const { ne } = graphOf({ p, type }, mels, shapesOf(weightRules(gguf)));
  if (ne[1] !== type.tokens(type.mostFrames, p))
    throw new QuantletError('ERR_GGUF_INVALID', `mmproj makes ${ne[1]} tokens of a sound; expected ${type.tokens(type.mostFrames, p)}`);
  return { p, type, width: ne[0] };
}

/** Starts the encoder, and reads its weights from files that stay open. */
export function loadAudioEncoder(
  platform: Platform,
  files: ModelFiles,
  { p, type }: AudioProjector,
  options: EncoderOptions,
): Promise<Encoder> {
  const rules = weightRules(files.gguf);
  const inputs = type.frameFloats(p, (name) => files.gguf.tensors.get(name)?.ne ?? []);
  const size = planBytes(rules, p, { tokens: type.mostFrames, inputs });
  return Encoder.load(platform, files, rules, size, options);
}

export interface HearingOptions {
  readonly tokenizer: Tokenizer;
  readonly images: ImageTokens;
  /** Numbers of a row in prompts. Those behind an embedding are zeros. */
  readonly width: number;
}

/** Reads sounds for the prompts of one model. */
export class Hearing {
  private readonly projector: AudioProjector;
  private readonly encoder: Encoder;
  private readonly options: HearingOptions;
  private readonly before: readonly number[];
  private readonly after: readonly number[];

  constructor(projector: AudioProjector, encoder: Encoder, options: HearingOptions) {
    this.projector = projector;
    this.encoder = encoder;
    this.options = options;
    const { before, after } = projector.type;
    [this.before, this.after] = [before, after].map((text) => options.tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  }

  /**
   * Decodes a sound and computes its mels. It is encoded when a prompt needs it.
   * @throws ERR_AUDIO_INVALID, ERR_AUDIO_TOO_LARGE, ERR_INVALID_ARGUMENT, or signal.reason
   */
  async read(sound: AudioSource, signal?: AbortSignal): Promise<PromptImage> {
    const { key, samples } = await readSound(sound);
    signal?.throwIfAborted();
    const { type, p } = this.projector;
    const { images } = this.options;
    const chunks = images.known(key) ? [] : await inSlices(type.chunks(await samples(signal), p), signal);
    const runs = images.of(key, () => chunks.map((chunk) => this.newRun(chunk)));
    const ids = runs.flatMap(idsOfRun);
    return new PromptImage([...this.before, ...ids, ...this.after], runs);
  }

  private newRun(chunk: Chunk): ImageRun {
    const nTokens = this.projector.type.tokens(chunk.frames, this.projector.p);
    const place = { nTokens, columns: 0, nPositions: nTokens, causal: true };
    return this.options.images.newRun(place, (signal, onProgress) => this.encode(chunk, signal, onProgress));
  }

  private async encode(
    { frames, mels }: Chunk,
    signal: AbortSignal | undefined,
    onProgress?: (fraction: number) => void,
  ): Promise<Float32Array> {
    const { projector, options } = this;
    const graph: EncoderGraph = {
      key: `${frames}`,
      ne: [frames, projector.p.nMels],
      build: (input, source) => graphOf(projector, input, source),
    };
    const rows = await this.encoder.encode(graph, mels, signal, onProgress);
    return widened(rows, projector.width, options.width);
  }

  dispose(): Promise<void> {
    return this.encoder.dispose();
  }
}

/** Rows of `from` numbers with zeros behind them, `to` in all. */
function widened(rows: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return rows;
  const n = rows.length / from;
  const out = new Float32Array(n * to);
  for (let i = 0; i < n; i++) out.set(rows.subarray(i * from, (i + 1) * from), i * to);
  return out;
}
