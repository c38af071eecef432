/** The encoder of images: the graphs of their sizes, and the weights that it takes. */
import { Encoder, isBound, planBytes, shapesOf, type EncoderGraph, type EncoderOptions, type WeightRules } from '../encoder/encoder.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { leaf } from '../graph/tensor.ts';
import type { ModelFiles } from '../io/model-files.ts';
import type { Platform } from '../platform.ts';
import { TYPE } from '../type-traits.ts';
import { blockOrder, patchColumns, type Grid } from './grid.ts';
import type { VisionParams } from './params.ts';
import type { Picture } from './picture.ts';
import type { ProjectorType } from './projector.ts';
import { Tower } from './tower.ts';

/** Most patches of an image: four times what llama.cpp's largest types have. */
export const MAX_PATCHES = 1 << 16;

/** Dimensions of a weight in the graph: kernels of convolutions are matrices, and some are turned. */
function shapeOf({ name, ne }: TensorInfo, { transposed = [] }: ProjectorType): readonly number[] {
  if ((ne[3] ?? 1) > 1) return [ne[0] * ne[1] * ne[2], ne[3]];
  return transposed.includes(name) ? [ne[1], ne[0]] : ne;
}

/** Tensors that encoders for images do not read: those for sound, and tables that are computed. */
const UNREAD = /^(a|mm\.a)\.|^resampler\.pos_embed/;

/** Weights of the encoder of images. */
const weightRules = ({ gguf }: Pick<ModelFiles, 'gguf'>, type: ProjectorType): WeightRules => ({
  tensors: [...gguf.tensors.values()].filter(({ name }) => !UNREAD.test(name)),
  isTable: (name) => name === 'v.position_embd.weight' || isBound(name),
  shapeOf: (info) => shapeOf(info, type),
  transposed: type.transposed,
});

const inputSize = ({ patch }: VisionParams): number => 3 * patch * patch;

/**
 * Graph of the encoder without memory, to check a file's shapes before a weight is read.
 * @returns the width of its embeddings
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE
 */
export function checkedWidth(p: VisionParams, type: ProjectorType, files: Pick<ModelFiles, 'gguf'>): number {
  const merge = type.merge(p);
  const grid = gridOf(p, type, type.layout(p, p.imageSize, p.imageSize, {}).sizes[0]);
  const pixels = leaf('pixels', TYPE.f32, [inputSize(p), grid.places.length, 1, 1]);
  if (merge < 1) throw new QuantletError('ERR_GGUF_INVALID', `mmproj merges ${merge} patches; expected at least 1`);
  return type.build(new Tower(p, type, grid, pixels, shapesOf(weightRules(files, type)))).ne[0];
}

function gridOf(p: VisionParams, type: ProjectorType, [width, height]: readonly [number, number]): Grid {
  const merge = type.merge(p);
  const [columns, rows] = [width / p.patch, height / p.patch].map(Math.floor);
  if (columns * rows > MAX_PATCHES)
    throw new QuantletError('ERR_IMAGE_TOO_LARGE', `an image would have ${columns * rows} patches; expected at most ${MAX_PATCHES}`);
  if (columns % merge !== 0 || rows % merge !== 0 || columns < 1 || rows < 1)
    throw new QuantletError(
      'ERR_GGUF_INVALID',
      `mmproj cuts images of ${width} x ${height} into patches of ${p.patch}, of which it merges ${merge} x ${merge}; expected whole numbers of them`,
    );
  return blockOrder(columns, rows, merge);
}

/** Encodes images. */
export class ImageEncoder {
  private readonly encoder: Encoder;
  private readonly p: VisionParams;
  private readonly type: ProjectorType;

  private constructor(encoder: Encoder, p: VisionParams, type: ProjectorType) {
    this.encoder = encoder;
    this.p = p;
    this.type = type;
  }

  /**
   * @param patches most patches of an image
   * @throws what Encoder.load() throws
   */
  static async load(
    platform: Platform,
    files: ModelFiles,
    { p, type, patches }: { readonly p: VisionParams; readonly type: ProjectorType; readonly patches: number },
    options: EncoderOptions,
  ): Promise<ImageEncoder> {
    const rules = weightRules(files, type);
    const size = planBytes(rules, p, { tokens: patches, inputs: inputSize(p) });
    return new ImageEncoder(await Encoder.load(platform, files, rules, size, options), p, type);
  }

  /** Embeddings of an image: f32 [width, tokens]. Images are encoded one after the other. */
  encode(image: Picture, signal: AbortSignal | undefined, onProgress?: (fraction: number) => void): Promise<Float32Array> {
    const { p, type } = this;
    const grid = gridOf(p, type, [image.width, image.height]);
    const graph: EncoderGraph = {
      key: `${image.width} x ${image.height}`,
      ne: [inputSize(p), grid.places.length],
      build: (pixels, source) => type.build(new Tower(p, type, grid, pixels, source)),
    };
    return this.encoder.encode(graph, patchColumns(image, grid, p, type.pixel), signal, onProgress);
  }

  dispose(): Promise<void> {
    return this.encoder.dispose();
  }
}
