/**
 * Encoder of images on an engine of its own: its weights in memory, packed, and the plan of the
 * size of image that was encoded last.
 */
import { fromBf16, fromF16 } from '../core/float16.ts';
import { createEngineOn } from '../core/create.ts';
import type { Engine, Plan } from '../core/engine.ts';
import { QuantletError } from '../errors.ts';
import type { TensorInfo } from '../gguf/types.ts';
import { leaf, type Tensor } from '../graph/tensor.ts';
import { tensorBytes, type ModelFiles } from '../io/model-files.ts';
import type { Platform, Turbo } from '../platform.ts';
import { rowSize, TYPE, type TypeName } from '../type-traits.ts';
import { MEMORY_LIMIT } from '../wasm/memory.ts';
import { blockOrder, patchColumns, type Grid } from './grid.ts';
import type { VisionParams } from './params.ts';
import type { Picture } from './picture.ts';
import type { ProjectorType } from './projector.ts';
import { Tower, type TowerSource } from './tower.ts';

/** Most patches of an image: four times what llama.cpp's largest types have. */
export const MAX_PATCHES = 1 << 16;

/** True for tensors that only the host reads: the table of positions, and bounds of products. */
const isTable = (name: string): boolean => name === 'v.position_embd.weight' || /\.(input|output)_(min|max)$/.test(name);

/** Tensors that encoders for images do not read: those for sound, and tables that are computed. */
const UNREAD = /^(a|mm\.a)\.|^resampler\.pos_embed/;

/** Tensors of the encoder for images. */
export const towerTensors = (files: Pick<ModelFiles, 'gguf'>): TensorInfo[] =>
  [...files.gguf.tensors.values()].filter(({ name }) => !UNREAD.test(name));

/** Dimensions of a weight in the graph: kernels of convolutions are matrices, and some are turned. */
function shapeOf({ name, ne }: TensorInfo, { transposed = [] }: ProjectorType): readonly number[] {
  if ((ne[3] ?? 1) > 1) return [ne[0] * ne[1] * ne[2], ne[3]];
  return transposed.includes(name) ? [ne[1], ne[0]] : ne;
}

/**
 * Graph of the encoder without memory, to check a file's shapes before a weight is read.
 * @returns the width of its embeddings
 * @throws ERR_MISSING_TENSOR, ERR_TENSOR_SHAPE
 */
export function checkedWidth(p: VisionParams, type: ProjectorType, files: Pick<ModelFiles, 'gguf'>): number {
  const merge = type.merge(p);
  const grid = gridOf(p, type, type.layout(p, p.imageSize, p.imageSize, {}).sizes[0]);
  const leaves = new Map(
    towerTensors(files).map((info): [string, Tensor] => {
      const [n0, n1 = 1, n2 = 1, n3 = 1] = shapeOf(info, type);
      return [info.name, leaf(info.name, info.type, [n0, n1, n2, n3])];
    }),
  );
  const tower = new Tower(p, type, grid, leaf('pixels', TYPE.f32, [3 * p.patch * p.patch, grid.places.length, 1, 1]), {
    find: (name) => leaves.get(name),
    table(name) {
      const info = isTable(name) ? files.gguf.tensors.get(name) : undefined;
      return info && new Float32Array(info.ne.reduce((a, b) => a * b, 1));
    },
    input: (name, kind, [n0, n1 = 1]) => leaf(name, TYPE[kind], [n0, n1, 1, 1]),
  });
  if (merge < 1) throw new QuantletError('ERR_GGUF_INVALID', `mmproj merges ${merge} patches; expected at least 1`);
  return type.build(tower).ne[0];
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

/** Bytes that a plan takes for so many patches, from above: states, heads, feed-forward, pixels. */
function planBytes(p: VisionParams, patches: number, nFf: number): number {
  return 4 * patches * (14 * p.nEmbd + 3 * nFf + 3 * p.patch * p.patch) + (64 << 20);
}

interface Ready {
  readonly plan: Plan;
  readonly grid: Grid;
  readonly pixels: Tensor;
  readonly inputs: readonly Tensor[];
  readonly result: Tensor;
}

export class Encoder {
  private readonly engine: Engine;
  private readonly p: VisionParams;
  private readonly type: ProjectorType;
  private readonly weights: ReadonlyMap<string, Tensor>;
  private readonly tables: ReadonlyMap<string, Float32Array>;
  private ready: (Ready & { readonly key: string }) | undefined;

  private constructor(
    engine: Engine,
    p: VisionParams,
    type: ProjectorType,
    weights: ReadonlyMap<string, Tensor>,
    tables: ReadonlyMap<string, Float32Array>,
  ) {
    this.engine = engine;
    this.p = p;
    this.type = type;
    this.weights = weights;
    this.tables = tables;
  }

  /**
   * Starts an engine and reads the weights.
   * @param patches most patches of an image
   * @throws ERR_OUT_OF_MEMORY; what reading throws; signal.reason
   */
  static async load(
    platform: Platform,
    files: ModelFiles,
    { p, type }: { readonly p: VisionParams; readonly type: ProjectorType },
    options: {
      readonly patches: number;
      readonly threads: number | undefined;
      readonly build: string | undefined;
      readonly turbo: Turbo | undefined;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<Encoder> {
    const infos = towerTensors(files);
    const bytes = infos.reduce((sum, { byteLength, type: t, ne }) => sum + byteLength + 16 * rowSize(t, ne[0]) + 256, 0);
    const nFf = Math.max(
      ...infos.filter(({ name }) => /\.ffn_(up|down)\.weight$/.test(name)).map(({ ne }) => Math.max(ne[0], ne[1])),
      p.nEmbd,
    );
    const memoryBytes = Math.min(Math.ceil(1.05 * bytes) + planBytes(p, options.patches, nFf), MEMORY_LIMIT - (1 << 20));
    const { threads, build, turbo, signal } = options;
    const engine = await createEngineOn(platform, { threads, build: build as never, turbo, memoryBytes });
    try {
      const weights = new Map<string, Tensor>();
      const tables = new Map<string, Float32Array>();
      for (const info of infos) {
        signal?.throwIfAborted();
        const data = await tensorBytes(files.parts, info, signal);
        if (isTable(info.name)) tables.set(info.name, floatsOf(info, data));
        else weights.set(info.name, await makeWeight(engine, info, data, type));
      }
      return new Encoder(engine, p, type, weights, tables);
    } catch (error) {
      await engine.dispose();
      throw error;
    }
  }

  /** Embeddings of an image: f32 [width, tokens]. Images are encoded one after the other. */
  async encode(image: Picture, signal: AbortSignal | undefined, onProgress?: (fraction: number) => void): Promise<Float32Array> {
    const { engine } = this;
    const { plan, grid, pixels, result } = this.planFor(image.width, image.height);
    engine.write(pixels, patchColumns(image, grid, this.p, this.type.pixel));
    await engine.compute(plan, { signal, onProgress });
    return Float32Array.from(engine.read(result as Tensor<'f32'>));
  }

  /** The plan for images of a size. One plan is kept, because most pictures are cut to equal images. */
  private planFor(width: number, height: number): Ready {
    const key = `${width} x ${height}`;
    if (this.ready?.key === key) return this.ready;
    this.drop();
    const { engine, p, type, weights, tables } = this;
    const grid = gridOf(p, type, [width, height]);
    const pixels = engine.tensor('f32', [3 * p.patch * p.patch, grid.places.length]);
    const inputs: Tensor[] = [pixels];
    const source: TowerSource = {
      find: (name) => weights.get(name),
      table: (name) => tables.get(name),
      input(name, kind, ne, values) {
        const t = engine.tensor(kind, ne, { data: values, name });
        inputs.push(t);
        return t;
      },
    };
    try {
      const result = type.build(new Tower(p, type, grid, pixels, source));
      this.ready = { key, plan: engine.plan(result), grid, pixels, inputs, result };
      return this.ready;
    } catch (error) {
      for (const t of inputs) engine.free(t);
      throw error;
    }
  }

  private drop(): void {
    if (!this.ready) return;
    const { plan, inputs } = this.ready;
    this.ready = undefined;
    plan.dispose();
    for (const t of inputs) this.engine.free(t);
  }

  dispose(): Promise<void> {
    return this.engine.dispose();
  }
}

async function makeWeight(engine: Engine, info: TensorInfo, data: Uint8Array, type: ProjectorType): Promise<Tensor> {
  const turned = type.transposed?.includes(info.name) ? transposed(info, data) : data;
  const weight = engine.tensor(info.type.name as TypeName, shapeOf(info, type), { data: turned.slice(), name: info.name });
  // Matrices are operands of products, other tensors with rows are not (resampler.query).
  if (weight.ne[1] > 1 && info.name.endsWith('.weight')) await engine.pack(weight);
  return weight;
}

/** Elements of a matrix [n, m] as those of [m, n]. */
function transposed({ name, type, ne: [n, m] }: TensorInfo, data: Uint8Array): Uint8Array {
  if (type.blckSize > 1) throw new QuantletError('ERR_UNSUPPORTED_TYPE', `tensor "${name}" is ${type.name}; expected f16, bf16 or f32`);
  const size = type.typeSize;
  const out = new Uint8Array(data.length);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < m; j++) for (let b = 0; b < size; b++) out[size * (i * m + j) + b] = data[size * (j * n + i) + b];
  return out;
}

/** Numbers of a table of f32, f16 or bf16. */
function floatsOf({ name, type }: TensorInfo, data: Uint8Array): Float32Array {
  const bytes = data.slice().buffer;
  if (type === TYPE.f32) return new Float32Array(bytes);
  if (type !== TYPE.f16 && type !== TYPE.bf16)
    throw new QuantletError('ERR_UNSUPPORTED_TYPE', `tensor "${name}" is ${type.name}; expected f32, f16 or bf16`);
  return Float32Array.from(new Uint16Array(bytes), type === TYPE.f16 ? fromF16 : fromBf16);
}
